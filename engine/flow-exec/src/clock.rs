//! The one file that asks the clock.

use std::time::{Duration, Instant, SystemTime};

/// Seconds since 1970, as messages and exit records carry them.
pub fn unix_seconds() -> f64 {
    since_1970().as_secs_f64()
}

/// Milliseconds since 1970, as the journal and results carry them.
pub fn unix_millis() -> u64 {
    since_1970().as_millis() as u64
}

/// A point on the steady clock, for lengths of time.
pub fn steady() -> Instant {
    Instant::now()
}

fn since_1970() -> Duration {
    // A clock before 1970 is a machine without a clock: zero is as good as anything.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
