//! `flow accept`: keeping old results for a changed fingerprint. Makes the records; somebody else stores them.

use super::decide::difference;
use super::fold::fold;
use super::force::named;
use super::{Context, Decision, Force, Lookup, unfit};
use crate::fingerprint::Parts;
use crate::reason::Cause;
use crate::why::{Reason, Unfit, compare};
use crate::{Diagnostic, Instance, InstanceId, Kept, StepResult};

/// What became of one instance that was to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// To be stored: an earlier result under the fingerprint that it has now.
    Kept {
        id: InstanceId,
        /// The result, with the reason given in it.
        result: Box<StepResult>,
        /// What its fingerprint is made from.
        parts: Parts,
        changed: Vec<Reason>,
    },
    /// Its result is good as it is.
    Cached(InstanceId),
    /// It cannot be accepted, and why.
    Not(InstanceId, NotAccepted),
}

/// Why no result of an instance is accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum NotAccepted {
    /// There is none: it has not run.
    NeverRan,
    /// Its last attempt left none.
    NoResult,
    /// It may not stand for the instance.
    Unfit(Unfit),
    /// These must run first: labels, or a step's name where several of its instances are meant.
    After(Vec<String>),
    /// The instance cannot run, or its result cannot be looked at.
    Refused(Cause),
}

/// Accepts earlier results of the instances that `names` stand for, each a step or a label: of each the one from which the instance
/// differs least, of several the newest. `wanted` is what they need, ascending and closed.
///
/// # Errors
/// Names that are neither.
pub fn accept(
    context: &Context<'_>,
    wanted: &[InstanceId],
    names: &[String],
    reason: &str,
    lookup: &mut dyn Lookup,
) -> Result<Vec<Accepted>, Vec<Diagnostic>> {
    let ids = named(context.expansion, names)?;
    let mut accepted = Vec::new();
    let (plan, _) = fold(context, wanted, lookup, &Force::Nothing, &mut |lookup, instance, decision| match decision {
        Decision::Run { fingerprint, attempt, parts, reasons } if ids.contains(&instance.id) => {
            match nearest_result(instance, &parts, lookup) {
                Ok((result, changed)) => {
                    let kept = result.kept.map(|kept| Kept { attempt, ..kept });
                    let result = StepResult { fingerprint, kept, accepted: Some(reason.to_owned()), ..result };
                    let result = Box::new(result);
                    accepted.push(Accepted::Kept {
                        id: instance.id,
                        result: result.clone(),
                        parts: parts.clone(),
                        changed,
                    });
                    Decision::Reuse { result: result.into(), parts, read_again: None }
                }
                Err(why) => {
                    accepted.push(Accepted::Not(instance.id, why));
                    Decision::Run { fingerprint, attempt, parts, reasons }
                }
            }
        }
        Decision::Reuse { .. } if ids.contains(&instance.id) => {
            accepted.push(Accepted::Cached(instance.id));
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
        if ids.contains(&item.id) {
            accepted.push(Accepted::Not(item.id, why));
        }
    }
    Ok(accepted)
}

/// The result whose parts differ least from those of now, and by what. Where none is fit, what is said is of the last.
fn nearest_result(
    instance: &Instance,
    now: &Parts,
    lookup: &mut dyn Lookup,
) -> Result<(StepResult, Vec<Reason>), NotAccepted> {
    let last = lookup.last(&instance.label);
    let recorded = lookup.recorded(&instance.label);
    let mut differing: Vec<&Parts> = last.iter().chain(recorded.iter().rev()).collect();
    differing.sort_by_cached_key(|earlier| difference(earlier, now));
    let mut not = NotAccepted::NeverRan;
    for parts in differing {
        let unseen = |error| NotAccepted::Refused(Cause::ResultUnseen { error });
        let why = match lookup.result(&parts.digest()).map_err(unseen)? {
            Some(result) => match unfit(&result, instance) {
                Some(unfit) => NotAccepted::Unfit(unfit),
                None => return Ok((result, compare(parts, now, &mut |manifest| lookup.files(manifest)))),
            },
            None => NotAccepted::NoResult,
        };
        if last.as_ref() == Some(parts) {
            not = why;
        }
    }
    Err(not)
}
