//! `flow show`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use flow_core::{ArtifactKind, Digest, Environment, FRAMEWORKS, GpuUsage, Mode, RunId, StepResult};
use flow_report::measured;
use flow_runs::{RunDir, StoreDir};
use flow_store::Objects;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::past_runs::{AsRun, PastRuns};
use super::shell::work_folder;
use super::{CommandResult, find};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::{BAD, GOOD, NOTE, Output, STRONG, styled},
    place,
    reasons::{self, InstanceReason},
    screen::{InstanceState, InstanceView, came_to, each_result, is_failure},
    terminal::Paint,
    words,
};

/// Arguments of `flow show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow show solo                         every result of the step
  flow show solo_table                   the table of the step
  flow show 'solo[batch=16]' --json      one of them, as stored

For many instances it prints one line each; -v prints everything about each.")]
pub(crate) struct Show {
    /// A step, or an instance such as 'solo[batch=16]'
    step: String,
    #[command(flatten)]
    of: OfRun,
    /// Results as they are stored, one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let (place, dir, mut view) = place::run_with(global, &self.of, &self.step, |_| true, output)?;
        let mut orphans = None;
        if view.exit.is_none() && dir.lives().is_none() {
            // It may have ended after its journal was read.
            view = view.unread();
            dir.read_journal(|line| view.event(&line))?;
            orphans = view.exit.is_none().then(|| orphaned_steps(&place.store, &dir));
        }
        let found = find(&view, &self.step)?;
        let results = place::results(&place.store, output)?;
        let objects = Objects::of(&place.store);
        let mut past = PastRuns::of(&place.store);
        if found.len() >= MANY && !self.json && !output.verbose {
            let mut rows = Vec::new();
            each_result(found, &results, &place.store, |shown, result| {
                rows.push(line(shown, result, orphans.as_ref()));
                Ok(())
            })?;
            return Ok(output.lines(words::columns(&rows))?);
        }
        each_result(found, &results, &place.store, |shown, result| {
            match result {
                Some(result) if self.json => output.json(&with_start(&result, &mut past, shown)?)?,
                Some(result) => {
                    let began = ResultOrigin {
                        run: view.id_here(&result.run).clone(),
                        is_imported: view.imported.is_some(),
                        how: past.as_run(&result),
                        why: why_it_ran(&result, &mut past, shown),
                        work: work_folder(&place, &view, shown).map(|(_, work)| work),
                    };
                    output.lines(details(&shown.label, &result, &began, &objects, &TimeZone::system()))?;
                    if let Some(text) = made(&result, &objects, global.lang.as_deref())? {
                        output.text(format!("\n{}", text.trim_end()))?;
                    }
                }
                None if self.json => {}
                None => {
                    output.line(format!("{}: {}", styled(STRONG, &shown.label), why_none(shown, orphans.as_ref())))?;
                    let failed = matches!(shown.state, InstanceState::Settled(outcome) if is_failure(outcome));
                    if let Some((_, work)) = work_folder(&place, &view, shown).filter(|_| failed) {
                        output.line(format!("  work folder  {}", work.display()))?;
                    }
                }
            }
            Ok(())
        })
    }
}

/// How the attempt began that made a result, and where.
struct ResultOrigin {
    run: RunId,
    is_imported: bool,
    how: AsRun,
    why: Option<String>,
    /// Its work folder, if that was kept.
    work: Option<PathBuf>,
}

fn why_it_ran(result: &StepResult, past: &mut PastRuns<'_>, shown: &InstanceView) -> Option<String> {
    let reason = past.reason(&result.run, &result.fingerprint, &shown.label)?;
    Some(reason.words())
}

/// A stored result, and how its attempt began.
fn with_start(result: &StepResult, past: &mut PastRuns<'_>, shown: &InstanceView) -> Result<Value, CliError> {
    let unwritable = |e: serde_json::Error| CliError::failed(format!("the result cannot be written: {e}"));
    let mut value = serde_json::to_value(result).map_err(unwritable)?;
    let AsRun { command, env } = past.as_run(result);
    let because = why_it_ran(result, past, shown);
    if let Some(all) = value.as_object_mut() {
        all.extend(command.map(|command| ("command".to_owned(), command.into())));
        all.extend((!env.is_empty()).then(|| ("env".to_owned(), json!(env))));
        all.extend(because.map(|because| ("ran_because".to_owned(), because.into())));
    }
    Ok(value)
}

/// From this number of instances on, each has one line.
const MANY: usize = 4;

