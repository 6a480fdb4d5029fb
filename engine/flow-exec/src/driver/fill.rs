//! The job before a start: the folders of a unit's attempts, with all that their programs will find there. Starts nothing.

use std::{io, path::Path};

use flow_core::{
    AttemptId, Body, Circumstances, Digest, InstanceId, Render, ResolveError, Resolved,
    plan::Force,
    reason::{Cause, Filling},
    sched::Placement,
};

use super::{claimed::Intent, context::RunContext, finish, listener::Listener, start};
use crate::{attempt::Folder, clock};

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
    pub(super) fn intent(&self, force: &Force) -> Option<Intent> {
        let (fingerprint, attempt) = self.fingerprint.zip(self.claim)?;
        Some(Intent { fingerprint, attempt, forced: force.covers(self.instance) })
    }
}

/// What has come of it, or why it cannot be started.
pub(super) struct Filled {
    pub(super) attempt: AttemptId,
    pub(super) prepared: Result<Box<Prepared>, Cause>,
}

/// An attempt whose folder is filled.
pub(super) struct Prepared {
    pub(super) launch: start::Launch,
    pub(super) folder: Folder,
    pub(super) resolved: Resolved,
    pub(super) listener: Listener,
    pub(super) circumstances: Circumstances,
    pub(super) began: f64,
    /// What its program writes goes through pipes, in which secrets are hidden.
    pub(super) piped: bool,
}

/// Fills the folders of a unit, one after the other: its programs begin together.
pub(super) fn fill(context: &RunContext, unit: Vec<Fill>) -> Vec<Filled> {
    let filled = |fill: &Fill| Filled { attempt: fill.attempt, prepared: prepare(context, fill).map(Box::new) };
    let mut all: Vec<Filled> = unit.iter().map(filled).collect();
    let began = clock::unix_seconds();
    for prepared in all.iter_mut().filter_map(|filled| filled.prepared.as_mut().ok()) {
        prepared.began = began;
        prepared.listener.begins(began);
    }
    all
}

fn prepare(context: &RunContext, fill: &Fill) -> Result<Prepared, Cause> {
    let (session, placement) = (&context.session, &fill.placement);
    let expansion = &session.expansion;
    let instance = &expansion.instances[fill.instance.index()];
    let unresolved = |error: ResolveError| Cause::Unresolved { error: error.message };
    let resolved = expansion.resolve(instance.id, &context.known, Render::Paths).map_err(unresolved)?;
    let not_made = |path: &Path, e: io::Error| Cause::NotFilled { what: start::not_made(path, &e) };
    let own = context.run_dir.attempt(fill.attempt);
    let folder = Folder::create(own.clone()).map_err(|e| not_made(&own, e))?;
    let members = instance.corun.as_ref().map(|c| expansion.groups[c.group.0 as usize].members.len() as u32);
    let launch = start::fill(&start::Start {
        session,
        instance,
        resolved: &resolved,
        placement,
        folder: &folder,
        objects: &context.objects,
        inputs: &context.inputs,
        captures: &context.captures,
        checkpoint: &context.checkpoint(&fill.fingerprint.unwrap_or(Digest([0; 32])), instance),
        members,
        exe: &context.exe,
        environment: &context.environment,
    })
    .map_err(|what| Cause::NotFilled { what })?;
    // After the copies are made: what is as it was when it was hashed is what was copied.
    let copied = |path: &Path| launch.captured.iter().any(|captured| captured.is_copy() && captured.author() == path);
    for input in instance.inputs.iter() {
        let path = session.path(&input.path);
        if copied(&path) {
            continue;
        }
        if let Some(changed) = context.inputs.changed(&path, input.by_listing) {
            let path = changed.display().to_string();
            return Err(Cause::NotFilled { what: Filling::InputChanged { path } });
        }
    }
    let process = !matches!(resolved.body, Body::Builtin { .. });
    let plugin = matches!(resolved.body, Body::Plugin { .. });
    let metrics = expansion.steps[instance.step.index()].metrics.as_ref();
    let piped = process && context.tellers.contains(&instance.id) && !context.secrets.values().is_empty();
    let mut listener = Listener::new(&folder, plugin, metrics);
    listener.hide(&context.secrets);
    if piped {
        listener.hear_through_pipe(&folder).map_err(|e| not_made(folder.path(), e))?;
    }
    let mut circumstances = finish::circumstances(&expansion.machine, instance, placement);
    circumstances.revision.clone_from(&context.revision);
    Ok(Prepared { launch, folder, resolved, listener, circumstances, began: 0.0, piped })
}
