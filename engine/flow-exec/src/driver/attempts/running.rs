//! An attempt whose program runs, and what is known about it so far.

use std::{collections::BTreeMap, sync::Arc};

use flow_core::{
    Artifact, AttemptId, Body, Circumstances, Instance, InstanceId, Outcome, ResolvedInstance, measure::GpuSamples,
    sched::Placement,
};
use flow_protocol::Exit;
use flow_runs::QueuedJob;
use flow_store::{Activity, CapturedInput, Objects};
use flow_supervisor::{
    attempt::Folder,
    intents::Intent,
    keeper,
    node::{NodeFacts, NodeFiles},
};

use crate::driver::{
    begin::{context::RunContext, environments, fill::PreparedAttempt, step_variables::StepVariables},
    executor::Work,
    results::listener::Listener,
};

pub(crate) struct LiveAttempt {
    pub(crate) instance: InstanceId,
    pub(crate) folder: Folder,
    pub(crate) resolved: ResolvedInstance,
    pub(crate) placement: Placement,
    /// A built-in runs inside the engine: no process, nothing to sample.
    pub(crate) process: bool,
    /// Another process owns the attempt and its resources: it runs on a cluster node, or an earlier run started it.
    /// This run only polls its folder.
    pub(crate) batch: bool,
    /// Its program runs there, as far as is known.
    pub(crate) began_there: bool,
    /// An earlier run started it.
    pub(crate) rejoined: bool,
    /// Another run may have to conclude it until its result is recorded.
    pub(crate) joinable: bool,
    /// The record of its gang for the next run: of a detached run from its start, of a foreground run while its outputs
    /// are stored, if [it took a while](Self::is_noted).
    pub(crate) intent: Option<Arc<Intent>>,
    /// Labels of the attempts of the run that started it.
    pub(crate) known: Arc<BTreeMap<AttemptId, String>>,
    /// Its program reports by itself when it is ready.
    pub(crate) announces: bool,
    /// Artifacts that it reads directly from the store, by their path in its work folder.
    pub(crate) linked: Vec<(String, Artifact)>,
    /// The captured copies that it reads as inputs.
    pub(crate) captured: Vec<Arc<CapturedInput>>,
    pub(crate) listener: Listener,
    pub(crate) circumstances: Circumstances,
    /// To be written if it fails.
    pub(crate) variables: StepVariables,
    pub(crate) began: f64,
    /// There may be notes beside its checkpoint.
    pub(crate) has_notes: bool,
    pub(crate) killed: Option<Outcome>,
    /// Set after its end: samples of its GPUs, and the share of a core that sampling took. It cannot be killed any
    /// more.
    pub(crate) seen_of_gpus: Option<(GpuSamples, f64)>,
    pub(crate) fraction: Option<f64>,
    pub(crate) text: String,
    /// Its job waits in a batch queue.
    pub(crate) queued: Option<QueuedJob>,
    /// Progress of flow's own work for it.
    pub(crate) activity: Activity,
}

impl LiveAttempt {
    /// Makes an attempt from its filled folder, and the request for its executor.
    pub(crate) fn new(
        attempt: AttemptId,
        instance: InstanceId,
        prepared: PreparedAttempt,
        context: &RunContext,
    ) -> (LiveAttempt, Work) {
        let PreparedAttempt {
            placement,
            launch,
            folder,
            resolved,
            listener,
            circumstances,
            began,
            piped,
            job,
            detached: stays,
            intent,
            has_notes,
            ..
        } = prepared;
        let joined = stays.as_ref().filter(|stays| stays.joined);
        // A job of an earlier run may still wait, too.
        let began_before = job.as_ref().map(|job| job.joined && NodeFiles::of(folder.path()).read_started().is_some());
        let env = launch.env.all();
        let running = LiveAttempt {
            instance,
            process: !matches!(resolved.body, Body::Builtin { .. }),
            batch: job.is_some() || joined.is_some(),
            joinable: job.is_some() || stays.is_some(),
            intent,
            known: joined.map(|stays| context.orphans.labels(&stays.intent.run)).unwrap_or_default(),
            began_there: false,
            rejoined: joined.is_some() || began_before == Some(true),
            placement,
            announces: launch.announces,
            linked: launch.linked,
            captured: launch.captured,
            listener,
            circumstances,
            variables: launch.env,
            began,
            has_notes,
            killed: None,
            seen_of_gpus: None,
            fraction: None,
            text: String::new(),
            // Slurm's thread does not report the job before it is submitted, which may take a while.
            queued: (began_before == Some(false)).then(|| QueuedJob {
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
            env,
            cwd: folder.work(),
            folder: folder.path().to_owned(),
            secrets: if piped { context.secrets.values().to_vec() } else { Vec::new() },
        };
        (running, Work { program, job, detached: stays })
    }

    /// The attempt as the status file shows it.
    pub(crate) fn shown(&self, attempt: AttemptId, instance: &Instance) -> flow_runs::RunningStep {
        let fact = |name| self.circumstances.facts.get(name).cloned();
        flow_runs::RunningStep {
            instance: self.instance,
            label: instance.label.to_string(),
            attempt,
            started_at: (self.began * 1e3) as u64,
            fraction: self.fraction,
            ends_at: None,
            text: Some(self.text.clone()).filter(|text| !text.is_empty()),
            queued: self.queued.clone(),
            job: fact("slurm_job"),
            node: fact("node"),
            gpus: self.circumstances.gpus.clone(),
            gpus_requested: gpus_requested(instance),
            cpus: self.placement.cpus,
        }
    }

    /// True if a daemon of this run keeps it.
    pub(crate) fn is_detached(&self) -> bool {
        self.joinable && !self.batch
    }

    /// True if its end is written down for the next run, in case that this process is killed while it stores the outputs.
    /// A shorter program is cheaper to run again.
    pub(crate) fn is_noted(&self, exit: &Exit) -> bool {
        /// In seconds.
        const LONG: f64 = 1.0;
        let is_good = exit.code == Some(0) && self.killed.is_none();
        self.intent.is_some() && !self.joinable && is_good && exit.ended_at - exit.started_at >= LONG
    }

    /// It runs on this node: replaces what was assumed about its machine.
    pub(crate) fn is_on(&mut self, node: NodeFacts, objects: &Objects) {
        let NodeFacts { host, job, cpu_model, host_cpus, allowed_cpus, memory, driver, gpus, environment, .. } = node;
        let circumstances = &mut self.circumstances;
        if matches!(self.resolved.body, Body::Command { .. }) {
            circumstances.environment = environments::complete(circumstances.environment, environment, objects);
        }
        (circumstances.cpu_model, circumstances.host_cpus) = (cpu_model, host_cpus);
        circumstances.allowed_cpus = allowed_cpus;
        // A batch system may be configured with more CPUs than its nodes have.
        circumstances.cpus = circumstances.cpus.min(host_cpus);
        (circumstances.host_memory, circumstances.driver) = (memory, driver);
        circumstances.gpus = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        circumstances.gpu_models = gpus.iter().map(|gpu| gpu.name.clone()).collect();
        circumstances.gpu_memory_total = gpus.iter().map(|gpu| gpu.memory).collect();
        circumstances.facts.insert("node".to_owned(), host);
        circumstances.facts.extend(job.map(|job| ("slurm_job".to_owned(), job)));
    }
}

/// How many GPUs its job requests, if a batch system runs it.
pub(crate) fn gpus_requested(instance: &Instance) -> u32 {
    if instance.is_batch() { instance.request.gpus } else { 0 }
}
