//! Where and when the instances that wait are expected to run: a copy of the scheduler decides on, while every attempt ends
//! well at its expected end. Runs nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::api::{Action, Answer, Event};
use super::machine::Scheduler;
use super::state::TaskState;
use crate::{AttemptId, GpuId, InstanceId, Outcome, Span, Time};

/// Expected start and end of an instance that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartForecast {
    pub instance: InstanceId,
    /// The GPUs that it is expected to get; none if it needs none.
    pub gpus: Vec<GpuId>,
    pub from: Time,
    pub to: Time,
}

impl Scheduler {
    /// The next starts, at most `most`, the earliest first. `ends` has the expected ends of running attempts that report
    /// their progress; others end by their estimates. An attempt without an estimate keeps its resources and is not
    /// listed, nor are jobs of a batch system, whose start is not this scheduler's decision.
    pub fn forecast(&self, now: Time, ends: &BTreeMap<AttemptId, Time>, most: usize) -> Vec<StartForecast> {
        if self.core().unsettled <= self.core().live.len() {
            // All that is left runs.
            return Vec::new();
        }
        let mut future = Future {
            scheduler: self.clone(),
            now,
            ends: BTreeSet::new(),
            found: Vec::new(),
            is_over: self.is_ending(),
        };
        future.begin(ends);
        // A policy may want more decisions than there are ends and starts.
        let rounds = 8 * (most + future.ends.len());
        for _ in 0..rounds {
            if future.is_over || future.found.len() >= most || !future.advance() {
                break;
            }
        }
        future.found.truncate(most);
        future.found
    }

    /// How long a running attempt takes by its estimate. `None` without an estimate, and for jobs of a batch system, whose
    /// start is not known here.
    pub fn expected_duration(&self, attempt: AttemptId) -> Option<Span> {
        let core = self.core();
        let live = core.live.get(&attempt)?;
        let node = core.node(live.instance);
        let estimate = node.task.estimate.duration.filter(|_| !node.task.batch)?;
        Some(Span(estimate.0.saturating_sub(node.attained.0)))
    }
}

/// A copy of the scheduler that runs ahead.
struct Future {
    scheduler: Scheduler,
    now: Time,
    /// Expected ends of the attempts that run.
    ends: BTreeSet<(Time, AttemptId)>,
    found: Vec<StartForecast>,
    /// Nothing is known about the time after this.
    is_over: bool,
}

impl Future {
    fn begin(&mut self, known: &BTreeMap<AttemptId, Time>) {
        // Sharing on trial teaches nothing here.
        let devices = self.scheduler.core().limits.sharing.devices.clone();
        self.apply(Event::InterferenceLearned { devices, trial: Vec::new() });
        let running: Vec<AttemptId> = self.scheduler.core().live.keys().copied().collect();
        for attempt in running {
            let end = known.get(&attempt).copied().or_else(|| self.expected_end(attempt));
            self.ends.extend(end.map(|end| (end, attempt)));
        }
        let recording = |state| matches!(state, TaskState::Recording { .. });
        let nodes = self.scheduler.core().nodes.iter().filter(|node| recording(node.state));
        let recorded: Vec<InstanceId> = nodes.map(|node| node.task.instance).collect();
        recorded.into_iter().for_each(|instance| self.apply(Event::Recorded { instance }));
    }

    /// Goes on to the next instant at which something happens. Returns false if nothing more does.
    fn advance(&mut self) -> bool {
        let end = self.ends.first().map(|(at, _)| *at);
        let Some(next) = end.into_iter().chain(self.scheduler.next_wake()).min() else { return false };
        self.now = self.now.max(next);
        while self.ends.first().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, attempt)) = self.ends.pop_first() else { break };
            self.apply(Event::Exited { attempt, outcome: Outcome::Ok, disturbed: false });
        }
        if self.scheduler.next_wake().is_some_and(|wake| wake <= self.now) {
            self.apply(Event::Tick);
        }
        true
    }

    fn apply(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.scheduler.handle(self.now, event, &mut actions);
        for action in actions {
            match action {
                Action::LookUp { instances } => instances
                    .into_iter()
                    .for_each(|instance| self.apply(Event::Answered { instance, answer: Answer::Miss })),
                Action::Record { instance, .. } => self.apply(Event::Recorded { instance }),
                Action::Start { attempt, instance, placement } => {
                    let Some(to) = self.expected_end(attempt) else { continue };
                    self.ends.insert((to, attempt));
                    self.found.push(StartForecast { instance, gpus: placement.gpus, from: self.now, to });
                }
                // Its time limit passes, and nobody knows what fails with it.
                Action::Kill { .. } => self.is_over = true,
                _ => {}
            }
        }
    }

    fn expected_end(&self, attempt: AttemptId) -> Option<Time> {
        let core = self.scheduler.core();
        let live = core.live.get(&attempt)?;
        if core.node(live.instance).task.batch { None } else { core.expected_end(live) }
    }
}
