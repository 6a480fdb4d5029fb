//! `flow import`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flow_core::{Bundle, LONGEST_BUNDLE, StepResult};
use flow_store::{Results, Store};

use super::Done;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::{GOOD, NOTE, Output, styled};
use crate::{place, words};

/// Arguments of `flow import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow import h200.bundle                what `flow export` wrote on another machine
  flow forget lab4                       drop all that came from the machine lab4

Results of other machines answer no step and are averaged with none of one's own. Tables with `machines: true` show them
beside one's own, `flow predict` predicts for their GPUs too, `flow runs` lists them.")]
pub(crate) struct Import {
    /// A bundle
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    about: About,
}

impl Import {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let shown = self.file.display().to_string();
        let unread = |e: std::io::Error| CliError::usage(format!("`{shown}` cannot be read: {e}"));
        let bytes = flow_exec::text::read_bytes(&self.file, LONGEST_BUNDLE).map_err(unread)?;
        let mut bundle = Bundle::read(&bytes).map_err(|why| CliError::usage(format!("`{shown}`: {why}")))?;
        drop(bytes);
        let workspace = place::workspace(global, self.about.workflow.as_deref())?;
        let store = Store::open(workspace.make_store()?.path(), &place::me(), |_| ControlFlow::Break(()))?;
        place::mended(store.rebuilt(), output)?;
        let all = bundle.results.len();
        let mut foreign = Vec::with_capacity(all);
        for result in bundle.results {
            if !is_own(&result, &store)? {
                foreign.push(result);
            }
        }
        bundle.results = foreign;
        if bundle.results.is_empty() {
            let why = if all == 0 { "there is no result in it" } else { "its results are this store's own" };
            output.line(format!("{} from `{shown}`: {why}", styled(NOTE, "nothing imported")))?;
            return Ok(ExitCode::SUCCESS);
        }
        let count = words::count(bundle.results.len(), "result");
        let what = format!("{count} of {} on {}", bundle.origin.workflow, bundle.origin.host);
        output.line(match flow_exec::import(&store, bundle)? {
            Some(id) => format!("{} {what}: {id}", styled(GOOD, "imported")),
            None => format!("{} from `{shown}`: {what} are here already", styled(NOTE, "nothing imported")),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// This store has that very result.
fn is_own(result: &StepResult, store: &Store) -> Result<bool, CliError> {
    let own = store.result(&result.fingerprint)?;
    Ok(own.is_some_and(|own| (own.run, own.ended_at) == (result.run.clone(), result.ended_at)))
}
