//! Runs on a real Slurm whose nodes are all on this machine: what a step means there is what it means here, and whatever dies meanwhile,
//! no step is done twice and no job is left.

mod daemons;
mod disk;
mod group_members;
mod killed;
mod limits;
mod outcomes;
mod secrets;
mod types;
mod wrong;

use std::{
    collections::BTreeMap,
    env, fs,
    time::{Duration, Instant},
};

use flow_testkit::{
    TestSpace,
    slurm::{CONTROLLER, Cluster},
    until,
};
use nix::sys::signal::Signal;

use crate::{
    counted::{COUNT, COUNT_ONCE_ON, lines, once, sweep},
    space,
};

/// Before the steps of a workflow.
const HEAD: &str = "flow: 1\nname: w\non: slurm\nslurm: {poll: 1s}\nsteps:";

/// A cluster and a workspace whose `flow` finds it.
struct Lab {
    cluster: Cluster,
    space: TestSpace,
}

impl Lab {
    fn new(nodes: u32, gpus: u32, steps: &str) -> Lab {
        Lab::on(Cluster::start(nodes, gpus), steps)
    }

    fn on(cluster: Cluster, steps: &str) -> Lab {
        let mut space = space();
        space.on(&cluster);
        space.write("w.yaml", &format!("{HEAD}{steps}")).write("count.sh", COUNT);
        Lab { cluster, space }
    }

    /// The same cluster with a workspace of its own.
    fn anew(self, steps: &str) -> Lab {
        Lab::on(self.cluster, steps)
    }

    /// What is run from here on finds this script where it looks for a command of Slurm.
    fn first_on_the_path(&mut self, command: &str, script: &str) {
        self.space.script(format!("bin/{command}"), script);
        let path = format!("{}:{}", self.space.path("bin").display(), env::var("PATH").unwrap_or_default());
        self.space.env("PATH", &path);
    }

    /// How often each line stands in a file of the workspace.
    fn lines(&self, file: &str) -> BTreeMap<String, u32> {
        lines(&self.space, file)
    }

    /// What waits or runs: names and states. Not what has ended and is still being cleaned up after, in its own time.
    fn queue(&self) -> String {
        self.cluster.run("squeue", ["--noheader", "--array", "--states=PENDING,RUNNING,SUSPENDED", "--format=%j %T"])
    }

    /// The numbers of what Slurm is not done with, of tasks of arrays their own.
    fn jobs(&self) -> Vec<String> {
        self.cluster.run("squeue", ["--noheader", "--array", "--format=%A"]).lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn scontrol<'a>(&self, args: impl IntoIterator<Item = &'a str>) {
        self.cluster.run("scontrol", args);
    }

    /// What the run has recorded, by label; each once.
    fn results(&self) -> BTreeMap<String, serde_json::Value> {
        let recorded = self.space.journal().into_iter().filter(|line| line["event"] == "recorded");
        let mut results = BTreeMap::new();
        for line in recorded {
            let label = line["result"]["label"].as_str().unwrap_or_default().to_owned();
            assert!(results.insert(label.clone(), line["result"].clone()).is_none(), "{label} is recorded twice");
        }
        results
    }

    #[track_caller]
    fn expect_no_job(&self) {
        until("no job is left", || self.jobs().is_empty());
    }
}

#[test]
#[ignore = "needs Slurm"]
fn a_result_that_was_made_elsewhere_is_named() {
    let lab = Lab::new(1, 0, "\n  a: {run: 'true'}\n");
    lab.space.flow(["run", "w.yaml", "--on", "local"]).expect(0);
    let why = || lab.space.flow(["why", "a"]).expect(0).stdout();
    let made = "a: made on this machine; `on:` is not part of the fingerprint, `flow run -f a` runs it on Slurm\n";
    assert!(why().contains(made), "{}", why());
    lab.space.flow(["run", "w.yaml", "-f", "a"]).expect(0);
    assert!(!why().contains("a: made "), "{}", why());
}

