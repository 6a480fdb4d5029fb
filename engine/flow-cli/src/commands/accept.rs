//! `flow accept`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use flow_core::plan::Accepted;
use flow_core::why::Why;
use flow_exec::Session;
use flow_store::Rebuilt;

use super::Done;
use crate::args::{About, Global, Selection};
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, styled};
use crate::{place, reasons};

/// Arguments of `flow accept`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flow accept solo --reason 'the plugin was only reformatted'

The results stay, under the fingerprints that the step has now. Reports say that they were kept, and why.")]
pub(crate) struct Accept {
    /// A step, or an instance such as 'solo[batch=16]'
    #[arg(required = true, value_name = "STEP")]
    steps: Vec<String>,
    /// Why the old results still hold
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    selection: Selection,
}

impl Accept {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        if self.reason.trim().is_empty() {
            return Err(CliError::usage("the reason is empty: reports show it to whoever reads the numbers"));
        }
        let request = place::session(global, &self.about, &self.selection)?;
        let session = Session::open(&request, &crate::builtins::Steps::new())?;
        let mut rebuilt = None;
        let mended = |found: &Rebuilt| rebuilt = Some(found.clone());
        let accepted =
            flow_exec::accept(&session, &self.steps, self.reason.trim(), |_| ControlFlow::Break(()), mended)?;
        place::mended(rebuilt.as_ref(), output)?;
        let label = |id: &flow_core::InstanceId| session.expansion.instances[id.index()].label.to_string();
        let mut refused = false;
        for one in &accepted {
            output.line(match one {
                Accepted::Kept { id, changed, .. } => {
                    format!("{} {}: {}", styled(GOOD, "kept"), label(id), reasons::why(&Why::of(changed)))
                }
                Accepted::Cached(id) => format!("{} {}", styled(FAINT, "cached as it is"), label(id)),
                Accepted::Not(id, why) => {
                    refused = true;
                    format!("{} {}: {}", styled(NOTE, "not kept"), label(id), reasons::not_accepted(why))
                }
            })?;
        }
        Ok(ExitCode::from(u8::from(refused)))
    }
}
