//! The interface between the scheduler and its policies, and the list of policies.
//!
//! A policy ranks each gang that may start, and proposes one action at a time until it returns [`Propose::Stop`]. It
//! never places, mutates or admits: a proposal that admission refuses is not carried out, and ends the decision. A new
//! policy is one file here and one line in [`POLICIES`].
//!
//! A *gang* starts as one: an instance, or a co-run group, named by its first instance.

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
pub use view::{Hypothesis, Key, RunningWork, View};

/// A policy's name and constructor.
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

/// The error for an unknown policy name, with the nearest name or all names.
pub fn unknown(name: &str) -> BuiltinFault {
    let known = || POLICIES.iter().map(|(known, _)| *known);
    let hint = match crate::nearest(name, known()) {
        Some(near) => Hint::DidYouMean { near: near.to_owned() },
        None => Hint::ThereIs { names: known().collect() },
    };
    BuiltinFault::NoSuchPolicy { policy: name.to_owned(), hint }
}

/// The next action that a policy proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propose {
    /// Start this gang. Admission chooses where.
    Start(InstanceId),
    /// Hold back resources for this gang: at least until the decision after next, only gangs start that leave it enough
    /// room.
    Reserve {
        /// The gang. It keeps its reservation as long as each decision proposes it again.
        gang: InstanceId,
        /// Its expected start: gangs that are expected to end by then may pass it. `None`: when everything that ran
        /// before the reservation has ended, whatever the estimates.
        at: Option<Time>,
    },
    /// Preempt this running gang; it waits again and keeps its progress.
    Preempt(InstanceId),
    /// Nothing more at this instant.
    Stop,
}

/// A rule that decides what starts next. Pure: no clock, and only seeded randomness.
pub trait Policy: fmt::Debug + Send + ClonePolicy {
    /// Its name, as in `--policy`.
    fn name(&self) -> &'static str;

    /// Whether it preempts running tasks, which only a simulation can do.
    fn preemptive(&self) -> bool {
        false
    }

    /// Whether it schedules only tasks with at most one GPU; its drivers refuse others before anything runs.
    fn one_gpu_only(&self) -> bool {
        false
    }

    /// Instances arrived: those from `first` on. Their needs and estimates are known; they may not start yet.
    fn arrived(&mut self, _view: &View<'_>, _first: InstanceId) {}

    /// The rank of a gang, requested each time it begins to wait. Smaller goes first; ties go by arrival and id.
    fn rank(&mut self, _view: &View<'_>, _gang: InstanceId) -> i64 {
        0
    }

    /// The next proposal. Called repeatedly at one instant, with earlier proposals in effect, until it returns
    /// [`Propose::Stop`].
    fn propose(&mut self, view: &View<'_>) -> Propose;

    /// When a decision is due even if no event arrives.
    fn wake(&self, _view: &View<'_>) -> Option<Time> {
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
