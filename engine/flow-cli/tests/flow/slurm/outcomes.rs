//! What becomes of jobs at the hands of Slurm and of people, and what is said meanwhile.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

use flow_testkit::{slurm::Cluster, until};
use nix::sys::signal::Signal;

use super::Lab;
use crate::{
    at_once,
    counted::{COUNT_ONCE_ON, once, sweep},
};

/// What is in the way of others gives its place to them.
fn preempting(mode: &str) -> String {
    format!(
        "PreemptType=preempt/partition_prio\nPreemptMode={mode}\nPartitionName=high Nodes=ALL PriorityTier=10 State=UP"
    )
}

#[test]
#[ignore = "needs Slurm"]
fn what_is_preempted_is_tried_again_however_the_site_does_that() {
    at_once(["REQUEUE", "CANCEL"], |mode| {
        let lab = Lab::on(Cluster::start_with(1, 1, &preempting(mode)), &sweep(1, 0, "gpus: 1"));
        lab.space.write("count.sh", COUNT_ONCE_ON);
        let mut flow = lab.space.start(["run", "w.yaml"]);
        until("it runs", || !lab.lines("began").is_empty());
        let urgent = ["--partition=high", "--gres=gpu:1", "--output=/dev/null", "--wrap=sleep 1"];
        lab.cluster.run("sbatch", urgent);
        until("it runs again", || lab.lines("began").get("0") == Some(&2));
        lab.space.write("on", "");
        assert_eq!(flow.wait().code(), Some(0), "{mode}: {}", flow.output());
        assert!(flow.output().contains("was preempted by another job in Slurm; it is retried"), "{}", flow.output());
        assert_eq!(lab.lines("began"), BTreeMap::from([("0".to_owned(), 2)]), "{mode}");
        assert_eq!(lab.results().len(), 1);
        lab.expect_no_job();
    });
}

