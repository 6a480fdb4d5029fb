//! The one file of the engine that reads the clock. Everything else is given the time.

use std::{
    env, fs,
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use flow_core::Time;
use jiff::tz::TimeZone;
use nix::time::{ClockId, clock_gettime};

/// Seconds since 1970, as in messages and exit records.
pub fn unix_seconds() -> f64 {
    since_1970().as_secs_f64()
}

/// Milliseconds since 1970, as in the journal and results.
pub fn unix_millis() -> u64 {
    since_1970().as_millis() as u64
}

/// A point on the monotonic clock, for durations.
pub fn steady() -> Instant {
    Instant::now()
}

/// The time since then.
pub fn since(then: Instant) -> Duration {
    then.elapsed()
}

/// The clock at the first call, plus the monotonic time since: durations stay right if the clock is set during the run.
fn since_1970() -> Duration {
    static FIRST: OnceLock<(Duration, Instant)> = OnceLock::new();
    // A clock before 1970 means that the machine has none: zero is as good as anything.
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (then, steadily) = FIRST.get_or_init(|| (clock(), steady()));
    *then + steadily.elapsed()
}

/// CPU time that the calling thread has used, in user and kernel mode.
pub fn thread_cpu() -> Duration {
    // For the calling thread this does not fail.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The scheduler's clock. It starts with the run.
#[derive(Clone, Copy, Debug)]
pub struct RunClock(Instant);

impl RunClock {
    pub fn start() -> Self {
        RunClock(steady())
    }

    /// Time since the start.
    pub fn now(&self) -> Time {
        Time(self.0.elapsed().as_micros() as u64)
    }
}

/// The time as file systems report it.
pub fn system() -> SystemTime {
    SystemTime::now()
}

/// The local time for display: `2026-02-08 15:30:12`.
pub fn local_time() -> String {
    jiff::Timestamp::now().to_zoned(zone()).strftime("%F %T").to_string()
}

/// The time zone of this machine, from its file: a lookup of its name would search folders of hundreds of zones.
fn zone() -> TimeZone {
    let file = || TimeZone::tzif("", &fs::read("/etc/localtime").ok()?).ok();
    let named = env::var_os("TZ").is_some();
    file().filter(|_| !named).unwrap_or_else(TimeZone::system)
}

/// The whole seconds of a run's id.
const SECOND: &str = "%Y%m%d-%H%M%S";

/// The time in UTC as a run's id: `20260208-153012-8a3f`, with the fraction of the second in the last four digits. So
/// run ids sort by time, even for quick runs and when summer time ends.
pub fn compact_time() -> String {
    let now = jiff::Timestamp::now();
    let fraction = (i64::from(now.subsec_nanosecond()) << 16) / 1_000_000_000;
    format!("{}-{fraction:04x}", now.strftime(SECOND))
}

/// The id just after one that [`compact_time`] made; none for any other text.
pub fn just_after(id: &str) -> Option<String> {
    let (second, fraction) = id.rsplit_once('-')?;
    let time = jiff::civil::DateTime::strptime(SECOND, second).ok()?;
    Some(match u16::from_str_radix(fraction, 16).ok()?.checked_add(1) {
        Some(next) => format!("{second}-{next:04x}"),
        None => format!("{}-0000", time.checked_add(jiff::Span::new().seconds(1)).ok()?.strftime(SECOND)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_id_comes_the_next() {
        let after = |id: &str| just_after(id).unwrap_or_default();
        assert_eq!(after("20260208-153012-8a3f"), "20260208-153012-8a40");
        assert_eq!(after("20261231-235959-ffff"), "20270101-000000-0000");
        for odd in ["", "notes", "20260208-153012", "20269908-153012-8a3f", "20260208-153012-8a3fx"] {
            assert_eq!(after(odd), "");
        }
        let now = compact_time();
        assert!(after(&now) > now);
    }
}
