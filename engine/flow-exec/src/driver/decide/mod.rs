//! From a gang whose needs are settled to a settled instance: look up, defer, start or record. Runs no program.

pub(super) mod decisions;
pub(super) mod deferred;
pub(super) mod outcomes;
pub(super) mod recorder;
