//! What a run expected of the instances that waited, over time: `forecast.jsonl` in its folder.

use std::path::PathBuf;

use flow_core::InstanceId;
use serde::{Deserialize, Serialize};

use crate::{
    Result, RunDir,
    bounded::{BoundedLog, FollowLines},
};

/// Shortest time between two lines, in milliseconds.
const EVERY: u64 = 2_000;
/// Shortest time between two forecasts, in milliseconds.
const PAUSE: u64 = 1_000;
/// Between two lines passes this part of the run's time.
const PART: u64 = 100;
/// The time until the next forecast is at least this many times its cost.
const COST: u64 = 1_000;

/// A forecast. It replaces the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The next starts, the earliest first.
    pub starts: Vec<ExpectedStart>,
}

/// An instance that waits: its expected start and end in milliseconds after the forecast, and the places of its GPUs in the
/// machine's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedStart(pub InstanceId, pub u64, pub u64, pub Vec<u32>);

/// Writes the forecasts of a run.
#[derive(Debug)]
pub struct ForecastLog {
    log: BoundedLog,
    last: Vec<ExpectedStart>,
}

/// Reads the forecasts while they are written.
pub type FollowForecasts = FollowLines<Forecast>;

impl RunDir {
    fn forecast_path(&self) -> PathBuf {
        self.path().join("forecast.jsonl")
    }

    pub fn forecast_log(&self) -> ForecastLog {
        ForecastLog { log: BoundedLog::new(self.forecast_path(), EVERY, PART), last: Vec::new() }
    }

    pub fn follow_forecasts(&self) -> FollowForecasts {
        FollowLines::new(self.forecast_path())
    }
}

impl ForecastLog {
    pub fn is_due(&self, now: u64) -> bool {
        self.log.is_due(now)
    }

    /// Writes a forecast that differs from the last one. It took `cost` milliseconds to make.
    ///
    /// # Errors
    /// The disk is full.
    pub fn note(&mut self, now: u64, cost: f64, starts: Vec<ExpectedStart>) -> Result<()> {
        self.log.pause(now + PAUSE.max((cost * COST as f64) as u64));
        if starts == self.last {
            return Ok(());
        }
        let line = Forecast { at: now, starts: if self.log.is_last() { Vec::new() } else { starts } };
        self.log.append(now, &line)?;
        self.last = line.starts;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flow_core::RunId;

    use super::*;
    use crate::StoreDir;

    #[test]
    fn a_forecast_is_written_if_it_differs_and_rarely_if_it_is_costly() {
        let temp = tempfile::tempdir().unwrap();
        let run = StoreDir::create(temp.path()).unwrap().run(&RunId("r".to_owned()));
        run.create().unwrap();
        let (mut log, mut follow) = (run.forecast_log(), run.follow_forecasts());
        let starts = |from| vec![ExpectedStart(InstanceId(3), from, from + 500, vec![1])];
        log.note(10_000, 0.1, Vec::new()).unwrap();
        assert!(!log.is_due(10_999) && log.is_due(11_000), "nothing is expected yet");
        log.note(11_000, 0.1, starts(700)).unwrap();
        assert!(!log.is_due(12_999) && log.is_due(13_000));
        log.note(13_000, 0.1, starts(700)).unwrap();
        log.note(14_000, 50.0, starts(900)).unwrap();
        assert!(!log.is_due(63_999) && log.is_due(64_000));
        log.note(1_011_000, 0.1, Vec::new()).unwrap();
        assert!(!log.is_due(1_020_999) && log.is_due(1_021_000), "a hundredth of the time so far");
        let lines: Vec<(u64, Vec<ExpectedStart>)> =
            follow.poll().unwrap().into_iter().map(|line| (line.at, line.starts)).collect();
        assert_eq!(lines, [(11_000, starts(700)), (14_000, starts(900)), (1_011_000, Vec::new())]);
        assert_eq!(follow.poll().unwrap(), []);
    }
}
