//! `lyapunov`: drift plus penalty. The backlog of a unit is what it has waited, the penalty of starting it the GPU time that
//! it is expected to take; the step that keeps the bound on drift + V·penalty smallest starts the unit with the largest
//! waited − V·GPU time. V weighs seconds of waiting against GPU-seconds: 0 is the order of arrival, a large one the shortest
//! service first. The first in this order that does not fit is reserved, as in `easy`; later ones pass without delaying it.
//!
//! There are no virtual queues for users or for the mean use of the CPU: flow has no users to share between, and admission bounds
//! the CPU at every instant, hence in the mean. The penalty is that of a unit alone, without the slowdown that it would meet
//! or cause beside others: that is known only where it is placed, when the rank is long given, and whether a GPU is shared is
//! admission's to say, which asks that all who share it gain.

use super::easy::backfill;
use super::{Policy, Propose, View};
use crate::InstanceId;

/// Longest wait less V times the expected service first.
#[derive(Clone, Debug)]
pub struct Lyapunov {
    /// Seconds of waiting that a GPU-second is worth.
    pub v: f64,
    /// The first that does not fit is reserved.
    pub reservation: bool,
}

impl Default for Lyapunov {
    fn default() -> Self {
        Lyapunov { v: 1.0, reservation: true }
    }
}

impl Policy for Lyapunov {
    fn name(&self) -> &'static str {
        "lyapunov"
    }

    fn rank(&mut self, view: &View<'_>, unit: InstanceId) -> i64 {
        // Everyone's wait grows alike: the largest waited − V·service is the smallest arrival + V·service.
        let service = |&m: &InstanceId| {
            let task = view.task(m);
            task.estimate.duration.map_or(0.0, |span| span.0 as f64 * f64::from(task.request.gpus))
        };
        let penalty = self.v * view.members(unit).iter().map(service).sum::<f64>();
        (view.task(unit).submitted.0 as f64 + penalty) as i64
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        if self.reservation {
            return backfill(view);
        }
        view.first_that_fits().map_or(Propose::Stop, Propose::Start)
    }
}
