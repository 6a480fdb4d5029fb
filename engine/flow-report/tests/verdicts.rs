//! Co-run groups in reports: published experiments get the verdict of their notes, and what cannot be judged says why.

mod common;

use common::{With, add_table, feb08, input, number, published, result, run, text, view};
use flow_core::reason::Spoiled;
use flow_core::{CorunGpus, Outcome};
use serde_json::json;

/// Published figures of one co-run experiment: (batch, GPUs, alone, together, CPU use alone, GPU memory in MiB).
type Member = (u32, usize, f64, f64, Option<f64>, Option<f64>);

/// The report on a group of them.
fn judged(
    group: &str,
    gpus: CorunGpus,
    members: &[Member],
    change: impl Fn(&mut Vec<flow_core::StepResult>),
) -> String {
    let point = |step: &str, m: &Member| result(step, &[("batch", json!(m.0))], m.1);
    let alone = members.iter().map(|m| {
        let result = point("solo", m).epoch_time(m.2).gpu_memory(m.5.unwrap_or(0.0));
        m.4.map_or(result.clone(), |cpu| result.cpu_util(cpu))
    });
    let mut together: Vec<_> = members
        .iter()
        .map(|m| point("together", m).epoch_time(m.3).corun(group, gpus, members.len() as u32, 2))
        .collect();
    change(&mut together);
    let mut input = input(vec![
        ("solo", view("torch/train", None, alone.collect())),
        ("together", view("torch/train", Some("solo"), together)),
    ]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    let with = json!({"sections": [{"table": "t", "corun": "together"}]});
    let out = run("report", with, &input).expect("a report");
    let report = text(&out, "report.md");
    report.lines().filter(|line| line.starts_with("- Together")).collect::<Vec<_>>().join("\n")
}

fn per_gpu(version: &str, factor: Option<f64>) -> Vec<Member> {
    let solo = published(include_str!("published/feb08-mobilenet_v2-per-gpu.csv"));
    let together = published(include_str!("published/feb08-together.csv"));
    let of = together.iter().filter(|row| row["run"] == "own-gpus" && row["dataset"] == version).map(|row| {
        let alone = solo.iter().find(|s| s["batch"] == row["batch"]).expect("a run alone");
        let time = number(row, "epoch_solo_s").expect("a time");
        assert_eq!(number(alone, &format!("epoch_{version}_s")), Some(time));
        let slowed = number(row, "epoch_together_s").or(factor.map(|f| f * time)).expect("a time");
        let cpu = number(alone, &format!("cpu_util_{version}_pct")).map(|c| c / 100.0);
        (
            row["batch"].parse().unwrap(),
            row["gpus"].parse().unwrap(),
            time,
            slowed,
            cpu,
            number(alone, "mem_per_gpu_mib"),
        )
    });
    of.collect()
}

#[test]
fn published_experiments_get_the_verdicts_of_their_notes() {
    let shared: Vec<Member> = published(include_str!("published/feb08-together.csv"))
        .iter()
        .filter(|row| row["run"] == "4gpu-shared")
        .map(|row| {
            let n = |name| number(row, name).expect("a number");
            (n("batch") as u32, 4, n("epoch_solo_s"), n("epoch_together_s"), None, None)
        })
        .collect();
    insta::assert_snapshot!(judged("A2", CorunGpus::Shared, &shared, |_| ()), @"- Together (A2): **only concurrent**. Each member takes 99 % to 160 % longer than alone, yet together they do 1.34× the work of one after another. No figures for CPU, GPU, GPU memory, GPU memory traffic and waiting for data.");
    insta::assert_snapshot!(judged("A3", CorunGpus::Own, &per_gpu("v7", None), |_| ()), @"- Together (A3): **only concurrent**. Each member takes 76 % to 152 % longer than alone, yet together they do 1.51× the work of one after another. What limits them: CPU (197 % asked for). Ruled out: GPU, GPU memory and GPU memory traffic (each has its own). No figures for waiting for data.");
    // The notes give no figure for v11: as fast as alone.
    insta::assert_snapshot!(judged("A4", CorunGpus::Own, &per_gpu("v11", Some(1.0)), |_| ()), @"- Together (A4): **parallel**. No member is slower than alone. Enough for all: CPU (66 % asked for) and GPU, GPU memory and GPU memory traffic (each has its own).");
    let two: Vec<Member> = published(include_str!("published/feb13-mobilenet_v3_large-v11.csv"))
        .iter()
        .filter_map(|row| {
            let together = number(row, "epoch_two_on_one_gpu_s")?;
            let cpu = number(row, "cpu_util_v11_pct").map(|c| c / 100.0);
            Some((
                row["batch"].parse().ok()?,
                1,
                number(row, "epoch_s")?,
                together,
                cpu,
                number(row, "mem_per_gpu_mib"),
            ))
        })
        .collect();
    insta::assert_snapshot!(judged("A5", CorunGpus::Shared, &two, |_| ()), @"- Together (A5): **only concurrent**. Each member takes 51 % to 70 % longer than alone, yet together they do 1.25× the work of one after another. Ruled out: CPU (40 % asked for) and GPU memory (48 % asked for). No figures for GPU, GPU memory traffic and waiting for data.");
}

#[test]
fn groups_that_cannot_be_judged_say_why() {
    let members = per_gpu("v7", None);
    let judge = |change: fn(&mut Vec<flow_core::StepResult>)| judged("g", CorunGpus::Own, &members, change);
    let told = [
        judge(|m| m[0].circumstances.cpus = 2),
        judge(|m| m[0].circumstances.gpu_models = vec!["NVIDIA H200".into()]),
        judge(|m| m[1].outcome = Outcome::OutOfMemory),
        judge(|m| m[1].outcome = Outcome::TimedOut),
        judge(|m| m[2].spoiled = vec![Spoiled::Said { text: "another process used the GPU".into() }]),
        judge(|m| m[2].circumstances.corun.as_mut().expect("a window").epochs = 0),
        judge(|m| m[0].axes["batch"] = json!(48)),
        judge(|m| m.truncate(1)),
        judge(|m| m[1] = m[1].clone().cpu_util(0.3).foreign_cpu(0.25)),
        judge(|m| *m = m.drain(..).map(|r| r.noisy("epoch_time", 17.0, "s", 3.0, 3)).collect()),
        judge(|m| *m = m.drain(..).map(|r| r.noisy("epoch_time", 43.0, "s", 2.0, 3)).collect()),
        judge(|m| *m = m.drain(..).map(|r| r.epoch_time(60.0)).collect()),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    - Together (g): **not compared**. `together[batch=32]` and its run alone are not alike (CPUs: 2 against 4).
    - Together (g): **not compared**. `together[batch=32]` and its run alone are not alike (GPU model: NVIDIA H200 against NVIDIA TITAN Xp).
    - Together (g): **out of memory**. `together[batch=64]` ran out of memory beside the others.
    - Together (g): **not compared**. `together[batch=64]` has no result (timed out).
    - Together (g): **not compared**. `together[batch=128]` is not to be trusted: another process used the GPU.
    - Together (g): **not enough overlap**. `together[batch=128]` has no epoch while all members were running.
    - Together (g): **not compared**. `together[batch=32]` has no run alone to compare with.
    - Together (g): **not compared**. The group has one member, and nothing ran beside it.
    - Together (g): **too noisy to say**. Other programs used 25.0 % of the CPU while `together[batch=64]` ran.
    - Together (g): **too noisy to say**. Whether the members are slower than alone (5 % to 50 %) is within the noise.
    - Together (g): **too noisy to say**. The members take 165 % to 281 % longer than alone; whether that is more or less work than one after another (1.00×) is within the noise. What limits them: CPU (197 % asked for). Ruled out: GPU, GPU memory and GPU memory traffic (each has its own). No figures for waiting for data.
    - Together (g): **slower than one after another**. The members take 270 % to 431 % longer than alone and do 0.72× the work of one after another. What limits them: CPU (197 % asked for). Ruled out: GPU, GPU memory and GPU memory traffic (each has its own). No figures for waiting for data.
    "#);
}

#[test]
fn one_measurement_each_decides_nothing_by_a_hair() {
    let of = |one: f64, other: f64| {
        let members = [(16, 0, 10.0, one, None, None), (32, 0, 10.0, other, None, None)];
        judged("pair", CorunGpus::Shared, &members, |_| {})
    };
    let told = [of(19.98, 19.99), of(20.02, 20.03), of(17.0, 17.0), of(9.5, 15.0)].join("\n");
    let sentences: Vec<&str> = told.lines().filter(|line| line.contains("pair")).collect();
    insta::assert_snapshot!(sentences.join("\n"), @r"
        - Together (pair): **too noisy to say**. The members take 100 % longer than alone; whether that is more or less work than one after another (1.00×) is within the noise. No figures for CPU and waiting for data.
        - Together (pair): **too noisy to say**. The members take 100 % longer than alone; whether that is more or less work than one after another (1.00×) is within the noise. No figures for CPU and waiting for data.
        - Together (pair): **only concurrent**. Each member takes 70 % longer than alone, yet together they do 1.18× the work of one after another. No figures for CPU and waiting for data.
        - Together (pair): **only concurrent**. Each member takes up to 50 % longer than alone, yet together they do 1.72× the work of one after another. No figures for CPU and waiting for data.
        ");
}

#[test]
fn what_ran_beside_others_is_no_run_alone() {
    let mut input = feb08::with_gpus();
    let solo = &mut input.steps["solo"].results;
    for result in solo.iter_mut() {
        result.circumstances.mode = flow_core::Mode::Plain;
        result.circumstances.corunners = vec!["solo[version=v7,batch=16]".into(), "other".into()];
    }
    let report = text(&run("report", feb08::with(), &input).expect("a report"), "report.md");
    let told: Vec<&str> = report.lines().filter(|l| l.contains("not compared") || l.contains("不作比较")).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    | v7         | its own each / 各用各的 | not compared / 不作比较 |                                                     — |
    | v11        | its own each / 各用各的 | not compared / 不作比较 |                                                     — |
    - Together (v7): **not compared**. `solo[version=v7,batch=32]`, which was to be the run alone, ran beside `solo[version=v7,batch=16]` and `other`; `exclusive: true` keeps others away.
    - Together (v11): **not compared**. `solo[version=v11,batch=32]`, which was to be the run alone, ran beside `solo[version=v7,batch=16]` and `other`; `exclusive: true` keeps others away.
    * 同时运行（v7）：**不作比较**。本应单独运行的 `solo[version=v7,batch=32]` 与 `solo[version=v7,batch=16]` 和 `other` 同时运行；`exclusive: true` 可使其独占机器。
    * 同时运行（v11）：**不作比较**。本应单独运行的 `solo[version=v11,batch=32]` 与 `solo[version=v7,batch=16]` 和 `other` 同时运行；`exclusive: true` 可使其独占机器。
    "#);
}
