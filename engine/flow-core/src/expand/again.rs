//! Planned repetitions of co-run groups that await a verdict. Whether they run is decided later, from results.

use std::{collections::BTreeMap, sync::Arc};

use super::{build::Built, prepare::StepPlan};
use crate::{ConditionalRepetition, CorunMember, Group, GroupId, Instance, InstanceId, Need, result::is_alone_of};

/// Plans the repetitions of a step's groups, and of their solo runs, if the step gets a verdict.
pub(super) fn repeat(at: usize, plans: &mut [StepPlan], built: &mut Built) {
    let Some(judged) = plans[at].judged else { return };
    let groups: Vec<Group> = built.groups.groups.iter().filter(|group| group.step.index() == at).cloned().collect();
    for group in groups {
        let alone: Option<Vec<Vec<InstanceId>>> =
            group.members.iter().map(|member| alone(*member, &plans[judged.alone], &built.instances)).collect();
        // Without solo runs there is no verdict.
        let Some(mut alone) = alone.filter(|alone| alone.len() > 1) else { continue };
        let mut together = group.members.clone();
        for look in 1..judged.at_most {
            let again = Arc::new(ConditionalRepetition {
                group: format!("{} {}", plans[at].name, group.name),
                looks: look,
                at_most: judged.at_most,
                tolerance: judged.tolerance,
                together: together.clone(),
                alone: alone.concat(),
            });
            // Members may share a solo run.
            let mut made: BTreeMap<InstanceId, InstanceId> = BTreeMap::new();
            for runs in alone.iter_mut().filter(|runs| runs.len() <= look as usize) {
                let first = runs[0];
                let id = *made.entry(first).or_insert_with(|| {
                    let repetition = next_repetition(&built.instances, first);
                    add(at, judged.alone, first, repetition, &again, plans, &mut built.instances)
                });
                runs.push(id);
            }
            let next = GroupId(built.groups.groups.len() as u32);
            let name = format!("{}#{look}", group.name);
            let members: Vec<InstanceId> = group
                .members
                .iter()
                .map(|member| add(at, at, *member, look, &again, plans, &mut built.instances))
                .collect();
            for member in &members {
                if let Some(corun) = &mut built.instances[member.index()].corun {
                    *corun = CorunMember { group: next, name: name.as_str().into(), ..corun.clone() };
                }
            }
            together.extend(&members);
            built.groups.groups.push(Group { id: next, name, members, ..group.clone() });
        }
    }
}

/// The solo runs of a member that are planned anyway, by repetition.
fn alone(member: InstanceId, solo: &StepPlan, instances: &[Instance]) -> Option<Vec<InstanceId>> {
    let axes = &instances[member.index()].axes;
    let own = &instances[solo.first as usize..solo.first as usize + solo.places.len()];
    let at = |run: &&Instance| run.skip.is_none() && is_alone_of(&run.axes, axes);
    let found: Vec<InstanceId> = own.iter().filter(at).map(|run| run.id).collect();
    let one_point = found.windows(2).all(|two| instances[two[0].index()].axes == instances[two[1].index()].axes);
    (one_point && !found.is_empty()).then_some(found)
}

/// The number for a further repetition of an instance; another step's groups may already have added some.
fn next_repetition(instances: &[Instance], of: InstanceId) -> u32 {
    let first = &instances[of.index()];
    let same = instances.iter().filter(|run| run.step == first.step && run.axes == first.axes);
    same.filter_map(|run| run.repetition).max().unwrap_or(0) + 1
}

/// Adds a repetition, which needs all runs it is compared with.
fn add(
    owner: usize,
    step: usize,
    of: InstanceId,
    repetition: u32,
    again: &Arc<ConditionalRepetition>,
    plans: &mut [StepPlan],
    instances: &mut Vec<Instance>,
) -> InstanceId {
    let first = &instances[of.index()];
    let id = InstanceId(instances.len() as u32);
    let place = plans[step].place(of);
    let mut needs = first.needs.clone();
    needs.extend(again.together.iter().chain(&again.alone).map(|on| Need { on: *on, list: true }));
    needs.sort();
    needs.dedup_by_key(|need| need.on);
    let own = u64::from(first.repetition.unwrap_or(0));
    let instance = Instance {
        id,
        label: plans[step].matrix.label(&plans[step].name, place.0 as usize, Some(repetition)),
        repetition: Some(repetition),
        seed: first.seed.wrapping_sub(own).wrapping_add(u64::from(repetition)),
        needs,
        again: Some(again.clone()),
        ..first.clone()
    };
    instances.push(instance);
    plans[step].repeated.insert(id, place);
    plans[owner].again.push(id);
    id
}