#[test]
#[ignore = "needs Slurm"]
fn after_a_run_on_slurm_plans_look_there_and_the_next_run_says_that_it_does_not() {
    let lab = Lab::new(1, 1, "");
    let step = |run: &str| {
        let text = format!(
            "flow: 1\nname: w\nslurm: {{poll: 1s}}\nsteps:\n  a: {{matrix: {{n: [0, 1]}}, gpus: 1, run: '{run}'}}\n"
        );
        lab.space.write("w.yaml", &text);
    };
    step("until [ -e $HOME/on ]; do sleep 0.1; done");
    let mut flow = lab.space.start(["run", "w.yaml", "--on", "slurm"]);
    let status = || lab.space.flow(["status"]).stdout();
    until("its job and its node are shown", || status().contains("_0 on node1"));
    assert!(lab.space.flow(["why", "a[n=0]"]).expect(0).stdout().contains("_0 on node1"));
    flow.kill();
    let planned = || lab.space.flow(["plan", "w.yaml"]).expect(0).stdout();
    until("the plan knows", || planned().contains("2 instances: 1 running, 1 queued\n"));
    let said = lab.space.flow(["why", "a"]).expect(0).stdout();
    assert!(said.contains(": queued in Slurm since run"), "{said}");
    let said = lab.space.flow(["status"]).expect(0).stdout();
    assert!(said.contains("2 jobs are still in Slurm (1 running, 1 waiting)"), "{said}");
    // Its jobs say where it was.
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it joins both", || flow.output().contains("queued since run"));
    assert!(flow.output().contains("on slurm, like the last run"), "{}", flow.output());
    lab.space.write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    step("true");
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0);
    assert!(planned.stderr().contains("on slurm, like the last run"), "{}", planned.text());
    assert!(planned.stdout().contains("2 to run"), "{}", planned.text());
    lab.space.write("w.yaml", "flow: 1\nname: w\nsteps: {a: {run: 'true'}}\n");
    let said = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(said.contains("the steps run here; the last run was on Slurm (`--on slurm`)"), "{said}");
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0).text();
    assert!(!planned.contains("like the last run"), "{planned}");
}

#[test]
#[ignore = "needs Slurm"]
fn while_a_run_goes_on_slurm_is_not_asked_what_its_nodes_have() {
    let steps = "\n  a: {matrix: {n: [0, 1]}, gpus: 1, run: 'until [ -e $HOME/on ]; do sleep 0.1; done'}\n";
    let mut lab = Lab::new(1, 1, steps);
    let asked = lab.space.path("asked");
    let sinfo = format!("#!/bin/sh\nPATH=${{PATH#*:}}\necho >> {}\nexec sinfo \"$@\"\n", asked.display());
    lab.first_on_the_path("sinfo", &sinfo);
    let times = || lab.lines("asked").values().sum::<u32>();
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("one runs", || lab.queue().contains("RUNNING"));
    until("it has said so", || lab.space.flow(["why", "a[n=0]"]).expect(0).stdout().contains("in run"));
    let before = times();
    for args in [["why", "a"], ["plan", "w.yaml"]] {
        let told = lab.space.flow(args).expect(0);
        assert!(told.stderr().contains("is active: flow uses its last answer about the nodes"), "{}", told.text());
    }
    assert_eq!(times(), before);
    // Nothing is known of a larger node: what it could not run is said, as the run would.
    lab.space.write("w.yaml", &format!("{HEAD}{}", steps.replace("gpus: 1", "gpus: 2")));
    let said = lab.space.flow(["plan", "w.yaml"]).expect(2).text();
    assert!(said.contains("the largest have 1 GPU,"), "{said}");
    lab.space.write("w.yaml", &format!("{HEAD}{steps}")).write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert!(!lab.space.flow(["why", "a"]).expect(0).stderr().contains("is not asked"));
    assert_eq!(times(), before + 1);
}

