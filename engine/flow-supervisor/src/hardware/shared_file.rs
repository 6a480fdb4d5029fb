//! Files that all flows of a machine share, of all users: their folder, how they are opened and made, and the message if
//! one is unusable. Knows no lock, and not their content.
//!
//! They are in `/tmp`, where every user can write, and all users may write them. Links are not followed. A file stays once
//! it is made, because a flow that waits for a removed file would wait for another one than the next flow. If flows share a
//! machine but not `/tmp`, as containers do, [`LOCKS_VAR`] names a folder that they share.

use std::{
    env,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{stat::futimens, time::TimeSpec},
    unistd::{Uid, User},
};

use crate::clock;

/// The environment variable that names the folder of the shared files.
const LOCKS_VAR: &str = "FLOW_GPU_LOCKS";
/// Where every user can write, whatever their variables say.
const FOLDER: &str = "/tmp";
/// A file that is in use is touched when it is that old, in seconds: cleaners of temporary folders wait for days.
const OLD: f64 = 3600.0;

/// The folder of the shared files.
pub(super) fn folder() -> PathBuf {
    env::var_os(LOCKS_VAR).filter(|folder| !folder.is_empty()).map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

/// Opens the file of any user, or makes one for all.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let there = || {
        // What it is shows only when it is open: a pipe must not hold us up.
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
        let file = match File::options().read(true).write(true).custom_flags(flags).open(path) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                File::options().read(true).custom_flags(flags).open(path)?
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        // What is written would go into a file that is somebody's by another name.
        let sound = found.is_file() && found.nlink() == 1;
        if sound { Ok(file) } else { Err(io::Error::other("it is not a file of flow")) }
    };
    match there() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    // Not by one call that opens or makes it: kernels refuse that for files of others in a folder of all.
    match File::options().read(true).write(true).create_new(true).open(path) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o666))?;
            Ok(file)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => there(),
        Err(e) => Err(e),
    }
}

/// Keeps a file young that is in use, so that nobody cleans it away.
pub(super) fn keep_young(file: &File) {
    if file.metadata().is_ok_and(|meta| clock::unix_seconds() - meta.mtime() as f64 > OLD) {
        // A file that cannot be touched is only in danger of being cleaned away.
        let _ = futimens(file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW);
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// A user as people know them.
pub(super) fn name(user: Uid) -> String {
    User::from_uid(user).ok().flatten().map_or_else(|| format!("user {user}"), |user| user.name)
}

/// Why a file is of no use and what there is to be done, in words; `what` cannot be done with it, and `whom` it is shared by.
pub(super) fn unusable(path: &Path, error: &io::Error, what: &str, whom: &str) -> String {
    let shown = path.display();
    let words = || error.raw_os_error().map_or(error.to_string(), |errno| Errno::from_raw(errno).desc().to_lowercase());
    let (why, way_out) = match fs::symlink_metadata(path) {
        Ok(found) => {
            let kind = found.file_type();
            let why = if kind.is_symlink() {
                "it is a link, which flow does not follow".to_owned()
            } else if kind.is_dir() {
                "it is a folder".to_owned()
            } else if !kind.is_file() {
                "it is not a file".to_owned()
            } else if found.nlink() > 1 {
                "the file also has another name".to_owned()
            } else {
                words()
            };
            let (owner, us) = (Uid::from_raw(found.uid()), Uid::effective());
            let remove = if kind.is_dir() { "rm -r" } else { "rm" };
            let way_out = if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
                format!("`{}` is mounted read-only", folder_of(path).display())
            } else if owner == us || us.is_root() {
                format!("`{remove} {shown}` makes room for a new one")
            } else {
                format!("ask {}, who owns it, for `{remove} {shown}`", name(owner))
            };
            (why, way_out)
        }
        Err(_) => (words(), format!("check the folder `{}`", folder_of(path).display())),
    };
    let other = format!("{LOCKS_VAR} selects another folder, the same for all that share {whom}");
    format!("`{shown}` cannot be {what}: {why}; {way_out}, or {other}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_a_read_only_file_system_is_not_to_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flow-machine.ledger");
        let said = |error: Errno| {
            let said = unusable(&path, &error.into(), "used", "the machine");
            said.replace(&*dir.path().to_string_lossy(), "TMP")
        };
        let other = "or FLOW_GPU_LOCKS selects another folder, the same for all that share the machine";
        let read_only = "`TMP/flow-machine.ledger` cannot be used: read-only file system";
        assert_eq!(said(Errno::EROFS), format!("{read_only}; check the folder `TMP`, {other}"));
        fs::write(&path, "").unwrap();
        assert_eq!(said(Errno::EROFS), format!("{read_only}; `TMP` is mounted read-only, {other}"));
        assert!(said(Errno::EIO).contains("; `rm TMP/flow-machine.ledger` makes room for a new one, "));
    }
}
