//! Caveats for times that were measured while other programs used the CPU.

use crate::common::{ResultExt, add_table, bullets, honest, input, result, run, text, view};
use flow_core::{BuiltinInput, CorunGpus, StepResult, StepView};
use serde_json::{Value, json};

/// Epoch times by batch size, with the CPU use of other programs.
fn sweep(version: &str, points: [(u32, f64, f64); 5]) -> Vec<StepResult> {
    let at = |(batch, time, foreign): (u32, f64, f64)| {
        let axes = [("version", json!(version)), ("batch", json!(batch))];
        result("s", &axes, 0).epoch_time(time).cpu_util(0.1).foreign_cpu(foreign)
    };
    points.map(at).to_vec()
}

fn table(results: Vec<StepResult>) -> BuiltinInput {
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["version", "batch"], "columns": ["epoch_time"]}));
    input
}

fn report(input: &BuiltinInput, section: Value) -> String {
    let with = json!({"languages": ["en", "zh"], "sections": [section]});
    let report = text(&run("report", with, input).expect("a report"), "report.md");
    honest(&report);
    report
}

const QUIET: [(u32, f64, f64); 5] = [(8, 12.0, 0.0), (16, 9.0, 0.02), (32, 7.0, 0.0), (64, 6.0, 0.0), (128, 5.5, 0.0)];
const BESIDE: [(u32, f64, f64); 5] =
    [(8, 12.0, 0.0), (16, 9.0, 0.31), (32, 7.0, 0.44), (64, 9.5, 0.0), (128, 9.4, 0.0)];

