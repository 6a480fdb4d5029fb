//! `flow forget`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use flow_store::Store;

use super::{Done, find};
use crate::args::{Global, OfRun};
use crate::output::Output;
use crate::{place, words};

/// Arguments of `flow forget`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow forget train                      results of the step are not reused any more, whatever they depended on
  flow forget 'train[lr=0.1]'            of one instance

To run a step once more and keep its result until then: flow run -f STEP.")]
pub(crate) struct Forget {
    /// A step, or an instance such as 'train[lr=0.1]'
    #[arg(required = true, value_name = "STEP")]
    steps: Vec<String>,
    #[command(flatten)]
    of: OfRun,
}

impl Forget {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let (place, _, view) = place::run(global, &self.of)?;
        for step in &self.steps {
            find(&view, step)?;
        }
        let Some(start) = &view.start else { return Ok(ExitCode::SUCCESS) };
        // A run that goes on would say at its end that what it reused stands.
        let store = Store::open_alone(place.store.path(), &place::me(), |_| ControlFlow::Break(()))?;
        place::mended(store.rebuilt(), output)?;
        let mut labels = flow_exec::forget(&store, &start.workflow, &start.file, &self.steps)?;
        let results = words::count(labels.len(), "result");
        labels.sort();
        labels.dedup();
        output.line(format!("forgotten: {results} of {}", words::count(labels.len(), "instance")))?;
        Ok(ExitCode::SUCCESS)
    }
}
