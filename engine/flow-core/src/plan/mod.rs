//! What is to run and why. Knows results only through [`Lookup`], and places nothing.
//!
//! [`decide`] answers for one instance, or for one co-run group, whose needs are settled. The live driver asks it whenever
//! the scheduler wants a look-up; [`plan`] asks it for everything that can be known before anything runs. There is no
//! other place where a result is found fit to stand for an instance.

mod accept;
mod again;
mod decide;
mod fold;
mod force;
mod reuse;
mod without;

#[cfg(test)]
mod tests;

pub use accept::{Accepted, NotAccepted, accept};
pub use decide::{Decision, decide};
pub use fold::{Item, Plan, State, parts, plan, plan_of_run};
pub use force::Force;
pub use reuse::{Standing, standing_for, unfit};
pub use without::without_attempt;

use crate::fingerprint::{Parts, Tree};
use crate::reason::Fault;
use crate::why::Files;
use crate::{Catalogue, Digest, Expansion, Input, Instance, Metrics, RunId, StepResult};

/// What decisions are made about.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The workflow on this machine.
    pub expansion: &'a Expansion,
    /// What provides its steps.
    pub catalogue: &'a Catalogue,
}

/// What is looked for of an instance: its result, the one of its attempt, and its last fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    pub fingerprint: Digest,
    pub attempt: Digest,
    pub label: &'a str,
}

/// A result whose numbers were read anew, from what is kept of its attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub result: StepResult,
    /// What people should know of it.
    pub remarks: Vec<String>,
}

/// What decisions need of the world: files and the store. Whoever implements it remembers its own errors.
pub trait Lookup {
    /// A declared input as it stands.
    ///
    /// # Errors
    /// It is not there, it cannot be read.
    fn input(&mut self, input: &Input) -> Result<Tree, Fault>;

    /// The result that the last run of this workflow used for the instance, if its inputs are unchanged and nothing was
    /// recorded since. It is reused without a new fingerprint if everything the instance needs is reused in the same
    /// way.
    fn stands(&mut self, _instance: &Instance) -> Option<Standing> {
        None
    }

    /// What follows is asked of these, one after the other. Who has far to go goes once for all of them.
    fn ahead(&mut self, _of: &[Sought<'_>]) {}

    /// The result kept under a fingerprint, with all its artifacts still there.
    ///
    /// # Errors
    /// Whether they are there cannot be told.
    fn result(&mut self, fingerprint: &Digest) -> Result<Option<StepResult>, Fault>;

    /// The result of a finished attempt, its numbers read from what is kept of it, as `metrics` say now. `attempt` is its
    /// fingerprint. `None` where there is no such attempt, or what would have to be read is not kept.
    ///
    /// # Errors
    /// Whether its artifacts are there cannot be told.
    fn read_again(
        &mut self,
        _attempt: &Digest,
        _metrics: Option<&Metrics>,
        _instance: &Instance,
    ) -> Result<Option<Reading>, Fault> {
        Ok(None)
    }

    /// What a program left that ended well and did not write the outputs that were declared then, if the work folder that was kept has
    /// those of `instance`, unchanged since. `uncollected` is its key ([`Parts::uncollected`]).
    ///
    /// # Errors
    /// A file cannot be read.
    fn collect_again(
        &mut self,
        _uncollected: &Digest,
        _metrics: Option<&Metrics>,
        _instance: &Instance,
    ) -> Result<Option<Reading>, Fault> {
        Ok(None)
    }

    /// The dead run that already started this instance and whose attempt is still going, found by the result's
    /// fingerprint for a batch job and by the attempt's on this machine. It is adopted instead of started again.
    fn goes_on(&mut self, _instance: &Instance, _fingerprint: &Digest, _attempt: &Digest) -> Option<RunId> {
        None
    }

    /// An attempt of this fingerprint would go on from a checkpoint that an earlier one left.
    fn continues(&mut self, _instance: &Instance, _attempt: &Digest) -> bool {
        false
    }

    /// The results of what [stands](Lookup::stands), by fingerprint, whose artifacts are known to be there.
    fn stood(&mut self, of: &[Digest]) -> Vec<Option<StepResult>> {
        of.iter().map(|fingerprint| self.result(fingerprint).ok().flatten()).collect()
    }

    /// Why there is none under a fingerprint, where one was kept: what it produced is not as it was.
    fn damage(&self, _fingerprint: &Digest) -> Option<String> {
        None
    }

    /// The parts of the last fingerprint of an instance of this workflow.
    fn last(&mut self, label: &str) -> Option<Parts>;

    /// The parts of what else the instance was recorded under, the oldest first, as far back as somebody looks.
    fn recorded(&mut self, _label: &str) -> Vec<Parts> {
        Vec::new()
    }

    /// The files of a folder that was an input, by the digest of its manifest.
    fn files(&mut self, manifest: &Digest) -> Option<Files>;
}
