//! Running tasks and their progress. Their speed changes over time.

use flow_core::{InstanceId, Outcome, Span, Time};

use crate::{Attempt, agenda::Key};

/// Work in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkInProgress {
    /// From then on at this speed …
    pub(crate) since: Time,
    pub(crate) speed: f64,
    /// … with so much left at that time, as time alone.
    pub(crate) left: Span,
}

impl WorkInProgress {
    /// The work left at a later time.
    pub(crate) fn left_at(&self, now: Time) -> Span {
        let done = (now - self.since).0 as f64 * self.speed;
        Span(self.left.0.saturating_sub(done.round() as u64))
    }

    /// When it is done if nothing changes.
    pub(crate) fn done_at(&self) -> Time {
        self.since + Span((self.left.0 as f64 / self.speed.max(1e-9)).round() as u64)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RunningTask {
    pub(crate) instance: InstanceId,
    /// Its index in the schedule.
    pub(crate) ran: usize,
    pub(crate) working: Option<WorkInProgress>,
    pub(crate) conduct: Attempt,
    /// The outcome it will have, if it was told to end.
    pub(crate) killed: Option<Outcome>,
    /// It has ended in Slurm, which flow does not know yet.
    pub(crate) ended: bool,
    /// The end of its work is on the agenda under this key, as long as it is ahead.
    pub(crate) ending: Option<Key>,
}

impl RunningTask {
    pub(crate) fn new(instance: InstanceId, ran: usize, conduct: Attempt) -> RunningTask {
        RunningTask { instance, ran, working: None, conduct, killed: None, ended: false, ending: None }
    }

    /// How much of its work it has done by then.
    pub(crate) fn done_by(&self, now: Time) -> Span {
        let left = self.working.map_or(self.conduct.work, |working| working.left_at(now));
        Span(self.conduct.work.0.saturating_sub(left.0))
    }
}
