//! A workflow opened for work: file, paths, machine, plugins, expansion. The start of `plan`, `check`, `why` and `run`.
//! Takes no lock and writes nothing.

mod basis;
pub(super) mod environments;
pub(super) mod identity;
pub(super) mod imports;
mod lock_file;
pub(super) mod params_file;

use std::{
    collections::{BTreeMap, BTreeSet},
    env::{self, VarError},
    fs,
    path::{Path, PathBuf},
};

use flow_core::{
    Builtins, Catalogue, Diagnostic, Digest, Expansion, InstanceId, Machine, Place, RunId, Source, Uses, Workflow,
    plan::{Context, Item, Plan, State},
};
use flow_runs::RunDir;
use flow_store::Activity;
use flow_supervisor::{
    hardware,
    secrets::{HideFault, Secrets, leaking_line},
};

pub(crate) use basis::Basis;

use crate::{
    ExecError, Workspace,
    driver::executor::{
        batch,
        slurm::{Cluster, ClusterUnavailable},
    },
    plugins,
};

/// The options that determine the expansion of a workflow.
#[derive(Clone, Debug, Default)]
pub struct SessionRequest {
    pub file: PathBuf,
    /// `--params` files in order. `set` overrides their values.
    pub params: Vec<PathBuf>,
    /// `--set`, as given.
    pub set: Vec<String>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--store`, or `FLOW_STORE`.
    pub store: Option<PathBuf>,
    /// `--plugin-dir`, in order.
    pub plugin_dirs: Vec<PathBuf>,
    /// Digests of plugins of which only the description is present: those of an imported run.
    pub plugin_digests: BTreeMap<String, Digest>,
    /// `--gpus 0,1`, or `--gpus '4 x H200, 140 GiB'`.
    pub gpus: Option<String>,
    /// Only the file matters: it need not fit this machine.
    pub any_machine: bool,
    /// `--on`.
    pub on: Option<Place>,
}

/// A workflow opened for work.
pub struct Session {
    pub workspace: Workspace,
    /// The workflow as written.
    pub workflow: Workflow,
    pub catalogue: Catalogue,
    /// The plugins it uses, as found.
    pub plugins: Vec<plugins::Plugin>,
    /// Its instances on this machine.
    pub expansion: Expansion,
    /// Given parameter values: those of files, then `--set`.
    pub set: Vec<String>,
    /// The cluster that some of them run on, if it was queried.
    pub(crate) cluster: Option<Cluster>,
    /// Set if it did not answer.
    pub cluster_unavailable: Option<ClusterUnavailable>,
    /// Set if the cluster was not queried, because this living run has its data.
    pub cluster_from: Option<RunId>,
    /// Where instances run that a killed run left running, by label.
    pub(crate) orphan_places: BTreeMap<String, Place>,
    /// The hashing and copying that planning does.
    pub activity: Activity,
}

impl Session {
    /// Reads, parses and expands a workflow.
    ///
    /// # Errors
    /// The file cannot be read, the workflow has errors (all are listed), or a plugin's description is broken.
    pub fn open(request: &SessionRequest, builtins: &dyn Builtins) -> Result<Session, ExecError> {
        let machine = hardware::machine(request.gpus.as_deref()).map_err(ExecError::Usage)?;
        Basis::read(request, machine)?.open(builtins, true, BTreeMap::new())
    }

    /// As [`Session::open`], on hardware that need not exist: a machine, or the nodes of a cluster. All steps go to the
    /// cluster if the workflow sends none to Slurm. No cluster is queried.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn imagine(
        request: &SessionRequest,
        builtins: &dyn Builtins,
        machine: Machine,
        cluster: bool,
    ) -> Result<Session, ExecError> {
        Basis::read(request, machine)?.imagined(cluster).open(builtins, true, BTreeMap::new())
    }

    /// The context in which decisions are made.
    pub fn context(&self) -> Context<'_> {
        Context { expansion: &self.expansion, catalogue: &self.catalogue }
    }

    /// Converts diagnostics about this workflow into an error.
    pub fn wrong(&self, diagnostics: Vec<Diagnostic>) -> ExecError {
        ExecError::Workflow { source_text: Box::new(self.workflow.source().clone()), diagnostics }
    }

    /// Warnings about the workflow, each with its place.
    pub fn warnings(&self) -> Vec<String> {
        let in_words = |what: Diagnostic| {
            let source = what.source.as_deref().unwrap_or(self.workflow.source());
            let place = what.line_column(&source.text).map(|(line, column)| format!(":{line}:{column}"));
            format!("{}{}: {what}", source.path, place.unwrap_or_default())
        };
        self.workflow.warnings().into_iter().map(in_words).chain(self.outdated_locks()).collect()
    }

    /// Makes a path of the workflow absolute.
    pub fn path(&self, written: impl AsRef<Path>) -> PathBuf {
        self.workspace.folder.join(written)
    }

    /// Folders under the `inputs:` of an instance of which only the names and sizes of files count.
    pub fn by_listing(&self, id: InstanceId) -> impl Iterator<Item = &str> {
        let inputs = self.expansion.instances[id.index()].inputs.iter();
        // A file counts by its content anyway.
        let listed = inputs.filter(|input| input.by_listing && self.path(&input.path).is_dir());
        listed.map(|input| &*input.path)
    }

    /// Checks that the declared inputs and environments of these instances exist.
    ///
    /// # Errors
    /// Each that is missing, with its place and the nearest name.
    pub fn check_inputs(&self, wanted: &[InstanceId]) -> Result<(), ExecError> {
        self.check_inputs_unless(wanted, |_, _| false)
    }

    /// The same, except for inputs that were read already. `is_read` gets the path and whether it is by listing.
    pub(crate) fn check_inputs_unless(
        &self,
        wanted: &[InstanceId],
        is_read: impl Fn(&Path, bool) -> bool,
    ) -> Result<(), ExecError> {
        let mut missing = BTreeSet::new();
        for id in wanted {
            let instance = &self.expansion.instances[id.index()];
            let runs = instance.skip.is_none() && instance.does_not_fit.is_none();
            let gone = instance.inputs.iter().filter(|input| {
                let path = self.path(&input.path);
                runs && !is_read(&path, input.by_listing) && !path.exists()
            });
            missing.extend(gone.map(|input| (instance.step, input)));
        }
        let wrong = missing
            .into_iter()
            .map(|(step, input)| (&*self.expansion.steps[step.index()].name, input, self.missing_input(&input.path)));
        let mut wrong = self.workflow.about_inputs(wrong);
        wrong.extend(self.missing_environments(wanted));
        wrong.extend(batch::check(&self.workspace, &self.workflow, &self.expansion, self.cluster.as_ref(), wanted));
        if wrong.is_empty() { Ok(()) } else { Err(self.wrong(wrong)) }
    }

    fn missing_input(&self, path: &str) -> Diagnostic {
        let what = Diagnostic::new(format!("there is no `{path}` here")).label("expected a file or a folder");
        if path.contains(['*', '?', '[']) {
            return what.help("`inputs` takes no patterns: name each file, or the folder that they are in");
        }
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
        let there = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let names: Vec<String> = there.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        match flow_core::nearest(name, names.iter().map(String::as_str)) {
            Some(near) if folder.is_empty() => what.help(format!("did you mean `{near}`?")),
            Some(near) => what.help(format!("did you mean `{folder}/{near}`?")),
            None => what.help(format!("flow looked in {}", self.path(folder).display())),
        }
    }

    /// Names of the variables that steps of the workflow declare as secrets.
    pub(crate) fn secrets(&self) -> BTreeSet<&str> {
        self.expansion.steps.iter().flat_map(|step| &step.secrets).map(String::as_str).collect()
    }

    /// Instances of steps that have secrets, and those that may read their outputs.
    pub(crate) fn confidential(&self) -> BTreeSet<InstanceId> {
        let mut confidential = BTreeSet::new();
        for instance in &self.expansion.instances {
            let own = !self.expansion.steps[instance.step.index()].secrets.is_empty();
            if own || instance.needs.iter().any(|need| confidential.contains(&need.on)) {
                confidential.insert(instance.id);
            }
        }
        confidential
    }

    /// The values of the secrets that are set.
    ///
    /// # Errors
    /// The workflow or a parameter contains one of them: it would end up in journals and reports.
    pub(crate) fn secret_values(&self) -> Result<Secrets, ExecError> {
        let mut values = Vec::new();
        for name in self.secrets() {
            let Ok(value) = env::var(name) else { continue };
            let mut params = self.expansion.params.iter();
            let told = |source: &Source| Some((leaking_line(&value, &source.text)?, source.path.clone()));
            let place = if self.workflow.shell_variables().contains(name) {
                Some("`env:` of a step".to_owned())
            } else if let Some((line, path)) = self.workflow.sources().find_map(told) {
                Some(format!("line {line} of `{path}`"))
            } else {
                let param = params.find(|(_, set)| leaking_line(&value, &set.to_string()).is_some());
                param.map(|(param, _)| format!("the parameter `{param}`"))
            };
            if let Some(place) = place {
                return Err(ExecError::Usage(format!(
                    "the value of the secret `{name}` stands in {place}, where everyone can read it; a step that lists it under `secrets:` gets the variable `{name}`. If it is not secret, remove it from `secrets:`"
                )));
            }
            values.push(value);
        }
        Ok(Secrets::new(values))
    }

    /// Checks the secrets of the steps to run.
    ///
    /// # Errors
    /// Every secret that is not set in the environment or cannot be hidden, with its place.
    pub fn check_secrets(&self, plan: &Plan) -> Result<(), ExecError> {
        self.secret_values()?;
        let runs = |item: &&Item| item.state.may_run();
        let steps: BTreeSet<_> =
            plan.items.iter().filter(runs).map(|item| self.expansion.instances[item.id.index()].step).collect();
        let mut wrong = Vec::new();
        for step in steps.iter().map(|step| &self.expansion.steps[step.index()]) {
            for secret in &step.secrets {
                let what = unfit_secret(secret, env::var(secret));
                wrong.extend(what.map(|what| (&*step.name, &**secret, what)));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(self.wrong(self.workflow.about(&["secrets"], wrong))) }
    }

    /// Checks that Slurm answers, if something is to start there.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn check_slurm(&self, plan: &Plan) -> Result<(), ExecError> {
        let Some(unavailable) = &self.cluster_unavailable else { return Ok(()) };
        let begins = |item: &Item| {
            let there = self.expansion.instances[item.id.index()].is_batch();
            // Jobs that already run there need no new start.
            there && item.state.may_run() && !matches!(item.state, State::Orphaned { .. })
        };
        if plan.items.iter().any(begins) { Err(unavailable.into()) } else { Ok(()) }
    }

    /// Checks that a cluster with these partitions has those that the workflow names.
    ///
    /// # Errors
    /// Each missing partition, with its place.
    pub fn check_partitions(&self, there: &[String]) -> Result<(), ExecError> {
        let names: Vec<&str> = there.iter().map(String::as_str).collect();
        let wrong = batch::unknown_partitions(&self.workflow, &self.expansion, &names);
        if wrong.is_empty() { Ok(()) } else { Err(self.wrong(wrong)) }
    }

    /// The instances that targets name, with all that they need; everything without targets.
    ///
    /// # Errors
    /// An unknown name, or an instance that can never run here.
    pub fn wanted(&self, targets: &[String]) -> Result<Vec<InstanceId>, ExecError> {
        self.expansion.targets(targets).map_err(|mut diagnostics| {
            if diagnostics.iter().any(|what| what.lack.is_some()) && self.was_on_slurm() {
                let help = "the last run was `--on slurm`: give it again, or write `on: slurm` in the file";
                diagnostics.iter_mut().for_each(|what| what.help.insert(0, help.to_owned()));
            }
            self.wrong(diagnostics)
        })
    }

    /// Says that the steps are here, if the last run of the file had them on Slurm.
    pub fn moved_here(&self) -> Option<&'static str> {
        self.was_on_slurm().then_some("the steps run here; the last run was on Slurm (`--on slurm`)")
    }

    fn was_on_slurm(&self) -> bool {
        !self.expansion.has_batch() && last_place(&self.workspace).is_some_and(Place::is_batch)
    }
}

/// `--on` of the last run of the workspace's file.
pub fn last_place(workspace: &Workspace) -> Option<Place> {
    last_run(workspace)?.1
}

/// `--on` of the last run of the workspace's file, if its jobs are not collected yet.
pub fn place_of_orphaned_jobs(workspace: &Workspace) -> Option<Place> {
    last_run(workspace).filter(|(run, _)| run.has_jobs())?.1
}

fn last_run(workspace: &Workspace) -> Option<(RunDir, Option<Place>)> {
    let file = workspace.name(&workspace.file);
    let dir = workspace.existing_store().ok().flatten()?;
    let mut runs = dir.runs().ok()?.into_iter().rev().map(|run| dir.run(&run));
    runs.find_map(|run| run.start().filter(|start| start.file == file).map(|start| (run, start.on)))
}

/// The reason why a variable cannot be a secret, without its value.
fn unfit_secret(name: &str, value: Result<String, VarError>) -> Option<Diagnostic> {
    let set = format!("`export {name}=…` before `flow run`");
    let (how, help) = match value.as_ref().map(|value| HideFault::check(value)) {
        Ok(None) => return None,
        Err(VarError::NotPresent) => ("is not set in the environment", set),
        Ok(Some(HideFault::Empty)) => ("is empty", set),
        Err(VarError::NotUnicode(_)) => (
            "is not UTF-8 text, and cannot be hidden",
            "encode it in base64, or put it into a file and pass the file's name in a normal variable".to_owned(),
        ),
        Ok(Some(HideFault::Short)) => (
            "is too short to be hidden: no line has 8 characters, and shorter texts occur elsewhere by chance",
            "use a longer value; if it is not secret, remove it from `secrets:`".to_owned(),
        ),
        Ok(Some(HideFault::Long)) => (
            "is too long to be hidden: it has more than 16 KiB",
            "put it into a file, and pass the file's name in a normal variable".to_owned(),
        ),
    };
    Some(Diagnostic::new(format!("the secret `{name}` {how}")).help(help))
}

/// The plugin that provides a step, if one does.
pub(crate) fn plugin_of(session: &Session, id: InstanceId) -> Option<&str> {
    let instance = &session.expansion.instances[id.index()];
    match &session.expansion.steps[instance.step.index()].uses {
        Uses::Plugin { plugin, .. } => Some(plugin),
        _ => None,
    }
}
