//! The job before a start: the folders of a unit's attempts, with all that their programs will find there. Starts nothing.

use std::{
    io,
    path::{Path, PathBuf},
};

use flow_core::{
    AttemptId, Body, Circumstances, CorunGpus, Digest, Exclusive, Instance, InstanceId, Machine, Pattern, Render,
    Resolved,
    plan::Force,
    reason::{Cause, Filling},
    sched::{Holding, Placement},
};

use super::{
    context::RunContext,
    executor::{BatchWork, DetachedAttempt},
    finish,
    intents::{Given, Intent, Member},
    listener::Listener,
    run_claims, start,
};
use crate::{attempt::Folder, clock, keeper::Unsettled};

/// An attempt to fill.
pub(super) struct Fill {
    pub(super) attempt: AttemptId,
    pub(super) instance: InstanceId,
    pub(super) fingerprint: Option<Digest>,
    /// The fingerprint of its attempt, which is claimed.
    pub(super) claim: Option<Digest>,
    pub(super) placement: Placement,
}

impl Fill {
    /// What it is about to do, if that has a fingerprint.
    pub(super) fn intent(&self, force: &Force) -> Option<run_claims::ClaimRequest> {
        let (fingerprint, attempt) = self.fingerprint.zip(self.claim)?;
        Some(run_claims::ClaimRequest { fingerprint, attempt, forced: force.covers(self.instance) })
    }
}

/// What has come of it, or why it cannot be started.
pub(super) struct Filled {
    pub(super) attempt: AttemptId,
    pub(super) prepared: Result<Box<Prepared>, Cause>,
}

/// An attempt whose folder is filled.
pub(super) struct Prepared {
    pub(super) placement: Placement,
    pub(super) launch: start::Launch,
    pub(super) folder: Folder,
    pub(super) resolved: Resolved,
    pub(super) listener: Listener,
    pub(super) circumstances: Circumstances,
    pub(super) began: f64,
    /// What its program writes goes through pipes, in which secrets are hidden.
    pub(super) piped: bool,
    /// What a batch system is asked for.
    pub(super) job: Option<BatchWork>,
    /// It goes on when this run dies, or does so since an earlier one did.
    pub(super) stays: Option<DetachedAttempt>,
    /// What the keeper writes down where it ends well, and this run dies before that is settled.
    pub(super) unsettled: Option<Unsettled>,
    /// What is seen of it is written down,
    pub(super) is_observed: bool,
    /// and it is worth nothing without that.
    pub(super) is_watched: bool,
    /// Its instance, with no secret in it.
    pub(super) label: String,
    /// Its folder, from the store's on.
    pub(super) place: String,
}

