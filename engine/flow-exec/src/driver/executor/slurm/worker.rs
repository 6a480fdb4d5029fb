//! The thread that talks to Slurm: submits jobs, queries the queue for all jobs at once, reads the files of the nodes,
//! and cancels jobs. A missing answer says nothing about any job.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use flow_core::{AttemptId, reason::StartFault};
use flow_slurm::{JobId, Limits, RefusalKind, Row, SubmitRefusal};
use flow_supervisor::clock;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    Settings, SlurmRequest,
    book::Book,
    client::{Client, JobNames, NoAnswer, Silence},
    jobs::{BatchJob, JobUpdate, Stage, Timeouts},
    submit,
};
use crate::driver::executor::{Event, Work};

/// How long to wait for further starts for the same array: after the last one, and after the first one.
const GATHER: (Duration, Duration) = (Duration::from_millis(60), Duration::from_millis(500));
/// Interval between looks at the wake-ups from nodes.
const LISTEN: Duration = Duration::from_millis(100);
/// Interval of queue queries while something must be known soon.
const SOON: Duration = Duration::from_secs(1);
/// Pause after Slurm has refused jobs or has not answered.
const HOLD: Duration = Duration::from_secs(30);
/// Limit for the wait for a record during the end of a run, because a cancelled job leaves none.
const HURRIED: Duration = Duration::from_secs(2);
/// Minimum number of simultaneous starts for an array.
const WORTH_AN_ARRAY: usize = 2;
/// Interval between two notices of submitted jobs, because a long run submits a job whenever one ends.
const ANNOUNCE: Duration = Duration::from_secs(10);

pub(super) struct Worker {
    settings: Settings,
    client: Client,
    events: UnboundedSender<Event>,
    book: Book,
    limits: Option<Limits>,
    /// Limit of tasks in an array, after Slurm had no room for more.
    most: usize,
    /// When the first and the last of the jobs to submit arrived.
    came: Option<(Instant, Instant)>,
    hold: Option<Instant>,
    polled_at: Option<Instant>,
    listened_at: Option<Instant>,
    changed_at: Instant,
    /// When the last attempt was killed: others may follow.
    killed_at: Option<Instant>,
    /// Jobs that should have ended are left to the next run, because Slurm did not answer.
    leaves: bool,
    /// Jobs that were given up: if Slurm has one after all, it must end.
    given_up: JobNames,
    /// The run must end.
    hurry: Arc<AtomicBool>,
    sent: BTreeSet<String>,
    /// Submitted jobs that no notice has named yet: the job's number and its tasks.
    unannounced: Vec<(u32, usize)>,
    announced_at: Option<Instant>,
}

impl Worker {
    pub(super) fn new(settings: Settings, tell: UnboundedSender<Event>, hurry: Arc<AtomicBool>) -> Worker {
        let teller = tell.clone();
        let silence = Silence::new(move |text| _ = teller.send(Event::Notice(text)));
        Worker {
            client: Client::with(settings.environment.clone(), Arc::clone(&hurry), silence),
            book: Book::new(settings.dir.clone()),
            settings,
            events: tell,
            limits: None,
            most: usize::MAX,
            came: None,
            hold: None,
            polled_at: None,
            listened_at: None,
            changed_at: clock::steady(),
            killed_at: None,
            leaves: false,
            given_up: JobNames::new(),
            hurry,
            sent: BTreeSet::new(),
            unannounced: Vec::new(),
            announced_at: None,
        }
    }

