//! The job before a start: creates the folders of a gang's attempts with everything their programs read. Starts
//! nothing.

use std::{io, path::Path, sync::Arc};

use flow_core::{
    ArtifactKind, AttemptId, Body, Circumstances, CorunGpus, Digest, Exclusive, Input, Instance, InstanceId, Machine,
    Place, Render, ResolvedInstance,
    plan::Force,
    reason::{Cause, FolderFault},
    sched::{MachineShare, Placement},
};
use flow_runs::ProcessIdentity;
use flow_store::OrphanedCopy;
use flow_supervisor::{
    attempt::Folder,
    clock,
    intents::{Intent, LocalAllocation, Member},
};

use super::{capture, context::RunContext, live_sources, run_claims, start, step_variables::StepVariables};
use crate::driver::{
    executor::{BatchWork, DetachedAttempt},
    plan::lookup,
    results::{finish, listener::Listener},
};

/// An attempt to fill.
pub(crate) struct Fill {
    pub(crate) attempt: AttemptId,
    pub(crate) instance: InstanceId,
    pub(crate) fingerprint: Digest,
    /// The fingerprint of the attempt, under which it is claimed.
    pub(crate) claim: Digest,
    pub(crate) placement: Placement,
}

impl Fill {
    /// The claim that it needs.
    pub(crate) fn intent(&self, force: &Force) -> run_claims::ClaimRequest {
        let forced = force.covers(self.instance);
        run_claims::ClaimRequest { fingerprint: self.fingerprint, attempt: self.claim, forced }
    }
}

/// A notice about each private copy that takes long to make, because nothing else is seen of the step meanwhile.
pub(crate) fn large_copies(context: &RunContext, gang: &[Fill]) -> Vec<(InstanceId, String)> {
    const LARGE: u64 = 1 << 30;
    let copy = |input: &Input| {
        let path = context.session.path(&input.path);
        let is_hashed = input.copy && context.inputs.is_read(&path, input.by_listing);
        let tree = is_hashed.then(|| context.inputs.hash_path(&path, input.by_listing).ok())??;
        let size = bytesize::ByteSize(tree.bytes).display().iec();
        let text = || format!("copying `{}`, {size}, into its work folder", input.path);
        (tree.kind == ArtifactKind::Folder && tree.bytes >= LARGE).then(text)
    };
    let copies = |fill: &Fill| {
        let texts: Vec<_> = context.instance(fill.instance).inputs.iter().filter_map(copy).collect();
        // An attempt of an earlier run has its copy.
        let is_followed = || context.orphans.followed(&fill.fingerprint).is_some();
        let texts = if texts.is_empty() || is_followed() { Vec::new() } else { texts };
        texts.into_iter().map(|text| (fill.instance, text)).collect::<Vec<_>>()
    };
    gang.iter().flat_map(copies).collect()
}

/// The filled attempt, or the reason why it cannot be started.
pub(crate) struct FilledAttempt {
    pub(crate) attempt: AttemptId,
    pub(crate) prepared: Result<Box<PreparedAttempt>, Cause>,
}

/// An attempt whose folder is filled.
pub(crate) struct PreparedAttempt {
    pub(crate) placement: Placement,
    pub(crate) launch: start::Launch,
    pub(crate) folder: Folder,
    pub(crate) resolved: ResolvedInstance,
    pub(crate) listener: Listener,
    pub(crate) circumstances: Circumstances,
    pub(crate) began: f64,
    /// Its output goes through pipes, in which secrets are hidden.
    pub(crate) piped: bool,
    /// The request to a batch system.
    pub(crate) job: Option<BatchWork>,
    /// Present if it survives this run, or has survived an earlier one.
    pub(crate) detached: Option<DetachedAttempt>,
    /// The record of its gang for the next run: of a detached run from its start, of a foreground run while its outputs
    /// are stored, if it took a while.
    pub(crate) intent: Option<Arc<Intent>>,
    /// Its folder, relative to the store.
    pub(crate) place: String,
    /// There may be notes about earlier attempts, or this one, beside its checkpoint.
    pub(crate) has_notes: bool,
}

