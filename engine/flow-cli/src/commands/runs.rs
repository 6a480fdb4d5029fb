//! `flow runs`.

use std::process::ExitCode;

use clap::Args;
use flow_core::{Revision, RunStart};
use flow_store::Status;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Done;
use crate::args::{About, Global};
use crate::output::{Output, STRONG, styled};
use crate::place::Place;
use crate::words;

/// Arguments of `flow runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    #[command(flatten)]
    about: About,
    /// Only the last so many
    #[arg(short = 'N', long, value_name = "N", default_value_t = 20)]
    last: usize,
    /// One JSON object a run
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    run: String,
    workflow: String,
    file: String,
    set: Vec<String>,
    note: Option<String>,
    revision: Option<Revision>,
    status: Option<Status>,
}

impl Runs {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let place = Place::find(global, &self.about)?;
        let living = place.living()?;
        let runs = place.runs()?;
        let mut rows = vec![
            ["run", "workflow", "began", "took", "ended", "commit", "instances", "settings"]
                .map(|h| styled(STRONG, h))
                .to_vec(),
        ];
        for (run, start) in runs.iter().skip(runs.len().saturating_sub(self.last)) {
            let status = place.store.run(run).status()?;
            if self.json {
                let (workflow, file, set) = (start.workflow.clone(), start.file.clone(), start.set.clone());
                let (note, revision) = (start.note.clone(), start.revision.clone());
                output.json(&Line { run: run.to_string(), workflow, file, set, note, revision, status })?;
                continue;
            }
            let alive = living.iter().any(|one| one.run == *run);
            rows.push(row(run.to_string(), start, status.as_ref(), alive));
        }
        if !self.json {
            for line in words::columns(&rows) {
                output.line(line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// With a `+` where there were changes that were not committed.
fn commit(revision: &Revision) -> String {
    format!("{}{}", revision.short(), if revision.dirty { "+" } else { "" })
}

fn row(run: String, start: &RunStart, status: Option<&Status>, alive: bool) -> Vec<String> {
    let workflow = start.workflow.clone();
    let Some(status) = status else { return vec![run, workflow] };
    let ended = match status.ended {
        Some(0) => "done",
        Some(130) => "interrupted",
        Some(_) => "failed",
        None if alive => "running",
        None => "killed",
    };
    let counts: Vec<String> = status.counts.iter().map(|(how, n)| format!("{n} {}", how.replace('_', " "))).collect();
    let took = status.updated_at.saturating_sub(status.started_at) as f64 / 1e3;
    vec![
        run,
        workflow,
        words::date(status.started_at, &TimeZone::system()),
        words::duration(took),
        ended.to_owned(),
        start.revision.as_ref().map(commit).unwrap_or_default(),
        counts.join(", "),
        settings(start),
    ]
}

/// What was set on the command line, and the note.
fn settings(start: &RunStart) -> String {
    let note = start.note.as_ref().map(|note| format!("“{note}”"));
    let words: Vec<String> = start.set.iter().cloned().chain(note).collect();
    words.join(" ")
}
