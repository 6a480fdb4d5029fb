//! A cluster as a machine to plan for: the largest of the nodes that its jobs could run on. Slurm handles free
//! capacity.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use flow_core::{GpuFacts, Machine, ResourceRequest, Slurm, SlurmJob};
use flow_slurm::{Load, Node};
use flow_supervisor::attempt::write_atomically;

use super::client::{Client, NoAnswer, Rules};
use crate::ExecError;

/// A cluster, as far as a plan needs it.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The largest node that its jobs could run on.
    pub(crate) node: Machine,
    nodes: Vec<Node>,
    /// The nodes in Slurm's words.
    nodes_text: String,
}

/// A request that no node of a cluster can satisfy, and advice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Impossible {
    pub(crate) what: String,
    pub(crate) help: String,
}

/// The same, for a key of the workflow's own `slurm:`.
#[derive(Debug)]
pub(crate) struct UnmetKey {
    pub(crate) key: &'static str,
    pub(crate) impossible: Impossible,
}

/// The nodes of the cluster that this machine submits to, and the jobs in its partitions. Two queries, whatever its
/// size.
///
/// # Errors
/// It does not answer.
pub fn overview() -> Result<(Vec<Node>, BTreeMap<String, Load>), NoAnswer> {
    let client = Client::new();
    Ok((client.nodes()?.0, client.load()?))
}

/// What this cluster accepts at once, and its partitions.
///
/// # Errors
/// It does not answer.
pub fn rules() -> Result<Rules, NoAnswer> {
    Client::new().rules()
}

/// Slurm did not report its nodes.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Slurm cannot be queried: {error}; {}", taken(*.remembered))]
pub struct ClusterUnavailable {
    pub error: NoAnswer,
    /// Its last answer is used instead.
    pub remembered: bool,
}

fn taken(remembered: bool) -> &'static str {
    if remembered {
        "flow uses its last answer about the nodes"
    } else {
        "the hardware of its nodes is unknown, so the plan of steps there may change"
    }
}

impl From<&ClusterUnavailable> for ExecError {
    fn from(ClusterUnavailable { error, .. }: &ClusterUnavailable) -> Self {
        match error {
            NoAnswer::NotInstalled { command } => ExecError::Usage(format!(
                "a step is to run on Slurm, and `{command}` is not on the PATH: run flow on a login node, or with `--on local` on this machine"
            )),
            error => ExecError::SlurmSilent(error.clone()),
        }
    }
}

impl Cluster {
    /// The cluster that this machine submits to. If it does not answer, the last answer from `memory`, or none. A
    /// command that only `informs` then waits less.
    ///
    /// # Errors
    /// It has no node for a key of the workflow's `slurm:`.
    pub(crate) fn look(
        slurm: &Slurm,
        memory: Option<&Path>,
        informs: bool,
    ) -> Result<(Option<Cluster>, Option<ClusterUnavailable>), UnmetKey> {
        let client = if informs && memory.is_some_and(Path::exists) { Client::brief() } else { Client::new() };
        match client.nodes() {
            Ok((nodes, told)) => Ok((Some(Cluster::of(slurm, nodes, told)?), None)),
            Err(error) => {
                let cluster = memory.map_or(Ok(None), |memory| Cluster::remembered(slurm, memory))?;
                let remembered = cluster.is_some();
                Ok((cluster, Some(ClusterUnavailable { error, remembered })))
            }
        }
    }

    /// The cluster as of its last answer.
    ///
    /// # Errors
    /// As of [`Cluster::look`].
    pub(crate) fn remembered(slurm: &Slurm, memory: &Path) -> Result<Option<Cluster>, UnmetKey> {
        let found = fs::read_to_string(memory).ok().and_then(|told| Some((flow_slurm::parse_nodes(&told).ok()?, told)));
        found.map(|(nodes, told)| Cluster::of(slurm, nodes, told)).transpose()
    }

