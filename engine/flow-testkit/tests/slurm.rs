//! The throw-away Slurm does what one of a lab does, and what flow asks of it and reads from it is what it understands and says.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use flow_slurm::{
    CONFIG, End, Fate, JobId, Limits, NODES, Never, QUEUE, Row, Why, array_script, fate, manifest, parse_config,
    parse_nodes, parse_queue, parse_submitted, refused, sbatch, scancel, script, told_in_log,
};
use flow_testkit::{
    slurm::{CONTROLLER, Cluster, FOUR_SECONDS},
    until,
};

/// A `flow` that does in the attempt's folder what the file `do` there says.
const FLOW: &str = "#!/bin/sh\n[ \"$1\" = __node ] && [ \"$2\" = \"$(pwd -P)\" ] || exit 64\n. ./do\n";

/// A folder for an attempt below the cluster's, with its script.
fn job(cluster: &Cluster, name: &str, what: &str) -> flow_slurm::Job {
    let folder = cluster.folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    let flow = cluster.folder().join("flow");
    write_program(&flow, FLOW);
    fs::write(folder.join("do"), what).unwrap();
    let path = folder.to_str().unwrap().to_owned();
    write_program(&folder.join("slurm.sh"), &script(flow.to_str().unwrap(), &path));
    flow_slurm::Job {
        key: format!("flow-{name}"),
        script: format!("{path}/slurm.sh"),
        folder: path,
        cpus: 1,
        ..flow_slurm::Job::default()
    }
}

fn write_program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn submit(cluster: &Cluster, job: &flow_slurm::Job) -> JobId {
    let args = sbatch(job);
    parse_submitted(&cluster.run("sbatch", args.iter().map(String::as_str))).unwrap()
}

fn queue(cluster: &Cluster) -> BTreeMap<JobId, Row> {
    let rows = parse_queue(&cluster.run("squeue", QUEUE.iter().copied())).unwrap();
    rows.into_iter().map(|row| (row.id, row)).collect()
}

#[track_caller]
fn becomes(cluster: &Cluster, id: JobId, expected: Fate) {
    let mut last = None;
    until(&format!("job {id} is {expected:?}"), || {
        last = queue(cluster).remove(&id);
        let now = last.as_ref().map(fate);
        // Whatever ends ends once.
        assert!(!matches!(now, Some(Fate::Ended(_))) || now == Some(expected), "{last:?}");
        now == Some(expected)
    });
}

fn log(cluster: &Cluster, name: &str) -> String {
    fs::read_to_string(cluster.folder().join(name).join("slurm.log")).unwrap_or_default()
}

