//! One line per event, for pipes, logs, and the text above the bars. Words only.

use flow_core::{
    JournalLine, Outcome, PlannedAction, RunEvent, StepResult,
    reason::{Cause, Disturbance},
};

use super::view::{View, is_failure};
use crate::output::{BAD, FAINT, GOOD, NOTE, STRONG, styled};
use crate::terminal::Paint;
use crate::{reasons, words};

/// The width of the column of verbs.
const VERB: usize = 14;
/// The column after it.
pub(super) const FURTHER: usize = 7 + 2 + VERB + 1;

/// Time, verb and subject.
pub(super) fn event_text(view: &View, at: u64, style: Paint, verb: &str, what: &str) -> String {
    let at = styled(FAINT, format_args!("{:>7}", words::clock(view.elapsed(at))));
    format!("{at}  {} {what}", styled(style, format_args!("{verb:<VERB$}")))
}

/// The line of an event; `None` if it has no line.
pub(crate) fn event_line(view: &View, line: &JournalLine) -> Option<String> {
    let say = |style, verb: &str, what: String| Some(event_text(view, line.at, style, verb, &what));
    match &line.event {
        RunEvent::RunStarted(start) => {
            let machine = reasons::profile_and_gpus(start.profile.as_ref(), start.machine.fake_gpus);
            Some(format!("{} run {}{machine}", styled(STRONG, &start.workflow), start.run))
        }
        // Some are for the database only. The plan has one line once it is complete; the summary is the end; an attempt's
        // end is shown with its result.
        RunEvent::Observed { .. }
        | RunEvent::Tried { .. }
        | RunEvent::Accepted { .. }
        | RunEvent::Imported { .. }
        | RunEvent::Foreign { .. }
        | RunEvent::Forgotten { .. }
        | RunEvent::Dropped { .. }
        | RunEvent::Instance { .. }
        | RunEvent::RunEnded { .. } => None,
        RunEvent::Ended { disturbances, .. } if disturbances.is_empty() => None,
        RunEvent::Ended { instance, disturbances, .. } => {
            let why: Vec<String> = disturbances.iter().map(reasons::disturbed).collect();
            say(NOTE, "note", format!("{}: {}", view.label(*instance), why.join("; ")))
        }
        RunEvent::Again { instance, because } => {
            say(NOTE, "note", format!("{}: {}", view.label(*instance), reasons::repeat(because)))
        }
        RunEvent::Remarked { remark } => say(NOTE, "note", reasons::remark(remark)),
        RunEvent::Interrupted { grace, again } => say(NOTE, "note", reasons::interrupted(*grace, *again)),
        RunEvent::Epoch { attempt, epoch, metrics, units } => {
            let shown = |(name, value): (&String, &f64)| {
                format!("{name} {}", words::metric(*value, units.get(name).map_or("", String::as_str)))
            };
            let metrics: Vec<String> = metrics.iter().map(shown).collect();
            say(FAINT, "epoch", format!("{} {epoch}  {}", view.label_of(*attempt), metrics.join(", ")))
        }
        RunEvent::Cached { instance, outcome, .. } => {
            let how = if *outcome == Outcome::Ok { String::new() } else { format!(" ({})", words::outcome(*outcome)) };
            say(FAINT, "cached", view.label(*instance) + &how)
        }
        RunEvent::Started { instance, attempt, why, queued, .. } => {
            let holds = view.attempts.get(attempt).map(|attempt| view.holds(attempt)).unwrap_or_default();
            let (verb, with) = if *queued { ("queued", "for") } else { ("started", "on") };
            say(STRONG, verb, format!("{} {with} {holds}: {}", view.label(*instance), reasons::why(why)))
        }
        RunEvent::Ready { attempt } => say(FAINT, "ready", view.label_of(*attempt)),
        RunEvent::Released { attempts, .. } => {
            let labels: Vec<String> = attempts.iter().map(|attempt| view.label_of(*attempt)).collect();
            say(STRONG, "released", labels.join(", "))
        }
        RunEvent::Recorded { result, read_again: true, .. } => {
            say(FAINT, "cached", format!("{}, {}{}", result.label, words::READ_AGAIN, then(came_to(result))))
        }
        // It was stored only so that its metrics can be read differently; its failure is shown
        // next.
        RunEvent::Recorded { instance, result, .. } if view.ended_otherwise(*instance, result.outcome) => None,
        RunEvent::Recorded { result, .. } => {
            let (style, verb) = match result.outcome {
                Outcome::Ok if result.disturbances.is_empty() => (GOOD, "done"),
                Outcome::Ok if result.disturbances.iter().any(Disturbance::is_of_content) => (BAD, "not kept"),
                Outcome::Ok => (NOTE, "disturbed"),
                outcome => (NOTE, words::outcome(outcome)),
            };
            say(style, verb, recorded(result))
        }
        // Once per group, not once per repetition that is left out.
        RunEvent::Settled { instance, cause: Some(Cause::Decided { group, looks, verdict: Some(call) }), .. } => {
            let first = view.decided.get(group) == Some(instance);
            let runs = words::count(*looks as usize, "run");
            first.then(|| say(GOOD, "decided", format!("{group} after {runs} of each: {}", reasons::call(*call))))?
        }
        RunEvent::Settled { cause: Some(Cause::Decided { .. }), .. } => None,
        RunEvent::Settled { instance, outcome, cause } => {
            let style = if is_failure(*outcome) { BAD } else { NOTE };
            let why = reasons::settled(*outcome, cause.as_ref());
            say(style, words::outcome(*outcome), format!("{}: {why}", view.label(*instance)))
        }
        RunEvent::Notice { instance, text } => {
            let about = instance.map(|id| format!("{}: ", view.label(id))).unwrap_or_default();
            say(NOTE, "note", about + text)
        }
        RunEvent::Withheld { path, written, why } => {
            say(NOTE, "written", format!("{written}, not {path}: {}", reasons::withheld(why)))
        }
        RunEvent::Published { path, changed } => {
            say(GOOD, if *changed { "published" } else { "up to date" }, path.clone())
        }
    }
}

