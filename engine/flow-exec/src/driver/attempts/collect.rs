//! The job after an attempt's end: the rest of its output, its artifacts and numbers, and whether its measurement can
//! be trusted. Built-ins run here as well. Settles nothing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use flow_core::{
    ArtifactKind, AttemptId, Body, CorunWindow, Digest, GpuFacts, Input, Instance, InstanceId, Outcome, StepResult,
    Usage,
    measure::CoRunner,
    reason::{BatchEnd, Cause, Caveat, Disturbance, Fault, NoResumeReason},
};
use flow_protocol::{self as protocol, Exit};
use flow_runs::StoreDir;
use flow_supervisor::{
    attempt::{Folder, ProgramReport},
    clock,
    node::{NodeFiles, Record},
};

use super::running::LiveAttempt;
use crate::{
    declared_environment,
    driver::{
        begin::{context::RunContext, environments, live_sources},
        executor::{AttemptEnd, RemoteObservation, RetryAdvice},
        plan::lookup::drifted,
        reports::builtin,
        results::{
            checkpoint::Checkpoint,
            cleanup,
            finish::{self, EndedAttempt},
            keep::keep_inputs,
            listener::Changes,
        },
        session::plugin_of,
    },
};

/// An attempt whose program and all its descendants are gone.
pub(crate) struct Collect {
    pub(crate) attempt: AttemptId,
    pub(crate) running: LiveAttempt,
    pub(crate) end: AttemptEnd,
    pub(crate) fingerprint: Option<Digest>,
    /// The fingerprint of the attempt.
    pub(crate) attempt_fingerprint: Option<Digest>,
    pub(crate) window: Option<CorunWindow>,
    /// The attempts that ran at the same time.
    pub(crate) corunners: BTreeMap<AttemptId, CoRunner>,
    /// The GPU that it lost, if any.
    pub(crate) lost: Option<GpuFacts>,
    /// When the window of its group closed.
    pub(crate) closed: Option<f64>,
    /// Its last output, once that is read.
    pub(crate) output: Option<Changes>,
}

impl Collect {
    /// Reads the rest of its output, once.
    fn read_output(&mut self) {
        if self.output.is_none() && self.running.process {
            let Exit { code, ended_at, .. } = self.end.exit;
            self.output = Some(self.running.listener.listen_to_the_end(ended_at, code == Some(0)));
        }
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.running.is_noted(&self.end.exit)
    }

    /// Writes down its end, for the next run in case that this process is killed while it stores the outputs. A group is
    /// written when all its members have ended.
    pub(crate) fn note(&mut self, dir: &StoreDir) {
        self.read_output();
        let Collect { running, end: AttemptEnd { exit, seen, .. }, closed, corunners, .. } = self;
        let Some(intent) = running.intent.as_ref().filter(|_| running.is_noted(exit)) else { return };
        let near = corunners.iter().filter(|(_, corunner)| !corunner.gpus.is_empty());
        let record = Record {
            host: seen.samples.clone(),
            gpus: seen.gpus.clone(),
            cost: seen.cost,
            looks: running.listener.looks.clone(),
            released: running.folder.released(),
            other_attempts: running.circumstances.other_attempts,
            unwatched: running.circumstances.unwatched,
            corunners: corunners.keys().copied().collect(),
            near: near.map(|(attempt, _)| *attempt).collect(),
            closed: *closed,
            exit: exit.clone(),
            ..Record::default()
        };
        // If this fails, it may run again.
        let written = NodeFiles::of(running.folder.path()).write_ended(&record);
        if written.is_ok() && intent.has_ended() {
            let _ = intent.note(dir);
        }
    }
}

/// The result of an attempt.
pub(crate) struct CollectedAttempt {
    pub(crate) attempt: AttemptId,
    pub(crate) running: LiveAttempt,
    /// Its end is written down for the next run.
    pub(crate) is_noted: bool,
    pub(crate) corunners: BTreeMap<AttemptId, CoRunner>,
    /// The last output of its program.
    pub(crate) output: Changes,
    /// Notices for the user, shown after `output`.
    pub(crate) notices: Vec<String>,
    /// Whether and how to try again.
    pub(crate) again: RetryAdvice,
    pub(crate) result: StepResult,
}

