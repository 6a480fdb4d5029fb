//! What determines a session: the files that a request names, the plugins, and the machine or the cluster. Opens sessions
//! from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::{Path, PathBuf},
};

use flow_core::{Batch, Builtins, Diagnostic, Digest, ExpandRequest, Machine, Place, RunId, Slurm, Source, parse_with};
use flow_runs::StoreDir;
use flow_store::Activity;

use super::{Session, SessionRequest, environments, imports, params_file};
use crate::{
    ExecError, Workspace,
    driver::executor::{
        batch,
        slurm::{Cluster, ClusterUnavailable, Impossible, UnmetKey},
    },
    plugins, text,
};

/// Larger than any workflow.
const LONGEST: u64 = 16 << 20;

/// Everything that determines a session, except flow's own built-ins: read, but not parsed.
pub(crate) struct Basis {
    pub(crate) workspace: Workspace,
    source: Source,
    machine: Machine,
    found: plugins::Plugins,
    plugin_digests: BTreeMap<String, Digest>,
    profile: Option<String>,
    set: Vec<String>,
    /// The file that each of the first of these comes from.
    files: Vec<String>,
    any_machine: bool,
    on: Option<Place>,
    imagined: Option<ImaginedHardware>,
    shell_folder: PathBuf,
}

/// Hardware that need not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImaginedHardware {
    Machine,
    /// All nodes are like the machine.
    Cluster,
}

impl Basis {
    /// The same on hardware that need not exist: the machine, or a `cluster` of such nodes.
    pub(super) fn imagined(self, cluster: bool) -> Basis {
        Basis { imagined: Some(if cluster { ImaginedHardware::Cluster } else { ImaginedHardware::Machine }), ..self }
    }

    /// Reads the files that a request names, and looks for plugins.
    pub(crate) fn read(request: &SessionRequest, machine: Machine) -> Result<Basis, ExecError> {
        let no_file = |what, source| ExecError::NoFile { what, path: request.file.clone(), source };
        let workspace = Workspace::find(&request.file, request.store.as_deref(), &request.plugin_dirs)
            .map_err(|e| no_file("find", e))?;
        let shown = request.file.display().to_string();
        let text = text::read(&request.file, LONGEST).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => no_file("read", e),
            _ => ExecError::Usage(format!("`{shown}` is not a workflow, a YAML file in UTF-8: {e}")),
        })?;
        let cache = plugins::cache_folder(&workspace.store.join("cache"));
        let found = plugins::Plugins::discover(&workspace.plugins, workspace.own_plugins.as_deref(), &cache)?;
        let (mut set, mut files) = (Vec::new(), Vec::new());
        for file in &request.params {
            set.extend(params_file::values_of(file, LONGEST)?);
            files.resize(set.len(), file.display().to_string());
        }
        set.extend(request.set.iter().cloned());
        Ok(Basis {
            workspace,
            source: Source { path: shown, text },
            machine,
            found,
            plugin_digests: request.plugin_digests.clone(),
            profile: request.profile.clone(),
            set,
            files,
            any_machine: request.any_machine,
            on: request.on,
            imagined: None,
            shell_folder: env::current_dir().unwrap_or_default(),
        })
    }

    /// The digests of plugins; `None` if one of them is unavailable.
    pub(crate) fn plugins(&self, used: &[String]) -> Option<BTreeMap<String, Digest>> {
        used.iter().map(|name| Some((name.clone(), self.found.get(name)?.digest().ok()?))).collect()
    }

    /// The digests of included files; `None` if one of them cannot be read.
    pub(crate) fn included(&self, paths: &[String]) -> Option<Vec<Digest>> {
        paths.iter().map(|path| Some(Digest::of(included(path).ok()?.as_bytes()))).collect()
    }

    /// The digest of everything that determines a session with these plugins, includes and variables of the shell.
    /// Sessions from bases with the same key have the same instances.
    pub(crate) fn key(
        &self,
        plugins: &BTreeMap<String, Digest>,
        included: &[Digest],
        variables: &BTreeSet<String>,
        builtins: &dyn Builtins,
        also: &str,
    ) -> Digest {
        let variables: BTreeMap<_, _> = variables.iter().map(|name| (name, env::var(name).ok())).collect();
        // Paths among parameter values are relative to this folder.
        let shell_folder = (!self.set.is_empty()).then_some(&self.shell_folder);
        let all = serde_json::json!([
            env!("CARGO_PKG_VERSION"),
            Digest::of(self.source.text.as_bytes()),
            included,
            // The name of a workflow that has none of its own.
            Path::new(&self.source.path).file_name().map(|name| name.to_string_lossy()),
            self.machine,
            plugins,
            variables,
            builtins.version(),
            self.profile,
            self.set,
            shell_folder,
            self.on,
            batch::usual_partition(),
            also,
        ]);
        Digest::of(all.to_string().as_bytes())
    }

    /// Parses and expands it, with results of other machines if it shows these. Commands that only `inform` do not wait
    /// long for Slurm. `orphan_places`: where instances run that a killed run left running.
    pub(crate) fn open(
        &self,
        builtins: &dyn Builtins,
        informs: bool,
        orphan_places: BTreeMap<String, Place>,
    ) -> Result<Session, ExecError> {
        let Basis { workspace, source, machine, found, .. } = self;
        let wrong = |diagnostics| ExecError::Workflow { source_text: Box::new(source.clone()), diagnostics };
        let workflow = parse_with(source, &mut included).map_err(wrong)?.with_partition(batch::usual_partition());
        let used = workflow.plugins();
        let catalogue = found.catalogue(used.iter().copied(), builtins.provided(), &self.plugin_digests)?;
        let plugins = used.iter().filter_map(|name| found.get(name).cloned()).collect();
        let on = match self.imagined {
            None => self.on,
            Some(ImaginedHardware::Machine) => Some(Place::Local),
            Some(ImaginedHardware::Cluster) => (!workflow.wants(Place::Slurm, None)).then_some(Place::Slurm),
        };
        let (mut cluster, mut cluster_unavailable, mut told_by) = (None, None, None);
        let follows_jobs = orphan_places.values().any(|place| *place == Place::Slurm);
        if self.imagined.is_none() && (workflow.wants(Place::Slurm, on) || follows_jobs) {
            // A store that is not used has no remembered cluster.
            let dir = workspace.existing_store().ok().flatten();
            match look(workflow.slurm(), dir.as_ref(), informs) {
                Ok(seen) => (cluster, cluster_unavailable, told_by) = seen,
                Err(_) if self.any_machine => {}
                Err(UnmetKey { key, impossible: Impossible { what, help } }) => {
                    return Err(wrong(workflow.about_slurm(key, Diagnostic::new(what).help(help))));
                }
            }
        }
        let mut expansion = workflow
            .with_variables(|name| env::var(name).ok())
            .expand(&ExpandRequest {
                catalogue: &catalogue,
                machine,
                profile: self.profile.as_deref(),
                set: &self.set,
                files: &self.files,
                folder: &workspace.folder.to_string_lossy(),
                shell_folder: &self.shell_folder.to_string_lossy(),
                batch: Batch {
                    on,
                    node: cluster.as_ref().map(|cluster| &cluster.node),
                    orphan_places: Some(&orphan_places),
                },
            })
            .map_err(wrong)?;
        if expansion.shows_machines()
            && let Some(dir) = workspace.existing_store()?
        {
            expansion.imported = imports::of_workflow(&dir, &expansion.workflow)?;
        }
        batch::job_limits(cluster.as_ref(), &mut expansion);
        environments::place(&mut expansion, &plugins::cache_folder(&workspace.store.join("cache")));
        let (workspace, set) = (workspace.clone(), self.set.clone());
        let activity = Activity::default();
        Ok(Session {
            workspace,
            workflow,
            catalogue,
            plugins,
            expansion,
            set,
            cluster,
            cluster_unavailable,
            cluster_from: told_by,
            orphan_places,
            activity,
        })
    }
}