#[test]
#[ignore = "needs Slurm"]
fn each_case_is_told_apart() {
    let cluster = Cluster::start(2, 2);
    let strange =
        job(&cluster, "it's 100% \"fine\" $HOME", "pwd -P\necho $CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK\n");
    let strange = flow_slurm::Job {
        gpus: 2,
        gpu_type: Some("fake".to_owned()),
        cpus: 3,
        comment: "a|b\nc".to_owned(),
        memory: Some(200 << 20),
        time: Some(Duration::from_secs(90)),
        partition: Some("main".to_owned()),
        key: "flow-strange".to_owned(),
        ..strange
    };
    let fine = submit(&cluster, &strange);
    let failed = submit(&cluster, &job(&cluster, "failed", "exit 3\n"));
    let killed = submit(&cluster, &job(&cluster, "killed", "kill -9 $$\n"));
    let mut gone = job(&cluster, "gone", "");
    gone.folder += "/absent";
    let gone = submit(&cluster, &gone);
    let memory = job(&cluster, "memory", "(head -c 200m /dev/zero; sleep 1000) | tail -c 200m\n");
    let memory = submit(&cluster, &flow_slurm::Job { memory: Some(20 << 20), ..memory });
    let never = flow_slurm::Job { cpus: 99, ..job(&cluster, "never", "") };
    let never = cluster.command("sbatch").args(sbatch(&never)).output().unwrap();
    let held = flow_slurm::Job { options: vec!["--hold".to_owned()], ..job(&cluster, "held", "") };
    let held = submit(&cluster, &held);
    let cancelled = submit(&cluster, &job(&cluster, "cancelled", "exec sleep 1000\n"));
    let lost =
        flow_slurm::Job { options: vec!["--nodelist=node2".to_owned()], ..job(&cluster, "lost", "exec sleep 1000\n") };
    let lost = submit(&cluster, &lost);
    let foreign = cluster.run("sbatch", ["--parsable", "--job-name=a|b|c", "--comment=x\ny", "--hold", "--wrap=true"]);

    becomes(&cluster, cancelled, Fate::Running);
    cluster.run("scancel", ["--name=flow-cancelled"]);
    becomes(&cluster, lost, Fate::Running);
    cluster.run("scontrol", ["update", "nodename=node2", "state=down", "reason=test"]);
    becomes(&cluster, fine, Fate::Ended(End::Completed));
    let folder = &strange.folder;
    let said = fs::read_to_string(format!("{folder}/slurm.log")).unwrap();
    assert_eq!(said, format!("{folder}\n0,1 3\n"));
    becomes(&cluster, failed, Fate::Ended(End::Failed(3)));
    becomes(&cluster, killed, Fate::Ended(End::Signal(9)));
    // From 24.05 on the folder of a job's output is made, and with it where the job works.
    let made = cluster.folder().join("gone/absent/slurm.log").exists();
    becomes(&cluster, gone, Fate::Ended(if made { End::Completed } else { End::Launch }));
    becomes(&cluster, memory, Fate::Ended(End::Signal(9)));
    assert_eq!(told_in_log(&log(&cluster, "memory")), Some(End::Memory));
    // Old releases take what no node can give, and let it wait.
    match never.status.success() {
        true => {
            let id = parse_submitted(&String::from_utf8_lossy(&never.stdout)).unwrap();
            becomes(&cluster, id, Fate::Never(Never::Partition));
        }
        false => {
            let told = refused(&String::from_utf8_lossy(&never.stderr), never.status.code());
            assert_eq!(told.why, Why::Impossible, "{told:?}");
        }
    }
    becomes(&cluster, held, Fate::Held);
    becomes(&cluster, cancelled, Fate::Ended(End::Cancelled));
    becomes(&cluster, lost, Fate::Ended(End::NodeLost));
    assert_eq!(told_in_log(&log(&cluster, "lost")), Some(End::NodeLost));
    let foreign = JobId { job: foreign.trim().parse().unwrap(), task: None };
    assert!(!queue(&cluster).contains_key(&foreign));
}

#[test]
#[ignore = "needs Slurm"]
fn refusals_are_told_apart() {
    let cluster = Cluster::start_with(1, 1, FOUR_SECONDS);
    let why = |job: flow_slurm::Job| {
        let output = cluster.command("sbatch").args(sbatch(&job)).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        refused(&String::from_utf8_lossy(&output.stderr), output.status.code()).why
    };
    let plain = job(&cluster, "plain", "");
    assert_eq!(why(flow_slurm::Job { gpus: 9, ..plain.clone() }), Why::Impossible);
    assert_eq!(why(flow_slurm::Job { gpus: 1, gpu_type: Some("h100".to_owned()), ..plain.clone() }), Why::Impossible);
    assert_eq!(why(flow_slurm::Job { memory: Some(1 << 50), ..plain.clone() }), Why::Impossible);
    assert_eq!(why(flow_slurm::Job { partition: Some("nosuch".to_owned()), ..plain.clone() }), Why::NotAllowed);
    assert_eq!(why(flow_slurm::Job { array: Some(1002), ..plain.clone() }), Why::Array);
    assert_eq!(why(flow_slurm::Job { options: vec!["--nosuch".to_owned()], ..plain.clone() }), Why::Usage);
    cluster.kill(CONTROLLER);
    assert_eq!(why(plain), Why::Unreachable);
}

#[test]
#[ignore = "needs Slurm"]
fn tasks_of_an_array_find_their_folders() {
    let cluster = Cluster::start(2, 0);
    let flow = cluster.folder().join("flow");
    let names: Vec<String> = (0..5).map(|at| format!("attempt {at}")).collect();
    let jobs: Vec<_> = names.iter().enumerate().map(|(at, name)| job(&cluster, name, &format!("exit {at}"))).collect();
    let array = flow_slurm::Job { array: Some(5), ..job(&cluster, "array", "") };
    let list = cluster.folder().join("array/manifest");
    fs::write(&list, manifest(jobs.iter().map(|job| job.folder.as_str()))).unwrap();
    write_program(Path::new(&array.script), &array_script(flow.to_str().unwrap(), list.to_str().unwrap()));
    let id = submit(&cluster, &array);
    for task in 0..5 {
        let end = if task == 0 { End::Completed } else { End::Failed(task) };
        becomes(&cluster, JobId { task: Some(task.into()), ..id }, Fate::Ended(end));
    }
}

