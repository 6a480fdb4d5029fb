//! Time as a number. Nothing here reads a clock.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// An instant, in microseconds since an origin that the driver chooses: the start of the run, or of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time, in microseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Span {
    pub const fn from_millis(ms: u64) -> Self {
        Span(ms * 1_000)
    }

    /// From seconds; negative and undefined values count as zero, too large ones as the largest span.
    pub fn from_secs_f64(s: f64) -> Self {
        Span((s.max(0.0) * 1e6).round() as u64)
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Time {
    /// In seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub for Time {
    type Output = Span;
    /// Zero if `other` is later.
    fn sub(self, other: Time) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}
