//! The progress of running tasks: as fast as the others on the host permit.

use flow_core::sched::contention::{self, Load};
use flow_core::{AttemptId, Span};

use super::Simulation;
use crate::agenda::{Order, WorldEvent};
use crate::work_in_progress::WorkInProgress;

impl Simulation {
    /// It is ready, and does what its earlier attempts left of its work.
    pub(super) fn begin(&mut self, attempt: AttemptId) {
        let Some(live) = self.live.get(&attempt) else { return };
        let (_, done) = self.history[live.instance.index()];
        let left = Span(live.conduct.work.0.saturating_sub(done.0));
        self.work(attempt, left);
    }

    pub(super) fn work(&mut self, attempt: AttemptId, left: Span) {
        self.stale = true;
        self.plan_completion(attempt, WorkInProgress { since: self.now, speed: 1.0, left });
    }

    fn plan_completion(&mut self, attempt: AttemptId, working: WorkInProgress) {
        let key = self.agenda.plan(working.done_at(), Order::Completion, WorldEvent::Worked(attempt));
        if let Some(live) = self.live.get_mut(&attempt) {
            live.working = Some(working);
            self.agenda.cancel(live.ending.replace(key));
        }
    }

    /// Finds the speeds of everything that works, where somebody began or ended.
    pub(super) fn contend(&mut self) {
        let Some(host) = self.host.as_ref().filter(|_| std::mem::take(&mut self.stale)) else { return };
        let attempts: Vec<AttemptId> = self.live.iter().filter(|(_, l)| l.working.is_some()).map(|(&a, _)| a).collect();
        let load = |attempt: &AttemptId| {
            let live = &self.live[attempt];
            let gpus = &self.schedule.ran[live.ran].placement.gpus;
            let (cores, gpu_busy) = (live.conduct.cores, live.conduct.gpu_busy);
            Load { cores, gpu_busy, gpus: gpus.iter().map(|gpu| gpu.index()).collect() }
        };
        let loads: Vec<Load> = attempts.iter().map(load).collect();
        for (attempt, speed) in attempts.into_iter().zip(contention::speeds(&loads, host)) {
            let Some(working) = self.live.get(&attempt).and_then(|live| live.working) else { continue };
            // What has done its work, and goes on for others of its group, only makes others slower.
            if working.speed != speed && self.live[&attempt].ending.is_some() {
                let left = working.left_at(self.now);
                self.plan_completion(attempt, WorkInProgress { since: self.now, speed, left });
            }
        }
    }
}
