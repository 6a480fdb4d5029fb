//! Decides which events have a line of their own, so that a sweep of thousands prints only a few. A
//! step with many instances gets one line when all are settled, and errors are shown for the first
//! of them. `-v` shows all.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::Disturbance;
use flow_core::{InstanceId, JournalLine, Outcome, Remark, RunEvent};

use super::lines::is_trouble;
use super::view::{InstanceState, View, is_failure};
use crate::output::{BAD, FAINT, GOOD, NOTE};
use crate::{reasons, words};

/// From this number of instances on, a step has one line.
const MANY: usize = 4;
/// In a step with one line, a finished instance gets its own line if nothing was shown for this
/// many milliseconds.
const SILENCE: u64 = 10_000;
/// Most errors that are shown per step.
const TROUBLES: usize = 5;

/// The progress of the steps, and what was shown of them.
#[derive(Debug, Default)]
pub(crate) struct StepProgress {
    steps: BTreeMap<String, StepCounts>,
    /// Notes by step, without their numbers: a note that many instances share is shown for the
    /// first.
    notes: BTreeSet<(String, String)>,
    shown_at: u64,
}

#[derive(Debug, Default)]
struct StepCounts {
    total: usize,
    counts: Counts,
    /// Errors that were shown: one that many instances share is shown for the first.
    troubles: BTreeSet<String>,
}

impl StepProgress {
    /// Whether an event has a line of its own. The view has already applied it.
    pub(crate) fn shows(&mut self, view: &View, line: &JournalLine) -> bool {
        let many = |crowds: &StepProgress, id: &InstanceId| {
            let crowd = view.instances.get(id).and_then(|shown| crowds.steps.get(&shown.step));
            crowd.is_some_and(|crowd| crowd.total >= MANY)
        };
        match &line.event {
            RunEvent::Instance { step, .. } => {
                self.steps.entry(step.clone()).or_default().total += 1;
                false
            }
            RunEvent::Cached { .. } | RunEvent::Ready { .. } | RunEvent::Released { .. } | RunEvent::Epoch { .. } => {
                false
            }
            // It needs no action; `flow plan` and `flow check` show it.
            RunEvent::Remarked { remark: Remark::NoProfile { .. } } => false,
            // The summary, which follows at once, shows it.
            RunEvent::Published { .. } | RunEvent::Withheld { .. } => false,
            RunEvent::Started { instance, .. } => !many(self, instance),
            RunEvent::Recorded { read_again: true, .. } if !is_trouble(line) => false,
            RunEvent::Recorded { instance, .. } if !is_trouble(line) => {
                !many(self, instance) || line.at.saturating_sub(self.shown_at) >= SILENCE
            }
            RunEvent::Notice { instance: Some(instance), text } => {
                let step = view.instances.get(instance).map(|shown| shown.step.clone()).unwrap_or_default();
                self.notes.insert((step, without_numbers(text)))
            }
            RunEvent::Settled { outcome, .. } if !is_failure(*outcome) => false,
            RunEvent::Recorded { instance, .. }
            | RunEvent::Settled { instance, .. }
            | RunEvent::Ended { instance, .. }
            | RunEvent::Again { instance, .. } => self.trouble(view, *instance, &line.event),
            _ => true,
        }
    }

    /// Something was shown at that time.
    pub(crate) fn note_shown(&mut self, at: u64) {
        self.shown_at = at;
    }

