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
        crowd.counts.add(&shown.state);
        let counts = &crowd.counts;
        if counts.all() != crowd.total {
            return None;
        }
        // If few ran, each had a line.
        let told = crowd.total < MANY && counts.tried() > 0;
        let what = words::instances(crowd.total, step, step);
        (!told).then(|| counts.line(view, line.at, &what))
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

/// The outcomes of a step's instances.
#[derive(Debug, Default)]
struct Counts {
    cached: usize,
    ran: usize,
    /// Instances that ended with a failure which `record:` stores as a result, by outcome.
    recorded: BTreeMap<&'static str, usize>,
    failed: usize,
    skipped: usize,
    cancelled: usize,
}

impl Counts {
    fn add(&mut self, state: &InstanceState) {
        match state {
            InstanceState::Cached(..) => self.cached += 1,
            InstanceState::Done(outcome) if is_failure(*outcome) => {
                *self.recorded.entry(words::outcome(*outcome)).or_default() += 1;
            }
            InstanceState::Done(_) => self.ran += 1,
            InstanceState::Settled(Outcome::Cancelled) => self.cancelled += 1,
            InstanceState::Settled(outcome) if is_failure(*outcome) => self.failed += 1,
            InstanceState::Settled(_) => self.skipped += 1,
            InstanceState::Waiting | InstanceState::Running | InstanceState::NotNeeded => {}
        }
    }

    fn all(&self) -> usize {
        self.cached + self.tried() + self.skipped + self.cancelled
    }

    /// The number of instances with an attempt.
    fn tried(&self) -> usize {
        self.ran + self.recorded.values().sum::<usize>() + self.failed
    }

    fn line(&self, view: &View, at: u64, what: &str) -> String {
        let (style, verb) = match self {
            Counts { failed: 1.., .. } => (BAD, "failed"),
            Counts { ran: 1.., .. } => (GOOD, "done"),
            Counts { recorded, .. } if !recorded.is_empty() => (GOOD, "done"),
            Counts { cancelled: 1.., .. } => (NOTE, "cancelled"),
            Counts { cached: 1.., .. } => (FAINT, "cached"),
            _ => (NOTE, "skipped"),
        };
        let recorded = self.recorded.iter().map(|(outcome, n)| (*n, *outcome));
        let rest = [(self.failed, "failed"), (self.skipped, "skipped"), (self.cancelled, "cancelled")];
        let counts = [(self.ran, "ran")].into_iter().chain(recorded).chain([(self.cached, "cached")]).chain(rest);
        let counts: Vec<String> =
            counts.filter(|(n, _)| *n > 0).map(|(n, how)| format!("{} {how}", words::thousands(n))).collect();
        let how = if counts.len() > 1 { format!(": {}", counts.join(", ")) } else { String::new() };
        super::lines::event_text(view, at, style, verb, &format!("{what}{how}"))
    }
}
