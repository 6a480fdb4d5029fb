//! Runs on a real Slurm whose nodes are all on this machine: what a step means there is what it means here, and whatever dies meanwhile,
//! no step is done twice and no job is left.

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use flow_testkit::{
    TestSpace,
    slurm::{CONTROLLER, Cluster},
    until,
};
use nix::sys::signal::Signal;

use crate::space;

/// Says in the workspace, outside of the attempt, that a step began and that it did all its work.
const COUNT: &str = "echo $1 >> $HOME/began; sleep $2; echo $1 > out.txt; echo $1 >> $HOME/did\n";

fn on(cluster: &Cluster, workflow: &str) -> TestSpace {
    let mut space = space();
    space.on(cluster);
    space.write("w.yaml", workflow).write("count.sh", COUNT);
    space
}

/// How often each line stands in a file.
fn lines(space: &TestSpace, file: &str) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for line in fs::read_to_string(space.path(file)).unwrap_or_default().lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// What waits or runs.
fn queue(cluster: &Cluster) -> String {
    cluster.run("squeue", ["--noheader", "--array", "--format=%j %T"])
}

fn results(space: &TestSpace) -> BTreeMap<String, serde_json::Value> {
    let recorded = space.journal().into_iter().filter(|line| line["event"] == "recorded");
    recorded
        .map(|line| (line["result"]["label"].as_str().unwrap_or_default().to_owned(), line["result"].clone()))
        .collect()
}

