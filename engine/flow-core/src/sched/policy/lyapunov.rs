//! `lyapunov`: drift plus penalty. The backlog of a gang is its waiting time; the penalty of a start is its expected GPU
//! time. The choice that minimises the bound on drift + V·penalty is the gang with the largest wait − V·GPU time. V
//! weighs seconds of waiting against GPU-seconds: 0 is the order of arrival, a large one the shortest service first. The
//! first gang that does not fit is reserved, as in `easy`; later ones pass without delaying it.
//!
//! There are no virtual queues. flow does not share between users, and admission bounds CPU use at every instant, so
//! also its mean. The penalty ignores the slowdown of a gang next to others: it is known only at placement, long after
//! ranking. Admission decides about sharing a GPU, and requires a gain in total throughput.

use super::easy::backfill;
use super::{Policy, Propose, View};
use crate::InstanceId;

/// Longest wait minus V times the expected service first.
#[derive(Clone, Debug)]
pub struct Lyapunov {
    /// Seconds of waiting that a GPU-second is worth.
    pub v: f64,
}

impl Default for Lyapunov {
    fn default() -> Self {
        Lyapunov { v: 1.0 }
    }
}

impl Policy for Lyapunov {
    fn name(&self) -> &'static str {
        "lyapunov"
    }

    fn rank(&mut self, view: &View<'_>, gang: InstanceId) -> i64 {
        // All waits grow alike, so the largest wait − V·service is the smallest arrival + V·service.
        let service = |&m: &InstanceId| {
            let task = view.task(m);
            task.estimate.duration.map_or(0.0, |span| span.0 as f64 * f64::from(task.request.gpus))
        };
        let penalty = self.v * view.members(gang).iter().map(service).sum::<f64>();
        (view.task(gang).submitted.0 as f64 + penalty) as i64
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        backfill(view)
    }
}
