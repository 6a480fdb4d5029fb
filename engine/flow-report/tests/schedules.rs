//! Simulated schedules in reports: their pictures, and what is found about policies.

mod common;

use common::{With, add_table, honest, input, result, run, text, view};
use flow_core::reason::Cause;
use flow_core::{BuiltinInput, Outcome, StepResult};
use flow_report::{Bar, Gantt, Reports};
use serde_json::{Value, json};

/// Jobs of a quarter of an hour one after another on each of two GPUs, for so many hours.
fn schedule(hours: u32) -> Gantt {
    let bar = |n: u32| {
        let (start, kind) = (f64::from(n / 2) * 900.0, if n.is_multiple_of(3) { "vgg16" } else { "alexnet" });
        Bar { lane: n as usize % 2, kind: kind.into(), start, end: start + 900.0 }
    };
    let waiting = (0..4 * hours).map(|n| (f64::from(n) * 900.0, f64::from(n % 7))).collect();
    Gantt::new(2, (0..8 * hours).map(bar).collect(), Some((vec![(0.0, 13.0)], 32.0)), waiting)
}

/// Mean time in the system of three policies at two densities, with standard errors, as simulations give them.
fn simulated() -> BuiltinInput {
    let points = [
        ("fifo", [(4_000.0, 50.0), (36_000.0, 2_000.0)], 0.5),
        ("sjf", [(3_700.0, 50.0), (9_700.0, 900.0)], 0.55),
        ("lyapunov", [(3_800.0, 50.0), (10_500.0, 900.0)], 0.52),
    ];
    let point = |policy: &str, density: f64, (time, error): (f64, f64), used: f64| {
        let axes = [("policy", json!(policy)), ("density", json!(density))];
        result("alone", &axes, 0)
            .noisy("time_in_system", time, "s", error * 5_f64.sqrt(), 5)
            .noisy("makespan", 100.0 * 3_600.0, "s", 5.0 * 3_600.0, 5)
            .noisy("gpu_use", used * density, "ratio", 0.01, 5)
    };
    let results: Vec<StepResult> = points
        .iter()
        .flat_map(|(policy, [a, b], used)| [point(policy, 0.5, *a, *used), point(policy, 1.1, *b, *used)])
        .collect();
    let mut alone = view("flow/simulate", None, results);
    for (files, hours) in alone.files.iter_mut().zip([9, 30, 9, 25, 9, 40]) {
        files.insert("schedule.json".into(), serde_json::to_vec(&schedule(hours)).expect("JSON"));
    }
    let mut input = input(vec![("alone", alone)]);
    add_table(
        &mut input,
        "t",
        json!({"from": "alone", "rows": "density", "split": "policy", "columns": ["time_in_system"]}),
    );
    add_table(
        &mut input,
        "u",
        json!({"from": "alone", "rows": "density", "split": "policy", "columns": ["makespan", "gpu_use"]}),
    );
    input
}

fn with(schedules: Value) -> Value {
    json!({"languages": ["en", "zh"], "sections": [{"table": "t", "schedules": schedules}, {"table": "u"}]})
}

