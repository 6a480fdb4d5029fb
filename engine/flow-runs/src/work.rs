//! Work folders outside the store, at `BASE/STORE/RUN/N/work`: one folder per store, run and attempt. The link `work` of
//! a run leads to its folder there. The link `store` in `BASE/STORE` leads back, so that nobody removes folders of another
//! store, and those of a store that is gone can be removed.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use flow_core::Digest;
use nix::unistd::geteuid;

use crate::{
    Result, RunDir, StoreDir,
    tree::{remove_tree, tree_size},
};

/// The link back to the store.
const STORE: &str = "store";
/// Nobody else may look into it, or put something into it.
const PRIVATE: u32 = 0o700;

/// The folder of one store below a base: `BASE/STORE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFolders {
    path: PathBuf,
}

impl StoreDir {
    /// The folder of this store below `base`. Creates both for this user alone. Only a base that the user `named` may
    /// belong to someone else, and be on another file system than the store.
    ///
    /// # Errors
    /// They cannot be created; a folder belongs to another user, or is a link; files cannot be moved from there into the
    /// store.
    pub fn work_folders(&self, base: &Path, named: bool) -> io::Result<WorkFolders> {
        let store = fs::canonicalize(self.path())?;
        DirBuilder::new().recursive(true).mode(PRIVATE).create(base)?;
        let base = fs::canonicalize(base)?;
        if !named {
            close(&base)?;
        }
        // The members of a group that share a store may share a base too.
        let of = [store.as_os_str().as_encoded_bytes(), &geteuid().as_raw().to_le_bytes()].concat();
        let path = base.join(Digest::of(&of).short());
        close(&path)?;
        if !named && let Err(e) = try_moving(self, &path) {
            let _ = fs::remove_dir(&path).and_then(|()| fs::remove_dir(&base));
            return Err(e);
        }
        match symlink(&store, path.join(STORE)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Ok(WorkFolders { path }),
        }
    }
}

