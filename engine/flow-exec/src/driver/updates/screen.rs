//! Shows a run: the status file, the reasons of waits and the forecasts for other processes, and updates for the caller.
//! Decides nothing.

use flow_core::{JournalLine, RunEvent, Span, Time};
use flow_runs::{ExpectedStart, ForecastLog, RunDir, RunningStep, Status, StoreError, WaitsLog};
use flow_supervisor::clock;

use super::Update;

/// Interval between updates of the status file and the display.
pub(crate) const STATUS: Span = Span::from_millis(200);

pub(crate) struct Screen<'a> {
    observe: &'a mut dyn FnMut(Update),
    run_dir: RunDir,
    status: Status,
    waits: WaitsLog,
    forecasts: ForecastLog,
    at: Option<Time>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(observe: &'a mut dyn FnMut(Update), run_dir: RunDir, status: Status) -> Screen<'a> {
        let (waits, forecasts) = (run_dir.waits_log(), run_dir.forecast_log());
        Screen { observe, waits, forecasts, run_dir, status, at: None }
    }

    pub(crate) fn show(&mut self, update: Update) {
        (self.observe)(update);
    }

    /// A notice that is in no journal.
    pub(crate) fn notice(&mut self, text: String) {
        let event = RunEvent::Notice { instance: None, text };
        self.show(Update::Event(JournalLine { at: clock::unix_millis(), event }));
    }

    /// True if the status is due at this time; if so, notes the time.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let due = self.at.is_none_or(|at| now - at >= STATUS);
        if due {
            self.at = Some(now);
        }
        due
    }

    /// Writes and shows the status as set by `fill`.
    ///
    /// # Errors
    /// A file cannot be written; the run continues without it.
    pub(crate) fn status(&mut self, fill: impl FnOnce(&mut Status)) -> Result<(), StoreError> {
        fill(&mut self.status);
        self.status.updated_at = clock::unix_millis();
        let noted = self.waits.note(self.status.updated_at, &self.status.waiting);
        let written = self.run_dir.write_status(&self.status).and(noted);
        (self.observe)(Update::Status(Box::new(self.status.clone())));
        written
    }

    /// Writes the forecast that `make` computes from the running attempts, if one is due.
    ///
    /// # Errors
    /// The file cannot be written; the run continues without it.
    pub(crate) fn forecast(
        &mut self,
        make: impl FnOnce(&[RunningStep], u64) -> Vec<ExpectedStart>,
    ) -> Result<(), StoreError> {
        let now = clock::unix_millis();
        if !self.forecasts.is_due(now) {
            return Ok(());
        }
        let before = clock::thread_cpu();
        let starts = make(&self.status.running, now);
        let cost = clock::thread_cpu().saturating_sub(before);
        self.forecasts.note(now, cost.as_secs_f64() * 1e3, starts)
    }
}
