//! One job of this run, and its state: from its files, which are authoritative, and from Slurm, for the rest. Queries
//! nothing.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use flow_core::{
    AttemptId, Outcome,
    reason::{BatchEnd, Cause},
};
use flow_protocol::Exit;
use flow_runs::QueuedJob;
use flow_slurm::{JobId, JobResult, JobState, Row, job_state};
use flow_supervisor::{
    clock,
    intents::Intent,
    node::{CLAIMED, NodeFiles, Record},
};
use nix::sys::signal::Signal;

use super::unseen;
use crate::driver::executor::{AttemptEnd, Event, LocalObservation, OutcomeOverride, RemoteObservation, RetryAdvice};

/// The state of a job's submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    ToSubmit,
    /// It was submitted, but may not exist. This many queries of the queue have not found it.
    Unsure {
        looks: u32,
    },
    InQueue,
}

/// Limit of a log line in a message, in characters.
const LONGEST: usize = 300;

/// An attempt in a job.
pub(super) struct Member {
    pub(super) attempt: AttemptId,
    pub(super) folder: PathBuf,
    started: Option<f64>,
    pub(super) ended: bool,
    /// It must end, at this time at the latest.
    pub(super) killed: Option<Instant>,
}

pub(super) struct BatchJob {
    pub(super) intent: Intent,
    /// The request to Slurm, equal for all jobs of one array.
    pub(super) request: flow_slurm::Job,
    /// For users who look at the queue.
    pub(super) comment: String,
    pub(super) stage: Stage,
    /// The programs for its node, until they are written there.
    pub(super) for_node: Vec<u8>,
    pub(super) members: Vec<Member>,
    /// The last pending state, and how often it was seen.
    queued: (Option<QueuedJob>, u32),
    /// Slurm's row says that it has not started.
    waits: bool,
    /// Missing in the queue since then, in this many queries.
    missing: Option<(Instant, u32)>,
    pub(super) accounted: bool,
    /// Its end according to Slurm, and when this was seen.
    gone: Option<(JobEnd, Instant)>,
    beat: Option<(u64, Instant)>,
    /// When Slurm was last asked to cancel it.
    pub(super) cancelled: Option<Instant>,
}

/// The end of a job, according to Slurm.
#[derive(Clone, Debug)]
enum JobEnd {
    Ended(JobResult, String),
    NeverRuns { launch_failed: bool, reason: String },
    Vanished,
    Refused(String),
}

/// What to do after a look at a job's files or its row.
#[derive(Default)]
pub(super) struct JobUpdate {
    pub(super) events: Vec<Event>,
    pub(super) changed: bool,
    /// Slurm must cancel it.
    pub(super) cancel: bool,
    /// It waits for something that does not pass by itself: Slurm's reason, and a notice.
    pub(super) stuck: Option<(String, String)>,
}

/// Timeouts for missing records and silent nodes.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    /// Wait after Slurm's report, because a shared file system may show a record late.
    pub(super) grace: Duration,
    /// A node that is silent for this long counts as dead.
    pub(super) silence: Duration,
}

impl BatchJob {
    pub(super) fn new(
        intent: Intent,
        (request, comment): (flow_slurm::Job, String),
        members: impl Iterator<Item = (AttemptId, PathBuf)>,
        joined: bool,
    ) -> BatchJob {
        let member = |(attempt, folder)| Member { attempt, folder, started: None, ended: false, killed: None };
        let stage = match (&intent.job, joined) {
            (Some(_), _) => Stage::InQueue,
            (None, true) => Stage::Unsure { looks: 0 },
            (None, false) => Stage::ToSubmit,
        };
        BatchJob {
            intent,
            request,
            comment,
            stage,
            for_node: Vec::new(),
            members: members.map(member).collect(),
            queued: (None, 0),
            waits: false,
            missing: None,
            accounted: false,
            gone: None,
            beat: None,
            cancelled: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.ended)
    }

