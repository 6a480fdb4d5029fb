//! The nodes and GPUs of a cluster's partitions, and how many are free.

use std::time::Duration;

use crate::ParseError;

/// The arguments of `sinfo`: one line a node and partition.
pub const NODES: &[&str] = &[
    "--noheader",
    "--Node",
    "--Format=Partition:|,NodeList:|,StateLong:|,CPUsState:|,Memory:|,AllocMem:|,Gres:|,GresUsed:|,Time:|,Available:|,DefaultTime:",
];

/// A node in one partition. A node in two partitions is listed twice.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Node {
    pub partition: String,
    /// Jobs that name no partition come here.
    pub is_default: bool,
    pub name: String,
    /// Slurm's word, `mixed`, `drained*`.
    pub state: String,
    /// State of the partition: `up`, `down` (jobs wait), `drain` and `inact` (jobs are refused).
    pub partition_state: String,
    pub cpus: u32,
    pub cpus_free: u32,
    /// In bytes.
    pub memory: u64,
    pub memory_free: u64,
    pub gpus: Vec<Gpus>,
    /// The partition's time limit for jobs, if it has one.
    #[serde(serialize_with = "in_seconds", skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Duration>,
    /// The limit of a job that asks for no time. `None` means the partition's limit.
    #[serde(serialize_with = "in_seconds", skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Duration>,
}

/// GPUs of one type on a node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Gpus {
    /// The type, as in `--gres`. `None` if the cluster does not distinguish types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub count: u32,
    pub used: u32,
}

fn in_seconds<S: serde::Serializer>(limit: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&limit.map(|limit| limit.as_secs()), to)
}

impl Node {
    /// Jobs of its partition are started on it, now or when others have ended.
    pub fn takes_jobs(&self) -> bool {
        self.partition_state == "up" && self.is_up()
    }

    /// It runs, or Slurm can wake it. False if it is down, drained or not responding.
    pub fn is_up(&self) -> bool {
        let flags = ['*', '~', '#', '!', '%', '$', '@', '^', '-', '+'];
        let state = self.state.trim_end_matches(flags);
        let flags = &self.state[state.len()..];
        let up = ["idle", "mixed", "allocated", "completing", "allocated+", "planned", "powered_down", "powering_up"];
        up.contains(&state) && !flags.contains(['*', '$', '!', '%', '@', '^'])
    }
}

/// Reads what [`NODES`] printed.
///
/// # Errors
/// A line has another form.
pub fn parse_nodes(text: &str) -> Result<Vec<Node>, ParseError> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let bad = |line| {
        move || ParseError::new("sinfo", "PARTITION|NODE|STATE|CPUS|MEMORY|USED|GRES|USED|TIME|UP|DEFAULT", line)
    };
    lines.map(|line| node(line).ok_or_else(bad(line))).collect()
}

fn node(line: &str) -> Option<Node> {
    let fields: [&str; 11] = line.split('|').collect::<Vec<_>>().try_into().ok()?;
    let [partition, name, state, cpus, memory, used, gres, gres_used, time, up, default_time] = fields.map(str::trim);
    // Allocated, idle, other (of a node that takes no jobs), all.
    let cpus: [u32; 4] = cpus.split('/').map(|n| n.parse().ok()).collect::<Option<Vec<_>>>()?.try_into().ok()?;
    let mebibytes = |text: &str| text.trim_end_matches('+').parse::<u64>().ok()?.checked_mul(1 << 20);
    let (memory, used) = (mebibytes(memory)?, mebibytes(used)?);
    let busy = gpus(gres_used)?;
    let mut gpus = gpus(gres)?;
    for kind in &mut gpus {
        kind.used = busy.iter().find(|b| b.model == kind.model).map_or(0, |b| b.count);
    }
    Some(Node {
        partition: partition.trim_end_matches('*').to_owned(),
        is_default: partition.ends_with('*'),
        name: name.to_owned(),
        state: state.to_owned(),
        partition_state: up.to_owned(),
        cpus: cpus[3],
        cpus_free: cpus[1],
        memory,
        memory_free: memory.saturating_sub(used),
        gpus,
        time_limit: time_limit(time)?,
        default_time: time_limit(default_time).flatten(),
    })
}

/// `gpu:h100:8(S:0-1),gpu:a100:2,shard:16`, or with `(IDX:0-3)` those in use. Types that come several times are one.
fn gpus(text: &str) -> Option<Vec<Gpus>> {
    let mut found: Vec<Gpus> = Vec::new();
    let outside: String = text.split(')').filter_map(|part| part.split('(').next()).collect();
    for kind in outside.split(',') {
        let mut parts = kind.split(':');
        if parts.next() != Some("gpu") {
            continue;
        }
        let (model, count) = match (parts.next(), parts.next(), parts.next()) {
            (Some(count), None, None) => (None, count),
            // Of `(null)`, which stands for no type, nothing is left.
            (Some(model), Some(count), None) => (Some(model.to_owned()).filter(|model| !model.is_empty()), count),
            _ => return None,
        };
        let count = count.parse::<u32>().ok()?;
        match found.iter_mut().find(|gpus| gpus.model == model) {
            Some(gpus) => gpus.count = gpus.count.checked_add(count)?,
            None => found.push(Gpus { model, count, used: 0 }),
        }
    }
    Some(found)
}

