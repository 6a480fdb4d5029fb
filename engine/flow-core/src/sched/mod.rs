//! The scheduler: a state machine with time as an argument and effects as values.

mod api;

pub use api::{Action, Answer, Capacity, Estimate, Event, GpuState, Placement, Task};