    /// The main function of the thread, until all senders are gone.
    pub(super) fn run(mut self, requests: &Receiver<SlurmRequest>) {
        loop {
            match requests.recv_timeout(self.pause()) {
                Ok(ask) => {
                    self.take(ask);
                    requests.try_iter().collect::<Vec<_>>().into_iter().for_each(|ask| self.take(ask));
                    self.book.tick_off();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.came.is_none_or(|(first, last)| clock::since(last) >= GATHER.0 || clock::since(first) >= GATHER.1) {
                self.came = None;
                self.submit();
                self.announce();
            }
            if due(self.listened_at, LISTEN) {
                self.listened_at = Some(clock::steady());
                for first in self.book.woken() {
                    self.with(first, BatchJob::look);
                }
            }
            if self.book.is_any_submitted() && due(self.polled_at, self.poll_every()) {
                if !self.leaves {
                    self.poll();
                }
                self.polled_at = Some(clock::steady());
                let patience = self.patience();
                for first in self.book.firsts(BatchJob::may_run) {
                    self.with(first, BatchJob::look);
                    self.with(first, |job| job.conclude(patience));
                }
            }
            self.cancel();
        }
    }

    fn pause(&self) -> Duration {
        if self.came.is_some() {
            return GATHER.0;
        }
        if self.book.is_empty() { Duration::from_secs(3600) } else { LISTEN }
    }

    fn poll_every(&self) -> Duration {
        let base = self.settings.poll;
        if let Some(since) = self.client.silent_since().filter(|_| !self.leaves) {
            return (clock::since(since) / 4).max(SOON).min(base);
        }
        if self.book.is_to_be_known_soon() {
            return base.min(SOON);
        }
        flow_slurm::poll_interval(clock::since(self.changed_at), base)
    }

    fn patience(&self) -> Timeouts {
        let base = self.settings.poll;
        let grace = (base * 2).clamp(HURRIED, Duration::from_secs(60));
        let grace = if self.hurry.load(Ordering::Relaxed) { HURRIED } else { grace };
        Timeouts {
            grace,
            silence: grace.max(Duration::from_secs(5))
                + base.clamp(Duration::from_secs(1), Duration::from_secs(10)) * 3,
        }
    }

    fn take(&mut self, ask: SlurmRequest) {
        match ask {
            SlurmRequest::Start(gang) => self.start(gang),
            SlurmRequest::Kill { attempt, grace } => self.kill(attempt, grace),
            SlurmRequest::Settled { attempt } => self.book.settled(attempt),
        }
    }

    fn start(&mut self, gang: Vec<Work>) {
        let attempts: Vec<AttemptId> = gang.iter().map(|work| work.program.attempt).collect();
        match submit::job(&self.settings, gang) {
            Ok(Some(mut job)) => {
                self.send_all(job.is_queued());
                let (now, stage) = (clock::steady(), job.stage);
                self.changed_at = now;
                let first = self.book.add(job);
                match stage {
                    Stage::ToSubmit => self.came = Some((self.came.map_or(now, |(first, _)| first), now)),
                    // It may have written something, with a wake-up, before this run listened.
                    Stage::Unsure { .. } | Stage::InQueue => _ = first.map(|first| self.with(first, BatchJob::look)),
                }
            }
            Ok(None) => {}
            Err(error) => attempts.into_iter().for_each(|attempt| {
                let reason = StartFault::JobNotWritten { error: Box::new((&error).into()) }.into();
                let _ = self.events.send(Event::SpawnFailed { attempt, reason });
            }),
        }
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        // A bit longer than the node needs, which sees the file a little later.
        let by = clock::steady() + grace + if grace.is_zero() { Duration::ZERO } else { SOON * 2 };
        self.book.kill(attempt, by, grace);
        self.killed_at = Some(clock::steady());
    }

    /// Applies `what` to a job, and sends the resulting events.
    fn with(&mut self, first: AttemptId, what: impl Fn(&mut BatchJob) -> JobUpdate) {
        let Some(job) = self.book.job(first) else { return };
        let update = what(job);
        if update.changed {
            self.changed_at = clock::steady();
        }
        if update.cancel {
            self.given_up.insert((job.intent.key.clone(), job.task()));
        }
        self.send_all(update.events);
        if let Some((reason, text)) = update.stuck {
            // Shown once for a whole sweep.
            self.notice(reason, text);
        }
        self.book.see(first);
    }

    fn send_all(&self, events: Vec<Event>) {
        for event in events {
            let _ = self.events.send(event);
        }
    }

    /// Sends a notice once.
    fn notice(&mut self, what: impl Into<String>, text: String) {
        if self.sent.insert(what.into()) {
            let _ = self.events.send(Event::Notice(text));
        }
    }

    /// Submits the waiting jobs in the scheduler's order, equal ones as an array.
    fn submit(&mut self) {
        if self.hold.is_some_and(|until| clock::steady() < until) {
            return;
        }
        self.hold = None;
        self.end_unsubmitted();
        while self.hold.is_none() {
            let alike = self.book.alike();
            let most = match alike.len() {
                0 => return,
                1..WORTH_AN_ARRAY => 1,
                many => self.array_size(many).clamp(1, many),
            };
            self.submit_these(&alike[..most]);
        }
    }

    /// How many of the equal jobs one array may have.
    fn array_size(&mut self, alike: usize) -> usize {
        if self.most <= 1 {
            return 1;
        }
        if self.limits.is_none() {
            // Without an answer about the limits, no arrays are used.
            self.limits = self.client.limits().ok();
        }
        let Some(limits) = &self.limits else { return 1 };
        // Jobs of other users and past jobs count as well.
        let sizes =
            flow_slurm::chunks(u32::try_from(alike.min(self.most)).unwrap_or(u32::MAX), limits, limits.jobs / 2);
        sizes.first().map_or(1, |size| *size as usize)
    }

    fn submit_these(&mut self, which: &[AttemptId]) {
        let request = self.book.write(which, |jobs| match jobs {
            [one] => submit::one(&self.settings, one),
            many => submit::array(&self.settings, many),
        });
        let answer = match request {
            Ok(request) => self.client.submit(&request),
            Err(error) => Ok(Err(SubmitRefusal {
                why: RefusalKind::Refused,
                text: format!("its job cannot be recorded: {error}"),
            })),
        };
        match answer {
            Ok(Ok(id)) => self.submitted(which, id),
            Ok(Err(refused)) => self.refused(which, refused),
            Err(NoAnswer::NotInstalled { command }) => {
                let text = format!("`{command}` is not on the PATH");
                self.refused(which, SubmitRefusal { why: RefusalKind::Refused, text });
            }
            Err(error) => self.refused(which, SubmitRefusal { why: RefusalKind::Unreachable, text: error.to_string() }),
        }
    }

    fn submitted(&mut self, which: &[AttemptId], id: JobId) {
        let events = self.book.submitted(which, id);
        self.send_all(events);
        self.unannounced.push((id.job, which.len()));
        // There may be room again for larger arrays.
        self.most = if self.most > 1 || which.len() > 1 { self.most.saturating_mul(2) } else { 2 };
        self.changed_at = clock::steady();
        self.polled_at.get_or_insert(self.changed_at);
    }

    /// Sends one notice with the numbers of all jobs that were submitted since the last one.
    fn announce(&mut self) {
        if self.unannounced.is_empty() || !due(self.announced_at, ANNOUNCE) {
            return;
        }
        self.announced_at = Some(clock::steady());
        let text = submitted_jobs(&std::mem::take(&mut self.unannounced));
        let _ = self.events.send(Event::Notice(text));
    }

    fn refused(&mut self, which: &[AttemptId], refused: SubmitRefusal) {
        let SubmitRefusal { why, text } = refused;
        match why {
            RefusalKind::Refused => {
                for first in which {
                    let update =
                        |job: &mut BatchJob| JobUpdate { events: job.refused(text.clone()), ..JobUpdate::default() };
                    self.with(*first, update);
                }
            }
            RefusalKind::Array => self.most = 1,
            RefusalKind::SubmitLimit if which.len() > 1 => self.most = which.len() / 2,
            RefusalKind::SubmitLimit => {
                self.notice("limit", format!("Slurm accepts no more of your jobs for now: {text}; the others wait"));
                self.hold = Some(clock::steady() + self.settings.poll.min(HOLD));
            }
            RefusalKind::Unreachable | RefusalKind::Unknown => {
                self.book.put(which, Stage::Unsure { looks: 0 });
                self.notice("unsure", format!("Slurm did not confirm a job: {text}; flow will check its queue"));
                self.hold = Some(clock::steady() + self.settings.poll.min(HOLD));
            }
        }
    }

    /// Queries the queue once for all jobs.
    fn poll(&mut self) {
        let rows = match self.client.queue() {
            Ok(rows) => rows,
            // The client reports silence.
            Err(_) if self.client.silent_since().is_some() => return,
            Err(error) => {
                let text = format!("Slurm's queue cannot be read: {error}; its jobs continue, and flow asks again");
                return self.notice("unread", text);
            }
        };
        let by_name = by_name(&rows);
        for first in self.book.firsts(|job| job.stage != Stage::ToSubmit) {
            let Some(job) = self.book.job(first) else { continue };
            let row = by_name.get(&(&*job.intent.key, job.task())).copied();
            match job.stage {
                Stage::Unsure { looks } if row.is_none() => {
                    let again = looks >= 1;
                    let stage = if again { Stage::ToSubmit } else { Stage::Unsure { looks: looks + 1 } };
                    self.book.put(&[first], stage);
                    continue;
                }
                Stage::Unsure { .. } => self.book.put(&[first], Stage::InQueue),
                Stage::InQueue | Stage::ToSubmit => {}
            }
            self.with(first, |job| job.seen(row));
        }
        self.account();
    }

    /// Queries the accounting database, if there is one, once for each job that the queue lacks.
    fn account(&mut self) {
        let missing = self.book.firsts(|job| job.is_missing() && !job.accounted);
        if missing.is_empty() {
            return;
        }
        let keys: BTreeSet<String> =
            missing.iter().filter_map(|first| Some(self.book.job(*first)?.intent.key.clone())).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let rows = self.client.accounting(&keys).unwrap_or_default();
        let by_name = by_name(&rows);
        for first in missing {
            let Some(job) = self.book.job(first) else { continue };
            job.accounted = true;
            if let Some(row) = by_name.get(&(&*job.intent.key, job.task())) {
                job.accounted(row);
            }
        }
    }

    /// Ends killed jobs that were never submitted, without Slurm.
    fn end_unsubmitted(&mut self) {
        for first in self.book.unsubmitted_and_killed() {
            self.with(first, |job| JobUpdate { events: job.end_unsubmitted(), ..JobUpdate::default() });
        }
    }

    /// Asks Slurm to cancel killed jobs, repeatedly until they are gone.
    fn cancel(&mut self) {
        self.end_unsubmitted();
        let mut which = std::mem::take(&mut self.given_up);
        if due(self.killed_at, GATHER.0) {
            which.extend(self.book.cancels(SOON * 5));
        }
        if !which.is_empty()
            && !self.leaves
            && let Err(error) = self.client.cancel(&which)
            && self.hurry.load(Ordering::Relaxed)
        {
            self.leaves = true;
            let _ = self.events.send(Event::Notice(format!("Slurm does not answer: {error}")));
        }
        if self.leaves {
            self.leave();
        }
    }

    /// Leaves jobs in the queue for the next run, because Slurm cannot be asked to cancel them and a user waits.
    fn leave(&mut self) {
        let now = clock::steady();
        let left = self.book.firsts(|job| job.to_cancel(now));
        let Some(text) = super::queue_notice(left.len()) else { return };
        let _ = self.events.send(Event::Notice(text));
        for first in left {
            let events = self.book.leave(first);
            self.send_all(events);
        }
    }
}

/// `submitted to Slurm: array 7 (12 tasks), job 8`.
fn submitted_jobs(jobs: &[(u32, usize)]) -> String {
    const NAMED: usize = 5;
    let name = |(job, tasks): &(u32, usize)| match tasks {
        1 => format!("job {job}"),
        tasks => format!("array {job} ({tasks} tasks)"),
    };
    let more = jobs.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    let named: Vec<String> = jobs.iter().take(NAMED).map(name).chain(more).collect();
    format!("submitted to Slurm: {}", named.join(", "))
}

fn due(last: Option<Instant>, every: Duration) -> bool {
    last.is_none_or(|last| clock::since(last) >= every)
}

/// Rows by name and task. Among those with the same name, prefers a running job, then the one that claimed the folder.
fn by_name(rows: &[Row]) -> BTreeMap<(&str, Option<u32>), &Row> {
    let rank = |row: &&Row| match flow_slurm::job_state(row) {
        flow_slurm::JobState::Running | flow_slurm::JobState::Suspended => 3,
        flow_slurm::JobState::Ended(flow_slurm::JobResult::Failed(flow_supervisor::node::CLAIMED)) => 0,
        flow_slurm::JobState::Ended(_) => 1,
        _ => 2,
    };
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_cached_key(rank);
    rows.into_iter().map(|row| ((&*row.key, row.id.task), row)).collect()
}

#[cfg(test)]
mod tests {
    use super::submitted_jobs;

    #[test]
    fn submitted_jobs_have_one_line() {
        assert_eq!(submitted_jobs(&[(7, 12), (8, 1)]), "submitted to Slurm: array 7 (12 tasks), job 8");
        let singles: Vec<(u32, usize)> = (1..=7).map(|job| (job, 1)).collect();
        assert_eq!(submitted_jobs(&singles), "submitted to Slurm: job 1, job 2, job 3, job 4, job 5, 2 more");
    }
}
