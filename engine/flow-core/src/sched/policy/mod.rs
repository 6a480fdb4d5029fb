//! The seam between the scheduler and its policies, and the list of them.
//!
//! A policy gives each unit that may start a rank, and proposes one thing at a time until it says [`Propose::Stop`]. It never
//! places, mutates or admits: what admission refuses does not start, and ends the decision. Adding one is one file here and
//! one line in [`POLICIES`].
//!
//! A *unit* is what starts as one: an instance, or a co-run group, named by its first instance.

mod critical_path;
mod fifo;
mod fit;
mod view;

use std::collections::BTreeMap;
use std::fmt;

use crate::{InstanceId, Time};

pub use critical_path::CriticalPath;
pub use fifo::Fifo;
pub use fit::Fit;
pub use view::{Running, Trial, View};

/// A name and how to make what it names.
pub type Entry = (&'static str, fn() -> Box<dyn Policy>);

/// Every policy by name.
pub const POLICIES: &[Entry] = &[
    ("critical-path", || Box::<CriticalPath>::default()),
    ("fifo", || Box::new(Fifo)),
    ("fit", || Box::<Fit>::default()),
];

/// A policy by its name.
pub fn named(name: &str) -> Option<Box<dyn Policy>> {
    POLICIES.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// What a policy wants done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propose {
    /// Start this unit. Admission chooses where.
    Start(InstanceId),
    /// Keep back what this unit needs: until the decision after next at least, only those start that leave it enough room.
    Reserve {
        /// The unit. It keeps its reservation as long as each decision proposes it again.
        unit: InstanceId,
        /// When it is expected to start: what is expected to end by then may pass it. `None`: when all that ran before the
        /// reservation was made has ended, whatever was estimated.
        at: Option<Time>,
    },
    /// Take this running unit off its resources; it waits again, with its progress.
    Preempt(InstanceId),
    /// Nothing more at this instant.
    Stop,
}

/// A rule that decides what starts next. Pure: no clock, and no randomness but from a seed of its own.
pub trait Policy: fmt::Debug + Send + ClonePolicy {
    /// Its name, as in `--policy`.
    fn name(&self) -> &'static str;

    /// It takes running tasks off their GPUs, which only a simulation can do.
    fn preemptive(&self) -> bool {
        false
    }

    /// Instances arrived: those from `first` on. Their needs and estimates are known; they may not start yet.
    fn arrived(&mut self, view: &View<'_>, first: InstanceId) {
        let _ = (view, first);
    }

    /// The rank of a unit, asked each time it begins to wait. Smaller goes first; equal ranks go by time of arrival and id.
    fn rank(&self, view: &View<'_>, unit: InstanceId) -> i64 {
        let _ = (view, unit);
        0
    }

    /// Asked again and again at one instant, with what was proposed before in force, until it says [`Propose::Stop`].
    fn propose(&mut self, view: &View<'_>) -> Propose;

    /// When a decision is due though nothing else happens.
    fn wake(&self, view: &View<'_>) -> Option<Time> {
        let _ = view;
        None
    }
}

/// Clones a policy behind a box.
pub trait ClonePolicy {
    /// The clone.
    fn clone_policy(&self) -> Box<dyn Policy>;
}

impl<P: Policy + Clone + 'static> ClonePolicy for P {
    fn clone_policy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        (**self).clone_policy()
    }
}

/// The bound against starvation that skipping policies share: the first unit in order that others pass gets a reservation
/// once [`super::Limits::patience`] has passed. The clock of a unit starts when it first is that one, and never again, so
/// that each gets its turn however many arrive before it.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    passed_since: BTreeMap<InstanceId, Time>,
}

impl Patience {
    /// The unit to be reserved now, if there is one without reservation.
    pub fn overdue(&mut self, view: &View<'_>) -> Option<InstanceId> {
        let patience = view.limits().patience?;
        self.passed_since.retain(|&unit, _| view.is_waiting(unit));
        let head = view.first_passed_over()?;
        let since = *self.passed_since.entry(head).or_insert(view.now());
        (view.now() - since >= patience && view.reserved() != Some(head)).then_some(head)
    }
}