/// Fills the folders of a unit, one after the other: its programs begin together. One that is `joined` has them.
pub(super) fn fill(context: &RunContext, unit: Vec<Fill>, joined: Option<Intent>) -> Vec<Filled> {
    if let Some(intent) = joined {
        let with = unit.iter().zip(&intent.members);
        let joined = |(fill, member): (&Fill, &Member)| Filled {
            attempt: fill.attempt,
            prepared: join(context, fill, member, &intent).map(Box::new),
        };
        return with.map(joined).collect();
    }
    let filled = |fill: &Fill| Filled { attempt: fill.attempt, prepared: prepare(context, fill).map(Box::new) };
    let mut all: Vec<Filled> = unit.iter().map(filled).collect();
    let members: Vec<Member> =
        all.iter().zip(&unit).filter_map(|(filled, fill)| member(context, filled, fill)).collect();
    if !members.is_empty() {
        let attempts: Vec<AttemptId> = members.iter().map(|member| member.attempt).collect();
        let key = Intent::key(context.store.dir().path(), &context.run, &attempts);
        let mut intent = Intent { members, key, ..unwritten(context) };
        for prepared in all.iter_mut().filter_map(|filled| filled.prepared.as_mut().ok()) {
            if let Some(unsettled) = &mut prepared.unsettled {
                intent.here = Some(context.file());
                intent.is_over = true;
                unsettled.path = intent.path(context.store.dir());
                unsettled.text = intent.text();
                unsettled.members = unit.len();
            } else if let Some(job) = &mut prepared.job {
                job.intent.clone_from(&intent);
            } else if let Some(stays) = &mut prepared.stays {
                intent.here = Some(context.file());
                stays.intent.clone_from(&intent);
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
    Intent { key: String::new(), task: None, job: None, run, members, here: None, is_over: false }
}

fn prepare(context: &RunContext, fill: &Fill) -> Result<Prepared, Cause> {
    let (session, placement) = (&context.session, &fill.placement);
    let expansion = &session.expansion;
    let instance = &expansion.instances[fill.instance.index()];
    let unresolved = |error| Cause::Unresolved { error };
    let resolved = expansion.resolve(instance.id, &context.known, Render::Paths).map_err(unresolved)?;
    let not_made = |path: &Path, e: io::Error| Cause::NotFilled { what: start::not_made(path, &e) };
    let own = context.run_dir.attempt(fill.attempt);
    let folder = Folder::create(own.clone()).map_err(|e| not_made(&own, e))?;
    let members = instance.corun.as_ref().map(|c| expansion.groups[c.group.0 as usize].members.len() as u32);
    let none = Digest([0; 32]);
    let checkpoint = context.checkpoint(fill.fingerprint.unwrap_or(none), fill.claim.unwrap_or(none), instance);
    // Members of a group are measured together, from the beginning to the end.
    let resumes = instance.resume && instance.corun.is_none();
    if !resumes {
        checkpoint.remove();
    } else if checkpoint.found() {
        checkpoint.give_log(&folder).map_err(|e| not_made(&folder.earlier(), e))?;
    }
    let launch = start::fill(&start::Start {
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
    })
    .map_err(|what| Cause::NotFilled { what })?;
    let process = !matches!(resolved.body, Body::Builtin { .. });
    let metrics = expansion.steps[instance.step.index()].metrics.as_deref();
    // Every start pays for it.
    let plugin = matches!(resolved.body, Body::Plugin { .. });
    if process && resumes && (metrics.is_some() || plugin) {
        checkpoint.is_used_by(&folder);
    }
    // After the copies are made: what is as it was when it was hashed is what was copied.
    let copied = |path: &Path| launch.captured.iter().any(|captured| captured.is_copy() && captured.author() == path);
    for input in instance.inputs.iter().chain(&resolved.inputs) {
        let path = session.path(&input.path);
        if copied(&path) {
            continue;
        }
        if let Some(changed) = context.inputs.changed(&path, input.by_listing) {
            let path = changed.display().to_string();
            return Err(Cause::NotFilled { what: Filling::InputChanged { path } });
        }
    }
    let piped = process && context.tellers.contains(&instance.id) && !context.secrets.values().is_empty();
    let mut listener = Listener::new(&folder, plugin, metrics);
    listener.hide(&context.secrets);
    if piped {
        listener.hear_through_pipe(&folder).map_err(|e| not_made(folder.path(), e))?;
    }
    let mut circumstances = finish::circumstances(expansion, instance, placement);
    circumstances.revision.clone_from(&context.revision);
    let place = format!("runs/{}/attempts/{}", context.run, fill.attempt.0);
    let label = context.secrets.hide(instance.label.to_string());
    let job = batch_work(context, instance);
    let stays = (context.outlives && process && job.is_none() && fill.claim.is_some())
        .then(|| stays(instance, placement, unwritten(context), false));
    // Samples, and when which line was read, are known to this process alone, and some steps are nothing without them.
    let are_timed = metrics.is_some_and(|metrics| metrics.stdout.iter().any(Pattern::tells_epochs));
    let is_watched = instance.measured || instance.request.gpus > 0 || instance.corun.is_some() || are_timed;
    let is_observed = is_watched || metrics.is_some() || piped || plugin;
    let is_kept = process && job.is_none() && stays.is_none() && fill.claim.is_some();
    let unsettled = is_kept.then(|| Unsettled {
        path: PathBuf::new(),
        text: String::new(),
        store: context.store.dir().path().to_owned(),
        members: 1,
    });
    let began = 0.0;
    Ok(Prepared {
        placement: placement.clone(),
        launch,
        folder,
        resolved,
        listener,
        circumstances,
        began,
        piped,
        job,
        stays,
        is_observed: is_observed && unsettled.is_some(),
        is_watched: is_watched && unsettled.is_some(),
        unsettled,
        label,
        place,
    })
}

/// What is kept of an attempt on this machine by who outlives its run.
fn stays(instance: &Instance, placement: &Placement, intent: Intent, joined: bool) -> DetachedAttempt {
    DetachedAttempt {
        intent,
        joined,
        cards: placement.gpus.iter().map(|gpu| gpu.index()).collect(),
        timeout: instance.timeout,
        holds: Holding {
            cpu_milli: u64::from(placement.cpus) * 1_000,
            memory: placement.memory,
            attempts: 1,
            gpus: placement.gpus.len() as u32,
            exclusive: instance.exclusive == Exclusive::Machine || instance.corun.is_some(),
        },
    }
}

/// What a batch system is asked for, if one is; what is written down of it comes when its unit is filled.
fn batch_work(context: &RunContext, instance: &Instance) -> Option<BatchWork> {
    let slurm = instance.slurm.as_deref()?;
    let request = &instance.request;
    Some(BatchWork {
        label: context.secrets.hide(instance.label.to_string()),
        gpus: request.gpus,
        cpus: request.cpus,
        memory: request.memory,
        timeout: instance.timeout,
        longest: context.session.cluster.as_ref().and_then(|cluster| cluster.longest(slurm)),
        exclusive: instance.exclusive,
        nice: u32::try_from(context.highest_priority.saturating_sub(instance.priority)).unwrap_or(u32::MAX),
        shares_gpus: instance.corun.as_ref().is_some_and(|corun| corun.gpus == CorunGpus::Shared),
        slurm: slurm.clone(),
        gpu_model: slurm.gpu_type.clone().or_else(|| only_model(context.session.expansion.machine_of(instance))),
        intent: unwritten(context),
        joined: false,
    })
}

/// The model of all GPUs of a machine.
fn only_model(machine: &Machine) -> Option<String> {
    let first = machine.gpus.first()?;
    machine.gpus.iter().all(|gpu| gpu.name == first.name).then(|| first.name.clone())
}

/// What is written down of an attempt that may outlive this run.
fn member(context: &RunContext, filled: &Filled, fill: &Fill) -> Option<Member> {
    let prepared = filled.prepared.as_ref().ok()?;
    let outputs = context.instance(fill.instance).outputs.iter();
    let outputs = outputs.map(|output| output.path.to_string());
    let given = || Given { placement: fill.placement.clone(), circumstances: prepared.circumstances.clone() };
    let (fingerprint, given) = match (&prepared.job, &prepared.stays) {
        (Some(_), _) => (fill.fingerprint?, None),
        (None, Some(_)) => (fill.claim?, Some(Box::new(given()))),
        (None, None) if prepared.unsettled.is_some() => (fill.claim?, Some(Box::new(given()))),
        (None, None) => return None,
    };
    Some(Member {
        attempt: fill.attempt,
        fingerprint,
        label: prepared.label.clone(),
        folder: prepared.folder.path().to_owned(),
        began: clock::unix_seconds(),
        announces: prepared.launch.announces,
        piped: prepared.piped,
        linked: prepared.launch.linked.clone(),
        is_watched: prepared.is_watched,
        outputs: if prepared.unsettled.is_some() { outputs.collect() } else { Vec::new() },
        given,
    })
}

/// What an earlier run began, and this unit is about to do. One that is forced is to be done anew.
pub(super) fn joins(context: &RunContext, unit: &[Fill]) -> Option<Intent> {
    let instance = |fill: &Fill| context.instance(fill.instance);
    if unit.iter().any(|fill| context.force.covers(fill.instance)) {
        return None;
    }
    if unit.iter().all(|fill| instance(fill).slurm.is_some()) {
        let fingerprints: Option<Vec<Digest>> = unit.iter().map(|fill| fill.fingerprint).collect();
        return context.left.job(&fingerprints?);
    }
    let attempts: Option<Vec<Digest>> = unit.iter().map(|fill| fill.claim).collect();
    context.left.take(&attempts?)
}

/// An attempt goes on that an earlier run began, in the folder that it has.
fn join(context: &RunContext, fill: &Fill, member: &Member, intent: &Intent) -> Result<Prepared, Cause> {
    let expansion = &context.session.expansion;
    let instance = &expansion.instances[fill.instance.index()];
    let unresolved = |error| Cause::Unresolved { error };
    let resolved = expansion.resolve(instance.id, &context.known, Render::Paths).map_err(unresolved)?;
    let folder = Folder::at(member.folder.clone());
    let plugin = matches!(resolved.body, Body::Plugin { .. });
    let mut listener = Listener::new(&folder, plugin, expansion.steps[instance.step.index()].metrics.as_deref());
    listener.hide(&context.secrets);
    // When it has ended, what came through the pipe has its name.
    if member.piped && folder.heard().exists() {
        let unheard = |e: io::Error| Cause::NotFilled { what: start::not_made(folder.path(), &e) };
        listener.hear_through_pipe(&folder).map_err(unheard)?;
    }
    listener.begins(member.began);
    let mut circumstances = finish::circumstances(expansion, instance, &fill.placement);
    let (mut placement, mut stays) = (fill.placement.clone(), None);
    if let Some(given) = &member.given {
        circumstances.clone_from(&given.circumstances);
        placement.cpus = circumstances.cpus;
        stays = Some(self::stays(instance, &given.placement, intent.clone(), true));
    }
    circumstances.revision.clone_from(&context.revision);
    let job = batch_work(context, instance).map(|job| BatchWork { intent: intent.clone(), joined: true, ..job });
    Ok(Prepared {
        placement,
        launch: start::Launch {
            argv: Vec::new(),
            env: Vec::new(),
            announces: member.announces,
            barrier: None,
            linked: member.linked.clone(),
            captured: Vec::new(),
        },
        folder,
        resolved,
        listener,
        circumstances,
        began: member.began,
        piped: member.piped,
        job,
        stays,
        unsettled: None,
        is_observed: false,
        is_watched: false,
        label: member.label.clone(),
        place: format!("runs/{}/attempts/{}", intent.run, member.attempt.0),
    })
}
