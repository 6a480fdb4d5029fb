//! A discrete-event driver of flow's scheduler: the same state machine as in a live run, on machines that need not be there,
//! with tasks that behave as they are told. It predicts what the scheduler's actions lead to, and holds no scheduling rule. What
//! is expected of tasks stays as it was at the beginning, unless a simulation has a [`GroundTruth`] that it is to find.
//!
//! At one instant completions come first, then arrivals and faults, then one decision. No clock, no randomness: the same
//! input gives the same schedule.
#![forbid(unsafe_code)]

mod agenda;
pub mod arrivals;
mod cluster;
mod expected;
mod learning;
mod nodes;
mod pending;
mod preempt;
mod queue;
mod schedule;
mod slurm;
mod study;
mod summary;
mod task;
pub mod trace;
mod working;
mod world;

pub use cluster::{Cluster, Placement};
pub use expected::{expected, foresee};
pub use learning::{GroundTruth, Learned};
pub use schedule::{Ran, Schedule, SimError};
pub use slurm::{Idle, Met, Slurm};
pub use study::{Study, StudyWith, provided};
pub use summary::{Summary, Use, cpu_over_time, waiting_over_time};
pub use task::{Attempt, End, Fault, SimTask};
pub use world::{Simulation, simulate};
