//! `flow plan`, and `flow run -n`.

mod narrow;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::process::ExitCode;

use clap::Args;
use flow_core::fingerprint::PartKind;
use flow_core::learn::Forecast;
use flow_core::plan::{Item, Plan as CorePlan, State};
use flow_core::sched::{Estimate, EstimateSource, Task, policy};
use flow_core::why::{Reason, RunReasons};
use flow_core::{Expansion, InstanceId, JournalLine, Outcome, PlannedAction, RunEvent, RunId, Span, UnreadDependency};
use flow_exec::{ForceRequest, Knowledge, PresentEnvironment, Session, SessionRequest};
use flow_sim::Simulation;
use indexmap::{IndexMap, IndexSet};
use serde_json::Map;

use super::orphans::{self, OrphanStates, Progress};
use super::{CommandResult, imported, predict::takes};
use crate::args::{Global, Selection, WorkflowArg};
use crate::output::{BAD, FAINT, GOOD, NOTE, Output, STRONG, noted, styled};
use crate::reasons::{self, InstanceReason, SimilarReasons};
use crate::{place, words};

/// From this number on, instances of a step are printed as one line.
const MANY: usize = 4;
/// Columns for the reason of a run; `-v` and `flow why` print all of it.
const LONGEST: usize = 80;

/// Arguments of `flow plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow plan workflows/feb08.yaml                   what would run, and why
  flow plan solo --set epochs=8                    the cost of this change
  flow plan workflows/feb08.yaml --exit-code       exit with 3 if there is work, for scripts
  flow plan --run 3f2a                             a whole run on the machine of an imported run")]
pub(crate) struct Plan {
    #[command(flatten)]
    about: WorkflowArg,
    /// Only these steps or instances, with what they need [default: all]
    #[arg(value_name = "STEP")]
    targets: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// Plan a whole run on the machine of an imported run, from its measurements
    #[arg(long, value_name = "ID", conflicts_with_all = ["gpus", "on"])]
    run: Option<String>,
    /// Exit with 3 if there is anything to run
    #[arg(long)]
    exit_code: bool,
    /// One JSON object per instance, as the journal's `instance` events
    #[arg(long)]
    json: bool,
}

impl Plan {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        let named = self.about.workflow.as_deref();
        let there = imported::imported_session(global, self.run.as_deref(), named, &self.selection, output)?;
        if let Some((session, knowledge)) = there {
            let wanted = session.wanted(&self.targets)?;
            let plan = flow_exec::plan_at_other_place(&session, &knowledge, &wanted);
            return print(
                &session,
                &knowledge,
                (&wanted, &plan, false),
                &self.selection.set,
                self.exit_code,
                self.json,
                output,
            );
        }
        let session = place::session(global, &self.about, &self.selection, output)?;
        show(&session, &self.targets, &ForceRequest::Nothing, self.exit_code, self.json, output)
    }
}

/// Prints what a run would do.
pub(crate) fn show(
    request: &SessionRequest,
    targets: &[String],
    force: &ForceRequest,
    exit_code: bool,
    json: bool,
    output: &mut Output,
) -> CommandResult<ExitCode> {
    let session = place::open(request, output)?;
    let wanted = session.wanted(targets)?;
    session.check_inputs(&wanted)?;
    let force = force.of(&session)?;
    let knowledge = place::knowledge(&session, output)?;
    let plan = flow_exec::plan(&session, &knowledge, &wanted, &force)?;
    session.check_secrets(&plan)?;
    session.check_live_sources(&plan)?;
    if let Some(moved) = session.moved_here().filter(|_| plan.has_work()) {
        output.note(noted(moved))?;
    }
    print(&session, &knowledge, (&wanted, &plan, true), &request.set, exit_code, json, output)
}

