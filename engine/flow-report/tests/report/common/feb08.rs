//! The results of the workflow feb08 on two machines: with four GPUs and the published figures, and without a GPU.

use flow_core::reason::{Cause, ProfileReason};
use flow_core::{BuiltinInput, CorunGpus, Outcome, Series, StepResult};
use serde_json::{Value, json};

use super::{ResultExt, add_table, input, number, published, result, view};

/// Figures that were not published. Plausible values fill the gaps: top-1, loader waits, GPU load.
const TOP1: [(f64, f64); 4] = [(0.952, 0.949), (0.948, 0.951), (0.941, 0.944), (0.930, 0.928)];

fn point(step: &str, version: &str, batch: &str, gpus: usize) -> StepResult {
    let batch: u32 = batch.parse().expect("a number");
    result(step, &[("version", json!(version)), ("batch", json!(batch))], gpus)
}

fn solo() -> Vec<StepResult> {
    let rows = published(include_str!("../published/feb08-mobilenet_v2-per-gpu.csv"));
    let mut results = Vec::new();
    for version in ["v7", "v11"] {
        for (row, top1) in rows.iter().zip(TOP1) {
            let time = number(row, &format!("epoch_{version}_s")).expect("a time");
            let waits = if version == "v7" { 0.31 } else { 0.04 };
            results.push(
                point("solo", version, &row["batch"], row["gpus"].parse().expect("a number"))
                    .noisy("epoch_time", time, "s", 0.15, 3)
                    .metric("data_wait", waits * time, "s")
                    .metric("top1", if version == "v7" { top1.0 } else { top1.1 }, "ratio")
                    .gpu_memory(number(row, "mem_per_gpu_mib").expect("memory"))
                    .gpu_load(0.55, 0.30)
                    .cpu_util(number(row, &format!("cpu_util_{version}_pct")).expect("a share") / 100.0),
            );
        }
    }
    results
}

fn together() -> Vec<StepResult> {
    let rows = published(include_str!("../published/feb08-together.csv"));
    let of = rows.iter().filter(|row| row["run"] == "own-gpus");
    of.map(|row| {
        let alone = number(row, "epoch_solo_s").expect("a time");
        // For v11 the notes say that together was as fast as alone, without a figure.
        let time = number(row, "epoch_together_s").unwrap_or(alone * 1.01);
        point("together", &row["dataset"], &row["batch"], row["gpus"].parse().expect("a number"))
            .noisy("epoch_time", time, "s", 0.2, 3)
            .metric("data_wait", if row["dataset"] == "v7" { 0.62 } else { 0.05 } * time, "s")
            .cpu_util(if row["dataset"] == "v7" { 0.33 } else { 0.22 })
            .corun(&row["dataset"], CorunGpus::Own, 3, 3)
    })
    .collect()
}

fn four() -> Vec<StepResult> {
    let rows = published(include_str!("../published/feb08-mobilenet_v2-4gpu.csv"));
    let of = rows.iter().map(|row| {
        let result = point("four", "v7", &row["batch"], 4);
        match (number(row, "epoch_s"), number(row, "mem_mib")) {
            (Some(time), Some(memory)) => result.epoch_time(time).gpu_memory(memory),
            _ => result.outcome(Outcome::OutOfMemory),
        }
    });
    of.collect()
}

fn four_together() -> Vec<StepResult> {
    let rows = published(include_str!("../published/feb08-together.csv"));
    let of = rows.iter().filter(|row| row["run"] == "4gpu-shared").map(|row| {
        point("four_together", "v7", &row["batch"], 4)
            .epoch_time(number(row, "epoch_together_s").expect("a time"))
            .corun("all", CorunGpus::Shared, 3, 2)
    });
    of.collect()
}

fn tables(input: &mut BuiltinInput) {
    let four = json!({"from": "four", "rows": "batch",
        "columns": ["gpu_memory", "growth(gpu_memory)", "epoch_time", "growth(epoch_time)"]});
    add_table(input, "four_table", four);
    let solo = json!({"from": "solo", "rows": "batch", "split": "version",
        "columns": ["gpus", "gpu_memory", "cpu_util", "epoch_time", "top1"]});
    add_table(input, "solo_table", solo);
}

