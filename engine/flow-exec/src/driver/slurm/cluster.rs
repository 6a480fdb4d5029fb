//! What a cluster has, as a machine to plan for: the largest of the nodes that its jobs would come to. What is free is Slurm's business.

use std::collections::BTreeMap;

use flow_core::{GpuFacts, Machine, Slurm};
use flow_slurm::{Load, Node};

use super::client::{Client, NoAnswer};
use crate::ExecError;

/// A cluster, as far as a plan needs it.
pub(crate) struct Cluster {
    pub(crate) node: Machine,
}

/// The nodes of the cluster that this machine submits to, and how many jobs its partitions have: two questions, however large it is.
///
/// # Errors
/// It does not answer.
pub fn overview() -> Result<(Vec<Node>, BTreeMap<String, Load>), NoAnswer> {
    let client = Client::new();
    Ok((client.nodes()?, client.load()?))
}

/// How much a cluster matters to who looks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookedFor {
    /// Without it nothing can be said.
    Needed,
    /// Where it is not there, nothing is known of it.
    IfThere,
}

impl Cluster {
    /// The cluster that this machine submits to; none where it is not needed and does not answer.
    ///
    /// # Errors
    /// It does not answer, or has no node for what is asked for.
    pub(crate) fn look(slurm: &Slurm, needed: LookedFor) -> Result<Option<Cluster>, ExecError> {
        match Client::new().nodes() {
            Ok(nodes) => match largest(&nodes, slurm) {
                Ok(node) => Ok(Some(Cluster { node })),
                Err(_) if needed == LookedFor::IfThere => Ok(None),
                Err(why) => Err(ExecError::Usage(why)),
            },
            Err(_) if needed == LookedFor::IfThere => Ok(None),
            Err(NoAnswer::NotInstalled { command }) => Err(ExecError::Usage(format!(
                "a step is to run on Slurm, and `{command}` is not on the PATH: run flow where jobs are submitted, on a login node, or \
                 `--on local` on this machine"
            ))),
            Err(error) => Err(ExecError::Usage(format!("a step is to run on Slurm, which does not answer: {error}"))),
        }
    }
}

/// The node with most GPUs, and then CPUs, among those that would take a job that names no step's own partition.
fn largest(nodes: &[Node], slurm: &Slurm) -> Result<Machine, String> {
    let (partition, gpu_type) = (slurm.job.partition.as_deref(), slurm.job.gpu_type.as_deref());
    let here =
        |node: &&Node| partition.map_or(node.is_default, |name| name.split(',').any(|name| name == node.partition));
    // Without a default the site has its own rule.
    let fallback = !nodes.iter().any(|node| here(&node)) && partition.is_none();
    let there: Vec<&Node> = nodes.iter().filter(|node| fallback || here(node)).collect();
    if there.is_empty() {
        let mut names: Vec<&str> = nodes.iter().map(|node| &*node.partition).collect();
        names.sort_unstable();
        names.dedup();
        let wanted = partition.unwrap_or_default();
        return Err(format!("Slurm has no partition `{wanted}`; it has {}", names.join(", ")));
    }
    let of_type = |node: &Node| -> Vec<(Option<String>, u32)> {
        let wanted = node.gpus.iter().filter(|gpus| gpu_type.is_none_or(|kind| gpus.model.as_deref() == Some(kind)));
        wanted.map(|gpus| (gpus.model.clone(), gpus.count)).collect()
    };
    let count = |node: &Node| of_type(node).iter().map(|(_, count)| count).sum::<u32>();
    if let Some(kind) = gpu_type.filter(|_| there.iter().all(|node| count(node) == 0)) {
        let mut kinds: Vec<&str> =
            there.iter().flat_map(|node| &node.gpus).filter_map(|gpus| gpus.model.as_deref()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let has = if kinds.is_empty() { "none has a type".to_owned() } else { format!("it has {}", kinds.join(", ")) };
        return Err(format!("no node of Slurm's partition has GPUs of type `{kind}`: {has}"));
    }
    let Some(node) = there.iter().max_by_key(|node| (count(node), node.cpus, node.memory)) else {
        return Err("Slurm has no nodes".to_owned());
    };
    let kinds = of_type(node).into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count as usize));
    let gpu = |(n, kind): (usize, Option<String>)| GpuFacts {
        uuid: format!("slurm:{n}"),
        index: n as u32,
        name: kind.unwrap_or_else(|| "GPU".to_owned()),
        memory: 0,
    };
    Ok(Machine {
        gpus: kinds.enumerate().map(gpu).collect(),
        cpus: node.cpus,
        // The model is seen when a job runs there: until then its partition stands for it.
        cpu_model: format!("Slurm partition {}", node.partition),
        memory: node.memory,
        ..Machine::default()
    })
}

#[cfg(test)]
mod tests {
    use flow_core::SlurmJob;

    use super::*;

    const NODES: &str = "\
        cpu*|c1|idle|0/64/0/64|500000|0|(null)|gpu:0|infinite\n\
        gpu|g1|mixed|8/24/0/32|250000|0|gpu:a100:4(S:0-1)|gpu:a100:1(IDX:0)|1-00:00:00\n\
        gpu|g2|idle|0/96/0/96|900000|0|gpu:h100:8|gpu:h100:0|1-00:00:00\n";

    fn of(partition: Option<&str>, gpu_type: Option<&str>) -> Result<(usize, u32, String), String> {
        let nodes = flow_slurm::parse_nodes(NODES).unwrap();
        let job = SlurmJob {
            partition: partition.map(str::to_owned),
            gpu_type: gpu_type.map(str::to_owned),
            ..SlurmJob::default()
        };
        let machine = largest(&nodes, &Slurm { job, ..Slurm::default() })?;
        let kind = machine.gpus.first().map(|gpu| gpu.name.clone()).unwrap_or_default();
        Ok((machine.gpus.len(), machine.cpus, kind))
    }

    #[test]
    fn a_plan_is_for_the_largest_node_of_the_partition() {
        assert_eq!(of(None, None), Ok((0, 64, String::new())), "the default partition");
        assert_eq!(of(Some("gpu"), None), Ok((8, 96, "h100".to_owned())));
        assert_eq!(of(Some("gpu"), Some("a100")), Ok((4, 32, "a100".to_owned())));
        assert_eq!(of(Some("gpus"), None), Err("Slurm has no partition `gpus`; it has cpu, gpu".to_owned()));
        let none = "no node of Slurm's partition has GPUs of type `v100`: it has a100, h100";
        assert_eq!(of(Some("gpu"), Some("v100")), Err(none.to_owned()));
    }
}