/// The cluster; whether it did not answer; the run whose remembered data is used instead, if the command only
/// `informs`.
type ClusterView = (Option<Cluster>, Option<ClusterUnavailable>, Option<RunId>);

fn look(slurm: &Slurm, dir: Option<&StoreDir>, informs: bool) -> Result<ClusterView, UnmetKey> {
    if let Some(dir) = dir.filter(|_| informs)
        && let Some(run) = who_knows_nodes(dir)
        && let Some(known) = Cluster::remembered(slurm, &dir.nodes())?
    {
        return Ok((Some(known), None, Some(run)));
    }
    let (cluster, cluster_unavailable) = Cluster::look(slurm, dir.map(StoreDir::nodes).as_deref(), informs)?;
    Ok((cluster, cluster_unavailable, None))
}

/// The newest living run of a store that has queried Slurm for its nodes.
fn who_knows_nodes(dir: &StoreDir) -> Option<RunId> {
    let living = dir.living().ok()?.into_iter().rev().filter_map(|holder| holder.run);
    living.into_iter().find(|run| dir.run(run).start().is_some_and(|start| start.knows_nodes))
}

/// The text of an included file.
fn included(path: &str) -> Result<String, Diagnostic> {
    text::read(Path::new(path), LONGEST).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            let what = Diagnostic::new(format!("there is no file `{path}`"));
            let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
            let there = fs::read_dir(folder).into_iter().flatten().flatten();
            let names: Vec<String> = there.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            match flow_core::nearest(name, names.iter().map(String::as_str)) {
                _ if name.contains(['*', '?', '[']) => what.help("`include` takes file names, not patterns"),
                Some(near) => what.help(format!("there is `{near}` in that folder")),
                None => what.help("a path under `include` is relative to the folder of its file"),
            }
        }
        _ => Diagnostic::new(format!("`{path}` cannot be included: {e}")),
    })
}