    /// Whether to cancel the job: every attempt left in it was killed, and each has either not started or is past its
    /// deadline.
    pub(super) fn to_cancel(&self, now: Instant) -> bool {
        let mut left = self.members.iter().filter(|member| !member.ended).peekable();
        let due = |member: &Member| member.killed.is_some_and(|by| member.started.is_none() || by <= now);
        left.peek().is_some() && left.all(due)
    }

    /// The queue did not have it, more than once.
    pub(super) fn is_missing(&self) -> bool {
        self.gone.is_none() && self.missing.is_some_and(|(_, looks)| looks >= 2)
    }

    /// The task, if it belongs to an array.
    pub(super) fn task(&self) -> Option<u32> {
        self.intent.task.map(|task| task.number)
    }

    /// Its node may have written something.
    pub(super) fn may_run(&self) -> bool {
        self.stage != Stage::ToSubmit && !self.waits
    }

    /// Ends it before it was submitted.
    pub(super) fn end_unsubmitted(&mut self) -> Vec<Event> {
        self.end_all(None)
    }

    /// Leaves it in the queue for the next run, because Slurm cannot be asked to cancel it.
    pub(super) fn leave(&mut self) -> Vec<Event> {
        let events = self.end_all(None);
        // An attempt that has started was told to end, and does.
        let waits = self.members.iter().filter(|member| member.started.is_none());
        waits.for_each(|member| NodeFiles::of(&member.folder).let_live());
        events
    }

    fn end_all(&mut self, gone: Option<&JobEnd>) -> Vec<Event> {
        let left: Vec<usize> = (0..self.members.len()).filter(|n| !self.members[*n].ended).collect();
        left.into_iter().map(|n| self.end(n, gone.cloned())).collect()
    }

    /// Looks at the files of its attempts.
    pub(super) fn look(&mut self) -> JobUpdate {
        let mut update = JobUpdate::default();
        for n in 0..self.members.len() {
            let member = &mut self.members[n];
            if member.ended {
                continue;
            }
            let files = NodeFiles::of(&member.folder);
            if member.started.is_none()
                && let Some(facts) = files.read_started()
            {
                member.started = Some(clock::unix_seconds());
                let (attempt, node) = (member.attempt, Some(Box::new(facts)));
                update.events.push(Event::Started { attempt, node });
                update.changed = true;
            }
            if let Some(record) = files.read_ended()
                && let Some(event) = self.recorded(n, record)
            {
                update.events.push(event);
                update.changed = true;
            }
        }
        if self.missing.is_some() || self.gone.is_some() {
            self.listen();
        }
        update
    }

    /// Checks for signs of life from its node.
    fn listen(&mut self) {
        let folders = self.members.iter().filter(|member| !member.ended).map(|member| &member.folder);
        let beat = folders.filter_map(|folder| NodeFiles::of(folder).read_beat()).max();
        if let Some(beat) = beat.filter(|beat| self.beat.is_none_or(|(last, _)| last != *beat)) {
            self.beat = Some((beat, clock::steady()));
        }
    }

    /// Handles the record of an end. If Slurm ended the program, waits for Slurm's reason.
    fn recorded(&mut self, n: usize, record: Record) -> Option<Event> {
        let killed = self.members[n].killed.is_some();
        let instead = match record.warned {
            _ if killed => None,
            Some(true) => {
                Some(self.batch(Outcome::TimedOut, BatchEnd::TimeLimit { stopped: None }, RetryAdvice::AsConfigured))
            }
            // Slurm ends program and node together, so that either may be gone first.
            told if told.is_some() || was_ended(&record.exit) => match (&self.gone, self.missing) {
                (
                    Some((JobEnd::Ended(JobResult::Failed(_) | JobResult::Completed | JobResult::Signal(_), _), _)),
                    _,
                ) => told.map(|_| self.batch(Outcome::Failed, BatchEnd::Cancelled, RetryAdvice::Hopeless)),
                (Some((gone, _)), _) => Some(self.instead(gone.clone())),
                (None, Some(_)) if told.is_none() => None,
                (None, Some(_)) => Some(self.batch(Outcome::Failed, BatchEnd::Cancelled, RetryAdvice::Hopeless)),
                (None, None) => return None,
            },
            _ => None,
        };
        let member = &mut self.members[n];
        member.ended = true;
        let Record { exit, host, gpus, cost, looks, released, .. } = record;
        let seen = LocalObservation { samples: host, gpus, cost };
        let end = AttemptEnd {
            exit,
            seen,
            there: Some(RemoteObservation { looks, released, closed: None }),
            instead,
            corunners: None,
        };
        Some(Event::Ended { attempt: member.attempt, end: Box::new(end) })
    }