/// Runs a built-in and collects its files.
pub(crate) fn run_builtin(context: &RunContext, mut builtin: Collect) -> CollectedAttempt {
    let running = &mut builtin.running;
    let (expansion, id) = (&context.session.expansion, running.instance);
    let began = clock::unix_seconds();
    let place = expansion.instances[id.index()].outputs.first().map_or("out", |output| &output.path);
    // Reads the copy that the run captured, because the fingerprint describes that one.
    let lies = |input: &Input| {
        let author = context.session.path(&input.path);
        let captured = running.captured.iter().find(|captured| captured.author() == author);
        captured.map_or(author, |captured| captured.path().to_owned())
    };
    let done = match &running.resolved.body {
        Body::Builtin { name, .. } => {
            builtin::input(expansion, id, &context.known, &running.resolved.inputs, &context.objects, None, lies)
                .and_then(|input| builtin::run(&*context.builtins, name, &input, &running.folder.work().join(place)))
        }
        Body::Plugin { .. } | Body::Command { .. } => Err("it is not a built-in step".into()),
    };
    let code = Some(i32::from(done.is_err()));
    builtin.end.exit = Exit { code, started_at: began, ended_at: clock::unix_seconds(), ..Exit::default() };
    running.listener.report = ProgramReport::Builtin(done.as_ref().map(drop).map_err(Fault::clone));
    let mut collected = collect(context, builtin);
    if let Ok(output) = done {
        let result = &mut collected.result;
        result.metrics.extend(output.metrics);
        result.cause = result.cause.take().or(output.cause);
        collected.notices.extend(output.notices);
    }
    collected
}

pub(crate) fn collect(context: &RunContext, mut ended: Collect) -> CollectedAttempt {
    ended.read_output();
    let is_noted = ended.is_noted();
    let Collect { attempt, mut running, end, fingerprint, attempt_fingerprint, window, corunners, lost, .. } = ended;
    let AttemptEnd { exit, seen, there, instead, .. } = end;
    let changes = ended.output.unwrap_or_default();
    let (session, id) = (&context.session, running.instance);
    let expansion = &session.expansion;
    let instance = &expansion.instances[id.index()];
    if let Some(RemoteObservation { looks, released, .. }) = there {
        running.listener.apply_record(&running.folder, exit.started_at, released, looks);
    }
    let finished =
        exit.code == Some(0) && matches!(running.listener.report, ProgramReport::Outcome(protocol::Outcome::Ok, _));
    // A program that was warned of the time limit and says that it finished has finished.
    let instead = instead.filter(|instead| !(finished && instead.is_time_limit()));
    let instead = instead.filter(|_| running.killed.is_none());
    let (limited, mut again) =
        instead.as_ref().map_or((false, RetryAdvice::AsConfigured), |instead| (instead.is_time_limit(), instead.again));
    let fingerprints = fingerprint.zip(attempt_fingerprint).filter(|_| running.process);
    let checkpoint = fingerprints.map(|(fingerprint, attempt)| context.checkpoint(fingerprint, attempt, instance));
    let noted = checkpoint.as_ref().filter(|_| running.has_notes);
    let (mut result, unkept) = finish::finish(
        EndedAttempt {
            expansion,
            workspace: &session.workspace,
            run: &context.run,
            instance,
            resolved: &running.resolved,
            fingerprint: fingerprint.unwrap_or(Digest([0; 32])),
            attempt: attempt_fingerprint.filter(|_| matches!(running.resolved.body, Body::Command { .. })),
            secrets: &context.secrets,
            folder: &running.folder,
            captured: &context.run_dir.inputs().join("0"),
            objects: &context.objects.doing(running.activity.clone()),
            exit: &exit,
            killed: running.killed,
            instead,
            earlier: noted.and_then(Checkpoint::earlier),
            has_notes: running.has_notes,
            listener: &mut running.listener,
            circumstances: std::mem::take(&mut running.circumstances),
            window,
            joinable: running.joinable,
            keeps_names: running.intent.is_some(),
        },
        &seen,
    );
    let recorded = result.circumstances.environment;
    // The programs of an image are not those of this machine.
    if !session.expansion.environment_of(instance).is_some_and(declared_environment::is_image) {
        result.circumstances.also_ran = environments::also_ran(seen.samples.programs(), recorded, &context.objects);
    }
    let mut notices = Vec::new();
    if let Some(kept) = &mut result.kept {
        let place = |input: &Input| {
            let path = session.path(&input.path);
            let captured = running.captured.iter().find(|captured| captured.author() == path);
            captured.map(|captured| (input.path.clone(), Arc::clone(captured)))
        };
        let captured: Vec<_> = instance.inputs.iter().filter(|input| !input.by_listing).filter_map(place).collect();
        let captured: Vec<_> = captured.iter().map(|(path, captured)| (&**path, &**captured)).collect();
        // Inputs that cannot be kept are not compared later.
        kept.inputs =
            keep_inputs(&captured, &context.kept_folders, &context.objects, &context.secrets).unwrap_or_default();
    }
    if let Some(error) = unkept {
        notices.push(format!("its log could not be stored, so its metrics cannot be read again: {error}"));
    }
    if let Some(lost) = lost.filter(|_| result.outcome == Outcome::Failed) {
        let because = result.cause.map(Box::new);
        result.cause = Some(Cause::GpuLost { gpu: lost.index, model: lost.name, because });
    }
    forget_set_up(context, id, &exit, &mut result);
    result.disturbances.extend(changed(context, &running));
    context.secrets.hide_in(&mut result.cause);
    context.secrets.hide_in(&mut result.disturbances);
    if result.outcome == Outcome::Ok {
        notices.extend(running.listener.reported.remarks());
        notices.extend(revealing_names(context, &result));
        if exit.swept > 0 {
            let left = if exit.swept == 1 { "process was" } else { "processes were" };
            notices.push(format!(
                "{} {left} still running when it ended, and got killed; if there was more to write, end the command with `wait`",
                exit.swept
            ));
        }
    }
    if limited || again == RetryAdvice::Lost {
        match (continues(instance, checkpoint.as_ref(), &result.usage, &running.folder), &mut result.cause) {
            (Ok(()), _) => again = RetryAdvice::Continues,
            (Err(why), Some(Cause::Batch { end: BatchEnd::TimeLimit { stopped }, .. })) => *stopped = Some(why),
            // An attempt that was lost is tried again anyway.
            (Err(_), _) => {}
        }
    }
    if let Some(checkpoint) = &checkpoint {
        let environment = result.circumstances.environment;
        result.caveats.extend(noted.and_then(|noted| other_environment(context, noted, environment)));
        let done = result.outcome == Outcome::Ok || instance.record.contains(&result.outcome);
        if again != RetryAdvice::Continues && (done || !instance.resume) {
            match noted {
                Some(noted) => noted.remove(),
                None => cleanup::remove(checkpoint.folder()),
            }
        } else {
            if again != RetryAdvice::Continues && !context.activity.is_ended() {
                // This part of the work was done, whether a retry or a later run continues from it.
                let _ = continues(instance, Some(checkpoint), &result.usage, &running.folder);
            }
            // That of a job is complete only now.
            environment.into_iter().for_each(|of| checkpoint.is_used_in(of));
            checkpoint.release();
        }
    }
    CollectedAttempt { attempt, running, is_noted, corunners, output: changes, notices, again, result }
}

