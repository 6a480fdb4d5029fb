//! The seam between the loop and what executes attempts: processes on this machine, jobs of a batch system, a fake in tests.
//! Above it nobody knows where a program runs; below it nobody knows a workflow.
//!
//! What comes from below may come late, twice, or out of order, and a start may go untold; only an end is told for every
//! attempt that was started, sooner or later. The loop takes each event for what it still says.

use std::{collections::BTreeMap, io, os::fd::OwnedFd, path::PathBuf, time::Duration};

use flow_core::{AttemptId, sched::Capacity};

use crate::{
    ExecError,
    attempt::Folder,
    keeper::{self, Keeper, Request},
};

/// What executes attempts.
pub(crate) trait Executor {
    /// What there is to give out, GPUs as the machine has them.
    fn capacity(&self) -> Capacity;

    /// Starts an attempt in its folder, which is filled. [`keeper::Event::Started`] or [`keeper::Event::SpawnFailed`] answers,
    /// and [`keeper::Event::Exited`] follows.
    ///
    /// # Errors
    /// Nothing can be started here any more.
    fn start(&mut self, start: keeper::Start) -> Result<(), ExecError>;

    /// Releases the barrier for an attempt; `at` in seconds since 1970.
    ///
    /// # Errors
    /// It cannot be told, and would wait for ever.
    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()>;

    /// Asks an attempt that goes on for others to end by itself.
    ///
    /// # Errors
    /// It cannot be told, and would go on for ever.
    fn stop(&mut self, attempt: AttemptId) -> io::Result<()>;

    /// Ends an attempt: asks, waits, kills. Said again with less grace it hurries; of one that has ended it means nothing.
    fn kill(&mut self, attempt: AttemptId, grace: Duration);

    /// The process whose children the attempts are, where they run on this machine: for who measures them from outside.
    fn root(&self) -> Option<u32>;

    /// What it executes takes CPUs and memory of this machine, beside those of other runs.
    fn shares_this_machine(&self) -> bool {
        false
    }

    /// A descriptor that is to stay open as long as anything of what is started from here on can be alive.
    fn lend(&mut self, _life: OwnedFd) {}

    /// The next event. Nothing is lost when the future is dropped.
    fn next_event(&mut self) -> impl Future<Output = Result<keeper::Event, ExecError>>;
}

/// This machine, through its keeper, which is started with the first attempt: a run that reuses everything has none.
pub(crate) struct Local {
    capacity: Capacity,
    exe: PathBuf,
    record: PathBuf,
    keeper: Option<Keeper>,
    life: Option<OwnedFd>,
    folders: BTreeMap<AttemptId, Folder>,
}

impl Local {
    /// `exe` is flow itself; `record` says as long as anything of it can be alive whose that is.
    pub(crate) fn new(capacity: Capacity, exe: PathBuf, record: PathBuf) -> Local {
        Local { capacity, exe, record, keeper: None, life: None, folders: BTreeMap::new() }
    }

    fn tell(&self, attempt: AttemptId, tell: impl FnOnce(&Folder) -> io::Result<()>) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), tell)
    }
}

impl Executor for Local {
    fn capacity(&self) -> Capacity {
        self.capacity.clone()
    }

    fn start(&mut self, start: keeper::Start) -> Result<(), ExecError> {
        if self.keeper.is_none() {
            let keeper = Keeper::spawn_with(&self.exe, &self.record, self.life.take());
            self.keeper = Some(keeper.map_err(ExecError::io("start the keeper", &self.exe))?);
        }
        self.folders.insert(start.attempt, Folder::at(start.folder.clone()));
        if let Some(keeper) = &mut self.keeper {
            keeper.send(&Request::Start(start));
        }
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        self.tell(attempt, |folder| folder.go(at))
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.tell(attempt, Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        if let Some(keeper) = &mut self.keeper {
            keeper.send(&Request::Kill { attempt, grace });
        }
    }

    fn root(&self) -> Option<u32> {
        self.keeper.as_ref().map(Keeper::pid)
    }

    fn shares_this_machine(&self) -> bool {
        true
    }

    fn lend(&mut self, life: OwnedFd) {
        self.life = Some(life);
    }

    async fn next_event(&mut self) -> Result<keeper::Event, ExecError> {
        let Some(keeper) = &mut self.keeper else { return std::future::pending().await };
        let event = keeper.next_event().await?;
        if let keeper::Event::Exited { attempt, .. } | keeper::Event::SpawnFailed { attempt, .. } = &event {
            self.folders.remove(attempt);
        }
        Ok(event)
    }
}