/// `infinite`, `30:00`, `12:00:00`, `1-00:00:00`. Outer: whether it is one of these.
fn time_limit(text: &str) -> Option<Option<Duration>> {
    if matches!(text, "infinite" | "UNLIMITED" | "n/a") {
        return Some(None);
    }
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut parts = rest.split(':').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()?;
    if parts.len() == 2 {
        parts.insert(0, 0);
    }
    let [hours, minutes, seconds] = parts[..] else { return None };
    let days = days.parse::<u32>().ok()?;
    let seconds = u64::from(days) * 86_400 + u64::from(hours) * 3_600 + u64::from(minutes) * 60 + u64::from(seconds);
    Some(Some(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_22_05() {
        // As Slurm 22.05.8 and 24.11.5 printed them, with one GPU in use and a drained node.
        let text = "\
            main*|node1|mixed|5/3/0/8|4000|500|gpu:fake:2|gpu:fake:1(IDX:0)|infinite|up|n/a\n\
            main*|node3|drained|0/0/8/8|4000|0|gpu:fake:2|gpu:fake:0(IDX:N/A)|infinite|up|n/a\n";
        let nodes = parse_nodes(text).unwrap();
        let limited =
            parse_nodes("short|node1|idle|0/8/0/8|4000|0|gpu:fake:2|gpu:fake:0(IDX:N/A)|30:00|up|10:00\n").unwrap();
        let limits = [limited[0].time_limit, limited[0].default_time];
        assert_eq!(limits, [30, 10].map(|minutes| Some(Duration::from_secs(minutes * 60))));
        let fake = |used| vec![Gpus { model: Some("fake".to_owned()), count: 2, used }];
        let node1 = Node {
            partition: "main".to_owned(),
            is_default: true,
            name: "node1".to_owned(),
            state: "mixed".to_owned(),
            partition_state: "up".to_owned(),
            cpus: 8,
            cpus_free: 3,
            memory: 4000 << 20,
            memory_free: 3500 << 20,
            gpus: fake(1),
            time_limit: None,
            default_time: None,
        };
        assert_eq!(nodes[0], node1);
        assert_eq!((nodes[1].takes_jobs(), nodes[1].cpus_free, &nodes[1].gpus), (false, 0, &fake(0)));
        assert!(nodes[0].takes_jobs());
    }

    #[test]
    fn nodes_of_larger_clusters() {
        // Not produced here: forms of sinfo's manual and of clusters' public pages.
        let text = "gpu|n1|idle~|0/64/0/64|512000|0|gpu:a100:4(S:0-1),gpu:h100:2(S:2),shard:16|\
            gpu:a100:2(IDX:0,2),gpu:h100:0(IDX:N/A),shard:0|1-12:30:00|up|n/a\n\
            cpu|n2|allocated|64/0/0/64|512000|1024|(null)|gpu:0|30:00|up|n/a\n\
            old|n3|down*|0/0/8/8|1000|0|gpu:2|gpu:(null):1(IDX:0)|12:00:00|up|n/a\n";
        let nodes = parse_nodes(text).unwrap();
        let shown = |node: &Node| {
            let gpu = |g: &Gpus| format!("{}:{}/{}", g.model.as_deref().unwrap_or("-"), g.used, g.count);
            let gpus: Vec<String> = node.gpus.iter().map(gpu).collect();
            format!("{} {} {} {:?}", node.name, node.takes_jobs(), gpus.join(","), node.time_limit)
        };
        assert_eq!(
            nodes.iter().map(shown).collect::<Vec<_>>(),
            ["n1 true a100:2/4,h100:0/2 Some(131400s)", "n2 true  Some(1800s)", "n3 false -:1/2 Some(43200s)",]
        );
    }

    #[test]
    fn a_partition_that_is_down_takes_no_jobs() {
        let text = "old|n1|idle|0/8/0/8|4000|0|(null)|gpu:0|infinite|down|n/a\n\
            new|n1|idle|0/8/0/8|4000|0|(null)|gpu:0|infinite|up|n/a\n";
        let nodes = parse_nodes(text).unwrap();
        let told = nodes.iter().map(|node| (&*node.partition, node.takes_jobs(), node.is_up()));
        assert_eq!(told.collect::<Vec<_>>(), [("old", false, true), ("new", true, true)]);
    }

    #[test]
    fn other_lines_are_said() {
        let told = parse_nodes("main|node1\n").unwrap_err().to_string();
        let form = "PARTITION|NODE|STATE|CPUS|MEMORY|USED|GRES|USED|TIME|UP|DEFAULT";
        assert_eq!(told, format!("sinfo: {form} was expected, not `main|node1`"));
        for odd in [
            "main|n|idle|0/1/0|1|0||gpu:0|infinite|up|n/a",
            "main|n|idle|0/1/0/1|x|0||gpu:0|infinite|up|n/a",
            "main|n|idle|0/1/0/1|1|0|gpu:a:b:c|gpu:0|infinite|up|n/a",
            "main|n|idle|0/1/0/1|1|0||gpu:0|soon|up|n/a",
        ] {
            assert!(parse_nodes(odd).is_err(), "{odd}");
        }
    }
}