#[test]
fn a_curve_that_others_may_have_bent_says_so_itself_and_no_other_does() {
    let input = table([sweep("v7", QUIET), sweep("v11", BESIDE)].concat());
    insta::assert_snapshot!(bullets(&report(&input, json!({"table": "t"}))).concat().join("\n"), @r"
    - v7: Epoch time still falls up to batch size 128 (5.5 s).
    - v11: Epoch time stops falling at batch size 32 (7.0 s) and rises to 9.4 s at 128. Other programs used up to 44.0% of the CPU during some of these results, most during `s[version=v11,batch=32]`, which may explain this finding.
    - v7：批大小增至 128 时，每轮用时仍在下降（5.5 s）。
    - v11：批大小达到 32 后，每轮用时不再下降（7.0 s），到 128 时回升至 9.4 s。部分相关结果在测量时，其他程序最多占用了 44.0% 的 CPU（`s[version=v11,batch=32]` 运行时最多），这一结论可能受其影响。
    ");
}

#[test]
fn so_do_a_fit_and_a_change() {
    let mut input = table(sweep("v7", BESIDE));
    let with = json!({"table": "t", "y": "epoch_time"});
    let out = run("fit", with.clone(), &input).expect("a fit");
    let mut step = view("flow/fit", None, vec![result("fit", &[], 0)]);
    step.with = with.as_object().expect("a map").clone();
    step.files = vec![out.files.clone()];
    input.steps.insert("fit".into(), step);
    let fitted = report(&input, json!({"table": "t", "analyses": ["fit"]}));
    assert_eq!(fitted.matches("Other programs used up to 44.0% of the CPU during").count(), 2, "{fitted}");
    assert_eq!(fitted.matches("其他程序最多占用了 44.0% 的 CPU").count(), 2, "{fitted}");

    let mut input = table([sweep("v7", QUIET), sweep("v11", BESIDE)].concat());
    let with = json!({"from": "s", "rows": "batch", "split": "version", "columns": ["epoch_time"]});
    add_table(&mut input, "t", with);
    let compared = report(&input, json!({"table": "t", "compare": "version"}));
    assert_eq!(compared.matches("Other programs used up to 44.0% of the CPU during").count(), 2, "{compared}");
}

/// One of five repetitions does not explain a finding about their mean, and its command measures only this one again.
#[test]
fn few_disturbed_repetitions_are_counted() {
    let times = [("v7", [4.0, 4.1, 4.2, 4.0, 4.1]), ("v11", [2.0, 2.1, 2.0, 2.2, 2.1])];
    let compared = |disturbed: usize| {
        let at = |version: &str, n: usize, time: f64| {
            let foreign = if version == "v7" && n < disturbed { 0.2 } else { 0.0 };
            let mut result = result("s", &[("version", json!(version))], 0).epoch_time(time).foreign_cpu(foreign);
            (result.repetition, result.label) = (Some(n as u32), format!("s[version={version},repetition={n}]"));
            result
        };
        let all = times.iter().flat_map(|(version, times)| (0..).zip(times).map(|(n, time)| at(version, n, *time)));
        let mut input = input(vec![("s", view("torch/train", None, all.collect()))]);
        let with = json!({"from": "s", "split": "version", "over": "repetition", "columns": ["epoch_time"]});
        add_table(&mut input, "t", with);
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t", "compare": "version"}]});
        // Numbers of results are in no table.
        text(&run("report", with, &input).expect("a report"), "report.md")
    };
    let one = compared(1);
    let few =
        "Other programs disturbed 1 of the 10 results: they used 20.0% of the CPU during `s[version=v7,repetition=0]`.";
    assert!(
        one.contains(few) && one.contains("10 个结果中有 1 个受其他程序干扰") && !one.contains("may explain"),
        "{one}"
    );
    assert!(one.contains("`flow run -f 's[version=v7,repetition=0]'` measures again"), "{one}");
    let most = compared(4);
    assert!(
        most.contains("which may explain this finding") && most.contains("`flow run -f s` measures again"),
        "{most}"
    );
}

#[test]
fn memory_is_nobody_elses() {
    let memory = |batch: u32| {
        let beside = result("s", &[("batch", json!(batch))], 1).cpu_util(0.1).foreign_cpu(0.4);
        beside.gpu_memory(1_000.0 + 50.0 * f64::from(batch))
    };
    let mut input = input(vec![("s", view("torch/train", None, [8, 16, 32, 64, 128].map(memory).to_vec()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["gpu_memory"]}));
    let report = report(&input, json!({"table": "t"}));
    assert!(report.contains("GPU memory is linear") && !report.contains("Other programs"), "{report}");
}

/// Two trainings, measured alone and together once per entry of `foreign`: the CPU use of other programs during the
/// first run alone.
fn pair(foreign: &[f64]) -> BuiltinInput {
    let runs = |step: &str, n: usize, used: f64| {
        [(16, 1.0), (32, 0.9)].map(|(batch, factor)| {
            let together = if step == "pair" { 1.8 } else { 1.0 };
            let time = (10.0 + n as f64) * factor * together;
            let mut run = result(step, &[("batch", json!(batch))], 0).epoch_time(time).cpu_util(0.2);
            run.repetition = u32::try_from(n).ok().filter(|n| *n > 0);
            run.label = run.repetition.map_or(run.label.clone(), |n| format!("{} again {n}", run.label));
            match (step, batch) {
                ("pair", _) => run.corun("pair", CorunGpus::Shared, 2, 3),
                (_, 16) => run.foreign_cpu(used),
                _ => run,
            }
        })
    };
    let step = |step: &str, like: Option<&str>| StepView {
        again: foreign.iter().enumerate().skip(1).flat_map(|(n, used)| runs(step, n, *used)).collect(),
        ..view("torch/train", like, runs(step, 0, foreign[0]).into())
    };
    let mut input = input(vec![("solo", step("solo", None)), ("pair", step("pair", Some("solo")))]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    input
}

#[test]
fn runs_that_do_not_count_are_no_part_of_a_verdict_nor_of_its_count() {
    let told = |foreign: &[f64]| {
        let report = report(&pair(foreign), json!({"table": "t", "corun": "pair"}));
        let starts = ["- Together", "- 同时", "| pair", "Times alone", "Error bars"];
        let lines = report.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(told(&[0.307, 0.02]), @r"
    Times alone and together are geometric means of all runs of each that count; if none counts, of all runs. The table above leaves out runs that were made only for a verdict.  
    | pair  | undecided |                             1.11× ± 0.25 |                                 1 of 2 + 2 |                                         30.7% |                  40% → 40% |
    - Together (pair): **undecided**. The members take 80% longer than alone; the throughput relative to one after another (1.11 ± 0.25 times) does not differ from 1 by more than noise. Each was measured 2 times, alone and together; only 1 counts, and the figures are from that one. Other programs used up to 30.7% of the CPU during runs that do not count, most during `solo[batch=16]`. 1 run of each does not decide it; if the times stay as they are, about 2 more would: `repeat: {until: decided, at_most: 4}`. Not limiting: CPU (demand 40%, used 40%). No figures for waiting for data.
    | pair 合计 |      40.0% |
    | pair | 尚无法判断 |         1.11× ± 0.25 |    2 次中 1 次有效 + 2 |                           30.7% |             40% → 40% |
    - 同时运行（pair）：**尚无法判断**。各任务用时比单独运行增加 80%；合计吞吐量（串行执行的 1.11 ± 0.25 倍）与串行执行的差异未超出测量噪声。单独与同时运行各测量 2 次，其中 1 次有效，各项数值仅取自有效运行。无效运行期间，其他程序最多占用了 30.7% 的 CPU（`solo[batch=16]` 运行时最多）。各运行 1 次尚不足以判断；若用时保持不变，约需再运行 2 次：`repeat: {until: decided, at_most: 4}`。非瓶颈：CPU（总需求 40%，实际占用 40%）。未测得：等待数据。
    ");
    insta::assert_snapshot!(told(&[0.02, 0.307, 0.02]), @r"
    Times alone and together are geometric means of all runs of each that count; if none counts, of all runs. The table above leaves out runs that were made only for a verdict.  
    | pair  | undecided |                             1.11× ± 0.63 |                               2 of 3 + 100 |                                         30.7% |                  40% → 40% |
    - Together (pair): **undecided**. The difference from the runs alone (80% ± 145%) is within the noise. Each was measured 3 times, alone and together; only 2 count, and the figures are from those. Other programs used up to 30.7% of the CPU during runs that do not count, most during `solo[batch=16] again 1`. 2 runs of each do not decide it; if the times stay as they are, about 100 more would: `repeat: {until: decided, at_most: 103}`.
    | pair 合计 |      40.0% |
    | pair | 尚无法判断 |         1.11× ± 0.63 |  3 次中 2 次有效 + 100 |                           30.7% |             40% → 40% |
    - 同时运行（pair）：**尚无法判断**。与单独运行的差异（80% ± 145%）未超出测量噪声。单独与同时运行各测量 3 次，其中 2 次有效，各项数值仅取自有效运行。无效运行期间，其他程序最多占用了 30.7% 的 CPU（`solo[batch=16] again 1` 运行时最多）。各运行 2 次尚不足以判断；若用时保持不变，约需再运行 100 次：`repeat: {until: decided, at_most: 103}`。
    ");
    insta::assert_snapshot!(told(&[0.307, 0.25]), @r"
    Times alone and together are geometric means of all runs of each that count; if none counts, of all runs. The table above leaves out runs that were made only for a verdict.
    | pair  | undecided |                                        — |                                     0 of 2 |                                         30.7% |
    - Together (pair): **undecided**. Other programs used 30.7% of the CPU while `solo[batch=16]` ran. Each was measured 2 times, alone and together; none counts.
    | pair 合计 |      40.0% |
    | pair | 尚无法判断 |                    — |        2 次中 0 次有效 |                           30.7% |
    - 同时运行（pair）：**尚无法判断**。`solo[batch=16]` 运行时，其他程序占用了 30.7% 的 CPU。单独与同时运行各测量 2 次，均无效。
    ");
}
