//! The scheduler: a state machine with time as an argument and effects as values.
//!
//! ```text
//! events ──▶ machine ── state (the one setter) ── settle (what blocks what) ── groups (barrier and window)
//!               │ tick: one decision
//!               ▼
//!            policy ── proposes ──▶ admit ── asks ──▶ place (in resources) ──▶ start ──▶ actions
//! ```
//!
//! What its driver owes it, live or simulated:
//!
//! | action | what to do, and the event that answers |
//! | --- | --- |
//! | `LookUp` | [`Event::Answered`] for each instance, always; after a cancel `Miss` without looking will do |
//! | `Start` | start it: [`Event::Started`] when the process exists, else [`Event::SpawnFailed`] and nothing more. Later [`Event::Exited`], once, whatever happens; where collecting takes time, [`Event::Collecting`] before it; [`Event::Hopeless`], where to try it again would come out the same. Of a co-run group all `Start`s of one call at one instant, and [`Event::Ready`] and [`Event::Sufficed`] as the program says them; a plain command is ready when it is started |
//! | `Release` | write `go` for all of them |
//! | `Stop` | write `stop`; the exits follow |
//! | `Kill` | ask it to end, kill it after the grace; [`Event::Exited`] follows, and its outcome will be the one of the kill, whatever it did meanwhile |
//! | `Record` | store and flush the result of that attempt, with the outcome of its kill if it was killed: [`Event::Recorded`], always |
//! | `Discard` | drop what the attempt left; another one will come |
//! | `Settle` | note it: no event. What was settled from the start, hit or was refused in a look-up is not said again |
//! | `Preempt` | simulations only: stop it at once, keep its progress; no event |
//! | `Finish` | the end |
//!
//! and a [`Event::Tick`] after the events of an instant, whenever [`Scheduler::next_wake`] is not later than now. Where other runs
//! share the machine, [`Event::Others`] before it, and what [`Scheduler::holding`] and [`Scheduler::held_up`] say is told to them
//! after it, before anybody else decides.

mod admit;
mod api;
mod check;
mod conclude;
pub mod contention;
mod demand;
mod explain;
mod groups;
mod machine;
mod others;
mod place;
pub mod policy;
pub mod queue;
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
    Placer, Sharing, Task,
};
pub use explain::{Holder, Shortage, Waiting};
pub use machine::Scheduler;
pub use others::{BlockedUnit, Booked, CardHolders, CardLoad, Head, Holding, PeerLoad, PeerRun, QueuePosition, Shift};
