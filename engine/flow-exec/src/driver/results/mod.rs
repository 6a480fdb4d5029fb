//! What a program leaves and what becomes of it: output, files with numbers, the result, checkpoints, kept files.

pub(super) mod checkpoint;
pub(super) mod cleanup;
pub(super) mod finish;
pub(super) mod keep;
pub(super) mod listener;
pub(super) mod numbers;
pub(super) mod reading;
