//! `flow accept`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use flow_core::plan::{AcceptAnswer, AcceptedDifferences, Force, NotAccepted, State};
use flow_core::why::RunReasons;
use flow_core::{InstanceId, RunId, StepId};
use flow_exec::{ExecError, Session};
use flow_store::RebuiltDatabase;
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::CommandResult;
use crate::args::{Global, Selection, WorkflowArg};
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, styled};
use crate::reasons::{self, InstanceReason};
use crate::{place, words};

/// Arguments of `flow accept`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flow accept solo --reason 'the plugin was only reformatted'
  flow accept --environments --reason 'a patch release'    every result whose only difference is the
                                                           packages of its declared environment

Call it after the edit and before the next run. It accepts the edits of all inputs of the step at once: look at \
`flow diff now` first. Of several results of an instance, it keeps the most similar one. Results of another command or \
parameter are refused without --other-settings. Reports show that a result was kept, and the reason. \
`flow forget STEP --accepted` takes it back.")]
pub(crate) struct Accept {
    /// A step, or an instance such as 'solo[batch=16]'
    #[arg(required_unless_present = "environments", value_name = "STEP")]
    steps: Vec<String>,
    /// Keep results whose only difference is the packages of their declared environment; without STEP, all of the file
    #[arg(long)]
    environments: bool,
    /// Why the old results are still valid (required)
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Also keep results of another command, parameter or variable
    #[arg(long, conflicts_with = "environments")]
    other_settings: bool,
    #[command(flatten)]
    about: WorkflowArg,
    #[command(flatten)]
    selection: Selection,
}

impl Accept {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        let reason = self.reason.as_deref().unwrap_or_default().trim();
        if reason.is_empty() {
            let what = if self.steps.is_empty() { "--environments".to_owned() } else { self.steps.join(" ") };
            return Err(CliError::usage("`--reason TEXT` is missing: reports show it to their readers")
                .hint(format!("`flow accept {what} --reason 'only a comment changed'`")));
        }
        let request = place::session(global, &self.about, &self.selection, output)?;
        let session = place::open(&request, output)?;
        if let Some(unavailable) = session.cluster_unavailable.as_ref().filter(|unavailable| !unavailable.remembered) {
            // Its inputs or hardware are unknown.
            return Err(ExecError::from(unavailable).into());
        }
        let mut rebuilt = None;
        let mended = |found: &RebuiltDatabase| rebuilt = Some(found.clone());
        place::show_hashing(&session, output);
        let kind = match (self.environments, self.other_settings) {
            (true, _) => AcceptedDifferences::Environments,
            (false, true) => AcceptedDifferences::All,
            (false, false) => AcceptedDifferences::Files,
        };
        let accepted = flow_exec::accept(&session, &self.steps, reason, kind, |_| ControlFlow::Break(()), mended)?;
        place::mended(rebuilt.as_ref(), output)?;
        let store = session.workspace.existing_store()?;
        let whose = |run: &RunId| {
            let user = store.as_ref().and_then(|store| store.run(run).others());
            format!(" from run {run}{}", user.map(|user| format!(" of {user}")).unwrap_or_default())
        };
        let (mut refused, mut kept) = (false, IndexSet::new());
        // Instances with the same message, or messages of one form, by step.
        let mut told: IndexMap<(StepId, String, Value), Vec<(InstanceId, String)>> = IndexMap::new();
        for one in &accepted {
            let mut form = None;
            let (id, how, why) = match one {
                AcceptAnswer::Kept { id, changed, result, .. } => {
                    let (why, of) = (RunReasons::of(changed), whose(&result.run));
                    let words = format!("{of}: {}", reasons::why(&why));
                    form =
                        (!output.verbose).then(|| Value::from(vec![Value::from(of), InstanceReason::Runs(why).form()]));
                    (id, styled(GOOD, "kept"), words)
                }
                AcceptAnswer::Cached(id) => (id, styled(FAINT, "up to date"), String::new()),
                AcceptAnswer::Not(id, why) => {
                    refused = true;
                    if let (NotAccepted::OtherSettings(changed), false) = (why, output.verbose) {
                        form = Some(InstanceReason::Runs(RunReasons::of(changed)).form());
                    }
                    (id, styled(NOTE, "not kept"), format!(": {}", reasons::not_accepted(why)))
                }
            };
            let step = session.expansion.instances[id.index()].step;
            kept.extend(matches!(one, AcceptAnswer::Kept { .. }).then_some(step));
            let form = form.unwrap_or_else(|| Value::from(why.as_str()));
            told.entry((step, how, form)).or_default().push((*id, why));
        }
        if self.environments {
            told.retain(|(_, how, _), _| *how != styled(FAINT, "up to date"));
            if told.is_empty() {
                output.line("no result differs only in the packages of its environment")?;
            }
        }
        for ((step, how, _), all) in told {
            let (first, why) = &all[0];
            let differ =
                if all.iter().any(|(_, other)| other != why) { " (the first of them; -v shows all)" } else { "" };
            let label = &session.expansion.instances[first.index()].label;
            let what = words::instances(all.len(), label, &session.expansion.steps[step.index()].name);
            output.line(format!("{how} {what}{why}{differ}"))?;
        }
        if !kept.is_empty() {
            let names: Vec<&str> = kept.iter().map(|step| &*session.expansion.steps[step.index()].name).collect();
            let file = self.about.workflow.map(|file| format!(" -w {}", file.display())).unwrap_or_default();
            let back = format!("`flow forget {}{file} --accepted` undoes this", names.join(" "));
            let next = next(&session, output)?;
            output.line(format!("  {}{back}", next.map(|next| format!("{next}; ")).unwrap_or_default()))?;
        }
        Ok(ExitCode::from(u8::from(refused)))
    }
}

/// The steps that the next run still runs.
fn next(session: &Session, output: &mut Output) -> Result<Option<String>, CliError> {
    let knowledge = place::knowledge(session, output)?;
    let plan = flow_exec::plan(session, &knowledge, &session.wanted(&[])?, &Force::Nothing)?;
    let runs = plan.items.iter().filter(|item| matches!(item.state, State::Run(_) | State::After(_)));
    let steps: IndexSet<StepId> = runs.map(|item| session.expansion.instances[item.id.index()].step).collect();
    let names: Vec<&str> = steps.iter().map(|step| &*session.expansion.steps[step.index()].name).collect();
    Ok((!names.is_empty()).then(|| format!("the next run runs {}", words::named(&names))))
}