/// Fills the folders of a gang first, so that its programs start together. A `joined` gang already has them.
pub(crate) fn fill(context: &RunContext, gang: Vec<Fill>, joined: Option<Intent>) -> Vec<FilledAttempt> {
    if let Some(intent) = joined {
        let with = gang.iter().zip(&intent.members);
        let joined = |(fill, member): (&Fill, &Member)| FilledAttempt {
            attempt: fill.attempt,
            prepared: join(context, fill, member, &intent).map(Box::new),
        };
        return with.map(joined).collect();
    }
    let filled = |fill: &Fill| FilledAttempt { attempt: fill.attempt, prepared: prepare(context, fill).map(Box::new) };
    let mut all: Vec<FilledAttempt> = gang.iter().map(filled).collect();
    let members: Vec<Member> =
        all.iter().zip(&gang).filter_map(|(filled, fill)| member(context, filled, fill)).collect();
    if !members.is_empty() {
        let attempts: Vec<AttemptId> = members.iter().map(|member| member.attempt).collect();
        let key = Intent::key(context.store.dir().path(), &context.run, &attempts);
        let mut intent = Intent { members, key, ..unwritten(context) };
        intent.place = context.instance(gang[0].instance).place;
        if !intent.place.is_batch() {
            (intent.here, intent.boot) = (Some(context.file()), ProcessIdentity::own().boot);
        }
        let over = Arc::new(Intent { is_over: true, ..intent.clone() });
        let detached = Arc::new(intent.clone());
        for prepared in all.iter_mut().filter_map(|filled| filled.prepared.as_mut().ok()) {
            if let Some(job) = &mut prepared.job {
                job.intent.clone_from(&intent);
            } else if let Some(stays) = &mut prepared.detached {
                stays.intent.clone_from(&intent);
                prepared.intent = Some(Arc::clone(&detached));
            } else if over.members.len() == gang.len() {
                prepared.intent = Some(Arc::clone(&over));
            }
        }
    }
    let began = clock::unix_seconds();
    for prepared in all.iter_mut().filter_map(|filled| filled.prepared.as_mut().ok()) {
        prepared.began = began;
        prepared.listener.begins(began);
    }
    all
}

fn unwritten(context: &RunContext) -> Intent {
    let (run, members) = (context.run.clone(), Vec::new());
    Intent {
        key: String::new(),
        place: Place::Local,
        task: None,
        job: None,
        run,
        members,
        here: None,
        boot: String::new(),
        is_over: false,
    }
}

fn prepare(context: &RunContext, fill: &Fill) -> Result<PreparedAttempt, Cause> {
    let (session, placement) = (&context.session, &fill.placement);
    let expansion = &session.expansion;
    let instance = &expansion.instances[fill.instance.index()];
    let unresolved = |error| Cause::Unresolved { error };
    let resolved = expansion.resolve(instance.id, &context.known, Render::Paths).map_err(unresolved)?;
    let not_made = |path: &Path, e: io::Error| Cause::NotFilled { what: start::not_made(path, &e) };
    let own = context.attempts.join(fill.attempt.0.to_string());
    let folder = match context.work.as_ref().map(|work| work.join(fill.attempt.0.to_string())) {
        Some(outside) => Folder::create_outside(own.clone(), &outside),
        None => Folder::create(own.clone()),
    };
    let folder = folder.map_err(|e| not_made(&own, e))?;
    if matches!(resolved.body, Body::Plugin { .. }) {
        folder.link_work().map_err(|e| not_made(&folder.work_in_store(), e))?;
    }
    let members = instance.corun.as_ref().map(|c| expansion.groups[c.group.0 as usize].members.len() as u32);
    let checkpoint = context.checkpoint(fill.fingerprint, fill.claim, instance);
    // Members of a group are measured together from start to end, so none resumes.
    let resumes = instance.resume && instance.corun.is_none();
    let is_resumed = resumes && checkpoint.found();
    if !resumes {
        checkpoint.remove();
    } else if is_resumed {
        checkpoint.give_log(&folder).map_err(|e| not_made(&folder.earlier(), e))?;
    }
    let mut launch = start::fill(&start::Start {
        session,
        instance,
        resolved: &resolved,
        placement,
        folder: &folder,
        objects: &context.objects,
        inputs: &context.inputs,
        captures: &context.captures,
        checkpoint: checkpoint.folder(),
        members,
        exe: &context.exe,
        environment: &context.environment,
        revision: context.revision.as_ref(),
    })
    .map_err(|what| Cause::NotFilled { what })?;
    let process = !matches!(resolved.body, Body::Builtin { .. });
    let metrics = expansion.steps[instance.step.index()].metrics.as_deref();
    // It slows down every start.
    let plugin = matches!(resolved.body, Body::Plugin { .. });
    let is_noted = process && resumes && (metrics.is_some() || plugin);
    if is_noted {
        checkpoint.is_used_by(&folder);
    }
    // After the copies are made: if an input is still unchanged, the copy has the hashed content.
    let copied = |path: &Path| launch.captured.iter().any(|captured| captured.is_copy() && captured.author() == path);
    for input in instance.inputs.iter().chain(&resolved.inputs) {
        let path = session.path(&input.path);
        if copied(&path) && !input.is_absolute() {
            continue;
        }
        if let Some(changed) = context.inputs.changed(&path, input.by_listing) {
            let path = changed.display().to_string();
            return Err(Cause::NotFilled { what: FolderFault::InputChanged { path } });
        }
    }
    if let Some((declared, differences)) = lookup::drifted(session, instance, &context.inputs, &context.objects) {
        let name = declared.name.clone();
        return Err(Cause::NotFilled { what: FolderFault::EnvironmentChanged { name, differences } });
    }
    let piped = process && context.confidential.contains(&instance.id) && !context.secrets.values().is_empty();
    let mut listener = Listener::new(&folder, plugin, metrics);
    listener.hide(&context.secrets);
    if piped {
        listener.read_through_pipe(&folder).map_err(|e| not_made(folder.path(), e))?;
    }
    let mut circumstances = finish::circumstances(expansion, instance, placement);
    circumstances.revision.clone_from(&context.revision);
    if matches!(resolved.body, Body::Command { .. }) {
        let work = (!instance.is_batch()).then(|| folder.work());
        // The program's path is stored with the values of its variables.
        let told = |name: &str| launch.env.get(name).map(str::to_owned);
        let declared = expansion.environment_of(instance);
        circumstances.environment = context.environments.record(
            &launch.argv,
            &told,
            &resolved.env,
            declared,
            work.as_deref(),
            &context.objects,
        );
        if let Some(environment) = circumstances.environment.filter(|_| is_noted || is_resumed) {
            checkpoint.is_used_in(environment);
        }
        live_sources::put_first(&mut launch.env, session, instance, &resolved, &folder.work());
    }
    let place = format!("runs/{}/attempts/{}", context.run, fill.attempt.0);
    let job = batch_work(context, instance);
    let stays = (context.detached && process && job.is_none())
        .then(|| detached_attempt(instance, placement, unwritten(context), false));
    let began = 0.0;
    if job.is_some() || stays.is_some() {
        // This run may not live to write them when it fails.
        folder.write_variables(&launch.env.clone().into_own()).map_err(|e| not_made(folder.path(), e))?;
    }
    Ok(PreparedAttempt {
        placement: placement.clone(),
        launch,
        folder,
        resolved,
        listener,
        circumstances,
        began,
        piped,
        job,
        detached: stays,
        intent: None,
        place,
        has_notes: is_noted || is_resumed,
    })
}

