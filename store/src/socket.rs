//! The socket of a store: creates it, replaces one that a kill left, and finds it, even if the store's path is long.
//! Knows nothing of the messages.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown},
            net::{UnixListener, UnixStream},
        },
    },
    path::PathBuf,
};

use nix::fcntl::OFlag;

use flow_core::reason::StoreAction;

use crate::{Result, StoreDir, StoreError};

const NAME: &str = "db.sock";
/// The group's write permission on the folder.
const GROUP: u32 = 0o020;

/// The folder of a store with a short path, because a socket's path has at most 107 bytes.
struct Near(File);

impl Near {
    fn of(dir: &StoreDir) -> io::Result<Near> {
        let flags = (OFlag::O_PATH | OFlag::O_DIRECTORY).bits();
        Ok(Near(File::options().read(true).custom_flags(flags).open(dir.path())?))
    }

    fn at(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}

/// Listens, in place of an earlier holder. The caller holds the store.
pub(crate) fn listen(dir: &StoreDir) -> Result<UnixListener> {
    let path = dir.path().join(NAME);
    let made = || {
        let near = Near::of(dir)?;
        // Renamed into place after its permissions are set.
        let name = dir.temporary(dir.path());
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let listener = UnixListener::bind(near.at(&name))?;
        let folder = fs::metadata(dir.path())?;
        let is_shared = folder.mode() & GROUP != 0;
        let temporary = near.at(&name);
        let named = (|| {
            if is_shared && fs::symlink_metadata(&temporary)?.gid() != folder.gid() {
                chown(&temporary, None, Some(folder.gid()))?;
            }
            fs::set_permissions(&temporary, fs::Permissions::from_mode(if is_shared { 0o660 } else { 0o600 }))?;
            fs::rename(&temporary, near.at(NAME))
        })();
        named.inspect_err(|_| drop(fs::remove_file(&temporary)))?;
        Ok(listener)
    };
    made().map_err(StoreError::io(StoreAction::MakeSocket, &path))
}

/// Connects to the holder, if it listens.
pub(crate) fn connect(dir: &StoreDir) -> io::Result<UnixStream> {
    let near = Near::of(dir)?;
    UnixStream::connect(near.at(NAME))
}

/// Stops listening: waiting clients are refused, and `accept` returns.
pub(crate) fn close(dir: &StoreDir, listener: UnixListener) {
    let _ = fs::remove_file(dir.path().join(NAME));
    // A listener has no such call, but a stream has the same one.
    let _ = UnixStream::from(OwnedFd::from(listener)).shutdown(std::net::Shutdown::Both);
}
