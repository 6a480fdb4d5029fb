//! The arguments of `sbatch` for a job. Does not know what the job does.

use std::time::Duration;

use crate::limits::minutes;

/// More is none to `sbatch`.
const MOST_NICE: u32 = (1 << 31) - 3;

/// Generic resources, GPUs among them.
const GRES: &str = "--gres=";

/// One job, or one array of equal jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The job's name, by which it is found again; begins with [`crate::KEY_PREFIX`].
    pub key: String,
    /// For people who look at the queue.
    pub comment: String,
    /// Its working folder, which also gets `slurm.log`. For an array, the folder of the manifest. See
    /// [`crate::is_usable`].
    pub folder: String,
    pub script: String,
    /// How many GPUs of one node.
    pub gpus: u32,
    /// Their type, as the cluster calls it.
    pub gpu_type: Option<String>,
    pub cpus: u32,
    /// Host memory in bytes; the cluster's default where absent.
    pub memory: Option<u64>,
    /// The time limit; the partition's where absent.
    pub time: Option<Duration>,
    /// How long before the time limit the script's own process gets SIGUSR1. Slurm may be a minute early.
    pub warning: Option<Duration>,
    pub partition: Option<String>,
    pub account: Option<String>,
    /// By how much its priority is lower than it would be. Only who operates the cluster may raise one.
    pub nice: u32,
    /// Nobody else gets the node meanwhile. The job has all GPUs of it then, whatever it asked for.
    pub exclusive: bool,
    /// More of the same form, `--qos=high`; see [`misused`].
    pub options: Vec<String>,
    /// The number of tasks of an array, numbered from 0.
    pub array: Option<u32>,
}

/// The arguments of `sbatch`, the script last.
///
/// The job gets the environment of `sbatch`. If variables were named instead, Slurm would load a login environment on
/// the node. That takes seconds and differs from user to user. So the caller restricts the environment of `sbatch`.
pub fn sbatch(job: &Job) -> Vec<String> {
    let mut args = Vec::new();
    if job.nice > 0 {
        args.push(format!("--nice={}", job.nice.min(MOST_NICE)));
    }
    let gpus = (job.gpus > 0).then(|| {
        let model = job.gpu_type.as_ref().map(|model| format!("{model}:")).unwrap_or_default();
        format!("gpu:{model}{}", job.gpus)
    });
    // Of several `--gres` the last would count alone.
    let own = job.options.iter().filter_map(|option| option.strip_prefix(GRES));
    let gres: Vec<&str> = gpus.as_deref().into_iter().chain(own).collect();
    args.extend(job.options.iter().filter(|option| !option.starts_with(GRES)).cloned());
    // What follows is what the job is to have, and what finds it again and keeps it single: nothing after it can change it.
    args.extend(["--nodes=1".to_owned(), "--ntasks=1".to_owned(), format!("--cpus-per-task={}", job.cpus.max(1))]);
    if let Some(memory) = job.memory {
        // Zero would ask for all of it.
        args.push(format!("--mem={}M", memory.div_ceil(1 << 20).max(1)));
    }
    if !gres.is_empty() {
        args.push(format!("{GRES}{}", gres.join(",")));
    }
    if let Some(time) = job.time {
        // Zero would be no limit.
        args.push(format!("--time={}", minutes(time).max(1)));
    }
    let named = [("partition", &job.partition), ("account", &job.account)];
    args.extend(named.iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?))));
    if job.exclusive {
        args.push("--exclusive".to_owned());
    }
    if let Some(warning) = job.warning {
        args.push(format!("--signal=B:USR1@{}", warning.as_secs().clamp(1, 65535)));
    }
    let mut log = "slurm.log";
    if let Some(tasks) = job.array {
        args.push(format!("--array=0-{}", tasks.saturating_sub(1)));
        log = "slurm-%a.log";
    }
    args.extend(
        ["--parsable", "--no-requeue", "--kill-on-invalid-dep=yes", "--export=ALL", "--open-mode=append"]
            .map(str::to_owned),
    );
    if job.array.is_none() {
        // Two of one name, should it ever come to that, run one after the other.
        args.push("--dependency=singleton".to_owned());
    }
    args.push(format!("--job-name={}", job.key));
    args.push(format!("--comment={}", job.comment.replace(['\n', '\r', '|'], " ")));
    args.push(format!("--chdir={}", job.folder));
    args.push(format!("--output={}/{log}", job.folder.replace('%', "%%")));
    args.push(job.script.clone());
    args
}

