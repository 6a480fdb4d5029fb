//! `flow why`.

use std::process::ExitCode;

use clap::Args;
use flow_core::InstanceId;
use flow_core::plan::{Force, State};
use flow_exec::{Knowledge, clock};
use flow_store::Status;

use super::Done;
use crate::args::{About, Global, Selection};
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::{place, reasons, words};

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
        for living in going_on(&knowledge, &session.expansion.workflow)? {
            let told = |label: &str| live(&living, label, clock::unix_millis());
            for (id, line) in asked.iter().filter_map(|item| Some((item.id, told(label(item.id))?))) {
                output.line(format!("{}: {line}", styled(STRONG, label(id))))?;
            }
            asked.retain(|item| told(label(item.id)).is_none());
        }
        let ids: Vec<InstanceId> = asked.iter().map(|item| item.id).collect();
        for crowd in asked.chunk_by(|a, b| a.state == b.state) {
            let labels: Vec<&str> =
                crowd.iter().map(|item| &*session.expansion.instances[item.id.index()].label).collect();
            for line in explain(&labels, &crowd[0].state) {
                output.line(line)?;
            }
        }
        let ignored = flow_exec::ignored(&session, &ids)?;
        if !ignored.is_empty() {
            let paths: Vec<String> = ignored.iter().map(|path| path.display().to_string()).collect();
            output.line(format!("{} {}", styled(NOTE, "not inputs:"), paths.join(", ")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A run that goes on, as it stands.
struct Living {
    status: Status,
    /// Whose it is, if it is not one's own.
    owner: Option<String>,
}

/// The runs of a workflow that go on; those that run something first, for others may wait for it.
fn going_on(knowledge: &Knowledge, workflow: &str) -> Result<Vec<Living>, CliError> {
    let Some(dir) = knowledge.dir() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for run in dir.living()?.into_iter().filter_map(|holder| holder.run) {
        let run = dir.run(&run);
        let status = run.status()?.filter(|status| status.workflow == workflow);
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

/// The answer for instances that are alike.
fn explain(labels: &[&str], state: &State) -> Vec<String> {
    const NAMED: usize = 6;
    let mut names = labels.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if labels.len() > NAMED {
        names.push_str(&format!(" and {} more", labels.len() - NAMED));
    }
    let names = styled(STRONG, names);
    match state {
        State::Cached { from, read_again: true, .. } => {
            vec![format!("{names}: {}, {} by run {from}", styled(FAINT, "cached"), words::READ_AGAIN)]
        }
        State::Cached { outcome, from, read_again: false } => {
            let how = match outcome {
                flow_core::Outcome::Ok => String::new(),
                other => format!(" as {}", words::outcome(*other)),
            };
            vec![format!("{names}: {}{how}, nothing changed since run {from}", styled(FAINT, "cached"))]
        }
        State::Run(reasons) => {
            let mut lines = vec![format!("{names}: {}", styled(GOOD, "would run"))];
            lines.extend(reasons.iter().map(|reason| format!("  - {}", reasons::reason(reason))));
            lines
        }
        State::GoesOn { since, .. } => {
            let text = format!("since run {since}; the next run follows it, and does not start it again");
            vec![format!("{names}: {} {text}", styled(GOOD, "goes on"))]
        }
        State::After(steps) => {
            vec![format!("{names}: {} {}", styled(NOTE, "decided after"), steps.join(", "))]
        }
        State::MayRepeat { group, at_most } => {
            let while_ = format!("while the verdict on {group} is undecided, up to {at_most} runs of each");
            vec![format!("{names}: {} {while_}", styled(NOTE, "may repeat,"))]
        }
        State::NotNeeded { cause } => {
            vec![format!("{names}: {}, {}", styled(FAINT, "not needed"), reasons::cause(cause))]
        }
        State::Refused { outcome, cause } => {
            let how = styled(NOTE, format_args!("would not run ({})", words::outcome(*outcome)));
            vec![format!("{names} {how}: {}", reasons::cause(cause))]
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::why::Reason;

    use super::*;

    #[test]
    fn reasons_are_listed() {
        let state = State::Run(vec![Reason::PluginRebuilt("torch".into()), Reason::Forced]);
        let plain: Vec<String> = explain(&["solo"], &state).iter().map(|line| crate::terminal::plain(line)).collect();
        assert_eq!(plain, ["solo: would run", "  - plugin torch was rebuilt", "  - forced"]);
    }
}
