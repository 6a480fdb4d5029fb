//! Which observations of a shape are kept: the newest, whatever the order in which they come. So several runs that record at once
//! come to what their journals come to one after the other. Knows slots, not what was observed.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use flow_core::{RunId, learn::Observation};

use crate::{
    HISTORY, Result,
    bytes::{Bytes, history_key, parse},
    results::order,
};

/// Of each shape that this process has seen, what is kept, by slot.
#[derive(Default)]
pub(crate) struct Rings(Mutex<HashMap<String, Vec<Slot>>>);

/// When which attempt ended.
type Order = (u64, RunId, String);
type Slot = (Order, u8);

impl Rings {
    /// Where an observation is to be put: where one of the same attempt is, else in a free slot, else over the oldest. Nowhere
    /// where all that are kept are newer.
    pub(crate) fn place(&self, database: &impl Bytes, shape: &str, of: &Observation) -> Result<Option<u8>> {
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !rings.contains_key(shape) {
            rings.insert(shape.to_owned(), read(database, shape)?);
        }
        Ok(rings.get_mut(shape).and_then(|ring| place(ring, of)))
    }

    /// What was placed may not have been written.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn read(database: &impl Bytes, shape: &str) -> Result<Vec<Slot>> {
    let mut ring = Vec::new();
    database.each(&history_key(shape, None), &mut |key, value| {
        let slot = key.last().copied().unwrap_or(0);
        // What cannot be read is written over.
        ring.extend(parse::<Observation>(value).map(|seen| (owned(&seen), slot)));
    })?;
    Ok(ring)
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
