//! The engine from the keeper's side: requests arrive over a socket, events go back, until the engine is gone.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use nix::poll::{PollFd, PollFlags};

use super::{Event, Request};

pub(super) struct Engine {
    /// `None` when the engine is gone.
    socket: Option<UnixStream>,
    input: Vec<u8>,
    out: Vec<u8>,
}

impl Engine {
    pub(super) fn of(socket: OwnedFd) -> io::Result<Engine> {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Engine { socket: Some(socket), input: Vec::new(), out: Vec::new() })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.socket.is_none()
    }

    pub(super) fn hang_up(&mut self) {
        self.socket = None;
    }

    /// The descriptor to wait for.
    pub(super) fn waiting(&self) -> Option<PollFd<'_>> {
        let out = if self.out.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        Some(PollFd::new(self.socket.as_ref()?.as_fd(), PollFlags::POLLIN | out))
    }

    pub(super) fn emit(&mut self, event: &Event) {
        if serde_json::to_writer(&mut self.out, event).is_ok() {
            self.out.push(b'\n');
        }
    }

    /// Writes as much as the socket accepts.
    pub(super) fn write(&mut self) {
        let Some(socket) = &mut self.socket else {
            self.out.clear();
            return;
        };
        match socket.write(&self.out) {
            Ok(n) => drop(self.out.drain(..n)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.socket = None,
        }
    }

    /// Reads its requests.
    pub(super) fn read(&mut self) -> Vec<Request> {
        let mut chunk = [0; 1 << 16];
        while let Some(socket) = &mut self.socket {
            match socket.read(&mut chunk) {
                Ok(0) => self.socket = None,
                Ok(n) => {
                    self.input.extend_from_slice(&chunk[..n]);
                    if n == chunk.len() {
                        continue;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.socket = None,
            }
            break;
        }
        let Some(end) = self.input.iter().rposition(|b| *b == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.input.drain(..=end).collect();
        let requests = whole[..end].split(|b| *b == b'\n').filter_map(|line| {
            // The engine is the same binary. If its message is invalid, treat it as gone.
            serde_json::from_slice(line).map_err(|_| self.socket = None).ok()
        });
        requests.collect()
    }
}
