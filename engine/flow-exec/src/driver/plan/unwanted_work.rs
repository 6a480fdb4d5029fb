//! Work of killed runs that still runs, and that the next run ends because it does other work.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    InstanceId, RunId,
    plan::{Plan, State},
};

use super::Knowledge;
use crate::driver::{recover::follow, session::Session};

/// Attempts or jobs of a killed run that the next run ends.
pub struct UnwantedWork {
    pub run: RunId,
    /// The `--set` of that run.
    pub set: Vec<String>,
    /// Whether they are Slurm jobs.
    pub are_jobs: bool,
    pub labels: Vec<String>,
}

/// What a run with this plan would end. Nothing while another run is active, because that run may need it.
pub fn unwanted(session: &Session, knowledge: &Knowledge, plan: &Plan) -> Vec<UnwantedWork> {
    let Some(dir) = knowledge.dir() else { return Vec::new() };
    let intents = follow::of_file(dir, &session.workspace.name(&session.workspace.file));
    if intents.is_empty() || dir.living().is_ok_and(|living| living.iter().any(|one| one.run.is_some())) {
        return Vec::new();
    }
    let instances = &session.expansion.instances;
    let known: BTreeSet<&str> = instances.iter().map(|instance| &*instance.label).collect();
    let label = |id: InstanceId| &*instances[id.index()].label;
    let planned: BTreeMap<&str, &State> = plan.items.iter().map(|item| (label(item.id), &item.state)).collect();
    let is_ended = |run: &RunId, label: &str| match planned.get(label) {
        Some(State::Run(_) | State::Cached { .. }) => true,
        Some(State::Orphaned { since, .. }) => since != run,
        Some(_) => false,
        None => !known.contains(label),
    };
    let mut found: BTreeMap<(RunId, bool), Vec<String>> = BTreeMap::new();
    for intent in intents.into_iter().filter(|intent| follow::is_running(dir, intent)) {
        if intent.members.iter().any(|member| is_ended(&intent.run, &member.label)) {
            let labels = found.entry((intent.run, intent.here.is_none())).or_default();
            labels.extend(intent.members.into_iter().map(|member| member.label));
        }
    }
    let set_of = |run: &RunId| dir.run(run).start().map(|start| start.set).unwrap_or_default();
    let of = |((run, are_jobs), labels)| UnwantedWork { set: set_of(&run), run, are_jobs, labels };
    found.into_iter().map(of).collect()
}
