//! Chooses where a run's work folders are. Outside the project, a program that searches the folders above it for
//! `.git` or `.project-root` does not find the author's files. Starts nothing.

use std::{
    io,
    path::{Path, PathBuf},
};

use flow_runs::{StoreDir, WorkFolders};

use crate::{
    ExecError, Workspace,
    driver::{executor::batch, session::Session},
    paths::real,
    plugins, trust,
};

/// Names the base of work folders, before the workflow does.
const WORK_VAR: &str = "FLOW_WORK";

/// The place of a run's work folders.
pub(crate) struct WorkPlace {
    /// None if they are in the store.
    pub(crate) folders: Option<WorkFolders>,
    /// The warning that a step can find the author's files.
    pub(crate) warning: Option<String>,
}

/// What a workflow says about the place.
#[derive(Default)]
struct RequestedPlace {
    /// The folder that `work:` names.
    named: Option<PathBuf>,
    /// The real path of the folder that all nodes see, if a step runs on Slurm.
    shared: Option<PathBuf>,
}

impl RequestedPlace {
    fn of(session: &Session) -> RequestedPlace {
        let Session { expansion, workspace, .. } = session;
        let shared = expansion.has_batch().then(|| batch::shared(workspace, expansion).ok());
        RequestedPlace { named: expansion.work.as_ref().map(|work| session.path(work)), shared: shared.flatten() }
    }

    fn is_seen(&self, base: &Path) -> bool {
        self.shared.as_ref().is_none_or(|shared| real(base).starts_with(shared))
    }
}

/// The folder that the user named, else the first possible one of the user's cache, the folder next to the project, the
/// folder that Slurm's nodes see, and the store. If a step runs on Slurm, its node must see the place.
///
/// # Errors
/// The named folder cannot be used.
pub(crate) fn choose(session: &Session, dir: &StoreDir) -> Result<WorkPlace, ExecError> {
    choose_in(&session.workspace.root, &RequestedPlace::of(session), dir)
}

fn choose_in(root: &Path, wanted: &RequestedPlace, dir: &StoreDir) -> Result<WorkPlace, ExecError> {
    let mut warnings = Vec::new();
    if let Some((by, base)) = named(wanted.named.clone()) {
        let unusable =
            |e| ExecError::Usage(format!("{by} names `{}`, which cannot have work folders: {e}", base.display()));
        let folders = dir.work_folders(&base, true).map_err(unusable)?;
        // The nodes see the store, so they probably see the rest of its file system.
        if wanted.is_seen(&base) || folders.try_moving(dir).is_ok() {
            let warning = real(&base).starts_with(root).then(|| format!("{by} names a folder of the project{FINDS}"));
            return Ok(WorkPlace { folders: Some(folders), warning });
        }
        warnings.push(format!("{by} names `{}`, which flow does not use because {UNSEEN}", base.display()));
    }
    let mut refused = Vec::new();
    let mut folders = None;
    for base in bases(root, wanted.shared.as_deref()) {
        match outside(dir, &base, root, wanted) {
            Ok(found) => {
                folders = Some(found);
                break;
            }
            Err(why) => refused.push(format!("`{}` ({why})", base.display())),
        }
    }
    if folders.is_none() && real(dir.path()).starts_with(root) {
        let refused = refused.join(" and ");
        warnings.push(match wanted.shared {
            Some(_) => format!(
                "work folders are in the project{FINDS}. If all nodes see the folder above the project, \
                 `slurm: {{shared: ..}}` moves them there"
            ),
            None => format!(
                "work folders are in the project{FINDS}. flow cannot use {refused}; {WORK_VAR} names another place"
            ),
        });
    }
    let warning = (!warnings.is_empty()).then(|| warnings.join(". "));
    Ok(WorkPlace { folders, warning })
}

/// Where the next run of a store puts its work folders, for `flow doctor`.
pub struct WorkReport {
    pub folder: PathBuf,
    /// They are in the store.
    pub is_in_store: bool,
    /// Why files are copied from there into the store, instead of being linked and moved.
    pub copies: Option<String>,
    /// The warning that a step can find the author's files.
    pub warning: Option<String>,
}