/// Why an option is none that a workflow may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionFault {
    /// It does not have the form `--name` or `--name=value`: alone, `sbatch` would take it for something else.
    Form,
    /// flow says this itself, or could not find the job again.
    Flows,
    /// It is said with this key: the option would contradict what flow takes the job to be.
    Key(&'static str),
}

/// Options that flow sets itself, or that it cannot work with.
const FLOWS: &[&str] = &[
    "array",
    "chdir",
    "clusters",
    "comment",
    "dependency",
    "error",
    "export",
    "export-file",
    "get-user-env",
    "gid",
    "help",
    "input",
    "job-name",
    "kill-on-invalid-dep",
    "nodes",
    "no-requeue",
    "ntasks",
    "open-mode",
    "output",
    "parsable",
    "requeue",
    "signal",
    "test-only",
    "uid",
    "usage",
    "version",
    "wait",
    "wrap",
];

/// Options for which flow has a key.
const KEYS: &[(&str, &str)] = &[
    ("partition", "slurm: {partition: …}"),
    ("account", "slurm: {account: …}"),
    ("time", "slurm: {time: …}"),
    ("time-min", "slurm: {time: …}"),
    ("gres", GPUS),
    ("gpus", GPUS),
    ("gpus-per-node", GPUS),
    ("gpus-per-task", GPUS),
    ("gpus-per-socket", GPUS),
    ("tres-per-job", GPUS),
    ("tres-per-node", GPUS),
    ("tres-per-socket", GPUS),
    ("tres-per-task", GPUS),
    ("cpus-per-gpu", "cpus: …"),
    ("cpus-per-task", "cpus: …"),
    ("mincpus", "cpus: …"),
    ("mem", "memory: …"),
    ("mem-per-cpu", "memory: …"),
    ("mem-per-gpu", "memory: …"),
    ("exclusive", "exclusive: true"),
];

const GPUS: &str = "gpus: …, slurm: {gpu_type: …}";

/// Values without a key in flow: all memory of a node, sharing a node with certain jobs, and resources other than GPUs.
fn has_no_key(name: &str, value: &str) -> bool {
    let gpus = |resource: &str| {
        let kind = resource.split([':', '=']).next().unwrap_or_default().trim();
        ["", "gpu", "gres/gpu", "shard", "gres/shard", "mps", "gres/mps", "none"].contains(&kind)
    };
    match name {
        "mem" => value == "0",
        "exclusive" => ["user", "mcs", "topo"].contains(&value),
        "gres" => !value.split(',').any(gpus),
        _ => false,
    }
}