/// Its outcome, first numbers and time; or why there is no result.
fn line(shown: &InstanceView, result: Option<StepResult>, orphans: Option<&OrphanedSteps>) -> Vec<String> {
    let label = styled(STRONG, &shown.label);
    let Some(result) = result else { return vec![label, why_none(shown, orphans)] };
    let how = styled(style(&result), words::outcome(result.outcome));
    let attempts = match &result.usage.earlier {
        Some(earlier) if earlier.unmeasured > 0 => " (incomplete: it resumed from a checkpoint)".to_owned(),
        Some(earlier) => format!(" (in {} attempts)", earlier.jobs + 1),
        None => String::new(),
    };
    let took = result.usage.wall_s.map(words::duration).unwrap_or_default();
    vec![label, how, took + &attempts, came_to(&result)]
}

/// The state of each step that a killed run left, by label.
type OrphanedSteps = BTreeMap<String, &'static str>;

fn orphaned_steps(store: &StoreDir, run: &RunDir) -> OrphanedSteps {
    const ENDED: &str =
        "no result yet: flow was killed while it ran; it has ended since, and the next run collects its result";
    const IN_SLURM: &str = "no result yet: flow was killed, and its job may continue in Slurm (`flow status`)";
    const HERE: &str = "no result yet: flow was killed while it ran, but it continues (`flow status`)";
    // In this order: a step that ends in between must be in one of them.
    let here = flow_exec::running_orphans(store, run).into_iter().map(|label| (label, HERE));
    let in_slurm = flow_exec::unfinished_jobs(run).into_iter().map(|label| (label, IN_SLURM));
    let ended = flow_exec::ended_since(store, run).into_iter().map(|label| (label, ENDED));
    // Of several states of a step the last of this chain counts.
    ended.chain(in_slurm).chain(here).collect()
}

fn why_none(shown: &InstanceView, orphans: Option<&OrphanedSteps>) -> String {
    match shown.state {
        // The known reason is the one for which it runs.
        InstanceState::Running => match orphans {
            None => "no result yet: it is running".to_owned(),
            Some(left) => left.get(&shown.label).unwrap_or(&"no result: flow was killed while it ran").to_string(),
        },
        InstanceState::Settled(outcome) if is_failure(outcome) => {
            let how = styled(BAD, words::outcome(outcome));
            match &shown.reason {
                Some(InstanceReason::Settled(_, Some(cause))) => format!("{how}: {}", reasons::cause(cause)),
                _ => how,
            }
        }
        _ => shown.reason.as_ref().map_or_else(|| "no result".to_owned(), InstanceReason::words),
    }
}

fn style(result: &StepResult) -> Paint {
    match result.outcome {
        flow_core::Outcome::Ok => GOOD,
        flow_core::Outcome::Failed => BAD,
        _ => NOTE,
    }
}

/// The table or report of one of flow's own steps.
fn made(result: &StepResult, objects: &Objects, lang: Option<&str>) -> Result<Option<String>, CliError> {
    let read = |file: &str| result.outputs.values().find_map(|artifact| objects.read(&artifact.digest, file).ok());
    let text = match read(&format!("table.{}.md", lang.unwrap_or("en"))) {
        Some(table) => Some(String::from_utf8_lossy(&table).into_owned()),
        None => flow_report::Reports::new().text(read, lang).map_err(CliError::usage)?,
    };
    Ok(text)
}