/// The record of an attempt on this machine, for the supervisor that survives its run.
fn detached_attempt(instance: &Instance, placement: &Placement, intent: Intent, joined: bool) -> DetachedAttempt {
    DetachedAttempt {
        intent,
        joined,
        gpus: placement.gpus.iter().map(|gpu| gpu.index()).collect(),
        timeout: instance.timeout,
        holds: MachineShare {
            cpu_milli: u64::from(placement.cpus) * 1_000,
            memory: placement.memory,
            attempts: 1,
            gpus: placement.gpus.len() as u32,
            exclusive: instance.exclusive == Exclusive::Machine || instance.corun.is_some(),
        },
    }
}

/// The request to a batch system, if the step uses one. Its intent is added when the gang is filled.
fn batch_work(context: &RunContext, instance: &Instance) -> Option<BatchWork> {
    if !instance.is_batch() {
        return None;
    }
    let slurm = instance.slurm.as_deref().cloned().unwrap_or_default();
    let request = &instance.request;
    Some(BatchWork {
        label: context.secrets.hide(instance.label.to_string()),
        gpus: request.gpus,
        cpus: request.cpus,
        memory: request.memory,
        timeout: instance.timeout,
        longest: context.session.cluster.as_ref().and_then(|cluster| cluster.longest(&slurm)),
        exclusive: instance.exclusive,
        nice: u32::try_from(context.highest_priority.saturating_sub(instance.priority)).unwrap_or(u32::MAX),
        shares_gpus: instance.corun.as_ref().is_some_and(|corun| corun.gpus == CorunGpus::Shared),
        gpu_model: slurm.gpu_type.clone().or_else(|| only_model(context.session.expansion.machine_of(instance))),
        slurm,
        intent: Intent { place: instance.place, ..unwritten(context) },
        joined: false,
    })
}

/// The GPU model, if all GPUs of a machine have the same.
fn only_model(machine: &Machine) -> Option<String> {
    let first = machine.gpus.first()?;
    machine.gpus.iter().all(|gpu| gpu.name == first.name).then(|| first.name.clone())
}

