//! The thread that talks to Slurm: submits what is to start, asks its queue for all jobs at once, looks at their files in between, and
//! ends what is to end. An answer that cannot be had says nothing about any job.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use flow_core::AttemptId;
use flow_slurm::{JobId, Limits, Refused, Row, Why};
use tokio::sync::mpsc::UnboundedSender;

use super::{
    Ask, Settings,
    client::{Client, NoAnswer},
    jobs::{BatchJob, News, Patience, Stage},
    submit,
};
use crate::{
    clock,
    driver::{
        executor::{Event, Work},
        intents::Intent,
    },
    node::NodeFiles,
};

/// How long further starts are waited for, which one array may take together.
const GATHER: Duration = Duration::from_millis(60);
/// How often, at most, files are looked at.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How soon the queue is asked again while something is to be known at once.
const SOON: Duration = Duration::from_secs(1);
/// How long Slurm is left alone that takes no more jobs, or does not answer.
const HOLD: Duration = Duration::from_secs(30);
/// Of so many that start at once an array is made.
const WORTH_AN_ARRAY: usize = 2;

pub(super) struct Worker {
    settings: Settings,
    client: Client,
    tell: UnboundedSender<Event>,
    /// In the order in which they came.
    jobs: Vec<BatchJob>,
    /// What is written down, until what came of all attempts in it is safe.
    written: Vec<(Intent, BTreeSet<AttemptId>)>,
    limits: Option<Limits>,
    /// An array has no more tasks than this: Slurm had no room for more.
    most: usize,
    came_at: Option<Instant>,
    hold: Option<Instant>,
    polled_at: Option<Instant>,
    looked_at: Option<Instant>,
    changed_at: Instant,
    silent: bool,
    said: BTreeSet<String>,
}

impl Worker {
    pub(super) fn new(settings: Settings, tell: UnboundedSender<Event>) -> Worker {
        Worker {
            client: Client::with(settings.environment.clone()),
            settings,
            tell,
            jobs: Vec::new(),
            written: Vec::new(),
            limits: None,
            most: usize::MAX,
            came_at: None,
            hold: None,
            polled_at: None,
            looked_at: None,
            changed_at: clock::steady(),
            silent: false,
            said: BTreeSet::new(),
        }
    }

