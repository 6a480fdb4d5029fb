//! Which results may stand for an instance. Knows nothing of fingerprints: the caller has found the result under the right one.

use crate::why::Unfit;
use crate::{Digest, Instance, Outcome, RunId, StepResult};

/// A result that stands for an instance as it did in an earlier run, as far as it is known without a look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Under which it is kept.
    pub fingerprint: Digest,
    /// How it had ended.
    pub outcome: Outcome,
    /// The run that produced it.
    pub from: RunId,
}

/// Why a result may not stand for an instance; `None` where it may.
///
/// `ok` always may. What a step records may as long as it would come out the same: a time-out only under a limit that is
/// no longer, a lack of memory only if it happened alone (a co-run group counts as one), without strangers on the GPU, and
/// under the same memory limits; never if the kernel killed it for want of host memory, for nobody knows what others on the host held
/// then. A spoiled measurement never may, nor any other outcome.
pub fn unfit(result: &StepResult, instance: &Instance) -> Option<Unfit> {
    if !result.spoiled.is_empty() {
        return Some(Unfit::Spoiled(result.spoiled.clone()));
    }
    let outcome = result.outcome;
    let seen = &result.circumstances;
    match outcome {
        Outcome::Ok => None,
        Outcome::TimedOut | Outcome::OutOfMemory if !instance.record.contains(&outcome) => {
            Some(Unfit::NotRecorded(outcome))
        }
        Outcome::TimedOut => {
            let (was, is) = (seen.timeout, instance.limit());
            let no_longer = matches!((was, is), (Some(was), Some(is)) if is <= was);
            (!no_longer).then_some(Unfit::LongerLimit { was, is })
        }
        Outcome::OutOfMemory if seen.oom_killed => Some(Unfit::HostMemory),
        Outcome::OutOfMemory => {
            let own_group = seen.corun.as_ref().map_or(0, |window| window.members.saturating_sub(1) as usize);
            let mut others: Vec<String> = seen.strangers.iter().map(|stranger| stranger.name.clone()).collect();
            if seen.corunners.len() > own_group {
                others.extend(seen.corunners.iter().cloned());
            }
            let limits = (seen.gpu_memory, seen.memory);
            if !others.is_empty() {
                Some(Unfit::NotAlone(others))
            } else {
                (limits != (instance.request.gpu_memory, instance.request.memory)).then_some(Unfit::MemoryLimit)
            }
        }
        Outcome::DoesNotFit | Outcome::Failed | Outcome::Cancelled | Outcome::Skipped => Some(Unfit::Outcome(outcome)),
    }
}

/// A result as it stands for an instance: with the label and the axes that this has now.
pub fn standing_for(result: StepResult, instance: &Instance) -> StepResult {
    StepResult {
        label: instance.label.to_string(),
        axes: (*instance.axes).clone(),
        repetition: instance.repetition,
        ..result
    }
}
