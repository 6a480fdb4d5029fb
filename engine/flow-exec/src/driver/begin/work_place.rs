//! Chooses where a run's work folders are. Outside the project, a program that searches the folders above it for
//! `.git` or `.project-root` does not find the author's files. Starts nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use flow_store::{StoreDir, WorkFolders};

use crate::{ExecError, Workspace, driver::session::Session, plugins, trust};

/// Names the base of work folders, before the workflow does.
const WORK_VAR: &str = "FLOW_WORK";

/// The place of a run's work folders.
pub(crate) struct WorkPlace {
    /// None if they are in the store.
    pub(crate) folders: Option<WorkFolders>,
    /// The warning that a step can find the author's files.
    pub(crate) warning: Option<String>,
}

/// The folder that the user named, else the first possible one of the user's cache, the folder next to the project, and
/// the store.
///
/// # Errors
/// The named folder cannot be used.
pub(crate) fn choose(session: &Session, dir: &StoreDir) -> Result<WorkPlace, ExecError> {
    let by_file = session.expansion.work.as_ref().map(|work| session.path(work));
    choose_in(&session.workspace.root, by_file, dir)
}

fn choose_in(root: &Path, by_file: Option<PathBuf>, dir: &StoreDir) -> Result<WorkPlace, ExecError> {
    if let Some((by, base)) = named(by_file) {
        let unusable =
            |e| ExecError::Usage(format!("{by} names `{}`, which cannot have work folders: {e}", base.display()));
        let folders = dir.work_folders(&base, true).map_err(unusable)?;
        let warning = real(&base).starts_with(root).then(|| format!("{by} names a folder of the project{FINDS}"));
        return Ok(WorkPlace { folders: Some(folders), warning });
    }
    let mut refused = Vec::new();
    for base in bases(root) {
        match outside(dir, &base, root) {
            Ok(folders) => return Ok(WorkPlace { folders: Some(folders), warning: None }),
            Err(why) => refused.push(format!("`{}` ({why})", base.display())),
        }
    }
    let warning = real(dir.path()).starts_with(root).then(|| {
        let refused = refused.join(" and ");
        format!("work folders are in the project{FINDS}. flow cannot use {refused}; FLOW_WORK names another place")
    });
    Ok(WorkPlace { folders: None, warning })
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

/// Chooses as a run does. `by_file`: the folder that the workflow names.
///
/// # Errors
/// The named folder cannot be used.
pub fn work_report(workspace: &Workspace, by_file: Option<PathBuf>, dir: &StoreDir) -> Result<WorkReport, ExecError> {
    let WorkPlace { folders, warning } = choose_in(&workspace.root, by_file, dir)?;
    let copies = folders.as_ref().and_then(|folders| folders.try_moving(dir).err()).map(|e| in_words(&e));
    let folder = folders.as_ref().map_or(dir.path(), |folders| folders.path()).to_owned();
    Ok(WorkReport { folder, is_in_store: folders.is_none(), copies, warning })
}

/// The danger of a work folder in the project.
const FINDS: &str = ", so a step may find files that are not under `inputs:`";

/// The name of the setting, and the base that the user gave it.
fn named(by_file: Option<PathBuf>) -> Option<(&'static str, PathBuf)> {
    let by_variable = plugins::path_in(WORK_VAR).and_then(|base| std::path::absolute(base).ok());
    by_variable.map(|base| (WORK_VAR, base)).or_else(|| Some(("`work:`", by_file?)))
}

/// The bases that flow tries by itself.
fn bases(root: &Path) -> impl Iterator<Item = PathBuf> {
    let cache = plugins::user_cache().map(|cache| cache.join("work"));
    let beside = root.parent().map(|above| above.join(format!(".flow-work-{}", trust::me())));
    cache.into_iter().chain(beside)
}

fn outside(dir: &StoreDir, base: &Path, root: &Path) -> Result<WorkFolders, String> {
    if real(base).starts_with(root) {
        return Err("it is in the project".to_owned());
    }
    dir.work_folders(base, false).map_err(|e| in_words(&e))
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::CrossesDevices => "it is on another file system than the store".to_owned(),
        _ => error.to_string(),
    }
}

/// The real path of a folder that need not exist.
fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let Some((above, known)) = known else { return path.to_owned() };
    path.strip_prefix(above).map_or_else(|_| path.to_owned(), |below| known.join(below))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
            assert_eq!(outside(&store, &top.join(base), &root), Err("it is in the project".to_owned()), "{base}");
        }
        assert!(!root.join("cache/work").exists() && !root.join("cache/not").exists(), "nothing is made there");
        assert!(outside(&store, &top.join("cache/work"), &root).is_ok());
        assert_eq!(bases(&root).last(), Some(top.join(format!(".flow-work-{}", trust::me()))));
    }
}
