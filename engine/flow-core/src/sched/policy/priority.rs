//! `priority`: the priority of the step plus what it has waited, an hour for each level, with backfill behind the first.
//! Everyone overtakes any level in time, so nobody starves.

use super::easy::backfill;
use super::{Policy, Propose, View};
use crate::{InstanceId, Span};

/// Waiting time that is worth one level of priority.
const LEVEL: Span = Span::from_millis(3_600_000);

/// Highest priority first, aged.
#[derive(Clone, Debug)]
pub(super) struct Priority;

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn rank(&mut self, view: &View<'_>, unit: InstanceId) -> i64 {
        // All who wait gain alike, so that who began when decides, and an order once found stays.
        let began = i64::try_from(view.now().0).unwrap_or(i64::MAX);
        let highest = view.members(unit).iter().map(|&m| view.task(m).priority).max().unwrap_or(0);
        began.saturating_sub(highest.saturating_mul(LEVEL.0 as i64))
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        backfill(view)
    }
}
