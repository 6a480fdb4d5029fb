//! Two executors as one: what a batch system is asked for goes there, everything else runs on this machine. Knows no workflow.

use std::{collections::BTreeSet, io, os::fd::OwnedFd, time::Duration};

use flow_core::AttemptId;

use super::{
    executor::{Event, Executor, Work},
    local::Local,
    slurm::Slurm,
};
use crate::ExecError;

pub(crate) struct Everywhere {
    local: Local,
    /// Where a step of the workflow runs on Slurm.
    slurm: Option<Slurm>,
    there: BTreeSet<AttemptId>,
}

impl Everywhere {
    pub(crate) fn new(local: Local, slurm: Option<Slurm>) -> Everywhere {
        Everywhere { local, slurm, there: BTreeSet::new() }
    }

    fn there(&mut self, attempt: AttemptId) -> Option<&mut Slurm> {
        self.slurm.as_mut().filter(|_| self.there.contains(&attempt))
    }
}

impl Executor for Everywhere {
    fn start(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        let (there, here): (Vec<Work>, Vec<Work>) = unit.into_iter().partition(|work| work.job.is_some());
        match &mut self.slurm {
            Some(slurm) if !there.is_empty() => {
                self.there.extend(there.iter().map(|work| work.program.attempt));
                slurm.start(there)?;
            }
            None if !there.is_empty() => return Err(ExecError::Fault("a job has no Slurm to go to".to_owned())),
            _ => {}
        }
        if here.is_empty() { Ok(()) } else { self.local.start(here) }
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        match self.there(attempt) {
            Some(slurm) => slurm.release(attempt, at),
            None => self.local.release(attempt, at),
        }
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        match self.there(attempt) {
            Some(slurm) => slurm.stop(attempt),
            None => self.local.stop(attempt),
        }
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        match self.there(attempt) {
            Some(slurm) => slurm.kill(attempt, grace),
            None => self.local.kill(attempt, grace),
        }
    }

    fn hurry(&mut self) {
        self.slurm.as_mut().into_iter().for_each(Slurm::hurry);
    }

    fn settled(&mut self, attempt: AttemptId) {
        if let Some(slurm) = self.there(attempt) {
            slurm.settled(attempt);
            self.there.remove(&attempt);
        }
    }

    fn root(&self) -> Option<u32> {
        self.local.root()
    }

    fn shares_this_machine(&self) -> bool {
        true
    }

    fn lend(&mut self, life: OwnedFd) {
        self.local.lend(life);
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        match &mut self.slurm {
            None => self.local.next_event().await,
            Some(slurm) => tokio::select! {
                event = self.local.next_event() => event,
                event = slurm.next_event() => event,
            },
        }
    }
}