#[test]
#[ignore = "needs Slurm"]
fn what_is_preempted_again_and_again_goes_on_from_its_checkpoint() {
    const TIMES: usize = 2;
    let workflow = "
  train: {gpus: 1, run: sh train.sh, inputs: [train.sh], outputs: [out.txt]}
";
    let lab = Lab::on(Cluster::start_with(1, 1, &preempting("CANCEL")), workflow);
    let train = "n=$(($(cat $FLOW_CHECKPOINT/n 2>/dev/null || echo 0) + 1)); echo $n > $FLOW_CHECKPOINT/n\n\
                 echo $n >> $HOME/began; [ $n -gt TIMES ] || sleep 60; echo $n > out.txt\n";
    lab.space.write("train.sh", &train.replace("TIMES", &TIMES.to_string()));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    for times in 1..=TIMES {
        until("it runs", || lab.lines("began").len() == times);
        lab.cluster.run("sbatch", ["--partition=high", "--gres=gpu:1", "--output=/dev/null", "--wrap=true"]);
    }
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    let said = "was preempted by another job in Slurm; it continues in another job, from its checkpoint";
    assert!(flow.output().contains(said), "{}", flow.output());
    let goes_on = |line: &serde_json::Value| line["event"] == "again" && line["because"]["resumes"] == true;
    assert_eq!(lab.space.journal().into_iter().filter(goes_on).count(), TIMES, "{}", flow.output());
    assert_eq!(lab.results()["train"]["usage"]["earlier"]["jobs"], TIMES);
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn what_waits_in_the_queue_is_queued_and_what_is_held_is_said() {
    let lab = Lab::new(1, 1, &sweep(1, 1, "gpus: 1"));
    // Somebody else has the GPU.
    lab.cluster.run("sbatch", ["--gres=gpu:1", "--output=/dev/null", "--wrap=sleep 1000"]);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    let status = || lab.space.flow(["status"]).expect(0).stdout();
    let why = || lab.space.flow(["why", "count"]).expect(0).stdout();
    until("it is submitted", || lab.jobs().len() == 2);
    until("it is queued", || {
        status().contains("queued  count[n=0]") && status().contains("in Slurm (job 2, Resources, since ")
    });
    assert!(!status().contains("running"), "{}", status());
    assert!(status().contains("1 GPU, "), "{}", status());
    assert!(why().contains("queued by run ") && why().contains(": in Slurm (job 2, Resources, since "), "{}", why());

    // As a user holds it back; an administrator, as who runs this may be, would hold it as one.
    lab.scontrol(["uhold", "2"]);
    let said = "a user holds it: `scontrol release 2` releases it";
    until("it is held", || status().contains("(job 2, JobHeldUser, since ") && status().contains(said));
    assert!(why().contains(said), "{}", why());
    until("the run says so", || {
        flow.output().contains(&format!("count[n=0] is queued in Slurm (job 2, JobHeldUser): {said}"))
    });
    lab.scontrol(["release", "2"]);
    lab.cluster.run("scancel", ["1"]);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!(lab.lines("did"), once(1));
}

#[test]
#[ignore = "needs Slurm"]
fn what_is_to_be_submitted_is_queued_before_slurm_has_heard_of_it() {
    let workflow = "
  first: {run: 'true'}
  here: {on: local, run: 'sleep 1; echo 1 > out.txt', outputs: [out.txt]}
  then: {run: 'cat in/here/out.txt', env: {FROM: '${{ steps.here.out }}'}}
";
    let mut lab = Lab::new(1, 0, workflow);
    // While the first is submitted the next one has to wait.
    lab.first_on_the_path(
        "sbatch",
        "#!/bin/sh\nPATH=${PATH#*:}\nuntil [ -e $HOME/on ]; do sleep 0.05; done\nexec sbatch \"$@\"\n",
    );
    let mut flow = lab.space.start(["run", "w.yaml"]);
    let mut line = None;
    until("the next one is told", || {
        let said = lab.space.flow(["status"]).text();
        let is_told = |line: &&str| ["running", "queued"].iter().any(|how| line.trim_start().starts_with(how));
        line = said.lines().filter(is_told).find(|line| line.contains(" then ")).map(str::to_owned);
        line.is_some()
    });
    let line = line.unwrap_or_default();
    assert!(line.contains("queued") && line.contains("in Slurm (not submitted yet, since "), "{line}");
    lab.space.write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
}

#[test]
#[ignore = "needs Slurm"]
fn what_will_not_start_by_itself_is_said_with_what_to_do() {
    let workflow = "
  closed: {run: 'true', slurm: {partition: closed}}
  drained: {run: 'true'}
";
    let lab = Lab::on(Cluster::start_with(1, 0, "PartitionName=closed Nodes=ALL State=DOWN"), workflow);
    lab.scontrol(["update", "nodename=node1", "state=drain", "reason=repair"]);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    let closed = "its partition starts no jobs until an administrator opens it";
    let drained = "no suitable node accepts jobs now: `sinfo -R` shows why";
    let all = |text: &str| text.contains(closed) && text.contains(drained);
    until("both are submitted", || lab.jobs().len() == 2);
    until("status and run say so", || all(&lab.space.flow(["status"]).expect(0).stdout()) && all(&flow.output()));
    for (step, said) in [("closed", closed), ("drained", drained)] {
        let why = lab.space.flow(["why", step]).expect(0).stdout();
        assert!(why.contains(said), "{why}");
    }
    // They wait until somebody does something about it.
    lab.scontrol(["update", "nodename=node1", "state=resume"]);
    until("one has run", || lab.queue().lines().count() == 1);
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn what_no_node_could_run_is_refused_before_anything_is_submitted() {
    let lab = Lab::new(
        1,
        2,
        "
  fine: {run: 'true', gpus: 1, measured: true}
  large: {run: 'true', gpus: 4}
  hungry: {run: 'true', memory: 64GiB}
  other: {run: 'true', gpus: 1, slurm: {gpu_type: h100}}
  wrong: {run: 'true', slurm: {partition: nowhere}}
",
    );
    let told = |file: &str| -> Vec<String> {
        let text = lab.space.flow(["run", file]).expect(2).text();
        let said = text.lines().filter(|line| line.starts_with("error: ") || line.trim_start().starts_with("--> "));
        said.map(|line| line.trim().replace(" of Slurm's partition `main`", "")).collect()
    };
    insta::assert_snapshot!(told("w.yaml").join("\n"), @"
    error: `large`: no node has 4 GPUs and 8 CPUs: the largest have 2 GPUs, 8 CPUs and 3.9 GiB
    --> w.yaml:7:30
    error: `hungry`: no node has 1 CPU and 64.0 GiB: the largest have 2 GPUs, 8 CPUs and 3.9 GiB
    --> w.yaml:8:33
    error: `other`: no node has GPUs of type `h100`: it has fake
    --> w.yaml:9:51
    error: `wrong`: Slurm has no partition `nowhere`; it has main
    --> w.yaml:10:43
    ");
    // What the workflow itself says is told once, for all of its steps.
    let whole = lab.space.read("w.yaml").replace("{poll: 1s}", "{poll: 1s, partition: gpu}");
    lab.space.write("whole.yaml", &whole);
    assert_eq!(told("whole.yaml"), ["error: Slurm has no partition `gpu`; it has main", "--> whole.yaml:4:30"]);
    lab.space.flow(["run", "w.yaml", "fine"]).expect(0);
    assert_eq!(lab.results()["fine"]["circumstances"]["gpu_models"], serde_json::json!(["fake"]));
}

#[test]
#[ignore = "needs Slurm"]
fn what_ends_before_flow_begins_on_its_node_is_tried_again_with_what_its_log_says() {
    let lab = Lab::new(1, 1, &sweep(1, 0, ""));
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("poll: 1s", "poll: 1s, flow: flow.sh"));
    let flow = env!("CARGO_BIN_EXE_flow");
    let once = format!("#!/bin/sh\n[ -e $HOME/once ] || {{ : > $HOME/once; exit 2; }}\nexec {flow} \"$@\"\n");
    lab.space.script("flow.sh", &once);
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    let said = "ended in Slurm with exit code 2 before flow started on its node, and its log is empty; it is retried";
    assert!(text.contains(said), "{text}");
    assert_eq!(lab.lines("did"), crate::counted::once(1));
    // What no node can start is not tried again and again.
    lab.space.script("flow.sh", "#!/bin/sh\necho 'it needs a library that is not there' >&2\nexit 127\n");
    let text = lab.space.flow(["run", "w.yaml", "-f"]).expect(1).text();
    let said = "with exit code 127 before flow started on its node: it needs a library that is not there";
    assert!(text.contains(said) && !text.contains("tried again"), "{text}");
}

#[test]
#[ignore = "needs Slurm"]
fn what_its_nodes_prolog_keeps_from_beginning_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    // As a site looks after its GPUs: it fails once, and Slurm drains that node.
    let prolog = folder.path().join("prolog");
    let script = format!("#!/bin/sh\nmkdir {}/once 2>/dev/null && exit 1\nexit 0\n", folder.path().display());
    std::fs::write(&prolog, script).unwrap();
    std::fs::set_permissions(&prolog, std::fs::Permissions::from_mode(0o755)).unwrap();
    let conf = format!("Prolog={}", prolog.display());
    let lab = Lab::on(Cluster::start_with(2, 1, &conf), &sweep(1, 0, "gpus: 1"));
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(text.contains("Slurm could not start job ") && text.contains("it is retried"), "{text}");
    assert_eq!(lab.lines("did"), once(1));
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn what_finds_its_folder_gone_is_tried_again() {
    let lab = Lab::new(1, 1, &sweep(2, 0, "gpus: 1"));
    lab.cluster.run("sbatch", ["--gres=gpu:1", "--output=/dev/null", "--wrap=sleep 1000"]);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("all are submitted", || lab.jobs().len() == 3);
    let runs = std::fs::read_dir(lab.space.path(".flow/runs")).unwrap();
    let run = runs.flatten().next().unwrap().path();
    std::fs::remove_dir_all(run.join("attempts/0")).unwrap();
    lab.cluster.run("scancel", ["1"]);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert!(
        flow.output().contains("with exit code 97 before flow started on its node: ")
            && flow.output().contains("it is retried"),
        "{}",
        flow.output()
    );
    assert_eq!(lab.lines("did"), once(2));
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn a_controller_that_is_busy_or_knows_no_nodes_yet_is_no_mistake_of_the_workflow() {
    let mut lab = Lab::new(1, 0, &sweep(1, 0, ""));
    let first = lab.space.path("first");
    let sinfo = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\nread answer < {0} || exec sinfo \"$@\"\nsed -i 1d {0}\n\
         [ \"$answer\" = none ] && exit\necho 'slurm_load_partitions: Socket timed out on send/recv operation' >&2\nexit 1\n",
        first.display()
    );
    lab.first_on_the_path("sinfo", &sinfo);
    // Its first answers: it is asked again where it was busy, and nothing is said of the workflow where it tells nothing.
    lab.space.write("first", "none\n");
    let said = lab.space.flow(["run", "w.yaml"]).expect(1).text();
    assert!(said.contains("does not answer: `sinfo` lists no nodes"), "{said}");
    lab.space.write("first", "busy\nbusy\nbusy\n");
    lab.space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(lab.lines("did"), once(1));
}
