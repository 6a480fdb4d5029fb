//! One job of this run, and what is known of it: from its files, which tell the truth, and from Slurm, which tells the rest. Asks
//! nobody.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use flow_core::{
    AttemptId, Outcome,
    reason::{BatchEnd, Cause},
};
use flow_protocol::Exit;
use flow_slurm::{End, Fate, JobId, Never, Row, fate};
use flow_store::Queued;
use nix::sys::signal::Signal;

use super::unseen;
use crate::{
    clock,
    driver::{
        executor::{Ended, Event, Observed, OutcomeOverride, RemoteObservation, RetryAdvice},
        intents::Intent,
    },
    node::{CLAIMED, NodeFiles, Record},
};

/// Where a job stands between this run and Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    ToSubmit,
    /// It was asked for, and nobody knows whether there is one. So many looks at the queue have not found it.
    Unsure {
        looks: u32,
    },
    InQueue,
}

/// Characters of a line of a job's log that are told.
const LONGEST: usize = 300;

/// An attempt in a job.
pub(super) struct Member {
    pub(super) attempt: AttemptId,
    pub(super) folder: PathBuf,
    started: Option<f64>,
    pub(super) ended: bool,
    /// It is to end, by then at the latest.
    pub(super) killed: Option<Instant>,
}

pub(super) struct BatchJob {
    pub(super) intent: Intent,
    /// What Slurm is asked for, the same for all that one array can run.
    pub(super) request: flow_slurm::Job,
    /// For people who look at the queue.
    pub(super) comment: String,
    pub(super) stage: Stage,
    /// What its node is to run, until it is told.
    pub(super) for_node: Vec<u8>,
    pub(super) members: Vec<Member>,
    /// How it was last seen to wait, and how often.
    queued: (Option<Queued>, u32),
    /// Its row says that it has not begun.
    waits: bool,
    /// Slurm's queue did not have it since then, in so many looks.
    missing: Option<(Instant, u32)>,
    pub(super) accounted: bool,
    /// What Slurm says that it came to, since then.
    gone: Option<(Gone, Instant)>,
    beat: Option<(u64, Instant)>,
    /// When Slurm was last told to end it.
    pub(super) cancelled: Option<Instant>,
}

/// What a job came to, as Slurm says.
#[derive(Clone, Debug)]
enum Gone {
    Ended(End, String),
    Never(Never, String),
    Vanished,
    Refused(String),
}

/// What a look at a job's files or at its row says is to be done.
#[derive(Default)]
pub(super) struct News {
    pub(super) events: Vec<Event>,
    pub(super) changed: bool,
    /// Slurm is to be told to end it.
    pub(super) cancel: bool,
    /// It waits for what does not go away by itself: Slurm's word for that, and what people are to know.
    pub(super) stuck: Option<(String, String)>,
}

