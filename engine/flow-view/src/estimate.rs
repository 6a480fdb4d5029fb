//! How long a run still takes, as `flow run` estimates it: from ended attempts and the progress of running ones. Reads no
//! clock.

use std::collections::BTreeMap;

use flow_core::{AttemptId, InstanceId, JournalLine, Outcome, RunEvent};
use flow_store::Status;

/// Progress below this says nothing about speed.
const TOO_EARLY: f64 = 0.05;

#[derive(Debug, Default)]
struct OfStep {
    waiting: usize,
    /// Attempts that have ended, and their total seconds.
    ended: usize,
    took_s: f64,
}

/// A fold over the journal.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    steps: BTreeMap<String, OfStep>,
    /// The step of each instance, and whether it waits.
    instances: BTreeMap<InstanceId, (String, bool)>,
    running: BTreeMap<AttemptId, (InstanceId, u64)>,
}

impl Estimate {
    pub(crate) fn add(&mut self, line: &JournalLine) {
        match &line.event {
            RunEvent::Instance { instance, step, .. } if !self.instances.contains_key(instance) => {
                self.instances.insert(*instance, (step.clone(), false));
                self.waits(*instance, true);
            }
            RunEvent::Started { instance, attempt, .. } => {
                self.running.insert(*attempt, (*instance, line.at));
                self.waits(*instance, false);
            }
            RunEvent::Ended { instance, attempt, outcome, .. } => {
                if let Some((_, began)) = self.running.remove(attempt)
                    && let Some((step, _)) = self.instances.get(instance)
                {
                    let of = self.steps.entry(step.clone()).or_default();
                    of.ended += 1;
                    of.took_s += line.at.saturating_sub(began) as f64 / 1e3;
                }
                // Perhaps for the next attempt; otherwise it is settled at once.
                self.waits(*instance, *outcome == Outcome::Failed);
            }
            RunEvent::Again { instance, .. } => self.waits(*instance, true),
            RunEvent::Cached { instance, .. }
            | RunEvent::Recorded { instance, .. }
            | RunEvent::Settled { instance, .. } => self.waits(*instance, false),
            _ => {}
        }
    }

    fn waits(&mut self, instance: InstanceId, now: bool) {
        let Some((step, waits)) = self.instances.get_mut(&instance) else { return };
        let of = self.steps.entry(step.clone()).or_default();
        of.waiting = of.waiting + usize::from(now) - usize::from(*waits);
        *waits = now;
    }

    /// Seconds until the end, and whether it can only be longer. `None` if nothing is known.
    pub(crate) fn remaining(&self, status: Option<&Status>, now: u64) -> Option<(f64, bool)> {
        let mean = |step: &str| self.steps.get(step).filter(|of| of.ended > 0).map(|of| of.took_s / of.ended as f64);
        let running = status.into_iter().flat_map(|status| &status.running);
        let fractions: BTreeMap<AttemptId, f64> =
            running.filter_map(|one| Some((one.attempt, one.fraction?))).collect();
        let (mut longest, mut sum, mut at_least) = (0.0_f64, 0.0, false);
        for (attempt, (instance, began)) in &self.running {
            let so_far = now.saturating_sub(*began) as f64 / 1e3;
            let known = fractions.get(attempt).copied();
            let step = self.instances.get(instance).map(|(step, _)| step.as_str()).unwrap_or_default();
            let left = match (known, mean(step)) {
                (Some(fraction), _) if fraction >= TOO_EARLY => so_far * (1.0 - fraction.min(1.0)) / fraction,
                (_, Some(mean)) => (mean - so_far).max(0.0),
                _ => {
                    at_least = true;
                    continue;
                }
            };
            longest = longest.max(left);
            sum += left;
        }
        for (step, of) in self.steps.iter().filter(|(_, of)| of.waiting > 0) {
            match mean(step) {
                Some(mean) => sum += mean * of.waiting as f64,
                None => at_least = true,
            }
        }
        // As many run at once as now; the end is never before that of the longest.
        let left = longest.max(sum / self.running.len().max(1) as f64);
        (left > 0.0).then_some((left, at_least))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_its_like() {
        let mut estimate = Estimate::default();
        let mut add = |at: u64, mut event: serde_json::Value| {
            event["at"] = json!(at);
            estimate.add(&serde_json::from_value(event).unwrap());
            estimate.remaining(None, at)
        };
        let why = json!({"first": [{"kind": "never_ran"}]});
        for n in 0..4 {
            let plan = json!({"state": "run", "why": why});
            add(0, json!({"event": "instance", "instance": n, "label": "a", "step": "a", "plan": plan}));
        }
        let start = |n: u32| json!({"event": "started", "instance": n, "attempt": n, "folder": "f", "why": why, "gpus": [], "cpus": 1});
        assert_eq!(add(0, start(0)), None, "nothing is known");
        assert_eq!(
            add(8_000, json!({"event": "ended", "instance": 0, "attempt": 0, "outcome": "ok"})),
            Some((24.0, false))
        );
        add(8_000, start(1));
        assert_eq!(add(10_000, start(2)), Some((11.0, false)), "6 s, 8 s, and 8 s by two at once");
    }
}
