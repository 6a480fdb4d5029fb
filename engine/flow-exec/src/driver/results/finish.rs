//! From an ended attempt to its result: outcome, outputs into the store, numbers, usage, circumstances, kept files.
//! Stores no result.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use flow_core::{
    Artifact, Body, Circumstances, CorunWindow, Digest, EarlierUsage, Exclusive, Expansion, ForeignProcess, Input,
    Instance, Machine, Outcome, Output, ResolvedInstance, RunId, Series, StepResult, Usage,
    measure::{AttemptSamples, Record, sum_up},
    reason::{Cause, Disturbance, StoreFault, Texts},
    sched::Placement,
};
use flow_protocol::Exit;
use flow_runs::StoreError;
use flow_store::Objects;
use flow_supervisor::{
    attempt::{EndFacts, Folder, conclude, leftover, open_log},
    hardware, sampler,
    secrets::Secrets,
};
use serde_json::Value;

use super::{keep::keep, listener::Listener};
use crate::{
    Workspace,
    driver::executor::{LocalObservation, OutcomeOverride},
    unlisted::unlisted,
};

/// How many lines at the end of a log are read for error messages.
const LOG_TAIL: usize = 50;

/// All that decides the result of an ended attempt.
pub(crate) struct EndedAttempt<'a> {
    pub(crate) expansion: &'a Expansion,
    pub(crate) workspace: &'a Workspace,
    pub(crate) run: &'a RunId,
    pub(crate) instance: &'a Instance,
    pub(crate) resolved: &'a ResolvedInstance,
    pub(crate) fingerprint: Digest,
    /// The fingerprint of the attempt, if the output of a plain program is to be kept.
    pub(crate) attempt: Option<Digest>,
    pub(crate) secrets: &'a Secrets,
    pub(crate) folder: &'a Folder,
    /// The folder with the run's copies of inputs, laid out like the originals.
    pub(crate) captured: &'a Path,
    pub(crate) objects: &'a Objects,
    pub(crate) exit: &'a Exit,
    pub(crate) killed: Option<Outcome>,
    /// An outcome that replaces the program's own.
    pub(crate) instead: Option<OutcomeOverride>,
    /// Resources used by the attempts it continues.
    pub(crate) earlier: Option<EarlierUsage>,
    /// It may continue earlier attempts.
    pub(crate) has_notes: bool,
    pub(crate) listener: &'a mut Listener,
    pub(crate) circumstances: Circumstances,
    pub(crate) window: Option<CorunWindow>,
    /// Another run may have to conclude it until its result is recorded.
    pub(crate) joinable: bool,
    /// Its outputs keep their names in its work folder, which may be collected again or looked at.
    pub(crate) keeps_names: bool,
}