/// Everything about a result.
fn details(label: &str, result: &StepResult, began: &ResultOrigin, objects: &Objects, zone: &TimeZone) -> Vec<String> {
    let mut out = vec![format!("{}  {}", styled(STRONG, label), styled(style(result), words::outcome(result.outcome)))];
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    let place = |digest: &Digest| {
        let path = objects.path(digest);
        format!("{}{}", path.display(), if path.exists() { "" } else { "  (removed)" })
    };
    if let Some(cause) = &result.cause {
        row("message", reasons::cause(cause));
    }
    if let Some(work) = &began.work {
        row("work folder", work.display().to_string());
    }
    for why in &result.disturbances {
        row("disturbed", reasons::disturbed(why));
    }
    for caveat in &result.caveats {
        row("caveat", reasons::caveat(caveat));
    }
    if let Some(reason) = &result.accepted {
        row("accepted", reason.clone());
    }
    row("run", format!("{}, {}", began.run, words::date(result.started_at, zone)));
    if let Some(revision) = &result.circumstances.revision {
        row("commit", words::revision(revision));
    }
    if let Some(why) = &began.why {
        row("ran because", why.clone());
    }
    if let Some(command) = &began.how.command {
        let mut lines = command.trim_end().lines();
        row("command", lines.next().unwrap_or_default().to_owned());
        lines.for_each(|line| row("", line.to_owned()));
    }
    for (name, value) in &began.how.env {
        row(&format!("env.{name}"), value.replace('\n', " "));
    }
    row("fingerprint", result.fingerprint.short());
    for (name, metric) in &result.metrics {
        let mut value = words::metric(metric.value, &metric.unit);
        if let Some(sd) = metric.sd {
            value.push_str(&format!(" ± {}", words::deviation(sd, &metric.unit)));
        }
        if let Some(epochs) = metric.epochs {
            value.push_str(&format!("  ({})", words::count(epochs as usize, "epoch")));
        }
        row(name, value);
    }
    usage(result, &mut row);
    circumstances(result, &mut row);
    if let Some(digest) = &result.circumstances.environment {
        let environment = flow_exec::environment(digest, objects);
        let unknown = environment.as_ref().is_some_and(|of| of.python_unknown).then(|| "Python unknown  ".to_owned());
        let python = environment.as_ref().and_then(Environment::python).map(|python| {
            let version = python.version.as_deref().unwrap_or_default();
            let known = FRAMEWORKS.iter().filter_map(|name| Some(format!(", {name} {}", python.packages.get(*name)?)));
            let packages = words::count(python.packages.len(), "package");
            format!("Python {version}{}, {packages}  ", known.collect::<String>())
        });
        let file = if began.is_imported { String::new() } else { place(digest) };
        let known = python.or(unknown).unwrap_or_default() + &file;
        row_of("environment", [Some(known.trim_end().to_owned()).filter(|known| !known.is_empty())], &mut row);
    }
    if !result.circumstances.also_ran.is_empty() {
        row("also ran", result.circumstances.also_ran.join(", "));
    }
    for (name, value) in &result.params {
        row(&format!("with.{name}"), value.to_string());
    }
    for (name, artifact) in &result.outputs {
        let what = match artifact.kind {
            ArtifactKind::File => words::bytes(artifact.bytes),
            ArtifactKind::Folder => {
                format!("{}, {}", words::count(artifact.files as usize, "file"), words::bytes(artifact.bytes))
            }
        };
        row(&format!("outputs.{name}"), format!("{}  ({what})", place(&artifact.digest)));
    }
    if let Some((kept, record)) = result.kept.as_ref().and_then(|kept| Some((kept, kept.record?))) {
        let cut = match kept.cut {
            0 => String::new(),
            cut => format!("  (without {} of its middle)", words::bytes(cut)),
        };
        row("kept log", place(&kept.log.unwrap_or(record)) + &cut);
    }
    // The path inside an import is long and names nothing.
    if let Some(series) = result.series.as_ref().filter(|_| !began.is_imported) {
        row("series", place(series));
    }
    out.extend(words::columns(&rows).into_iter().map(|line| format!("  {line}")));
    out
}

fn usage(result: &StepResult, row: &mut impl FnMut(&str, String)) {
    let usage = &result.usage;
    let jobs = usage.earlier.as_ref().map(|earlier| {
        let ended = if earlier.jobs == 1 { "one was" } else { "all but the last were" };
        let unmeasured = match earlier.unmeasured {
            0 => String::new(),
            1 => "; the duration of one is unknown, because it was killed together with flow".to_owned(),
            n => format!("; the durations of {n} are unknown, because they were killed together with flow"),
        };
        format!(", in {} attempts: {ended} interrupted{unmeasured}", earlier.jobs + 1)
    });
    let known = |name: &str, unit: &str| measured(result, name).map(|value| words::metric(value, unit));
    if let Some(wall_s) = measured(result, "wall") {
        row("wall time", words::duration(wall_s) + &jobs.unwrap_or_default());
    }
    if usage.swept > 0 {
        let what = if usage.swept == 1 { "process" } else { "processes" };
        row("left running", format!("{} {what}, ended with it", usage.swept));
    }
    let peak = known("cpu_util_peak", "ratio").map(|peak| format!(" (peak {peak})")).unwrap_or_default();
    let cpu = [
        measured(result, "cpu_cores").map(|cores| format!("{} cores", words::cores(cores))),
        known("cpu_util", "ratio").map(|share| format!("{share} of the host{peak}")),
        measured(result, "cpu_time").map(words::duration),
    ];
    row_of("CPU", cpu, row);
    row_of("memory", [known("memory", "bytes").map(|bytes| format!("{bytes} at the peak"))], row);
    let disk = [("disk_read", "read"), ("disk_written", "written")];
    row_of("disk", disk.map(|(name, how)| Some(format!("{} {how}", known(name, "bytes")?))), row);
    for (i, gpu) in usage.gpus.iter().enumerate() {
        row_of(&format!("GPU {i}"), on_gpu(gpu), row);
    }
    row_of("measuring", [known("sampler_cpu", "ratio").map(|share| format!("used {share} of one core"))], row);
    row_of("energy", [measured(result, "energy").map(|joules| format!("{} J", words::number(joules)))], row);
}

