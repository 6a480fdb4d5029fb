//! `flow why`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use flow_core::{
    Digest, Expansion, Instance, InstanceId, RunId, StepResult,
    plan::{Force, Item, State},
};
use flow_exec::{EnvironmentChange, Knowledge, PresentEnvironment, Session};
use flow_runs::StoreDir;
use flow_supervisor::clock;
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::orphans::{self, OrphanStates, Progress};
use super::why_live::{later, lines, live, live_runs};
use super::{CommandResult, audit, why_then};
use crate::{
    args::{Global, Selection, WorkflowArg},
    error::CliError,
    output::{FAINT, GOOD, NOTE, Output, STRONG, noted, styled},
    place::{self, StoreLocation},
    reasons::{self, InstanceReason},
    words,
};

/// Arguments of `flow why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow why                               every step of the workflow
  flow why solo                          every instance of the step
  flow why 'solo[version=v7,batch=16]'   one of them
  flow why solo --set lr=0.1             the effect of this change
  flow why solo --run 3f2a               why it ran in an earlier run

Of a long value it shows the first difference, and with -v the whole value. During a run, it shows what a step waits \
for.")]
pub(crate) struct Why {
    /// A step, or an instance such as 'solo[batch=16]' [default: every step]
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
    #[command(flatten)]
    about: WorkflowArg,
    /// Show why it ran in this run, by its id or the end of it, instead of what would run now
    #[arg(long, value_name = "ID", conflicts_with_all = ["set", "params", "profile", "gpus", "on"])]
    run: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

impl Why {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        if let Some(run) = &self.run {
            return why_then::of_run(global, self.about.workflow, run, &self.steps, output);
        }
        let request = place::session(global, &self.about, &self.selection, output)?;
        let session = place::open(&request, output)?;
        let wanted = session.wanted(&self.steps)?;
        let force = Force::named(&session.expansion, &self.steps).map_err(|d| session.wrong(d))?;
        let is_asked = |id: &InstanceId| self.steps.is_empty() || matches!(&force, Force::Only(of) if of.contains(id));
        let knowledge = place::knowledge(&session, output)?;
        let plan = flow_exec::plan(&session, &knowledge, &wanted, &Force::Nothing)?;
        let asked = plan.items.iter().filter(|item| is_asked(&item.id));
        let mut asked: Vec<PlannedInstance<'_>> = asked
            .map(|Item { id, state }| PlannedInstance {
                id: *id,
                label: &session.expansion.instances[id.index()].label,
                state,
            })
            .collect();
        for living in live_runs(&knowledge, &session.expansion)? {
            let labels: IndexSet<&str> = asked.iter().map(|one| one.label).collect();
            let mut told = live(&living.status, &living.named(), &labels, clock::unix_millis());
            let known: BTreeSet<&str> = told.iter().map(|one| one.label).collect();
            let would_run = asked.iter().filter(|one| matches!(one.state, State::Run(_))).map(|one| one.label);
            let untold: BTreeSet<&str> = would_run.filter(|label| !known.contains(label)).collect();
            if !untold.is_empty() {
                told.extend(
                    living.open()?.iter().filter_map(|open| untold.get(&**open)).map(|label| later(&living, label)),
                );
            }
            let known: BTreeSet<&str> = told.iter().map(|one| one.label).collect();
            asked.retain(|one| !known.contains(one.label));
            told.sort_by_key(|one| labels.get_index_of(one.label));
            output.lines(lines(&told, output.verbose))?;
        }
        let ReuseNotes { accepted, others, other_place: elsewhere } =
            ReuseNotes::of(&knowledge, &asked, &session.expansion)?;
        for (reason, of) in &accepted {
            output.line(format!("{}: cached, kept by `flow accept`: {reason}", named(of)))?;
        }
        let left = OrphanStates::of(&session, &knowledge, &plan);
        let mut present = PresentEnvironment::of(&session, &knowledge);
        let verbose = output.verbose;
        let mut since = |one: &PlannedInstance<'_>| {
            let recorded = match one.state {
                State::Cached { environment, .. } => environment,
                State::Run(_) => {
                    let since = present.as_mut().and_then(|of| of.since_last(&session, &knowledge, one.id));
                    let lines = |since| environment(&since, "the last result (not a reason)", verbose);
                    return since.map(lines).unwrap_or_default();
                }
                _ => return Vec::new(),
            };
            let listed = reasons::by_listing(session.by_listing(one.id));
            let mut lines: Vec<String> = listed.into_iter().map(|text| format!("  - {text}")).collect();
            if let (Some(recorded), Some(present)) = (recorded, &mut present) {
                lines.extend(environment(&present.since(recorded), "this result", verbose));
            }
            lines
        };
        let is_accepted = |label: &str| accepted.values().flatten().any(|of| *of == label);
        let as_it_was: Vec<PlannedInstance<'_>> = asked.iter().filter(|one| !is_accepted(one.label)).copied().collect();
        let progress = |id| left.progress(id);
        let steps = as_it_was.chunk_by(|a, b| words::step_of(a.label) == words::step_of(b.label));
        output.lines(steps.flat_map(|of_step| answer(of_step, verbose, &progress, &mut since)))?;
        let mut changed_in = None;
        if let Some(dir) = knowledge.dir() {
            changed_in = why_then::since(dir, asked.iter().map(|one| (one.label, one.state)), output)?;
            audits(&session, &knowledge, dir, &asked, output)?;
        }
        let may_be_kept = |state: &State| matches!(state, State::Cached { .. } | State::After(_));
        let kept = asked.iter().filter(|one| may_be_kept(one.state)).map(|one| one.id);
        let kept: BTreeSet<InstanceId> = kept.collect();
        let unfollowed = reasons::unfollowed(&session.expansion.unfollowed(|id| kept.contains(&id), |_| true));
        output.sentences(unfollowed.iter().map(noted), 2)?;
        for (on_slurm, of) in elsewhere {
            let (made, runs) =
                if on_slurm { ("on this machine", "on Slurm") } else { ("by a Slurm job", "on this machine") };
            let steps: IndexSet<&str> = of.iter().map(|label| words::step_of(label)).collect();
            let forced = steps.into_iter().map(|step| format!("-f {step}")).collect::<Vec<_>>().join(" ");
            let text = format!("made {made}; `on:` is not part of the fingerprint, `flow run {forced}` runs it {runs}");
            output.line(format!("{}: {text}", named(&of)))?;
        }
        for ((.., workflow), both) in others {
            let take = if both.len() == 1 { "reuses the result of" } else { "reuse the results of" };
            let (of, theirs): (Vec<&str>, Vec<String>) = both.into_iter().unzip();
            let workflow = workflow.map(|workflow| format!(" of workflow `{workflow}`")).unwrap_or_default();
            output.line(format!("{}: {take} {}{workflow}", named(&of), words::named(&theirs)))?;
        }
        for ((group, looks), of) in repeated(&session.expansion, &asked) {
            let runs = words::count(looks as usize, "run");
            output.line(format!(
                "{}: made because the verdict on {group} was undecided after {runs} of each",
                named(&of)
            ))?;
        }
        let ids: Vec<InstanceId> = asked.iter().map(|one| one.id).collect();
        let ignored = flow_exec::ignored(&session, &ids)?;
        if !ignored.is_empty() {
            let paths: Vec<String> = ignored.iter().map(|path| path.display().to_string()).collect();
            output.line(format!("{} {}", styled(NOTE, "not inputs:"), paths.join(", ")))?;
        }
        // `flow diff` knows no other parameters than those of the file.
        let edited = asked.iter().find_map(|one| match one.state {
            State::Run(reasons) if why_then::has_lines(reasons) => Some((one.label, reasons)),
            _ => None,
        });
        if let Some((label, reasons)) = edited {
            let selection = &self.selection;
            if selection.set.is_empty() && selection.params.is_empty() && selection.profile.is_none() {
                why_then::refer_to_edit(label, reasons, self.about.workflow.as_deref(), output)?;
            }
        } else if let Some(run) = changed_in {
            why_then::refer_to_run(&StoreLocation::find(global, Some(&request.file))?, &run, output)?;
        }
        Ok(())
    }
}