/// Concludes an attempt; `seen` is empty for built-ins. An output that cannot be read or stored (for example, disk
/// full) fails only this attempt. The second value is the error if its output could not be kept for a later reading.
pub(crate) fn finish(end: EndedAttempt<'_>, seen: &LocalObservation) -> (StepResult, Option<StoreError>) {
    let EndedAttempt { expansion, workspace, instance, exit, listener, .. } = end;
    let step = &expansion.steps[instance.step.index()];
    let metrics = step.metrics.as_deref();
    let tail = if exit.code == Some(0) { Vec::new() } else { end.folder.log_tail(LOG_TAIL).unwrap_or_default() };
    let (mut outcome, mut cause) = match end.instead.filter(|_| end.killed.is_none()) {
        Some(OutcomeOverride { outcome, cause, .. }) => (outcome, cause),
        None => conclude(&EndFacts {
            exit,
            report: &listener.report,
            killed: end.killed,
            refused: listener.refused.as_ref(),
            log_tail: &tail,
            on_gpus: !end.circumstances.gpus.is_empty(),
        }),
    };
    if outcome == Outcome::TimedOut && cause.is_none() {
        cause = Some(Cause::TimedOut { limit: instance.timeout.unwrap_or_default() });
    }
    if outcome == Outcome::Failed {
        let work = end.folder.work();
        let (inside, captured) = (format!("{}/", work.display()), format!("{}/", end.captured.display()));
        let near = |text: &str| text.replace(&inside, "").replace(&captured, "");
        cause.texts(&mut |text| *text = near(text));
        let tail: Vec<String> = tail.iter().map(|line| near(line)).collect();
        if let Some(path) = unlisted(&tail, &work, &workspace.folder, &workspace.root) {
            cause = Some(Cause::NotListed { path, because: cause.map(Box::new) });
        }
    }
    let mut outputs = indexmap::IndexMap::new();
    let no_metrics = listener.read_files(&end.folder.work(), outcome == Outcome::Ok, end.objects.activity());
    if outcome == Outcome::Ok {
        let work = end.folder.work();
        let absent = |output| absent(output, instance, end.resolved, end.folder, &workspace.folder);
        if let Some(why) = instance.outputs.iter().find_map(absent) {
            (outcome, cause) = (Outcome::Failed, Some(why));
        }
        // If one output is missing, the others stay in the work folder.
        for output in instance.outputs.iter().take_while(|_| outcome == Outcome::Ok) {
            let path = work.join(&output.path);
            let ingest = || match end.joinable {
                // A run that joins the attempt again must find all outputs.
                true => end.objects.ingest_copy_of(&path, &work),
                false if end.keeps_names => end.objects.ingest_linked(&path, &work),
                false => end.objects.ingest(&path, &work),
            };
            let artifacts = end.resolved.links.iter().map(|link| link.path.clone());
            let given = instance.inputs.iter().map(Input::place).chain(artifacts);
            match mend_and_ingest(end.objects, (&path, &work), given, ingest) {
                Ok(artifact) => drop(outputs.insert(output.name.clone(), artifact)),
                Err(error) => {
                    (outcome, cause) = (Outcome::Failed, Some(not_kept(&error)));
                    break;
                }
            }
        }
    }
    let required = metrics.is_some_and(|metrics| metrics.required);
    let missed = no_metrics.is_some() && outcome == Outcome::Ok;
    // The work is done: its metrics can be read, or its outputs collected, in another way.
    let is_uncollected = matches!(cause, Some(Cause::NoOutput { .. }));
    let done = outcome == Outcome::Ok || instance.record.contains(&outcome) || is_uncollected;
    if let Some(problem) = no_metrics.filter(|_| outcome == Outcome::Ok) {
        cause = Some(Cause::NoMetrics { problem });
        if required {
            outcome = Outcome::Failed;
        }
    }
    let mut circumstances = end.circumstances;
    circumstances.oom_killed = outcome == Outcome::OutOfMemory && exit.oom_killed;
    circumstances.facts.append(&mut listener.facts);
    circumstances.corun = end.window;
    let paths = instance.outputs.iter().filter(|output| outputs.contains_key(&output.name));
    let paths = paths.map(|output| (output.name.clone(), output.path.clone())).collect();
    let mut result = StepResult {
        caveats: Vec::new(),
        fingerprint: end.fingerprint,
        workflow: expansion.workflow.clone(),
        step: step.name.clone(),
        label: instance.label.to_string(),
        axes: (*instance.axes).clone(),
        repetition: instance.repetition,
        outcome,
        cause,
        disturbances: Vec::new(),
        run: end.run.clone(),
        started_at: (exit.started_at * 1e3) as u64,
        ended_at: (exit.ended_at * 1e3) as u64,
        outputs,
        paths,
        metrics: BTreeMap::new(),
        params: scalars(end.resolved),
        usage: Usage { sampler_cpu: Some(seen.cost), ..sampler::whole(exit) }.after(end.earlier),
        circumstances,
        series: None,
        kept: None,
        accepted: None,
    };
    let (started_at, ended_at) = (exit.started_at, exit.ended_at);
    let series = sum_up(
        &listener.reported,
        AttemptSamples { started_at, ended_at, host: &seen.samples, gpus: &seen.gpus },
        &mut result,
    );
    match store_series(&series, end.objects) {
        Ok(kept) => result.series = kept,
        Err(error) if result.outcome != Outcome::Failed => {
            (result.outcome, result.cause) = (Outcome::Failed, Some(not_kept(&error)));
        }
        Err(_) => {}
    }
    result.disturbances =
        disturbed(expansion.machine_of(instance), instance, &result.circumstances, &seen.gpus.holes());
    let mut unkept = None;
    if let Some(attempt) = end.attempt.filter(|_| done && !listener.sent_numbers) {
        let record = Record {
            began: listener.began,
            released: listener.released,
            started_at,
            ended_at,
            looks: std::mem::take(&mut listener.looks),
            cut: None,
            earlier: None,
            host: seen.samples.clone(),
            gpus: seen.gpus.clone(),
        };
        let given = (instance, &*end.resolved.links);
        let earlier = if end.has_notes { open_log(&end.folder.earlier()).ok() } else { None };
        match keep(attempt, record, given, metrics, missed, earlier, (end.folder, end.objects, end.secrets)) {
            Ok(kept) => result.kept = Some(kept),
            // The result is valid anyway.
            Err(error) => unkept = Some(error),
        }
    }
    (result, unkept)
}

