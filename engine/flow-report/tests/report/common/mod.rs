//! Results as the store would contain them, with published or simple figures.

pub(crate) mod analyses;
pub(crate) mod feb08;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use flow_core::{
    BuiltinInput, BuiltinOutput, Builtins, Circumstances, CorunGpus, CorunWindow, Digest, GpuUsage, Key, Metric, Mode,
    Outcome, Point, RunId, StepResult, StepView, TimedEpoch, Usage,
    reason::{Cause, Memory},
};
use flow_report::Reports;
use indexmap::IndexMap;
use serde_json::{Value, json};

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// A result of `step` at a point of its matrix, alone on a machine with `gpus` Titan Xp, without numbers.
pub(crate) fn result(step: &str, axes: &[(&str, Value)], gpus: usize) -> StepResult {
    let point: Vec<String> =
        axes.iter().map(|(k, v)| format!("{k}={}", v.as_str().map_or_else(|| v.to_string(), str::to_owned))).collect();
    let label = if point.is_empty() { step.to_owned() } else { format!("{step}[{}]", point.join(",")) };
    StepResult {
        caveats: vec![],
        fingerprint: Digest::of(label.as_bytes()),
        workflow: "feb08".into(),
        step: step.into(),
        label,
        axes: axes.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect::<IndexMap<_, _>>(),
        repetition: None,
        outcome: Outcome::Ok,
        cause: None,
        disturbances: vec![],
        run: RunId("20260208-153012-3f2a".into()),
        started_at: 1_770_560_000_000,
        ended_at: 1_770_564_600_000,
        outputs: IndexMap::new(),
        paths: Default::default(),
        metrics: BTreeMap::new(),
        params: BTreeMap::from([
            ("model".to_owned(), json!("mobilenet_v2")),
            ("epochs".to_owned(), json!(4)),
            ("data".to_owned(), json!(Digest::of(b"data").to_string())),
        ]),
        usage: Usage {
            gpus: (0..gpus).map(|g| GpuUsage { uuid: format!("GPU-{g}"), ..GpuUsage::default() }).collect(),
            ..Usage::default()
        },
        circumstances: Circumstances {
            mode: Mode::Alone,
            gpu_models: vec!["NVIDIA TITAN Xp".into(); gpus],
            gpus: (0..gpus).map(|g| format!("GPU-{g}")).collect(),
            gpu_memory_total: vec![12196 * MIB as u64; gpus],
            cpus: 4,
            host_cpus: 16,
            cpu_model: "Intel Xeon E5-2620 v4".into(),
            host_memory: 64 << 30,
            facts: BTreeMap::from([("torch".to_owned(), "1.5.1".to_owned())]),
            ..Circumstances::default()
        },
        series: None,
        kept: None,
        accepted: None,
    }
}

/// Adds figures and facts to a result.
pub(crate) trait ResultExt: Sized {
    fn metric(self, name: &str, value: f64, unit: &str) -> Self;
    fn noisy(self, name: &str, value: f64, unit: &str, sd: f64, epochs: u32) -> Self;
    fn epoch_time(self, seconds: f64) -> Self {
        self.metric("epoch_time", seconds, "s")
    }
    /// A mean over the same seeds as in other results.
    fn seeds(self, name: &str, values: &[f64], unit: &str) -> Self;
    fn gpu_memory(self, mib: f64) -> Self;
    fn cpu_util(self, share: f64) -> Self;
    fn foreign_cpu(self, share: f64) -> Self;
    fn gpu_load(self, load: f64, memory: f64) -> Self;
    fn outcome(self, outcome: Outcome) -> Self;
    fn corun(self, group: &str, gpus: CorunGpus, members: u32, epochs: u32) -> Self;
    fn on_cpu(self) -> Self;
}

