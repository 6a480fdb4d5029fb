//! Simulations and predictions as people ask for them: the lines that scripts read, and what is said about bad input.

use crate::space;

const TRACE: &str = "job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,0,4,5\nc,1,1,3\n";

#[test]
fn a_trace_gives_a_line_a_policy() {
    let space = space();
    space.write("jobs.csv", TRACE);
    let json = space.flow(["simulate", "--trace", "jobs.csv", "--gpus", "1x4", "--policy", "fifo,srtf", "--json"]);
    insta::assert_snapshot!(json.expect(0).stdout(), @r#"
    {"policy":"fifo","jobs":3,"makespan_s":18.0,"mean_time_in_system_s":14.0,"mean_waiting_s":8.0,"p50_time_in_system_s":15.0,"p99_time_in_system_s":17.0,"gpu_utilisation":0.4583333333333333}
    {"policy":"srtf","jobs":3,"makespan_s":15.0,"mean_time_in_system_s":8.666666666666666,"mean_waiting_s":2.6666666666666665,"p50_time_in_system_s":8.0,"p99_time_in_system_s":15.0,"gpu_utilisation":0.55}
    "#);
    let table = space.flow(["simulate", "--trace", "jobs.csv", "--gpus", "2x2", "--policy", "fit"]);
    insta::assert_snapshot!(table.expect(0).stdout(), @r"
    3 jobs on 4 GPUs: jobs.csv
      policy  makespan  mean JCT  median JCT  P99 JCT  mean waiting  GPU allocation
      fit     TIME      TIME     TIME        TIME     TIME         55.0%
    ");
    space.flow(["simulate", "--trace", "jobs.csv", "--gpus", "1x4", "--chart", "s.svg"]).expect(0);
    assert!(space.read("s.svg").contains("GPU 3"));
}

#[test]
fn jobs_go_through_slurm() {
    let space = space();
    let mut trace = "job_id,submit_s,num_gpus,duration_s\n".to_owned();
    (0..1000).for_each(|n| trace += &format!("j{n},0,1,60\n"));
    space.write("jobs.csv", &trace);
    let asked = ["simulate", "--trace", "jobs.csv", "--gpus", "10x10"];
    let table = space.flow([&asked[..], &["--policy", "fifo", "--slurm", "queue=50,delay_s=20"]].concat());
    insta::assert_snapshot!(table.expect(0).stdout(), @r"
    1,000 jobs on 100 GPUs: jobs.csv
      policy  makespan     mean JCT     median JCT   P99 JCT      mean waiting  GPU allocation
      fifo    TIME TIME  TIME TIME  TIME TIME  TIME TIME  TIME TIME   35.8%
    fifo: 20 calls of sbatch, at most 50 jobs in the queue; each waited there TIME on average
      GPUs idle for 60.8%: flow's limit of jobs in the queue was reached (queue)
      GPUs idle for 3.4%: jobs waited for Slurm's next cycle (tick_s, rate)
    assumed, not measured: queue=50,array=1001,jobs=10000,remembered_s=300,delay_s=20,tick_s=3,rate=40,submit_s=0.01,notice_s=1
    ");
    let json = space.flow([&asked[..], &["--policy", "fifo", "--slurm", "default", "--json"]].concat());
    insta::assert_snapshot!(json.expect(0).stdout(), @r#"{"policy":"fifo","jobs":1000,"makespan_s":603.0,"mean_time_in_system_s":334.0,"mean_waiting_s":274.0,"p50_time_in_system_s":364.0,"p99_time_in_system_s":604.0,"gpu_utilisation":0.9950248756218906,"slurm":{"calls":9,"most_in_queue":200,"mean_wait_s":53.8,"idle":{"tick":0.004958540630182421,"queue":0.00001658374792703151}}}"#);
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'true', gpus: 1, matrix: {n: [1, 2]}}}\n");
    let workflow = ["simulate", "-w", "w.yaml", "--gpus", "4 x H100, 80000 MiB", "--cpus", "2", "--slurm", "default"];
    insta::assert_snapshot!(space.flow([&workflow[..], &["--nodes", "2"]].concat()).expect(0).text(), @r"
    w, 2 instances on 4 × H100, 2 CPUs
      policy         makespan  mean JCT  median JCT  P99 JCT  mean waiting  GPU allocation
      critical-path  TIME     TIME     TIME       TIME    TIME         0.0%
    critical-path: 1 call of sbatch, at most 2 jobs in the queue; each waited there TIME on average
      GPUs idle for 99.7%: jobs waited for Slurm's next cycle (tick_s, rate)
      GPUs idle for 0.3%: jobs were being submitted (submit_s)
    assumed, not measured: queue=200,array=1001,jobs=10000,remembered_s=300,delay_s=0,tick_s=3,rate=40,submit_s=0.01,notice_s=1
    note: 2 instances never ran with these parameters and take no time here; the first is a[n=1]
    ");
    let wrong = [
        space.flow([&workflow[..], &["--nodes", "3"]].concat()).expect(2).stderr(),
        space.flow(["simulate", "-w", "w.yaml", "--slurm", "default"]).expect(2).stderr(),
        space.flow([&asked[..], &["--slurm", "queu=1"]].concat()).expect(2).stderr(),
        space.flow([&asked[..], &["--slurm", "default", "--policy", "srtf"]].concat()).expect(1).stderr(),
    ];
    insta::assert_snapshot!(wrong.join(""), @"
    error: 4 GPUs cannot be divided equally among 3 nodes
    error: --slurm needs --gpus to know the GPUs of the nodes
    hint: for example --gpus '64 x H100, 80000 MiB' --nodes 8; `flow hw --on slurm` shows a cluster's hardware
    error: invalid value 'queu=1' for '--slurm <LIST>': Slurm has no `queu` here; there are queue, array, jobs, remembered_s, delay_s, tick_s, rate, submit_s, notice_s

    For more information, try '--help'.
    error: policy `srtf`: policy `srtf` takes jobs off their GPUs, which flow cannot do on Slurm
    ");
}

#[test]
fn bad_input_is_told_with_its_line_and_the_way_out() {
    let space = space();
    space.write("jobs.csv", TRACE);
    space.write("bad.csv", "job_id,submit_s,num_gpus\na,0,1\n");
    let said = |arguments: &[&str]| {
        let words = ["simulate"].iter().chain(arguments).copied().collect::<Vec<_>>();
        space.flow(words).expect(2).stderr()
    };
    let all = [
        said(&["--trace", "bad.csv", "--gpus", "1x4"]),
        said(&["--trace", "jobs.csv", "--gpus", "1x2"]),
        said(&["--trace", "jobs.csv", "--gpus", "1x4", "--policy", "fifo-single"]),
        said(&["--trace", "jobs.csv", "--gpus", "four", "--policy", "fifo"]),
        said(&["--trace", "jobs.csv", "--gpus", "1x4", "--policy", "srft"]),
    ];
    insta::assert_snapshot!(all.join(""), @r"
    error: bad.csv:1: there is no column `duration_s`
    hint: the first line names job_id, submit_s, num_gpus; a trace has job_id,submit_s,num_gpus,duration_s
    error: jobs.csv:3: job b asks for 4 GPUs, and there are 2
    hint: give more with --gpus NODESxGPUS, or leave the job out
    error: jobs.csv:3: job b asks for 4 GPUs, and policy `fifo-single` runs one GPU a job
    hint: use `fifo`, or leave such jobs out
    error: `four` is not a cluster; expected NODESxGPUS, such as 8x8, with at most 100000 GPUs
    error: there is no policy `srft`; did you mean `srtf`?
    ");
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'true', gpus: 0}}\n");
    let live = space.flow(["run", "w.yaml", "--policy", "las"]).expect(2).stderr();
    insta::assert_snapshot!(live, @"error: policy `las` takes running steps off their GPUs, which nothing but a simulation can do; use one that does not, or `flow simulate`");
}

#[test]
fn a_simulation_is_a_step_like_others() {
    let space = space();
    space.write(
        "s.yaml",
        "flow: 1\nsteps:\n  s:\n    matrix: {policy: [fifo, sjf]}\n    uses: flow/simulate\n    with: {gpus: 1x2, policy: '${{ policy }}', \
         density: 0.9, jobs: 40, seeds: 2, mix: [{name: a, duration_s: 60, spread: 1}]}\n  t:\n    uses: flow/table\n    \
         with: {from: s, rows: policy, columns: [time_in_system, gpu_use]}\n  r:\n    uses: flow/report\n    with:\n      \
         languages: [en, zh]\n      sections: [{table: t, schedules: [{from: s, where: {policy: sjf}}]}]\n\
         publish: [{from: r, to: r.md}]\n",
    );
    space.flow(["run", "s.yaml"]).expect(0);
    let report = space.read("r.md");
    assert!(
        report.contains("](r/schedule-1.en.svg)\\\nSchedule of `s[policy=sjf]` in the first of 2 simulations"),
        "{report}"
    );
    let (picture, chinese) = (space.read("r/schedule-1.en.svg"), space.read("r/schedule-1.zh.svg"));
    assert!(picture.contains("GPU 1") && !picture.contains("排队作业数"), "{picture}");
    assert!(chinese.contains("排队作业数"), "{chinese}");
    assert!(!report.contains("AMD") && !report.contains("GPU: "), "it was simulated, on no machine: {report}");
    let again = space.flow(["run", "s.yaml"]).expect(0).text();
    assert!(again.contains("nothing to do") || again.contains("cached"), "{again}");
    let shown = space.flow(["show", "-w", "s.yaml", "s[policy=sjf]"]).expect(0).stdout();
    assert!(shown.contains("time_in_system_p99"), "{shown}");
}

#[test]
fn what_ran_predicts_what_did_not() {
    let space = space();
    space.write(
        "w.yaml",
        "flow: 1\nparams: {sizes: [10, 20, 40]}\nsteps:\n  a: {run: 'sleep 0.${{ n }}', matrix: {n: '${{ sizes }}'}}\n",
    );
    let before = space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(before.contains("the total time is unknown"), "{before}");
    space.flow(["run", "w.yaml"]).expect(0);
    let plan = space.flow(["plan", "w.yaml", "--set", "sizes=[10, 30]"]).expect(0).stdout();
    // Of the three, those that nothing disturbed, as far as these suffice: on a busy machine they may be fewer.
    assert!(plan.contains("runs of its step at other points of `n`") && plan.contains("it takes about"), "{plan}");
    let predicted = space.flow(["predict", "-w", "w.yaml", "a/n=30", "--json"]).expect(0).stdout();
    let value: serde_json::Value = serde_json::from_str(&predicted).unwrap();
    let [low, wall, high] = ["wall_low_s", "wall_s", "wall_high_s"].map(|key| value[key].as_f64().unwrap());
    assert!(value["instance"] == "a[n=30]" && low < wall && wall < high, "{predicted}");
    // After a change one run tells of all its points.
    space.write("w.yaml", &space.read("w.yaml").replace("sleep 0.", "sleep 2."));
    let before = space.flow(["predict", "-w", "w.yaml", "a[n=20]"]).expect(0).stdout();
    assert!(before.contains("(1 run of this instance, of another version of it)"), "{before}");
    space.flow(["run", "w.yaml", "a[n=20]"]).expect(0);
    let predicted = space.flow(["predict", "-w", "w.yaml", "a[n=40]", "--json"]).expect(0).stdout();
    let value: serde_json::Value = serde_json::from_str(&predicted).unwrap();
    let is_changed = value["source"].as_str().is_some_and(|source| source.contains("some of another version of it"));
    assert!(is_changed && value["wall_s"].as_f64().unwrap() > 1.5, "{predicted}");
    space.write("w.yaml", &space.read("w.yaml").replace("sleep 2.", "sleep 0."));
    let predicted = space.flow(["predict", "-w", "w.yaml", "a/n=30", "--json"]).expect(0).stdout();
    let value: serde_json::Value = serde_json::from_str(&predicted).unwrap();
    assert!(value["wall_s"].as_f64().unwrap() < 1.5, "taken back: {predicted}");
    let unnamed = space.flow(["predict", "-w", "w.yaml"]).expect(2).text();
    assert!(unnamed.contains("name a step") && unnamed.contains("this workflow has a"), "{unnamed}");
    let whole = space.flow(["simulate", "-w", "w.yaml", "--cpus", "1", "--json"]).expect(0).stdout();
    assert!(whole.contains("\"jobs\":3"), "{whole}");
}