/// Stores the series of a result, if it has any.
fn store_series(series: &Series, objects: &Objects) -> Result<Option<Digest>, StoreError> {
    if series.is_empty() {
        return Ok(None);
    }
    // Its keys are texts and its values numbers, so that JSON cannot fail.
    let bytes = serde_json::to_vec(series).unwrap_or_default();
    Ok(Some(objects.store_bytes(&bytes)?.digest))
}

/// Ingests an output. If links in it cannot be stored as they are, it replaces them and tries again. `given`: the inputs
/// in the work folder.
pub(super) fn mend_and_ingest(
    objects: &Objects,
    (path, work): (&Path, &Path),
    given: impl Iterator<Item = String>,
    ingest: impl Fn() -> Result<Artifact, StoreError>,
) -> Result<Artifact, StoreError> {
    match ingest() {
        Err(StoreError::NotAnArtifact(StoreFault::LeadsOut { .. })) => {
            let given: Vec<PathBuf> = given.filter_map(|place| fs::canonicalize(work.join(place)).ok()).collect();
            objects.mend_links(path, work, &given)?;
            ingest()
        }
        ingested => ingested,
    }
}

fn not_kept(error: &StoreError) -> Cause {
    Cause::NotStored { error: error.into() }
}

/// The reason, if any, why an output cannot be read from the work folder.
fn absent(
    output: &Output,
    instance: &Instance,
    resolved: &ResolvedInstance,
    folder: &Folder,
    workflow_folder: &Path,
) -> Option<Cause> {
    /// How many new files are named.
    const NAMED: usize = 3;
    let (name, path, work) = (output.name.clone(), output.path.clone(), folder.work());
    let error = fs::symlink_metadata(work.join(&path)).err()?;
    if error.kind() != io::ErrorKind::NotFound {
        return Some(Cause::OutputUnseen { output: name, path, error: error.into() });
    }
    let inputs = instance.inputs.iter().chain(&resolved.inputs).map(|input| PathBuf::from(&*input.place()));
    let outputs = instance.outputs.iter().map(|output| PathBuf::from(&output.path));
    let artifacts = resolved.links.iter().map(|link| PathBuf::from(&link.path));
    let known: BTreeSet<PathBuf> = inputs.chain(outputs).chain(artifacts).chain(["in".into()]).collect();
    let mut new = leftover(&work, &known, &path);
    let more = new.len().saturating_sub(NAMED) as u32;
    new.truncate(NAMED);
    // Short, and without the name of the user, because reports show it.
    let work = folder.work_in_store();
    let shown = work.strip_prefix(workflow_folder).unwrap_or(&work).display().to_string();
    Some(Cause::NoOutput { output: name, path, new, more, work: shown })
}