#[test]
fn a_section_shows_the_schedules_that_it_names() {
    let at = |policy: &str, density: f64| json!({"from": "alone", "where": {"policy": policy, "density": density}});
    let out = run("report", with(json!([at("fifo", 1.1), at("sjf", 1.1)])), &simulated()).expect("a report");
    let report = text(&out, "report.md");
    honest(&report);
    insta::assert_snapshot!(report, @r#"
    # mobilenet_v2: batch size, and dataset v7 against v11

    **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**

    2026-02-08

    - Model / 模型: mobilenet_v2
    - Epochs / 训练轮数: 4
    - Runs / 运行编号: `20260208-153012-3f2a`

    ## `alone` by density / `alone`，按到达密度

    Mean time in system / 平均逗留时间 (h)

    | Density / 到达密度 |  fifo |  sjf | lyapunov |
    |-------------------:|------:|-----:|---------:|
    |                0.5 |  1.11 | 1.03 |     1.06 |
    |                1.1 | 10.00 | 2.69 |     2.92 |

    ![Schedule of alone[policy=fifo,density=1.1] / alone[policy=fifo,density=1.1] 的调度过程](charts/schedule-1.svg)\
    Schedule of `alone[policy=fifo,density=1.1]` in the first of 5 simulations: the first 11.2 of 30 hours. A bar is a job, on every GPU that it holds; jobs that share a GPU lie one above the other.\
    `alone[policy=fifo,density=1.1]` 在 5 次模拟中第一次的调度过程：前 11.2 小时（共 30 小时）。每个色条是一个作业，占用几块 GPU 就画在几行中；共享同一块 GPU 的作业上下叠放。

    ![Schedule of alone[policy=sjf,density=1.1] / alone[policy=sjf,density=1.1] 的调度过程](charts/schedule-2.svg)\
    Schedule of `alone[policy=sjf,density=1.1]` in the first of 5 simulations: the first 11.2 of 25 hours.\
    `alone[policy=sjf,density=1.1]` 在 5 次模拟中第一次的调度过程：前 11.2 小时（共 25 小时）。

    ![Mean time in system over density / 平均逗留时间随到达密度的变化](charts/t-time_in_system.svg)

    - At density 1.1, mean time in system is lowest with sjf and lyapunov (2.69 to 2.92 h) and highest with fifo (10.00 h); those named together differ by little, or by no more than chance explains.

    * 到达密度为 1.1 时，平均逗留时间以 sjf 和 lyapunov 最低（2.69 至 2.92 h），以 fifo 最高（10.00 h）；并列者相差不大，或差异在随机波动范围之内。

    ## `alone` by density / `alone`，按到达密度

    | Density / 到达密度 | Total time / 总时间, fifo (h) | Total time / 总时间, sjf (h) | Total time / 总时间, lyapunov (h) | GPU use / GPU 利用率, fifo | GPU use / GPU 利用率, sjf | GPU use / GPU 利用率, lyapunov |
    |-------------------:|------------------------------:|-----------------------------:|----------------------------------:|---------------------------:|--------------------------:|-------------------------------:|
    |                0.5 |                           100 |                          100 |                               100 |                     25.0 % |                    27.5 % |                         26.0 % |
    |                1.1 |                           100 |                          100 |                               100 |                     55.0 % |                    60.5 % |                         57.2 % |

    ![Total time over density / 总时间随到达密度的变化](charts/u-makespan.svg)

    ![GPU use over density / GPU 利用率随到达密度的变化](charts/u-gpu_use.svg)

    - At density 1.1, total time does not clearly depend on policy: 100 h.
    - GPU use never exceeds 60.5 %, reached with sjf at density 1.1.

    * 到达密度为 1.1 时，总时间与策略没有明显关系：100 h。
    * GPU 利用率最高为 60.5%，出现在 sjf、到达密度为 1.1 时。
    "#);
    // Both end where the first must, and count who waits on one scale.
    let [one, other] = ["charts/schedule-1.svg", "charts/schedule-2.svg"].map(|file| text(&out, file));
    assert!(one.contains("alone[policy=fifo,density=1.1]: the first 11.2 of 30 hours"), "{}", &one[..900]);
    assert!(other.contains("前 11.2 小时（共 25 小时）"), "{}", &other[..900]);
    // In the terminal there is neither the picture nor its caption, and the words are made anew.
    let told = Reports::new().text(|file| out.files.get(file).cloned(), Some("zh")).expect("a text").expect("a report");
    assert!(told.contains("平均逗留时间") && !told.contains("调度过程"), "{told}");
}

#[test]
fn a_short_schedule_is_drawn_whole_and_one_that_is_not_there_is_left_out() {
    let mut input = simulated();
    let ended = input.steps["alone"].results.iter_mut().zip([Outcome::Ok, Outcome::Failed]);
    ended.for_each(|(result, outcome)| result.outcome = outcome);
    input.steps["alone"].results[1].cause = Some(Cause::Said { text: "no memory".into() });
    input.steps["alone"].files[1].clear();
    let at = |density: f64| json!({"from": "alone", "where": {"policy": "fifo", "density": density}});
    let out = run("report", with(json!([at(0.5), at(1.1)])), &input).expect("a report");
    let report = text(&out, "report.md");
    let told: Vec<&str> = report.lines().filter(|line| line.contains("chedule") || line.contains("Left out")).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    ![Schedule of alone[policy=fifo,density=0.5] / alone[policy=fifo,density=0.5] 的调度过程](charts/schedule-1.svg)\
    Schedule of `alone[policy=fifo,density=0.5]` in the first of 5 simulations. A bar is a job, on every GPU that it holds; jobs that share a GPU lie one above the other.\
    Left out: `alone[policy=fifo,density=1.1]` (no memory).
    ");
    assert!(!out.files.contains_key("charts/schedule-2.svg"));
}

#[test]
fn an_entry_that_means_none_or_several_is_refused() {
    let told = [
        json!([{"from": "alone", "where": {"policy": "fifo", "density": 2}}]),
        json!([{"from": "alone", "where": {"policy": "fifo"}}]),
        json!([{"from": "alone", "wher": {}}]),
    ];
    let told = told.map(|schedules| run("report", with(schedules), &simulated()).expect_err("refused"));
    insta::assert_snapshot!(told.join("\n"), @r"
    `schedules`: step `alone` has no instance at `where: {density: 2, policy: fifo}`
    `schedules`: `where: {policy: fifo}` means `alone[policy=fifo,density=0.5]` and `alone[policy=fifo,density=1.1]`; choose one
    `with`: unknown field `wher`, expected `from` or `where`
    ");
}

/// fifo takes a quarter longer on each seed, although seeds differ by more; srtf is longer on some and shorter on others.
#[test]
fn policies_are_compared_on_the_same_seeds() {
    let points = [
        ("priority", [10.59, 8.29, 6.51, 10.83, 4.44]),
        ("fifo", [12.90, 10.52, 7.68, 13.53, 5.46]),
        ("srtf", [9.99, 9.00, 6.10, 11.50, 4.90]),
    ];
    let results = points.iter().map(|(policy, hours)| {
        let seconds: Vec<f64> = hours.iter().map(|hours| hours * 3600.0).collect();
        let axes = [("policy", json!(policy)), ("density", json!(1.1))];
        result("alone", &axes, 0).seeds("time_in_system", &seconds, "s")
    });
    let mut input = input(vec![("alone", view("flow/simulate", None, results.collect()))]);
    let columns = json!(["time_in_system"]);
    add_table(&mut input, "t", json!({"from": "alone", "rows": "density", "split": "policy", "columns": columns}));
    let report = text(&run("report", json!({"sections": [{"table": "t"}]}), &input).expect("a report"), "report.md");
    let found: Vec<&str> = report.lines().filter(|line| line.starts_with("- At density")).collect();
    insta::assert_snapshot!(found.join("\n"), @"- At density 1.1, mean time in system is lowest with priority and srtf (8.13 to 8.30 h) and highest with fifo (10.02 h); those named together differ by little, or by no more than chance explains.");
}
