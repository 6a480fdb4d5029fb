//! Selects the observations of a shape to keep: the newest, in whatever order they arrive. So overlapping runs leave
//! the same result as their journals read one after the other. Knows slots, not the observations.

use std::{collections::HashMap, sync::Mutex};

use flow_core::{RunId, learn::Observation};

use crate::{HISTORY, mutex::lock, results::order};
use flow_runs::Result;

/// The kept observations of each shape that this process has seen, by slot.
#[derive(Default)]
pub(crate) struct ObservationRings(Mutex<HashMap<String, Vec<Slot>>>);

/// The end of an attempt, its run and its label.
type Order = (u64, RunId, String);
type Slot = (Order, u8);

impl ObservationRings {
    /// The slot for an observation: that of the same attempt, else a free one, else that of the oldest. None if all
    /// kept ones are newer. `kept` reads those of the shape with their slots.
    pub(crate) fn place(
        &self,
        shape: &str,
        of: &Observation,
        kept: impl FnOnce() -> Result<Vec<(Observation, u8)>>,
    ) -> Result<Option<u8>> {
        let mut rings = lock(&self.0);
        if !rings.contains_key(shape) {
            rings.insert(shape.to_owned(), kept()?.iter().map(|(seen, slot)| (owned(seen), *slot)).collect());
        }
        Ok(rings.get_mut(shape).and_then(|ring| place(ring, of)))
    }

    /// Forgets placements, because they may not have been written.
    pub(crate) fn forget(&self) {
        lock(&self.0).clear();
    }
}

fn owned(of: &Observation) -> Order {
    let (at, run, label) = order(of);
    (at, run.clone(), label.to_owned())
}

fn place(ring: &mut Vec<Slot>, of: &Observation) -> Option<u8> {
    let order = owned(of);
    if let Some((_, slot)) = ring.iter().find(|(seen, _)| *seen == order) {
        return Some(*slot);
    }
    let free = (0..HISTORY as u8).find(|slot| ring.iter().all(|(_, taken)| taken != slot));
    if let Some(slot) = free {
        ring.push((order, slot));
        return Some(slot);
    }
    let oldest = ring.iter_mut().min()?;
    if oldest.0 > order {
        return None;
    }
    oldest.0 = order;
    Some(oldest.1)
}
