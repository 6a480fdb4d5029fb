//! A discrete-event driver of flow's scheduler. It is the same state machine as in a live run, on hypothetical
//! machines, with tasks of given behaviour. It predicts the effects of the scheduler's actions and holds no scheduling
//! rule. Estimates of tasks stay as they were at the beginning.
//!
//! At one instant completions come first, then arrivals and faults, then one decision. No clock, no randomness: the same
//! input gives the same schedule.
#![forbid(unsafe_code)]

mod agenda;
pub mod arrivals;
mod cluster;
mod expected;
mod nodes;
mod pending;
mod queue;
mod schedule;
mod slurm;
mod study;
mod summary;
mod task;
pub mod trace;
mod work_in_progress;
mod world;

pub use cluster::Cluster;
pub use expected::expected;
pub use schedule::{Schedule, ScheduledAttempt, SimError};
pub use slurm::{Idle, QueueStats, Slurm};
pub use study::{Study, StudyWith, provided};
pub use summary::{Summary, Use, cpu_over_time, waiting_over_time};
pub use task::{Attempt, End, Fault, SimTask};
pub use world::Simulation;