/// Whether a result resumed from attempts in another software environment.
fn other_environment(context: &RunContext, checkpoint: &Checkpoint, own: Option<Digest>) -> Option<Caveat> {
    let earlier: Vec<Digest> = checkpoint.environments().into_iter().filter(|of| Some(*of) != own).collect();
    let is_resumed = !earlier.is_empty();
    let own = own.filter(|_| is_resumed).and_then(|own| environments::load(&own, &context.objects))?;
    Caveat::resumed(&own, earlier.iter().filter_map(|of| environments::load(of, &context.objects)))
}

/// Outputs with a secret in a file name. Outputs are stored unchanged, and later listings do not know the secrets.
fn revealing_names(context: &RunContext, result: &StepResult) -> Vec<String> {
    let folders = result.outputs.iter().filter(|(_, output)| output.kind == ArtifactKind::Folder);
    let told = folders.filter(|_| !context.secrets.values().is_empty()).filter_map(|(name, output)| {
        let list = context.objects.contents(&output.digest).ok()?;
        let mut paths = list.entries.iter().map(|entry| entry.path.to_string_lossy());
        let path = paths.find(|path| context.secrets.occur_in(path))?.into_owned();
        let place = result.paths.get(name).unwrap_or(name);
        Some(format!(
            "a file of its output `{place}` has a secret in its name, `{}`: flow stores outputs unchanged, with their names; use another name, and `flow forget {}` this result",
            context.secrets.hide(path),
            result.step,
        ))
    });
    told.collect()
}