/// The circumstances that are known before the start.
pub(crate) fn circumstances(expansion: &Expansion, instance: &Instance, placement: &Placement) -> Circumstances {
    let machine = expansion.machine_of(instance);
    // A path says where something is, not how much work it means.
    let tells = |value: &Value| match value {
        Value::String(text) => !text.contains('/'),
        value => value.is_number() || value.is_boolean(),
    };
    let params = expansion.steps[instance.step.index()].params.iter();
    let params = params.filter_map(|name| expansion.params.get_key_value(name)).filter(|(_, value)| tells(value));
    let gpus: Vec<_> = placement.gpus.iter().filter_map(|id| machine.gpus.get(id.index())).collect();
    Circumstances {
        mode: instance.mode(),
        gpu_models: gpus.iter().map(|g| g.name.clone()).collect(),
        gpus: gpus.iter().map(|g| g.uuid.clone()).collect(),
        gpu_memory_total: gpus.iter().map(|g| g.memory).collect(),
        gpu_memory: instance.request.gpu_memory,
        memory: instance.request.memory,
        timeout: instance.limit(),
        cpus: placement.cpus,
        host_cpus: hardware::host_cpus(),
        allowed_cpus: hardware::allowed_cpus(),
        cpu_model: machine.cpu_model.clone(),
        host_memory: machine.memory,
        params: params.map(|(name, value)| (name.clone(), value.clone())).collect(),
        driver: machine.driver.clone(),
        fake_gpus: machine.fake_gpus,
        ..Circumstances::default()
    }
}

/// Reasons why a measurement is disturbed: foreign processes on its GPUs, no view of its GPUs, or steps of another run
/// on a machine that it wanted for itself.
fn disturbed(
    machine: &Machine,
    instance: &Instance,
    seen: &Circumstances,
    holes: &[(String, f64)],
) -> Vec<Disturbance> {
    if !instance.measured {
        return Vec::new();
    }
    let gpu =
        |uuid: &str| machine.gpus.iter().find(|gpu| gpu.uuid == uuid).map_or(uuid.to_owned(), |g| g.index.to_string());
    let process =
        |s: &ForeignProcess| Disturbance::ForeignProcess { pid: s.pid, name: s.name.clone(), gpu: gpu(&s.gpu) };
    let hole =
        |(uuid, seconds): &(String, f64)| Disturbance::GpuSilent { gpu: gpu(uuid), seconds: seconds.round() as u32 };
    let alone = instance.exclusive == Exclusive::Machine || instance.corun.is_some();
    let others = (alone && seen.other_attempts > 0).then_some(Disturbance::OtherRuns { attempts: seen.other_attempts });
    let other = other_hardware(instance, seen);
    seen.foreign_processes.iter().map(process).chain(holes.iter().map(hole)).chain(others).chain(other).collect()
}

/// Disturbed if Slurm allocated other GPUs than declared. Without information from the node, the declared ones count.
fn other_hardware(instance: &Instance, seen: &Circumstances) -> Option<Disturbance> {
    let declared = instance.slurm.as_ref()?.gpu_type.as_deref()?;
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let found = seen.gpu_models.iter().find(|model| !plain(model).contains(&plain(declared)))?;
    Some(Disturbance::OtherHardware { declared: declared.to_owned(), found: found.clone() })
}

/// Parameters that a table can show: scalars only.
fn scalars(resolved: &ResolvedInstance) -> BTreeMap<String, Value> {
    let with = match &resolved.body {
        Body::Plugin { with, .. } | Body::Builtin { with, .. } => with,
        Body::Command { .. } => return BTreeMap::new(),
    };
    let scalar = |value: &Value| !value.is_object() && !value.is_array() && !value.is_null();
    with.iter().filter(|(_, value)| scalar(value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}
