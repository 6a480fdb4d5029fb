//! The engine's side of the keeper.

use std::{
    collections::VecDeque,
    env, io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use flow_store::ProcessIdentity;

use super::{
    Event, KEEPER_ARG, Request, Start,
    record::Record,
    tree::{self, Mark},
};
use crate::{attempt::write_atomically, channel::Channel, pages};

/// A running keeper. Dropping it ends every attempt.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    mark: Mark,
    record: PathBuf,
    channel: Channel,
    /// What could not be handed over.
    refused: VecDeque<Event>,
}

/// The keeper is gone, and with it every attempt that was running.
#[derive(Debug, thiserror::Error)]
#[error("the keeper of the running steps is gone ({reason}); the steps were ended with it, run again to go on")]
pub struct KeeperGone {
    reason: String,
}

impl Keeper {
    /// Starts a keeper from the program `exe`, which calls [`super::serve`] when its first argument is [`KEEPER_ARG`]. The file
    /// `record` says, as long as anything of it can be alive, whose that is.
    ///
    /// # Errors
    /// The program cannot be started, or there is no tokio runtime with IO; `record` cannot be written.
    pub fn spawn(exe: &Path, record: &Path) -> io::Result<Keeper> {
        Self::spawn_with(exe, record, None)
    }

    /// The same, with `life` open as long as anything of it can be alive: as its standard output, which it never uses, and which
    /// none of its programs has, for each gets its own.
    ///
    /// # Errors
    /// As [`Keeper::spawn`].
    pub fn spawn_with(exe: &Path, record: &Path, life: Option<OwnedFd>) -> io::Result<Keeper> {
        let (ours, theirs) = StdStream::pair()?;
        // Where no process can be told from another nothing that runs could be ended safely.
        let engine = ProcessIdentity::of(std::process::id()).ok_or_else(|| {
            io::Error::other(
                "/proc shows the processes of another namespace; `mount -t proc proc /proc` shows this one's",
            )
        })?;
        let mut command = Command::new(exe);
        // Whoever may look at it finds no secret there. It needs nothing but what finds its libraries.
        let loader = env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LD_"));
        command.arg(KEEPER_ARG).arg(record).env_clear().envs(loader);
        command.stdin(OwnedFd::from(theirs)).stdout(life.map_or_else(Stdio::null, Stdio::from));
        let process = pages::as_given(|| command.spawn())?;
        // The other end of the socket is the keeper's alone, so that it ends with ours.
        drop(command);
        let keeper = ProcessIdentity::of(process.id()).ok_or_else(|| io::Error::other("it ended at once"))?;
        let mark = Mark::of(&keeper);
        write_atomically(record, &serde_json::to_vec(&Record { engine, keeper, is_settled: false })?)
            .map_err(|e| io::Error::new(e.kind(), format!("`{}` cannot be written: {e}", record.display())))?;
        Ok(Keeper { process, mark, record: record.to_owned(), channel: Channel::new(ours)?, refused: VecDeque::new() })
    }

    /// The keeper's process: with the engine's own, the root of everything that is ours.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Hands over a request. It is written by the next [`Keeper::next_event`], together with others.
    pub fn send(&mut self, request: &Request) {
        // A path that is no UTF-8.
        if let (Err(error), Request::Start(Start { attempt, .. })) = (self.channel.send(request), request) {
            self.refused.push_back(Event::SpawnFailed { attempt: *attempt, reason: error.to_string().into() });
        }
    }

    /// Hands over what is left to hand over: nobody waits for events any more.
    pub(crate) fn finish(&mut self) {
        self.channel.finish();
    }

    /// The next event. Safe to cancel: nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// The keeper is gone. What its attempts left behind has been killed by then.
    pub async fn next_event(&mut self) -> Result<Event, KeeperGone> {
        if let Some(refused) = self.refused.pop_front() {
            return Ok(refused);
        }
        match self.channel.next().await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => Err(self.gone(None)),
            Err(error) => Err(self.gone(Some(error))),
        }
    }

    fn gone(&mut self, error: Option<io::Error>) -> KeeperGone {
        // It may be alive after a broken message only; then the socket's end is its end too.
        let _ = self.process.kill();
        let status = self.process.wait();
        tree::kill_marked(self.mark);
        let _ = std::fs::remove_file(&self.record);
        let reason = match (error, status) {
            (Some(error), _) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            (_, Ok(status)) => status.to_string(),
            (Some(error), _) | (None, Err(error)) => error.to_string(),
        };
        KeeperGone { reason }
    }
}