/// Whether another attempt continues from the interrupted one, or why none does.
fn continues(
    instance: &Instance,
    checkpoint: Option<&Checkpoint>,
    used: &Usage,
    folder: &Folder,
) -> Result<(), NoResumeReason> {
    if instance.corun.is_some() {
        return Err(NoResumeReason::Group);
    }
    if !instance.resume {
        return Err(NoResumeReason::Unwanted);
    }
    checkpoint.ok_or(NoResumeReason::NoCheckpoint)?.continues(used, &folder.log())
}

/// Inputs that the attempt read in place, or could have read where the author edits them, and that changed during it. Its own
/// copies of files cannot change; the read-only copies of folders change only if a step writes into its inputs. If it
/// could read the author's files, or an earlier run started it, a file written since its start counts as changed, because
/// the author may have taken an edit back.
fn changed(context: &RunContext, running: &LiveAttempt) -> Vec<Disturbance> {
    let session = &context.session;
    let mut why = Vec::new();
    let input_changed = |path| Disturbance::InputChanged { path, differences: Vec::new() };
    let instance = &session.expansion.instances[running.instance.index()];
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(running.began.max(0.0));
    let inherited = context.environment.inherited();
    let could_read_live = |path: &Path, input: &Input| {
        let is_edited = || context.inputs.looks_changed_since(path, input.by_listing, began);
        live_sources::could_read_live(session, instance, &running.resolved, inherited, input, is_edited)
    };
    for input in instance.inputs.iter().chain(&running.resolved.inputs) {
        let path = session.path(&input.path);
        let captured = running.captured.iter().find(|captured| captured.author() == path);
        let is_copy = captured.is_some_and(|captured| captured.is_copy());
        // A private copy was compared with the plan before the start.
        let is_private = input.copy && !is_copy;
        let is_live = input.is_absolute() || (!is_copy && !is_private && (input.in_place || path.is_dir()));
        let near = |path: PathBuf| match path.strip_prefix(&session.workspace.folder) {
            Ok(near) if !input.is_absolute() => near.display().to_string(),
            _ => path.display().to_string(),
        };
        let changed = match () {
            () if is_live && running.rejoined || could_read_live(&path, input) => {
                context.inputs.changed_since(&path, input.by_listing, began)
            }
            () if is_live => context.inputs.changed(&path, input.by_listing).map(|path| (path, None)),
            () => None,
        };
        why.extend(changed.map(|(path, after)| match after {
            Some(after) => Disturbance::InputRewritten { path: near(path), seconds: after.as_secs() as u32 },
            None => input_changed(near(path)),
        }));
        let written = captured.filter(|_| !is_private).and_then(|captured| captured.written());
        why.extend(written.map(near).map(|path| match is_copy {
            true => Disturbance::InputWritten {
                path,
                folder: session.may_be_copied(input).then(|| input.path.clone()),
                itself: captured.is_some_and(|captured| captured.is_of_attempt()),
            },
            false => input_changed(path),
        }));
    }
    let drifted = drifted(session, instance, &context.inputs, &context.objects);
    why.extend(
        drifted.map(|(declared, differences)| Disturbance::InputChanged { path: declared.place.clone(), differences }),
    );
    for (place, artifact) in &running.linked {
        let path = place.clone();
        match context.objects.verify_untouched(artifact) {
            Ok(None) => {}
            Ok(Some(damage)) => why.push(Disturbance::ArtifactChanged { path, damage }),
            Err(error) => why.push(Disturbance::ArtifactUnseen { path, error: error.into() }),
        }
    }
    why
}

/// If a plugin's program cannot even be loaded, its set-up is damaged: forgets it, so that the next run sets it up
/// again.
fn forget_set_up(context: &RunContext, instance: InstanceId, exit: &Exit, result: &mut StepResult) {
    if exit.code != Some(127) || result.outcome != Outcome::Failed || !result.circumstances.facts.is_empty() {
        return;
    }
    let session = &context.session;
    let name = plugin_of(session, instance);
    let plugin = session.plugins.iter().find(|plugin| Some(plugin.name()) == name);
    let Some(plugin) = plugin.filter(|plugin| !plugin.manifest.setup.is_empty()) else { return };
    let record = context.store.dir().plugin(plugin.name());
    if fs::remove_file(&record).is_ok() || !record.exists() {
        let because = result.cause.take().map(Box::new);
        result.cause = Some(Cause::SetUpAgain { plugin: plugin.name().to_owned(), because });
    }
}
