//! `las`: least attained service, in three queues. A task drops one queue when its attained GPU time reaches the
//! queue's limit. Within a queue, running tasks come first, then the order of arrival there. It needs no estimates. It
//! preempts running tasks, which only a simulation can do.

use std::collections::BTreeMap;

use super::{Policy, Propose, Reorder, View};
use crate::{InstanceId, Span, Time};

/// GPU-seconds at which a task leaves the first and the second queue.
const LIMITS: [u64; 2] = [3_250, 7_200];

/// Least attained service first.
#[derive(Clone, Debug, Default)]
pub(super) struct Las {
    places: BTreeMap<InstanceId, Place>,
    /// The smallest and the largest turn given so far.
    front: i64,
    back: i64,
    reorder: Reorder,
}

/// Position of a task. The order of the fields is the order of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    queue: usize,
    waits: bool,
    turn: i64,
}

impl Place {
    /// The same order as a number: 2 bits for the queue, 1 for waiting, the rest for the turn.
    fn rank(self) -> i64 {
        ((self.queue as i64) << 61) + (i64::from(self.waits) << 60) + (1 << 59) + self.turn
    }
}

impl Las {
    fn behind(&mut self) -> i64 {
        self.back += 1;
        self.back
    }

    /// The attained time at which a task leaves its queue, in whole seconds as in the original algorithm.
    fn limit(&self, view: &View<'_>, gang: InstanceId) -> Option<Span> {
        let limit = *LIMITS.get(self.places.get(&gang)?.queue)?;
        let gpus = u64::from(view.task(gang).request.gpus.max(1));
        Some(Span::from_millis(limit.div_ceil(gpus) * 1_000))
    }

    fn decide(&mut self, view: &View<'_>) {
        let mut running: Vec<InstanceId> = view.running().filter(|r| r.preemptible).map(|r| r.gang).collect();
        running.sort();
        for gang in running {
            if self.limit(view, gang).is_some_and(|limit| view.attained(gang) >= limit) {
                let turn = self.behind();
                if let Some(place) = self.places.get_mut(&gang) {
                    *place = Place { queue: place.queue + 1, waits: true, turn };
                }
            }
        }
        let outcome =
            self.reorder.decide(view, |ran| self.places.get(&ran.gang).map_or(i64::MAX, |place| place.rank()));
        // Running tasks stay ahead of those that begin, which queue behind them in their order.
        for gang in outcome.run {
            let turn = self.behind();
            if let Some(place) = self.places.get_mut(&gang).filter(|place| place.waits) {
                (place.waits, place.turn) = (false, turn);
            }
        }
        // A preempted task waits ahead of those that already waited.
        for gang in outcome.preempted.into_iter().rev() {
            self.front -= 1;
            if let Some(place) = self.places.get_mut(&gang).filter(|place| !place.waits) {
                (place.waits, place.turn) = (true, self.front);
            }
        }
    }
}

impl Policy for Las {
    fn name(&self) -> &'static str {
        "las"
    }

    fn preemptive(&self) -> bool {
        true
    }

    fn arrived(&mut self, view: &View<'_>, first: InstanceId) {
        for gang in (first.0..view.arrived()).map(InstanceId) {
            let turn = self.behind();
            self.places.insert(gang, Place { queue: 0, waits: true, turn });
        }
    }

    fn rank(&mut self, _: &View<'_>, gang: InstanceId) -> i64 {
        self.places.get(&gang).map_or(i64::MAX, |place| place.rank())
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        if view.proposals() == 0 {
            self.decide(view);
        }
        self.reorder.next(view)
    }

    fn wake(&self, view: &View<'_>) -> Option<Time> {
        let left = |gang| Some(Span(self.limit(view, gang)?.0.saturating_sub(view.attained(gang).0)));
        view.running().filter(|ran| ran.preemptible).filter_map(|ran| Some(view.now() + left(ran.gang)?)).min()
    }
}
