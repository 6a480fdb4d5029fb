//! Which results may be reused for an instance. Knows no fingerprints: the caller has found the result under the right
//! one.

use crate::why::UnfitReason;
use crate::{Digest, Instance, Outcome, RunId, StepResult};

/// A result that an earlier run used for an instance and that is still valid, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReusableResult {
    /// Its key.
    pub fingerprint: Digest,
    /// Its outcome.
    pub outcome: Outcome,
    /// The run that produced it.
    pub from: RunId,
}

/// Why a result may not be reused for an instance; `None` if it may.
///
/// `ok` is always reusable, a recorded failure as long as a rerun would give the same. A time-out: under a limit that is
/// not longer. A lack of memory: without foreign processes and other steps on the GPU (a co-run group counts as one
/// step), and under the same memory limits. It is never reusable if the kernel killed the step for lack of host memory,
/// because the use by others is unknown. Neither are disturbed measurements, or any other outcome.
pub fn unfit(result: &StepResult, instance: &Instance) -> Option<UnfitReason> {
    if !result.disturbances.is_empty() {
        return Some(UnfitReason::Disturbed(result.disturbances.clone()));
    }
    let outcome = result.outcome;
    let seen = &result.circumstances;
    match outcome {
        Outcome::Ok => None,
        Outcome::TimedOut | Outcome::OutOfMemory if !instance.record.contains(&outcome) => {
            Some(UnfitReason::NotRecorded(outcome))
        }
        Outcome::TimedOut => {
            let (was, is) = (seen.timeout, instance.limit());
            let no_longer = matches!((was, is), (Some(was), Some(is)) if is <= was);
            (!no_longer).then_some(UnfitReason::LongerLimit { was, is })
        }
        Outcome::OutOfMemory if seen.oom_killed => Some(UnfitReason::HostMemory),
        Outcome::OutOfMemory => {
            let own_group = seen.corun.as_ref().map_or(0, |window| window.members.saturating_sub(1) as usize);
            let mut others: Vec<String> = seen.foreign_processes.iter().map(|process| process.name.clone()).collect();
            if seen.corunners.len() > own_group {
                others.extend(seen.corunners.iter().cloned());
            }
            let limits = (seen.gpu_memory, seen.memory);
            if !others.is_empty() {
                Some(UnfitReason::NotAlone(others))
            } else {
                (limits != (instance.request.gpu_memory, instance.request.memory)).then_some(UnfitReason::MemoryLimit)
            }
        }
        Outcome::DoesNotFit | Outcome::Failed | Outcome::Cancelled | Outcome::Skipped => {
            Some(UnfitReason::Outcome(outcome))
        }
    }
}

/// A result as reused for an instance: with the instance's present label and axes.
pub fn reused_as(result: StepResult, instance: &Instance) -> StepResult {
    StepResult {
        label: instance.label.to_string(),
        axes: (*instance.axes).clone(),
        repetition: instance.repetition,
        ..result
    }
}
