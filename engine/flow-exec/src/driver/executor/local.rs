//! This machine as an executor. The keeper starts with the first attempt, so that a run that reuses everything has
//! none; the sampler starts with the first process.

use std::{collections::BTreeMap, io, os::fd::OwnedFd, path::PathBuf, time::Duration};

use flow_core::AttemptId;
use flow_supervisor::{
    attempt::Folder,
    keeper::{self, Keeper, Request},
    sampler::Sampler,
};

use super::{AttemptEnd, Event, Executor, LocalObservation, Work};
use crate::ExecError;

pub(crate) struct Local {
    exe: PathBuf,
    record: PathBuf,
    keeper: Option<Keeper>,
    sampler: Option<Sampler>,
    life: Option<OwnedFd>,
    folders: BTreeMap<AttemptId, PathBuf>,
}

impl Local {
    /// `exe` is the flow program; `record` identifies the owner while any process of it may be alive.
    pub(crate) fn new(exe: PathBuf, record: PathBuf) -> Local {
        Local { exe, record, keeper: None, sampler: None, life: None, folders: BTreeMap::new() }
    }

    fn write(&self, attempt: AttemptId, tell: impl FnOnce(&Folder) -> io::Result<()>) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), |folder| tell(&Folder::at(folder.clone())))
    }

    fn translate(&mut self, event: keeper::Event) -> Result<Event, ExecError> {
        Ok(match event {
            keeper::Event::Started { attempt, pid } => {
                if let (None, Some(keeper)) = (&self.sampler, &self.keeper) {
                    let sampler = Sampler::start(keeper.pid(), None).map_err(ExecError::io("start", "the sampler"))?;
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
                let seen = LocalObservation { samples, cost, ..LocalObservation::default() };
                Event::Ended { attempt, end: Box::new(AttemptEnd::here(exit, seen)) }
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
    fn start(&mut self, gang: Vec<Work>) -> Result<(), ExecError> {
        let keeper = match &mut self.keeper {
            Some(keeper) => keeper,
            none => {
                let keeper = Keeper::spawn_with(&self.exe, &self.record, self.life.take());
                none.insert(keeper.map_err(ExecError::io("start the keeper", &self.exe))?)
            }
        };
        for Work { program, .. } in gang {
            self.folders.insert(program.attempt, program.folder.clone());
            keeper.send(&Request::Start(program));
        }
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        self.write(attempt, |folder| folder.go(at))
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.write(attempt, Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        if let Some(keeper) = &mut self.keeper {
            keeper.send(&Request::Kill { attempt, grace });
        }
    }

    fn root(&self) -> Option<u32> {
        self.keeper.as_ref().map(Keeper::pid)
    }

    fn lend(&mut self, life: OwnedFd, _place: u32) {
        self.life = Some(life);
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        let Some(keeper) = &mut self.keeper else { return std::future::pending().await };
        let event = keeper.next_event().await?;
        self.translate(event)
    }
}
