//! What people are told of those who ran beside an attempt. Decides nothing.

use std::collections::BTreeSet;

use flow_core::{CorunGpus, Expansion, InstanceId, learn::History, measure::CoRunner};

use super::running::Running;

/// Labels of those who ran meanwhile, and of those of them who were on its GPUs.
pub(super) fn labels<'c>(
    expansion: &Expansion,
    corunners: impl Iterator<Item = &'c CoRunner> + Clone,
) -> (Vec<String>, Vec<String>) {
    let labels = |on_gpu: bool| {
        let corunners = corunners.clone().filter(|other| !on_gpu || !other.gpus.is_empty());
        let ids: BTreeSet<InstanceId> = corunners.map(|other| other.instance).collect();
        ids.into_iter().map(|id| expansion.instances[id.index()].label.to_string()).collect()
    };
    (labels(false), labels(true))
}

/// Those of its group, which have the node with it, and those of them that are on its GPUs.
pub(super) fn of_group(expansion: &Expansion, instance: InstanceId) -> (Vec<String>, Vec<String>) {
    let Some(corun) = &expansion.instances[instance.index()].corun else { return Default::default() };
    let members = &expansion.groups[corun.group.0 as usize].members;
    let others = members.iter().filter(|id| **id != instance);
    let all: Vec<String> = others.map(|id| expansion.instances[id.index()].label.to_string()).collect();
    let near = if corun.gpus == CorunGpus::Shared { all.clone() } else { Vec::new() };
    (all, near)
}

/// Why it shares its GPUs, for people.
pub(super) fn trial(history: &History<'_>, running: &Running, others: &[String]) -> String {
    let others = others.join(", ");
    let model = running.circumstances.gpu_models.first().map_or("card", String::as_str);
    let seen = history.devices().into_iter().find(|device| device.model == model);
    let so_far = match seen.map_or(0, |device| device.samples) {
        0 => "never measured so far".to_owned(),
        1 => "measured once so far".to_owned(),
        n => format!("measured {n} times so far"),
    };
    format!("shares its GPU with {others} on trial, to see what that costs on {model}: {so_far}")
}
