//! `flow report`.

use std::process::ExitCode;

use clap::Args;
use flow_core::{ArtifactKind, StepResult};
use flow_store::{Replay, Results};

use super::{Done, find};
use crate::args::{Global, OfRun};
use crate::error::CliError;
use crate::output::Output;
use crate::place;
use crate::screen::Shown;

/// The report's text in the output of its step.
const TEXT: &str = "report.md";

/// Arguments of `flow report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow report                            where the last run's reports are
  flow report --print                    the report itself, Markdown")]
pub(crate) struct Report {
    /// The report's step, where the workflow has several
    step: Option<String>,
    #[command(flatten)]
    of: OfRun,
    /// Print the report
    #[arg(short, long)]
    print: bool,
}

impl Report {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let (place, _, view) = place::run(global, &self.of)?;
        if !self.print && self.step.is_none() {
            if view.published.is_empty() {
                return Err(
                    CliError::usage("the run published nothing").hint("`publish:` in the workflow says where to")
                );
            }
            for (path, _) in &view.published {
                output.line(super::run::near(&place.workspace.root.join(path)))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let shown: Vec<&Shown> = match &self.step {
            Some(step) => find(&view, step)?,
            None => view.instances.values().collect(),
        };
        let replay = Replay::read(&place.store)?;
        let objects = place.store.objects();
        let mut reports = Vec::new();
        for shown in shown {
            let earlier = || replay.result(shown.fingerprint.as_ref()?).ok().flatten();
            let Some(result) = shown.result.as_deref().cloned().or_else(earlier) else { continue };
            reports.extend(text(&result, &objects).map(|text| (shown.label.clone(), text)));
        }
        match reports.as_slice() {
            [] => Err(CliError::usage("the run has no report").hint("a step with `uses: flow/report` makes one")),
            [(_, text)] => {
                output.line(text.trim_end())?;
                Ok(ExitCode::SUCCESS)
            }
            several => {
                let steps: Vec<&str> = several.iter().map(|(label, _)| &**label).collect();
                Err(CliError::usage("the run has several reports").hint(format!("name one: {}", steps.join(", "))))
            }
        }
    }
}

fn text(result: &StepResult, objects: &flow_store::Objects) -> Option<String> {
    let artifact = result.outputs.values().find(|artifact| artifact.kind == ArtifactKind::Folder)?;
    String::from_utf8(objects.read(&artifact.digest, TEXT).ok()?).ok()
}
