//! The output of a program with secrets: its log and its messages come through pipes, and secrets are hidden before
//! they are written to files. Knows no protocol.
//!
//! A turn reads a bounded piece of each pipe, so that a program that writes too fast waits and no other does. A full
//! disk makes it wait as well.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
};

use flow_core::reason::StartFault;
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::stat::Mode,
    unistd::mkfifo,
};

use crate::{
    attempt::Folder,
    secrets::{Secrets, StreamRedactor},
};

/// Limit of a read from a pipe in one turn.
pub(super) const PIECE: usize = 64 << 10;
/// Limit of what a pipe may hold after its last writer has gone.
const MOST_LEFT: usize = 1 << 20;

/// The pipes of one attempt.
pub(super) struct Outputs {
    folder: Folder,
    pipes: Vec<Pipe>,
}

struct Pipe {
    /// None after its last writer has closed it.
    from: Option<File>,
    to: File,
    hiding: StreamRedactor,
    /// Redacted, and not written yet.
    out: Vec<u8>,
}

impl Outputs {
    /// Opens pipes for an attempt that is about to start, and returns the end that its program writes to.
    ///
    /// # Errors
    /// The system cannot create a pipe.
    pub(super) fn open(folder: &Folder, log: File, secrets: &Secrets) -> Result<(Outputs, File), StartFault> {
        let cannot = |e: io::Error| StartFault::Unredacted {
            path: folder.path().display().to_string(),
            error: Box::new(e.into()),
        };
        let (reads, writes) = io::pipe().map_err(cannot)?;
        let reads = File::from(OwnedFd::from(reads));
        fcntl(&reads, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| cannot(e.into()))?;
        let heard = folder.open_pipe_target().map_err(cannot)?;
        mkfifo(&folder.messages(), Mode::S_IRUSR | Mode::S_IWUSR).map_err(|e| cannot(e.into()))?;
        // Opened for writing too: programs open it for one line and close it again, which must not end it.
        let mut both = File::options();
        both.read(true).write(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits());
        let messages = both.open(folder.messages()).map_err(cannot)?;
        let pipe =
            |from, to| Pipe { from: Some(from), to, hiding: StreamRedactor::new(secrets.clone()), out: Vec::new() };
        let pipes = vec![pipe(reads, log), pipe(messages, heard)];
        Ok((Outputs { folder: folder.clone(), pipes }, File::from(OwnedFd::from(writes))))
    }

    /// The descriptors to wait for.
    pub(super) fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().filter(|pipe| pipe.out.is_empty()).filter_map(|pipe| Some(pipe.from.as_ref()?.as_fd()))
    }

    /// Something could not be written and must be tried again.
    pub(super) fn is_stuck(&self) -> bool {
        self.pipes.iter().any(|pipe| !pipe.out.is_empty())
    }

    /// Forwards a piece of the available output.
    pub(super) fn turn(&mut self, piece: &mut [u8]) {
        self.pipes.iter_mut().for_each(|pipe| _ = pipe.turn(piece));
    }

    /// No process of the attempt is left: forwards the rest, and renames the messages to their pipe's name.
    pub(super) fn end(mut self, piece: &mut [u8]) {
        for pipe in &mut self.pipes {
            let mut left = MOST_LEFT;
            while let Some(read @ 1..) = pipe.turn(piece) {
                left = left.saturating_sub(read);
                if left == 0 {
                    break;
                }
            }
            pipe.hiding.end(&mut pipe.out);
            pipe.write();
        }
        let (heard, messages) = (self.folder.pipe_target(), self.folder.messages());
        // Failures here, if somebody changed the folder, do not affect what was read.
        if fs::metadata(&heard).is_ok_and(|meta| meta.len() > 0) {
            let _ = fs::rename(&heard, &messages);
        } else {
            let _ = fs::remove_file(&heard);
            let _ = fs::remove_file(&messages);
        }
    }
}

impl Pipe {
    /// How much was read; none if there is nothing, or no room for it.
    fn turn(&mut self, piece: &mut [u8]) -> Option<usize> {
        self.write();
        let from = self.from.as_mut().filter(|_| self.out.is_empty())?;
        match from.read(piece) {
            Ok(0) => {
                self.from = None;
                None
            }
            Ok(read) => {
                self.hiding.pass(&piece[..read], &mut self.out);
                self.write();
                Some(read)
            }
            Err(_) => None,
        }
    }

    fn write(&mut self) {
        while !self.out.is_empty() {
            match self.to.write(&self.out) {
                Ok(written @ 1..) => drop(self.out.drain(..written)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    }
}
