//! What runs and why. Knows results only through [`Lookup`], and places nothing.
//!
//! [`decide`] answers for one instance, or for one co-run group, whose needs are settled. The live driver calls it
//! whenever the scheduler requests a lookup; [`plan`] calls it for everything that can be known before anything runs. No
//! other code decides whether a result may be reused for an instance.

mod accept;
mod again;
mod decide;
mod fold;
mod force;
mod reuse;
mod without;

#[cfg(test)]
mod tests;

pub use accept::{AcceptAnswer, AcceptedDifferences, NotAccepted, accept};
pub use decide::{Decision, decide};
pub use fold::{Item, Plan, State, parts, plan, plan_of_run};
pub use force::Force;
pub use reuse::{ReusableResult, reused_as, unfit};
pub use without::without_attempt;

use crate::fingerprint::{Parts, Tree};
use crate::reason::Fault;
use crate::why::ListContent;
use crate::{Catalogue, DeclaredEnvironment, Digest, Expansion, Input, Instance, Metrics, RunId, StepResult};

/// Context of the decisions.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The workflow on this machine.
    pub expansion: &'a Expansion,
    /// The providers of its steps.
    pub catalogue: &'a Catalogue,
}

/// Keys of one instance for the lookup: of its result, of its attempt's result, and of its last fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct LookupKeys<'a> {
    pub fingerprint: Digest,
    pub attempt: Digest,
    pub label: &'a str,
}

/// A result whose numbers were read again from the stored output of its attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub result: StepResult,
    /// Warnings for the user.
    pub remarks: Vec<String>,
}

/// The outside world for decisions: files and the store. An implementation keeps its own errors.
pub trait Lookup {
    /// The present state of a declared input.
    ///
    /// # Errors
    /// It does not exist or cannot be read.
    fn input(&mut self, input: &Input) -> Result<Tree, Fault>;

    /// The digest of the packages of a declared environment. `None` if the environment has yet to be made.
    ///
    /// # Errors
    /// It does not exist or cannot be read.
    fn environment(&mut self, declared: &DeclaredEnvironment) -> Result<Option<Digest>, Fault> {
        Ok(Some(Digest::of(declared.written.as_bytes())))
    }

    /// The result that the last run of this workflow used for the instance, if its inputs are unchanged and nothing was
    /// recorded since. It is reused without a new fingerprint if everything the instance needs is reused in the same
    /// way.
    fn unchanged_result(&mut self, _instance: &Instance) -> Option<ReusableResult> {
        None
    }

    /// Announces the following lookups, so that they can be made on several threads.
    fn ahead(&mut self, _of: &[LookupKeys<'_>]) {}

    /// The result stored under a fingerprint, if all its artifacts still exist.
    ///
    /// # Errors
    /// It is unknown whether they exist.
    fn result(&mut self, fingerprint: &Digest) -> Result<Option<StepResult>, Fault>;

    /// The result of a finished attempt, with its numbers read again from the stored output, as `metrics` now declare.
    /// `attempt` is its fingerprint. `None` if there is no such attempt, or its output is not stored.
    ///
    /// # Errors
    /// It is unknown whether its artifacts exist.
    fn read_again(
        &mut self,
        _attempt: &Digest,
        _metrics: Option<&Metrics>,
        _instance: &Instance,
    ) -> Result<Option<Reading>, Fault> {
        Ok(None)
    }

    /// The result of a program that succeeded but did not write its declared outputs, if its stored work folder has
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

    /// The dead run that started this instance, if its attempt still runs, or has ended and its result is not in the
    /// store. A batch job is found by the result's fingerprint, a local attempt by its own. It is adopted instead of
    /// started again, even if the instance is forced or has an older result.
    fn running_in(&mut self, _instance: &Instance, _fingerprint: &Digest, _attempt: &Digest) -> Option<RunId> {
        None
    }

    /// Whether an attempt with this fingerprint would resume from the checkpoint of an earlier one.
    fn continues(&mut self, _instance: &Instance, _attempt: &Digest) -> bool {
        false
    }

    /// The results behind [unchanged ones](Lookup::unchanged_result), by fingerprint. Their artifacts are known to exist.
    fn previous_results(&mut self, of: &[Digest]) -> Vec<Option<StepResult>> {
        of.iter().map(|fingerprint| self.result(fingerprint).ok().flatten()).collect()
    }

    /// Why a stored result is unusable: its artifacts are not as they were.
    fn damage(&self, _fingerprint: &Digest) -> Option<String> {
        None
    }

    /// Whether `flow forget` dropped the result under this fingerprint after the last attempt of the instance.
    fn is_forgotten(&mut self, _label: &str, _fingerprint: &Digest) -> bool {
        false
    }

    /// The parts of the last fingerprint of an instance of this workflow.
    fn last(&mut self, label: &str) -> Option<Parts>;

    /// Other recorded parts of the instance, the oldest first; implementations may limit how far they go back.
    fn recorded(&mut self, _label: &str) -> Vec<Parts> {
        Vec::new()
    }

    /// The list behind a digest of a fingerprint, if it is stored.
    fn listed(&mut self, digest: &Digest) -> Option<ListContent>;
}