    fn of(slurm: &Slurm, nodes: Vec<Node>, told: String) -> Result<Cluster, UnmetKey> {
        let node = largest_node(&nodes, slurm)?;
        Ok(Cluster { node, nodes, nodes_text: told })
    }

    /// Saves its nodes, in case it does not answer later.
    pub(crate) fn remember(&self, memory: &Path) {
        // Without the file, the next query needs an answer.
        let _ = write_atomically(memory, self.nodes_text.as_bytes());
    }
}

impl Cluster {
    /// The maximum time of a job in its partition; none without a limit, or if the job's own options may change it.
    pub(crate) fn longest(&self, job: &SlurmJob) -> Option<Duration> {
        if has(job, &["--qos", "--reservation"]) {
            return None;
        }
        let there = partition(&self.nodes, job.partition.as_deref()).ok()?;
        there.iter().map(|node| node.time_limit).reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// The time of a job that requests none; none without a limit, or if unknown.
    pub(crate) fn default_time(&self, job: &SlurmJob) -> Option<Duration> {
        if has(job, &["--qos", "--reservation"]) {
            return None;
        }
        let there = partition(&self.nodes, job.partition.as_deref()).ok()?;
        let limits: BTreeSet<_> = there.iter().map(|node| node.default_time.or(node.time_limit)).collect();
        // If it may go to several partitions, its limit is unknown.
        limits.first().copied().flatten().filter(|_| limits.len() == 1)
    }

    /// The reason why a job could never run: unknown partition, too long a time, no such GPUs, or no node large enough.
    /// A measured job must name its GPU type if there are several.
    pub(crate) fn lacks(&self, job: &SlurmJob, asks: &ResourceRequest, measured: bool) -> Option<Impossible> {
        let there = match partition(&self.nodes, job.partition.as_deref()) {
            Ok(there) => there,
            Err(impossible) => return Some(impossible),
        };
        let place = in_words(job.partition.as_deref(), &there);
        let time = job.time.map(|span| Duration::from_micros(span.0));
        if let (Some(time), Some(longest)) = (time, self.longest(job))
            && time > longest
        {
            let what = format!("{place} gives a job at most {}, not {}", span(longest), span(time));
            let help = "a training with checkpoints can use a shorter `time` and resume in another job; or choose another partition: `slurm: {partition: …}`";
            return Some(Impossible { what, help: help.to_owned() });
        }
        let kinds = kinds(&there);
        let gpu_type = job.gpu_type.as_deref();
        if let Some(kind) = gpu_type.filter(|kind| asks.gpus > 0 && !kinds.contains(kind)) {
            return Some(Impossible::type_of_gpu(kind, &place, &kinds));
        }
        if let (true, None, [first, _, ..]) = (measured && asks.gpus > 0, gpu_type, &*kinds)
            && !has(job, &["--constraint"])
        {
            let what = format!("it is measured, and {place} has GPUs of several types: {}", kinds.join(", "));
            return Some(Impossible { what, help: format!("choose one: `slurm: {{gpu_type: {first}}}`") });
        }
        let gpus = |node: &Node| -> u32 {
            let of = node.gpus.iter().filter(|gpus| gpu_type.is_none() || gpus.model.as_deref() == gpu_type);
            of.map(|gpus| gpus.count).sum()
        };
        let memory = asks.memory.unwrap_or(0);
        let fits = |node: &&Node| gpus(node) >= asks.gpus && node.cpus >= asks.cpus && node.memory >= memory;
        if there.iter().any(fits) {
            return None;
        }
        let gpus_in_words = |count: u32, kind: Option<&str>| match (count, kind) {
            (1, kind) => format!("1 GPU{}", kind.map(|kind| format!(" of type {kind}")).unwrap_or_default()),
            (count, kind) => format!("{count} GPUs{}", kind.map(|kind| format!(" of type {kind}")).unwrap_or_default()),
        };
        let mut wants = Vec::new();
        if asks.gpus > 0 {
            wants.push(gpus_in_words(asks.gpus, gpu_type));
        }
        wants.push(if asks.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", asks.cpus) });
        wants.extend(asks.memory.map(bytes));
        let last = wants.pop().unwrap_or_default();
        let wants = if wants.is_empty() { last } else { format!("{} and {last}", wants.join(", ")) };
        // Nodes with only other types of GPUs do not count.
        let of_type = |node: &&Node| gpu_type.is_none() || asks.gpus == 0 || gpus(node) > 0;
        let largest = there.iter().copied().filter(of_type);
        let mut shapes: Vec<_> = largest.map(|node| (gpus(node), node.cpus, node.memory)).collect();
        shapes.sort_unstable_by(|a, b| b.cmp(a));
        shapes.dedup();
        let shape = |(gpus, cpus, memory): &(u32, u32, u64)| {
            format!("{}, {cpus} CPUs and {}", gpus_in_words(*gpus, None), bytes(*memory))
        };
        let shapes: Vec<String> = shapes.iter().take(3).map(shape).collect();
        let what = format!("no node of {place} has {wants}: the largest have {}", shapes.join("; "));
        Some(Impossible {
            what, help: "request less, or choose another partition: `slurm: {partition: …}`".to_owned()
        })
    }
}

/// It passes one of these options to `sbatch` directly.
fn has(job: &SlurmJob, options: &[&str]) -> bool {
    job.options.iter().any(|given| options.iter().any(|option| given.starts_with(option)))
}

fn span(time: Duration) -> String {
    format!("{:#}", jiff::SignedDuration::try_from(time).unwrap_or(jiff::SignedDuration::MAX))
}

fn bytes(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

/// The GPU types of these nodes.
fn kinds<'n>(there: &[&'n Node]) -> Vec<&'n str> {
    let mut kinds: Vec<&str> =
        there.iter().flat_map(|node| &node.gpus).filter_map(|gpus| gpus.model.as_deref()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

impl Impossible {
    fn type_of_gpu(kind: &str, place: &str, kinds: &[&str]) -> Impossible {
        let has = if kinds.is_empty() { "none has a type".to_owned() } else { format!("it has {}", kinds.join(", ")) };
        let what = format!("no node of {place} has GPUs of type `{kind}`: {has}");
        Impossible { what, help: "set one of them as `gpu_type`, or choose another partition".to_owned() }
    }
}

/// The name of the place where a job for this partition, or for none, would run.
fn in_words(partition: Option<&str>, there: &[&Node]) -> String {
    let of_first = || there.first().map(|node| &*node.partition);
    partition.or_else(of_first).map_or_else(|| "Slurm".to_owned(), |name| format!("Slurm's partition `{name}`"))
}

/// The nodes on which a job for this partition, or for none, could run.
fn partition<'n>(nodes: &'n [Node], partition: Option<&str>) -> Result<Vec<&'n Node>, Impossible> {
    let is_there = |name: &str| nodes.iter().any(|node| node.partition == name);
    if let Some(named) = partition.filter(|named| !named.split(',').all(is_there)) {
        let names: Vec<&str> = nodes.iter().map(|node| &*node.partition).collect();
        return unknown_partition(named, &names).map_or(Ok(Vec::new()), Err);
    }
    let here =
        |node: &&Node| partition.map_or(node.is_default, |name| name.split(',').any(|name| name == node.partition));
    // Without a default partition, the site has its own rule.
    let fallback = partition.is_none() && !nodes.iter().any(|node| here(&node));
    Ok(nodes.iter().filter(|node| fallback || here(node)).collect())
}

