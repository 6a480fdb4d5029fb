//! The paths of a workflow file: its root, store and plugin folders; and whether the store may be used.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use flow_core::Digest;
use flow_runs::{StoreDir, StoreError};

use crate::{ExecError, trust};

/// An entry that makes a folder above a workflow its root.
const SIGNS: [&str; 3] = [STORE, PLUGINS, ".git"];
const STORE: &str = ".flow";
const PLUGINS: &str = "plugins";

/// The paths of one workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The workflow file, absolute.
    pub file: PathBuf,
    /// Its folder, the base of relative paths in the workflow.
    pub folder: PathBuf,
    /// The nearest folder upwards with `.flow/`, `plugins/` or `.git`, among those that belong to the owner of the workflow's
    /// folder; else the workflow's folder.
    pub root: PathBuf,
    pub store: PathBuf,
    /// The user named the store and thereby trusts it.
    pub store_is_named: bool,
    /// Plugin folders that the user named, in order of precedence.
    pub plugins: Vec<PathBuf>,
    /// The root's own plugin folder, which comes last.
    pub own_plugins: Option<PathBuf>,
}

impl Workspace {
    /// The paths of a workflow file. `store` and `plugins` come from the command line.
    ///
    /// # Errors
    /// The file, or the current folder, cannot be reached.
    pub fn find(file: &Path, store: Option<&Path>, plugins: &[PathBuf]) -> io::Result<Self> {
        let file = std::path::absolute(file)?;
        let file = file.canonicalize().unwrap_or(file);
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let root = trust::nearest(&folder, &SIGNS).unwrap_or(&folder).to_owned();
        let (store, store_is_named) = match store {
            Some(store) => (std::path::absolute(store)?, true),
            None => (root.join(STORE), false),
        };
        let plugins = plugins.iter().map(std::path::absolute).collect::<io::Result<Vec<_>>>()?;
        let own = root.join(PLUGINS);
        let own_plugins = (own.is_dir() && !plugins.contains(&own)).then_some(own);
        Ok(Workspace { file, folder, root, store, store_is_named, plugins, own_plugins })
    }

    /// The paths of a folder without a workflow, for commands about the store alone.
    ///
    /// # Errors
    /// The current folder cannot be reached.
    pub fn of_folder(folder: &Path, store: Option<&Path>) -> io::Result<Self> {
        Self::find(&folder.join("-"), store, &[])
    }

    /// The store, or none if nothing has run yet. Creates nothing.
    ///
    /// # Errors
    /// It belongs to another user and nobody named it; those of [`StoreDir::existing`].
    pub fn existing_store(&self) -> Result<Option<StoreDir>, ExecError> {
        self.trust_store()?;
        StoreDir::existing(&self.store).map_err(|error| match error {
            StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => self.closed(),
            error => error.into(),
        })
    }

    /// Checks that an existing store can be used.
    ///
    /// # Errors
    /// It belongs to another user and nobody named it.
    pub fn trust_store(&self) -> Result<(), ExecError> {
        match !self.store_is_named && trust::is_there(&self.store) {
            true => self.check_store(),
            false => Ok(()),
        }
    }

    /// The store, created if it is missing. The root's own store is for its owner alone; a named one keeps its mode.
    ///
    /// # Errors
    /// As of [`Workspace::existing_store`], and those of [`StoreDir::create`].
    pub fn make_store(&self) -> Result<StoreDir, ExecError> {
        if self.store_is_named {
            return match StoreDir::create(&self.store) {
                Err(StoreError::Io { source, .. })
                    if source.kind() == io::ErrorKind::PermissionDenied && trust::is_there(&self.store) =>
                {
                    Err(self.closed())
                }
                made => Ok(made?),
            };
        }
        self.check_root()?;
        let was_there = trust::is_there(&self.store);
        close(&self.store).map_err(ExecError::io("create", &self.store))?;
        self.check_store()?;
        let made = StoreDir::create(&self.store);
        if made.is_err() && !was_there {
            // Only an empty folder is removed.
            let _ = fs::remove_dir(&self.store);
        }
        Ok(made?)
    }

    /// A path for display: relative to the root if it is below it.
    pub fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// The name of its snapshot in the store, one per file.
    pub(crate) fn snapshot_name(&self) -> String {
        Digest::of(self.file.as_os_str().as_encoded_bytes()).short()
    }

    fn closed(&self) -> ExecError {
        let store = self.store.display();
        if trust::is_mine(&self.store) {
            let why = format!("the store `{store}` is yours, but you cannot access a file or folder in it");
            return ExecError::Untrusted { why, way_out: format!("`chmod -R u+rwX {store}` opens it again") };
        }
        let owner = trust::owner_of(&self.store).map(|owner| format!(": it belongs to {owner}")).unwrap_or_default();
        let why = format!("{} cannot access the store `{store}`{owner}", trust::user());
        let way_out = match trust::shared_with(&self.store) {
            Some(group) => format!("the group {group} shares it: join that group, and log in again"),
            None => "its owner can give it to you with `chown -R`, or share it with a group".to_owned(),
        };
        ExecError::Untrusted { why, way_out: way_out + "; or name another with --store DIR" }
    }

    fn check_store(&self) -> Result<(), ExecError> {
        self.check_root()?;
        refuse(trust::against(&self.store, &format!("the store `{}`", self.store.display())))
    }

    /// The owner of the root can replace the store at any time.
    fn check_root(&self) -> Result<(), ExecError> {
        refuse(trust::against(&self.root, &format!("the workflow's root `{}`", self.root.display())))
    }
}

fn refuse(why: Option<String>) -> Result<(), ExecError> {
    let way_out = "choose a store with --store DIR: this one, if you trust its owner, or one of your own; or move the workflow into \
                   a folder of your own";
    why.map_or(Ok(()), |why| Err(ExecError::Untrusted { why, way_out: way_out.to_owned() }))
}

/// Makes a folder for its owner alone, or closes the one that is there if it is this user's.
fn close(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    if trust::is_mine_and_open(path) && trust::against(path, "it").is_none() {
        // On a file system without modes, the displayed mode was accepted.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_root_is_the_nearest_sign_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("lab/workflows/deep")).unwrap();
        let file = top.join("lab/workflows/deep/a.yaml");
        let root = |file: &Path| Workspace::find(file, None, &[]).unwrap().root;
        fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(root(&file), top, "the git root");
        fs::create_dir(top.join("lab/plugins")).unwrap();
        assert_eq!(root(&file), top.join("lab"), "the folder with plugins/");
        let plugins = top.join("lab/plugins");
        assert_eq!(Workspace::find(&file, None, &[]).unwrap().own_plugins.as_ref(), Some(&plugins));
        let named = Workspace::find(&file, None, std::slice::from_ref(&plugins)).unwrap();
        assert_eq!((named.plugins, named.own_plugins), (vec![plugins], None));
        fs::create_dir(top.join("lab/workflows/deep/.flow")).unwrap();
        assert_eq!(root(&file), top.join("lab/workflows/deep"), "the nearest of them");
    }
}
