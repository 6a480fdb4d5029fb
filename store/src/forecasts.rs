//! What a run expected of the instances that waited, over time: `forecast.jsonl` in its folder. Only a page reads it, so it is
//! not synced, and it ends where it gets long.

use std::path::PathBuf;

use flow_core::InstanceId;
use serde::{Deserialize, Serialize};

use crate::{
    Result, RunDir,
    journal::Tail,
    waits::{LONGEST, append},
};

/// Shortest time between two lines, in milliseconds.
const EVERY: u64 = 2_000;
/// Shortest time between two forecasts, in milliseconds.
const PAUSE: u64 = 1_000;
/// Between two lines passes this part of the run's time, so that a long run has few lines.
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
    path: PathBuf,
    last: Vec<ExpectedStart>,
    /// When the first line was written, and when the next forecast is due, milliseconds since 1970.
    began: u64,
    next: u64,
    length: u64,
}

/// Reads the forecasts while they are written.
#[derive(Debug)]
pub struct FollowForecasts(Tail);

impl RunDir {
    fn forecast_path(&self) -> PathBuf {
        self.path().join("forecast.jsonl")
    }

    pub fn forecast_log(&self) -> ForecastLog {
        ForecastLog { path: self.forecast_path(), last: Vec::new(), began: 0, next: 0, length: 0 }
    }

    pub fn follow_forecasts(&self) -> FollowForecasts {
        FollowForecasts(Tail::new(self.forecast_path()))
    }
}

impl ForecastLog {
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next && self.length < LONGEST
    }

    /// Writes a forecast that differs from the last one. It took `cost` milliseconds to make.
    ///
    /// # Errors
    /// The disk is full.
    pub fn note(&mut self, now: u64, cost: f64, starts: Vec<ExpectedStart>) -> Result<()> {
        self.next = now + PAUSE.max((cost * COST as f64) as u64);
        if starts == self.last {
            return Ok(());
        }
        // The last line says that nothing is known any more.
        let is_last = self.length >= LONGEST / 4 * 3;
        let line = Forecast { at: now, starts: if is_last { Vec::new() } else { starts } };
        let written = append(&self.path, &line)?;
        self.began = if self.began == 0 { now } else { self.began };
        self.next = self.next.max(now + EVERY.max((now - self.began) / PART));
        self.length = if is_last { LONGEST } else { self.length + written };
        self.last = line.starts;
        Ok(())
    }
}

impl FollowForecasts {
    /// New lines since the last call; what is no such line is left out.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn poll(&mut self) -> Result<Vec<Forecast>> {
        self.0.values()
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
