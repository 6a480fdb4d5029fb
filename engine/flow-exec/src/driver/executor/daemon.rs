//! The run's side of the daemon, which keeps what a detached run starts here. Knows no workflow.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use flow_core::{AttemptId, GpuFacts, RunId};
use flow_runs::StoreDir;
use flow_supervisor::{
    channel::Channel,
    node::{AttemptStart, DaemonEvent, DaemonRequest, Hello, SUPERVISOR_ARG, Welcome},
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::ExecError;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The settings of a supervisor process.
pub(crate) struct Settings {
    /// The path of the `flow` program.
    pub(crate) exe: PathBuf,
    pub(crate) dir: StoreDir,
    pub(crate) run: RunId,
    pub(crate) folder: PathBuf,
    pub(crate) workflow: String,
    /// None of these values is a secret.
    pub(crate) environment: BTreeMap<String, String>,
    /// The GPUs that its programs may use, if any of them requests one.
    pub(crate) gpus: Vec<GpuFacts>,
}

/// A supervisor process. Dropping the handle ends no attempt.
pub(crate) struct DaemonHandle {
    _process: Child,
    channel: Channel,
    keeper: u32,
}

impl DaemonHandle {
    /// Starts one. `life` is the ledger's open file and the run's slot in it; `locks` are the open GPU locks.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn spawn(
        settings: &Settings,
        life: Option<(OwnedFd, u32)>,
        locks: Vec<Option<OwnedFd>>,
    ) -> io::Result<DaemonHandle> {
        let (ours, theirs) = UnixStream::pair()?;
        let hello = Hello {
            store: settings.dir.path().to_owned(),
            run: settings.run.clone(),
            workflow: settings.workflow.clone(),
            gpus: settings.gpus.clone(),
            locks: locks.iter().map(|lock| lock.as_ref().map(AsRawFd::as_raw_fd)).collect(),
            ledger: life.as_ref().map(|(file, slot)| (file.as_raw_fd(), *slot)),
        };
        let mut command = Command::new(&settings.exe);
        command.arg(SUPERVISOR_ARG).arg(&settings.folder).env_clear().envs(&settings.environment);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        for open in locks.iter().flatten().chain(life.as_ref().map(|(file, _)| file)) {
            fcntl(open, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let process = command.spawn()?;
        drop((command, locks, life));
        let mut line = serde_json::to_vec(&hello)?;
        line.push(b'\n');
        (&ours).write_all(&line)?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let mut answer = String::new();
        BufReader::new(&ours).read_line(&mut answer)?;
        if answer.is_empty() {
            return Err(io::Error::other("the supervisor process of the steps ended at once"));
        }
        let Welcome { keeper } = serde_json::from_str(&answer)?;
        Ok(DaemonHandle { _process: process, channel: Channel::new(ours)?, keeper })
    }

    /// The process whose children the attempts are.
    pub(crate) fn keeper(&self) -> u32 {
        self.keeper
    }

    /// Starts a gang, whose intent is on disk.
    ///
    /// # Errors
    /// The request cannot be written as JSON: a path that is not valid UTF-8.
    pub(crate) fn begin(&mut self, gang: Vec<AttemptStart>) -> io::Result<()> {
        Ok(self.channel.send(&DaemonRequest::Begin(gang))?)
    }

    pub(crate) fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        // Numbers can always be written as JSON.
        let _ = self.channel.send(&DaemonRequest::Kill { attempt, grace });
    }

    /// The next attempt whose folder has a new file, and which. Dropping the future loses nothing.
    ///
    /// # Errors
    /// It is gone, and every attempt with it.
    pub(crate) async fn next_event(&mut self) -> Result<DaemonEvent, ExecError> {
        let gone = |why: String| {
            ExecError::Fault(format!(
                "the supervisor of the running steps has ended ({why}), and the steps with it; run again to continue"
            ))
        };
        match self.channel.next().await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => Err(gone("it was killed".to_owned())),
            Err(error) => Err(gone(error.to_string())),
        }
    }
}
