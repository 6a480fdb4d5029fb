//! Flow's own steps together: tables and reports, and simulations, which are steps like others and so are tabulated and
//! reported like others. Decides nothing.

use std::collections::BTreeMap;

use flow_core::sched::contention::Host;
use flow_core::{BuiltinInput, BuiltinOutput, Builtins, FileToWrite, Metric, Provided, PublishJob, Time};
use flow_report::{Bar, Gantt, LANGUAGES, Reports, Words};
use flow_sim::{Schedule, SimTask, Study, StudyWith, Summary, Use, cpu_over_time, waiting_over_time};
use serde_json::Value;

/// Every step behind `flow/`.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    reports: Reports,
    words: Words,
}

impl Steps {
    /// Ready to use.
    pub(crate) fn new() -> Self {
        Steps::default()
    }

    fn simulate(&self, with: StudyWith) -> Result<BuiltinOutput, String> {
        let study = Study::of(&with)?;
        let (tasks, schedule) = &study.first;
        let host = with.cpus.map(|_| &study.host);
        let kind = |task: &SimTask| task.task.estimate.source.clone();
        let gantt = gantt(tasks, schedule, study.cluster.total() as usize, host, kind);
        let summaries: Vec<&Summary> = study.seeds.iter().map(|(summary, _)| summary).collect();
        let json = serde_json::to_string_pretty(&summaries).map_err(|e| e.to_string())?;
        let picture = serde_json::to_string(&gantt).map_err(|e| e.to_string())?;
        let mut files = BTreeMap::from([
            ("seeds.json".to_owned(), (json + "\n").into_bytes()),
            ("schedule.json".to_owned(), (picture + "\n").into_bytes()),
        ]);
        for (lang, _) in LANGUAGES {
            files.insert(format!("schedule.{lang}.svg"), gantt.svg(&self.words, lang).into_bytes());
        }
        let metrics = BTreeMap::from([
            ("makespan".to_owned(), metric(&study, "s", |s, _| s.makespan_s)),
            ("time_in_system".to_owned(), metric(&study, "s", |s, _| s.mean_time_in_system_s)),
            ("time_in_system_p99".to_owned(), metric(&study, "s", |s, _| s.p99_time_in_system_s)),
            ("waiting".to_owned(), metric(&study, "s", |s, _| s.mean_waiting_s)),
            ("gpu_held".to_owned(), metric(&study, "ratio", |s, _| s.gpu_utilisation)),
            ("gpu_use".to_owned(), metric(&study, "ratio", |_, used| used.gpu)),
            ("cpu_use".to_owned(), metric(&study, "ratio", |_, used| used.cpu)),
        ]);
        Ok(BuiltinOutput { files, metrics, message: None })
    }
}

/// A number over seeds: its mean, and the deviation of single seeds.
fn metric(study: &Study, unit: &str, value: fn(&Summary, &Use) -> f64) -> Metric {
    let values: Vec<f64> = study.seeds.iter().map(|(summary, used)| value(summary, used)).collect();
    let (n, mean) = (values.len(), study.over(value).mean);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
    Metric { value: mean, unit: unit.to_owned(), epochs: Some(n as u32), sd, values }
}

/// The picture of a schedule, coloured by what `kind` says of a task; with the CPU of a host, where that counts.
pub(crate) fn gantt(
    tasks: &[SimTask],
    schedule: &Schedule,
    gpus: usize,
    host: Option<&Host>,
    kind: impl Fn(&SimTask) -> String,
) -> Gantt {
    let mut bars = Vec::new();
    for ran in &schedule.ran {
        let lanes: Vec<usize> = ran.placement.gpus.iter().map(|gpu| gpu.index()).collect();
        let lanes = if lanes.is_empty() { vec![gpus] } else { lanes };
        let kind = kind(&tasks[ran.instance.index()]);
        let (start, end) = (ran.start.as_secs_f64(), ran.end.as_secs_f64());
        bars.extend(lanes.into_iter().map(|lane| Bar { lane, kind: kind.clone(), start, end }));
    }
    let cpu = host.map(|host| (cpu_over_time(tasks, schedule, host), host.cores));
    // Where all were there from the start, most wait for each other and not for a GPU.
    let arrive = tasks.iter().any(|task| task.task.submitted > Time(0));
    let waiting = if arrive { waiting_over_time(tasks, schedule) } else { Vec::new() };
    Gantt::new(gpus, bars, cpu, waiting)
}

impl Builtins for Steps {
    fn provided(&self) -> BTreeMap<String, Provided> {
        let mut provided = self.reports.provided();
        provided.insert("simulate".to_owned(), flow_sim::provided());
        provided
    }

    fn run(&self, name: &str, input: &BuiltinInput) -> Result<BuiltinOutput, String> {
        if name == "simulate" {
            let with = Value::Object(input.with.clone());
            return self.simulate(serde_json::from_value(with).map_err(|e| format!("`with`: {e}"))?);
        }
        self.reports.run(name, input)
    }

    fn publish(&self, job: &PublishJob) -> Result<Vec<FileToWrite>, String> {
        self.reports.publish(job)
    }
}