/// Creates a folder for this user alone, or closes an existing one to others.
fn close(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        let why = format!("`{}` is not a folder of this user", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if found.mode() & 0o777 != PRIVATE {
        fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

/// Links a file from a folder into the store, and moves it there. Device numbers do not show whether that is possible, for
/// example with the subvolumes of btrfs.
fn try_moving(dir: &StoreDir, folder: &Path) -> io::Result<()> {
    let (here, there) = (dir.temporary(folder), dir.temporary(dir.path()));
    File::create_new(&here)?;
    let tried =
        fs::hard_link(&here, &there).and_then(|()| fs::remove_file(&there)).and_then(|()| fs::rename(&here, &there));
    let _ = fs::remove_file(if tried.is_ok() { &there } else { &here });
    tried
}

impl WorkFolders {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tries with one file whether files can be linked and moved from here into the store. Otherwise they are copied.
    ///
    /// # Errors
    /// They cannot.
    pub fn try_moving(&self, dir: &StoreDir) -> io::Result<()> {
        try_moving(dir, &self.path)
    }

    /// Creates the folder of a run, in which each attempt makes one, and the run's link to it.
    ///
    /// # Errors
    /// They cannot be created.
    pub fn begin(&self, run: &RunDir) -> io::Result<PathBuf> {
        let path = self.path.join(run.path().file_name().unwrap_or_default());
        DirBuilder::new().mode(PRIVATE).create(&path)?;
        symlink(&path, run.work())?;
        Ok(path)
    }
}

impl RunDir {
    /// The link to its work folders, if they are outside the store.
    pub fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    /// Removes its folder outside the store and the link to it, if no attempt left a work folder there.
    pub fn leave_work(&self) {
        if fs::read_link(self.work()).is_ok_and(|work| fs::remove_dir(work).is_ok()) {
            let _ = fs::remove_file(self.work());
        }
    }

    /// The target of its link, if that is the folder of this run in the folder of this store.
    pub(crate) fn own_work(&self) -> Option<PathBuf> {
        let target = fs::read_link(self.work()).ok()?;
        let back = fs::canonicalize(target.parent()?.join(STORE)).ok()?;
        let is_own =
            target.file_name() == self.path().file_name() && fs::canonicalize(self.store().path()).ok()? == back;
        is_own.then_some(target)
    }
}

/// Removes the work folders of a run outside the store, or with `dry` only computes their size.
pub fn free_work(run: &RunDir, dry: bool) -> Result<u64> {
    run.own_work().map_or(Ok(0), |work| if dry { tree_size(&work) } else { remove_tree(&work) })
}

/// Removes the folders of stores that are gone, from the bases that runs of this store use. Only this user's folders.
pub fn free_work_of_gone_stores(dir: &StoreDir, dry: bool) -> Result<u64> {
    let links = dir.runs()?.into_iter().filter_map(|run| fs::read_link(dir.run(&run).work()).ok());
    let bases: BTreeSet<PathBuf> = links.filter_map(|work| Some(work.parent()?.parent()?.to_owned())).collect();
    let mut bytes = 0;
    for base in bases {
        for folder in fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if is_of_gone_store(&folder) {
                bytes += if dry { tree_size(&folder)? } else { remove_tree(&folder)? };
            }
        }
    }
    Ok(bytes)
}

/// True if the store is missing from a file system that is there: on an unmounted disk it only seems to be gone.
fn is_of_gone_store(folder: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(folder) else { return false };
    let Ok(store) = fs::read_link(folder.join(STORE)) else { return false };
    let is_gone = fs::symlink_metadata(&store).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    let above = store.ancestors().find_map(|above| fs::metadata(above).ok());
    let is_mine = meta.is_dir() && meta.uid() == geteuid().as_raw();
    is_mine && is_gone && above.is_some_and(|above| above.dev() == meta.dev())
}

#[cfg(test)]
mod tests {
    use flow_core::RunId;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        store: StoreDir,
        run: RunDir,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreDir::create(&dir.path().join("a/.flow")).unwrap();
        let run = store.run(&RunId("1".into()));
        fs::create_dir(run.path()).unwrap();
        Place { dir, store, run }
    }

    #[test]
    fn a_folder_of_the_store_alone_is_made_and_tried() {
        let Place { dir, store, run } = place();
        let base = dir.path().join("cache/work");
        let folders = store.work_folders(&base, false).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&base), mode(folders.path())), (PRIVATE, PRIVATE));
        let names =
            |path: &Path| fs::read_dir(path).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
        assert_eq!(names(folders.path()), [STORE], "the trial leaves nothing");
        let work = folders.begin(&run).unwrap();
        assert_eq!((fs::read_link(run.work()).unwrap(), work), (folders.path().join("1"), folders.path().join("1")));
        assert_eq!(store.work_folders(&base, false).unwrap(), folders, "the next run finds it");
        run.leave_work();
        assert!(!folders.path().join("1").exists() && run.work().symlink_metadata().is_err());
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_refused() {
        let Place { dir, store, .. } = place();
        let (base, theirs) = (dir.path().join("work"), dir.path().join("theirs"));
        let path = store.work_folders(&base, false).unwrap().path;
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&theirs).unwrap();
        symlink(&theirs, &path).unwrap();
        let refused = store.work_folders(&base, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&base, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(store.work_folders(&base, false).unwrap().path, path);
        assert_eq!(base.metadata().unwrap().mode() & 0o777, PRIVATE, "an open one of this user is closed");
    }

    #[test]
    fn only_folders_of_this_store_and_of_stores_that_are_gone_are_removed() {
        let Place { dir, store, run } = place();
        let base = dir.path().join("work");
        let work = store.work_folders(&base, false).unwrap().begin(&run).unwrap();
        fs::write(work.join("left"), "12345").unwrap();
        // A copy of the project has the link, but the folder belongs to the original.
        let copy = StoreDir::create(&dir.path().join("b/.flow")).unwrap();
        let copied = copy.run(&RunId("1".into()));
        fs::create_dir(copied.path()).unwrap();
        symlink(&work, copied.work()).unwrap();
        assert_eq!(free_work(&copied, false).unwrap(), 0);
        assert_eq!((free_work(&run, true).unwrap(), work.exists()), (5, true));
        assert_eq!((free_work(&run, false).unwrap(), work.exists()), (5, false));

        let gone = copy.work_folders(&base, false).unwrap();
        fs::write(gone.path().join("left"), "123").unwrap();
        assert_eq!(free_work_of_gone_stores(&store, false).unwrap(), 0, "the store is there");
        fs::remove_dir_all(copy.path()).unwrap();
        assert!(free_work_of_gone_stores(&store, true).unwrap() >= 3 && gone.path().exists());
        free_work_of_gone_stores(&store, false).unwrap();
        assert!(!gone.path().exists() && work.parent().unwrap().exists());
    }
}