/// `solo[batch=16] in 41 s: top1 78%, epoch_time 9.8 s`.
fn recorded(result: &StepResult) -> String {
    let took = (result.ended_at.saturating_sub(result.started_at)) as f64 / 1e3;
    format!("{} in {}{}{}", result.label, words::duration(took), then(came_to(result)), beyond(result))
}

/// A note that it used more memory than it requested, on which others may rely.
fn beyond(result: &StepResult) -> String {
    let (usage, asked) = (&result.usage, &result.circumstances);
    let gpu = usage.gpus.iter().filter_map(|gpu| gpu.memory_peak).max();
    let both = [("memory", usage.rss_peak, asked.memory), ("gpu_memory", gpu, asked.gpu_memory)];
    let beyond = both
        .into_iter()
        .filter_map(|(key, used, asked)| Some((key, used?, asked.filter(|asked| used > Some(*asked))?)));
    beyond
        .map(|(key, used, asked)| format!("; its peak was {}, `{key}` is {}", words::bytes(used), words::bytes(asked)))
        .collect()
}

/// `: top1 78%`.
fn then(words: String) -> String {
    if words.is_empty() { words } else { format!(": {words}") }
}

/// `top1 78%, epoch_time 9.8 s`, or why there is none; and why it is not reliable.
pub(crate) fn came_to(result: &StepResult) -> String {
    const SHOWN: usize = 3;
    let mut metrics: Vec<(&String, &flow_core::Metric)> = result.metrics.iter().collect();
    metrics.sort_by_key(|(name, _)| rank(name));
    let shown: Vec<String> = metrics
        .iter()
        .take(SHOWN)
        .map(|(name, metric)| format!("{name} {}", words::metric(metric.value, &metric.unit)))
        .collect();
    let mut words: Vec<String> = match &result.cause {
        Some(cause) => vec![reasons::cause(cause)],
        None if shown.is_empty() => Vec::new(),
        None => vec![shown.join(", ")],
    };
    words.extend(result.disturbances.iter().map(reasons::disturbed));
    words.join("; ")
}

/// The order in which metrics are shown: what a training reached comes first, then its time, then what it learned from.
fn rank(metric: &str) -> usize {
    let has = |parts: &[&str]| parts.iter().any(|part| metric.contains(part));
    match metric {
        "epoch_time" => 2,
        "images_per_s" => 3,
        "epochs" | "steps" | "total" => 5,
        _ if has(&["top1", "acc"]) => 0,
        _ if has(&["val", "test", "eval"]) => 1,
        _ => 4,
    }
}

/// The totals of the plan, once it is complete.
pub(crate) fn plan_line(view: &View) -> Option<String> {
    let count = |is: fn(&PlannedAction) -> bool| view.instances.values().filter(|shown| is(&shown.planned)).count();
    let taken_over = count(|p| matches!(p, PlannedAction::Run { running_in: Some(_), .. }));
    let parts = [
        (count(|p| matches!(p, PlannedAction::Cached)), "cached"),
        (taken_over, "taken over from a killed run"),
        (count(|p| matches!(p, PlannedAction::Run { running_in: None, .. })), "to run"),
        (count(|p| matches!(p, PlannedAction::After { .. })), "after them if needed"),
        (count(|p| matches!(p, PlannedAction::MayRepeat)), "repetitions if a verdict needs them"),
        (count(|p| matches!(p, PlannedAction::Skipped { .. })), "not run"),
    ];
    let counts = words::counts(parts);
    (!counts.is_empty()).then(|| format!("plan: {counts}"))
}

/// A message that `-q` does not hide.
pub(crate) fn is_trouble(line: &JournalLine) -> bool {
    match &line.event {
        RunEvent::Settled { outcome, .. } => is_failure(*outcome),
        RunEvent::Recorded { result, .. } => {
            !result.disturbances.is_empty() || matches!(result.cause, Some(Cause::NoMetrics { .. }))
        }
        _ => false,
    }
}