#[test]
fn a_step_means_the_same_on_slurm_as_here() {
    let cluster = Cluster::start(2, 2);
    let space = on(
        &cluster,
        "\
flow: 1
name: w
on: slurm
slurm: {poll: 1s}
steps:
  train:
    matrix: {n: [1, 2]}
    gpus: 2
    run: sh train.sh ${{ n }}
    inputs: [train.sh]
    outputs: [out.txt]
    metrics: {stdout: 'Epoch {epoch} loss {loss}'}
  none: {run: 'echo \"gpus [$CUDA_VISIBLE_DEVICES]\" > out.txt', outputs: [out.txt]}
  here: {on: local, run: 'echo \"node [$SLURMD_NODENAME]\" > out.txt', outputs: [out.txt]}
  all: {run: cat in/train/0 in/train/1 in/none in/here > out.txt, env: {A: \"${{ steps.train | map(attribute='out') | join(' ') }} ${{ steps.none.out }} ${{ steps.here.out }}\"}, outputs: [out.txt]}
",
    );
    space.write(
        "train.sh",
        "echo Epoch 1 loss 0.5; sleep 1; echo Epoch 2 loss 0.25; echo \"$1 gpus [$CUDA_VISIBLE_DEVICES]\" > out.txt\n",
    );
    space.flow(["run", "w.yaml"]).expect(0);
    let results = results(&space);
    let train = &results["train[n=1]"];
    assert_eq!(train["metrics"]["loss"]["value"], 0.25, "{train}");
    let epoch = train["metrics"]["epoch_time"]["value"].as_f64().unwrap();
    assert!((0.8..2.0).contains(&epoch), "by the node's looks, not by the engine's: {epoch}");
    assert_eq!(train["circumstances"]["gpu_models"], serde_json::json!(["fake", "fake"]), "{train}");
    assert!(train["circumstances"]["facts"]["node"].as_str().is_some_and(|node| node.starts_with("node")), "{train}");
    let out = space.path("out.txt");
    space.flow(["get", "all", "--to", out.to_str().unwrap()]).expect(0);
    let said = space.read("out.txt");
    assert_eq!(said, "1 gpus [0,1]\n2 gpus [0,1]\ngpus []\nnode []\n");
    assert_eq!(queue(&cluster), "");
    assert!(space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
}

#[test]
fn a_failure_is_the_steps_own_and_an_impossible_request_is_said() {
    let cluster = Cluster::start(1, 1);
    let space = on(
        &cluster,
        "\
flow: 1
name: w
on: slurm
slurm: {poll: 1s}
steps:
  three: {run: 'echo why; exit 3'}
  segv: {run: 'kill -SEGV $$'}
  late: {run: sleep 60, timeout: 1s}
  large: {run: 'true', gpus: 1, slurm: {gpu_type: h100}}
  hungry: {run: 'x=$(yes | head -c 300m); sleep 20; echo done', memory: 100MiB}
  wrong: {run: 'true', slurm: {partition: nowhere}}
",
    );
    let text = space.flow(["run", "w.yaml", "-k"]).expect(1).text();
    for said in [
        "three: ended with exit code 3: why",
        "segv: was ended by SIGSEGV",
        "late: it ran longer than its timeout of",
        "large: Slurm refuses its job",
        "wrong: Slurm refuses its job: invalid partition specified: nowhere",
        "hungry: job ",
        "took more memory than it has from Slurm",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
    assert_eq!(queue(&cluster), "");
}

#[test]
fn a_group_is_one_job_with_its_barrier() {
    let cluster = Cluster::start(2, 2);
    let space = on(
        &cluster,
        "\
flow: 1
name: w
on: slurm
slurm: {poll: 1s}
steps:
  pair:
    matrix: {n: [1, 2]}
    gpus: 1
    corun: {group: all}
    run: 'sleep ${{ n }}; flow ready && date +%s > out.txt; echo \"$SLURM_JOB_ID [$CUDA_VISIBLE_DEVICES]\" >> out.txt; sleep 1'
    outputs: [out.txt]
",
    );
    space.flow(["run", "w.yaml"]).expect(0);
    let results = results(&space);
    let of = |label: &str| {
        let out = space.path("out.txt");
        space.flow(["get", label, "--to", out.to_str().unwrap()]).expect(0);
        let text = space.read("out.txt");
        fs::remove_file(out).unwrap();
        let (time, job) = text.trim().split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        (time.parse::<i64>().unwrap(), job)
    };
    let (first, second) = (of("pair[n=1]"), of("pair[n=2]"));
    assert!((first.0 - second.0).abs() <= 1, "released together: {first:?} {second:?}");
    assert_eq!(first.1.split_once(' ').unwrap().0, second.1.split_once(' ').unwrap().0, "one job");
    assert_ne!(first.1, second.1, "each has a GPU of its own");
    assert_eq!(results["pair[n=1]"]["circumstances"]["corunners"], serde_json::json!(["pair[n=2]"]));
}

#[test]
fn a_secret_is_on_no_disk_when_its_step_has_begun() {
    let cluster = Cluster::start(1, 0);
    let mut space = on(
        &cluster,
        "\
flow: 1
name: w
on: slurm
slurm: {poll: 1s}
steps:
  asks: {run: 'echo it is $TOKEN; sleep 1', secrets: [TOKEN]}
",
    );
    space.env("TOKEN", "correct-horse-battery");
    space.flow(["run", "w.yaml"]).expect(0);
    assert!(space.flow(["logs", "asks"]).expect(0).stdout().contains("it is ***"));
    for folder in [space.path("."), cluster.folder().to_owned()] {
        for file in flow_testkit::files_below(&folder) {
            let bytes = fs::read(&file).unwrap_or_default();
            let told = bytes.windows(21).any(|part| part == b"correct-horse-battery");
            assert!(!told, "{}", file.display());
        }
    }
}

#[test]
fn what_is_cancelled_leaves_no_job() {
    let cluster = Cluster::start(1, 1);
    let space = on(&cluster, &sweep(4, 60, "gpus: 1"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("one runs and three wait", || queue(&cluster).lines().count() == 4 && !lines(&space, "began").is_empty());
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.said());
    until("no job is left", || queue(&cluster).is_empty());
    assert!(!space.journal().iter().any(|line| line["event"] == "recorded"));
}

#[test]
fn with_its_controller_down_a_run_ends_and_leaves_its_jobs_to_the_next() {
    let cluster = Cluster::start(1, 1);
    let space = on(&cluster, &sweep(3, 5, "gpus: 1"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("one runs and two wait", || queue(&cluster).lines().count() == 3 && !lines(&space, "began").is_empty());
    cluster.stop(CONTROLLER);
    flow.signal(Signal::SIGINT);
    let told = Instant::now();
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.said());
    assert!(told.elapsed() < Duration::from_secs(20), "{:?}", told.elapsed());
    assert!(flow.said().contains("2 jobs stay in Slurm's queue: the next `flow run` finds them"), "{}", flow.said());
    cluster.start_again(CONTROLLER);
    let text = space.flow(["run", "w.yaml"]).expect(0).text();
    let once = (0..3).map(|n| (n.to_string(), 1)).collect::<BTreeMap<_, _>>();
    assert_eq!(lines(&space, "did"), once, "{text}");
    assert_eq!(lines(&space, "began").values().sum::<u32>(), 4, "the one that ran was ended, and no other: {text}");
    assert_eq!(queue(&cluster), "");
}

#[test]
fn an_array_begins_in_the_schedulers_order() {
    let cluster = Cluster::start(1, 1);
    let space = on(&cluster, &sweep(12, 0, "gpus: 1"));
    let text = space.flow(["run", "w.yaml"]).expect(0).text();
    let began: Vec<String> = space.read("began").lines().map(str::to_owned).collect();
    assert_eq!(began, (0..12).map(|n| n.to_string()).collect::<Vec<_>>(), "{text}");
}

/// So many instances, each of which takes so many seconds.
fn sweep(instances: u32, seconds: u32, keys: &str) -> String {
    let keys = if keys.is_empty() { String::new() } else { format!("    {keys}\n") };
    format!(
        "flow: 1\nname: w\non: slurm\nslurm: {{poll: 1s}}\nsteps:\n  count:\n    matrix: {{n: \"${{{{ range({instances}) }}}}\"}}\n\
         {keys}    run: sh count.sh ${{{{ n }}}} {seconds}\n    inputs: [count.sh]\n    outputs: [out.txt]\n"
    )
}

#[test]
fn a_killed_engine_finds_its_jobs_again_and_submits_none_twice() {
    let cluster = Cluster::start(2, 2);
    for after in [300, 700, 1200, 2000, 3000, 4500] {
        let space = on(&cluster, &sweep(6, 2, "gpus: 1"));
        let mut flow = space.start(["run", "w.yaml"]);
        thread::sleep(Duration::from_millis(after));
        flow.kill();
        let text = space.flow(["run", "w.yaml"]).expect(0).text();
        let once = (0..6).map(|n| (n.to_string(), 1)).collect::<BTreeMap<_, _>>();
        assert_eq!(
            (lines(&space, "began"), lines(&space, "did")),
            (once.clone(), once),
            "killed after {after} ms\n{text}"
        );
        assert_eq!(queue(&cluster), "", "killed after {after} ms");
        let intents = flow_testkit::files_below(&space.path(".flow/runs"));
        let left: Vec<_> = intents.iter().filter(|path| path.to_string_lossy().contains("/jobs/")).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
    }
}

#[test]
fn what_a_run_in_the_background_leaves_can_be_cancelled_or_joined() {
    let cluster = Cluster::start(1, 2);
    let space = on(&cluster, &sweep(2, 3, "gpus: 1"));
    space.flow(["run", "w.yaml", "--detach"]).expect(0);
    until("both run", || lines(&space, "began").len() == 2);
    let run = space.flow(["runs", "--json"]).expect(0).stdout();
    let run: serde_json::Value =
        run.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let pid = space.journal()[0]["pid"].as_i64().unwrap_or_else(|| panic!("{run}"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), Signal::SIGTERM).unwrap();
    let text = space.flow(["run", "w.yaml"]).expect(0).text();
    let once = (0..2).map(|n| (n.to_string(), 1)).collect::<BTreeMap<_, _>>();
    assert_eq!(lines(&space, "did"), once, "{text}");

    let space = on(&cluster, &sweep(2, 60, "gpus: 1"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("both run", || lines(&space, "began").len() == 2);
    flow.kill();
    let run = fs::read_dir(space.path(".flow/runs")).unwrap().next().unwrap().unwrap().file_name();
    space.flow(["cancel", run.to_str().unwrap()]).expect(0);
    until("no job is left", || queue(&cluster).is_empty());
}

#[test]
fn a_lost_node_costs_no_retry_and_a_dead_controller_nothing() {
    let cluster = Cluster::start(2, 1);
    let space = on(&cluster, &sweep(1, 5, "gpus: 1"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("it runs", || !lines(&space, "began").is_empty());
    let node = cluster.run("squeue", ["--noheader", "--format=%N"]);
    cluster.run("scontrol", ["update", &format!("nodename={}", node.trim()), "state=down", "reason=test"]);
    until("it runs again", || lines(&space, "began").values().sum::<u32>() == 2);
    cluster.kill(CONTROLLER);
    thread::sleep(Duration::from_secs(2));
    cluster.start_again(CONTROLLER);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.said());
    let text = flow.said();
    assert!(text.contains("was lost under job"), "{text}");
    until("no job is left", || queue(&cluster).is_empty());
}

#[test]
fn what_somebody_else_cancels_has_failed() {
    let cluster = Cluster::start(1, 1);
    let space = on(&cluster, &sweep(1, 60, ""));
    let mut flow = space.start(["run", "w.yaml"]);
    until("it runs", || !lines(&space, "began").is_empty());
    cluster.run("scancel", ["--name", queue(&cluster).split(' ').next().unwrap()]);
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.said());
    assert!(flow.said().contains("was cancelled in Slurm, and not by flow"), "{}", flow.said());
}

#[test]
fn what_nodes_cannot_see_is_refused_before_anything_runs() {
    let cluster = Cluster::start(1, 0);
    let space = on(&cluster, "");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("data"), "x").unwrap();
    let data = outside.path().join("data").display().to_string();
    let workflow = |slurm: &str| {
        format!("flow: 1\nname: w\nslurm: {{{slurm}}}\nsteps: {{a: {{run: cat data, inputs: [\"{data}\"]}}}}\n")
    };
    space.write("w.yaml", &workflow("shared: ."));
    let text = space.flow(["plan", "w.yaml", "--on", "slurm"]).expect(2).text();
    assert!(text.contains("is outside of the folder that Slurm's nodes see"), "{text}");
    space.write("w.yaml", &workflow("shared: /, options: [--job-name=mine]"));
    let text = space.flow(["run", "w.yaml", "--on", "slurm"]).expect(2).text();
    assert!(text.contains("`--job-name=mine` is what flow itself tells `sbatch`"), "{text}");
    space.flow(["run", "w.yaml"]).expect(0);
}

#[test]
fn what_a_controller_forgets_is_done_once_all_the_same() {
    let cluster = Cluster::start(1, 2);
    let space = on(&cluster, &sweep(2, 4, "gpus: 1"));
    let mut flow = space.start(["run", "w.yaml"]);
    // It has told nobody of them yet, and forgets them.
    until("both are asked for", || queue(&cluster).lines().count() == 2);
    cluster.kill(CONTROLLER);
    thread::sleep(Duration::from_secs(1));
    cluster.start_again(CONTROLLER);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.said());
    let once = (0..2).map(|n| (n.to_string(), 1)).collect::<BTreeMap<_, _>>();
    assert_eq!(lines(&space, "did"), once, "{}", flow.said());
    until("no job is left", || queue(&cluster).is_empty());
}

#[test]
fn a_node_whose_daemon_dies_does_what_it_does() {
    let cluster = Cluster::start(1, 1);
    let space = on(&cluster, &sweep(1, 4, "gpus: 1"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("it runs", || !lines(&space, "began").is_empty());
    cluster.kill("node1");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.said());
    assert_eq!(lines(&space, "began"), BTreeMap::from([("0".to_owned(), 1)]));
    cluster.start_again("node1");
}

#[test]
fn what_slurm_has_no_room_for_waits() {
    let cluster = Cluster::start_with(1, 0, "MaxJobCount=4\nMinJobAge=2");
    let space = on(&cluster, &sweep(8, 1, ""));
    let text = space.flow(["run", "w.yaml"]).expect(0).text();
    let once = (0..8).map(|n| (n.to_string(), 1)).collect::<BTreeMap<_, _>>();
    assert_eq!((lines(&space, "began"), lines(&space, "did")), (once.clone(), once), "{text}");
}
