//! Admission: whether a unit may start now, and where. Policies propose, this verifies: nothing starts that it refuses. It
//! also keeps back what a reservation needs. Knows no policy's order.

use super::api::Placement;
use super::policy::Hypothesis;
use super::resources::{Allocations, Exclusivity};
use super::state::{Class, Core};
use crate::{InstanceId, Outcome, Time};

impl Core {
    /// Whether units of a class fit these books.
    pub(super) fn class_fits(&self, ledger: &Allocations, class: Class) -> bool {
        match class {
            Class::Alike(demand) => ledger.fits(&demand),
            Class::Group(unit) => self.place_on(ledger, unit).is_some(),
        }
    }

    /// Where the members of a unit would go in these books, in their order.
    pub(super) fn place_on(&self, ledger: &Allocations, unit: InstanceId) -> Option<Vec<Placement>> {
        match self.group(unit) {
            None => ledger.place(&self.node(unit).demand).map(|placement| vec![placement]),
            Some(group) => {
                let demands: Vec<_> = group.members.iter().map(|&m| self.node(m).demand).collect();
                ledger.place_group(group.mode, &demands)
            }
        }
    }

    /// What an instance shares its placement with.
    pub(super) fn exclusivity(&self, id: InstanceId) -> Exclusivity {
        let node = self.node(id);
        match (node.task.corun, node.demand.machine_alone) {
            _ if node.demand.batch || node.goes_on => Exclusivity::Batch,
            (Some(_), _) => Exclusivity::Group(node.unit),
            (None, true) => Exclusivity::Nobody,
            (None, false) => Exclusivity::Anyone { gpus_alone: node.demand.gpus_alone },
        }
    }

    /// Where the members of a unit go if it starts now; `None` where there is no room, or a reservation keeps it back.
    pub(super) fn admit(&self, unit: InstanceId) -> Option<Vec<Placement>> {
        let placements = self.place_on(&self.feasibility.now, unit)?;
        self.leaves_room(unit, &placements).then_some(placements)
    }

    /// Whether a start leaves the reserved unit what it needs when its time comes.
    fn leaves_room(&self, unit: InstanceId, placements: &[Placement]) -> bool {
        let Some(reserved) = self.reservation.as_ref().filter(|r| r.unit != unit) else { return true };
        if self.is_in_time(unit) {
            return true;
        }
        let mut then = Hypothesis::new(self);
        for (&attempt, live) in &self.live {
            let gone = match reserved.at {
                Some(at) => self.expected_end(live).is_some_and(|end| end <= at),
                None => attempt < reserved.since,
            };
            if gone {
                then.end(attempt);
            }
        }
        then.take(unit, placements);
        then.fits(reserved.unit)
    }

    /// Whether a unit has the reservation, or is expected to be over when the reserved one starts.
    pub(super) fn is_in_time(&self, unit: InstanceId) -> bool {
        let Some(reserved) = &self.reservation else { return false };
        let over = |at: Time| self.expected_span(unit).is_some_and(|span| self.now + span <= at);
        reserved.unit == unit || reserved.at.is_some_and(over)
    }

    /// How a unit that fits nowhere is to end: it asks for more than there ever was, or a GPU was lost. `None`: it fits
    /// once others have gone.
    pub(super) fn never_fits(&self, class: Class) -> Option<Outcome> {
        if self.class_fits(&self.feasibility.cleared, class) {
            None
        } else if self.class_fits(&self.feasibility.whole, class) {
            Some(Outcome::Failed)
        } else {
            Some(Outcome::DoesNotFit)
        }
    }
}
