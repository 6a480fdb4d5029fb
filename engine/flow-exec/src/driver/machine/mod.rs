//! The machine's GPUs and its other runs.

pub(super) mod cards;
pub(super) mod peers;
