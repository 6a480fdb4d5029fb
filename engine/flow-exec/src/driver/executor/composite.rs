//! Three executors as one: Slurm steps go to the batch system, what survives a run on this machine to a daemon, and
//! everything else to a keeper. Knows no workflow.

use std::{collections::BTreeSet, io, os::fd::OwnedFd, time::Duration};

use flow_core::AttemptId;

use super::{Event, Executor, Work, detached::DetachedAttempts, local::Local, slurm::Slurm};
use crate::ExecError;

// What concerns the jobs of dead runs. A second batch system would be asked as well.
pub use super::slurm::{cancel_jobs, orphaned_jobs};
pub(crate) use super::slurm::{end_unjoined, end_unwanted};

pub(crate) struct CompositeExecutor {
    local: Local,
    detached: DetachedAttempts,
    /// Present if a step of the workflow runs on Slurm.
    slurm: Option<Slurm>,
    there: BTreeSet<AttemptId>,
}

impl CompositeExecutor {
    pub(crate) fn new(local: Local, detached: DetachedAttempts, slurm: Option<Slurm>) -> CompositeExecutor {
        CompositeExecutor { local, detached, slurm, there: BTreeSet::new() }
    }

    fn there(&mut self, attempt: AttemptId) -> Option<&mut Slurm> {
        self.slurm.as_mut().filter(|_| self.there.contains(&attempt))
    }
}

impl Executor for CompositeExecutor {
    fn start(&mut self, gang: Vec<Work>) -> Result<(), ExecError> {
        let (there, here): (Vec<Work>, Vec<Work>) = gang.into_iter().partition(|work| work.job.is_some());
        match &mut self.slurm {
            Some(slurm) if !there.is_empty() => {
                self.there.extend(there.iter().map(|work| work.program.attempt));
                slurm.start(there)?;
            }
            None if !there.is_empty() => return Err(ExecError::Fault("a job has no Slurm to go to".to_owned())),
            _ => {}
        }
        match here.first() {
            None => Ok(()),
            Some(first) if first.detached.is_some() || self.detached.is_on() => self.detached.start(here),
            Some(_) => self.local.start(here),
        }
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        if let Some(slurm) = self.there(attempt) {
            return slurm.release(attempt, at);
        }
        if self.detached.has(attempt) { self.detached.release(attempt, at) } else { self.local.release(attempt, at) }
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        if let Some(slurm) = self.there(attempt) {
            return slurm.stop(attempt);
        }
        if self.detached.has(attempt) { self.detached.stop(attempt) } else { self.local.stop(attempt) }
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        if let Some(slurm) = self.there(attempt) {
            return slurm.kill(attempt, grace);
        }
        if self.detached.has(attempt) { self.detached.kill(attempt, grace) } else { self.local.kill(attempt, grace) }
    }

    fn hurry(&mut self) {
        self.slurm.as_mut().into_iter().for_each(Slurm::hurry);
    }

    fn settled(&mut self, attempt: AttemptId) {
        if let Some(slurm) = self.there(attempt) {
            slurm.settled(attempt);
            self.there.remove(&attempt);
        } else {
            self.detached.settled(attempt);
        }
    }

    fn root(&self) -> Option<u32> {
        self.detached.root().or_else(|| self.local.root())
    }

    fn shares_this_machine(&self) -> bool {
        true
    }

    fn lend(&mut self, life: OwnedFd, place: u32) {
        if self.detached.is_on() { self.detached.lend(life, place) } else { self.local.lend(life, place) }
    }

    fn lend_locks(&mut self, locks: Vec<Option<OwnedFd>>) {
        self.detached.lend_locks(locks);
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        let slurm = async {
            match &mut self.slurm {
                Some(slurm) => slurm.next_event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.local.next_event() => event,
            event = self.detached.next_event() => event,
            event = slurm => event,
        }
    }
}
