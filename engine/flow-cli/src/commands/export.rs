//! `flow export`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flow_core::{Bundle, LONGEST_BUNDLE, Origin, StepResult};
use flow_exec::hardware::host_name;

use super::Done;
use crate::args::{About, Global, OfRun};
use crate::error::CliError;
use crate::output::{GOOD, NOTE, Output, styled};
use crate::screen::{InstanceState, View, each_result, is_failure};
use crate::{place, words};

/// Arguments of `flow export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow export --bundle h200.bundle           what the last run came to, for another machine to import
  flow export 20260208-153012-3f2a --bundle h200.bundle

A bundle is a text: numbers, parameters and circumstances of all that the run made or reused, with this machine's name,
hardware and flow; no artifacts, no logs, no serial numbers, of folders only the last name. What is hidden in reports is
hidden in it.")]
pub(crate) struct Export {
    /// The run, by its id or the end of it [default: the workflow's last]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    #[command(flatten)]
    about: About,
}

/// Nothing is there yet, or a bundle.
fn is_replaced(file: &Path) -> bool {
    const HEAD: &[u8] = b"{\"flow_bundle\":";
    let mut found = [0; HEAD.len()];
    match File::open(file) {
        Ok(mut file) => file.read_exact(&mut found).is_ok() && found == HEAD,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// How a run that has not ended well stands: who imports its results cannot tell that there were to be more.
fn unfinished(view: &View, goes_on: bool, results: usize) -> Option<String> {
    let needed = view.instances.values().filter(|shown| !matches!(shown.state, InstanceState::NotNeeded));
    let of = format!("{} of {}", words::thousands(results), words::count(needed.count(), "result"));
    let failed = view.instances.values().filter(|shown| match shown.state {
        InstanceState::Settled(outcome) => is_failure(outcome),
        _ => false,
    });
    let failed: Vec<&str> = failed.map(|shown| &*shown.label).collect();
    let which = if failed.is_empty() { String::new() } else { format!("; failed: {}", words::named(&failed)) };
    match view.exit {
        Some(0) => None,
        None if goes_on => Some(format!("goes on: {of} so far{which}")),
        None => Some(format!("was killed: {of}{which}")),
        Some(130) => Some(format!("was interrupted: {of}{which}")),
        Some(_) => Some(format!("failed: {of}{which}")),
    }
}

impl Export {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let (place, dir, view) = place::run(global, &OfRun { about: self.about, run: self.run })?;
        let began = dir.first_line()?.map_or(0, |line| line.at);
        if let Some(origin) = &view.imported {
            let text =
                format!("these results were imported from {}: only the store that made them exports them", origin.host);
            return Err(CliError::usage(text));
        }
        let Some(start) = &view.start else {
            return Err(CliError::usage("that run was killed before its journal began"));
        };
        let results = place::results(&place.store, output)?;
        let mut found: Vec<StepResult> = Vec::new();
        each_result(view.instances.values(), &*results, |_, result| {
            found.extend(result);
            Ok(())
        })?;
        let origin = Origin {
            host: host_name(),
            machine: start.machine.clone(),
            flow: start.flow.clone(),
            run: start.run.clone(),
            began,
            workflow: start.workflow.clone(),
        };
        let bundle = Bundle::of(origin, found, &flow_report::without_folders);
        if bundle.results.is_empty() {
            return Err(CliError::usage(format!("run {} has no result to export", bundle.origin.run)));
        }
        let bytes = bundle.bytes();
        if bytes.len() as u64 > LONGEST_BUNDLE {
            let longest = words::bytes(LONGEST_BUNDLE);
            return Err(CliError::failed(format!(
                "the results have {}; a bundle has at most {longest}",
                words::bytes(bytes.len() as u64)
            ))
            .hint("export runs of parts of the workflow: `flow run FILE STEP…`"));
        }
        let shown = self.bundle.display();
        if !is_replaced(&self.bundle) {
            return Err(CliError::usage(format!("`{shown}` is there, and no bundle"))
                .hint("another name, or move it away: only a bundle is replaced"));
        }
        flow_exec::text::replace(&self.bundle, &bytes)
            .map_err(|e| CliError::failed(format!("`{shown}` cannot be written: {e}")))?;
        let count = words::count(bundle.results.len(), "result");
        let (host, run) = (&bundle.origin.host, &bundle.origin.run);
        output.line(format!(
            "{} {count} of run {run} on {host}, {}: {shown}",
            styled(GOOD, "exported"),
            words::bytes(bytes.len() as u64)
        ))?;
        if let Some(how) = unfinished(&view, dir.lives().is_some(), bundle.results.len()) {
            output.note(format!("{} run {run} {how}", styled(NOTE, "note:")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
