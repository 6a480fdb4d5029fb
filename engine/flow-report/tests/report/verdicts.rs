//! Co-run groups in reports: published experiments get the verdict of their notes, and a group that cannot be judged
//! says why.

use crate::common::{ResultExt, add_table, feb08, honest, input, number, published, result, run, text, view};
use flow_core::reason::Disturbance;
use flow_core::{CorunGpus, Outcome};
use serde_json::json;

/// Published figures of one co-run experiment: (batch, GPUs, alone, together, CPU use alone, GPU memory in MiB).
type Member = (u32, usize, f64, f64, Option<f64>, Option<f64>);

/// The verdict sentences of the report on a group of members.
fn judged(
    group: &str,
    gpus: CorunGpus,
    members: &[Member],
    change: impl Fn(&mut Vec<flow_core::StepResult>),
) -> String {
    let report = reported(group, gpus, members, change);
    report.lines().filter(|line| line.starts_with("- Together")).collect::<Vec<_>>().join("\n")
}

/// The report on a group of members.
fn reported(
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
    text(&run("report", with, &input).expect("a report"), "report.md")
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
    insta::assert_snapshot!(judged("A2", CorunGpus::Shared, &shared, |_| ()), @"- Together (A2): **only concurrent**. The members take 1.99 to 2.60 times as long as alone, yet together they do 1.34 ± 0.21 times the work of one after another. No figures for CPU, GPU, GPU memory, memory controller and waiting for data.");
    insta::assert_snapshot!(judged("A3", CorunGpus::Own, &per_gpu("v7", None), |_| ()), @"- Together (A3): **only concurrent**. The members take 1.76 to 2.52 times as long as alone, yet together they do 1.51 ± 0.24 times the work of one after another. Limiting: CPU (demand 197%). Not limiting: GPU, GPU memory and memory controller (own GPUs). No figures for waiting for data.");
    // The notes have no figure for v11, only that it is as fast as alone.
    insta::assert_snapshot!(judged("A4", CorunGpus::Own, &per_gpu("v11", Some(1.0)), |_| ()), @"- Together (A4): **parallel**. No member is measurably slower than alone. Enough for all: CPU (demand 66%); GPU, GPU memory and memory controller (own GPUs).");
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
    insta::assert_snapshot!(judged("A5", CorunGpus::Shared, &two, |_| ()), @"- Together (A5): **only concurrent**. The members take 51% to 70% longer than alone, yet together they do 1.25 ± 0.24 times the work of one after another. Not limiting: CPU (demand 40%) and GPU memory (demand 48%). No figures for GPU, memory controller and waiting for data.");
}

#[test]
fn an_answer_says_how_many_groups_it_leaves_out() {
    let names = ["a", "b", "c", "d"];
    let point = |step: &str, name: &str, batch: u32| {
        result(step, &[("dataset", json!(name)), ("batch", json!(batch))], 1).epoch_time(f64::from(batch))
    };
    let points = || names.iter().flat_map(|name| [8, 16].map(|batch| (*name, batch)));
    let alone = points().map(|(name, batch)| point("solo", name, batch)).collect();
    let together =
        points().map(|(name, batch)| point("together", name, batch).corun(name, CorunGpus::Shared, 2, 2)).collect();
    let mut input = input(vec![
        ("solo", view("torch/train", None, alone)),
        ("together", view("torch/train", Some("solo"), together)),
    ]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "split": "dataset", "columns": ["epoch_time"]}));
    let with = json!({"sections": [{"table": "t", "corun": "together"}]});
    let entry = text(&run("report", with, &input).expect("a report"), "entry.md");
    assert!(entry.contains("1 more verdict in the report."), "{entry}");
}

#[test]
fn no_more_of_the_cpus_is_said_to_be_used_than_there_is() {
    // The sum over three slightly different windows.
    let used = |together: &mut Vec<flow_core::StepResult>| {
        together.iter_mut().for_each(|member| *member = member.clone().cpu_util(0.338));
    };
    let told = judged("A3", CorunGpus::Own, &per_gpu("v7", None), used);
    assert!(told.contains("CPU (demand 197%, used 100%)"), "{told}");
}