/// Prints the kept answers of `flow audit` about these instances. An edit makes another fingerprint, which has none.
fn audits(
    session: &Session,
    knowledge: &Knowledge,
    dir: &StoreDir,
    asked: &[PlannedInstance<'_>],
    output: &mut Output,
) -> Result<(), CliError> {
    if !flow_exec::has_audits(dir) {
        return Ok(());
    }
    let labels: Vec<String> = asked.iter().map(|one| one.label.to_owned()).collect();
    let parts = flow_exec::parts(session, knowledge, &session.wanted(&labels)?)?;
    for label in labels {
        let audited = parts.get(&label).and_then(|parts| flow_exec::audited(dir, &parts.digest()));
        if let Some(audited) = audited {
            output.sentence(&format!("{}: {}", named(&[&label]), audit::kept(&audited)), 2)?;
        }
    }
    Ok(())
}

/// Repetitions that were made, by the group of the undecided verdict, and after how many runs.
fn repeated<'a>(expansion: &'a Expansion, asked: &[PlannedInstance<'a>]) -> IndexMap<(&'a str, u32), Vec<&'a str>> {
    let mut made: IndexMap<_, Vec<&str>> = IndexMap::new();
    for one in asked {
        let again = expansion.instances[one.id.index()].again.as_deref();
        if let (State::Cached { .. }, Some(again)) = (one.state, again) {
            made.entry((&*again.group, again.looks)).or_default().push(one.label);
        }
    }
    made
}

