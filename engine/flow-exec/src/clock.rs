//! The one file of the engine that asks the clock. Everybody else is told the time.

use std::{
    env, fs,
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use flow_core::Time;
use jiff::tz::TimeZone;
use nix::time::{ClockId, clock_gettime};

/// Seconds since 1970, as messages and exit records carry them.
pub fn unix_seconds() -> f64 {
    since_1970().as_secs_f64()
}

/// Milliseconds since 1970, as the journal and results carry them.
pub fn unix_millis() -> u64 {
    since_1970().as_millis() as u64
}

/// A point on the steady clock, for lengths of time.
pub(crate) fn steady() -> Instant {
    Instant::now()
}

/// How long ago that was.
pub fn since(then: Instant) -> Duration {
    then.elapsed()
}

/// By the clock as it stood when first asked, and the steady one from there: lengths of time stay right when somebody sets the
/// clock meanwhile.
fn since_1970() -> Duration {
    static FIRST: OnceLock<(Duration, Instant)> = OnceLock::new();
    // A clock before 1970 is a machine without a clock: zero is as good as anything.
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (then, steadily) = FIRST.get_or_init(|| (clock(), steady()));
    *then + steadily.elapsed()
}

/// CPU time that the calling thread has used, in the program and in the kernel.
pub(crate) fn thread_cpu() -> Duration {
    // Asked of a thread that runs, it does not fail.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The scheduler's clock: its origin is the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock(Instant);

impl RunClock {
    pub(crate) fn start() -> Self {
        RunClock(steady())
    }

    /// Time since the start.
    pub(crate) fn now(&self) -> Time {
        Time(self.0.elapsed().as_micros() as u64)
    }
}

/// The time as file systems tell it.
pub(crate) fn system() -> SystemTime {
    SystemTime::now()
}

/// The local time for people: `2026-02-08 15:30:12`.
pub fn local_time() -> String {
    jiff::Timestamp::now().to_zoned(zone()).strftime("%F %T").to_string()
}

/// The zone of this machine. By its file: for its name, which nobody asks, folders of hundreds of zones would be looked through.
fn zone() -> TimeZone {
    let file = || TimeZone::tzif("", &fs::read("/etc/localtime").ok()?).ok();
    let named = env::var_os("TZ").is_some();
    file().filter(|_| !named).unwrap_or_else(TimeZone::system)
}

/// The whole seconds of a run's id.
const SECOND: &str = "%Y%m%d-%H%M%S";

/// The time in UTC as a run's id: `20260208-153012-8a3f`, the last four digits the fraction of the second, so that ids of runs
/// sort by time however quick those are, and when summer time ends.
pub(crate) fn compact_time() -> String {
    let now = jiff::Timestamp::now();
    let fraction = (i64::from(now.subsec_nanosecond()) << 16) / 1_000_000_000;
    format!("{}-{fraction:04x}", now.strftime(SECOND))
}

/// The id just after one that [`compact_time`] made; none of anything else.
pub(crate) fn just_after(id: &str) -> Option<String> {
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
