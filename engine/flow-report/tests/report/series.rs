//! Tables with a row for each epoch or step: a row contains the numbers printed and measured in it, or a gap.

use std::collections::BTreeMap;

use crate::common::{ResultExt, add_table, curve, input, result, run, text, timed, view};
use flow_core::{Outcome, Series};
use serde_json::json;

#[test]
fn a_row_of_each_epoch() {
    let mut trained = result("tune", &[("batch", json!(16))], 1)
        .metric("valid_loss", 0.2, "")
        .metric("epoch_time", 2.0, "s")
        .metric("parameters", 1e6, "")
        .gpu_load(0.75, 0.2)
        .foreign_cpu(0.65);
    let seen = &mut trained.circumstances;
    (seen.cpu_saturated, seen.gpu_shared) = (Some(1.0), Some(0.3));
    let used = &mut trained.usage;
    (used.cpu_s, used.sampler_cpu, used.energy_j) = (Some(3.5), Some(0.01), Some(700.0));
    (used.disk_read, used.disk_written, used.gpus[0].load_above_90) = (Some(4096), Some(120 << 20), Some(0.5));
    let broken = result("tune", &[("batch", json!(32))], 1).outcome(Outcome::OutOfMemory);
    let series = Series {
        metrics: BTreeMap::from([
            ("valid_loss".to_owned(), curve(&[(1, 0.5), (2, 0.2)])),
            ("epoch_time".to_owned(), curve(&[(1, 3.0), (2, 2.0)])),
        ]),
        epoch_times: timed(&[(1, 1.0, 4.0), (2, 4.5, 6.5)]),
        samples: BTreeMap::from([
            ("gpu0_load".to_owned(), vec![(2.0, 0.4), (3.0, 0.6), (4.2, 0.0), (5.0, 1.0)]),
            ("gpu0_memory".to_owned(), vec![(2.0, 1e9), (5.0, 2e9)]),
            ("gpu0_memory_load".to_owned(), vec![(2.0, 0.1), (5.0, 0.1)]),
        ]),
    };
    let mut tune = view("torch/train", None, vec![trained, broken]);
    tune.series = vec![Some(series), None];
    let mut input = input(vec![("tune", tune)]);
    let columns = json!(["valid_loss", "epoch_time", "gpu_load", "parameters"]);
    add_table(&mut input, "t", json!({"from": "tune", "rows": ["batch", "epoch"], "columns": columns}));
    let files = &input.steps["t"].files;
    insta::assert_snapshot!(String::from_utf8_lossy(&files[0]["table.csv"]), @"
    batch,epoch,valid_loss,epoch_time [s],gpu_load [%],parameters
    16,1,0.5,3,50,NA
    16,2,0.2,2,100,NA
    32,—,out_of_memory,out_of_memory,out_of_memory,out_of_memory
    ");
    // These are not measured per epoch, and the values of the whole run are different numbers. Without numbers, no unit
    // is chosen.
    let columns = json!([
        "wall",
        "cpu_time",
        "cpu_util",
        "cpu_cores",
        "memory",
        "disk_read",
        "disk_written",
        "energy",
        "gpu_load_above_90",
        "gpu_memory_load_above_90",
        "gpu_power",
        "foreign_cpu",
        "cpu_saturated",
        "gpu_shared",
        "sampler_cpu"
    ]);
    add_table(&mut input, "w", json!({"from": "tune", "where": {"batch": 16}, "rows": ["epoch"], "columns": columns}));
    insta::assert_snapshot!(String::from_utf8_lossy(&input.steps["w"].files[0]["table.csv"]), @"
    epoch,wall [s],cpu_time,cpu_util,cpu_cores,memory,disk_read,disk_written,energy,gpu_load_above_90,gpu_memory_load_above_90,gpu_power,foreign_cpu,cpu_saturated,gpu_shared,sampler_cpu
    1,3,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA
    2,2,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA
    ");
}

#[test]
fn the_load_of_a_gpu_in_an_epoch_of_less_than_a_second_is_a_gap() {
    let trained = result("tune", &[], 1).metric("loss", 0.2, "").gpu_load(0.75, 0.2);
    let series = Series {
        metrics: BTreeMap::from([("loss".to_owned(), curve(&[(1, 0.5), (2, 0.2)]))]),
        epoch_times: timed(&[(1, 1.0, 1.5), (2, 2.0, 3.0)]),
        samples: BTreeMap::from([
            ("gpu0_load".to_owned(), vec![(1.2, 0.4), (2.5, 0.6)]),
            ("gpu0_memory".to_owned(), vec![(1.2, 1048576.0), (2.5, 2097152.0)]),
        ]),
    };
    let mut tune = view("torch/train", None, vec![trained]);
    tune.series = vec![Some(series)];
    let mut input = input(vec![("tune", tune)]);
    let columns = json!(["gpu_load", "gpu_load_peak", "gpu_memory", "gpu_memory_load"]);
    add_table(&mut input, "t", json!({"from": "tune", "rows": ["epoch"], "columns": columns}));
    insta::assert_snapshot!(String::from_utf8_lossy(&input.steps["t"].files[0]["table.csv"]), @"
    epoch,gpu_load [%],gpu_load_peak [%],gpu_memory [MiB],gpu_memory_load
    1,NA,40,1,NA
    2,60,60,2,NA
    ");
}

/// Part, epoch, step and value.
type SeriesPoint = (u32, Option<f64>, Option<f64>, f64);

fn series_of(metrics: &[(&str, &[SeriesPoint])]) -> Series {
    let point = |&(part, epoch, step, value): &SeriesPoint| flow_core::Point {
        part,
        key: flow_core::Key { epoch, step },
        value,
    };
    let metrics = metrics.iter().map(|(name, points)| ((*name).to_owned(), points.iter().map(point).collect()));
    Series { metrics: metrics.collect(), ..Series::default() }
}

fn rows_of(rows: &str, series: Series) -> String {
    let trained = result("tune", &[], 1).metric("loss", 1.0, "").metric("acc", 0.5, "").metric("test_acc", 0.4, "");
    let mut tune = view("torch/train", None, vec![trained]);
    tune.series = vec![Some(series)];
    let with = json!({"from": "tune", "rows": [rows], "columns": ["loss", "acc", "test_acc"]});
    let out = run("table", with, &input(vec![("tune", tune)])).expect("a table");
    let notes = text(&out, "table.en.md");
    let notes = notes.lines().filter(|line| !line.starts_with('|') && !line.is_empty()).map(str::trim);
    text(&out, "table.csv") + &notes.collect::<Vec<_>>().join("\n")
}

#[test]
fn rows_have_what_was_printed_in_them_or_a_gap() {
    // A second `fit`, whose epochs start again and which prints no accuracy.
    let twice = series_of(&[
        ("loss", &[(0, Some(0.0), None, 3.0), (0, Some(1.0), None, 2.0), (1, Some(0.0), None, 1.0)]),
        ("acc", &[(0, Some(1.0), None, 0.5)]),
    ]);
    insta::assert_snapshot!(rows_of("epoch", twice), @"
    part,epoch,loss,acc,test_acc
    0,0,3,NA,NA
    0,1,2,0.5,NA
    1,0,1,NA,NA
    `test_acc` was printed without an epoch, so it is in no row.
    ");
    // Losses between epochs, and an evaluation at the end of each.
    let fractions = series_of(&[
        (
            "loss",
            &[
                (0, Some(0.5), None, 2.0),
                (0, Some(0.99), None, 1.5),
                (0, Some(1.49), None, 1.2),
                (0, Some(1.98), None, 1.0),
            ],
        ),
        ("acc", &[(0, Some(1.0), None, 0.3), (0, Some(2.0), None, 0.5)]),
    ]);
    insta::assert_snapshot!(rows_of("epoch", fractions), @"
    epoch,loss,acc,test_acc
    1,1.5,0.3,NA
    2,1,0.5,NA
    `test_acc` was printed without an epoch, so it is in no row.
    ");
    let steps = series_of(&[("loss", &[(0, None, Some(250.0), 2.0), (0, None, Some(500.0), 1.0)])]);
    insta::assert_snapshot!(rows_of("step", steps.clone()), @"
    step,loss,acc,test_acc
    250,2,NA,NA
    500,1,NA,NA
    `acc` was printed without a step, so it is in no row.
    `test_acc` was printed without a step, so it is in no row.
    ");
    insta::assert_snapshot!(rows_of("epoch", steps), @"
    epoch,loss,acc,test_acc
    —,1,0.5,0.4
    The values have steps and no epochs: `rows: step` gives a row to each step.
    ");
}

/// Ten epochs of one training against ten of another are ten samples of two runs, but not samples of how runs differ.
#[test]
fn epochs_of_one_run_on_either_side_bear_no_test() {
    let mut results = Vec::new();
    let mut series = Vec::new();
    for (device, longer) in [("gpu", 1.0), ("cpu", 1.5)] {
        results.push(result("tune", &[("device", json!(device))], 1).metric("step_time", longer, "s"));
        let times: Vec<_> = (1..=10).map(|epoch| (epoch, longer * (1.0 + 0.01 * f64::from(epoch)))).collect();
        let metrics = BTreeMap::from([("step_time".to_owned(), curve(&times))]);
        series.push(Some(Series { metrics, epoch_times: Vec::new(), samples: BTreeMap::new() }));
    }
    let mut tune = view("torch/train", None, results);
    tune.series = series;
    let mut input = input(vec![("tune", tune)]);
    add_table(&mut input, "t", json!({"from": "tune", "rows": ["epoch"], "split": "device", "columns": ["step_time"]}));
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t", "compare": "device"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    assert!(report.contains("rises by 50% at every epoch"), "{report}");
    assert!(report.contains("so no test was made") && !report.contains("sign test"), "{report}");
    assert!(report.contains("双方各只有一次运行"), "{report}");
}
