//! What an attempt needs before its program starts: the plan and the inputs of the run, claims, the software
//! environment, and the attempt's filled folder. Starts no program.

pub(super) mod capture;
pub(super) mod context;
pub(super) mod environments;
pub(super) mod fill;
mod input_folder;
pub(super) mod live_sources;
pub(super) mod revision;
pub(super) mod run_claims;
pub(super) mod setups;
pub(super) mod start;
pub(super) mod step_variables;
pub(super) mod work_place;