impl ResultExt for StepResult {
    fn metric(mut self, name: &str, value: f64, unit: &str) -> Self {
        self.metrics.insert(name.into(), Metric { value, unit: unit.into(), epochs: None, sd: None, values: vec![] });
        self
    }
    fn noisy(mut self, name: &str, value: f64, unit: &str, sd: f64, epochs: u32) -> Self {
        self.metrics.insert(
            name.into(),
            Metric { value, unit: unit.into(), epochs: Some(epochs), sd: Some(sd), values: vec![] },
        );
        self
    }
    fn seeds(mut self, name: &str, values: &[f64], unit: &str) -> Self {
        let n = values.len() as f64;
        let value = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let metric = Metric {
            value,
            unit: unit.into(),
            epochs: Some(values.len() as u32),
            sd: Some(sd),
            values: values.to_vec(),
        };
        self.metrics.insert(name.into(), metric);
        self
    }
    fn gpu_memory(mut self, mib: f64) -> Self {
        for gpu in &mut self.usage.gpus {
            gpu.memory_peak = Some((mib * MIB) as u64);
        }
        self
    }
    fn cpu_util(mut self, share: f64) -> Self {
        self.usage.cpu_util = Some(share);
        self.usage.cpu_cores = Some(share * f64::from(self.circumstances.host_cpus));
        self
    }
    fn foreign_cpu(mut self, share: f64) -> Self {
        self.circumstances.foreign_cpu = Some(share);
        self
    }
    fn gpu_load(mut self, load: f64, memory: f64) -> Self {
        for gpu in &mut self.usage.gpus {
            gpu.load_mean = Some(load);
            gpu.memory_load_mean = Some(memory);
        }
        self
    }
    fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        let memory = if self.usage.gpus.is_empty() { Memory::Host } else { Memory::Gpu };
        self.cause = (outcome == Outcome::OutOfMemory).then_some(Cause::OutOfMemory { memory, message: None });
        self
    }
    fn corun(mut self, group: &str, gpus: CorunGpus, members: u32, epochs: u32) -> Self {
        self.circumstances.mode = Mode::Corun;
        self.circumstances.corun = Some(CorunWindow {
            group: group.into(),
            gpus,
            members,
            released_at: 2.0,
            closed_at: 120.0,
            epochs,
            closed_by: None,
            interference: None,
        });
        self
    }
    fn on_cpu(mut self) -> Self {
        self.circumstances.host_cpus = 2;
        self.circumstances.cpus = 2;
        self.circumstances.cpu_model = "AMD EPYC 7571".into();
        self.circumstances.facts =
            BTreeMap::from([("torch".to_owned(), "2.11.0".to_owned()), ("device".to_owned(), "cpu".to_owned())]);
        self
    }
}

/// A step with these results.
pub(crate) fn view(uses: &str, like: Option<&str>, results: Vec<StepResult>) -> StepView {
    StepView {
        uses: Some(uses.into()),
        like: like.map(str::to_owned),
        series: vec![None; results.len()],
        files: vec![BTreeMap::new(); results.len()],
        results,
        ..StepView::default()
    }
}

/// An input with steps by name.
pub(crate) fn input(steps: Vec<(&str, StepView)>) -> BuiltinInput {
    BuiltinInput {
        workflow: "feb08".into(),
        title: BTreeMap::from([
            ("en".to_owned(), "mobilenet_v2: batch size, and dataset v7 against v11".to_owned()),
            ("zh".to_owned(), "mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比".to_owned()),
        ]),
        steps: steps.into_iter().map(|(name, view)| (name.to_owned(), view)).collect(),
        ..BuiltinInput::default()
    }
}

/// One for all tests, because it reads the catalogues once.
pub(crate) static REPORTS: LazyLock<Reports> = LazyLock::new(Reports::new);

pub(crate) fn run(name: &str, with: Value, input: &BuiltinInput) -> Result<BuiltinOutput, String> {
    let mut input = input.clone();
    input.with = with.as_object().expect("a map").clone();
    REPORTS.run(name, &input).map_err(|fault| fault.to_string())
}

/// Runs `flow/table` and adds it to the steps, as the engine does.
pub(crate) fn add_table(input: &mut BuiltinInput, name: &str, with: Value) {
    let out = run("table", with.clone(), input).expect("a table");
    let mut table = view("flow/table", None, vec![result(name, &[], 0)]);
    table.with = with.as_object().expect("a map").clone();
    table.files = vec![out.files];
    input.steps.insert(name.into(), table);
}

/// A file of an output, as text. Of a report, only the details; of a chart in several languages, the first.
pub(crate) fn text(out: &BuiltinOutput, path: &str) -> String {
    let whole = whole(out, path);
    if path == "report.md" { details(&whole) } else { whole }
}

/// A file of an output as it is.
pub(crate) fn whole(out: &BuiltinOutput, path: &str) -> String {
    let english = path.replace(".svg", ".en.svg");
    let bytes = out.files.get(path).or_else(|| out.files.get(&english));
    String::from_utf8(bytes.unwrap_or_else(|| panic!("no {path}")).clone()).expect("UTF-8")
}

/// The rows of a published CSV, by column.
pub(crate) fn published(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines.next().expect("a head").split(',').collect();
    lines.map(|line| heads.iter().map(|h| (*h).to_owned()).zip(line.split(',').map(str::to_owned)).collect()).collect()
}

/// A number of such a row.
pub(crate) fn number(row: &BTreeMap<String, String>, column: &str) -> Option<f64> {
    row[column].parse().ok()
}

/// The findings of a report by language, as its details list them: English, then Chinese, if it has both.
pub(crate) fn bullets(details: &str) -> [Vec<&str>; 2] {
    let (first, second) = details.split_once("\n## 中文\n").unwrap_or((details, ""));
    [first, second].map(|half| {
        let body = half.split_once("\n## ").map_or("", |(_, body)| body);
        body.lines().filter(|line| line.starts_with("- ")).collect()
    })
}

