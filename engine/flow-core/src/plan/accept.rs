//! `flow accept`: keeping old results for a changed fingerprint. Makes the records; somebody else stores them.

use super::fold::fold;
use super::force::named;
use super::{Context, Decision, Force, Lookup, unfit};
use crate::fingerprint::Parts;
use crate::reason::Cause;
use crate::why::{Reason, Unfit};
use crate::{Diagnostic, Instance, InstanceId, Kept, StepResult};

/// What became of one instance that was to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// To be stored: its last result under the fingerprint that it has now.
    Kept {
        id: InstanceId,
        /// The result, with the reason given in it.
        result: Box<StepResult>,
        /// What its fingerprint is made from.
        parts: Parts,
        /// What had changed.
        changed: Vec<Reason>,
    },
    /// Its result is good as it is.
    Cached(InstanceId),
    /// It cannot be accepted, and why.
    Not(InstanceId, NotAccepted),
}

/// Why the last result of an instance is not accepted.
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

/// Accepts the last results of the instances that `names` stand for, each a step or a label; `wanted` is what they need,
/// ascending and closed.
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
            match last_result(instance, lookup) {
                Ok(result) => {
                    let kept = result.kept.map(|kept| Kept { attempt, ..kept });
                    let result = StepResult { fingerprint, kept, accepted: Some(reason.to_owned()), ..result };
                    let result = Box::new(result);
                    accepted.push(Accepted::Kept {
                        id: instance.id,
                        result: result.clone(),
                        parts: parts.clone(),
                        changed: reasons,
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

fn last_result(instance: &Instance, lookup: &mut dyn Lookup) -> Result<StepResult, NotAccepted> {
    let last = lookup.last(&instance.label).ok_or(NotAccepted::NeverRan)?;
    let unseen = |error| NotAccepted::Refused(Cause::ResultUnseen { error });
    let result = lookup.result(&last.digest()).map_err(unseen)?.ok_or(NotAccepted::NoResult)?;
    match unfit(&result, instance) {
        Some(unfit) => Err(NotAccepted::Unfit(unfit)),
        None => Ok(result),
    }
}
