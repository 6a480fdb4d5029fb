//! Admission decides whether a gang may start now, and on which resources. Policies propose; nothing starts that
//! admission refuses. It also holds back what a reservation needs. It does not know any policy's order.

use super::api::Placement;
use super::policy::Hypothesis;
use super::resources::{Allocations, Exclusivity};
use super::state::{Class, Core};
use crate::{InstanceId, Outcome, Time};

impl Core {
    /// Whether gangs of this class fit this ledger.
    pub(super) fn class_fits(&self, ledger: &Allocations, class: Class) -> bool {
        match class {
            Class::Alike(demand) => ledger.fits(&demand),
            Class::Group(gang) => self.place_on(ledger, gang).is_some(),
        }
    }

    /// The placements that the members of a gang would get in this ledger, in their order.
    pub(super) fn place_on(&self, ledger: &Allocations, gang: InstanceId) -> Option<Vec<Placement>> {
        match self.group(gang) {
            None => ledger.place(&self.node(gang).demand).map(|placement| vec![placement]),
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
            _ if node.demand.batch || node.is_joined => Exclusivity::Batch,
            (Some(_), _) => Exclusivity::Group(node.gang),
            (None, true) => Exclusivity::Nobody,
            (None, false) => Exclusivity::Anyone { gpus_alone: node.demand.gpus_alone },
        }
    }

    /// The placements of a gang's members if it starts now. `None` if there is no room, or if a reservation holds it
    /// back.
    pub(super) fn admit(&self, gang: InstanceId) -> Option<Vec<Placement>> {
        let placements = self.place_on(&self.feasibility.now, gang)?;
        self.leaves_enough(gang, &placements).then_some(placements)
    }

    /// Whether the reserved gang still has what it needs at its start if this gang starts now.
    fn leaves_enough(&self, gang: InstanceId, placements: &[Placement]) -> bool {
        let Some(reserved) = self.reservation.as_ref().filter(|r| r.gang != gang) else { return true };
        if self.is_in_time(gang) {
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
        then.take(gang, placements);
        then.fits(reserved.gang)
    }

    /// Whether a gang holds the reservation, or is expected to end before the reserved one starts.
    pub(super) fn is_in_time(&self, gang: InstanceId) -> bool {
        let Some(reserved) = &self.reservation else { return false };
        let over = |at: Time| self.expected_span(gang).is_some_and(|span| self.now + span <= at);
        reserved.gang == gang || reserved.at.is_some_and(over)
    }

    /// The outcome of a gang that can never fit: it requests more than ever existed, or a GPU was lost. `None`: it fits
    /// once others have ended.
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
