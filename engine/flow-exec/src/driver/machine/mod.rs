//! The machine's GPUs and its other runs.

pub(super) mod peers;
pub(super) mod run_gpus;
