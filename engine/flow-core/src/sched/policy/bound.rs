//! The bounds against starvation that policies share. Both are off if [`super::super::Limits::patience`] is: in a
//! simulation, unless requested. They place and order nothing; they only report whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Propose, View};
use crate::{InstanceId, Time};

/// For policies that skip: the first gang in order that others pass gets a reservation once its patience has ended. The
/// clock of a gang starts once, when it first becomes that gang. So each gang gets its turn, however many arrive before
/// it.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    passed_since: BTreeMap<InstanceId, Time>,
}

impl Patience {
    /// The gang to reserve now, unless it already has the reservation.
    pub(super) fn overdue(&mut self, view: &View<'_>) -> Option<InstanceId> {
        let patience = view.limits().patience?;
        self.passed_since.retain(|&gang, _| view.is_waiting(gang));
        let head = view.first_passed_over()?;
        let since = *self.passed_since.entry(head).or_insert(view.now());
        (view.now() - since >= patience && view.reserved() != Some(head)).then_some(head)
    }

    /// Proposes the first gang that fits, unless a gang must be reserved.
    pub(super) fn propose(&mut self, view: &View<'_>) -> Propose {
        if let Some(gang) = self.overdue(view) {
            return Propose::Reserve { gang, at: None };
        }
        view.first_that_fits().map_or(Propose::Stop, Propose::Start)
    }
}

/// For policies whose order can favour later arrivals forever: a gang that has waited longer than patience, and longer
/// than four times its own estimate, goes before all others.
#[derive(Clone, Debug, Default)]
pub(super) struct Age {
    due: BTreeSet<(Time, InstanceId)>,
}

impl Age {
    /// A gang begins to wait.
    pub(super) fn began(&mut self, view: &View<'_>, gang: InstanceId) {
        let Some(patience) = view.limits().patience else { return };
        let own = view.expected_span(gang).map_or(patience, |span| crate::Span(span.0.saturating_mul(4)));
        self.due.insert((view.now() + patience.max(own), gang));
    }

    /// The gang that has been due for longest, if any is due.
    pub(super) fn overdue(&mut self, view: &View<'_>) -> Option<InstanceId> {
        while let Some(&(due, gang)) = self.due.first().filter(|(due, _)| *due <= view.now()) {
            if view.is_waiting(gang) {
                return Some(gang);
            }
            self.due.remove(&(due, gang));
        }
        None
    }
}
