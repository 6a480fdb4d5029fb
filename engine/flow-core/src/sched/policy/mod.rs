//! The seam between the scheduler and its policies, and the list of them.
//!
//! A policy gives each unit that may start a rank, and proposes one thing at a time until it says [`Propose::Stop`]. It never
//! places, mutates or admits: what admission refuses does not start, and ends the decision. Adding one is one file here and
//! one line in [`POLICIES`].
//!
//! A *unit* is what starts as one: an instance, or a co-run group, named by its first instance.

mod bound;
mod critical_path;
mod easy;
mod fifo;
mod fit;
mod las;
mod lyapunov;
mod priority;
mod reorder;
mod sjf;
mod srtf;
mod view;

use std::fmt;

use crate::{
    InstanceId, Time,
    reason::{BuiltinFault, Hint},
};

use bound::{Age, Patience};
use critical_path::CriticalPath;
use easy::Easy;
use fifo::Fifo;
use fit::Fit;
use las::Las;
pub use lyapunov::Lyapunov;
use priority::Priority;
use reorder::Reorder;
use sjf::{Mode, Sjf};
use srtf::Srtf;
pub use view::{Hypothesis, Key, Running, View};

/// A name and how to make what it names.
pub type Entry = (&'static str, fn() -> Box<dyn Policy>);

/// Every policy by name.
pub const POLICIES: &[Entry] = &[
    ("critical-path", || Box::<CriticalPath>::default()),
    ("fifo-single", || Box::new(Fifo { single: true })),
    ("fifo", || Box::new(Fifo { single: false })),
    ("fit", || Box::<Fit>::default()),
    ("easy", || Box::new(Easy)),
    ("sjf", || Box::new(Sjf::new(Mode::Strict))),
    ("sjf-single", || Box::new(Sjf::new(Mode::Single))),
    ("sjf-fit", || Box::new(Sjf::new(Mode::Fit))),
    ("priority", || Box::new(Priority)),
    ("lyapunov", || Box::<Lyapunov>::default()),
    ("srtf", || Box::<Srtf>::default()),
    ("srsf", || Box::new(Srtf::service())),
    ("las", || Box::<Las>::default()),
];

/// The default inside one workflow.
pub const DEFAULT: &str = "critical-path";

/// A policy by its name.
pub fn named(name: &str) -> Option<Box<dyn Policy>> {
    POLICIES.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// Why a preemptive policy cannot be used live, in words.
pub fn only_simulated(name: &str) -> String {
    format!("policy `{name}` takes running steps off their GPUs, which nothing but a simulation can do")
}

/// That there is no policy of this name, with the nearest or all there are.
pub fn unknown(name: &str) -> BuiltinFault {
    let known = || POLICIES.iter().map(|(known, _)| *known);
    let hint = match crate::nearest(name, known()) {
        Some(near) => Hint::DidYouMean { near: near.to_owned() },
        None => Hint::ThereIs { names: known().collect() },
    };
    BuiltinFault::NoSuchPolicy { policy: name.to_owned(), hint }
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

    /// It schedules only tasks of at most one GPU; its drivers refuse others before anything runs.
    fn one_gpu_only(&self) -> bool {
        false
    }

    /// Instances arrived: those from `first` on. Their needs and estimates are known; they may not start yet.
    fn arrived(&mut self, view: &View<'_>, first: InstanceId) {
        let _ = (view, first);
    }

    /// The rank of a unit, asked each time it begins to wait. Smaller goes first; equal ranks go by time of arrival and id.
    fn rank(&mut self, view: &View<'_>, unit: InstanceId) -> i64 {
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