    /// The life of the thread: until nobody asks any more.
    pub(super) fn run(mut self, asked: &Receiver<Ask>) {
        loop {
            match asked.recv_timeout(self.pause()) {
                Ok(ask) => {
                    self.take(ask);
                    asked.try_iter().collect::<Vec<_>>().into_iter().for_each(|ask| self.take(ask));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.came_at.is_none_or(|at| clock::since(at) >= GATHER) {
                self.came_at = None;
                self.submit();
            }
            if due(self.looked_at, self.look_every()) {
                self.looked_at = Some(clock::steady());
                self.each(BatchJob::look);
            }
            if self.wants_poll() && due(self.polled_at, self.poll_every()) {
                self.poll();
                let patience = self.patience();
                self.each(|job| job.conclude(patience));
            }
            self.cancel();
            self.jobs.retain(|job| !job.is_over());
        }
    }

    fn pause(&self) -> Duration {
        if self.came_at.is_some() {
            return GATHER;
        }
        if self.jobs.is_empty() { Duration::from_secs(3600) } else { self.look_every() }
    }

    fn look_every(&self) -> Duration {
        (self.settings.poll / 8).clamp(LOOK.0, LOOK.1)
    }

    fn poll_every(&self) -> Duration {
        let base = self.settings.poll;
        let at_once = self.jobs.iter().any(|job| job.is_killed() || matches!(job.stage, Stage::Unsure { .. }));
        if at_once && !self.silent {
            return base.min(SOON);
        }
        flow_slurm::poll_interval(clock::since(self.changed_at), base)
    }

    fn wants_poll(&self) -> bool {
        self.jobs.iter().any(|job| job.stage != Stage::ToSubmit)
    }

    fn patience(&self) -> Patience {
        let base = self.settings.poll;
        let grace = (base * 2).clamp(Duration::from_secs(2), Duration::from_secs(60));
        Patience {
            grace,
            silence: grace.max(Duration::from_secs(5))
                + base.clamp(Duration::from_secs(1), Duration::from_secs(10)) * 3,
        }
    }

    fn take(&mut self, ask: Ask) {
        match ask {
            Ask::Start(unit) => self.start(unit),
            Ask::Kill { attempt, grace } => self.kill(attempt, grace),
            Ask::Settled { attempt } => self.settled(attempt),
        }
    }

    fn start(&mut self, unit: Vec<Work>) {
        let attempts: Vec<AttemptId> = unit.iter().map(|work| work.program.attempt).collect();
        match submit::job(&self.settings, unit) {
            Ok(Some(mut job)) => {
                self.tell_all(job.is_queued());
                self.written.push((job.intent.clone(), attempts.into_iter().collect()));
                self.came_at = Some(clock::steady());
                self.changed_at = clock::steady();
                self.jobs.push(job);
            }
            Ok(None) => {}
            Err(error) => attempts.into_iter().for_each(|attempt| {
                let reason = format!("what its job needs cannot be written: {error}");
                let _ = self.tell.send(Event::SpawnFailed { attempt, reason });
            }),
        }
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.members.iter().any(|member| member.attempt == attempt))
        else {
            return;
        };
        // A moment more than the node takes: it sees the file a little later.
        let by = clock::steady() + grace + if grace.is_zero() { Duration::ZERO } else { SOON * 2 };
        for member in job.members.iter_mut().filter(|member| member.attempt == attempt && !member.ended) {
            member.killed = Some(member.killed.map_or(by, |before| before.min(by)));
            // Where it cannot be written, Slurm ends the job.
            let _ = NodeFiles::of(&member.folder).ask_to_end(grace);
        }
        job.cancelled = None;
    }

    fn settled(&mut self, attempt: AttemptId) {
        let dir = &self.settings.dir;
        self.written.retain_mut(|(intent, attempts)| {
            if attempts.remove(&attempt) && attempts.is_empty() {
                intent.remove(dir);
                return false;
            }
            true
        });
    }

    /// Does something with each job, and tells what comes of it.
    fn each(&mut self, what: impl Fn(&mut BatchJob) -> News) {
        for n in 0..self.jobs.len() {
            if self.jobs[n].stage != Stage::ToSubmit && !self.jobs[n].is_over() {
                let news = what(&mut self.jobs[n]);
                self.heard(n, news);
            }
        }
    }

    fn heard(&mut self, n: usize, news: News) {
        if news.changed {
            self.changed_at = clock::steady();
        }
        if news.cancel {
            let job = &self.jobs[n];
            self.client.cancel(&job.intent.key, job.intent.job.filter(|_| job.intent.task.is_some()));
        }
        self.tell_all(news.events);
        if let Some((reason, text)) = news.stuck {
            // Once for all of a sweep.
            self.say(reason, text);
        }
    }

    fn tell_all(&self, events: Vec<Event>) {
        for event in events {
            let _ = self.tell.send(event);
        }
    }

    /// Tells people something once.
    fn say(&mut self, what: impl Into<String>, text: String) {
        if self.said.insert(what.into()) {
            let _ = self.tell.send(Event::Notice(text));
        }
    }

    /// Submits what waits for it, equal ones together.
    fn submit(&mut self) {
        if self.hold.is_some_and(|until| clock::steady() < until) {
            return;
        }
        self.hold = None;
        for n in 0..self.jobs.len() {
            let job = &mut self.jobs[n];
            if job.stage == Stage::ToSubmit && !job.is_over() && job.to_cancel(clock::steady()) {
                let events = job.never_mind();
                self.tell_all(events);
            }
        }
        while self.hold.is_none() {
            let waits = |job: &&BatchJob| job.stage == Stage::ToSubmit && !job.is_over();
            let Some(first) = self.jobs.iter().position(|job| waits(&job)) else { return };
            let alike: Vec<usize> = (first..self.jobs.len())
                .filter(|n| {
                    *n == first || waits(&&self.jobs[*n]) && submit::are_alike(&self.jobs[first], &self.jobs[*n])
                })
                .collect();
            let most = if alike.len() >= WORTH_AN_ARRAY { self.array_size(alike.len()) } else { 1 };
            self.submit_these(&alike[..most.max(1).min(alike.len())]);
        }
    }

    /// How many of so many one array may have.
    fn array_size(&mut self, alike: usize) -> usize {
        if self.most <= 1 {
            return 1;
        }
        if self.limits.is_none() {
            // Where it cannot be asked there are no arrays.
            self.limits = self.client.limits().ok();
        }
        let Some(limits) = &self.limits else { return 1 };
        // Jobs of others and of the past count as well.
        let sizes =
            flow_slurm::chunks(u32::try_from(alike.min(self.most)).unwrap_or(u32::MAX), limits, limits.jobs / 2);
        sizes.first().map_or(1, |size| *size as usize)
    }

    fn submit_these(&mut self, which: &[usize]) {
        let mut these: Vec<&mut BatchJob> =
            self.jobs.iter_mut().enumerate().filter(|(n, _)| which.contains(n)).map(|(_, job)| job).collect();
        let request = match these.as_mut_slice() {
            [one] => submit::one(&self.settings, one),
            many => submit::array(&self.settings, many),
        };
        let answer = match request {
            Ok(request) => self.client.submit(&request),
            Err(error) => {
                Ok(Err(Refused { why: Why::Usage, text: format!("its job cannot be written down: {error}") }))
            }
        };
        for n in which {
            let intent = &self.jobs[*n].intent;
            let own =
                |attempts: &BTreeSet<AttemptId>| self.jobs[*n].members.iter().any(|m| attempts.contains(&m.attempt));
            if let Some((known, _)) = self.written.iter_mut().find(|(_, attempts)| own(attempts)) {
                known.clone_from(intent);
            }
        }
        match answer {
            Ok(Ok(id)) => self.submitted(which, id),
            Ok(Err(refused)) => self.refused(which, refused),
            Err(NoAnswer::NotInstalled { command }) => {
                let text = format!("`{command}` is not on the PATH");
                self.refused(which, Refused { why: Why::Usage, text });
            }
            Err(error) => self.refused(which, Refused { why: Why::Unreachable, text: error.to_string() }),
        }
    }

    fn submitted(&mut self, which: &[usize], id: JobId) {
        for n in which {
            let job = &mut self.jobs[*n];
            job.intent.job = Some(JobId { job: id.job, task: job.intent.task });
            job.stage = Stage::InQueue;
            // By its name it is found without it.
            let _ = job.intent.note(&self.settings.dir);
            let events = job.is_queued();
            self.tell_all(events);
        }
        // What there was no room for before there may be again.
        self.most = if self.most > 1 || which.len() > 1 { self.most.saturating_mul(2) } else { 2 };
        self.changed_at = clock::steady();
        self.polled_at.get_or_insert(self.changed_at);
        self.looked_at.get_or_insert(self.changed_at);
    }

    fn refused(&mut self, which: &[usize], refused: Refused) {
        let Refused { why, text } = refused;
        match why {
            Why::Impossible | Why::NotAllowed | Why::Usage => {
                for n in which {
                    let events = self.jobs[*n].refused(text.clone());
                    self.tell_all(events);
                }
            }
            Why::Array => self.most = 1,
            Why::SubmitLimit if which.len() > 1 => self.most = which.len() / 2,
            Why::SubmitLimit => {
                self.say("limit", format!("Slurm takes no more jobs of yours for now: {text}; the others wait"));
                self.hold = Some(clock::steady() + self.settings.poll.min(HOLD));
            }
            Why::Unreachable | Why::Unknown => {
                which.iter().for_each(|n| self.jobs[*n].stage = Stage::Unsure { looks: 0 });
                self.say("unsure", format!("Slurm did not say whether it took a job: {text}; its queue will tell"));
                self.hold = Some(clock::steady() + self.settings.poll.min(HOLD));
            }
        }
    }

    /// Asks the queue once for all.
    fn poll(&mut self) {
        let answer = self.client.queue();
        self.polled_at = Some(clock::steady());
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                if !std::mem::replace(&mut self.silent, true) {
                    let text = format!("Slurm does not answer: {error}; its jobs go on, and flow waits for it");
                    let _ = self.tell.send(Event::Notice(text));
                }
                return;
            }
        };
        if std::mem::take(&mut self.silent) {
            let _ = self.tell.send(Event::Notice("Slurm answers again".to_owned()));
        }
        let mut by_name: BTreeMap<(&str, Option<u32>), Vec<&Row>> = BTreeMap::new();
        rows.iter().for_each(|row| by_name.entry((&row.key, row.id.task)).or_default().push(row));
        for n in 0..self.jobs.len() {
            let job = &mut self.jobs[n];
            let row = by_name.get(&(&*job.intent.key, job.intent.task)).and_then(|rows| best(rows));
            match job.stage {
                Stage::ToSubmit => continue,
                Stage::Unsure { looks } if row.is_none() => {
                    let again = looks >= 1;
                    job.stage = if again { Stage::ToSubmit } else { Stage::Unsure { looks: looks + 1 } };
                    continue;
                }
                Stage::Unsure { .. } => job.stage = Stage::InQueue,
                Stage::InQueue => {}
            }
            let known = job.intent.job;
            let news = job.seen(row);
            if job.intent.job != known {
                let _ = job.intent.note(&self.settings.dir);
            }
            self.heard(n, news);
        }
        self.account();
    }

    /// Asks the accounting database for jobs that the queue has not, once each, where there is one.
    fn account(&mut self) {
        let missing = |job: &&mut BatchJob| job.is_missing() && !job.accounted && !job.is_over();
        let mut asked: Vec<&mut BatchJob> = self.jobs.iter_mut().filter(missing).collect();
        if asked.is_empty() {
            return;
        }
        let keys: BTreeSet<String> = asked.iter().map(|job| job.intent.key.clone()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let rows = self.client.accounting(&keys).unwrap_or_default();
        for job in &mut asked {
            job.accounted = true;
            let own: Vec<&Row> =
                rows.iter().filter(|row| row.key == job.intent.key && row.id.task == job.intent.task).collect();
            if let Some(row) = best(&own) {
                job.accounted(row);
            }
        }
    }

    /// Tells Slurm to end what is to end, again until it has.
    fn cancel(&mut self) {
        let now = clock::steady();
        for job in self.jobs.iter_mut().filter(|job| !job.is_over() && job.to_cancel(now)) {
            let again = job.cancelled.is_none_or(|at| clock::since(at) >= SOON * 5);
            match job.stage {
                Stage::ToSubmit => {
                    for event in job.never_mind() {
                        let _ = self.tell.send(event);
                    }
                }
                Stage::InQueue if again => {
                    job.cancelled = Some(now);
                    self.client.cancel(&job.intent.key, job.intent.job.filter(|_| job.intent.task.is_some()));
                }
                Stage::InQueue | Stage::Unsure { .. } => {}
            }
        }
    }
}

fn due(last: Option<Instant>, every: Duration) -> bool {
    last.is_none_or(|last| clock::since(last) >= every)
}

/// The row that counts of several of one name: one that goes on, else one that had the folder.
fn best<'r>(rows: &[&'r Row]) -> Option<&'r Row> {
    let rank = |row: &&&Row| match flow_slurm::fate(row) {
        flow_slurm::Fate::Running | flow_slurm::Fate::Suspended => 3,
        flow_slurm::Fate::Ended(flow_slurm::End::Failed(crate::node::CLAIMED)) => 0,
        flow_slurm::Fate::Ended(_) => 1,
        _ => 2,
    };
    rows.iter().max_by_key(rank).copied()
}