/// Results of a machine with four GPUs.
pub(crate) fn with_gpus() -> BuiltinInput {
    let mut input = input(vec![
        ("four", view("torch/train", Some("solo"), four())),
        ("four_together", view("torch/train", Some("four"), four_together())),
        ("solo", view("torch/train", None, solo())),
        ("together", view("torch/train", Some("solo"), together())),
    ]);
    tables(&mut input);
    input
}

/// Results of a machine without a GPU: three together on two CPUs.
pub(crate) fn without_gpus() -> BuiltinInput {
    let figures = [
        ("v7", 8, 9.82, 0.97),
        ("v7", 16, 7.41, 0.96),
        ("v7", 32, 6.53, 0.95),
        ("v11", 8, 6.01, 0.96),
        ("v11", 16, 4.02, 0.95),
        ("v11", 32, 3.15, 0.94),
    ];
    let make = |step: &str, factor: f64| -> Vec<StepResult> {
        let of = figures.iter().map(|(version, batch, time, cpu)| {
            let top1 = 0.52 + f64::from(*batch) / 1000.0;
            let mut result = point(step, version, &batch.to_string(), 0)
                .on_cpu()
                .noisy("epoch_time", time * factor, "s", 0.05, 2)
                .metric("data_wait", time * factor * if *version == "v7" { 0.38 } else { 0.03 }, "s")
                .metric("top1", top1, "ratio")
                .cpu_util(if factor > 1.0 { cpu / 3.0 } else { *cpu });
            result.params.insert("size".into(), json!(64));
            result.run.0 = "20261121-101500-77aa".into();
            result.ended_at = 1_795_256_100_000;
            result.started_at = result.ended_at - 60_000;
            if factor > 1.0 { result.corun(version, CorunGpus::Own, 3, 2) } else { result }
        });
        of.collect()
    };
    let mut absent = view("torch/train", Some("solo"), vec![]);
    absent.absent = Some(Cause::ConditionFalse { expression: "machine.gpus >= 4".into() });
    let mut alone = view("torch/train", None, make("solo", 1.0));
    if let Some(last) = alone.series.last_mut() {
        *last = Some(series());
    }
    let mut four_together = absent.clone();
    four_together.like = Some("four".into());
    let mut input = input(vec![
        ("four", absent),
        ("four_together", four_together),
        ("solo", alone),
        ("together", view("torch/train", Some("solo"), make("together", 2.8))),
    ]);
    tables(&mut input);
    input.profile = Some(("no_gpu".into(), ProfileReason::Holds { expression: "machine.gpus == 0".into() }));
    input
}

/// Three epochs of a run whose CPU is less busy between them.
pub(crate) fn series() -> Series {
    let epoch_times = [(1, 1.0, 4.4), (2, 4.8, 8.0), (3, 8.4, 11.6)];
    let cpu = (0..25).map(|i| {
        let t = f64::from(i) * 0.5;
        let busy = epoch_times.iter().any(|(_, begin, end)| t >= *begin && t <= *end);
        (t, if busy { 0.93 + 0.04 * f64::from(i % 3) / 2.0 } else { 0.35 })
    });
    let mut series = Series { epoch_times: super::timed(&epoch_times), ..Series::default() };
    series.samples.insert("cpu".into(), cpu.collect());
    series
}

/// Parameters of the report, as the workflow writes them.
pub(crate) fn with() -> Value {
    json!({
        "languages": ["en", "zh"],
        "setup": [{"label": {"en": "Input", "zh": "输入"}, "value": "224×224"}],
        "sections": [
            {"table": "four_table", "corun": "four_together", "notes": {
                "todo": {"en": "Different models on different GPUs: faster?", "zh": "不同模型放在不同 GPU 上，会更快吗？"}}},
            {"table": "solo_table", "corun": "together", "compare": "version",
             "see": ["https://github.com/keras-team/keras/issues/9204#issuecomment-370805961"],
             "notes": {"question": {"en": "Do GPUs of their own help?", "zh": "各用各的 GPU 有帮助吗？"},
                       "guess": {"resource": "cpu", "en": "augmentation fills the CPU", "zh": "数据增强占满了 CPU"}}}
        ]
    })
}
