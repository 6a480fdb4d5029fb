//! `flow runs`.

use clap::Args;
use flow_core::{Origin, Place, Revision, RunId, RunStart};
use flow_runs::Status;
use flow_store::Import;
use flow_supervisor::clock;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;

use super::CommandResult;
use crate::{
    args::{About, Global},
    output::{Output, STRONG, styled},
    place::StoreLocation,
    words,
};

/// Arguments of `flow runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    #[command(flatten)]
    about: About,
    /// Only the last N
    #[arg(short = 'N', long, value_name = "N", default_value_t = 20)]
    last: usize,
    /// One JSON object per run
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ListedRun<'a> {
    run: &'a RunId,
    workflow: &'a String,
    file: &'a String,
    set: &'a Vec<String>,
    force: &'a Option<Vec<String>>,
    on: &'a Option<Place>,
    note: &'a Option<String>,
    revision: &'a Option<Revision>,
    status: Option<Status>,
}

/// A line of the list.
enum ListLine {
    Run(Box<RunStart>),
    Import(Box<Import>),
}

impl Runs {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let living = place.living()?;
        let runs = place.runs()?;
        let mut rows = vec![
            ["run", "workflow", "began", "took", "ended", "commit", "instances", "settings"]
                .map(|h| styled(STRONG, h))
                .to_vec(),
        ];
        let mut listed: Vec<(RunId, ListLine)> =
            runs.into_iter().map(|(run, start)| (run, ListLine::Run(Box::new(start)))).collect();
        // In a store with several users.
        let mut owners = vec![Some(styled(STRONG, "of"))];
        let mut advice = Vec::new();
        let imports = place.imports()?.into_iter();
        listed.extend(imports.map(|import| (import.id.clone(), ListLine::Import(Box::new(import)))));
        listed.sort_by(|a, b| a.0.cmp(&b.0));
        for (run, one) in listed.iter().skip(listed.len().saturating_sub(self.last)) {
            let start = match one {
                ListLine::Run(start) => start,
                ListLine::Import(import) if self.json => {
                    let Import { id, at, origin, results, .. } = &**import;
                    output.json(&json!({"import": id, "imported_at": at, "from": origin, "results": results}))?;
                    continue;
                }
                ListLine::Import(import) => {
                    rows.push(row_of_import(import));
                    owners.push(place.store.run(run).others());
                    continue;
                }
            };
            let folder = place.store.run(run);
            let status = folder.status()?;
            if self.json {
                let RunStart { workflow, file, set, force, on, note, revision, .. } = &**start;
                output.json(&ListedRun { run, workflow, file, set, force, on, note, revision, status })?;
                continue;
            }
            let life = living.iter().find(|one| one.run == *run).map(|one| one.holder.process.stopped());
            let progress = match &life {
                None => "",
                Some(None) => "running",
                Some(Some(_)) => "stopped",
            };
            rows.push(row(run.to_string(), start, status.as_ref(), progress, clock::unix_millis()));
            advice.extend(life.flatten().map(|what_to_do| format!("run {run} is stopped: {what_to_do}")));
            owners.push(folder.others());
        }
        if owners.iter().flatten().count() > 1 {
            for (row, owner) in rows.iter_mut().zip(owners) {
                row.insert(2, owner.unwrap_or_default());
            }
        }
        if !self.json {
            output.lines(words::columns(&rows).into_iter().chain(advice))?;
        }
        Ok(())
    }
}

fn row_of_import(import: &Import) -> Vec<String> {
    let zone = TimeZone::system();
    let origin = &import.origin;
    vec![
        import.id.to_string(),
        origin.workflow.clone(),
        words::date(origin.began, &zone),
        String::new(),
        format!("imported from {}", origin.host),
        String::new(),
        words::count(import.results as usize, "result"),
        format!("run {} there, on {}", origin.run, machine(origin)),
    ]
}

/// Its hardware: GPUs, or CPUs if there are none.
fn machine(origin: &Origin) -> String {
    let machine = &origin.machine;
    match machine.gpus.first() {
        Some(gpu) => format!("{} x {}", machine.gpus.len(), gpu.name),
        None => format!("{} {}", words::count(machine.cpus as usize, "CPU"), machine.cpu_model),
    }
}

/// With a `+` if there were uncommitted changes.
fn commit(revision: &Revision) -> String {
    format!("{}{}", revision.short(), if revision.dirty { "+" } else { "" })
}

fn row(run: String, start: &RunStart, status: Option<&Status>, progress: &str, now: u64) -> Vec<String> {
    let workflow = start.workflow.clone();
    let Some(status) = status else { return vec![run, workflow] };
    let took = |until: u64| words::duration(until.saturating_sub(status.started_at) as f64 / 1e3);
    let (took, ended) = match status.ended {
        Some(0) => (took(status.updated_at), "done".to_owned()),
        Some(130) => (took(status.updated_at), "interrupted".to_owned()),
        Some(_) => (took(status.updated_at), "failed".to_owned()),
        None if !progress.is_empty() => (took(now), progress.to_owned()),
        // The time of its end was not recorded.
        None => (String::new(), format!("killed, last seen after {}", took(status.updated_at))),
    };
    vec![
        run,
        workflow,
        words::date(status.started_at, &TimeZone::system()),
        took,
        ended,
        start.revision.as_ref().map(commit).unwrap_or_default(),
        words::counts(status.counts.iter().map(|(how, n)| (*n as usize, how.replace('_', " ")))),
        settings(start),
    ]
}

/// The settings of the command line, and the note.
fn settings(start: &RunStart) -> String {
    let note = start.note.as_ref().map(|note| format!("“{note}”"));
    let on = start.on.map(|place| format!("--on {}", place.name()));
    let force = start.force.as_ref().map(|names| match names.is_empty() {
        true => "-f".to_owned(),
        false => names.iter().map(|name| format!("-f {name}")).collect::<Vec<_>>().join(" "),
    });
    let words: Vec<String> = on.into_iter().chain(force).chain(start.set.iter().cloned()).chain(note).collect();
    words.join(" ")
}