    /// Handles its row in Slurm's queue; without a row it is missing there.
    pub(super) fn seen(&mut self, row: Option<&Row>) -> JobUpdate {
        let mut update = JobUpdate::default();
        let Some(row) = row else {
            self.waits = false;
            let (since, looks) = self.missing.get_or_insert((clock::steady(), 0));
            (*since, *looks) = (*since, *looks + 1);
            return update;
        };
        self.missing = None;
        self.waits = job_state(row) == JobState::Waiting;
        if self.intent.job != Some(row.id) {
            self.intent.job = Some(row.id);
            update.changed = true;
        }
        let queued = match job_state(row) {
            JobState::Waiting | JobState::Suspended => {
                let reason = if row.reason.is_empty() { row.state.clone() } else { row.reason.clone() };
                Some(self.queued(reason, flow_slurm::advice(row)))
            }
            JobState::NeverRuns { launch_failed } => {
                update.cancel = self.gone.is_none();
                self.is_gone(JobEnd::NeverRuns { launch_failed, reason: row.reason.clone() });
                None
            }
            JobState::Ended(end) => {
                self.has_ended(row, end);
                None
            }
            JobState::Running | JobState::Unknown => {
                self.gone = None;
                None
            }
        };
        if queued != self.queued.0 {
            update.changed = true;
            update.events.extend(self.waits(queued.as_ref()));
            self.queued = (queued, 0);
        }
        self.queued.1 += 1;
        // Only the second time, because many jobs lack a node for a moment.
        if let (Some(QueuedJob { reason, advice: Some(advice), .. }), 2) = &self.queued {
            let label = self.intent.members.first().map_or("", |member| &member.label);
            let text = format!("{label} is queued in Slurm (job {}, {reason}): {advice}", row.id);
            update.stuck = Some((reason.clone(), text));
        }
        update
    }

    /// The pending state for this reason, since its submission.
    fn queued(&self, reason: String, advice: Option<String>) -> QueuedJob {
        let since = self.intent.members.first().map_or(0.0, |member| member.began);
        let job = self.intent.job.as_ref().map(JobId::to_string);
        QueuedJob { job, reason, since: (since * 1e3) as u64, advice }
    }

    fn waits(&self, queued: Option<&QueuedJob>) -> Vec<Event> {
        let all = self.members.iter().filter(|member| !member.ended && member.started.is_none());
        all.map(|member| Event::Waits { attempt: member.attempt, queued: queued.cloned() }).collect()
    }

    /// It was submitted, or will be soon.
    pub(super) fn is_queued(&mut self) -> Vec<Event> {
        let queued = self.queued(String::new(), None);
        let events = self.waits(Some(&queued));
        self.queued = (Some(queued), 0);
        events
    }

    /// Handles the accounting record of a job that is missing in the queue.
    pub(super) fn accounted(&mut self, row: &Row) {
        if let JobState::Ended(end) = job_state(row) {
            self.has_ended(row, end);
        }
    }

    fn has_ended(&mut self, row: &Row, end: JobResult) {
        let end = if row.may_not_have_begun() && !self.has_begun() { JobResult::Launch } else { end };
        self.is_gone(JobEnd::Ended(end, row.node.clone()));
    }