/// An error if the cluster lacks the named partition, or one in a list of several.
pub(crate) fn unknown_partition(named: &str, there: &[&str]) -> Option<Impossible> {
    let unknown = named.split(',').find(|name| !there.contains(name))?;
    let there: BTreeSet<&str> = there.iter().copied().collect();
    let there = there.into_iter().collect::<Vec<_>>().join(", ");
    let what = format!("Slurm has no partition `{unknown}`; it has {there}");
    Some(Impossible { what, help: "`flow hw --on slurm` shows them all".to_owned() })
}

/// The node with the most GPUs, then CPUs, among those for jobs that name no partition of their own.
fn largest_node(nodes: &[Node], slurm: &Slurm) -> Result<Machine, UnmetKey> {
    let unmet = |key, impossible| UnmetKey { key, impossible };
    let gpu_type = slurm.job.gpu_type.as_deref();
    let there =
        partition(nodes, slurm.job.partition.as_deref()).map_err(|impossible| unmet("partition", impossible))?;
    let of_type = |node: &Node| -> Vec<(Option<String>, u32)> {
        let wanted = node.gpus.iter().filter(|gpus| gpu_type.is_none_or(|kind| gpus.model.as_deref() == Some(kind)));
        wanted.map(|gpus| (gpus.model.clone(), gpus.count)).collect()
    };
    let count = |node: &Node| of_type(node).iter().map(|(_, count)| count).sum::<u32>();
    if let Some(kind) = gpu_type.filter(|_| there.iter().all(|node| count(node) == 0)) {
        let place = in_words(slurm.job.partition.as_deref(), &there);
        return Err(unmet("gpu_type", Impossible::type_of_gpu(kind, &place, &kinds(&there))));
    }
    let Some(node) = there.iter().max_by_key(|node| (count(node), node.cpus, node.memory)) else {
        let help = "`sinfo` shows its nodes".to_owned();
        return Err(unmet("partition", Impossible { what: "Slurm has no nodes".to_owned(), help }));
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
        // The model is known when a job runs there; until then the partition represents it.
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
        cpu*|c1|idle|0/64/0/64|500000|0|(null)|gpu:0|infinite|up|n/a\n\
        gpu|g1|mixed|8/24/0/32|250000|0|gpu:a100:4(S:0-1)|gpu:a100:1(IDX:0)|1-00:00:00|up|n/a\n\
        gpu|g2|idle|0/96/0/96|900000|0|gpu:h100:8|gpu:h100:0|1-00:00:00|up|n/a\n";

    fn of(partition: Option<&str>, gpu_type: Option<&str>) -> Result<(usize, u32, String), String> {
        let nodes = flow_slurm::parse_nodes(NODES).unwrap();
        let job = SlurmJob {
            partition: partition.map(str::to_owned),
            gpu_type: gpu_type.map(str::to_owned),
            ..SlurmJob::default()
        };
        let machine = largest_node(&nodes, &Slurm { job, ..Slurm::default() })
            .map_err(|of| format!("{}: {}", of.key, of.impossible.what))?;
        let kind = machine.gpus.first().map(|gpu| gpu.name.clone()).unwrap_or_default();
        Ok((machine.gpus.len(), machine.cpus, kind))
    }

    #[test]
    fn what_no_node_could_run_is_told_with_what_there_is() {
        let nodes = flow_slurm::parse_nodes(NODES).unwrap();
        let cluster = Cluster { node: Machine::default(), nodes, nodes_text: NODES.to_owned() };
        let asks = |gpus, cpus, memory| ResourceRequest { gpus, cpus, memory, gpu_memory: None };
        let job = |partition: Option<&str>, gpu_type: Option<&str>| {
            let (partition, gpu_type) = (partition.map(str::to_owned), gpu_type.map(str::to_owned));
            SlurmJob { partition, gpu_type, ..SlurmJob::default() }
        };
        let lacks = |partition: Option<&str>, gpu_type: Option<&str>, asks: ResourceRequest, measured| {
            cluster.lacks(&job(partition, gpu_type), &asks, measured)
        };
        let takes = |partition: &str, hours: u64| {
            let time = Some(flow_core::Span::from_millis(hours * 3_600_000));
            cluster.lacks(&SlurmJob { time, ..job(Some(partition), None) }, &asks(0, 1, None), false)
        };
        assert_eq!(lacks(Some("gpu"), None, asks(8, 96, Some(1 << 30)), false), None);
        assert_eq!(lacks(Some("gpu"), Some("a100"), asks(4, 32, None), true), None);
        assert_eq!(lacks(None, None, asks(0, 64, None), true), None);
        assert_eq!((takes("gpu", 24), takes("cpu,gpu", 25)), (None, None));
        let told = |of: Option<Impossible>| of.map(|of| format!("{}. {}", of.what, of.help)).unwrap_or_default();
        insta::assert_snapshot!(
            [
                told(lacks(Some("gpus"), None, asks(0, 1, None), false)),
                told(lacks(Some("gpu"), Some("v100"), asks(1, 1, None), false)),
                told(lacks(Some("gpu"), None, asks(1, 1, None), true)),
                told(lacks(Some("gpu"), Some("a100"), asks(8, 1, None), true)),
                told(lacks(None, None, asks(0, 65, Some(1 << 30)), false)),
                told(lacks(None, None, asks(1, 1, None), false)),
                told(takes("gpu", 25)),
            ]
            .join("\n"),
            @r"
        Slurm has no partition `gpus`; it has cpu, gpu. `flow hw --on slurm` shows them all
        no node of Slurm's partition `gpu` has GPUs of type `v100`: it has a100, h100. set one of them as `gpu_type`, or choose another partition
        it is measured, and Slurm's partition `gpu` has GPUs of several types: a100, h100. choose one: `slurm: {gpu_type: a100}`
        no node of Slurm's partition `gpu` has 8 GPUs of type a100 and 1 CPU: the largest have 4 GPUs, 32 CPUs and 244.1 GiB. request less, or choose another partition: `slurm: {partition: …}`
        no node of Slurm's partition `cpu` has 65 CPUs and 1.0 GiB: the largest have 0 GPUs, 64 CPUs and 488.3 GiB. request less, or choose another partition: `slurm: {partition: …}`
        no node of Slurm's partition `cpu` has 1 GPU and 1 CPU: the largest have 0 GPUs, 64 CPUs and 488.3 GiB. request less, or choose another partition: `slurm: {partition: …}`
        Slurm's partition `gpu` gives a job at most 24h, not 25h. a training with checkpoints can use a shorter `time` and resume in another job; or choose another partition: `slurm: {partition: …}`
        "
        );
    }

    #[test]
    fn what_asks_for_no_time_has_the_default_of_its_partition() {
        let told = "\
            main*|c1|idle|0/64/0/64|500000|0|(null)|gpu:0|infinite|up|n/a\n\
            day|c1|idle|0/64/0/64|500000|0|(null)|gpu:0|1-00:00:00|up|n/a\n\
            short|c1|idle|0/64/0/64|500000|0|(null)|gpu:0|1-00:00:00|up|10:00\n";
        let nodes = flow_slurm::parse_nodes(told).unwrap();
        let cluster = Cluster { node: Machine::default(), nodes, nodes_text: told.to_owned() };
        let default_time = |partition: Option<&str>, options: &[&str]| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let job = SlurmJob { partition: partition.map(str::to_owned), options, ..SlurmJob::default() };
            cluster.default_time(&job).map(|limit| limit.as_secs() / 60)
        };
        assert_eq!(
            [None, Some("day"), Some("short"), Some("day,short")].map(|of| default_time(of, &[])),
            [None, Some(1440), Some(10), None]
        );
        assert_eq!(default_time(Some("day"), &["--qos=short"]), None);
    }

    #[test]
    fn a_plan_is_for_the_largest_node_of_the_partition() {
        assert_eq!(of(None, None), Ok((0, 64, String::new())), "the default partition");
        assert_eq!(of(Some("gpu"), None), Ok((8, 96, "h100".to_owned())));
        assert_eq!(of(Some("gpu"), Some("a100")), Ok((4, 32, "a100".to_owned())));
        assert_eq!(of(Some("gpus"), None), Err("partition: Slurm has no partition `gpus`; it has cpu, gpu".to_owned()));
        let none = "gpu_type: no node of Slurm's partition `gpu` has GPUs of type `v100`: it has a100, h100";
        assert_eq!(of(Some("gpu"), Some("v100")), Err(none.to_owned()));
    }
}
