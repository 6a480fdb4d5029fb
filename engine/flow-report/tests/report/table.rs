//! `flow/table`: published tables have the measured numbers, and numbers that cannot be compared are not compared.

use crate::common::{ResultExt, add_table, input, number, published, result, run, text, view};
use flow_core::reason::{Cause, Disturbance, Memory};
use flow_core::{Digest, Environment, Outcome};
use serde_json::{Value, json};

/// The cells of a column of `table.csv`.
fn column(csv: &str, name: &str) -> Vec<String> {
    let mut lines = csv.lines();
    let at = lines.next().and_then(|h| h.split(',').position(|h| h == name)).unwrap_or_else(|| panic!("{name}: {csv}"));
    lines.map(|line| line.split(',').nth(at).expect("a cell").to_owned()).collect()
}

/// The growth column, rounded as printed.
fn growth(csv: &str, name: &str) -> Vec<Option<f64>> {
    column(csv, &format!("growth({name}) [%]")).iter().map(|c| c.parse().ok().map(f64::round)).collect()
}

fn four_gpu_table(csv: &str) -> String {
    let results = published(csv)
        .iter()
        .map(|row| {
            let batch = json!(row["batch"].parse::<u32>().expect("a number"));
            let result = result("four", &[("version", json!("v7")), ("batch", batch)], 4);
            match (number(row, "epoch_s"), number(row, "mem_mib")) {
                (Some(time), Some(memory)) => result.epoch_time(time).gpu_memory(memory),
                _ => result.outcome(Outcome::OutOfMemory),
            }
        })
        .collect();
    let with = json!({"from": "four", "rows": "batch",
        "columns": ["gpu_memory", "growth(gpu_memory)", "epoch_time", "growth(epoch_time)"]});
    let out = run("table", with, &input(vec![("four", view("torch/train", None, results))])).expect("a table");
    text(&out, "table.csv")
}

#[test]
fn published_growth_columns_come_out() {
    for csv in
        [include_str!("published/feb07-resnet34-4gpu.csv"), include_str!("published/feb08-mobilenet_v2-4gpu.csv")]
    {
        let table = four_gpu_table(csv);
        let rows = published(csv);
        let printed = |name: &str| rows.iter().map(|r| number(r, name)).collect::<Vec<_>>();
        assert_eq!(growth(&table, "gpu_memory"), printed("mem_growth_pct"), "{table}");
        assert_eq!(growth(&table, "epoch_time"), printed("epoch_growth_pct"), "{table}");
    }
}

#[test]
fn results_of_different_environments_are_not_mixed_in_silence() {
    let environment = |torch: &str, python: &str, scale: &str| {
        serde_json::from_value::<Environment>(json!({
            "command": "python", "key": "k", "variables": {"SCALE": scale},
            "programs": {"python": {"path": "/home/ada/env/bin/python", "digest": Digest::of(python.as_bytes()), "python": "/e"}},
            "pythons": {"/e": {"version": python, "packages": {"torch": torch, "numpy": "2.1"}}},
        }))
        .unwrap()
    };
    let table = |environments: &[Environment]| {
        let of = |n: usize| Digest::of(&[n as u8]);
        let results = (0..environments.len()).map(|n| {
            let mut result = result("train", &[("batch", json!(n))], 1).epoch_time(1.0);
            result.circumstances.environment = Some(of(n));
            result
        });
        let mut input = input(vec![("train", view("", None, results.collect()))]);
        input.environments = environments.iter().cloned().enumerate().map(|(n, of_it)| (of(n), of_it)).collect();
        add_table(&mut input, "table", json!({"from": "train", "rows": "batch", "columns": ["epoch_time"]}));
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "table"}]});
        text(&run("report", with, &input).expect("a report"), "report.md")
    };
    let one = environment("2.1", "3.11.2", "a");
    let said = table(&[one.clone(), environment("2.2", "3.12.1", "a"), environment("2.3", "3.12.1", "b")]);
    assert!(said.contains("different software environments: Python 3.11.2 / 3.12.1; torch 2.1 / 2.2 / 2.3."), "{said}");
    assert!(said.contains("不同的软件环境：Python 3.11.2 / 3.12.1；torch 2.1 / 2.2 / 2.3。"), "{said}");
    // A shell's variables differ in much that means nothing.
    let said = table(&[one.clone(), environment("2.1", "3.11.2", "b")]);
    assert!(!said.contains("software environments"), "{said}");
}