    fn is_gone(&mut self, gone: JobEnd) {
        self.gone.get_or_insert((gone, clock::steady()));
    }

    pub(super) fn refused(&mut self, error: String) -> Vec<Event> {
        self.end_all(Some(&JobEnd::Refused(error)))
    }

    /// Concludes from Slurm's report, if the attempts have written nothing for long enough.
    pub(super) fn conclude(&mut self, patience: Timeouts) -> JobUpdate {
        let mut update = JobUpdate::default();
        if self.gone.is_none()
            && let Some((since, looks)) = self.missing
            && looks >= 3
            && clock::since(since) >= patience.grace
            && !self.lives(since, patience)
            && self.is_fenced()
        {
            update.cancel = true;
            self.is_gone(JobEnd::Vanished);
        }
        let Some((gone, since)) = self.gone.clone() else { return update };
        let claimed = matches!(gone, JobEnd::Ended(JobResult::Failed(CLAIMED), _));
        // A job that never started, and cannot start any more, leaves no record.
        let never = self.to_cancel(clock::steady()) && !self.has_begun() && self.is_fenced();
        let grace = if never || matches!(gone, JobEnd::Vanished) { Duration::ZERO } else { patience.grace };
        if clock::since(since) < grace || claimed && self.lives(since, patience) {
            return update;
        }
        // If folders are cached, listing one makes new files visible.
        for member in self.members.iter().filter(|member| !member.ended) {
            let _ = std::fs::read_dir(&member.folder).map(Iterator::count);
        }
        update.events = self.look().events;
        update.events.extend(self.end_all(Some(&gone)));
        update.changed = true;
        update
    }

    /// Its node shows signs of life, or could still start.
    fn lives(&self, since: Instant, patience: Timeouts) -> bool {
        let last = self.beat.map_or(since, |(_, at)| at);
        self.has_begun() && clock::since(last) < patience.silence
    }

    /// Claims the folder, so that a job that starts late ends at once. A job that has claimed it meanwhile keeps it.
    fn is_fenced(&self) -> bool {
        let claim = NodeFiles::of(self.intent.folder()).claim();
        self.has_begun() || std::fs::create_dir(claim).is_ok()
    }

    fn has_begun(&self) -> bool {
        NodeFiles::of(self.intent.folder()).claim().exists()
    }

    /// Ends an attempt that left no record.
    fn end(&mut self, n: usize, gone: Option<JobEnd>) -> Event {
        let gone = gone.filter(|_| self.members[n].killed.is_none());
        let instead = gone.map(|gone| {
            // A program that was killed for too much memory could not write a record.
            let log = match gone {
                JobEnd::Ended(
                    JobResult::Signal(_) | JobResult::Launch | JobResult::Failed(_) | JobResult::Completed,
                    _,
                ) => std::fs::read(self.log(n)).ok(),
                _ => None,
            };
            let log = log.map(|log| String::from_utf8_lossy(&log).into_owned());
            match (log.as_deref().and_then(flow_slurm::result_in_log), gone) {
                (Some(end), JobEnd::Ended(_, node)) => self.instead(JobEnd::Ended(end, node)),
                (None, JobEnd::Ended(JobResult::Failed(code), _)) if code != CLAIMED => {
                    self.unrecorded(Some(code), log)
                }
                (None, JobEnd::Ended(JobResult::Signal(_) | JobResult::Completed, _)) => self.unrecorded(None, log),
                (_, gone) => self.instead(gone),
            }
        });
        let now = clock::unix_seconds();
        let member = &mut self.members[n];
        member.ended = true;
        // A node that was cut off and returns must end what still runs.
        let _ = NodeFiles::of(&member.folder).request_end(Duration::ZERO);
        let exit = unseen(member.started.unwrap_or(now), now);
        let end = AttemptEnd { instead, ..AttemptEnd::here(exit, LocalObservation::default()) };
        Event::Ended { attempt: member.attempt, end: Box::new(end) }
    }