#[test]
#[ignore = "needs Slurm"]
fn of_an_array_that_waits_only_those_tasks_end_that_are_named() {
    let cluster = Cluster::start(1, 0);
    cluster.run("scontrol", ["update", "nodename=node1", "state=drain", "reason=test"]);
    let array = |name: &str| submit(&cluster, &flow_slurm::Job { array: Some(6), ..job(&cluster, name, "") });
    let (some, all) = (array("some"), array("all"));
    let waits = || queue(&cluster).into_values().filter(|row| fate(row) == Fate::Waiting).collect::<Vec<Row>>();
    let wanted = |row: &Row| row.id.job == all.job || [0, 1, 4].map(Some).contains(&row.id.task);
    for call in scancel(&waits(), wanted) {
        cluster.run("scancel", call.iter().map(String::as_str));
    }
    let left: Vec<JobId> = waits().iter().map(|row| row.id).collect();
    assert_eq!(left, [2, 3, 5].map(|task| JobId { task: Some(task), ..some }));
}

#[test]
#[ignore = "needs Slurm"]
fn nodes_and_limits_are_as_configured() {
    let cluster = Cluster::start_with(3, 2, "MaxArraySize=77\nMinJobAge=5");
    let limits = parse_config(&cluster.run("scontrol", CONFIG.iter().copied())).unwrap();
    let expected = Limits { array: 77, jobs: 10_000, remembered: Some(Duration::from_secs(5)) };
    assert_eq!(limits, expected);
    let busy = flow_slurm::Job { gpus: 1, exclusive: true, ..job(&cluster, "busy", "exec sleep 1000\n") };
    let busy = submit(&cluster, &busy);
    becomes(&cluster, busy, Fate::Running);
    cluster.run("scontrol", ["update", "nodename=node3", "state=drain", "reason=test"]);
    let nodes = parse_nodes(&cluster.run("sinfo", NODES.iter().copied())).unwrap();
    let shown: Vec<String> = nodes
        .iter()
        .map(|n| {
            let gpus: Vec<String> = n
                .gpus
                .iter()
                .map(|g| format!("{}/{} {}", g.used, g.count, g.model.as_deref().unwrap_or("?")))
                .collect();
            let cpus = format!("{}/{}", n.cpus_free, n.cpus);
            format!("{}{} {} {cpus} {}", n.partition, if n.is_default { "*" } else { "" }, n.name, gpus.join(" "))
                + if n.takes_jobs() { "" } else { " takes no jobs" }
        })
        .collect();
    let expected = ["main* node1 0/8 2/2 fake", "main* node2 8/8 0/2 fake", "main* node3 0/8 0/2 fake takes no jobs"];
    assert_eq!(shown, expected);
}

#[test]
#[ignore = "needs Slurm"]
fn a_job_outlives_its_controller_and_its_node_s_daemon() {
    let cluster = Cluster::start_with(1, 1, FOUR_SECONDS);
    let waits = job(&cluster, "waits", "touch begun; while [ ! -e go ]; do sleep 0.1; done\n");
    let folder = waits.folder.clone();
    let id = submit(&cluster, &waits);
    until("it has begun", || Path::new(&folder).join("begun").exists());
    // What was submitted in the two seconds before a crash may be forgotten: what is written down is not.
    cluster.stop(CONTROLLER);
    cluster.start_again(CONTROLLER);
    cluster.kill(CONTROLLER);
    let output = cluster.command("squeue").args(QUEUE).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    cluster.start_again(CONTROLLER);
    becomes(&cluster, id, Fate::Running);
    cluster.kill("node1");
    fs::write(Path::new(&folder).join("go"), "").unwrap();
    cluster.start_again("node1");
    becomes(&cluster, id, Fate::Ended(End::Completed));
}

#[test]
#[ignore = "needs Slurm"]
fn nothing_is_left_of_it() {
    let cluster = Cluster::start(1, 0);
    let stays = job(&cluster, "stays", "(setsid sleep 1000 &) ; sleep 1000\n");
    let id = submit(&cluster, &stays);
    becomes(&cluster, id, Fate::Running);
    let name = cluster.folder().to_str().unwrap().to_owned();
    drop(cluster);
    // Who watches over the test's own process looks once a second.
    until("nothing of it is alive", || {
        let mut processes = fs::read_dir("/proc").unwrap().flatten();
        !processes.any(|entry| {
            let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&[read("cmdline"), read("environ")].concat()).contains(&name)
        })
    });
}
