//! The engine's side of the keeper.

use std::{
    collections::VecDeque,
    env, io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use flow_runs::ProcessIdentity;

use super::{
    Event, KEEPER_ARG, Request, Start,
    record::Record,
    tree::{self, Mark},
};
use crate::{attempt::write_atomically, channel::Channel};

/// A running keeper. Dropping it ends every attempt.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    mark: Mark,
    record: PathBuf,
    channel: Channel,
    /// Failures of attempts that could not be handed over.
    refused: VecDeque<Event>,
}

/// The keeper is gone, and with it every attempt that was running.
#[derive(Debug, thiserror::Error)]
#[error("the supervisor of the running steps has ended ({reason}), and the steps with it; run again to continue")]
pub struct KeeperGone {
    reason: String,
}

impl Keeper {
    /// Starts a keeper from the program `exe`, which calls [`super::serve`] when its first argument is [`KEEPER_ARG`].
    /// The file `record` identifies the owner while any process of it may be alive.
    ///
    /// # Errors
    /// The program cannot be started, or there is no tokio runtime with IO; `record` cannot be written.
    pub fn spawn(exe: &Path, record: &Path) -> io::Result<Keeper> {
        Self::spawn_with(exe, record, None)
    }

    /// The same, with `life` kept open while any process of it may be alive. It becomes the keeper's standard output,
    /// which the keeper never uses and its programs do not inherit, since each gets its own.
    ///
    /// # Errors
    /// As [`Keeper::spawn`].
    pub fn spawn_with(exe: &Path, record: &Path, life: Option<OwnedFd>) -> io::Result<Keeper> {
        let (ours, theirs) = StdStream::pair()?;
        // If processes cannot be identified, nothing that runs could be ended safely.
        let engine = ProcessIdentity::of(std::process::id()).ok_or_else(|| {
            io::Error::other(
                "/proc shows the processes of another namespace; `mount -t proc proc /proc` shows this one's",
            )
        })?;
        let mut command = Command::new(exe);
        // Its environment, which others may be able to see, has no secrets. It only needs what locates its libraries.
        let loader = env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LD_"));
        command.arg(KEEPER_ARG).arg(record).env_clear().envs(loader);
        command.stdin(OwnedFd::from(theirs)).stdout(life.map_or_else(Stdio::null, Stdio::from));
        let process = command.spawn()?;
        // The keeper alone has the other end of the socket, so that it closes when the keeper ends.
        drop(command);
        let keeper = ProcessIdentity::of(process.id()).ok_or_else(|| io::Error::other("it ended at once"))?;
        let mark = Mark::of(&keeper);
        write_atomically(record, &serde_json::to_vec(&Record { engine, keeper })?)
            .map_err(|e| io::Error::new(e.kind(), format!("`{}` cannot be written: {e}", record.display())))?;
        Ok(Keeper { process, mark, record: record.to_owned(), channel: Channel::new(ours)?, refused: VecDeque::new() })
    }

    /// The keeper's process: with the engine's own, the root of all processes of this run.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Queues a request, which the next [`Keeper::next_event`] writes together with others.
    pub fn send(&mut self, request: &Request) {
        // A path that is not valid UTF-8.
        if let (Err(error), Request::Start(Start { attempt, .. })) = (self.channel.send(request), request) {
            self.refused.push_back(Event::SpawnFailed { attempt: *attempt, reason: error.to_string().into() });
        }
    }

    /// Writes the remaining requests, because nobody waits for events any more.
    pub fn finish(&mut self) {
        self.channel.finish();
    }

    /// The next event. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The keeper is gone. The processes of its attempts have been killed.
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
        // After a broken message it may still be alive.
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