/// Results are read in batches of this size.
const AT_ONCE: usize = 512;

/// A step, the step that made its results, and its workflow if that is another one.
type ReusedFrom<'a> = (&'a str, String, Option<String>);

/// Notes about the results that these instances reuse.
#[derive(Default)]
struct ReuseNotes<'a> {
    /// Results that were accepted for a changed fingerprint, by the given reason.
    accepted: IndexMap<String, Vec<&'a str>>,
    /// Results of another step that does the same work: its name, and the label under which they
    /// were made.
    others: IndexMap<ReusedFrom<'a>, Vec<(&'a str, String)>>,
    /// Results that were made at another place than where the instances would run: whether that is Slurm.
    other_place: IndexMap<bool, Vec<&'a str>>,
}

impl<'a> ReuseNotes<'a> {
    fn of(
        knowledge: &Knowledge,
        queried: &[PlannedInstance<'a>],
        expansion: &Expansion,
    ) -> Result<ReuseNotes<'a>, CliError> {
        let own = &expansion.workflow;
        let has_place = |instance: &&Instance| expansion.command(instance.id).is_some();
        let places = expansion.instances.iter().filter(has_place);
        let places: BTreeMap<&str, bool> = places.map(|instance| (&*instance.label, instance.is_batch())).collect();
        let mut reused = ReuseNotes::default();
        let Some(results) = knowledge.results() else { return Ok(reused) };
        let cached = queried.iter().filter_map(|one| match one.state {
            State::Cached { fingerprint, .. } => Some((one.label, *fingerprint)),
            _ => None,
        });
        let (labels, fingerprints): (Vec<&str>, Vec<Digest>) = cached.unzip();
        for (labels, fingerprints) in labels.chunks(AT_ONCE).zip(fingerprints.chunks(AT_ONCE)) {
            for (label, result) in labels.iter().zip(results.results_of(fingerprints)?) {
                let Some(StepResult { label: made_as, step, workflow, accepted, circumstances, .. }) = result else {
                    continue;
                };
                // Only a node of Slurm has this fact.
                let was_on_slurm = circumstances.facts.contains_key("node");
                if let Some(on_slurm) = places.get(label).filter(|on_slurm| **on_slurm != was_on_slurm) {
                    reused.other_place.entry(*on_slurm).or_default().push(label);
                }
                accepted.into_iter().for_each(|reason| reused.accepted.entry(reason).or_default().push(label));
                if made_as != *label {
                    let by = (words::step_of(label), step, (workflow != *own).then_some(workflow));
                    reused.others.entry(by).or_default().push((label, made_as));
                }
            }
        }
        Ok(reused)
    }
}

/// An instance and its planned outcome.
#[derive(Clone, Copy)]
struct PlannedInstance<'a> {
    id: InstanceId,
    label: &'a str,
    state: &'a State,
}

/// How the environment differs from the one of a result.
fn environment(since: &EnvironmentChange, result: &str, all: bool) -> Vec<String> {
    const SHOWN: usize = 8;
    let most = if all { usize::MAX } else { SHOWN };
    let mut lines: Vec<String> = reasons::differences(&since.differences, most)
        .into_iter()
        .map(|difference| format!("  - {difference} since {result}"))
        .collect();
    if since.is_unseen {
        lines.push("  - the environment of its node is not visible here".to_owned());
    }
    lines
}

