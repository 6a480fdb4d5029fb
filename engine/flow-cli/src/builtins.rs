//! flow's own steps: tables, reports and simulations. Tables and reports read simulations like any
//! other step.

use std::collections::BTreeMap;
use std::path::Path;

use flow_core::reason::{BuiltinFault, Fault};
use flow_core::sched::contention::Host;
use flow_core::sched::policy::{self, Lyapunov, Policy};
use flow_core::{BuiltinInput, BuiltinOutput, Builtins, CatalogueStep, Metric, Publication, PublishJob, Time};
use flow_report::{AssumedKind, AssumedLoad, AssumedSlurm, Assumptions, Bar, Gantt, LANGUAGES, Reports, Words};
use flow_sim::arrivals::Kind;
use flow_sim::{Schedule, SimTask, Slurm, Study, StudyWith, Summary, Use, cpu_over_time, waiting_over_time};
use serde_json::Value;

/// The digest of the sources of these steps, from `build.rs`. A flow that computes, words or draws
/// in another way must not reuse old results.
const SOURCES: &str = env!("FLOW_BUILTINS");

/// Every step behind `flow/`.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    reports: Reports,
    words: Words,
}

impl Steps {
    fn simulate(&self, with: StudyWith) -> Result<BuiltinOutput, BuiltinFault> {
        let trace = with.trace.as_deref().map(Path::new).map(trace).transpose()?;
        let study = Study::of(&with, trace.as_deref())?;
        let (tasks, schedule) = &study.first;
        let host = with.cpus.map(|_| &study.host);
        let kind = |task: &SimTask| task.kind.clone();
        let gantt = gantt(tasks, schedule, study.cluster.total() as usize, host, kind);
        let summaries: Vec<&Summary> = study.seeds.iter().map(|(summary, _)| summary).collect();
        let mut files = BTreeMap::from([
            file("seeds.json", serde_json::to_string_pretty(&summaries))?,
            file("schedule.json", serde_json::to_string(&gantt))?,
            file("assumed.json", serde_json::to_string_pretty(&assumed(&with, &study)))?,
        ]);
        for (lang, _) in LANGUAGES {
            files.insert(format!("schedule.{lang}.svg"), gantt.svg(&self.words, lang).into_bytes());
        }
        let mut metrics = BTreeMap::from([
            ("makespan".to_owned(), metric(&study, "s", |s, _| s.makespan_s)),
            ("time_in_system".to_owned(), metric(&study, "s", |s, _| s.mean_time_in_system_s)),
            ("time_in_system_p99".to_owned(), metric(&study, "s", |s, _| s.p99_time_in_system_s)),
            ("waiting".to_owned(), metric(&study, "s", |s, _| s.mean_waiting_s)),
            ("gpu_held".to_owned(), metric(&study, "ratio", |s, _| s.gpu_utilisation)),
            ("gpu_use".to_owned(), metric(&study, "ratio", |_, used| used.gpu)),
            ("cpu_use".to_owned(), metric(&study, "ratio", |_, used| used.cpu)),
        ]);
        if with.slurm.is_some() {
            let wait = |s: &Summary, _: &Use| s.slurm.as_ref().map_or(0.0, |met| met.mean_wait_s);
            let calls = |s: &Summary, _: &Use| s.slurm.as_ref().map_or(0.0, |met| met.calls as f64);
            metrics.insert("slurm_wait".to_owned(), metric(&study, "s", wait));
            metrics.insert("slurm_calls".to_owned(), metric(&study, "", calls));
        }
        Ok(BuiltinOutput { files, metrics, ..BuiltinOutput::default() })
    }
}

/// The assumptions of a simulation, for reports.
fn assumed(with: &StudyWith, study: &Study) -> Assumptions {
    let all: f64 = with.mix.iter().map(|kind| kind.weight).sum();
    let kind = |kind: &Kind| AssumedKind {
        name: kind.name.clone(),
        share: kind.weight / all,
        gpus: kind.gpus,
        duration_s: kind.duration_s,
        spread: kind.spread,
        cores: kind.cpu_cores,
        gpu_busy: kind.gpu_busy,
        gpu_memory_gib: kind.gpu_memory_gib,
    };
    let file = |path: &String| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let load = with.trace.as_ref().map(|path| AssumedLoad::Trace(file(path)));
    let lyapunov = Lyapunov::default();
    Assumptions {
        cluster: with.gpus.clone(),
        cores: with.cpus,
        policy: with.policy.clone(),
        one_gpu: policy::named(&with.policy).is_some_and(|policy| policy.one_gpu_only()),
        v: (with.policy == lyapunov.name()).then(|| with.v.unwrap_or(lyapunov.v)),
        share: with.share,
        jobs: study.first.0.len(),
        seeds: study.seeds.len(),
        priorities: with.trace.is_none().then_some(with.priorities),
        estimate_error: with.estimate_error,
        slurm: with.slurm.map(|slurm| {
            let Slurm { queue, array, jobs, remembered_s, delay_s, tick_s, rate, submit_s, notice_s } = slurm;
            AssumedSlurm { queue, array, jobs, remembered_s, delay_s, tick_s, rate, submit_s, notice_s }
        }),
        load: load.unwrap_or_else(|| AssumedLoad::Mix(with.mix.iter().map(kind).collect())),
    }
}

