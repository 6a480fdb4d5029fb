//! The snapshot that a run leaves, so that the next run sees whether there is nothing to do by looking at files alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use flow_core::{Digest, EnvironmentProvider, InstanceId, Outcome, RunId, SettledResults, StepResult, plan::unfit};
use flow_runs::StoreDir;
use flow_store::{FinishedRun, Snapshot, SnapshotResult};
use flow_supervisor::clock;
use serde::{Deserialize, Serialize};

use super::{
    begin::context::RunContext,
    begin::environments::PresentEnvironment,
    decide::outcomes::NOT_NEEDED,
    plan::lookup::digest_of,
    reports::publish::{PublishedFile, WithheldFile},
    request::RunEnd,
};
use crate::{ExecError, Workspace, declared_environment::project_files};

/// True if no later run of the workflow, even partial or interrupted, has begun: `flow show` and others would show that
/// one.
pub(super) fn is_last(dir: &StoreDir, run: &RunId, workspace: &Workspace) -> bool {
    let file = workspace.name(&workspace.file);
    let is_of_file = |later: &RunId| dir.run(later).start().is_some_and(|start| start.file == file);
    dir.runs().is_ok_and(|runs| !runs.iter().rev().take_while(|later| *later > run).any(is_of_file))
}

/// The files that the runs before this one published.
#[derive(Default)]
pub(super) struct PublishedBefore {
    paths: BTreeSet<PathBuf>,
    snapshot: Option<Arc<Snapshot>>,
}

impl PublishedBefore {
    pub(super) fn of(snapshot: Arc<Snapshot>) -> PublishedBefore {
        PublishedBefore { paths: Summary::of(&snapshot).wrote, snapshot: Some(snapshot) }
    }

    /// Those that nobody changed since.
    pub(super) fn unchanged(&self) -> BTreeSet<PathBuf> {
        self.snapshot
            .iter()
            .flat_map(|snapshot| snapshot.unchanged_published())
            .filter(|path| self.paths.contains(path))
            .collect()
    }
}

pub(super) fn save_snapshot(
    context: &RunContext,
    key: Digest,
    end: &RunEnd,
    before: &PublishedBefore,
) -> Result<(), ExecError> {
    let RunContext { session, store, inputs, known, .. } = context;
    let folder = &session.workspace.folder;
    let mut stood = Vec::with_capacity(session.expansion.instances.len());
    for instance in &session.expansion.instances {
        let attempted = |result: &&StepResult| !matches!(result.outcome, Outcome::Skipped | Outcome::DoesNotFit);
        stood.push(match known.result(instance.id) {
            // A step that may not be reused runs again.
            Some(result) if attempted(&result) && unfit(result, instance).is_some() => return Ok(()),
            Some(result) => {
                let declared = session.expansion.environment_of(instance);
                digest_of(instance, declared, folder, inputs).map(|inputs| SnapshotResult::of(result, inputs))
            }
            None => {
                context.previous.get(instance.id.index()).cloned().flatten().filter(|_| known.is_settled(instance.id))
            }
        });
    }
    let published: Vec<PathBuf> = end.published.iter().map(|file| file.path.clone()).collect();
    let withheld = &end.withheld;
    // A trial that publishes nothing still knows what earlier runs published.
    let wrote: BTreeSet<PathBuf> = before.unchanged().into_iter().chain(published.iter().cloned()).collect();
    let summary = Summary {
        counts: end.counts.clone(),
        published,
        wrote: wrote.clone(),
        withheld: withheld.clone(),
        plugins: session.plugins.iter().map(|plugin| plugin.name().to_owned()).collect(),
        included: session.workflow.sources().skip(1).map(|file| file.path.clone()).collect(),
        variables: session.workflow.shell_variables(),
        environments: stood.iter().flatten().filter_map(|stood| stood.environment).collect(),
    };
    // If the published file is gone, the next run publishes.
    let there = withheld.iter().flat_map(|file| [&file.path, &file.written]).filter(|path| path.exists());
    let projects = session.expansion.environments.values().filter(|of| of.provider == EnvironmentProvider::Uv);
    let projects = projects.flat_map(|declared| project_files(&session.project(declared))).filter(|path| path.exists());
    let looked_at: Vec<PathBuf> = wrote.iter().chain(there).cloned().chain(projects).collect();
    let summary = serde_json::to_string(&summary).unwrap_or_default();
    let rested = FinishedRun { key, run: &end.run, results: stood, published: &looked_at, summary };
    Snapshot::of(rested, inputs, clock::system()).save(store.dir(), &session.workspace.snapshot_name())?;
    Ok(())
}

/// Data in a snapshot for the next run, besides what it depends on.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Summary {
    counts: BTreeMap<String, u32>,
    published: Vec<PathBuf>,
    /// Files that this run or an earlier one published.
    #[serde(default)]
    wrote: BTreeSet<PathBuf>,
    withheld: Vec<WithheldFile>,
    /// Plugins that the workflow uses.
    pub(super) plugins: Vec<String>,
    /// Files that it includes.
    pub(super) included: Vec<String>,
    /// Variables of the shell that its steps list under `env:`.
    #[serde(default)]
    pub(super) variables: BTreeSet<String>,
    /// The software environments of its results.
    #[serde(default)]
    environments: BTreeSet<Digest>,
}

/// The software environments of the results that a run used.
pub(super) fn environments(context: &RunContext) -> BTreeSet<Digest> {
    let of = |id: &InstanceId| match context.known.result(*id) {
        Some(result) => result.circumstances.environment,
        None => context.previous.get(id.index())?.as_ref()?.environment,
    };
    context.wanted.iter().filter_map(of).collect()
}

impl Summary {
    pub(super) fn of(snapshot: &Snapshot) -> Summary {
        serde_json::from_str(snapshot.summary()).unwrap_or_default()
    }

    /// The end of a run that had nothing to do.
    pub(super) fn unchanged(self, run: RunId, dir: &StoreDir) -> RunEnd {
        let results = self.counts.iter().filter(|(how, _)| *how != NOT_NEEDED);
        RunEnd {
            run,
            exit: 0,
            counts: BTreeMap::from([("cached".to_owned(), results.map(|(_, n)| n).sum())]),
            published: self.published.into_iter().map(|path| PublishedFile { path, changed: false }).collect(),
            withheld: self.withheld,
            made: Vec::new(),
            unfollowed: Vec::new(),
            environments: PresentEnvironment::of_programs(dir).since_any(&self.environments),
            unchanged: true,
        }
    }
}