/// Chooses as a run of the workflow does, if that is known.
///
/// # Errors
/// The named folder cannot be used.
pub fn work_report(workspace: &Workspace, session: Option<&Session>, dir: &StoreDir) -> Result<WorkReport, ExecError> {
    let wanted = session.map(RequestedPlace::of).unwrap_or_default();
    let WorkPlace { folders, warning } = choose_in(&workspace.root, &wanted, dir)?;
    let copies = folders.as_ref().and_then(|folders| folders.try_moving(dir).err()).map(|e| in_words(&e));
    let folder = folders.as_ref().map_or(dir.path(), |folders| folders.path()).to_owned();
    Ok(WorkReport { folder, is_in_store: folders.is_none(), copies, warning })
}

/// The danger of a work folder in the project.
const FINDS: &str = ", so a step may find files that are not under `inputs:`";

const UNSEEN: &str = "Slurm's nodes may not see it";

/// The name of the setting, and the base that the user gave it.
fn named(by_file: Option<PathBuf>) -> Option<(&'static str, PathBuf)> {
    let by_variable = plugins::path_in(WORK_VAR).and_then(|base| std::path::absolute(base).ok());
    by_variable.map(|base| (WORK_VAR, base)).or_else(|| Some(("`work:`", by_file?)))
}

/// The bases that flow tries by itself.
fn bases(root: &Path, shared: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let hidden = format!(".flow-work-{}", trust::me());
    let cache = plugins::user_cache().map(|cache| cache.join("work"));
    let beside = root.parent().map(|above| above.join(&hidden));
    let shared = shared.map(|shared| shared.join(&hidden)).filter(|shared| beside.as_ref() != Some(shared));
    cache.into_iter().chain(beside).chain(shared)
}

fn outside(dir: &StoreDir, base: &Path, root: &Path, wanted: &RequestedPlace) -> Result<WorkFolders, String> {
    if real(base).starts_with(root) {
        return Err("it is in the project".to_owned());
    }
    if !wanted.is_seen(base) {
        return Err(UNSEEN.to_owned());
    }
    dir.work_folders(base, false).map_err(|e| in_words(&e))
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::CrossesDevices => "it is on another file system than the store".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_base_in_the_project_is_refused_whatever_its_path_looks_like() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = top.join("project");
        fs::create_dir_all(root.join("cache")).unwrap();
        symlink(root.join("cache"), top.join("link")).unwrap();
        let store = StoreDir::create(&root.join(".flow")).unwrap();
        for base in ["project/cache/work", "link/not/there"] {
            assert_eq!(
                outside(&store, &top.join(base), &root, &RequestedPlace::default()),
                Err("it is in the project".to_owned()),
                "{base}"
            );
        }
        assert!(!root.join("cache/work").exists() && !root.join("cache/not").exists(), "nothing is made there");
        assert!(outside(&store, &top.join("cache/work"), &root, &RequestedPlace::default()).is_ok());
        assert_eq!(bases(&root, None).last(), Some(top.join(format!(".flow-work-{}", trust::me()))));
    }

    #[test]
    fn the_nodes_of_slurm_must_see_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = top.join("nfs/me/project");
        fs::create_dir_all(&root).unwrap();
        let store = StoreDir::create(&root.join(".flow")).unwrap();
        let chosen = |shared: &str| {
            choose_in(&root, &RequestedPlace { named: None, shared: Some(top.join(shared)) }, &store).unwrap()
        };
        let hidden = format!(".flow-work-{}", trust::me());
        for (shared, place) in [("nfs/me", "nfs/me"), ("nfs", "nfs/me")] {
            let WorkPlace { folders, warning } = chosen(shared);
            let path = folders.unwrap().path().to_owned();
            assert!(path.starts_with(top.join(place).join(&hidden)) && warning.is_none(), "{shared}: {path:?}");
        }
        let WorkPlace { folders, warning } = chosen("nfs/me/project");
        assert!(folders.is_none());
        let warning = warning.unwrap();
        assert!(warning.ends_with("`slurm: {shared: ..}` moves them there"), "{warning}");
        // A named folder on the file system of the store counts.
        let named = RequestedPlace { named: Some(top.join("scratch")), shared: Some(root.clone()) };
        let WorkPlace { folders, warning } = choose_in(&root, &named, &store).unwrap();
        assert!(folders.unwrap().path().starts_with(top.join("scratch")) && warning.is_none());
    }
}