/// The remarks of a report by language, as its details list them after the set-up.
pub(crate) fn remarks(details: &str) -> [Vec<&str>; 2] {
    let (first, second) = details.split_once("\n## 中文\n").unwrap_or((details, ""));
    [first, second].map(|half| {
        let head = half.split_once("\n\n## ").map_or(half, |(head, _)| head);
        head.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '-'])).collect()
    })
}

/// The details of a report: for each language the set-up and the remarks, then each section below a heading.
fn details(report: &str) -> String {
    let halves: Vec<String> = report.split("\n## 中文\n").map(details_of).collect();
    halves.join("\n## 中文\n")
}

fn details_of(half: &str) -> String {
    let mut folds: Vec<&str> = half.split("\n<details>\n").skip(1).collect();
    let inside = |fold: &str| {
        let (inside, _) = fold.split_once("\n</details>").expect("an end");
        inside.split_once("</summary>\n").expect("a summary").1.trim().to_owned()
    };
    let setup = folds.pop().map(inside).unwrap_or_default();
    let titles = half.lines().filter_map(|line| line.strip_prefix("## ").or_else(|| line.strip_prefix("#### ")));
    let mut titles = titles.chain(std::iter::repeat(""));
    let sections = folds.into_iter().map(|fold| format!("\n\n## {}\n\n{}", titles.next().unwrap_or(""), inside(fold)));
    let title = half.lines().find(|line| line.starts_with('#')).unwrap_or("");
    format!("{title}\n\n{setup}{}\n", sections.collect::<String>())
}

/// The part of a report that is not in its details, by language.
pub(crate) fn first_screens(report: &str) -> [String; 2] {
    let (first, second) = report.split_once("\n## 中文\n").unwrap_or((report, ""));
    [first, second].map(|half| {
        let mut depth = 0;
        let shown = half.lines().filter(|line| {
            depth += usize::from(*line == "<details>");
            let outside = depth == 0;
            depth -= usize::from(*line == "</details>");
            outside
        });
        shown.collect::<Vec<_>>().join("\n")
    })
}

/// The figures of a text: numbers that are not part of a word such as `v7` or `mobilenet_v2`, of a link, or of code.
pub(crate) fn figures(text: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    // A less-than sign before a number is not a tag.
    let text = text.replace("< ", "");
    for (at, outside) in text.split(['<', '>', '`']).enumerate() {
        if at % 2 == 1 && text.contains(['<', '`']) {
            continue;
        }
        let mut word = String::new();
        for c in outside.chars().chain([' ']) {
            let latin = c.is_ascii_alphanumeric() || c == '_' || (c == '.' && !word.is_empty());
            if latin {
                word.push(c);
                continue;
            }
            let word = std::mem::take(&mut word);
            let bare = word.trim_end_matches('.');
            if bare.parse::<f64>().is_ok() {
                out.insert(bare.to_owned());
            }
        }
    }
    out
}

/// Checks that every figure of the prose is in a table, and that both languages have the same figures.
pub(crate) fn honest(report: &str) {
    let tables: String = report.lines().filter(|line| line.starts_with('|')).collect::<Vec<_>>().join("\n");
    let shown = figures(&tables);
    let [english, chinese] = bullets(report);
    assert_eq!(english.len(), chinese.len(), "{report}");
    for (en, zh) in english.iter().zip(&chinese) {
        assert_eq!(figures(en), figures(zh), "{en}\n{zh}");
        // A bound or a number of runs is not a measurement.
        let told = ["less than ", "below ", "about ", "would take more than "];
        if told.iter().any(|word| en.contains(word)) {
            continue;
        }
        for figure in figures(en) {
            assert!(shown.contains(&figure), "{figure} of `{en}` is in no table of\n{report}");
        }
    }
}

/// The report of one section, in both languages.
pub(crate) fn reported(input: &BuiltinInput, section: Value) -> String {
    let with = json!({"languages": ["en", "zh"], "sections": [section]});
    let report = text(&run("report", with, input).expect("a report"), "report.md");
    honest(&report);
    report
}

/// The values of a metric by epoch.
pub(crate) fn curve(values: &[(u32, f64)]) -> Vec<Point> {
    values.iter().map(|&(epoch, value)| Point { part: 0, key: Key::of_epoch(epoch), value }).collect()
}

/// Epochs with start and end.
pub(crate) fn timed(epochs: &[(u32, f64, f64)]) -> Vec<TimedEpoch> {
    epochs.iter().map(|&(epoch, began, ended)| TimedEpoch { part: 0, epoch, began, ended }).collect()
}
