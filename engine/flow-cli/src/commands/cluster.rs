//! `flow hw --on slurm`: the partitions of a cluster, the hardware of their nodes, and how much of
//! it is free.

use std::collections::BTreeMap;

use flow_slurm::{Gpus, Load, Node};
use indexmap::IndexMap;
use serde::Serialize;

use super::CommandResult;
use crate::output::Output;
use crate::words;

/// What `--json` prints.
#[derive(Serialize)]
struct ClusterJson<'a> {
    nodes: &'a [Node],
    /// By partition.
    jobs: &'a BTreeMap<String, Load>,
}

pub(super) fn show(json: bool, output: &mut Output) -> CommandResult {
    let (nodes, loads) = flow_exec::overview()?;
    match json {
        true => output.json(&ClusterJson { nodes: &nodes, jobs: &loads })?,
        false => output.lines(render(&nodes, &loads))?,
    }
    Ok(())
}

/// Nodes of a partition with the same hardware, whether or not GPUs are in use.
type Kind<'a> = (&'a str, u32, u64, Vec<(Option<&'a str>, u32)>);

fn render(nodes: &[Node], loads: &BTreeMap<String, Load>) -> Vec<String> {
    if nodes.is_empty() {
        return vec!["the cluster has no nodes".to_owned()];
    }
    let mut kinds: IndexMap<Kind<'_>, Vec<&Node>> = IndexMap::new();
    for node in nodes {
        let gpus = node.gpus.iter().map(|gpus| (gpus.model.as_deref(), gpus.count)).collect();
        kinds.entry((&node.partition, node.cpus, node.memory, gpus)).or_default().push(node);
    }
    // Slurm lists partitions in a varying order, and a node of two partitions twice.
    let place = |partition: &str| {
        let is_default = nodes.iter().any(|node| node.partition == partition && node.is_default);
        (!is_default, partition.to_owned())
    };
    kinds.sort_by_cached_key(|(partition, ..), _| place(partition));
    let heads =
        ["partition", "nodes", "taking jobs", "each has", "free GPUs", "free CPUs", "free on one node", "time limit"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for ((partition, cpus, memory, gpus), nodes) in &kinds {
        let up: Vec<&Node> = nodes.iter().copied().filter(|node| node.takes_jobs()).collect();
        let kinds = gpus.iter().map(|&(model, count)| format!("{count} × {}, ", model.unwrap_or("GPU")));
        let each = format!("{}{cpus} CPUs, {}", kinds.collect::<String>(), words::bytes(*memory));
        let all: u32 = up.iter().flat_map(|node| &node.gpus).map(|gpus| gpus.count).sum();
        let free: u32 = up.iter().flat_map(|node| &node.gpus).map(unused).sum();
        let name = if nodes[0].is_default { format!("{partition} (default)") } else { (*partition).to_owned() };
        let limit = nodes[0].time_limit;
        rows.push(vec![
            name,
            words::thousands(nodes.len()),
            words::thousands(up.len()),
            each,
            if gpus.is_empty() { "—".to_owned() } else { format!("{free} of {all}") },
            format!("{} of {}", sum(&up, |n| n.cpus_free), sum(&up, |n| n.cpus)),
            most_free(&up),
            limit.map_or_else(|| "none".to_owned(), |limit| words::duration(limit.as_secs_f64())),
        ]);
    }
    let mut lines = words::columns(&rows);
    lines.push(String::new());
    lines.extend(nodes_that_do_not(nodes));
    let mut partitions: IndexMap<&str, &str> =
        nodes.iter().map(|node| (node.partition.as_str(), node.partition_state.as_str())).collect();
    partitions.sort_by_cached_key(|name, _| place(name));
    let closed = partitions.iter().filter(|(_, state)| **state != "up");
    lines.extend(closed.map(|(name, state)| match *state {
        "down" => format!("partition {name} is down: its jobs wait until an administrator opens it again"),
        state => format!("partition {name} is in state `{state}`: it takes no jobs"),
    }));
    for name in partitions.keys() {
        let load = loads.get(*name).copied().unwrap_or_default();
        let of = |all: u32, yours: u32| {
            let yours = if yours > 0 { format!(" ({yours} yours)") } else { String::new() };
            words::thousands(all as usize) + &yours
        };
        let (running, waiting) = (of(load.running, load.yours_running), of(load.waiting, load.yours_waiting));
        lines.push(format!("jobs in {name}: {running} running, {waiting} waiting"));
    }
    lines
}

fn unused(gpus: &Gpus) -> u32 {
    gpus.count.saturating_sub(gpus.used)
}

fn sum(nodes: &[&Node], of: impl Fn(&Node) -> u32) -> String {
    words::thousands(nodes.iter().map(|node| of(node) as usize).sum())
}

/// The largest job that could start now: a step has one node.
fn most_free(nodes: &[&Node]) -> String {
    let free = |node: &&&Node| (node.gpus.iter().map(unused).sum::<u32>(), node.cpus_free, node.memory_free);
    let Some(node) = nodes.iter().max_by_key(free) else { return "—".to_owned() };
    let (gpus, cpus, memory) = free(&node);
    let gpus = if node.gpus.is_empty() { String::new() } else { format!("{}, ", words::count(gpus as usize, "GPU")) };
    format!("{gpus}{}, {}", words::count(cpus as usize, "CPU"), words::bytes(memory))
}

/// Nodes that accept no jobs, by their state.
fn nodes_that_do_not(nodes: &[Node]) -> Vec<String> {
    const NAMED: usize = 8;
    let mut states: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.is_up()) {
        let names = states.entry(&node.state).or_default();
        if !names.contains(&node.name.as_str()) {
            names.push(&node.name);
        }
    }
    states.iter().map(|(state, names)| format!("{state}: {}", words::first(names, NAMED))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_partition_stand_together_and_the_default_is_the_first() {
        let node = |partition: &str, name: &str, gpus: &str| {
            format!("{partition}|{name}|idle|0/8/0/8|4000|0|gpu:{gpus}:2|gpu:{gpus}:0(IDX:N/A)|infinite|up|n/a\n")
        };
        let told = |partitions: [&str; 2]| {
            let both = |name, gpus| partitions.map(|partition| node(partition, name, gpus)).concat();
            let nodes = flow_slurm::parse_nodes(&[both("n1", "h100"), both("n2", "a100")].concat()).unwrap();
            render(&nodes, &BTreeMap::new()).join("\n")
        };
        // Slurm's order varies.
        let text = told(["gpu", "main*"]);
        assert_eq!(text, told(["main*", "gpu"]));
        insta::assert_snapshot!(text, @"
        partition       nodes  taking jobs  each has                   free GPUs  free CPUs  free on one node         time limit
        main (default)  1      1            2 × h100, 8 CPUs, 3.9 GiB  2 of 2     8 of 8     2 GPUs, 8 CPUs, 3.9 GiB  none
        main (default)  1      1            2 × a100, 8 CPUs, 3.9 GiB  2 of 2     8 of 8     2 GPUs, 8 CPUs, 3.9 GiB  none
        gpu             1      1            2 × h100, 8 CPUs, 3.9 GiB  2 of 2     8 of 8     2 GPUs, 8 CPUs, 3.9 GiB  none
        gpu             1      1            2 × a100, 8 CPUs, 3.9 GiB  2 of 2     8 of 8     2 GPUs, 8 CPUs, 3.9 GiB  none

        jobs in main: 0 running, 0 waiting
        jobs in gpu: 0 running, 0 waiting
        ");
    }
}