/// A row of known facts; none if nothing is known.
fn row_of(name: &str, parts: impl IntoIterator<Item = Option<String>>, row: &mut impl FnMut(&str, String)) {
    let known: Vec<String> = parts.into_iter().flatten().collect();
    if !known.is_empty() {
        row(name, known.join(", "));
    }
}

/// The use of one GPU.
fn on_gpu(gpu: &GpuUsage) -> [Option<String>; 4] {
    let share = |value: Option<f64>| value.map(|value| words::metric(value, "ratio"));
    let unverified = if gpu.unverified { " (unverified)" } else { "" };
    let peak = share(gpu.load_peak).map(|peak| format!("peak {peak}"));
    let full = share(gpu.load_above_90).map(|time| format!("above 90% for {time} of the time"));
    let more = [peak, full].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let load = match (share(gpu.load_mean), more.is_empty()) {
        (Some(mean), true) => Some(format!("load {mean}")),
        (Some(mean), false) => Some(format!("load {mean} ({more})")),
        (None, true) => None,
        (None, false) => Some(format!("load: {more}")),
    };
    [
        gpu.memory_peak.map(|bytes| format!("{} at the peak{unverified}", words::bytes(bytes))),
        load,
        share(gpu.memory_load_mean).map(|load| format!("memory-controller load {load}")),
        gpu.pcie.map(|(generation, width)| format!("PCIe {generation}.0 x{width}")),
    ]
}

fn circumstances(result: &StepResult, row: &mut impl FnMut(&str, String)) {
    let seen = &result.circumstances;
    let mode = match seen.mode {
        Mode::Plain => "not exclusive: other steps may run alongside",
        Mode::Alone => "alone",
        Mode::Corun => "in a co-run group",
    };
    row("mode", mode.to_owned());
    let gpus = if seen.gpu_models.is_empty() { String::new() } else { format!(" and {}", seen.gpu_models.join(", ")) };
    let declared = if seen.fake_gpus { " (declared, not there)" } else { "" };
    let host = words::count(seen.host_cpus as usize, "CPU");
    let cpus = if seen.cpus > 0 { format!("{} of {host}", seen.cpus) } else { host };
    if seen.host_cpus > 0 {
        row("on", format!("{cpus} ({}){gpus}{declared}", seen.cpu_model));
    }
    if let Some(window) = &seen.corun {
        let length = words::duration(window.closed_at - window.released_at);
        let epochs = words::count(window.epochs as usize, "epoch");
        row("window", format!("group {} of {}, {length}, {epochs} inside", window.group, window.members));
    }
    if !seen.corunners.is_empty() {
        row("alongside", seen.corunners.join(", "));
    }
    if let Some(shared) = seen.sharing.as_ref().filter(|shared| !shared.corunners.is_empty()) {
        let (others, epochs) =
            (shared.corunners.join(", "), words::count(shared.epochs.unwrap_or(0) as usize, "epoch"));
        row("slowdown", format!("{:.2} alongside {others} on its GPUs, in {epochs}", shared.slowdown));
    }
    for process in &seen.foreign_processes {
        let memory = words::bytes(process.memory);
        row(
            "foreign process",
            format!("{} (process {}) with {memory} on GPU {}", process.name, process.pid, process.gpu),
        );
    }
    if let Some(shared) = seen.gpu_shared.filter(|shared| *shared >= 0.005) {
        row("GPU shared", format!("others used {} of it", words::metric(shared, "ratio")));
    }
    let counts = |name: &str| measured(result, name).filter(|share| *share >= 0.005);
    if let Some(share) = counts("foreign_cpu") {
        row("foreign CPU", format!("{} of the host", words::metric(share, "ratio")));
    }
    if let Some(share) = counts("cpu_saturated") {
        row("CPU saturated", format!("{} of the time", words::metric(share, "ratio")));
    }
    for (name, value) in &seen.facts {
        row(name, value.clone());
    }
}
