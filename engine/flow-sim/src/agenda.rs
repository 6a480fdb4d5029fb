//! Future events in order of time. Knows no scheduler.

use std::collections::BTreeMap;

use flow_core::{AttemptId, Outcome, Time};

use crate::Fault;

/// The order of events at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Completion,
    Arrival,
}

#[derive(Clone, Debug)]
pub(crate) enum WorldEvent {
    /// Tasks from here to there arrive.
    Arrive(usize, usize),
    Befall(Fault),
    Ready(AttemptId),
    /// Its own work is done.
    Worked(AttemptId),
    /// Its process tree is gone.
    Gone(AttemptId, Outcome, bool),
    /// flow sees that the process tree of a Slurm job is gone.
    Noticed(AttemptId, Outcome, bool),
}

/// When something happens, among what happens then, in the order in which it was planned.
pub(crate) type Key = (Time, Order, u64);

#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeMap<Key, WorldEvent>,
    planned: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: Time, order: Order, happening: WorldEvent) -> Key {
        self.planned += 1;
        let key = (at, order, self.planned);
        self.entries.insert(key, happening);
        key
    }

    /// When the next of it happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.entries.first_key_value().map(|(&(at, ..), _)| at)
    }

    /// The next that is due by now.
    pub(crate) fn due(&mut self, now: Time) -> Option<WorldEvent> {
        self.entries.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove())
    }

    pub(crate) fn cancel(&mut self, key: Option<Key>) {
        key.and_then(|key| self.entries.remove(&key));
    }
}
