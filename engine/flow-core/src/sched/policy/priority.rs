//! `priority`: the step's priority plus its waiting time, one level per hour, with backfill behind the first gang. In
//! time, every gang overtakes any level, so none starves.

use super::easy::backfill;
use super::{Policy, Propose, View};
use crate::{InstanceId, Span};

/// Waiting time that equals one level of priority.
const LEVEL: Span = Span::from_millis(3_600_000);

/// Highest priority first, aged.
#[derive(Clone, Debug)]
pub(super) struct Priority;

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn rank(&mut self, view: &View<'_>, gang: InstanceId) -> i64 {
        // All waiting gangs gain alike, so the start of the wait decides, and a rank never has to change.
        let began = i64::try_from(view.now().0).unwrap_or(i64::MAX);
        let highest = view.members(gang).iter().map(|&m| view.task(m).priority).max().unwrap_or(0);
        began.saturating_sub(highest.saturating_mul(LEVEL.0 as i64))
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        backfill(view)
    }
}