/// The reason why an option cannot be added, if any. `sbatch` accepts unambiguous prefixes of options, so a prefix of a
/// reserved option is reserved too.
pub fn misused(option: &str) -> Option<OptionFault> {
    let Some(body) = option.strip_prefix("--") else { return Some(OptionFault::Form) };
    // Who writes `--partition high` is told of the key as well.
    let (name, value) = body.split_once(['=', ' ']).unwrap_or((body, ""));
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(letters) || option.contains(['\0', '\n']) {
        return Some(OptionFault::Form);
    }
    if FLOWS.iter().any(|flows| flows.starts_with(name)) {
        return Some(OptionFault::Flows);
    }
    let is_single = !body[..body.len() - value.len()].contains(' ');
    match KEYS.iter().find(|(known, _)| known.starts_with(name)) {
        Some((_, key)) if !is_single || !has_no_key(name, value) => Some(OptionFault::Key(key)),
        _ => (!is_single).then_some(OptionFault::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_asks_for_what_it_needs() {
        let job = Job {
            key: "flow-3f2a".to_owned(),
            comment: "flow: solo[batch=16]\nin sweep".to_owned(),
            folder: "/lab/.flow/runs/r/1".to_owned(),
            script: "/lab/.flow/runs/r/1/slurm.sh".to_owned(),
            gpus: 2,
            gpu_type: Some("h100".to_owned()),
            cpus: 8,
            memory: Some((1 << 30) + 1),
            time: Some(Duration::from_secs(90)),
            warning: Some(Duration::from_secs(60)),
            partition: Some("gpu".to_owned()),
            account: Some("lab".to_owned()),
            nice: 7,
            exclusive: true,
            options: vec!["--gres=tmp:9G".to_owned(), "--qos=high".to_owned()],
            array: None,
        };
        let expected = "--nice=7 --qos=high --nodes=1 --ntasks=1 --cpus-per-task=8 --mem=1025M --gres=gpu:h100:2,tmp:9G --time=2 \
            --partition=gpu --account=lab --exclusive --signal=B:USR1@60 --parsable --no-requeue --kill-on-invalid-dep=yes \
            --export=ALL --open-mode=append --dependency=singleton --job-name=flow-3f2a \
            --comment=flow: solo[batch=16] in sweep --chdir=/lab/.flow/runs/r/1 --output=/lab/.flow/runs/r/1/slurm.log \
            /lab/.flow/runs/r/1/slurm.sh";
        assert_eq!(sbatch(&job).join(" "), expected);
    }

    #[test]
    fn what_is_not_asked_for_is_left_to_the_cluster() {
        let job = Job { key: "flow-a".to_owned(), folder: "/a %j".to_owned(), ..Job::default() };
        let args = sbatch(&job);
        for absent in
            ["--mem", "--gres", "--time", "--partition", "--account", "--nice", "--exclusive", "--signal", "--array"]
        {
            assert!(!args.iter().any(|arg| arg.starts_with(absent)), "{absent}: {args:?}");
        }
        // A per cent sign is one in a path, and nothing else.
        assert!(args.contains(&"--output=/a %%j/slurm.log".to_owned()), "{args:?}");
        assert!(args.contains(&"--chdir=/a %j".to_owned()), "{args:?}");
        let zero = Some(Duration::ZERO);
        let least = Job { memory: Some(0), time: zero, warning: zero, nice: u32::MAX, ..job };
        let args = sbatch(&least);
        for least in ["--mem=1M", "--time=1", "--signal=B:USR1@1", "--cpus-per-task=1", "--nice=2147483645"] {
            assert!(args.contains(&least.to_owned()), "{args:?}");
        }
    }

    #[test]
    fn tasks_of_an_array_are_numbered_from_zero() {
        let job = Job { folder: "/slurm.log".to_owned(), array: Some(1001), ..Job::default() };
        let args = sbatch(&job);
        assert!(args.contains(&"--array=0-1000".to_owned()), "{args:?}");
        assert!(args.contains(&"--output=/slurm.log/slurm-%a.log".to_owned()), "{args:?}");
        // All tasks have one name: as singletons they would run one after the other.
        assert!(!args.iter().any(|arg| arg.starts_with("--dependency")), "{args:?}");
    }

    #[test]
    fn an_option_changes_nothing_that_flow_relies_on() {
        for fine in [
            "--qos=high",
            "--constraint=a100&ib",
            "--reservation=x y",
            "--mem=0",
            "--gres=tmp:9G,fpga",
            "--exclusive=user",
        ] {
            assert_eq!(misused(fine), None, "{fine}");
        }
        for form in ["", "-", "--", "-p", "high", "run.sh", "--=x", "--qos high", "--QOS=1", "--qos=a\0", "-J x"] {
            assert_eq!(misused(form), Some(OptionFault::Form), "{form}");
        }
        for flows in
            ["--array=0-9", "--arr=0-9", "--wrap=true", "--output=x", "--job-name=x", "--req", "--dep=singleton"]
        {
            assert_eq!(misused(flows), Some(OptionFault::Flows), "{flows}");
        }
        for flows in ["--uid=root", "--gid=0", "--nodes 2"] {
            assert_eq!(misused(flows), Some(OptionFault::Flows), "{flows}");
        }
    }

    #[test]
    fn what_has_a_key_is_said_with_it() {
        let key = |option: &str| match misused(option) {
            Some(OptionFault::Key(key)) => key,
            other => panic!("{option}: {other:?}"),
        };
        for (options, says) in [
            (&["--partition=high", "--partition high", "--part=high"][..], "slurm: {partition: …}"),
            (&["--account=lab"], "slurm: {account: …}"),
            (&["--time=5", "--time-min=1"], "slurm: {time: …}"),
            (&["--gres=gpu:1", "--gres gpu:1", "--gres=tmp:1,gpu:a100:2", "--gres=shard:1", "--gre=tmp:1"], GPUS),
            (&["--gpus=1", "--gpus-per-node=1", "--gpus-per-task=1", "--gpus-per-socket=1"], GPUS),
            (&["--tres-per-node=gres/gpu:1", "--tres-per-task=cpu:4", "--tres-per-job=gres/gpu:1"], GPUS),
            (&["--cpus-per-task=4", "--cpus-per-gpu=4"], "cpus: …"),
            (&["--mem=4G", "--mem 0", "--mem-per-cpu=1G", "--mem-per-gpu=1G"], "memory: …"),
            (&["--exclusive", "--exclusive="], "exclusive: true"),
        ] {
            options.iter().for_each(|option| assert_eq!(key(option), says, "{option}"));
        }
    }
}