/// The answer. Instances with the same message, or messages of one form, share a line; with `each` they do not. `since`
/// gives further lines about a result: what was not compared, and how its environment differs.
fn answer(
    queried: &[PlannedInstance<'_>],
    each: bool,
    progress: &dyn Fn(InstanceId) -> Progress,
    since: &mut dyn FnMut(&PlannedInstance<'_>) -> Vec<String>,
) -> Vec<String> {
    let mut alike: IndexMap<Value, IndexMap<Vec<String>, Vec<PlannedInstance<'_>>>> = IndexMap::new();
    for one in queried {
        let mut said = explain(one.state, progress(one.id), each);
        said.extend(since(one));
        let form = match one.state {
            State::Run(all) if !each => {
                InstanceReason::Runs(flow_core::why::RunReasons { first: all.clone(), more: 0 }).form()
            }
            _ => Value::from(said.clone()),
        };
        alike.entry(form).or_default().entry(said).or_default().push(*one);
    }
    let mut out = Vec::new();
    for forms in alike.into_values() {
        let differ = if forms.len() > 1 { " (the first of them; -v shows all)" } else { "" };
        let Some(said) = forms.keys().next().cloned() else { continue };
        let of: Vec<PlannedInstance<'_>> = forms.into_values().flatten().collect();
        let labels: Vec<&str> = of.iter().map(|one| one.label).collect();
        out.push(format!("{}: {}{}{differ}", named(&labels), said[0], made_by(&of)));
        out.extend(said.into_iter().skip(1));
    }
    out
}

fn named(of: &[&str]) -> String {
    styled(STRONG, words::named(of))
}

/// The run that made the results; of several, the first and the last.
fn made_by(of: &[PlannedInstance<'_>]) -> String {
    let from = of.iter().filter_map(|one| match one.state {
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

/// The message about an instance, after its name; with `whole` it has long values as they are.
fn explain(state: &State, progress: Progress, whole: bool) -> Vec<String> {
    // With the dash before it, 100.
    const COLUMNS: usize = 96;
    match state {
        State::Cached { read_again: true, .. } => {
            vec![format!("{}, {} by", styled(FAINT, "cached"), words::READ_AGAIN)]
        }
        State::Cached { outcome, read_again: false, .. } => {
            let how = match outcome {
                flow_core::Outcome::Ok => String::new(),
                other => format!(" as {}", words::outcome(*other)),
            };
            vec![format!("{}{how}, no declared input, command or parameter changed since", styled(FAINT, "cached"))]
        }
        State::Run(reasons) => {
            let mut lines = vec![styled(GOOD, "would run")];
            lines.extend(reasons.iter().map(|reason| match whole {
                true => format!("  - {}", reasons::whole_reason(reason)),
                false => format!("  - {}", reasons::reason_within(reason, COLUMNS)),
            }));
            lines
        }
        State::Orphaned { since, .. } => vec![orphans::followed(since, progress)],
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
    use flow_core::fingerprint::PartKind;
    use flow_core::why::Reason;
    use flow_core::{Digest, Outcome};
    use serde_json::json;

    use super::*;

    fn said(asked: &[(&str, State)], each: bool) -> Vec<String> {
        let planned = |(label, state)| PlannedInstance { id: InstanceId(0), label, state };
        let asked: Vec<PlannedInstance<'_>> = asked.iter().map(|(label, state)| planned((*label, state))).collect();
        answer(&asked, each, &|_| Progress::Queued, &mut |_| Vec::new())
            .iter()
            .map(|line| crate::terminal::plain(line))
            .collect()
    }

    #[test]
    fn reasons_are_listed() {
        let state = State::Run(vec![Reason::PluginRebuilt("torch".into()), Reason::Forced]);
        assert_eq!(
            said(&[("solo", state)], false),
            ["solo: would run", "  - the plugin torch was rebuilt", "  - forced"]
        );
    }

    #[test]
    fn a_job_of_a_killed_run_waits_until_its_node_begins() {
        let state = State::Orphaned { reasons: vec![Reason::Forced], since: RunId("r1".into()) };
        let queued = "a: queued in Slurm since run r1; the next run follows it and does not start it again";
        assert_eq!(said(&[("a", state)], false), [queued]);
    }

    #[test]
    fn what_holds_of_many_is_said_once() {
        let cached = |from: &str| {
            let (fingerprint, outcome) = (Digest::of(b"result"), Outcome::Ok);
            State::Cached { fingerprint, outcome, from: RunId(from.into()), read_again: false, environment: None }
        };
        let seed = |n: u32| {
            let (kind, name) = (PartKind::Parameter, "seed".to_owned());
            State::Run(vec![Reason::Value { kind, name, was: Some(json!(n)), is: Some(json!(n + 1)) }])
        };
        let asked = [("a", cached("r1")), ("b", seed(1)), ("c", cached("r2")), ("d", seed(2)), ("e", cached("r1"))];
        assert_eq!(
            said(&asked, false),
            [
                "a, c, e: cached, no declared input, command or parameter changed since runs r1 to r2",
                "b, d: would run (the first of them; -v shows all)",
                "  - `seed` was 1, is 2"
            ]
        );
        assert_eq!(said(&asked, true).len(), 5);
    }
}
