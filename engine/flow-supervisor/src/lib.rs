//! The processes of attempts: starts, watches and ends them, and reports in the attempts' folders. Knows no workflow, no
//! scheduling rule and no cache.

pub mod attempt;
pub mod channel;
pub mod clock;
pub mod hardware;
pub mod intents;
pub mod keeper;
pub mod node;
pub mod nvml;
pub mod sampler;
pub mod secrets;
