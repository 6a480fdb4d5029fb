//! Makes the input folders in a work folder: hard links to a read-only copy, or a copy that the step may change.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::Arc,
};

use flow_core::{Body, Input};
use flow_store::CapturedInput;
use flow_supervisor::attempt::Folder;
use nix::unistd::geteuid;
use walkdir::WalkDir;

/// Links to a copy that many attempts share. Root can write into read-only files, so there it is replaced by one that
/// only this attempt has.
pub(super) fn link_folder(
    folder: &Folder,
    body: &Body,
    input: &Input,
    copy: &mut Arc<CapturedInput>,
    to: &Path,
) -> io::Result<()> {
    if geteuid().is_root() && !matches!(body, Body::Builtin { .. }) {
        let own = copy.copy_for_attempt(&folder.inputs().join(input.place()));
        own.into_iter().for_each(|own| *copy = Arc::new(own));
    }
    copy.link_to(to).or_else(|_| {
        let _ = fs::remove_dir_all(to);
        match folder.is_work_outside() {
            // A link would lead back into the project.
            true => copy_folder(copy.path(), to, false),
            // The file system has no hard links: the step shares the folder with others.
            false => symlink(copy.path(), to),
        }
    })
}

/// Copies a folder, with what its links lead to. A step may change everything in a `writable` copy.
pub(super) fn copy_folder(from: &Path, to: &Path, writable: bool) -> io::Result<()> {
    for entry in WalkDir::new(from).follow_links(true) {
        let entry = entry?;
        let to = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        if entry.file_type().is_dir() {
            fs::create_dir(&to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            if writable {
                let mode = fs::metadata(&to)?.permissions().mode();
                fs::set_permissions(&to, fs::Permissions::from_mode(mode | 0o200))?;
            }
        }
    }
    Ok(())
}
