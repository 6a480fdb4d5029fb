//! `flow why`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use flow_core::plan::{Force, State};
use flow_core::{Expansion, InstanceId, JournalLine, RunEvent, RunId};
use flow_exec::{Knowledge, clock};
use flow_store::Status;
use indexmap::IndexMap;
use serde_json::Value;

use super::Done;
use crate::args::{About, Global, Selection};
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::reasons::{self, Because};
use crate::{place, words};

/// Arguments of `flow why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow why solo                          every instance of the step
  flow why 'solo[version=v7,batch=16]'   one of them
  flow why solo --set lr=0.1             what this change would do

While a run goes on it says what a step waits for.")]
pub(crate) struct Why {
    /// A step, or an instance such as 'solo[batch=16]'
    #[arg(required = true, value_name = "STEP")]
    steps: Vec<String>,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    selection: Selection,
}

impl Why {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let request = place::session(global, &self.about, &self.selection)?;
        let session = place::open(&request, output)?;
        let wanted = session.wanted(&self.steps)?;
        let Force::Only(asked) = Force::named(&session.expansion, &self.steps).map_err(|d| session.wrong(d))? else {
            return Ok(ExitCode::SUCCESS);
        };
        let knowledge = place::knowledge(&session, output)?;
        let plan = flow_exec::plan(&session, &knowledge, &wanted, &Force::Nothing)?;
        let label = |id: InstanceId| &*session.expansion.instances[id.index()].label;
        let mut asked: Vec<_> = plan.items.iter().filter(|item| asked.contains(&item.id)).collect();
        for living in going_on(&knowledge, &session.expansion)? {
            let now = clock::unix_millis();
            let mut alike: IndexMap<String, Vec<&str>> = IndexMap::new();
            asked.retain(|item| {
                let told = live(&living, label(item.id), now);
                let goes_on = told.is_some();
                told.into_iter().for_each(|line| alike.entry(line).or_default().push(label(item.id)));
                !goes_on
            });
            for (line, of) in alike {
                output.line(format!("{}: {line}", named(&of)))?;
            }
        }
        let ids: Vec<InstanceId> = asked.iter().map(|item| item.id).collect();
        let asked: Vec<Asked<'_>> = asked.iter().map(|item| (label(item.id), &item.state)).collect();
        for line in answer(&asked, output.verbose) {
            output.line(line)?;
        }
        for (reason, of) in accepted(&knowledge, &session.expansion.workflow, &asked)? {
            output.line(format!("{}: kept by `flow accept`: {reason}", named(&of)))?;
        }
        let ignored = flow_exec::ignored(&session, &ids)?;
        if !ignored.is_empty() {
            let paths: Vec<String> = ignored.iter().map(|path| path.display().to_string()).collect();
            output.line(format!("{} {}", styled(NOTE, "not inputs:"), paths.join(", ")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Results among these that were kept for a changed fingerprint, by the reason that was given.
fn accepted<'a>(
    knowledge: &Knowledge,
    workflow: &str,
    asked: &[Asked<'a>],
) -> Result<IndexMap<String, Vec<Asked<'a>>>, CliError> {
    let mut accepted: IndexMap<String, Vec<Asked<'a>>> = IndexMap::new();
    let Some(results) = knowledge.results() else { return Ok(accepted) };
    for (label, state) in asked.iter().filter(|(_, state)| matches!(state, State::Cached { .. })) {
        let Some(last) = results.last(workflow, label)? else { continue };
        let reason = results.result(&last.fingerprint)?.and_then(|result| result.accepted);
        reason.into_iter().for_each(|reason| accepted.entry(reason).or_default().push((label, state)));
    }
    Ok(accepted)
}

/// A run that goes on, as it stands.
struct Living {
    status: Status,
    /// Whose it is, if it is not one's own.
    owner: Option<String>,
}

/// The runs of a workflow that go on, with its parameters: with others its steps are others.
fn going_on(knowledge: &Knowledge, of: &Expansion) -> Result<Vec<Living>, CliError> {
    let Some(dir) = knowledge.dir() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for run in dir.living()?.into_iter().filter_map(|holder| holder.run) {
        let run = dir.run(&run);
        let is_of = |line: JournalLine| match line.event {
            RunEvent::RunStarted(start) => (start.workflow, start.params) == (of.workflow.clone(), of.params.clone()),
            _ => false,
        };
        if !run.first_line()?.is_some_and(is_of) {
            continue;
        }
        let status = run.status()?;
        found.extend(status.map(|status| Living { status, owner: run.others() }));
    }
    Ok(found)
}

/// What a run that goes on says of an instance: that it runs, or what it waits for.
fn live(Living { status, owner }: &Living, label: &str, now: u64) -> Option<String> {
    let run = match owner {
        Some(owner) => format!("run {} of {owner}", status.run),
        None => format!("run {}", status.run),
    };
    if let Some(waiting) = status.waiting.iter().find(|waiting| waiting.label == label) {
        return Some(format!("{} in {run}: {}", styled(NOTE, "waits"), reasons::waits(&waiting.reason, now)));
    }
    let running = status.running.iter().find(|running| running.label == label)?;
    if let Some(queued) = &running.queued {
        return Some(format!("{} by {run}: {}", styled(NOTE, "queued"), reasons::queued(queued)));
    }
    let since = now.saturating_sub(running.started_at) as f64 / 1e3;
    Some(format!("{} in {run}, for {}", styled(GOOD, "runs"), words::duration(since)))
}

/// The label of an instance, and what is to become of it.
type Asked<'a> = (&'a str, &'a State);

/// The answer: one for all instances of which it is the same, or has the same form, but with `each`.
fn answer(asked: &[Asked<'_>], each: bool) -> Vec<String> {
    let mut alike: IndexMap<Value, IndexMap<Vec<String>, Vec<Asked<'_>>>> = IndexMap::new();
    for &(label, state) in asked {
        let said = explain(state);
        let form = match state {
            State::Run(all) if !each => Because::Runs(flow_core::why::Why { first: all.clone(), more: 0 }).form(),
            _ => Value::from(said.clone()),
        };
        alike.entry(form).or_default().entry(said).or_default().push((label, state));
    }
    let mut out = Vec::new();
    for forms in alike.into_values() {
        let differ = if forms.len() > 1 { " (the first of them; -v tells all)" } else { "" };
        let Some(said) = forms.keys().next().cloned() else { continue };
        let of: Vec<Asked<'_>> = forms.into_values().flatten().collect();
        let labels: Vec<&str> = of.iter().map(|(label, _)| *label).collect();
        out.push(format!("{}: {}{}{differ}", named(&labels), said[0], since(&of)));
        out.extend(said.into_iter().skip(1));
    }
    out
}

/// The first instances by name, and how many there are besides.
fn named(of: &[&str]) -> String {
    const NAMED: usize = 6;
    let mut names = of[..of.len().min(NAMED)].join(", ");
    if of.len() > NAMED {
        names.push_str(&format!(" and {} more", words::thousands(of.len() - NAMED)));
    }
    styled(STRONG, names)
}

/// Since which run results stand; of several, the first and the last.
fn since(of: &[Asked<'_>]) -> String {
    let from = of.iter().filter_map(|(_, state)| match state {
        State::Cached { from, .. } => Some(from),
        _ => None,
    });
    let runs: BTreeSet<&RunId> = from.collect();
    match (runs.len(), runs.first(), runs.last()) {
        (1, Some(run), _) => format!(" run {run}"),
        (2.., Some(first), Some(last)) => format!(" runs {first} to {last}"),
        _ => String::new(),
    }
}

/// What is said of an instance, after its name.
fn explain(state: &State) -> Vec<String> {
    match state {
        State::Cached { read_again: true, .. } => {
            vec![format!("{}, {} by", styled(FAINT, "cached"), words::READ_AGAIN)]
        }
        State::Cached { outcome, read_again: false, .. } => {
            let how = match outcome {
                flow_core::Outcome::Ok => String::new(),
                other => format!(" as {}", words::outcome(*other)),
            };
            vec![format!("{}{how}, nothing changed since", styled(FAINT, "cached"))]
        }
        State::Run(reasons) => {
            let mut lines = vec![styled(GOOD, "would run")];
            lines.extend(reasons.iter().map(|reason| format!("  - {}", reasons::reason(reason))));
            lines
        }
        State::GoesOn { since, .. } => {
            let text = format!("since run {since}; the next run follows it, and does not start it again");
            vec![format!("{} {text}", styled(GOOD, "goes on"))]
        }
        State::After(steps) => vec![format!("{} {}", styled(NOTE, "decided after"), steps.join(", "))],
        State::MayRepeat { group, at_most } => {
            let while_ = format!("while the verdict on {group} is undecided, up to {at_most} runs of each");
            vec![format!("{} {while_}", styled(NOTE, "may repeat,"))]
        }
        State::NotNeeded { cause } => vec![format!("{}, {}", styled(FAINT, "not needed"), reasons::cause(cause))],
        State::Refused { outcome, cause } => {
            let how = styled(NOTE, format_args!("would not run ({})", words::outcome(*outcome)));
            vec![format!("{how}: {}", reasons::cause(cause))]
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Outcome;
    use flow_core::fingerprint::PartKind;
    use flow_core::why::Reason;
    use serde_json::json;

    use super::*;

    fn said(asked: &[(&str, State)], each: bool) -> Vec<String> {
        let asked: Vec<Asked<'_>> = asked.iter().map(|(label, state)| (*label, state)).collect();
        answer(&asked, each).iter().map(|line| crate::terminal::plain(line)).collect()
    }

    #[test]
    fn reasons_are_listed() {
        let state = State::Run(vec![Reason::PluginRebuilt("torch".into()), Reason::Forced]);
        assert_eq!(said(&[("solo", state)], false), ["solo: would run", "  - plugin torch was rebuilt", "  - forced"]);
    }

    #[test]
    fn what_holds_of_many_is_said_once() {
        let cached = |from: &str| State::Cached { outcome: Outcome::Ok, from: RunId(from.into()), read_again: false };
        let seed = |n: u32| {
            let (kind, name) = (PartKind::Parameter, "seed".to_owned());
            State::Run(vec![Reason::Value { kind, name, was: Some(json!(n)), is: Some(json!(n + 1)) }])
        };
        let asked = [("a", cached("r1")), ("b", seed(1)), ("c", cached("r2")), ("d", seed(2)), ("e", cached("r1"))];
        assert_eq!(
            said(&asked, false),
            [
                "a, c, e: cached, nothing changed since runs r1 to r2",
                "b, d: would run (the first of them; -v tells all)",
                "  - `seed` was 1, is 2"
            ]
        );
        assert_eq!(said(&asked, true).len(), 5);
    }
}