/// A file of JSON.
fn file(name: &str, json: serde_json::Result<String>) -> Result<(String, Vec<u8>), BuiltinFault> {
    let json = json.map_err(|error| BuiltinFault::NotWritten { message: error.to_string() })?;
    Ok((name.to_owned(), (json + "\n").into_bytes()))
}

/// The text of a trace. It is an input of the step, so the fingerprint covers it.
fn trace(path: &Path) -> Result<String, BuiltinFault> {
    /// Millions of jobs.
    const LONGEST: u64 = 256 << 20;
    flow_exec::text::read(path, LONGEST)
        .map_err(|e| BuiltinFault::TraceUnread { path: path.display().to_string(), error: Box::new(e.into()) })
}

/// A number over seeds: its mean and standard deviation.
fn metric(study: &Study, unit: &str, value: fn(&Summary, &Use) -> f64) -> Metric {
    let values: Vec<f64> = study.seeds.iter().map(|(summary, used)| value(summary, used)).collect();
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
    Metric { value: mean, unit: unit.to_owned(), epochs: Some(n as u32), sd, values }
}

/// The picture of a schedule, coloured by the `kind` of each task; with the host's CPU, if CPUs
/// count.
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
    // If all jobs are there from the start, most wait for each other and not for a GPU.
    let arrive = tasks.iter().any(|task| task.task.submitted > Time(0));
    let waiting = if arrive { waiting_over_time(tasks, schedule) } else { Vec::new() };
    Gantt::new(gpus, bars, cpu, waiting)
}

impl Builtins for Steps {
    fn provided(&self) -> BTreeMap<String, CatalogueStep> {
        let mut provided = self.reports.provided();
        provided.insert("simulate".to_owned(), flow_sim::provided());
        for step in provided.values_mut() {
            step.version = Some(SOURCES.to_owned());
        }
        provided
    }

    fn version(&self) -> &str {
        SOURCES
    }

    fn run(&self, name: &str, input: &BuiltinInput) -> Result<BuiltinOutput, Fault> {
        if name == "simulate" {
            let with = Value::Object(input.with.clone());
            let unread = |e: serde_json::Error| BuiltinFault::ParametersUnread { message: e.to_string() };
            return Ok(self.simulate(serde_json::from_value(with).map_err(unread)?)?);
        }
        self.reports.run(name, input)
    }

    fn publish(&self, job: &PublishJob) -> Result<Publication, String> {
        self.reports.publish(job)
    }
}

#[cfg(test)]
#[path = "../build.rs"]
#[expect(dead_code, reason = "its `main` is Cargo's to call")]
mod build;

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A workspace with the crates that count and one that does not.
    fn workspace() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let depends = |on: &str| {
            format!(
                "[package]\nname = \"x\"\n\n[dependencies]\n{on}serde.workspace = true\n\n[dev-dependencies]\nflow-exec.workspace = true\n"
            )
        };
        write(root.path(), "Cargo.lock", "kuva 0.6.0\n");
        write(root.path(), "engine/flow-cli/src/builtins.rs", "");
        write(root.path(), "engine/flow-core/Cargo.toml", &depends(""));
        write(root.path(), "engine/flow-core/src/sched/policy/fifo.rs", "first\ncome\n");
        write(root.path(), "engine/flow-sim/Cargo.toml", &depends("flow-core.workspace = true\n"));
        write(root.path(), "engine/flow-report/Cargo.toml", &depends("flow-core = { workspace = true }\n"));
        write(root.path(), "engine/flow-report/locales/en.ftl", "row = row\n");
        write(root.path(), "engine/flow-report/templates/report.md.j2", "# Report\n");
        write(root.path(), "engine/flow-exec/src/lib.rs", "");
        root
    }

    #[test]
    fn every_step_has_the_digest_of_the_sources_as_they_are() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let now = build::digest(&root).expect("sources");
        let provided = Steps::default().provided();
        assert!(provided.len() >= 3);
        for (name, step) in provided {
            assert_eq!(step.version.as_deref(), Some(&*now), "{name}");
        }
    }

    #[test]
    fn what_a_step_depends_on_changes_its_key() {
        let root = workspace();
        let root = root.path();
        let mut seen = vec![build::digest(root).expect("sources")];
        let changes = [
            ("engine/flow-core/src/sched/policy/fifo.rs", "last\ncome\n"),
            ("engine/flow-core/src/sched/policy/lifo.rs", ""),
            ("engine/flow-report/locales/en.ftl", "row = line\n"),
            ("engine/flow-report/templates/report.md.j2", "## Report\n"),
            ("engine/flow-cli/src/builtins.rs", "gantt"),
            ("Cargo.lock", "kuva 0.6.1\n"),
        ];
        for (file, text) in changes {
            write(root, file, text);
            let now = build::digest(root).expect("sources");
            assert!(!seen.contains(&now), "{file} does not count");
            seen.push(now);
        }
    }

    #[test]
    fn where_sources_lie_how_their_lines_end_and_what_others_hold_does_not_change_a_key() {
        let (one, other) = (workspace(), workspace());
        let (one, other) = (one.path(), other.path());
        write(other, "engine/flow-core/src/sched/policy/fifo.rs", "first\r\ncome\r\n");
        write(other, "engine/flow-exec/src/lib.rs", "mod driver;");
        write(other, "engine/flow-core/tests/fifo.rs", "");
        write(other, "engine/flow-core/src/.fifo.rs.swp", "");
        assert_eq!(build::digest(one).expect("sources"), build::digest(other).expect("sources"));
    }
}
