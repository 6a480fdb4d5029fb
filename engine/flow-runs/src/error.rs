//! Errors of a store, with the place, what was expected and what to do. Knows no exit codes.

use std::{io, path::Path, path::PathBuf};

use flow_core::reason::{Fault, StoreAction, StoreFault};

use nix::sys::statvfs::statvfs;

use crate::Holder;

/// Short for results of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system reported an error.
    #[error("cannot {what} `{}`: {source}{}", path.display(), hint(path, source))]
    Io {
        /// The failed action.
        what: StoreAction,
        path: PathBuf,
        source: io::Error,
    },
    /// Another process holds the store, and the caller does not wait.
    #[error("the store `{}` is in use by {holder}; wait for it, `flow cancel` it if it is yours, or choose another one with --store", path.display())]
    Held { path: PathBuf, holder: Box<Holder> },
    /// Written by a newer flow.
    #[error("`{}` has format {found}, and this flow knows formats up to {known}: use the flow that wrote it, or a newer one", path.display())]
    Newer {
        path: PathBuf,
        found: u32,
        /// The newest format that this flow knows.
        known: u32,
    },
    /// Written by an earlier flow.
    #[error("the store `{at}` has format {found}, and this flow reads format {known} only: `mv {at} {at}.{found}` makes room for \
        a new store, or choose another one with --store or FLOW_STORE. The flow that wrote it can still read it", at = path.display())]
    Older {
        path: PathBuf,
        found: u32,
        /// This flow's format.
        known: u32,
    },
    /// The store is on a network file system, where neither locks nor the database are reliable.
    #[error("the store `{}` would be on a network file system ({kind}), where its locks and its database are not reliable: choose a folder on a local disk with --store or FLOW_STORE; or, if the nodes of a cluster must see it, keep its database on a disk of this machine, `mkdir -p DIR {} && ln -s DIR {}/local`", path.display(), path.display(), path.display())]
    Network {
        path: PathBuf,
        /// `NFS`.
        kind: &'static str,
    },
    /// The database cannot be read.
    #[error("the database in `{}` is damaged ({detail}): the next `flow run` or `flow doctor` moves it aside and rebuilds it from the runs' journals", path.display())]
    Damaged { path: PathBuf, detail: String },
    /// A file has unexpected content.
    #[error("`{}` is not what was expected: {detail}", path.display())]
    Malformed { path: PathBuf, detail: Box<Fault> },
    /// An output or an input cannot be an artifact.
    #[error(transparent)]
    NotAnArtifact(StoreFault),
    /// A folder to be removed contains a mounted file system.
    #[error("`{}` stays: something is mounted in it, at `{}`; `umount` that, and try again", path.display(), mount.display())]
    Mounted { path: PathBuf, mount: PathBuf },
    /// An artifact is missing in the store, or has changed.
    #[error(transparent)]
    Missing(StoreFault),
}

impl StoreError {
    /// For `map_err`: the action, and the file.
    pub fn io(what: StoreAction, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.as_ref().to_owned();
        move |source| StoreError::Io { what, path, source }
    }

    /// True if the disk, or the user's quota on it, is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if disk_full(source))
    }
}

/// For reasons, which are worded in any language. An error of opening a store is never a reason and keeps its words.
impl From<&StoreError> for Fault {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Io { what, path: at, source } => {
                let (which, path, error) = (*what, at.display().to_string(), Box::new(source.into()));
                match Lack::of(at, source) {
                    Some(Lack::Inodes) => StoreFault::NoInodes { which, path, error }.into(),
                    Some(Lack::Bytes) => StoreFault::StoreFull { which, path, error }.into(),
                    None => StoreFault::StoreRefused { which, path, error }.into(),
                }
            }
            StoreError::Malformed { path, detail } => {
                StoreFault::Malformed { path: path.display().to_string(), error: detail.clone() }.into()
            }
            StoreError::NotAnArtifact(fault) | StoreError::Missing(fault) => fault.clone().into(),
            other => Fault::Text(other.to_string()),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::from(&error)
    }
}

/// Advice if no process or thread can be started.
pub const LIMIT: &str = "; `ulimit -u` limits the processes and threads of a user, and `pids.max` those of a container";

fn disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What is used up on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Bytes,
    Inodes,
}

impl Lack {
    /// `None` if the disk is not full. Some file systems have no fixed number of inodes and report 0 in total.
    fn of(path: &Path, error: &io::Error) -> Option<Lack> {
        if !disk_full(error) {
            return None;
        }
        let found = path.ancestors().find_map(|there| statvfs(there).ok());
        let has_inodes = found.is_none_or(|found| {
            let bytes = found.blocks_available() * found.fragment_size();
            has_inodes(found.files(), found.files_available(), bytes)
        });
        Some(if has_inodes { Lack::Bytes } else { Lack::Inodes })
    }
}

/// True if a full disk still has inodes, given their total and remaining number and the free bytes. A few of either may
/// be free again.
fn has_inodes(all: u64, left: u64, bytes: u64) -> bool {
    const FEW_INODES: u64 = 16;
    const FEW_BYTES: u64 = 1 << 20;
    all == 0 || left >= FEW_INODES || left > 0 && bytes < FEW_BYTES
}

fn hint(path: &Path, error: &io::Error) -> &'static str {
    match Lack::of(path, error) {
        Some(Lack::Inodes) => {
            "; the file system has no inodes left: remove some files, of whatever size; then run again: nothing recorded is lost"
        }
        Some(Lack::Bytes) => {
            "; free a few MiB by hand, which `flow gc` needs to remove files of old runs; then run again: nothing recorded is lost"
        }
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_lacks_inodes_or_bytes() {
        const GIB: u64 = 1 << 30;
        for (all, left, bytes, expected) in [
            (1000, 0, GIB, false),
            (1000, 2, GIB, false),
            (1000, 0, 0, false),
            (1000, 2, 0, true),
            (1000, 500, 0, true),
            (1000, 500, GIB, true),
            // A file system without a fixed number of inodes.
            (0, 0, 0, true),
        ] {
            assert_eq!(has_inodes(all, left, bytes), expected, "{all} {left} {bytes}");
        }
        let path = Path::new("/nowhere/at/all");
        assert_eq!(hint(path, &io::Error::from(io::ErrorKind::NotFound)), "");
        assert!(hint(path, &io::Error::from(io::ErrorKind::StorageFull)).contains("a few MiB"));
    }
}
