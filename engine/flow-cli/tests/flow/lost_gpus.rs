//! GPUs that fall off the bus, or hang, while steps are on them or wait for them.

use flow_testkit::until;
use serde_json::{Value, json};

use crate::{
    at_once,
    gpus::{ForeignProcess, HOLD, again, hold_until, notices, result},
    space,
};

#[test]
fn what_runs_on_a_lost_gpu_starts_again_elsewhere() {
    let mut space = space();
    let gpus = space.gpus("gpu NVIDIA A; memory=24GiB; used=0\ngpu NVIDIA B; memory=24GiB; used=1GiB\n");
    space.script("hold.sh", HOLD).script(
        "lose.sh",
        "#!/bin/sh\ncase $CUDA_VISIBLE_DEVICES in *-1) exec ./hold.sh 10 600;; *) exec ./hold.sh 10 1;; esac\n",
    );
    space.write(
        "lost.yaml",
        "\
flow: 1
name: lost
steps:
  train: {matrix: {n: [1, 2, 3]}, run: './lose.sh ${{ n }}', inputs: [lose.sh, hold.sh], gpus: 1}
",
    );
    let mut flow = space.start(["run", "lost.yaml"]);
    until("both GPUs are in use", || gpus.text().matches("memory=10MiB").count() >= 2);
    gpus.change("used=1GiB", "used=1GiB; lost");
    assert!(flow.wait().success(), "{}", flow.output());
    let results: Vec<Value> = (1..=3).map(|n| result(&space, &format!("train[n={n}]"))).collect();
    assert!(results.iter().all(|r| r["circumstances"]["gpu_models"][0] == "NVIDIA A"), "{results:?}");
    insta::assert_snapshot!(notices(&space).join("\n"), @"GPU 1 (NVIDIA B) is lost; the run continues without it");
    let again = again(&space);
    assert_eq!((again.len(), &again[0]["cause"]["kind"]), (1, &json!("gpu_lost")), "{again:?}");
}

#[test]
fn where_the_last_gpu_is_lost_the_step_fails_and_the_rest_goes_on() {
    let mut space = space();
    let gpus = space.gpus("gpu NVIDIA A; memory=24GiB; used=0\n");
    space.script("hold.sh", HOLD).write(
        "lost.yaml",
        "\
flow: 1
name: lost
steps:
  train: {run: ./hold.sh 10 600, inputs: [hold.sh], gpus: 1}
  after: {run: 'true', gpus: 1, needs: [train]}
  other: {run: sleep 1}
",
    );
    let mut flow = space.start(["run", "-k", "lost.yaml"]);
    until("the GPU is in use", || gpus.text().contains("memory=10MiB"));
    gpus.change("used=0", "used=0; lost");
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
    let journal = space.journal();
    let settled: Vec<&Value> =
        journal.iter().filter(|line| line["event"] == "settled").map(|line| &line["cause"]).collect();
    assert_eq!((&settled[0]["kind"], &settled[0]["model"]), (&json!("gpu_lost"), &json!("NVIDIA A")));
    assert_eq!(*settled[1], json!({"kind": "need_failed", "label": "train"}));
    let mut ran = space.ran();
    ran.sort();
    assert_eq!(ran, ["other", "train!"], "{}", flow.output());
}

#[test]
fn a_gpu_that_hangs_blinds_flow_to_no_other() {
    let mut space = space();
    let gpus = space.gpus("gpu NVIDIA A; memory=24GiB; used=0\ngpu NVIDIA B; memory=24GiB; used=1GiB\n");
    space.script("until.sh", &hold_until());
    let go = space.path("go").display().to_string();
    space.write(
        "hang.yaml",
        &format!(
            "\
flow: 1
name: hang
steps:
  train: {{run: ./until.sh 100 {go}, inputs: [until.sh], gpus: 1}}
"
        ),
    );
    let (hangs, answers) = ("used=1GiB; hang=600000", "used=1GiB");
    let pause = |seconds| std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
    let mut flow = space.start(["run", "hang.yaml"]);
    until("one GPU is in use", || gpus.text().contains("memory=100MiB"));
    gpus.change(answers, hangs);
    // The other one is looked at once a second.
    pause(1.5);
    gpus.change("memory=100MiB", "memory=9000MiB");
    pause(1.5);
    space.write("go", "");
    assert!(flow.wait().success(), "{}", flow.output());
    assert_eq!(result(&space, "train")["usage"]["gpus"][0]["memory_peak"], Value::from(9000u64 << 20));

    // Nor does a step wait for a GPU that is free by now.
    gpus.change(hangs, answers);
    let foreign = [ForeignProcess::new(), ForeignProcess::new()];
    foreign.iter().enumerate().for_each(|(gpu, process)| gpus.add(&process.on(gpu, 24 << 10)));
    let mut flow = space.start(["run", "-f", "hang.yaml"]);
    until("both are seen", || flow.output().matches("the foreign process").count() >= 2);
    gpus.change(answers, hangs);
    pause(1.5);
    drop(foreign);
    assert!(flow.wait().success(), "{}", flow.output());
}

#[test]
fn who_waits_for_a_driver_that_hangs_starts_what_needs_no_gpu() {
    let (hangs, answers) = ("used=0; hang=600000", "used=0");
    // The GPU that a step waits for is given back by another run; and a step fails, and a lost GPU may be why.
    at_once([("./until.sh 10 go", "true"), ("true", "./until.sh 10 go; false")], |(other, step)| {
        let mut space = space();
        let gpus = space.gpus("gpu NVIDIA A; memory=24GiB; used=0\n");
        space.script("until.sh", &hold_until());
        let at = |text: &str| text.replace("go", &space.path("go").display().to_string());
        let train = |run: &str| format!("train: {{run: '{}', inputs: [until.sh], cpus: 1, gpus: 1}}", at(run));
        space.write("other.yaml", &format!("flow: 1\nname: other\nsteps:\n  {}\n", train(other)));
        let ticks = space.path("ticks").display().to_string();
        let tick = format!("tick: {{matrix: {{n: '${{{{ range(400) }}}}'}}, run: 'echo tick >> {ticks}; sleep 0.1'}}");
        space
            .write("ticks", "")
            .write("one.yaml", &format!("flow: 1\nname: one\nsteps:\n  {}\n  {tick}\n", train(step)));
        let mut first = space.start(["run", "other.yaml"]);
        if other != "true" {
            until("the GPU is in use", || gpus.text().contains("memory=10MiB"));
        } else {
            assert!(first.wait().success(), "{}", first.output());
        }
        let mut run = space.start(["run", "-k", "one.yaml", "-j", "2"]);
        until("it ticks", || space.read("ticks").lines().count() > 5);
        until("the GPU is in use", || gpus.text().contains("memory=10MiB"));
        gpus.change(answers, hangs);
        std::thread::sleep(std::time::Duration::from_secs(1));
        space.write("go", "");
        std::thread::sleep(std::time::Duration::from_secs(1));
        let before = space.read("ticks").lines().count();
        until("other steps start while the driver hangs", || space.read("ticks").lines().count() > before + 2);
        run.kill();
    });
}