/// The record of an attempt that may survive this run.
fn member(context: &RunContext, filled: &FilledAttempt, fill: &Fill) -> Option<Member> {
    let prepared = filled.prepared.as_ref().ok()?;
    let instance = context.instance(fill.instance);
    let outputs = instance.outputs.iter().map(|output| output.path.to_string());
    let is_here = prepared.job.is_none() && prepared.detached.is_none();
    if is_here && matches!(prepared.resolved.body, Body::Builtin { .. }) {
        return None;
    }
    let given = LocalAllocation { placement: fill.placement.clone(), circumstances: prepared.circumstances.clone() };
    let (fingerprint, given) = match &prepared.job {
        Some(_) => (fill.fingerprint, None),
        None => (fill.claim, Some(Box::new(given))),
    };
    Some(Member {
        attempt: fill.attempt,
        fingerprint,
        label: context.secrets.hide(instance.label.to_string()),
        folder: prepared.folder.path().to_owned(),
        began: clock::unix_seconds(),
        announces: prepared.launch.announces,
        piped: prepared.piped,
        linked: prepared.launch.linked.clone(),
        outputs: if is_here { outputs.collect() } else { Vec::new() },
        given,
    })
}

/// The intent of an earlier run that this gang can join.
pub(crate) fn joins(context: &RunContext, gang: &[Fill]) -> Option<Intent> {
    let instance = |fill: &Fill| context.instance(fill.instance);
    if gang.iter().all(|fill| instance(fill).is_batch()) {
        let fingerprints: Vec<Digest> = gang.iter().map(|fill| fill.fingerprint).collect();
        return context.orphans.job(&fingerprints);
    }
    let attempts: Vec<Digest> = gang.iter().map(|fill| fill.claim).collect();
    context.orphans.take(&attempts)
}

/// Joins an attempt of an earlier run in its existing folder.
fn join(context: &RunContext, fill: &Fill, member: &Member, intent: &Intent) -> Result<PreparedAttempt, Cause> {
    let expansion = &context.session.expansion;
    let instance = &expansion.instances[fill.instance.index()];
    let unresolved = |error| Cause::Unresolved { error };
    let resolved = expansion.resolve(instance.id, &context.known, Render::Paths).map_err(unresolved)?;
    let folder = Folder::at(member.folder.clone());
    let plugin = matches!(resolved.body, Body::Plugin { .. });
    let mut listener = Listener::new(&folder, plugin, expansion.steps[instance.step.index()].metrics.as_deref());
    listener.hide(&context.secrets);
    // After its end, the file of its piped output has this name.
    if member.piped && folder.pipe_target().exists() {
        let not_filled = |e: io::Error| Cause::NotFilled { what: start::not_made(folder.path(), &e) };
        listener.read_through_pipe(&folder).map_err(not_filled)?;
    }
    listener.begins(member.began);
    let mut circumstances = finish::circumstances(expansion, instance, &fill.placement);
    let (mut placement, mut stays) = (fill.placement.clone(), None);
    if let Some(given) = &member.given {
        circumstances.clone_from(&given.circumstances);
        placement.cpus = circumstances.cpus;
        stays = Some(self::detached_attempt(instance, &given.placement, intent.clone(), true));
    }
    circumstances.revision.clone_from(&context.revision);
    let job = batch_work(context, instance).map(|job| BatchWork { intent: intent.clone(), joined: true, ..job });
    // It has the same fingerprint, so its copies had the same content when it began.
    let of_run = context.store.dir().run(&intent.run).inputs();
    let captured = |input: &Input| {
        let wanted = capture::one(&context.session, input);
        match OrphanedCopy::find(&context.inputs, &wanted, &folder.inputs(), &of_run) {
            OrphanedCopy::Copy(copy) => Some(Arc::new(copy)),
            OrphanedCopy::InPlace => None,
            OrphanedCopy::Removed => context.captures.get(&wanted.path, wanted.by_listing),
        }
    };
    let captured = instance.inputs.iter().chain(&resolved.inputs).filter_map(captured).collect();
    Ok(PreparedAttempt {
        placement,
        launch: start::Launch {
            argv: Vec::new(),
            env: StepVariables::default(),
            announces: member.announces,
            barrier: None,
            linked: member.linked.clone(),
            captured,
        },
        folder,
        resolved,
        listener,
        circumstances,
        began: member.began,
        piped: member.piped,
        job,
        detached: stays,
        intent: None,
        place: format!("runs/{}/attempts/{}", intent.run, member.attempt.0),
        has_notes: true,
    })
}
