//! The scheduler: a state machine with time as an argument and effects as values.
//!
//! ```text
//! events ──▶ machine ── state (the one setter) ── settle (what blocks what) ── groups (barrier and window)
//!               │ tick: one decision
//!               ▼
//!            policy ── proposes ──▶ admit ── asks ──▶ place (in resources) ──▶ start ──▶ actions
//! ```
//!
//! Duties of its driver, live or simulated:
//!
//! | action | what to do, and the event that answers |
//! | --- | --- |
//! | `LookUp` | [`Event::Answered`] for each instance, always; after a cancel, `Miss` without a lookup is fine |
//! | `Start` | start it: [`Event::Started`] once the process exists, else [`Event::SpawnFailed`] and nothing more. Later [`Event::Exited`], exactly once; before it [`Event::Collecting`] if collecting takes time, and [`Event::Hopeless`] if a retry would end the same. For a co-run group: all `Start`s of one call at one instant, and [`Event::Ready`] and [`Event::Sufficed`] when the program reports them; a plain command is ready once started |
//! | `Release` | write `go` for all of them |
//! | `Stop` | write `stop`; the exits follow |
//! | `Kill` | ask it to end, kill it after the grace; [`Event::Exited`] follows, and the kill's outcome replaces its own |
//! | `Record` | store and flush the result of that attempt, with the outcome of its kill if it was killed: [`Event::Recorded`], always |
//! | `Discard` | drop the attempt's outputs; another attempt will follow |
//! | `Settle` | note it: no event. Not sent for instances that were settled from the start, or by a hit or a refusal |
//! | `Preempt` | simulations only: stop it at once, keep its progress; no event |
//! | `Finish` | the end |
//!
//! A [`Event::Tick`] follows the events of an instant, whenever [`Scheduler::next_wake`] is not later than now. If
//! other runs share the machine, send [`Event::Others`] before the tick; after it publish [`Scheduler::holding`] and
//! [`Scheduler::held_up`] to them, before another run decides.

mod admit;
mod api;
mod check;
mod conclude;
pub mod contention;
mod demand;
mod explain;
mod forecast;
mod groups;
mod machine;
mod others;
mod place;
pub mod policy;
mod resources;
mod settle;
mod stake;
mod start;
mod state;
mod submit;
#[cfg(test)]
mod tests;

pub use api::{
    Action, Answer, Capacity, Distance, Estimate, EstimateSource, Event, GpuState, Limits, OtherParameter, Placement,
    Sharing, Task,
};
pub use explain::{Holder, Shortage, WaitState};
pub use forecast::StartForecast;
pub use machine::Scheduler;
pub use others::{BlockedGang, GpuHolders, Head, MachineShare, PeerLoad, PeerRun, QueuePosition, Shift};