fn per_gpu() -> flow_core::BuiltinInput {
    let rows = published(include_str!("published/feb08-mobilenet_v2-per-gpu.csv"));
    let point = |row: &std::collections::BTreeMap<String, String>, version: &str| {
        let batch = json!(row["batch"].parse::<u32>().expect("a number"));
        result("solo", &[("version", json!(version)), ("batch", batch)], row["gpus"].parse().expect("a number"))
            .epoch_time(number(row, &format!("epoch_{version}_s")).expect("a time"))
            .cpu_util(number(row, &format!("cpu_util_{version}_pct")).expect("a share") / 100.0)
            .gpu_memory(number(row, "mem_per_gpu_mib").expect("memory"))
    };
    let results = ["v7", "v11"].iter().flat_map(|v| rows.iter().map(|row| point(row, v)).collect::<Vec<_>>()).collect();
    input(vec![("solo", view("torch/train", None, results))])
}

#[test]
fn a_growth_column_cannot_be_another_tables() {
    let with = json!({"from": "solo", "rows": "batch", "split": "version",
        "columns": ["gpus", "gpu_memory", "growth(gpu_memory)", "epoch_time", "growth(epoch_time)"]});
    let out = run("table", with, &per_gpu()).expect("a table");
    let csv = text(&out, "table.csv");
    let rows = published(include_str!("published/feb08-mobilenet_v2-per-gpu.csv"));
    let right = |name: &str| rows.iter().map(|r| number(r, name)).collect::<Vec<_>>();
    let got = |name: &str| -> Vec<Option<f64>> {
        column(&csv, name).iter().map(|c| c.parse().ok().map(f64::round)).collect()
    };
    assert_eq!(got("growth(gpu_memory) v7 [%]"), right("mem_growth_pct"));
    assert_eq!(got("growth(epoch_time) v7 [%]"), right("epoch_v7_growth_pct"));
    insta::assert_snapshot!(text(&out, "table.en.md"), @r"
    | Batch size | GPUs | GPU memory, v7 (MiB) | Growth, v7 | GPU memory, v11 (MiB) | Growth, v11 | Epoch time, v7 (s) | Growth, v7 | Epoch time, v11 (s) | Growth, v11 |
    |-----------:|-----:|---------------------:|-----------:|----------------------:|------------:|-------------------:|-----------:|--------------------:|------------:|
    |         16 |    1 |                 2361 |          — |                  2361 |           — |               18.1 |          — |                16.5 |           — |
    |         32 |    1 |                 4175 |       +77% |                  4175 |        +77% |               16.2 |       −10% |                14.4 |        −13% |
    |         64 |    1 |                 7627 |       +83% |                  7627 |        +83% |               15.4 |        −5% |                13.6 |         −6% |
    |        128 |    2 |                 7737 |   1→2 GPUs |                  7737 |    1→2 GPUs |               11.3 |   1→2 GPUs |                 8.7 |    1→2 GPUs |
    ");
}

#[test]
fn ratio_speedup_and_difference() {
    let with = json!({"from": "solo", "rows": "batch", "split": "version", "baseline": {"version": "v7"},
        "columns": ["difference(epoch_time)", "difference(cpu_util)", "ratio(epoch_time)", "speedup(epoch_time)"]});
    let out = run("table", with, &per_gpu()).expect("a table");
    insta::assert_snapshot!(text(&out, "table.en.md"), @r"
    | Batch size | Epoch time, v11 − v7 (s) | CPU use, v11 − v7 (points) | Ratio of epoch time, v7 | Speed-up of epoch time, v7 | Ratio of epoch time, v11 | Speed-up of epoch time, v11 |
    |-----------:|-------------------------:|---------------------------:|------------------------:|---------------------------:|-------------------------:|----------------------------:|
    |         16 |                    −1.60 |                      −38.5 |                   1.00× |                      1.00× |                    0.91× |                       1.10× |
    |         32 |                    −1.80 |                      −38.5 |                   1.00× |                      1.00× |                    0.89× |                       1.13× |
    |         64 |                    −1.80 |                      −40.5 |                   1.00× |                      1.00× |                    0.88× |                       1.13× |
    |        128 |                    −2.60 |                      −51.6 |                   1.00× |                      1.00× |                    0.77× |                       1.30× |

    Ratios and speed-ups are relative to version=v7.
    ");
}

fn seeds(step: &str, values: &[f64]) -> Vec<flow_core::StepResult> {
    let point = |(seed, value): (usize, &f64)| {
        result(step, &[("batch", json!(16)), ("seed", json!(seed))], 1).metric("top1", *value, "ratio")
    };
    values.iter().enumerate().map(point).collect()
}

#[test]
fn means_over_seeds_and_medians_of_repetitions() {
    let with = json!({"from": "s", "over": "seed", "columns": ["top1"]});
    let results = seeds("s", &[0.94, 0.95, 0.96]);
    let out = run("table", with.clone(), &input(vec![("s", view("torch/train", None, results))])).expect("a table");
    insta::assert_snapshot!(text(&out, "table.en.md") + &text(&out, "table.csv"), @r"
    | Batch size |       Top-1 |
    |-----------:|------------:|
    |         16 | 95.0 ± 1.0% |

    Cells with ±: mean ± standard deviation over seed (0, 1, 2), of 3 results.
    batch,top1 [%],top1 sd [%],top1 n
    16,95,1,3
    ");

    let mut results = seeds("s", &[0.94, 0.95, 0.96]);
    results[1].circumstances.cpus = 2;
    let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
    insta::assert_snapshot!(text(&out, "table.en.md") + &text(&out, "table.zh.md"), @r"
    | Batch size |              Top-1 |
    |-----------:|-------------------:|
    |         16 | not comparable (a) |

    (a) Measured under different conditions, so neither averaged nor compared (CPUs: 4 and 2).
    | 批大小 | Top-1 准确率 |
    |-------:|-------------:|
    |     16 |   不可比 (a) |

    (a) 测量条件不同，既不取平均也不作比较（CPU 数：4 与 2）。
    ");

    // Each repetition has its own seed, although there is no axis for it.
    let repeated = seeds("s", &[0.94, 0.95, 0.96]).into_iter().enumerate().map(|(n, mut result)| {
        result.axes.shift_remove("seed");
        result.repetition = Some(n as u32);
        result
    });
    let with = json!({"from": "s", "over": "seed", "columns": ["top1"]});
    let out = run("table", with, &input(vec![("s", view("torch/train", None, repeated.collect()))])).expect("a table");
    assert_eq!(column(&text(&out, "table.csv"), "top1 n"), ["3"]);

    let repeated = [16.0, 17.5, 16.2].iter().enumerate().map(|(at, time)| {
        let mut r = result("s", &[("batch", json!(16))], 1).epoch_time(*time);
        r.repetition = Some(at as u32);
        r
    });
    let mut results: Vec<_> = repeated.collect();
    let mut disturbed = results[0].clone();
    disturbed.disturbances = vec![Disturbance::OtherRuns { attempts: 2 }];
    results.push(disturbed);
    let with = json!({"from": "s", "rows": "batch", "columns": ["epoch_time"]});
    let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
    insta::assert_snapshot!(text(&out, "table.en.md") + &text(&out, "table.csv"), @r"
    | Batch size |       Epoch time (s) |
    |-----------:|---------------------:|
    |         16 | 16.2 (16.0–17.5) (a) |

    (a) 3 of 4 results count; the rest have no reliable number.  
    Median of 3 repetitions, with minimum and maximum.
    batch,epoch_time [s],epoch_time min [s],epoch_time max [s],epoch_time n
    16,16.2,16,17.5,3
    ");
}

#[test]
fn words_where_there_is_no_number() {
    let at = |batch: u32, outcome: Outcome| result("s", &[("batch", json!(batch))], 1).outcome(outcome);
    let mut disturbed = at(128, Outcome::Ok).epoch_time(9.0);
    disturbed.disturbances = vec![Disturbance::OtherRuns { attempts: 2 }];
    let mut never = at(256, Outcome::DoesNotFit);
    never.circumstances = flow_core::Circumstances::default();
    let mut kept = at(16, Outcome::Ok).epoch_time(20.0);
    kept.accepted = Some("only a comment changed".into());
    let results = vec![
        kept,
        at(32, Outcome::OutOfMemory),
        at(64, Outcome::TimedOut),
        disturbed,
        never,
        at(512, Outcome::Skipped),
        at(1024, Outcome::Failed),
    ];
    let with = json!({"from": "s", "columns": ["gpus", "epoch_tme", "epoch_time", "growth(epoch_time)", "outcome"]});
    let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
    assert_eq!(out.notices, ["no result has the column `epoch_tme`; did you mean `epoch_time`?"]);
    insta::assert_snapshot!(text(&out, "table.en.md"), @r"
    | Batch size |         GPUs |         epoch_tme |    Epoch time (s) | Growth | Outcome           |
    |-----------:|-------------:|------------------:|------------------:|-------:|-------------------|
    |         16 |            1 |                 — |                20 |      — | ok                |
    |         32 |            1 | out of GPU memory | out of GPU memory |      — | out of GPU memory |
    |         64 |            1 |         timed out |         timed out |      — | timed out         |
    |        128 |            1 |                 — |     disturbed (a) |      — | ok                |
    |        256 | does not fit |      does not fit |      does not fit |      — | does not fit      |
    |        512 |            1 |           skipped |           skipped |      — | skipped           |
    |       1024 |            1 |            failed |            failed |      — | failed            |

    No result has `epoch_tme`; did you mean `epoch_time`?  
    (a) `s[batch=128]` is not reliable: it required the whole machine, but other runs had steps on it, up to 2 at once.  
    `s[batch=16]` is an earlier result, kept although its dependencies have changed: only a comment changed
    ");
}

#[test]
fn what_diverged_is_said_and_never_a_dash() {
    let at = |batch: u32, loss: f64| result("s", &[("batch", json!(batch))], 1).metric("train_loss", loss, "");
    let results = vec![at(16, 0.5), at(32, f64::NAN), at(64, f64::INFINITY)];
    let with = json!({"from": "s", "columns": ["train_loss", "growth(train_loss)"]});
    let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
    insta::assert_snapshot!(text(&out, "table.en.md"), @r"
    | Batch size | Training loss | Growth |
    |-----------:|--------------:|-------:|
    |         16 |           0.5 |      — |
    |         32 |       NaN (a) |      — |
    |         64 |         ∞ (a) |      — |

    (a) The program reported NaN or an infinite number. For a loss, this means that training diverged.
    ");
    assert_eq!(column(&text(&out, "table.csv"), "train_loss"), ["0.5", "NaN", "Infinity"]);
}

#[test]
fn it_is_said_whose_memory_ran_out() {
    let at = |batch: u32, cause: Cause| {
        let mut result = result("s", &[("batch", json!(batch))], 1).outcome(Outcome::OutOfMemory);
        result.cause = Some(cause);
        result
    };
    let results = vec![
        at(1, Cause::OutOfMemory { memory: Memory::Gpu, message: None }),
        at(2, Cause::KilledForMemory),
        at(3, Cause::OutOfMemory { memory: Memory::Gpu, message: Some("CUDA out of memory".into()) }),
        at(4, Cause::OutOfMemory { memory: Memory::Host, message: Some("MemoryError".into()) }),
    ];
    let with = json!({"from": "s", "columns": ["epoch_time"]});
    let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
    insta::assert_snapshot!(text(&out, "table.zh.md"), @r#"
    | 批大小 | 每轮用时 |
    |-------:|---------:|
    |      1 | 显存不足 |
    |      2 | 内存不足 |
    |      3 | 显存不足 |
    |      4 | 内存不足 |
    "#);
}

#[test]
fn unlike_company_and_hidden_metrics_are_said() {
    let repeated = [1.0, 1.1, 0.5].iter().enumerate().map(|(n, time)| {
        let mut result = result("s", &[("batch", json!(16))], 0).epoch_time(*time).metric("energy", 7.0, "");
        result.circumstances.mode = flow_core::Mode::Plain;
        result.repetition = Some(n as u32);
        result.circumstances.corunners = if n < 2 { vec!["other".into()] } else { vec![] };
        result
    });
    let mut input = input(vec![("s", view("t", None, repeated.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["epoch_time", "energy"]}));
    let report = run("report", json!({"sections": [{"table": "t"}]}), &input).expect("a report");
    let report = text(&report, "report.md");
    let table: Vec<&str> = report.lines().filter(|l| l.starts_with('|') || l.starts_with('(')).collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    | Batch size |    Epoch time (s) | Energy |
    |-----------:|------------------:|-------:|
    |         16 | 1.0 (0.5–1.1) (a) |  — (b) |
    (a) 1 of 3 results ran alone, the rest alongside other steps of flow. With `exclusive: true` each runs alone.  
    (b) flow measures `energy` itself. Your program's metric of the same name is not shown: rename it.
    ");
}

#[test]
fn a_parameter_of_the_workflow_is_a_column() {
    let mut one = result("s", &[("batch", json!(8))], 0).epoch_time(20.0);
    one.circumstances.params.insert("passes".into(), json!(5));
    let with = json!({"from": "s", "columns": ["passes", "epoch_time"]});
    let out = run("table", with, &input(vec![("s", view("torch/train", None, vec![one]))])).expect("a table");
    assert!(text(&out, "table.csv").contains("\n8,5,20"), "{}", text(&out, "table.csv"));
}

#[test]
fn mistakes_are_told_with_the_way_out() {
    let input = per_gpu();
    let told = |with: Value| run("table", with, &input).expect_err("refused");
    // What a plan can tell is in planning.rs.
    let cases = [
        json!({"from": "solo", "rows": "bach", "columns": ["epoch_time"]}),
        json!({"from": "solo", "rows": "batch", "split": "batch", "columns": ["epoch_time"]}),
        json!({"from": "solo", "columns": [3]}),
        json!({"from": "solo", "columns": ["epoch_time"], "sort": true}),
    ];
    let told: Vec<String> = cases.into_iter().map(told).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    `rows: bach`: step `solo` has no such axis; its axes are version, batch
    axis `batch` is in both `rows` and `split`; remove it from one
    `with`: a column is a name, or `{column: NAME, label: {en: …, zh: …}}`
    `with`: unknown field `sort`, expected one of `from`, `where`, `rows`, `split`, `columns`, `over`, `baseline`, `machines`, `labels`, `reference`
    ");
}

#[test]
fn a_source_without_instances_is_said() {
    let mut absent = view("torch/train", None, vec![]);
    absent.absent = Some(Cause::ConditionFalse { expression: "machine.gpus >= 4".into() });
    let mut input = input(vec![("four", absent)]);
    add_table(&mut input, "four_table", json!({"from": "four", "rows": "batch", "columns": ["epoch_time"]}));
    let files = &input.steps["four_table"].files;
    insta::assert_snapshot!(String::from_utf8_lossy(&files[0]["table.zh.md"]), @"无表格：步骤 `four` 没有实例（条件 `machine.gpus >= 4` 不满足）。");
}

#[test]
fn the_schema_marks_steps_and_has_no_references() {
    let provided = flow_core::Builtins::provided(&flow_report::Reports::new());
    for (name, step) in provided {
        let text = step.with.to_string();
        assert!(!text.contains("$ref"), "{name}: {text}");
        assert!(text.contains(r#""x-flow":"step""#), "{name}: {text}");
        assert_eq!(step.outputs.get("out").map(String::as_str), Some("out"));
    }
}

#[test]
fn rows_go_by_the_axes_as_they_are_named_and_growth_along_the_last() {
    let mut results = Vec::new();
    for (model, factor) in [("s", 1.0), ("l", 3.0)] {
        for batch in [32, 64, 128] {
            for workers in [1, 2] {
                let axes = [("model", json!(model)), ("batch", json!(batch)), ("w", json!(workers))];
                let value = factor * f64::from(batch * workers);
                results.push(result("tr", &axes, 0).metric("x", value, ""));
            }
        }
    }
    let of = |with: Value| {
        let out = run("table", with, &input(vec![("tr", view("sh", None, results.clone()))])).expect("a table");
        text(&out, "table.csv")
    };
    let rows = of(json!({"from": "tr", "rows": ["model", "w", "batch"], "columns": ["x", "growth(x)"]}));
    insta::assert_snapshot!(rows, @"
    model,w,batch,x,growth(x) [%]
    s,1,32,32,NA
    s,1,64,64,100
    s,1,128,128,100
    s,2,32,64,NA
    s,2,64,128,100
    s,2,128,256,100
    l,1,32,96,NA
    l,1,64,192,100
    l,1,128,384,100
    l,2,32,192,NA
    l,2,64,384,100
    l,2,128,768,100
    ");
}
