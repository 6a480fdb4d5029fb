//! The scheduler: a state machine with time as an argument and effects as values.
//!
//! ```text
//! events ──▶ machine ── state (the one setter) ── settle (what blocks what) ── groups (barrier and window)
//!               │ tick: one decision
//!               ▼
//!            policy ── proposes ──▶ admit ── places in ──▶ resources ──▶ actions
//! ```

mod admit;
mod api;
mod check;
mod explain;
mod groups;
mod machine;
pub mod policy;
mod resources;
mod settle;
mod state;
#[cfg(test)]
mod tests;

pub use api::{Action, Answer, Capacity, Estimate, Event, GpuState, Limits, Placement, Task};
pub use explain::{Holder, Resource, Shortage, Waiting};
pub use machine::Scheduler;
