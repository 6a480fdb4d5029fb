//! Tests whether jumps are at the multiples of a number more often than by chance.

use flow_core::stats::count_tail;

use crate::format::Format;

/// Counts the jumps at the multiples where they are expected, and keeps the chance of each to be there.
pub(super) struct AtMultiples {
    /// `falls` or `rises`, for the messages.
    pub(super) what: &'static str,
    pub(super) there: usize,
    pub(super) chances: Vec<f64>,
}

impl AtMultiples {
    pub(super) fn new(what: &'static str) -> Self {
        AtMultiples { what, there: 0, chances: Vec::new() }
    }

    /// Adds jumps at these positions of a curve. `places` says for each position whether it is at a multiple.
    pub(super) fn add(&mut self, found: impl Iterator<Item = usize>, places: &[bool]) {
        let chance = places.iter().filter(|there| **there).count() as f64 / places.len().max(1) as f64;
        for at in found {
            self.there += usize::from(places.get(at) == Some(&true));
            self.chances.push(chance);
        }
    }

    /// The number of jumps that chance would put there.
    pub(super) fn by_chance(&self) -> String {
        Format { decimals: 1, factor: 1.0, ..Format::default() }.number(self.chances.iter().sum())
    }

    /// The probability that chance puts at least as many there.
    pub(super) fn p(&self) -> f64 {
        count_tail(&self.chances, self.there)
    }
}