/// How patient to be.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    /// From what Slurm says to what follows from it: a shared file system may take its time to show a record.
    pub(super) grace: Duration,
    /// A node that was silent for so long does not live.
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

    /// Which task of an array it is.
    pub(super) fn task(&self) -> Option<u32> {
        self.intent.task.map(|task| task.number)
    }

    /// Its node may have written something.
    pub(super) fn may_run(&self) -> bool {
        self.stage != Stage::ToSubmit && !self.waits
    }

    /// It has not been asked for, and is to end.
    pub(super) fn never_mind(&mut self) -> Vec<Event> {
        self.end_all(None)
    }

    /// Slurm cannot be told to end it: it stays in the queue, for the run that comes after this one.
    pub(super) fn leave(&mut self) -> Vec<Event> {
        let events = self.end_all(None);
        // One that has begun has been told, and ends.
        let waits = self.members.iter().filter(|member| member.started.is_none());
        waits.for_each(|member| NodeFiles::of(&member.folder).let_live());
        events
    }

    fn end_all(&mut self, gone: Option<&Gone>) -> Vec<Event> {
        let left: Vec<usize> = (0..self.members.len()).filter(|n| !self.members[*n].ended).collect();
        left.into_iter().map(|n| self.end(n, gone.cloned())).collect()
    }

    /// Looks at the files of its attempts.
    pub(super) fn look(&mut self) -> News {
        let mut news = News::default();
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
                news.events.push(Event::Started { attempt, node });
                news.changed = true;
            }
            if let Some(record) = files.read_ended()
                && let Some(event) = self.recorded(n, record)
            {
                news.events.push(event);
                news.changed = true;
            }
        }
        if self.missing.is_some() || self.gone.is_some() {
            self.listen();
        }
        news
    }

    /// A node that lives says so.
    fn listen(&mut self) {
        let folders = self.members.iter().filter(|member| !member.ended).map(|member| &member.folder);
        let beat = folders.filter_map(|folder| NodeFiles::of(folder).read_beat()).max();
        if let Some(beat) = beat.filter(|beat| self.beat.is_none_or(|(last, _)| last != *beat)) {
            self.beat = Some((beat, clock::steady()));
        }
    }

    /// The record of an end is there. Where Slurm ended the program, what it says of the job tells why, as soon as it does.
    fn recorded(&mut self, n: usize, record: Record) -> Option<Event> {
        let killed = self.members[n].killed.is_some();
        let instead = match record.warned {
            _ if killed => None,
            Some(true) => {
                Some(self.batch(Outcome::TimedOut, BatchEnd::TimeLimit { stopped: None }, RetryAdvice::AsAsked))
            }
            // Slurm ends program and node at once, so that either may be the first to be gone.
            told if told.is_some() || was_ended(&record.exit) => match (&self.gone, self.missing) {
                (Some((Gone::Ended(End::Failed(_) | End::Completed | End::Signal(_), _), _)), _) => {
                    told.map(|_| self.batch(Outcome::Failed, BatchEnd::Cancelled, RetryAdvice::Hopeless))
                }
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
        let seen = Observed { samples: host, gpus, cost };
        let end = Ended {
            exit,
            seen,
            there: Some(RemoteObservation { looks, released, closed: None }),
            instead,
            beside: None,
        };
        Some(Event::Ended { attempt: member.attempt, end: Box::new(end) })
    }

    /// What Slurm's queue says of it; without a row it is not there.
    pub(super) fn seen(&mut self, row: Option<&Row>) -> News {
        let mut news = News::default();
        let Some(row) = row else {
            self.waits = false;
            let (since, looks) = self.missing.get_or_insert((clock::steady(), 0));
            (*since, *looks) = (*since, *looks + 1);
            return news;
        };
        self.missing = None;
        self.waits = matches!(fate(row), Fate::Waiting | Fate::Held);
        if self.intent.job != Some(row.id) {
            self.intent.job = Some(row.id);
            news.changed = true;
        }
        let queued = match fate(row) {
            Fate::Waiting | Fate::Held | Fate::Suspended => {
                let reason = if row.reason.is_empty() { row.state.clone() } else { row.reason.clone() };
                Some(self.queued(reason, flow_slurm::advice(row)))
            }
            Fate::Never(why) => {
                news.cancel = self.gone.is_none();
                self.is_gone(Gone::Never(why, row.reason.clone()));
                None
            }
            Fate::Ended(end) => {
                self.has_ended(row, end);
                None
            }
            Fate::Running | Fate::Unknown => {
                self.gone = None;
                None
            }
        };
        if queued != self.queued.0 {
            news.changed = true;
            news.events.extend(self.waits(queued.as_ref()));
            self.queued = (queued, 0);
        }
        self.queued.1 += 1;
        // For a moment nodes are missing to many a job.
        if let (Some(Queued { reason, advice: Some(advice), .. }), 2) = &self.queued {
            let label = self.intent.members.first().map_or("", |member| &member.label);
            let text = format!("{label} is queued in Slurm (job {}, {reason}): {advice}", row.id);
            news.stuck = Some((reason.clone(), text));
        }
        news
    }

    /// It waits for this reason, since it was asked for.
    fn queued(&self, reason: String, advice: Option<String>) -> Queued {
        let since = self.intent.members.first().map_or(0.0, |member| member.began);
        let job = self.intent.job.as_ref().map(JobId::to_string);
        Queued { job, reason, since: (since * 1e3) as u64, advice }
    }

    fn waits(&self, queued: Option<&Queued>) -> Vec<Event> {
        let all = self.members.iter().filter(|member| !member.ended && member.started.is_none());
        all.map(|member| Event::Waits { attempt: member.attempt, queued: queued.cloned() }).collect()
    }

    /// It has been asked for, or is about to be.
    pub(super) fn is_queued(&mut self) -> Vec<Event> {
        let queued = self.queued(String::new(), None);
        let events = self.waits(Some(&queued));
        self.queued = (Some(queued), 0);
        events
    }

    /// What the accounting database says of a job that the queue has not.
    pub(super) fn accounted(&mut self, row: &Row) {
        if let Fate::Ended(end) = fate(row) {
            self.has_ended(row, end);
        }
    }

    fn has_ended(&mut self, row: &Row, end: End) {
        let end = if row.may_not_have_begun() && !self.has_begun() { End::Launch } else { end };
        self.is_gone(Gone::Ended(end, row.node.clone()));
    }

    fn is_gone(&mut self, gone: Gone) {
        self.gone.get_or_insert((gone, clock::steady()));
    }

    pub(super) fn refused(&mut self, error: String) -> Vec<Event> {
        self.end_all(Some(&Gone::Refused(error)))
    }

    /// What follows from what Slurm says, where the attempts themselves say nothing for so long.
    pub(super) fn conclude(&mut self, patience: Timeouts) -> News {
        let mut news = News::default();
        if self.gone.is_none()
            && let Some((since, looks)) = self.missing
            && looks >= 3
            && clock::since(since) >= patience.grace
            && !self.lives(since, patience)
            && self.is_fenced()
        {
            news.cancel = true;
            self.is_gone(Gone::Vanished);
        }
        let Some((gone, since)) = self.gone.clone() else { return news };
        let claimed = matches!(gone, Gone::Ended(End::Failed(CLAIMED), _));
        // One that never began, and cannot any more, has nothing to show.
        let never = self.to_cancel(clock::steady()) && !self.has_begun() && self.is_fenced();
        let grace = if never || matches!(gone, Gone::Vanished) { Duration::ZERO } else { patience.grace };
        if clock::since(since) < grace || claimed && self.lives(since, patience) {
            return news;
        }
        // Where folders are cached, to list one shows what is new in it.
        for member in self.members.iter().filter(|member| !member.ended) {
            let _ = std::fs::read_dir(&member.folder).map(Iterator::count);
        }
        news.events = self.look().events;
        news.events.extend(self.end_all(Some(&gone)));
        news.changed = true;
        news
    }

    /// A node says that it runs, or could still be about to.
    fn lives(&self, since: Instant, patience: Timeouts) -> bool {
        let last = self.beat.map_or(since, |(_, at)| at);
        self.has_begun() && clock::since(last) < patience.silence
    }

    /// A job that comes late finds its folder claimed. One that has it meanwhile keeps it.
    fn is_fenced(&self) -> bool {
        let claim = NodeFiles::of(self.intent.folder()).claim();
        self.has_begun() || std::fs::create_dir(claim).is_ok()
    }

    fn has_begun(&self) -> bool {
        NodeFiles::of(self.intent.folder()).claim().exists()
    }

    /// An attempt is over of which there is no record.
    fn end(&mut self, n: usize, gone: Option<Gone>) -> Event {
        let gone = gone.filter(|_| self.members[n].killed.is_none());
        let instead = gone.map(|gone| {
            // What was killed for too much memory could not write down anything.
            let log = match gone {
                Gone::Ended(End::Signal(_) | End::Launch | End::Failed(_) | End::Completed, _) => {
                    std::fs::read(self.log(n)).ok()
                }
                _ => None,
            };
            let log = log.map(|log| String::from_utf8_lossy(&log).into_owned());
            match (log.as_deref().and_then(flow_slurm::told_in_log), gone) {
                (Some(end), Gone::Ended(_, node)) => self.instead(Gone::Ended(end, node)),
                (None, Gone::Ended(End::Failed(code), _)) if code != CLAIMED => self.unrecorded(Some(code), log),
                (None, Gone::Ended(End::Signal(_) | End::Completed, _)) => self.unrecorded(None, log),
                (_, gone) => self.instead(gone),
            }
        });
        let now = clock::unix_seconds();
        let member = &mut self.members[n];
        member.ended = true;
        // A node that was cut off, and comes back, ends what it still has.
        let _ = NodeFiles::of(&member.folder).ask_to_end(Duration::ZERO);
        let exit = unseen(member.started.unwrap_or(now), now);
        let end = Ended { instead, ..Ended::here(exit, Observed::default()) };
        Event::Ended { attempt: member.attempt, end: Box::new(end) }
    }

    /// Where Slurm writes what a job prints before flow begins on its node, and what it says itself of the job's end. It is that of the
    /// first attempt, and, of an array, one a task.
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

    fn instead(&self, gone: Gone) -> OutcomeOverride {
        let failed = Outcome::Failed;
        let (outcome, end, again) = match gone {
            Gone::Ended(end, node) => match end {
                End::TimeLimit => (Outcome::TimedOut, BatchEnd::TimeLimit { stopped: None }, RetryAdvice::AsAsked),
                End::Memory => (Outcome::OutOfMemory, BatchEnd::Memory, RetryAdvice::AsAsked),
                End::NodeLost => {
                    (failed, BatchEnd::NodeLost { node: Some(node).filter(|node| !node.is_empty()) }, RetryAdvice::Lost)
                }
                End::Cancelled => (failed, BatchEnd::Cancelled, RetryAdvice::Hopeless),
                End::Preempted => (failed, BatchEnd::Preempted, RetryAdvice::Lost),
                End::Launch => (failed, BatchEnd::NotLaunched, RetryAdvice::Lost),
                End::Impossible => {
                    let error = "Requested node configuration is not available".to_owned();
                    (failed, BatchEnd::Refused { error }, RetryAdvice::Hopeless)
                }
                End::Failed(CLAIMED) => (failed, BatchEnd::Vanished, RetryAdvice::Lost),
                End::Failed(code) => return self.unrecorded(Some(code), None),
                End::Completed | End::Signal(_) => return self.unrecorded(None, None),
            },
            Gone::Never(Never::Launch, _) => (failed, BatchEnd::NotLaunched, RetryAdvice::Lost),
            Gone::Never(_, reason) => (failed, BatchEnd::Never { reason }, RetryAdvice::Hopeless),
            Gone::Vanished => (failed, BatchEnd::Vanished, RetryAdvice::Lost),
            Gone::Refused(error) => (failed, BatchEnd::Refused { error }, RetryAdvice::Hopeless),
        };
        self.batch(outcome, end, again)
    }

    /// Its script ended, with this code and log, and there is no record of the step. Where flow had not begun, nothing of the step has.
    fn unrecorded(&self, code: Option<u8>, log: Option<String>) -> OutcomeOverride {
        let begun = self.has_begun();
        let again = match code {
            _ if begun => RetryAdvice::AsAsked,
            // No shell finds `flow` there, or may start it.
            Some(126 | 127) => RetryAdvice::AsAsked,
            _ => RetryAdvice::Lost,
        };
        let last = |log: String| log.trim_end().lines().last().unwrap_or_default().chars().take(LONGEST).collect();
        let end = BatchEnd::Failed { code: code.map(i32::from), begun, said: log.map(last) };
        self.batch(Outcome::Failed, end, again)
    }

    fn batch(&self, outcome: Outcome, end: BatchEnd, again: RetryAdvice) -> OutcomeOverride {
        let job = self.intent.job.as_ref().map(JobId::to_string);
        OutcomeOverride { outcome, cause: Some(Cause::Batch { job, end }), again }
    }
}

/// Somebody ended the program, and that was not the kernel for want of memory.
fn was_ended(exit: &Exit) -> bool {
    let signal = exit.signal.or_else(|| exit.code.map(|code| code - 128));
    !exit.oom_killed && [Signal::SIGTERM, Signal::SIGKILL].iter().any(|known| signal == Some(*known as i32))
}
