//! Where the page is served: a port of the loopback interface, or a socket in a file for `ssh -L`. Knows no HTTP.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
};

/// The port that the link of a socket names; `ssh -L` listens there.
const FORWARDED: u16 = 8080;

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

enum Kind {
    Port(TcpListener),
    Socket(UnixListener),
}

pub(crate) struct Listener {
    kind: Kind,
    /// The port in the link.
    pub(crate) port: u16,
    /// The socket's file; removed at the end.
    pub(crate) file: Option<PathBuf>,
}

impl Listener {
    pub(crate) async fn port(port: u16) -> Result<Listener, String> {
        let bound = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), port)).await;
        let listener = bound.map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => {
                format!("port {port} is in use, perhaps by another `flow view`: choose another one with --port, or 0 for any")
            }
            io::ErrorKind::PermissionDenied => format!("port {port} needs root: choose one above 1023"),
            _ => format!("the page cannot be served: {e}"),
        })?;
        let port = listener.local_addr().map_err(|e| format!("the page cannot be served: {e}"))?.port();
        Ok(Listener { kind: Kind::Port(listener), port, file: None })
    }

    /// A socket that only this user may connect to.
    pub(crate) fn socket(file: &Path) -> Result<Listener, String> {
        let shown = file.display();
        let failed = |e: io::Error| format!("`{shown}` cannot be a socket: {e}");
        // A socket that nobody serves is left from a `flow view` that was killed.
        let is_socket = fs::symlink_metadata(file).is_ok_and(|meta| meta.file_type().is_socket());
        let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && std::os::unix::net::UnixStream::connect(file).is_err_and(refused) {
            fs::remove_file(file).map_err(failed)?;
        }
        // No other user may connect in between.
        let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
        let bound = UnixListener::bind(file);
        nix::sys::stat::umask(mask);
        let listener = bound.map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse if is_socket => {
                format!("the socket `{shown}` is in use, perhaps by another `flow view`: choose another file")
            }
            io::ErrorKind::AddrInUse => format!("`{shown}` exists and is not a socket: choose another file"),
            _ => failed(e),
        })?;
        // For ssh, which does not know this folder.
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        Ok(Listener { kind: Kind::Socket(listener), port: FORWARDED, file: Some(file) })
    }

    pub(crate) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match &self.kind {
            Kind::Port(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
            Kind::Socket(listener) => listener.accept().await.map(|(stream, _): (UnixStream, _)| Box::new(stream) as _),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A file that is already gone is as good.
        self.file.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}