    /// The line of a step whose last instance settled, unless its instances had lines.
    pub(crate) fn whole(&mut self, view: &View, line: &JournalLine) -> Option<String> {
        let (RunEvent::Cached { instance, .. }
        | RunEvent::Recorded { instance, .. }
        | RunEvent::Settled { instance, .. }) = &line.event
        else {
            return None;
        };
        let shown = view.instances.get(instance)?;
        let (step, crowd) = (&shown.step, self.steps.get_mut(&shown.step)?);
        if let Some(kind) = kind(&shown.state) {
            *crowd.counts.entry(kind).or_default() += 1;
        }
        let counts = &crowd.counts;
        if counts.values().sum::<usize>() != crowd.total {
            return None;
        }
        // If few ran, each had a line.
        let is_tried = |(kind, _): &(Kind, _)| matches!(kind, Kind::Ran | Kind::Recorded | Kind::Failed);
        let told = crowd.total < MANY && counts.keys().any(is_tried);
        let what = words::instances(crowd.total, step, step);
        (!told).then(|| step_line(counts, view, line.at, &what))
    }

    fn trouble(&mut self, view: &View, id: InstanceId, event: &RunEvent) -> bool {
        let crowd = view.instances.get(&id).and_then(|shown| self.steps.get_mut(&shown.step));
        crowd.is_none_or(|crowd| crowd.troubles.len() < TROUBLES && crowd.troubles.insert(trouble(event)))
    }
}

/// The words of a note that are not numbers: `acc was 0.7, is 0.8` has other numbers in each instance.
fn without_numbers(text: &str) -> String {
    text.split_whitespace().filter(|word| !word.starts_with(|c: char| c.is_ascii_digit() || c == '-')).collect()
}

/// The error, whichever instance it is about.
fn trouble(event: &RunEvent) -> String {
    let disturbed = |all: &[Disturbance]| all.iter().map(reasons::disturbed).collect::<Vec<_>>().join("; ");
    match event {
        RunEvent::Recorded { result, .. } => {
            let outcome = words::outcome(result.outcome);
            format!(
                "{outcome}: {}; {}",
                reasons::settled(result.outcome, result.cause.as_ref()),
                disturbed(&result.disturbances)
            )
        }
        RunEvent::Settled { outcome, cause, .. } => reasons::settled(*outcome, cause.as_ref()),
        RunEvent::Ended { disturbances: why, .. } => disturbed(why),
        RunEvent::Again { because, .. } => reasons::repeat(because),
        _ => String::new(),
    }
}

/// Numbers of a step's instances by outcome, in the order in which they are shown.
type Counts = BTreeMap<(Kind, &'static str), usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Ran,
    /// It ended with a failure which `record:` stores as a result.
    Recorded,
    Cached,
    Failed,
    Skipped,
    Cancelled,
}

/// `None` if it is not settled, or not needed.
fn kind(state: &InstanceState) -> Option<(Kind, &'static str)> {
    Some(match state {
        InstanceState::Cached(..) => (Kind::Cached, "cached"),
        InstanceState::Done(outcome) if is_failure(*outcome) => (Kind::Recorded, words::outcome(*outcome)),
        InstanceState::Done(_) => (Kind::Ran, "ran"),
        InstanceState::Settled(Outcome::Cancelled) => (Kind::Cancelled, "cancelled"),
        InstanceState::Settled(outcome) if is_failure(*outcome) => (Kind::Failed, "failed"),
        InstanceState::Settled(_) => (Kind::Skipped, "skipped"),
        InstanceState::Waiting | InstanceState::Running | InstanceState::NotNeeded => return None,
    })
}

fn step_line(counts: &Counts, view: &View, at: u64, what: &str) -> String {
    let has = |kind: Kind| counts.keys().any(|(one, _)| *one == kind);
    let (style, verb) = match () {
        () if has(Kind::Failed) => (BAD, "failed"),
        () if has(Kind::Ran) || has(Kind::Recorded) => (GOOD, "done"),
        () if has(Kind::Cancelled) => (NOTE, "cancelled"),
        () if has(Kind::Cached) => (FAINT, "cached"),
        () => (NOTE, "skipped"),
    };
    let all = words::counts(counts.iter().map(|((_, how), n)| (*n, *how)));
    let how = if counts.len() > 1 { format!(": {all}") } else { String::new() };
    super::lines::event_text(view, at, style, verb, &format!("{what}{how}"))
}