    /// The file for output before flow starts on the node, and for Slurm's message about the end. It belongs to the
    /// first attempt; an array has one per task.
    fn log(&self, n: usize) -> PathBuf {
        let folder = &self.members[n].folder;
        let run = folder.parent().and_then(Path::parent);
        match (self.intent.task, run) {
            (Some(task), Some(run)) => {
                run.join("arrays").join(&self.intent.key).join(format!("slurm-{}.log", task.number))
            }
            _ => self.intent.folder().join("slurm.log"),
        }
    }

    fn instead(&self, gone: JobEnd) -> OutcomeOverride {
        let failed = Outcome::Failed;
        let (outcome, end, again) = match gone {
            JobEnd::Ended(end, node) => match end {
                JobResult::TimeLimit => {
                    (Outcome::TimedOut, BatchEnd::TimeLimit { stopped: None }, RetryAdvice::AsConfigured)
                }
                JobResult::Memory => (Outcome::OutOfMemory, BatchEnd::Memory, RetryAdvice::AsConfigured),
                JobResult::NodeLost => {
                    (failed, BatchEnd::NodeLost { node: Some(node).filter(|node| !node.is_empty()) }, RetryAdvice::Lost)
                }
                JobResult::Cancelled => (failed, BatchEnd::Cancelled, RetryAdvice::Hopeless),
                JobResult::Preempted => (failed, BatchEnd::Preempted, RetryAdvice::Lost),
                JobResult::Launch => (failed, BatchEnd::NotLaunched, RetryAdvice::Lost),
                JobResult::Impossible => {
                    let error = "Requested node configuration is not available".to_owned();
                    (failed, BatchEnd::Refused { error }, RetryAdvice::Hopeless)
                }
                JobResult::Failed(CLAIMED) => (failed, BatchEnd::Vanished, RetryAdvice::Lost),
                JobResult::Failed(code) => return self.unrecorded(Some(code), None),
                JobResult::Completed | JobResult::Signal(_) => return self.unrecorded(None, None),
            },
            JobEnd::NeverRuns { launch_failed: true, .. } => (failed, BatchEnd::NotLaunched, RetryAdvice::Lost),
            JobEnd::NeverRuns { reason, .. } => (failed, BatchEnd::Unsatisfiable { reason }, RetryAdvice::Hopeless),
            JobEnd::Vanished => (failed, BatchEnd::Vanished, RetryAdvice::Lost),
            JobEnd::Refused(error) => (failed, BatchEnd::Refused { error }, RetryAdvice::Hopeless),
        };
        self.batch(outcome, end, again)
    }

    /// Its script ended with this code and log, without a record. If flow had not started, no part of the step has.
    fn unrecorded(&self, code: Option<u8>, log: Option<String>) -> OutcomeOverride {
        let begun = self.has_begun();
        let again = match code {
            _ if begun => RetryAdvice::AsConfigured,
            // No shell on the node finds `flow`, or may start it.
            Some(126 | 127) => RetryAdvice::AsConfigured,
            _ => RetryAdvice::Lost,
        };
        let last = |log: String| log.trim_end().lines().last().unwrap_or_default().chars().take(LONGEST).collect();
        let end = BatchEnd::Failed { code: code.map(i32::from), begun, last_line: log.map(last) };
        self.batch(Outcome::Failed, end, again)
    }

    fn batch(&self, outcome: Outcome, end: BatchEnd, again: RetryAdvice) -> OutcomeOverride {
        let job = self.intent.job.as_ref().map(JobId::to_string);
        OutcomeOverride { outcome, cause: Some(Cause::Batch { job, end }), again }
    }
}

/// The program was killed, and not by the kernel for lack of memory.
fn was_ended(exit: &Exit) -> bool {
    let signal = exit.signal.or_else(|| exit.code.map(|code| code - 128));
    !exit.oom_killed && [Signal::SIGTERM, Signal::SIGKILL].iter().any(|known| signal == Some(*known as i32))
}
