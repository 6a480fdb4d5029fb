//! How long a run still takes, as `flow run` estimates it: from ended attempts and the progress of running ones. Reads no
//! clock.

use std::collections::BTreeMap;

use flow_core::{AttemptId, InstanceId, JournalLine, Outcome, RemainingTime, RunEvent, RunningTime, StepTimes};
use flow_runs::{RunningStep, Status};

/// A fold over the journal.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    steps: BTreeMap<String, StepTimes>,
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
                    let took = line.at.saturating_sub(began) as f64 / 1e3;
                    self.steps.entry(step.clone()).or_default().add(took);
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

    /// The time until the end. `None` if nothing is known.
    pub(crate) fn remaining(&self, status: Option<&Status>, now: u64) -> Option<RemainingTime> {
        let known = status.into_iter().flat_map(|status| &status.running);
        let known: BTreeMap<AttemptId, &RunningStep> = known.map(|one| (one.attempt, one)).collect();
        let running = self.running.iter().map(|(attempt, (instance, began))| {
            let known = known.get(attempt);
            RunningTime {
                of: self.instances.get(instance).and_then(|(step, _)| self.steps.get(step)),
                so_far_s: now.saturating_sub(*began) as f64 / 1e3,
                fraction: known.and_then(|one| one.fraction),
                left_s: known.and_then(|one| Some(one.ends_at?.saturating_sub(now) as f64 / 1e3)),
            }
        });
        flow_core::remaining(self.steps.values(), running)
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
            estimate.remaining(None, at).map(|left| (left.seconds, left.at_least))
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