#[test]
fn more_work_than_the_cpus_allow_is_noise_or_undecided() {
    // Each of the three uses one of two CPUs alone.
    let told = |alone: [f64; 3]| {
        let point = |step: &str, n: u32| result(step, &[("batch", json!(n))], 0).on_cpu();
        let solo = alone.iter().zip(1..).map(|(time, n)| point("solo", n).epoch_time(*time).cpu_util(0.5));
        let members = (1..4).map(|n| point("together", n).epoch_time(1.2).corun("g", CorunGpus::Shared, 3, 2));
        let mut input = input(vec![
            ("solo", view("torch/train", None, solo.collect())),
            ("together", view("torch/train", Some("solo"), members.collect())),
        ]);
        add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
        let report = run("report", json!({"sections": [{"table": "t", "corun": "together"}]}), &input);
        let report = text(&report.expect("a report"), "report.md");
        report.lines().filter(|line| line.starts_with("- Together")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(told([0.8, 0.8, 0.96]), @"- Together (g): **only concurrent**. The members take 25% to 50% longer than alone, yet together they do 2.13 ± 0.33 times the work of one after another. These CPUs allow at most 2.00 times the work, so the rest of the measured gain is noise. Limiting: CPU (demand 150%). No figures for waiting for data.");
    // One run alone was slow by accident.
    insta::assert_snapshot!(told([0.84, 1.0, 2.13]), @"- Together (g): **undecided**. The members take from 44% less to 43% longer than alone; the throughput relative to one after another (3.31 ± 0.56 times) is more than the CPUs allow. These CPUs allow at most 2.00 times the work, so the rest of the measured gain is noise. 1 run of each does not decide it; if the times stay as they are, about 1 more would: `repeat: {until: decided, at_most: 2}`. Limiting: CPU (demand 150%). No figures for waiting for data.");
}

#[test]
fn the_time_of_a_whole_run_is_not_shown_as_an_epoch() {
    let point = |step: &str, version: &str, n: u32| result(step, &[("v", json!(version)), ("n", json!(n))], 0).on_cpu();
    // Nothing is known of the epochs of b.
    let timed = |mut of: flow_core::StepResult, version: &str, time: f64| {
        of.usage.wall_s = Some(5.0 * time);
        if version == "b" { of } else { of.epoch_time(time) }
    };
    let all = || ["a", "b"].into_iter().flat_map(|version| [1, 2].map(|n| (version, n)));
    let solo = all().map(|(version, n)| timed(point("solo", version, n), version, 0.5));
    let members = all()
        .map(|(version, n)| timed(point("together", version, n), version, 0.8).corun(version, CorunGpus::Shared, 2, 2));
    let mut input = input(vec![
        ("solo", view("torch/train", None, solo.collect())),
        ("together", view("torch/train", Some("solo"), members.collect())),
    ]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "n", "split": "v", "columns": ["epoch_time"]}));
    let report = run("report", json!({"sections": [{"table": "t", "corun": "together"}]}), &input);
    let report = text(&report.expect("a report"), "report.md");
    let times = |of: &str| {
        let rows = report.lines().filter(|line| line.starts_with(&format!("| {of}   |   ")));
        rows.map(|row| row.split('|').skip(3).take(2).map(str::trim).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!([times("a"), times("b")], [["500 800"; 2], ["— —"; 2]], "{report}");
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
        judge(|m| m[2].disturbances = vec![Disturbance::OtherRuns { attempts: 2 }]),
        judge(|m| m[2].circumstances.corun.as_mut().expect("a window").epochs = 0),
        judge(|m| {
            m.iter_mut().for_each(|r| r.metrics.clear());
            m[0].usage.earlier = Some(flow_core::EarlierUsage { jobs: 1, ..flow_core::EarlierUsage::default() });
        }),
        judge(|m| m[0].axes["batch"] = json!(48)),
        judge(|m| m.truncate(1)),
        judge(|m| m[1] = m[1].clone().cpu_util(0.3).foreign_cpu(0.25)),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    - Together (g): **not compared**. `together[batch=32]` and its run alone had different conditions (CPUs: 2 against 4).
    - Together (g): **not compared**. `together[batch=32]` and its run alone had different conditions (GPU model: NVIDIA H200 against NVIDIA TITAN Xp).
    - Together (g): **out of memory**. `together[batch=64]` ran out of memory in the group.
    - Together (g): **not compared**. `together[batch=64]` has no result (timed out).
    - Together (g): **not compared**. `together[batch=128]` is not reliable: it required the whole machine, but other runs had steps on it, up to 2 at once.
    - Together (g): **not enough overlap**. `together[batch=128]` has no epoch while all members were running: more epochs help.
    - Together (g): **not compared**. `together[batch=32]` has no epochs to compare. Its wall time covers several start-ups, because it resumed from a checkpoint.
    - Together (g): **not compared**. `together[batch=32]` has no run alone to compare with.
    - Together (g): **not compared**. The group has only one member, so nothing ran alongside it.
    - Together (g): **undecided**. Other programs used 25.0% of the CPU while `together[batch=64]` ran.
    ");
}

#[test]
fn where_the_first_run_of_a_group_cannot_be_compared_the_later_ones_are() {
    let told = judged("g", CorunGpus::Own, &per_gpu("v7", None), |m| {
        let mut again = m.clone();
        for run in &mut again {
            run.label = run.label.replace(']', ",repetition=1]");
            run.repetition = Some(1);
        }
        m[1].outcome = Outcome::TimedOut;
        m.extend(again);
    });
    insta::assert_snapshot!(told, @"- Together (g): **only concurrent**. The members take 1.76 to 2.52 times as long as alone, yet together they do 1.51 ± 0.28 times the work of one after another. Each was measured 2 times, alone and together; only 1 counts, and the figures are from that one. `together[batch=64]` has no result (timed out). Limiting: CPU (demand 197%). Not limiting: GPU, GPU memory and memory controller (own GPUs). No figures for waiting for data.");
}

#[test]
fn one_measurement_each_decides_nothing_by_a_hair() {
    let of = |one: f64, other: f64| {
        let members = [(16, 0, 10.0, one, None, None), (32, 0, 10.0, other, None, None)];
        judged("pair", CorunGpus::Shared, &members, |_| {})
    };
    let told = [of(19.98, 19.99), of(9.5, 15.0), of(9.5, 11.3), of(10.2, 10.8)].join("\n");
    let sentences: Vec<&str> = told.lines().filter(|line| line.contains("pair")).collect();
    insta::assert_snapshot!(sentences.join("\n"), @r"
    - Together (pair): **undecided**. The members take 2.00 times as long as alone; the throughput relative to one after another (1.00 ± 0.19 times) does not differ from 1 by more than noise. 1 run of each does not decide it; if the times stay as they are, about 2 more would: `repeat: {until: decided, at_most: 3}`. No figures for CPU and waiting for data.
    - Together (pair): **only concurrent**. The members take from 5% less to 50% longer than alone, yet together they do 1.72 ± 0.33 times the work of one after another. No figures for CPU and waiting for data.
    - Together (pair): **undecided**. The difference from the runs alone (between −5% ± 5% and +13% ± 6%) is within the noise. 1 run of each does not decide it; if the times stay as they are, about 19 more would: `repeat: {until: decided, at_most: 20}`.
    - Together (pair): **parallel**. The slowest member, relative to its run alone, takes 8% ± 6% longer, within the tolerance of 10%.
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
    insta::assert_snapshot!(told.join("\n"), @r"
    | v7    | own GPUs | not compared |                                        — |
    | v11   | own GPUs | not compared |                                        — |
    - Together (v7): **not compared**. `solo[version=v7,batch=32]` should have run alone, but ran alongside `solo[version=v7,batch=16]` and `other`; `exclusive: true` prevents that.
    - Together (v11): **not compared**. `solo[version=v11,batch=32]` should have run alone, but ran alongside `solo[version=v7,batch=16]` and `other`; `exclusive: true` prevents that.
    | v7  | 各自独占 | 不作比较 |                    — |
    | v11 | 各自独占 | 不作比较 |                    — |
    - 同时运行（v7）：**不作比较**。本应单独运行的 `solo[version=v7,batch=32]` 与 `solo[version=v7,batch=16]` 和 `other` 同时运行；`exclusive: true` 可使其独占机器。
    - 同时运行（v11）：**不作比较**。本应单独运行的 `solo[version=v11,batch=32]` 与 `solo[version=v7,batch=16]` 和 `other` 同时运行；`exclusive: true` 可使其独占机器。
    ");
}

#[test]
fn what_was_repeated_is_shown_with_how_sure_it_is_and_predicted_from_all_runs() {
    let runs = |step: &str, times: [f64; 2], n: u32| {
        [(16, times[0]), (32, times[1])].map(|(batch, time)| {
            let mut run = result(step, &[("batch", json!(batch))], 0).epoch_time(time).cpu_util(0.2);
            run.usage.rss_peak = Some(8 << 30);
            run.repetition = (n > 0).then_some(n);
            run.label += &format!(" {n}");
            if step == "solo" { run } else { run.corun("pair", CorunGpus::Shared, 2, 3) }
        })
    };
    let step = |step: &str, like: Option<&str>, times: [[f64; 2]; 3]| flow_core::StepView {
        again: (1..3).flat_map(|n| runs(step, times[n as usize], n)).collect(),
        ..view("torch/train", like, runs(step, times[0], 0).into())
    };
    let mut input = input(vec![
        ("solo", step("solo", None, [[10.04, 10.1], [9.8, 10.0], [9.7, 9.9]])),
        ("pair", step("pair", Some("solo"), [[17.0, 16.0], [17.2, 16.1], [16.9, 16.3]])),
    ]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t", "corun": "pair"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    let told = ["- Together", "- 同时", "|                  16", "|                  32", "| Sum", "| pair"];
    let told: Vec<&str> = report.lines().filter(|line| told.iter().any(|start| line.starts_with(start))).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    | Sum of pair |   40.0% |        16384 |
    | pair  | only concurrent |                             1.20× ± 0.03 |                                          3 |                  40% → 40% |                          25% → 25% |
    - Together (pair): **only concurrent**. The members take between 61% ± 7% and 73% ± 7% longer than alone, yet together they do 1.20 ± 0.03 times the work of one after another. Each was measured 3 times, alone and together. Not limiting: CPU (demand 40%, used 40%) and host memory (demand 25%, used 25%). No figures for waiting for data.
    | pair 合计 |      40.0% |      16384 |
    | pair | 仅并发 |         1.20× ± 0.03 |                      3 |             40% → 40% |                 25% → 25% |
    - 同时运行（pair）：**仅并发**。各任务用时比单独运行增加 61% ± 7% 至 73% ± 7%，但合计吞吐量是串行执行的 1.20 ± 0.03 倍。单独与同时运行各测量 3 次。非瓶颈：CPU（总需求 40%，实际占用 40%）和主机内存（总需求 25%，实际占用 25%）。未测得：等待数据。
    ");
}

#[test]
fn what_sharing_cost_before_is_predicted_with() {
    let report = |known: Option<f64>| {
        let of = |step: &str, time: f64| {
            [16, 32].map(|batch| {
                let run = result(step, &[("batch", json!(batch))], 1).epoch_time(time).cpu_util(0.05);
                run.gpu_load(0.9, 0.3)
            })
        };
        let together = of("pair", 16.0).map(|run| {
            let mut run = run.corun("pair", CorunGpus::Shared, 2, 3);
            run.circumstances.corun.as_mut().expect("a window").interference = known;
            run
        });
        let mut input = input(vec![
            ("solo", view("torch/train", None, of("solo", 10.0).into())),
            ("pair", view("torch/train", Some("solo"), together.into())),
        ]);
        add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t", "corun": "pair"}]});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        honest(&report);
        report
    };
    // Above 100%, they demand 80% more.
    let (before, never) = (report(Some(0.5)), report(None));
    assert!(before.contains("14.0 |") && never.contains("18.0 |"), "{before}{never}");
    assert!(before.contains("On this GPU model, flow measured earlier: 0.50 (pair)."), "{before}");
    assert!(before.contains("系数为 0.50（pair）"), "{before}");
    assert!(never.contains("is taken as 1") && never.contains("系数取 1"), "{never}");
}

#[test]
fn what_was_not_full_while_all_ran_does_not_limit() {
    // feb08 on one H200: batch size, seconds alone and together, CPU use alone and together.
    let figures = [(32, 6.67, 21.60, 0.340, 0.104), (64, 5.67, 18.74, 0.376, 0.119), (128, 5.27, 17.17, 0.377, 0.127)];
    let of = |step: &str, batch: u32, time: f64, cpu: f64, wait: f64, load: (f64, f64)| {
        let result =
            result(step, &[("batch", json!(batch))], 1).epoch_time(time).cpu_util(cpu).gpu_load(load.0, load.1);
        result.metric("data_wait", wait * time, "s")
    };
    let alone = figures.map(|(batch, alone, _, cpu, _)| of("solo", batch, alone, cpu, 0.07, (0.983, 0.453)));
    let together = figures.map(|(batch, _, time, _, cpu)| {
        of("trio", batch, time, cpu, 0.01, (1.0, 0.42)).corun("v7", CorunGpus::Shared, 3, 3)
    });
    let mut input = input(vec![
        ("solo", view("torch/train", None, alone.into())),
        ("trio", view("torch/train", Some("solo"), together.into())),
    ]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    let guess = json!({"resource": "cpu", "en": "the CPU is full", "zh": "CPU 占满"});
    let section = json!({"table": "t", "corun": "trio", "notes": {"guess": guess}});
    let with = json!({"languages": ["en", "zh"], "sections": [section]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    let told = ["- Together", "- 同时", "- Guess", "- 猜测"];
    let told: Vec<&str> = report.lines().filter(|line| told.iter().any(|start| line.starts_with(start))).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    - Together (v7): **undecided**. The members take 3.24 to 3.31 times as long as alone; the throughput relative to one after another (0.92 ± 0.14 times) does not differ from 1 by more than noise. 1 run of each does not decide it; if the times stay as they are, about 1 more would: `repeat: {until: decided, at_most: 2}`. Limiting: GPU (demand 295%, used 100%). Not limiting: CPU (demand 109%, used 35%), memory controller (demand 136%, used 42%) and waiting for data (up to 1% of an epoch, up to 7% alone). No figures for GPU memory.
    - Guess: the CPU is full. **Not supported**: according to the figures, CPU does not limit v7.
    - 同时运行（v7）：**尚无法判断**。各任务用时是单独运行的 3.24 至 3.31 倍；合计吞吐量（串行执行的 0.92 ± 0.14 倍）与串行执行的差异未超出测量噪声。各运行 1 次尚不足以判断；若用时保持不变，约需再运行 1 次：`repeat: {until: decided, at_most: 2}`。瓶颈资源：GPU（总需求 295%，实际占用 100%）。非瓶颈：CPU（总需求 109%，实际占用 35%）、显存控制器（总需求 136%，实际占用 42%）和等待数据（至多占每轮的 1%，单独运行时至多为 7%）。未测得：显存容量。
    - 猜测：CPU 占满。**数据不支持**：按其数值，v7 的瓶颈不是 CPU。
    ");
}

#[test]
fn what_members_use_adds_up_to_its_sum_as_shown() {
    let cpu = [(16, 0.0404), (32, 0.0454), (64, 0.0474)];
    let point = |step: &str, batch: u32| result(step, &[("batch", json!(batch))], 1);
    let alone = cpu.map(|(batch, cpu)| point("solo", batch).epoch_time(10.0).cpu_util(cpu)).to_vec();
    let ran =
        |(batch, cpu)| point("together", batch).epoch_time(20.0).cpu_util(cpu).corun("g", CorunGpus::Shared, 3, 2);
    let mut input = input(vec![
        ("solo", view("torch/train", None, alone)),
        ("together", view("torch/train", Some("solo"), cpu.map(ran).to_vec())),
    ]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    let out = run("report", json!({"sections": [{"table": "t", "corun": "together"}]}), &input).expect("a report");
    let report = text(&out, "report.md");
    let sum = report.lines().find(|line| line.contains("Sum of g")).expect("a sum");
    // 4.0, 4.5 and 4.7. With all digits, the sum is 13.32.
    assert!(sum.contains("13.2%"), "{report}");
}
