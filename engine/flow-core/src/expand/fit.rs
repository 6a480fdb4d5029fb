//! Whether an instance, or a co-run group, can ever run on a machine. Planning uses only this answer; the scheduler
//! knows what is free at the moment.

use std::{collections::BTreeMap, sync::Arc};

use super::facts::{ExpandRequest, Group};
use crate::{CorunGpus, Instance, InstanceId, Machine, Outcome, ResourceRequest, reason::Lack};

/// Finds instances that can never run. Marks those whose step records that, and returns the others with the reason.
pub(super) fn find(
    groups: &[Group],
    request: &ExpandRequest<'_>,
    instances: &mut [Instance],
) -> BTreeMap<InstanceId, Lack> {
    let mut unrunnable: BTreeMap<InstanceId, Lack> = BTreeMap::new();
    // A batch system checks requests against each partition itself. Here only recorded misfits are looked for.
    let recorded = |instance: &Instance| instance.record.contains(&Outcome::DoesNotFit);
    let known = |instance: &&Instance| !instance.is_batch() || request.batch.node.is_some() && recorded(instance);
    let machine = |instance: &Instance| request.batch.node.filter(|_| instance.is_batch()).unwrap_or(request.machine);
    for instance in instances.iter().filter(|i| i.skip.is_none()).filter(known) {
        if let Some(why) = self::request(&instance.request, machine(instance)) {
            unrunnable.insert(instance.id, why);
        }
    }
    for group in groups {
        // A member that fits nowhere makes its whole group impossible.
        let alone = group.members.iter().find_map(|id| unrunnable.get(id).map(|lack| (*id, lack.clone())));
        let why = match alone {
            Some((id, lack)) => {
                Some(Lack::Member { label: instances[id.index()].label.to_string(), lack: Box::new(lack) })
            }
            None => {
                let members: Vec<&Instance> = group.members.iter().map(|id| &instances[id.index()]).collect();
                members.first().filter(|first| known(first)).and_then(|first| self::group(&members, machine(first)))
            }
        };
        for id in &group.members {
            if let Some(why) = &why {
                unrunnable.entry(*id).or_insert_with(|| why.clone());
            }
        }
    }
    unrunnable.retain(|id, lack| {
        let instance = &mut instances[id.index()];
        let recorded = recorded(instance);
        if recorded {
            instance.does_not_fit = Some(Arc::new(lack.clone()));
        }
        !recorded
    });
    unrunnable
}

/// Default CPUs of a step: its share of the cores by GPUs, rounded down so that all GPUs can be used at once.
pub(super) fn default_cpus(gpus: u32, machine: &Machine) -> u32 {
    let there = machine.gpus.len() as u64;
    if gpus == 0 || there == 0 {
        return 1;
    }
    let share = u64::from(machine.cpus) * u64::from(gpus) / there;
    u32::try_from(share.clamp(1, u64::from(machine.cpus.max(1)))).unwrap_or(u32::MAX)
}

/// Why a request can never be met, if so.
pub(super) fn request(request: &ResourceRequest, machine: &Machine) -> Option<Lack> {
    let (needs, has) = (request.gpus, machine.gpus.len() as u32);
    if needs > has {
        return Some(Lack::Gpus { needs, has, trouble: machine.gpu_troubles.first().cloned() });
    }
    if let Some(memory) = request.gpu_memory.filter(|_| needs > 0) {
        let has = with_memory(machine, memory);
        if has < needs {
            let largest = machine.gpus.iter().map(|g| g.memory).max().unwrap_or(0);
            return Some(Lack::GpuMemory { needs, memory, has, largest });
        }
    }
    if request.cpus > machine.cpus {
        return Some(Lack::Cpus { needs: request.cpus, has: machine.cpus });
    }
    let (needs, has) = (request.memory.unwrap_or(0), machine.memory);
    (needs > has).then_some(Lack::Memory { needs, has })
}

/// Why the members of a co-run group can never run together. They compete for CPUs, but not for GPUs and memory.
pub(super) fn group(group: &[&Instance], machine: &Machine) -> Option<Lack> {
    let (members, there) = (group.len() as u32, machine.gpus.len() as u32);
    if group.first()?.corun.as_ref()?.gpus == CorunGpus::Own {
        let needs: u32 = group.iter().map(|m| m.request.gpus).sum();
        if needs > there {
            return Some(Lack::GroupGpus { members, needs, has: there });
        }
    } else {
        let needs = group.iter().map(|m| m.request.gpus).max().unwrap_or(0);
        let memory: u64 = group.iter().filter_map(|m| m.request.gpu_memory).sum();
        let has = with_memory(machine, memory);
        if has < needs {
            return Some(Lack::GroupGpuMemory { members, needs, memory, has });
        }
    }
    let needs: u64 = group.iter().filter_map(|m| m.request.memory).sum();
    (needs > machine.memory).then_some(Lack::GroupMemory { members, needs, has: machine.memory })
}

/// Number of GPUs with at least this memory.
fn with_memory(machine: &Machine, memory: u64) -> u32 {
    machine.gpus.iter().filter(|gpu| gpu.memory >= memory).count() as u32
}

/// The key whose request is too large.
pub(super) fn key(lack: &Lack) -> &'static str {
    match lack {
        Lack::Gpus { .. } => "gpus",
        Lack::GpuMemory { .. } => "gpu_memory",
        Lack::Cpus { .. } => "cpus",
        Lack::Memory { .. } | Lack::GroupMemory { .. } => "memory",
        Lack::GroupGpus { .. } | Lack::GroupGpuMemory { .. } => "corun",
        Lack::Member { lack, .. } => key(lack),
    }
}
