//! Removes folders with everything in them, except file systems that are mounted there.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::reason::StoreAction;

use crate::{Result, StoreError, file, mounts};

/// True if a file system is mounted below this folder: removing its content would remove foreign data.
pub fn is_mounted_below(folder: &Path) -> bool {
    mounted_below(folder).is_some()
}

fn mounted_below(folder: &Path) -> Option<PathBuf> {
    mounts::below(&fs::canonicalize(folder).ok()?).pop()
}

/// Removes a file or folder with everything in it, even in folders that a step made unwritable. Returns the freed
/// bytes.
///
/// # Errors
/// Those of the system; a file system is mounted in the folder.
pub fn remove_tree(path: &Path) -> Result<u64> {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        && let Some(mount) = mounted_below(path)
    {
        return Err(StoreError::Mounted { path: path.to_owned(), mount });
    }
    remove_all(path)
}

fn remove_all(path: &Path) -> Result<u64> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |e| StoreError::io(StoreAction::Remove, path)(e);
    let Some(meta) = file::if_there(fs::symlink_metadata(path)).map_err(failed)? else { return Ok(0) };
    if !meta.is_dir() {
        fs::remove_file(path).map_err(failed)?;
        // A file with other names keeps its bytes.
        return Ok(if meta.nlink() == 1 { meta.len() } else { 0 });
    }
    if meta.mode() & 0o700 != 0o700 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    let mut freed = 0;
    for entry in fs::read_dir(path).map_err(failed)? {
        freed += remove_all(&entry.map_err(failed)?.path())?;
    }
    fs::remove_dir(path).map_err(failed)?;
    Ok(freed)
}

/// Bytes that removing a file or folder would free.
pub fn tree_size(path: &Path) -> Result<u64> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(0) };
    if !meta.is_dir() {
        return Ok(if meta.nlink() == 1 { meta.len() } else { 0 });
    }
    let mut sum = 0;
    for entry in fs::read_dir(path).map_err(StoreError::io(StoreAction::Read, path))? {
        sum += tree_size(&entry.map_err(StoreError::io(StoreAction::Read, path))?.path())?;
    }
    Ok(sum)
}
