//! An attempt whose program runs, and what is known of it while it does.

use std::sync::Arc;

use flow_core::{Artifact, Circumstances, InstanceId, Outcome, Resolved, sched::Placement};
use flow_store::Captured;

use super::listener::Listener;
use crate::attempt::Folder;

/// An attempt whose program runs.
pub(super) struct Running {
    pub(super) instance: InstanceId,
    pub(super) folder: Folder,
    pub(super) resolved: Resolved,
    pub(super) placement: Placement,
    /// A built-in runs inside the engine: no process, nothing to sample.
    pub(super) process: bool,
    /// Its program says by itself when it is ready.
    pub(super) announces: bool,
    /// Artifacts that it reads in the store itself, by their place in its work folder.
    pub(super) linked: Vec<(String, Artifact)>,
    /// What it was given in place of its inputs.
    pub(super) captured: Vec<Arc<Captured>>,
    pub(super) listener: Listener,
    pub(super) circumstances: Circumstances,
    pub(super) began: f64,
    pub(super) killed: Option<Outcome>,
    pub(super) fraction: Option<f64>,
    pub(super) text: String,
}
