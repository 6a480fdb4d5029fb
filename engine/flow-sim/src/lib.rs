//! flow-sim
