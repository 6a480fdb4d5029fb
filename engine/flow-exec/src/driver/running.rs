//! An attempt whose program runs, and what is known of it while it does.

use std::{collections::BTreeMap, sync::Arc};

use flow_core::{Artifact, AttemptId, Circumstances, InstanceId, Outcome, Resolved, sched::Placement};
use flow_store::{Captured, Queued};

use super::listener::Listener;
use crate::{attempt::Folder, node::NodeFacts};

/// An attempt whose program runs.
pub(super) struct Running {
    pub(super) instance: InstanceId,
    pub(super) folder: Folder,
    pub(super) resolved: Resolved,
    pub(super) placement: Placement,
    /// A built-in runs inside the engine: no process, nothing to sample.
    pub(super) process: bool,
    /// Another process owns the attempt and its resources: it runs on a cluster node, or an earlier run started it.
    /// This run only polls its folder.
    pub(super) batch: bool,
    /// Its program runs there, as far as is known.
    pub(super) began_there: bool,
    /// An earlier run began it.
    pub(super) rejoined: bool,
    /// Until its result is safe another run may have to conclude it.
    pub(super) joinable: bool,
    /// If this process is killed before its result is safe, the keeper writes it down for another run.
    pub(super) unsettled: bool,
    /// That is worth nothing without what was seen of it.
    pub(super) watched: bool,
    /// What was begun with it by the run that began it, by attempt.
    pub(super) known: Arc<BTreeMap<AttemptId, String>>,
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
    /// Its job waits elsewhere.
    pub(super) queued: Option<Queued>,
}

impl Running {
    /// It runs on this node: what was assumed of its machine is known now.
    pub(super) fn is_on(&mut self, node: NodeFacts) {
        let NodeFacts { host, cpu_model, host_cpus, memory, driver, gpus, .. } = node;
        let circumstances = &mut self.circumstances;
        (circumstances.cpu_model, circumstances.host_cpus) = (cpu_model, host_cpus);
        // A batch system may be told that its nodes have more than they have.
        circumstances.cpus = circumstances.cpus.min(host_cpus);
        (circumstances.host_memory, circumstances.driver) = (memory, driver);
        circumstances.gpus = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        circumstances.gpu_models = gpus.iter().map(|gpu| gpu.name.clone()).collect();
        circumstances.gpu_memory_total = gpus.iter().map(|gpu| gpu.memory).collect();
        self.listener.facts.insert("node".to_owned(), host);
    }
}
