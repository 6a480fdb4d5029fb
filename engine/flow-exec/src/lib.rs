//! The live driver and what it stands on: processes, samplers, plugins, files. Knows no scheduling rule and prints nothing.

pub mod attempt;
pub mod clock;
pub mod hardware;
pub mod keeper;
pub mod sampler;
