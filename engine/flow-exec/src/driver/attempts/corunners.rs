//! The attempts that run beside an attempt, in its own run and in others, as circumstances and notices. Decides
//! nothing.

use std::collections::BTreeSet;

use flow_core::{AttemptId, CorunGpus, Expansion, InstanceId, learn::History, measure::CoRunner};

use super::running::LiveAttempt;
use crate::driver::executor::RecordedCoRunners;

/// Notes which attempts ran beside one that has ended. `beside` has them if another process supervised it.
pub(crate) fn note_end<'c>(
    expansion: &Expansion,
    running: &mut LiveAttempt,
    corunners: impl Iterator<Item = &'c CoRunner> + Clone,
    recorded: Option<&RecordedCoRunners>,
) {
    let (mut all, mut near) = match running.batch {
        true => of_group(expansion, running.instance),
        false => labels(expansion, corunners),
    };
    let circumstances = &mut running.circumstances;
    if let Some(beside) = recorded.filter(|_| running.batch) {
        let known = |attempts: &BTreeSet<AttemptId>| -> Vec<String> {
            let labels: BTreeSet<&String> = attempts.iter().filter_map(|attempt| running.known.get(attempt)).collect();
            labels.into_iter().cloned().collect()
        };
        (all, near) = (known(&beside.attempts), known(&beside.near));
        let measured = expansion.instances[running.instance.index()].measured;
        circumstances.other_attempts = circumstances.other_attempts.max(beside.other_runs);
        circumstances.unwatched |= beside.unwatched && measured;
    }
    (circumstances.corunners, circumstances.neighbours) = (all, near);
}

/// Labels of the attempts that ran at the same time, and of those among them on the same GPUs.
pub(crate) fn labels<'c>(
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

/// Labels of its group, which is on the same node, and of those members that use the same GPUs.
fn of_group(expansion: &Expansion, instance: InstanceId) -> (Vec<String>, Vec<String>) {
    let Some(corun) = &expansion.instances[instance.index()].corun else { return Default::default() };
    let members = &expansion.groups[corun.group.0 as usize].members;
    let others = members.iter().filter(|id| **id != instance);
    let all: Vec<String> = others.map(|id| expansion.instances[id.index()].label.to_string()).collect();
    let near = if corun.gpus == CorunGpus::Shared { all.clone() } else { Vec::new() };
    (all, near)
}

/// The reason why it shares its GPUs, as a notice.
pub(crate) fn trial(history: &History<'_>, running: &LiveAttempt, others: &[String]) -> String {
    // The other one may start a moment later.
    let with = if others.is_empty() { String::new() } else { format!(" with {}", others.join(", ")) };
    let model = running.circumstances.gpu_models.first().map_or("GPU", String::as_str);
    let seen = history.devices().into_iter().find(|device| device.model == model);
    let so_far = match seen.map_or(0, |device| device.samples) {
        0 => "not measured yet".to_owned(),
        1 => "measured once".to_owned(),
        n => format!("measured {n} times"),
    };
    format!("shares its GPU{with} to measure the cost of sharing on {model}: {so_far}")
}
