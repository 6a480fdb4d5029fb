//! The data of a run that stays fixed from start to end. The loop and all background jobs read it.

use std::{
    collections::BTreeSet,
    fs::File,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use flow_core::{
    Builtins, Digest, Instance, InstanceId, LateResult, RequestedResults, Revision, RunId, SettledResults, StepResult,
    plan::Force,
};
use flow_runs::RunDir;
use flow_store::{Activity, Captures, Inputs, Objects, SnapshotResult, Store};
use flow_supervisor::secrets::Secrets;
use nix::fcntl::Flock;

use super::{environments::Environments, run_claims::RunClaims, start::Environment};
use crate::driver::{
    plan::lookup::RecordedParts,
    recover::orphans::OrphanedWork,
    results::{checkpoint::Checkpoint, keep::KeptFolders},
    session::Session,
};

pub(crate) struct RunContext {
    pub(crate) session: Session,
    pub(crate) builtins: Arc<dyn Builtins>,
    pub(crate) store: Store,
    /// To explain why a step runs.
    pub(crate) recorded: RecordedParts,
    pub(crate) objects: Objects,
    pub(crate) run: RunId,
    pub(crate) run_dir: RunDir,
    /// The real path of the folder of its attempts.
    pub(crate) attempts: PathBuf,
    /// The folder of its work folders, if they are outside the store.
    pub(crate) work: Option<PathBuf>,
    /// The instances to bring up to date.
    pub(crate) wanted: Vec<InstanceId>,
    pub(crate) force: Force,
    pub(crate) inputs: Inputs,
    pub(crate) captures: Captures,
    pub(crate) kept_folders: KeptFolders,
    pub(crate) known: RunResults,
    pub(crate) claimed: RunClaims,
    /// The result of each instance in the previous run, if it can be relied on.
    pub(crate) previous: Vec<Option<SnapshotResult>>,
    pub(crate) secrets: Secrets,
    /// Instances that may reveal a secret: their steps have one, or they read the output of such a step.
    pub(crate) confidential: BTreeSet<InstanceId>,
    pub(crate) environment: Environment,
    /// The software environments of its attempts.
    pub(crate) environments: Environments,
    /// The locks of the environments that flow made, so that `flow gc` leaves them.
    pub(crate) _in_use: Vec<Flock<File>>,
    /// The commit of the root's repository.
    pub(crate) revision: Option<Revision>,
    /// The path of the `flow` program.
    pub(crate) exe: PathBuf,
    /// Attempts of dead runs that still run.
    pub(crate) orphans: OrphanedWork,
    /// Attempts on this machine survive when this process is killed.
    pub(crate) detached: bool,
    /// Jobs survive this process, however it ends.
    pub(crate) leaves_jobs: bool,
    /// The highest `priority` of the Slurm steps, because a job's priority can only be lowered.
    pub(crate) highest_priority: i64,
    /// Progress of all hashing and copying in the run.
    pub(crate) activity: Activity,
}

impl RunContext {
    pub(crate) fn instance(&self, id: InstanceId) -> &Instance {
        &self.session.expansion.instances[id.index()]
    }

    /// The checkpoint folder of an instance, shared by this run and later ones. A forced instance gets a folder of its
    /// own for this run, so that it starts from nothing. One that this run has joined keeps its folder.
    pub(crate) fn checkpoint(&self, fingerprint: Digest, attempt: Digest, instance: &Instance) -> Checkpoint {
        // Jobs are followed by result fingerprint. A job with another one must end, but may still write.
        let is_used = self.orphans.has_other_job(&self.secrets.hide(instance.label.to_string()), &fingerprint);
        let of = if is_used { fingerprint } else { attempt };
        let of_run = |run: &str| Checkpoint::of(self.store.dir(), &of, &instance.label, run);
        match self.orphans.joined(&fingerprint).or_else(|| self.orphans.joined(&attempt)) {
            Some(run) => Some(of_run(&run.0)).filter(|own| own.folder().is_dir()).unwrap_or_else(|| of_run("")),
            None if self.force.covers(instance.id) => of_run(&self.run.0),
            None => of_run(""),
        }
    }

    /// The file of the workflow, as its intents name it.
    pub(crate) fn file(&self) -> String {
        self.session.workspace.name(&self.session.workspace.file)
    }
}

/// Results by instance. Each is set once and never changes, so that jobs can read it during the run.
pub(crate) struct RunResults {
    results: Vec<OnceLock<KnownResult>>,
    requested: RequestedResults,
}

enum KnownResult {
    Result(Arc<StepResult>),
    /// The earlier result under this fingerprint, loaded when it is first read.
    Unchanged(Digest, OnceLock<Arc<StepResult>>),
}

impl RunResults {
    pub(crate) fn of_nothing(instances: usize) -> RunResults {
        RunResults {
            results: (0..instances).map(|_| OnceLock::new()).collect(),
            requested: RequestedResults::default(),
        }
    }

    /// Sets the result of an instance. The first one wins.
    pub(crate) fn set(&self, id: InstanceId, result: Arc<StepResult>) {
        self.find(id, KnownResult::Result(result));
    }

    /// Sets an instance to its earlier result, under this fingerprint.
    pub(crate) fn set_unchanged(&self, id: InstanceId, fingerprint: Digest) {
        self.find(id, KnownResult::Unchanged(fingerprint, OnceLock::new()));
    }

    fn find(&self, id: InstanceId, found: KnownResult) {
        if let Some(slot) = self.results.get(id.index()) {
            let _ = slot.set(found);
        }
    }

    fn of(&self, id: InstanceId) -> Option<&KnownResult> {
        self.results.get(id.index())?.get()
    }

    pub(crate) fn is_settled(&self, id: InstanceId) -> bool {
        self.of(id).is_some()
    }

    /// The results that were read.
    pub(crate) fn all(&self) -> impl Iterator<Item = &StepResult> + Clone {
        self.results.iter().filter_map(|slot| slot.get()?.result().map(|result| &**result))
    }
}

impl KnownResult {
    fn result(&self) -> Option<&Arc<StepResult>> {
        match self {
            KnownResult::Result(result) => Some(result),
            KnownResult::Unchanged(_, read) => read.get(),
        }
    }
}

impl SettledResults for RunResults {
    fn result(&self, id: InstanceId) -> Option<&StepResult> {
        if self.unread(id).is_some() {
            self.requested.request(id);
        }
        self.of(id)?.result().map(|result| &**result)
    }

    fn late(&self, id: InstanceId) -> LateResult {
        match self.unread(id) {
            Some(_) => LateResult::Unread(id, self.requested.clone()),
            None => LateResult::Read(self.of(id).and_then(KnownResult::result).cloned()),
        }
    }

    fn unread(&self, id: InstanceId) -> Option<Digest> {
        match self.of(id)? {
            KnownResult::Unchanged(fingerprint, read) if read.get().is_none() => Some(*fingerprint),
            _ => None,
        }
    }

    fn requested(&self) -> BTreeSet<InstanceId> {
        self.requested.take()
    }

    fn read(&self, id: InstanceId, result: StepResult) {
        if let Some(KnownResult::Unchanged(_, read)) = self.of(id) {
            let _ = read.set(Arc::new(result));
        }
    }
}
