//! JSON objects, one per line, between two processes of flow. Never blocks: messages gather in a buffer, which is
//! written together while waiting for input.

use std::{
    collections::VecDeque,
    io::{self, Write},
    os::unix::net::UnixStream as StdStream,
    thread,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, net::UnixStream};

/// Number of tries for the last write, and the pause between them.
const LAST: (u32, Duration) = (1000, Duration::from_millis(1));

/// One end of the channel.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    /// The same socket, for use without a runtime.
    last: StdStream,
    out: Vec<u8>,
    input: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    /// Nothing more can be sent: the other end is gone, or will soon be found so.
    is_deaf: bool,
}

impl Channel {
    /// # Errors
    /// There is no tokio runtime with IO.
    pub fn new(socket: StdStream) -> io::Result<Channel> {
        socket.set_nonblocking(true)?;
        let last = socket.try_clone()?;
        let socket = UnixStream::from_std(socket)?;
        Ok(Channel { socket, last, out: Vec::new(), input: Vec::new(), lines: VecDeque::new(), is_deaf: false })
    }

    /// Sends a message with the next [`Channel::next`].
    ///
    /// # Errors
    /// It cannot be written as JSON: a path that is not valid UTF-8.
    pub fn send<T: Serialize>(&mut self, what: &T) -> serde_json::Result<()> {
        let line = serde_json::to_vec(what)?;
        self.out.extend_from_slice(&line);
        self.out.push(b'\n');
        Ok(())
    }

    /// The next message; `None` when the other end is gone and all its messages were read. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// The message is invalid, or the socket fails.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            self.write();
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let writes = if self.out.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            if self.socket.ready(writes).await?.is_readable() && !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Writes the rest, because nobody will call [`Channel::next`] any more.
    pub(crate) fn finish(&mut self) {
        let mut done = 0;
        for _ in 0..LAST.0 {
            match (&self.last).write(&self.out[done..]) {
                Ok(written) => done += written,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::sleep(LAST.1),
                Err(_) => return,
            }
            if done == self.out.len() {
                return;
            }
        }
    }

    fn write(&mut self) {
        let mut done = 0;
        while done < self.out.len() && !self.is_deaf {
            match self.socket.try_write(&self.out[done..]) {
                Ok(written) => done += written,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Earlier messages can still be read.
                Err(_) => self.is_deaf = true,
            }
        }
        if self.is_deaf {
            self.out.clear();
        } else {
            self.out.drain(..done);
        }
    }

    /// Reads available input; `false` at the end.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 1 << 16];
        match self.socket.try_read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(read) => self.input.extend_from_slice(&chunk[..read]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            // It closed without reading everything.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(e) => return Err(e),
        }
        if let Some(end) = self.input.iter().rposition(|byte| *byte == b'\n') {
            let whole: Vec<u8> = self.input.drain(..=end).collect();
            self.lines.extend(whole[..end].split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        }
        Ok(true)
    }
}
