//! Decides what to do about gangs whose needs are settled: reuse a result, follow an attempt that still runs or runs
//! elsewhere, or start one. Only looks and answers; `outcomes` acts on the answers.

use std::collections::BTreeSet;

use flow_core::{
    Digest, InstanceId, StepResult,
    plan::{Decision, decide, reused_as, unfit},
};
use flow_runs::StoreError;

use super::deferred::DeferredGang;
use crate::driver::{begin::context::RunContext, plan::lookup::StoreLookup};

/// The answers of a lookup, gang by gang.
#[derive(Default)]
pub(crate) struct LookedUp {
    pub(crate) gangs: Vec<(Vec<InstanceId>, Vec<Decision>)>,
    /// First instances of gangs that still run since an earlier run.
    pub(crate) running_orphans: BTreeSet<InstanceId>,
    /// Gangs to run that other runs execute.
    pub(crate) deferred: Vec<DeferredGang>,
    /// Labels of attempts and jobs of earlier runs that were ended.
    pub(crate) useless: BTreeSet<String>,
    /// Damaged results that would have been reused, and the damage.
    pub(crate) damaged: Vec<(InstanceId, Digest, String)>,
    pub(crate) error: Option<StoreError>,
}

/// Decides about these gangs. Slow: it hashes inputs and looks at artifacts.
pub(crate) fn look_up(context: &RunContext, gangs: Vec<Vec<InstanceId>>) -> LookedUp {
    let session = &context.session;
    let mut looked_up = LookedUp::default();
    // Asked once for all gangs, because there may be a hundred thousand that are not affected.
    let no_orphans_here = context.orphans.has_nothing_here();
    let nothing_followed = no_orphans_here && !context.orphans.has_jobs();
    for ids in gangs {
        let (workflow, folder) = (&*session.expansion.workflow, &session.workspace.folder);
        let mut world = StoreLookup {
            results: Some(&context.store),
            recorded: Some(&context.recorded),
            objects: Some(context.objects.clone()),
            keep: true,
            followed: &|fingerprint| if nothing_followed { None } else { context.orphans.followed(fingerprint) },
            ..StoreLookup::of_inputs(workflow, folder, &context.inputs)
        };
        let decisions = decide(&session.context(), &ids, &context.known, &mut world, &context.force);
        let StoreLookup { damaged, error, .. } = world;
        if error.is_some() {
            looked_up.error = error;
            break;
        }
        if !no_orphans_here && continuing(context, &ids, &decisions, &mut looked_up.useless) {
            looked_up.running_orphans.extend(ids.first());
            looked_up.gangs.push((ids, decisions));
            continue;
        }
        let to_run = decisions.iter().filter_map(|decision| match decision {
            Decision::Run { attempt, .. } => Some(*attempt),
            _ => None,
        });
        let attempts: Vec<Digest> = to_run.collect();
        match context.claimed.by_others(context.store.dir(), &attempts) {
            Ok(Some(who)) => {
                looked_up.deferred.push(DeferredGang { instances: ids, attempts, who });
                continue;
            }
            Ok(None) => {}
            Err(error) => {
                looked_up.error = Some(error);
                break;
            }
        }
        let first = ids.first().copied();
        let damaged = damaged.into_iter().filter_map(|(fingerprint, damage)| Some((first?, fingerprint, damage)));
        looked_up.damaged.extend(damaged);
        looked_up.gangs.push((ids, decisions));
    }
    looked_up.useless.extend(end_jobs(context, &looked_up.gangs));
    looked_up
}

/// Ends jobs of earlier runs with these labels but other work. All at once, because each request to Slurm is slow.
/// Returns their labels.
fn end_jobs(context: &RunContext, gangs: &[(Vec<InstanceId>, Vec<Decision>)]) -> BTreeSet<String> {
    if !context.orphans.has_jobs() {
        return BTreeSet::new();
    }
    let each = gangs.iter().flat_map(|(ids, decisions)| ids.iter().zip(decisions));
    let wanted = each.map(|(id, decision)| {
        let instance = context.instance(*id);
        let to_run = match decision {
            Decision::Run { fingerprint, .. } if instance.is_batch() => Some(*fingerprint),
            _ => None,
        };
        (context.secrets.hide(instance.label.to_string()), to_run)
    });
    context.orphans.end_jobs(&context.file(), &wanted.collect())
}

/// Ends attempts and jobs of earlier runs whose instances are reused. Returns their labels.
pub(crate) fn end_reused<'i>(
    context: &RunContext,
    reused: impl Iterator<Item = &'i InstanceId> + Clone,
) -> BTreeSet<String> {
    let mut useless = BTreeSet::new();
    let labels = reused.map(|id| context.secrets.hide(context.instance(*id).label.to_string()));
    if !context.orphans.has_nothing_here() {
        let wanted = labels.clone().map(|label| (label, None)).collect();
        let followed = |attempt: &Digest| !matches!(context.claimed.taken(&[*attempt]), Ok(None));
        useless.extend(context.orphans.end_unwanted(&context.file(), &wanted, followed));
    }
    if context.orphans.has_jobs() {
        useless.extend(context.orphans.end_jobs(&context.file(), &labels.map(|label| (label, None)).collect()));
    }
    useless
}

/// True if the work of a gang still runs or ended since an earlier run. Attempts with these labels but other work are
/// ended, and are then `useless`.
fn continuing(
    context: &RunContext,
    ids: &[InstanceId],
    decisions: &[Decision],
    useless: &mut BTreeSet<String>,
) -> bool {
    let instances = &context.session.expansion.instances;
    let here = ids.iter().all(|id| !instances[id.index()].is_batch());
    let to_run = |decision: &Decision| match decision {
        Decision::Run { attempt, .. } if here => Some(*attempt),
        _ => None,
    };
    let attempts: Option<Vec<Digest>> = decisions.iter().map(to_run).collect();
    if attempts.is_some_and(|attempts| context.orphans.are_here(&attempts)) {
        return true;
    }
    let labels = ids.iter().map(|id| context.secrets.hide(instances[id.index()].label.to_string()));
    let wanted = labels.zip(decisions.iter().map(to_run)).collect();
    let followed = |attempt: &Digest| !matches!(context.claimed.taken(&[*attempt]), Ok(None));
    useless.extend(context.orphans.end_unwanted(&context.file(), &wanted, followed));
    false
}

/// The good stored result of an instance, if every instance of its gang has one. Looks at artifacts.
///
/// # Errors
/// The store could not be read.
pub(crate) fn earlier(
    context: &RunContext,
    gang: &[(InstanceId, Digest)],
    of: InstanceId,
) -> Result<Option<Box<StepResult>>, StoreError> {
    let mut earlier = None;
    for (id, fingerprint) in gang {
        let instance = context.instance(*id);
        // An artifact that cannot be checked at the moment counts as whole.
        let whole = |result: &StepResult| !matches!(context.objects.missing(result), Ok(Some(_)));
        let good = |result: &StepResult| unfit(result, instance).is_none() && whole(result);
        let Some(result) = context.store.result(fingerprint)?.filter(good) else { return Ok(None) };
        if *id == of {
            earlier = Some(Box::new(reused_as(result, instance)));
        }
    }
    Ok(earlier)
}