fn print(
    session: &Session,
    knowledge: &Knowledge,
    (wanted, plan, here): (&[InstanceId], &CorePlan, bool),
    set: &[String],
    exit_code: bool,
    json: bool,
    output: &mut Output,
) -> CommandResult<ExitCode> {
    let expansion = &session.expansion;
    if json {
        for item in &plan.items {
            output.json(&line(expansion, item))?;
        }
    } else {
        let forecast = flow_exec::forecast(session, knowledge, wanted, plan)?;
        let columns = output.columns().filter(|_| !output.verbose);
        let orphans = if here { OrphanStates::of(session, knowledge, plan) } else { OrphanStates::default() };
        let mut lines = render(expansion, plan, &orphans, &forecast.tasks, output.verbose, columns);
        let is_known = |task: &Task| task.settled.is_none() && task.estimate.duration.is_some();
        let is_unknown = here && plan.has_work() && !forecast.tasks.iter().any(is_known);
        lines.extend(whole(session, plan, &orphans, forecast, here));
        if here {
            let others = flow_exec::done_by_others(session, knowledge, wanted, plan)?;
            lines.extend(others.iter().map(|((run, user), labels)| done_twice(run, user, labels)));
            let ended = flow_exec::unwanted(session, knowledge, plan);
            lines.extend(ended.iter().map(|of| noted(orphans::ends(of, set))));
            let plugins = flow_exec::to_set_up(session, knowledge, plan);
            lines.extend((!plugins.is_empty()).then(|| {
                let what = if plugins.len() == 1 { "plugin" } else { "plugins" };
                format!("the run first sets up the {what} {}, once; this may take minutes", words::named(&plugins))
            }));
            lines.extend(environments(session, knowledge, plan, output.verbose));
            lines.extend(output.verbose.then(|| by_listing(session, plan)).flatten());
        }
        output.sentences(lines, 2)?;
        if is_unknown {
            imported::remind(session, output)?;
        }
    }
    Ok(if exit_code && plan.has_work() { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// How the environment differs from those of results; with `all`, in its variables too.
fn environments(session: &Session, knowledge: &Knowledge, plan: &CorePlan, all: bool) -> Vec<String> {
    const SHOWN: usize = 4;
    let Some(mut present) = PresentEnvironment::of(session, knowledge) else { return Vec::new() };
    let cached = present.changes(plan).into_iter().map(|change| (true, change));
    let runs = present.changes_of_steps(session, knowledge, plan).into_iter().map(|change| (false, change));
    let mut lines = Vec::new();
    for (is_cached, (since, of)) in cached.into_iter().chain(runs) {
        let told: Vec<_> = since.differences.into_iter().filter(|one| all || !one.is_variable()).collect();
        if told.is_empty() {
            continue;
        }
        let said = reasons::differences(&told, if all { usize::MAX } else { SHOWN }).join(", ");
        let expansion = &session.expansion;
        let mut steps: IndexMap<&str, usize> = IndexMap::new();
        for id in &of {
            *steps.entry(&expansion.steps[expansion.instances[id.index()].step.index()].name).or_default() += 1;
        }
        let forced = steps.keys().map(|step| format!("-f {step}")).collect::<Vec<_>>().join(" ");
        let steps = steps.into_iter().map(|(step, n)| words::instances(n, step, step)).collect::<Vec<_>>().join(", ");
        lines.push(noted(match is_cached {
            true => format!(
                "{said} since the results of {steps}: they stay cached, and `flow run {forced}` makes them again"
            ),
            false => format!("{said} since the last results of {steps}"),
        }));
    }
    lines
}

/// The folders of cached instances that were compared by listing.
fn by_listing(session: &Session, plan: &CorePlan) -> Option<String> {
    let cached = plan.items.iter().filter(|item| matches!(item.state, State::Cached { .. }));
    let folders: BTreeSet<&str> = cached.flat_map(|item| session.by_listing(item.id)).collect();
    reasons::by_listing(folders.into_iter()).map(noted)
}

fn line(expansion: &Expansion, item: &Item) -> JournalLine {
    let instance = &expansion.instances[item.id.index()];
    let event = RunEvent::Instance {
        instance: item.id,
        label: instance.label.to_string(),
        step: expansion.steps[instance.step.index()].name.clone(),
        plan: PlannedAction::from(&item.state),
        written: Map::new(),
    };
    JournalLine { at: flow_supervisor::clock::unix_millis(), event }
}

/// Heading, one line per instance or group of instances, and the totals.
fn render(
    expansion: &Expansion,
    plan: &CorePlan,
    orphans: &OrphanStates,
    tasks: &[Task],
    verbose: bool,
    columns: Option<usize>,
) -> Vec<String> {
    let machine = reasons::profile_and_gpus(expansion.profile.as_ref(), expansion.machine.fake_gpus);
    let mut out = vec![styled(STRONG, &expansion.workflow) + &machine];
    let mut rows = Vec::new();
    for crowd in crowds(expansion, plan, orphans) {
        let many = match crowd[0].state {
            State::Run(_) | State::Refused { .. } | State::NotNeeded { .. } => MANY,
            _ => 2,
        };
        if crowd.len() >= many && !verbose {
            let name = &expansion.steps[expansion.instances[crowd[0].id.index()].step.index()].name;
            let each: Vec<&Estimate> = crowd.iter().map(|item| &tasks[item.id.index()].estimate).collect();
            let what = format!("{name} × {}", words::thousands(crowd.len()));
            let progress = orphans.progress(crowd[0].id);
            let is_otherwise = crowd.iter().any(|item| ran_otherwise(item, tasks));
            let takes = takes_each(&each, is_otherwise);
            rows.push(row(&crowd[0].state, progress, what, common(expansion, orphans, &crowd), takes));
        } else {
            rows.extend(crowd.iter().map(|item| {
                let label = expansion.instances[item.id.index()].label.to_string();
                let why = because(expansion, orphans, item);
                let short = !verbose && matches!(item.state, State::Run(_));
                let why = if short { words::fit(&why.words_within(LONGEST), LONGEST) } else { why.words() };
                let progress = orphans.progress(item.id);
                let takes = takes(&tasks[item.id.index()].estimate).map(|said| match ran_otherwise(item, tasks) {
                    true => format!("{}{OTHERWISE})", said.trim_end_matches(')')),
                    false => said,
                });
                row(&item.state, progress, label, why, takes)
            }));
        }
    }
    let below = columns.map(|columns| narrow::narrow(&mut rows, columns)).unwrap_or_default();
    let mut below = below.into_iter();
    for line in words::columns(&rows) {
        out.push(format!("  {line}"));
        out.extend(below.next().into_iter().flatten());
    }
    // A part of the workflow may not include them.
    if plan.items.len() == expansion.instances.len() {
        let remarks = expansion.remarks.iter().map(reasons::remark);
        out.extend(remarks.map(|remark| styled(FAINT, format_args!("  {remark}"))));
    }
    let unfollowed = reasons::unfollowed(&unfollowed(expansion, plan, tasks));
    out.extend(unfollowed.iter().chain(&ends_all(expansion, plan)).map(|line| styled(FAINT, format_args!("  {line}"))));
    out.push(total(plan, orphans));
    out
}

/// Warns that nothing would start, because a failure is certain beforehand.
fn ends_all(expansion: &Expansion, plan: &CorePlan) -> Option<String> {
    let failed =
        plan.items.iter().find(|item| matches!(item.state, State::Refused { outcome: Outcome::Failed, .. }))?;
    plan.items.iter().any(|item| matches!(item.state, State::Run(_))).then(|| {
        let label = &expansion.instances[failed.id.index()].label;
        format!("`{label}` cannot run, so `flow run` starts nothing; `flow run -k` runs the rest")
    })
}

/// Steps with earlier results that stay cached although a step in their `after:` runs.
fn unfollowed(expansion: &Expansion, plan: &CorePlan, tasks: &[Task]) -> Vec<UnreadDependency> {
    let states: BTreeMap<InstanceId, &State> = plan.items.iter().map(|item| (item.id, &item.state)).collect();
    let kept = |id: InstanceId| match states.get(&id) {
        Some(State::Cached { .. }) => true,
        Some(State::After(_)) => tasks[id.index()].estimate.duration.is_some(),
        _ => false,
    };
    expansion.unfollowed(kept, |id| matches!(states.get(&id), Some(State::Run(_) | State::Orphaned { .. })))
}

/// Instances of a step with the same planned outcome, in order of first appearance.
fn crowds<'p>(expansion: &Expansion, plan: &'p CorePlan, orphans: &OrphanStates) -> Vec<Vec<&'p Item>> {
    let mut crowds: IndexMap<_, Vec<&Item>> = IndexMap::new();
    // An instance that is not needed was not requested either.
    for item in plan.items.iter().filter(|item| !matches!(item.state, State::NotNeeded { .. })) {
        let outcome = match &item.state {
            State::Cached { outcome, .. } | State::Refused { outcome, .. } => Some(*outcome),
            _ => None,
        };
        let progress = orphans.progress(item.id);
        let key = (expansion.instances[item.id.index()].step, discriminant(&item.state), outcome, progress);
        crowds.entry(key).or_default().push(item);
    }
    crowds.into_values().collect()
}

/// The most frequent reason of a group. For later decisions, it names steps instead of instances.
fn common(expansion: &Expansion, orphans: &OrphanStates, crowd: &[&Item]) -> String {
    let said = crowd.iter().map(|item| match &item.state {
        State::After(labels) => InstanceReason::Words(once(labels.iter().map(|label| words::step_of(label)))),
        _ => because(expansion, orphans, item),
    });
    let mut forms = reasons::alike(said.map(|because| (because.clone(), because)));
    let others = forms.len().saturating_sub(1);
    forms.sort_by_key(|form| Reverse(form.count));
    let within = |form: &SimilarReasons<InstanceReason>| {
        form.put(&form.of.words_within(LONGEST.saturating_sub(form.put("").len())))
    };
    let most = match matches!(crowd[0].state, State::Run(_)) {
        true => words::fit(&forms.first().map(within).unwrap_or_default(), LONGEST),
        false => forms.first().map(SimilarReasons::words).unwrap_or_default(),
    };
    match others {
        0 => most,
        n => format!("{most}; {} (-v)", words::count(n, "other reason")),
    }
}

/// The steps that are awaited, each once. For a group that may be repeated, all repetitions count
/// as one.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<IndexSet<&str>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// The jobs that the killed run of another user left are not waited for.
fn done_twice(run: &RunId, user: &str, labels: &[String]) -> String {
    format!(
        "run {run} of {user} was killed and left Slurm jobs for {}: your run does not wait for them and may do the same twice; only \
         the next `flow run` of {user} can collect their results",
        words::named(labels)
    )
}

/// The end of an estimate for parameters that did not run.
const OTHERWISE: &str = ", with other parameters";

/// True if the estimate of an instance is from runs with another command or other settings: parameters that are lists or
/// nested are not stored with a run.
fn ran_otherwise(item: &Item, tasks: &[Task]) -> bool {
    let is_setting = |reason: &Reason| {
        let Reason::Value { kind, was: Some(_), is: Some(_), .. } = reason else { return false };
        matches!(kind, PartKind::Command | PartKind::Parameter | PartKind::Variable)
    };
    let own = matches!(tasks[item.id.index()].estimate.source, EstimateSource::Instance { changed: false, .. });
    own && matches!(&item.state, State::Run(reasons) if reasons.iter().any(is_setting))
}

/// What the instances of a crowd take, each.
fn takes_each(each: &[&Estimate], is_otherwise: bool) -> Option<String> {
    let mut known: Vec<f64> = each.iter().filter_map(|e| Some(e.duration?.as_secs_f64())).collect();
    known.sort_by(f64::total_cmp);
    let [least, most] = [known.first()?, known.last()?].map(|s| words::duration(*s));
    let samples: u32 = each.iter().map(|estimate| estimate.samples).max().unwrap_or(0);
    let span = if least == most { format!("about {least}") } else { format!("{least} to {most}") };
    let otherwise = if is_otherwise { OTHERWISE } else { "" };
    Some(format!("{span} each (from up to {}{otherwise})", words::count(samples as usize, "earlier run")))
}

/// The time of the whole run, simulated with known times.
fn whole(session: &Session, plan: &CorePlan, orphans: &OrphanStates, forecast: Forecast, here: bool) -> Option<String> {
    if !plan.has_work() {
        return None;
    }
    let unknown = forecast.unknown.len();
    let known = forecast.tasks.iter().filter(|task| task.settled.is_none() && task.estimate.duration.is_some()).count();
    if known == 0 {
        return Some("the total time is unknown: nothing like it has run with these parameters".to_owned());
    }
    let name = session.expansion.policy.as_deref().unwrap_or(policy::DEFAULT);
    let is_otherwise = plan.items.iter().any(|item| ran_otherwise(item, &forecast.tasks));
    let otherwise = if is_otherwise { ", from runs with other parameters" } else { "" };
    let Forecast { mut tasks, capacity, limits, host, .. } = forecast;
    for item in plan.items.iter().filter(|item| matches!(item.state, State::Orphaned { .. })) {
        if orphans.progress(item.id) == Progress::Ended {
            let task = &mut tasks[item.id.index()];
            (task.batch, task.estimate.duration) = (false, Some(Span(0)));
        }
    }
    let on_slurm = tasks.iter().any(|task| task.settled.is_none() && task.batch);
    let simulation = Simulation::new(flow_sim::expected(tasks), capacity, policy::named(name)?, limits).ok()?;
    let schedule = simulation.on(host).run(|_, _| {}).ok()?;
    let takes = words::duration(schedule.makespan().as_secs_f64());
    Some(match unknown {
        0 if on_slurm => format!("it takes about {takes}, plus waiting in Slurm's queue{otherwise}"),
        0 => format!("it takes about {takes} on {}{otherwise}", if here { "this machine" } else { "that machine" }),
        1 => format!("it takes more than {takes}, without 1 instance that has never run with these parameters"),
        n => format!("it takes more than {takes}, without {n} instances that have never run with these parameters"),
    })
}

/// Why an instance has this planned outcome.
fn because(expansion: &Expansion, orphans: &OrphanStates, item: &Item) -> InstanceReason {
    match &item.state {
        State::Cached { read_again: true, .. } => InstanceReason::Words(words::READ_AGAIN.to_owned()),
        State::Cached { outcome: Outcome::Ok, .. } => InstanceReason::Words(String::new()),
        State::Cached { outcome, .. } => InstanceReason::Settled(*outcome, None),
        State::Run(all) => InstanceReason::Runs(RunReasons::of(all)),
        State::Orphaned { since, .. } => {
            let is_job = expansion.instances[item.id.index()].is_batch();
            InstanceReason::Words(match orphans.progress(item.id) {
                Progress::Running | Progress::Queued if is_job => {
                    format!("as a job of Slurm since run {since}, and is not started again")
                }
                Progress::Running | Progress::Queued => format!("since run {since}, and is not started again"),
                Progress::Ended => format!("since run {since} was killed, and `flow run` collects its result"),
                Progress::Unknown => format!("Slurm does not answer about the job of run {since}"),
            })
        }
        State::After(labels) => InstanceReason::Words(once(labels.iter().map(String::as_str))),
        State::MayRepeat { group, at_most } => InstanceReason::MayRepeat { group: group.clone(), at_most: *at_most },
        State::NotNeeded { cause } => InstanceReason::Settled(Outcome::Skipped, Some(cause.clone())),
        State::Refused { outcome, cause } => InstanceReason::Settled(*outcome, Some(cause.clone())),
    }
}

fn row(state: &State, progress: Progress, what: String, why: String, takes: Option<String>) -> Vec<String> {
    let (style, verb) = match state {
        State::Cached { .. } => (FAINT, "cached"),
        State::Run(_) => (GOOD, "run"),
        State::Orphaned { .. } => match progress {
            Progress::Running => (GOOD, "running"),
            Progress::Queued => (NOTE, "queued"),
            Progress::Ended => (GOOD, "ended"),
            Progress::Unknown => (NOTE, "unknown"),
        },
        State::After(_) => (NOTE, "decided after"),
        State::MayRepeat { .. } => (NOTE, "may repeat"),
        State::NotNeeded { .. } => (FAINT, "not needed"),
        State::Refused { outcome: Outcome::Failed, .. } => (BAD, "cannot run"),
        State::Refused { outcome, .. } => (NOTE, words::outcome(*outcome)),
    };
    let takes = takes.filter(|_| matches!(state, State::Run(_) | State::After(_)));
    let mut row = vec![styled(style, format_args!("{verb:<13}")), what];
    row.extend([Some(why).filter(|why| !why.is_empty()), takes].into_iter().flatten());
    row
}

fn total(plan: &CorePlan, orphans: &OrphanStates) -> String {
    let count = |is: fn(&State) -> bool| plan.items.iter().filter(|item| is(&item.state)).count();
    let followed = |progress: Progress| {
        let is = |item: &&Item| matches!(item.state, State::Orphaned { .. }) && orphans.progress(item.id) == progress;
        plan.items.iter().filter(is).count()
    };
    let parts = [
        (count(|s| matches!(s, State::Cached { .. })), "cached"),
        (followed(Progress::Running), "running"),
        (followed(Progress::Queued), "queued"),
        (followed(Progress::Ended), "ended since"),
        (followed(Progress::Unknown), "unknown"),
        (count(|s| matches!(s, State::Run(_))), "to run"),
        (count(|s| matches!(s, State::After(_))), "after them if needed"),
        (count(|s| matches!(s, State::MayRepeat { .. })), "repetitions if a verdict needs them"),
        (count(|s| matches!(s, State::Refused { .. })), "not run"),
    ];
    let parts = words::counts(parts);
    let all = words::count(plan.items.len() - count(|s| matches!(s, State::NotNeeded { .. })), "instance");
    if parts.is_empty() { all } else { format!("{all}: {parts}") }
}
