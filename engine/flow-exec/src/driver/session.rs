//! A workflow opened for work: file, places, machine, plugins, expansion. What `plan`, `check`, `why` and `run` begin with.
//! Takes no lock and writes nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use flow_core::{Builtins, Catalogue, ExpandRequest, Expansion, Machine, Source, Workflow, parse, plan::Context};

use crate::{ExecError, Workspace, hardware, plugins};

/// What decides what a workflow expands to.
#[derive(Clone, Debug, Default)]
pub struct SessionRequest {
    /// The workflow file.
    pub file: PathBuf,
    /// `--set`, as given.
    pub set: Vec<String>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--store`, or `FLOW_STORE`.
    pub store: Option<PathBuf>,
    /// `--plugin-dir`, in order.
    pub plugin_dirs: Vec<PathBuf>,
    /// `--gpus 0,1`.
    pub gpus: Option<String>,
}

/// A workflow opened for work.
pub struct Session {
    /// Where things are.
    pub workspace: Workspace,
    /// The workflow as written.
    pub workflow: Workflow,
    /// What it uses.
    pub catalogue: Catalogue,
    /// The plugins it uses, as found.
    pub plugins: Vec<plugins::Plugin>,
    /// Its instances on this machine.
    pub expansion: Expansion,
}

impl Session {
    /// Reads, parses and expands a workflow.
    ///
    /// # Errors
    /// The file cannot be read; everything that is wrong with it; a plugin's description is broken.
    pub fn open(request: &SessionRequest, builtins: &dyn Builtins) -> Result<Session, ExecError> {
        let machine = hardware::machine(request.gpus.as_deref()).map_err(ExecError::Usage)?;
        Self::open_on(request, builtins, machine)
    }

    /// As [`Session::open`], on a machine that was looked at before.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_on(request: &SessionRequest, builtins: &dyn Builtins, machine: Machine) -> Result<Session, ExecError> {
        let workspace = Workspace::find(&request.file, request.store.as_deref(), &request.plugin_dirs)
            .map_err(ExecError::io("find", &request.file))?;
        let bytes = fs::read(&request.file).map_err(ExecError::io("read", &request.file))?;
        let shown = request.file.display().to_string();
        let text = String::from_utf8(bytes).map_err(|_| {
            ExecError::Usage(format!("`{shown}` is not UTF-8 text; a workflow is a YAML file in UTF-8"))
        })?;
        let source = Source { path: shown, text };
        let wrong = |diagnostics| ExecError::Workflow { source_text: Box::new(source.clone()), diagnostics };
        let workflow = parse(&source).map_err(wrong)?;
        let cache = plugins::cache_folder(&workspace.store.join("cache"));
        let found = plugins::Plugins::discover(&workspace.plugins, &cache)?;
        let used = workflow.plugins();
        let catalogue = found.catalogue(used.iter().copied(), builtins.provided())?;
        let plugins = used.iter().filter_map(|name| found.get(name).cloned()).collect();
        let shell_folder = std::env::current_dir().unwrap_or_default();
        let expansion = workflow
            .expand(&ExpandRequest {
                catalogue: &catalogue,
                machine: &machine,
                profile: request.profile.as_deref(),
                set: &request.set,
                folder: &workspace.folder.to_string_lossy(),
                shell_folder: &shell_folder.to_string_lossy(),
            })
            .map_err(wrong)?;
        Ok(Session { workspace, workflow, catalogue, plugins, expansion })
    }

    /// What decisions are made about.
    pub fn context(&self) -> Context<'_> {
        Context { expansion: &self.expansion, catalogue: &self.catalogue }
    }

    /// Diagnostics about this workflow as an error.
    pub fn wrong(&self, diagnostics: Vec<flow_core::Diagnostic>) -> ExecError {
        ExecError::Workflow { source_text: Box::new(self.workflow.source().clone()), diagnostics }
    }

    /// A path as written in the workflow, made absolute.
    pub fn path(&self, written: impl AsRef<Path>) -> PathBuf {
        self.workspace.folder.join(written)
    }

    /// The instances that targets name, with all that they need; everything without targets.
    ///
    /// # Errors
    /// An unknown name.
    pub fn wanted(&self, targets: &[String]) -> Result<Vec<flow_core::InstanceId>, ExecError> {
        if targets.is_empty() {
            return Ok(self.expansion.instances.iter().map(|instance| instance.id).collect());
        }
        self.expansion.targets(targets).map_err(|diagnostics| self.wrong(diagnostics))
    }
}
