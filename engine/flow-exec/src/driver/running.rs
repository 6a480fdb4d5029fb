//! An attempt whose program runs, and what is known of it while it does.

use std::{collections::BTreeMap, sync::Arc};

use flow_core::{
    Artifact, AttemptId, Body, Circumstances, Instance, InstanceId, Outcome, Resolved, measure::GpuSamples,
    sched::Placement,
};
use flow_store::{Activity, Captured, Queued};

use super::{context::RunContext, executor::Work, fill::Prepared, listener::Listener};
use crate::{
    attempt::Folder,
    keeper,
    node::{NewSamples, NodeFacts, NodeFiles, Observations, Surroundings, Written},
};

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
    /// Together with what was seen of it.
    pub(super) observations: Option<Observations>,
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
    /// It is over: what its GPUs were seen to do until then, with the share of a core that this took. Nothing ends it any more.
    pub(super) seen_of_gpus: Option<(GpuSamples, f64)>,
    pub(super) fraction: Option<f64>,
    pub(super) text: String,
    /// Its job waits elsewhere.
    pub(super) queued: Option<Queued>,
    /// What flow itself does for it.
    pub(super) activity: Activity,
}

impl Running {
    /// An attempt whose folder is filled, and what whoever executes it is given.
    pub(super) fn new(
        attempt: AttemptId,
        instance: InstanceId,
        prepared: Prepared,
        context: &RunContext,
    ) -> (Running, Work) {
        let Prepared {
            placement,
            launch,
            folder,
            resolved,
            listener,
            circumstances,
            began,
            piped,
            job,
            stays,
            unsettled,
            is_observed,
            ..
        } = prepared;
        let joined = stays.as_ref().filter(|stays| stays.joined);
        // What an earlier run asked for may wait as well.
        let began_before = job.as_ref().map(|job| job.joined && NodeFiles::of(folder.path()).read_started().is_some());
        let running = Running {
            instance,
            process: !matches!(resolved.body, Body::Builtin { .. }),
            batch: job.is_some() || joined.is_some(),
            joinable: job.is_some() || stays.is_some(),
            unsettled: unsettled.is_some(),
            observations: is_observed.then(|| Observations::of(folder.path())),
            known: joined.map(|stays| context.left.labels(&stays.intent.run)).unwrap_or_default(),
            began_there: false,
            rejoined: joined.is_some() || began_before == Some(true),
            placement,
            announces: launch.announces,
            linked: launch.linked,
            captured: launch.captured,
            listener,
            circumstances,
            began,
            killed: None,
            seen_of_gpus: None,
            fraction: None,
            text: String::new(),
            // Until it is submitted, which may take its time, Slurm's thread does not speak of it.
            queued: (began_before == Some(false)).then(|| Queued {
                job: None,
                reason: String::new(),
                since: (began * 1e3) as u64,
                advice: None,
            }),
            activity: context.activity.part(),
            folder: folder.clone(),
            resolved,
        };
        let program = keeper::Start {
            attempt,
            argv: launch.argv,
            env: launch.env,
            cwd: folder.work(),
            folder: folder.path().to_owned(),
            secrets: if piped { context.secrets.values().to_vec() } else { Vec::new() },
            unsettled,
        };
        (running, Work { program, job, stays })
    }

    /// What the status tells of it.
    pub(super) fn shown(&self, attempt: AttemptId, instance: &Instance) -> flow_store::Running {
        flow_store::Running {
            instance: self.instance,
            label: instance.label.to_string(),
            attempt,
            started_at: (self.began * 1e3) as u64,
            fraction: self.fraction,
            text: Some(self.text.clone()).filter(|text| !text.is_empty()),
            queued: self.queued.clone(),
            gpus: self.circumstances.gpus.clone(),
            gpus_asked: gpus_asked(instance),
            cpus: self.placement.cpus,
        }
    }

    /// Another attempt runs beside it.
    pub(super) fn is_beside(&mut self, other: AttemptId, placement: &Placement) {
        if let Some(observations) = &mut self.observations {
            observations.is_beside(other, self.placement.gpus.iter().any(|gpu| placement.gpus.contains(gpu)));
        }
    }

    /// Writes down what is new of it, if that is kept for whoever comes after this run; `closed`: when the window of its group was.
    pub(super) fn note(&mut self, at: f64, closed: Option<f64>, news: impl FnOnce(&mut Written) -> NewSamples) {
        if let Some(observations) = &mut self.observations {
            let Circumstances { elsewhere, unwatched, .. } = self.circumstances;
            observations.look(at, &self.listener.looks, Surroundings { elsewhere, unwatched, closed }, news);
        }
    }

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

/// How many GPUs its job asks for, if a batch system runs it.
pub(super) fn gpus_asked(instance: &Instance) -> u32 {
    instance.slurm.as_ref().map_or(0, |_| instance.request.gpus)
}
