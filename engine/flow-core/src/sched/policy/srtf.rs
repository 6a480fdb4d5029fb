//! `srtf` and `srsf`: shortest remaining time, or remaining GPU time, first. Every decision orders all unfinished work
//! again, even running work, which only a simulation can do.

use super::{Policy, Propose, Reorder, View};
use crate::InstanceId;

/// Least remaining work first.
#[derive(Clone, Debug, Default)]
pub(super) struct Srtf {
    /// Count time once per GPU held.
    pub service: bool,
    reorder: Reorder,
}

impl Srtf {
    /// By remaining time times GPUs.
    pub(super) fn service() -> Self {
        Srtf { service: true, ..Srtf::default() }
    }
}

/// The remaining work of a gang; with `service`, once per GPU.
fn left(view: &View<'_>, gang: InstanceId, service: bool) -> i64 {
    let task = view.task(gang);
    let Some(total) = task.estimate.duration else { return i64::MAX };
    let left = total.0.saturating_sub(view.attained(gang).0);
    let times = if service { u64::from(task.request.gpus) } else { 1 };
    i64::try_from(left.saturating_mul(times)).unwrap_or(i64::MAX)
}

impl Policy for Srtf {
    fn name(&self) -> &'static str {
        if self.service { "srsf" } else { "srtf" }
    }

    fn preemptive(&self) -> bool {
        true
    }

    fn rank(&mut self, view: &View<'_>, gang: InstanceId) -> i64 {
        left(view, gang, self.service)
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        if view.proposals() == 0 {
            self.reorder.decide(view, |ran| left(view, ran.gang, self.service));
        }
        self.reorder.next(view)
    }
}
