//! `flow accept`: keeps old results for a changed fingerprint. Makes the records; the caller stores them.

use super::decide::difference;
use super::fold::fold;
use super::force::named;
use super::{Context, Decision, Force, Lookup, unfit};
use crate::fingerprint::{PartKind, Parts};
use crate::reason::Cause;
use crate::why::{Reason, UnfitReason, compare};
use crate::{Diagnostic, Instance, InstanceId, KeptOutput, StepResult};

/// Answer for one instance that should be accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum AcceptAnswer {
    /// To be stored: an earlier result under the present fingerprint.
    Kept {
        id: InstanceId,
        /// The result, with the user's reason.
        result: Box<StepResult>,
        /// The parts of its fingerprint.
        parts: Parts,
        changed: Vec<Reason>,
    },
    /// Its result is valid as it is.
    Cached(InstanceId),
    /// It cannot be accepted, and the reason.
    Not(InstanceId, NotAccepted),
}

/// Why no result of an instance is accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum NotAccepted {
    /// It has not run.
    NeverRan,
    /// Its last attempt has no result.
    NoResult,
    /// The result may not be reused for the instance.
    Unfit(UnfitReason),
    /// The only results are of another command, parameter or variable.
    OtherSettings(Vec<Reason>),
    /// These must run first: labels, or a step's name for several of its instances.
    After(Vec<String>),
    /// The instance cannot run, or its result cannot be read.
    Refused(Cause),
}

/// The differences that `flow accept` keeps results in spite of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedDifferences {
    /// Anything but commands, parameters and variables.
    Files,
    All,
    /// Only packages of declared environments that are known on both sides. Instances with other differences are left
    /// alone.
    Environments,
}

impl AcceptedDifferences {
    fn has(self, changed: &[Reason]) -> bool {
        self != AcceptedDifferences::Environments
            || changed
                .iter()
                .all(|reason| matches!(reason, Reason::Environment { differences, .. } if !differences.is_empty()))
    }
}

/// Accepts earlier results for the instances in `names`, each a step or a label; for all without names. For each it
/// takes the result that differs least from the instance; of several, the newest. `wanted` are their needs, ascending
/// and closed.
///
/// # Errors
/// Names that are neither.
pub fn accept(
    context: &Context<'_>,
    wanted: &[InstanceId],
    names: &[String],
    reason: &str,
    kind: AcceptedDifferences,
    lookup: &mut dyn Lookup,
) -> Result<Vec<AcceptAnswer>, Vec<Diagnostic>> {
    let ids = if names.is_empty() { wanted.iter().copied().collect() } else { named(context.expansion, names)? };
    let mut accepted = Vec::new();
    let plan = fold(context, wanted, lookup, &Force::Nothing, &mut |lookup, instance, decision| match decision {
        Decision::Run { fingerprint, attempt, parts, reasons } if ids.contains(&instance.id) => {
            let nearest = nearest_result(instance, &parts, kind, lookup).and_then(|(result, changed)| {
                match kind == AcceptedDifferences::Files && changed.iter().any(is_setting) {
                    true => Err(NotAccepted::OtherSettings(changed.into_iter().filter(is_setting).collect())),
                    false => Ok((result, changed)),
                }
            });
            match nearest {
                Ok((result, changed)) => {
                    let kept = result.kept.map(|kept| KeptOutput { attempt, ..kept });
                    let result = StepResult { fingerprint, kept, accepted: Some(reason.to_owned()), ..result };
                    let result = Box::new(result);
                    accepted.push(AcceptAnswer::Kept {
                        id: instance.id,
                        result: result.clone(),
                        parts: parts.clone(),
                        changed,
                    });
                    Decision::Reuse { result: result.into(), parts, read_again: None }
                }
                Err(why) => {
                    if kind != AcceptedDifferences::Environments {
                        accepted.push(AcceptAnswer::Not(instance.id, why));
                    }
                    Decision::Run { fingerprint, attempt, parts, reasons }
                }
            }
        }
        Decision::Reuse { .. } if ids.contains(&instance.id) => {
            accepted.push(AcceptAnswer::Cached(instance.id));
            decision
        }
        other => other,
    });
    for item in plan.items {
        let why = match item.state {
            super::State::After(needs) => NotAccepted::After(needs),
            super::State::Refused { cause, .. } => NotAccepted::Refused(cause),
            _ => continue,
        };
        if ids.contains(&item.id) && kind != AcceptedDifferences::Environments {
            accepted.push(AcceptAnswer::Not(item.id, why));
        }
    }
    Ok(accepted)
}

/// Whether the author runs something else now, and not the same with other files or another environment.
fn is_setting(changed: &Reason) -> bool {
    use PartKind::{Axis, Command, Parameter, Repetition, Seed, Variable};
    let kind = match changed {
        Reason::Value { kind, .. } | Reason::Many(kind) => kind,
        _ => return false,
    };
    matches!(kind, Command | Parameter | Variable | Seed | Repetition | Axis)
}

/// The result whose parts differ least from now, and the differences. If none is reusable: why the last one is not.
fn nearest_result(
    instance: &Instance,
    now: &Parts,
    kind: AcceptedDifferences,
    lookup: &mut dyn Lookup,
) -> Result<(StepResult, Vec<Reason>), NotAccepted> {
    let last = lookup.last(&instance.label);
    let recorded = lookup.recorded(&instance.label);
    let mut differing: Vec<&Parts> = last.iter().chain(recorded.iter().rev()).collect();
    differing.sort_by_cached_key(|earlier| difference(earlier, now));
    let mut not = NotAccepted::NeverRan;
    if kind == AcceptedDifferences::Environments {
        differing.retain(|earlier| kind.has(&compare(earlier, now, &mut |digest| lookup.listed(digest))));
    }
    for parts in differing {
        let unseen = |error| NotAccepted::Refused(Cause::ResultUnseen { error });
        let why = match lookup.result(&parts.digest()).map_err(unseen)? {
            // Differences from what was kept before are not differences from what ran.
            Some(result) if result.accepted.is_some() => continue,
            Some(result) => match unfit(&result, instance) {
                Some(unfit) => NotAccepted::Unfit(unfit),
                None => return Ok((result, compare(parts, now, &mut |digest| lookup.listed(digest)))),
            },
            None => NotAccepted::NoResult,
        };
        if last.as_ref() == Some(parts) {
            not = why;
        }
    }
    Err(not)
}
