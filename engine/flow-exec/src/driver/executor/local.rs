//! This machine as an executor. The keeper starts with the first attempt, so that a run that reuses everything has
//! none; the sampler starts with the first process. A detached run has both in a supervisor process, which survives
//! this one.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    time::Duration,
};

use flow_core::AttemptId;

use super::{
    Ended, Event, Executor, Observed, Work,
    daemon::{DaemonHandle, Settings},
};
use crate::{
    ExecError,
    attempt::Folder,
    keeper::{self, Keeper, Request},
    sampler::Sampler,
};

pub(crate) struct Local {
    exe: PathBuf,
    record: PathBuf,
    keeper: Option<Keeper>,
    sampler: Option<Sampler>,
    /// Present if attempts survive this process.
    outlives: Option<Settings>,
    staying: Option<DaemonHandle>,
    /// Attempts that the supervisor could not be given.
    refused: VecDeque<Event>,
    life: Option<(OwnedFd, u32)>,
    locks: Vec<Option<OwnedFd>>,
    folders: BTreeMap<AttemptId, Folder>,
}

impl Local {
    /// `exe` is the flow program; `record` identifies the owner while any process of it may be alive.
    pub(crate) fn new(exe: PathBuf, record: PathBuf) -> Local {
        Local {
            exe,
            record,
            keeper: None,
            sampler: None,
            outlives: None,
            staying: None,
            refused: VecDeque::new(),
            life: None,
            locks: Vec::new(),
            folders: BTreeMap::new(),
        }
    }

    /// Its attempts survive this process.
    pub(crate) fn outliving(mut self, settings: Settings) -> Local {
        self.outlives = Some(settings);
        self
    }

    /// Starts attempts that survive this process.
    fn begin(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        if let (None, Some(settings)) = (&self.staying, &self.outlives) {
            let staying = DaemonHandle::spawn(settings, self.life.take(), std::mem::take(&mut self.locks));
            self.staying = Some(staying.map_err(ExecError::io("start what is to keep the steps", &self.exe))?);
        }
        for work in unit {
            self.folders.insert(work.program.attempt, Folder::at(work.program.folder.clone()));
            if let Some(Err(refused)) = self.staying.as_mut().map(|staying| staying.begin(work)) {
                self.refused.push_back(refused);
            }
        }
        Ok(())
    }

    fn tell(&self, attempt: AttemptId, tell: impl FnOnce(&Folder) -> io::Result<()>) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), tell)
    }

    fn told(&mut self, event: keeper::Event) -> Result<Event, ExecError> {
        Ok(match event {
            keeper::Event::Started { attempt, pid } => {
                if let (None, Some(keeper)) = (&self.sampler, &self.keeper) {
                    let sampler = Sampler::start(keeper.pid()).map_err(ExecError::io("start", "the sampler"))?;
                    self.sampler = Some(sampler);
                }
                if let Some(sampler) = &self.sampler {
                    sampler.track(attempt, pid);
                }
                Event::Started { attempt, node: None }
            }
            keeper::Event::SpawnFailed { attempt, reason } => {
                self.folders.remove(&attempt);
                Event::SpawnFailed { attempt, reason }
            }
            keeper::Event::Exited { attempt, exit } => {
                self.folders.remove(&attempt);
                let seen = self.sampler.as_ref().map(|sampler| sampler.untrack(attempt));
                let (samples, cost) = seen.unwrap_or_default();
                let seen = Observed { samples, cost, ..Observed::default() };
                Event::Ended { attempt, end: Box::new(Ended::here(exit, seen)) }
            }
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // After an error, requests that are still queued must not start.
        if let Some(keeper) = self.keeper.as_mut().filter(|_| self.folders.is_empty()) {
            keeper.finish();
        }
    }
}

impl Executor for Local {
    fn start(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        if self.outlives.is_some() {
            return self.begin(unit);
        }
        if self.keeper.is_none() {
            let keeper = Keeper::spawn_with(&self.exe, &self.record, self.life.take().map(|(life, _)| life));
            self.keeper = Some(keeper.map_err(ExecError::io("start the keeper", &self.exe))?);
        }
        for Work { program, .. } in unit {
            self.folders.insert(program.attempt, Folder::at(program.folder.clone()));
            if let Some(keeper) = &mut self.keeper {
                keeper.send(&Request::Start(program));
            }
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
        if let Some(staying) = &mut self.staying {
            staying.kill(attempt, grace);
        }
    }

    fn settled(&mut self, attempt: AttemptId) {
        if let Some(staying) = &mut self.staying {
            staying.settled(attempt);
        }
    }

    fn root(&self) -> Option<u32> {
        let staying = self.staying.as_ref().map(DaemonHandle::keeper);
        staying.or_else(|| self.keeper.as_ref().map(Keeper::pid))
    }

    fn shares_this_machine(&self) -> bool {
        true
    }

    fn lend(&mut self, life: OwnedFd, place: u32) {
        self.life = Some((life, place));
    }

    fn lend_locks(&mut self, locks: Vec<Option<OwnedFd>>) {
        self.locks = locks;
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        if let Some(refused) = self.refused.pop_front() {
            return Ok(refused);
        }
        if let Some(staying) = &mut self.staying {
            let event = staying.next_event().await?;
            if let Event::Ended { attempt, .. } | Event::SpawnFailed { attempt, .. } = &event {
                self.folders.remove(attempt);
            }
            return Ok(event);
        }
        let Some(keeper) = &mut self.keeper else { return std::future::pending().await };
        let event = keeper.next_event().await?;
        self.told(event)
    }
}