#[test]
#[ignore = "needs Slurm"]
fn a_step_means_the_same_on_slurm_as_here() {
    let lab = Lab::new(
        2,
        2,
        "
  train:
    matrix: {n: [1, 2]}
    gpus: 2
    run: sh train.sh ${{ n }}
    inputs: [train.sh]
    outputs: [out.txt]
    metrics: {stdout: 'Epoch {epoch} loss {loss}'}
  none: {run: 'echo \"gpus [$CUDA_VISIBLE_DEVICES]\" > out.txt', outputs: [out.txt]}
  here: {on: local, run: 'echo \"node [$SLURMD_NODENAME]\" > out.txt', outputs: [out.txt]}
  all: {run: cat in/train/*/out.txt in/none/out.txt in/here/out.txt > out.txt, env: {A: \"${{ steps.train | map(attribute='out') | join(' ') }} ${{ steps.none.out }} ${{ steps.here.out }}\"}, outputs: [out.txt]}
",
    );
    lab.space.write(
        "train.sh",
        "echo Epoch 1 loss 0.5; sleep 1; echo Epoch 2 loss 0.25; echo \"$1 gpus [$CUDA_VISIBLE_DEVICES]\" > out.txt\n",
    );
    let said = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(said.contains("submitted to Slurm: "), "{said}");
    let results = lab.results();
    let train = &results["train[n=1]"];
    assert_eq!(train["metrics"]["loss"]["value"], 0.25, "{train}");
    let epoch = train["metrics"]["epoch_time"]["value"].as_f64().unwrap();
    assert!((0.8..2.0).contains(&epoch), "by the node's looks, not by the engine's: {epoch}");
    assert_eq!(train["circumstances"]["gpu_models"], serde_json::json!(["fake", "fake"]), "{train}");
    assert!(train["circumstances"]["facts"]["node"].as_str().is_some_and(|node| node.starts_with("node")), "{train}");
    let job = train["circumstances"]["facts"]["slurm_job"].as_str().unwrap();
    assert!(lab.space.flow(["show", "train[n=1]"]).expect(0).stdout().contains(job), "{train}");
    let had = |what: &str| train["circumstances"][what].as_u64().unwrap();
    assert!(had("cpus") <= had("host_cpus"), "the node claims eight, wherever it is: {train}");
    let out = lab.space.path("out.txt");
    lab.space.flow(["get", "all", "--to", out.to_str().unwrap()]).expect(0);
    let said = lab.space.read("out.txt");
    assert_eq!(said, "1 gpus [0,1]\n2 gpus [0,1]\ngpus []\nnode []\n");
    assert_eq!(lab.queue(), "");
    assert!(lab.space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
}

#[test]
#[ignore = "needs Slurm"]
fn a_failure_is_the_steps_own_and_a_refusal_is_said() {
    let lab = Lab::new(
        1,
        1,
        "
  three: {run: 'echo why; exit 3'}
  segv: {run: 'kill -SEGV $$'}
  late: {run: sleep 60, timeout: 1s}
  hungry: {run: 'x=$(yes | head -c 300m || true); sleep 20; echo done', memory: 100MiB}
  wrong: {run: 'true', slurm: {options: [--constraint=nothing]}}
",
    );
    let text = lab.space.flow(["run", "w.yaml", "-k"]).expect(1).text();
    for said in [
        "three: ended with exit code 3: why",
        "segv: was killed by SIGSEGV",
        "late: it ran longer than its timeout of",
        "wrong: Slurm refuses its job: Invalid feature specification",
        "hungry: job ",
        "used more memory than Slurm gave it",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
    assert_eq!(lab.queue(), "");
}

#[test]
#[ignore = "needs Slurm"]
fn a_group_is_one_job_with_its_barrier() {
    let lab = Lab::new(
        2,
        2,
        "
  pair:
    matrix: {n: [1, 2]}
    gpus: 1
    corun: {group: all}
    run: 'sleep ${{ n }}; flow ready && date +%s > out.txt; echo \"$SLURM_JOB_ID [$CUDA_VISIBLE_DEVICES]\" >> out.txt; sleep 1'
    outputs: [out.txt]
",
    );
    lab.space.flow(["run", "w.yaml"]).expect(0);
    let results = lab.results();
    let of = |label: &str| {
        let out = lab.space.path("out.txt");
        lab.space.flow(["get", label, "--to", out.to_str().unwrap()]).expect(0);
        let text = lab.space.read("out.txt");
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

/// How long after a barrier opened a large output, whose step ended at the same time, was stored here, seconds.
fn stored_after_the_barrier(lab: &Lab) -> f64 {
    let mut flow = lab.space.start(["run", "w.yaml", "-f"]);
    let told = |name: &str| lab.space.path("tell").join(name).exists();
    until("all run", || ["filled", "began1", "began2"].iter().all(|name| told(name)) || !flow.is_alive());
    fs::write(lab.space.path("tell/go"), "").unwrap();
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    let seconds = |name: &str| -> f64 { lab.space.read(format!("tell/{name}")).trim().parse().unwrap() };
    let released = seconds("released1").max(seconds("released2"));
    let journal = lab.space.journal();
    let stored = journal.iter().find(|line| line["event"] == "recorded" && line["result"]["step"] == "large").unwrap();
    fs::remove_dir_all(lab.space.path("tell")).unwrap();
    stored["at"].as_u64().unwrap() as f64 / 1e3 - released
}

#[test]
#[ignore = "needs Slurm"]
fn a_barrier_opens_while_a_large_output_is_stored() {
    let lab = Lab::new(1, 0, "");
    let tell = lab.space.path("tell").display().to_string();
    let steps = "
  pair:
    matrix: {n: [1, 2]}
    corun: {group: all}
    run: touch $T/began${{ n }}; until [ -e $T/go ]; do sleep 0.01; done; flow ready && date +%s.%N > $T/released${{ n }}
    env: {T: TELL}
  large:
    on: local
    run: truncate -s 4G out.bin; touch $T/filled; until [ -e $T/go ]; do sleep 0.002; done
    outputs: [out.bin]
    env: {T: TELL}
";
    lab.space.write("w.yaml", &format!("{HEAD}{}", steps.replace("TELL", &tell)));
    let again = |_| {
        fs::create_dir(lab.space.path("tell")).unwrap();
        stored_after_the_barrier(&lab)
    };
    // A loop that waits for the output is late every time, however busy the machine is.
    let all: Vec<f64> = (0..3).map(again).take_while(|later| *later <= 0.0).collect();
    assert!(all.len() < 3, "the output was stored before the barrier opened: {all:.3?} s");
}

#[test]
#[ignore = "needs Slurm"]
fn what_is_cancelled_leaves_no_job() {
    let lab = Lab::new(1, 1, &sweep(4, 60, "gpus: 1"));
    // As a cluster is asked by default: whoever presses Ctrl-C does not wait for that.
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("slurm: {poll: 1s}\n", ""));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("one runs and three wait", || lab.queue().lines().count() == 4 && !lab.lines("began").is_empty());
    flow.signal(Signal::SIGINT);
    let told = Instant::now();
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(told.elapsed() < Duration::from_secs(20), "{:?}", told.elapsed());
    lab.expect_no_job();
    assert!(!lab.space.journal().iter().any(|line| line["event"] == "recorded"));
}

#[test]
#[ignore = "needs Slurm"]
fn an_array_begins_in_the_schedulers_order() {
    let lab = Lab::new(1, 1, &sweep(5, 0, "gpus: 1"));
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    let began: Vec<String> = lab.space.read("began").lines().map(str::to_owned).collect();
    assert_eq!(began, (0..5).map(|n| n.to_string()).collect::<Vec<_>>(), "{text}");
    let planned = lab.space.flow(["run", "w.yaml", "-n", "-f"]).expect(0).stdout();
    assert!(planned.contains(", plus waiting in Slurm's queue"), "{planned}");
}

#[test]
#[ignore = "needs Slurm"]
fn a_higher_priority_is_a_lower_nice_and_begins_first() {
    let step = |name: &str, priority: i32| {
        format!("\n  {name}: {{gpus: 1, priority: {priority}, run: 'echo {name} >> ORDER'}}")
    };
    let lab = Lab::new(1, 1, &[step("mid", 0), step("low", -3), step("high", 5)].concat());
    let order = lab.space.path("order").display().to_string();
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("ORDER", &order));
    lab.scontrol(["update", "nodename=node1", "state=drain", "reason=test"]);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    let niced = || lab.cluster.run("squeue", ["--noheader", "--format=%k: %y"]);
    until("all three wait", || niced().lines().count() == 3);
    let mut told: Vec<String> = niced().lines().map(str::to_owned).collect();
    told.sort();
    assert_eq!(told, ["flow: high of w: 0", "flow: low of w: 8", "flow: mid of w: 5"]);
    lab.scontrol(["update", "nodename=node1", "state=resume"]);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!(lab.space.read("order"), "high\nmid\nlow\n");
}

#[test]
#[ignore = "needs Slurm"]
fn what_a_run_in_the_background_leaves_can_be_cancelled_or_joined() {
    let lab = Lab::new(1, 2, &sweep(2, 0, "gpus: 1"));
    lab.space.write("count.sh", COUNT_ONCE_ON).flow(["run", "w.yaml", "--detach"]).expect(0);
    until("both run", || lab.lines("began").len() == 2);
    let run = lab.space.flow(["runs", "--json"]).expect(0).stdout();
    let run: serde_json::Value =
        run.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let pid = lab.space.journal()[0]["pid"].as_i64().unwrap_or_else(|| panic!("{run}"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), Signal::SIGTERM).unwrap();
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it joins both", || flow.output().contains("plan: 2 taken over"));
    lab.space.write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!(lab.lines("did"), once(2), "{}", flow.output());

    let lab = lab.anew(&sweep(2, 60, "gpus: 1"));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("both run", || lab.lines("began").len() == 2);
    flow.kill();
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(planned.contains("2 instances: 2 running\n"), "{planned}");
    let run = fs::read_dir(lab.space.path(".flow/runs")).unwrap().next().unwrap().unwrap().file_name();
    let said = lab.space.flow(["status"]).expect(0).stdout();
    let left = format!("run {} was killed, but 2 jobs are still in Slurm", run.to_str().unwrap());
    assert!(said.contains(&flow_testkit::normal(&left, &lab.space.path(""))), "{said}");
    lab.space.flow(["cancel"]).expect(0);
    lab.expect_no_job();
    assert!(!lab.space.flow(["status"]).expect(0).stdout().contains("still in Slurm"));
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(planned.contains("2 instances: 2 to run\n"), "what was cancelled is not taken up: {planned}");
}

#[test]
#[ignore = "needs Slurm"]
fn what_killed_runs_left_is_told_soon_whether_slurm_answers_or_not() {
    let lab = Lab::new(1, 0, "");
    for n in 1..=2 {
        let file = format!("{n}.yaml");
        lab.space.write(&file, &format!("{HEAD}\n  a: {{run: 'trap \"\" TERM; sleep 6{n}'}}\n"));
        let mut flow = lab.space.start(["run", &file]);
        until("it runs", || lab.queue().matches("RUNNING").count() == n);
        flow.kill();
    }
    let told = |words: &str| lab.space.flow(["status"]).expect(0).stdout().matches(words).count();
    assert_eq!(told("1 job is still in Slurm"), 2);
    lab.cluster.stop(CONTROLLER);
    let asked = Instant::now();
    assert_eq!(told("jobs may be still in Slurm, which does not answer now"), 2);
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    lab.cluster.start_again(CONTROLLER);
    lab.cluster.run("scancel", lab.jobs().iter().map(String::as_str));
    // What does not heed SIGTERM takes a while.
    until("they end", || lab.queue().lines().all(|line| line.ends_with("COMPLETING")));
    assert_eq!(told("in Slurm"), 0, "{}", lab.queue());
}

#[test]
#[ignore = "needs Slurm"]
fn what_somebody_else_cancels_has_failed() {
    let lab = Lab::new(1, 1, &sweep(1, 60, ""));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it runs", || !lab.lines("began").is_empty());
    lab.cluster.run("scancel", ["--name", lab.queue().split(' ').next().unwrap()]);
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
    assert!(flow.output().contains("was cancelled in Slurm, not by flow"), "{}", flow.output());
}

#[test]
#[ignore = "needs Slurm"]
fn what_nodes_cannot_see_is_refused_before_anything_runs() {
    let lab = Lab::new(1, 0, "");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("data"), "x").unwrap();
    let data = outside.path().join("data").display().to_string();
    let workflow = |slurm: &str| {
        format!("flow: 1\nname: w\nslurm: {{{slurm}}}\nsteps: {{a: {{run: cat data, inputs: [\"{data}\"]}}}}\n")
    };
    lab.space.write("w.yaml", &workflow("shared: ."));
    let text = lab.space.flow(["plan", "w.yaml", "--on", "slurm"]).expect(2).text();
    assert!(text.contains("is outside of the folder that Slurm's nodes see"), "{text}");
    lab.space.write("w.yaml", &workflow("shared: /, options: [--job-name=mine]"));
    let text = lab.space.flow(["run", "w.yaml", "--on", "slurm"]).expect(2).text();
    assert!(text.contains("`--job-name=mine` is set by flow itself"), "{text}");
    lab.space.flow(["run", "w.yaml"]).expect(0);
}

#[test]
#[ignore = "needs Slurm"]
fn work_folders_are_outside_the_project_if_nodes_see_a_place_there() {
    let lab = Lab::new(1, 0, "");
    lab.space.write("lab/proj/plugins/here", "");
    let workflow = |slurm: &str| {
        let slurm = format!("slurm: {{poll: 1s{slurm}}}");
        lab.space.write(
            "lab/proj/w.yaml",
            &HEAD.replace("slurm: {poll: 1s}", &slurm).replace("steps:", "steps: {a: {run: pwd -P}}"),
        );
    };
    workflow(", shared: ..");
    let said = lab.space.flow_in("lab/proj", ["run", "w.yaml"]).expect(0).text();
    assert!(!said.contains("work folders are in the project"), "{said}");
    let hidden = format!("ROOT/lab/.flow-work-{}/", nix::unistd::geteuid());
    let at = lab.space.flow_in("lab/proj", ["logs", "a"]).expect(0).stdout();
    assert!(at.starts_with(&hidden), "{at}");
    let place = lab.space.flow_in("lab/proj", ["doctor", "-w", "w.yaml"]).expect(0).stdout();
    assert!(place.contains(&hidden), "{place}");
    workflow("");
    let said = lab.space.flow_in("lab/proj", ["run", "w.yaml", "-f"]).expect(0).text();
    assert!(said.contains("work folders are in the project"), "{said}");
}
