//! Why instances waited, over time: `waits.jsonl` in the folder of a run. Only a page that shows an earlier moment reads it.

use std::{collections::BTreeMap, path::PathBuf};

use flow_core::reason::Waits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Result, RunDir, WaitingStep,
    bounded::{BoundedLog, FollowLines},
};

/// Shortest time between two lines, in milliseconds.
const EVERY: u64 = 1_000;
/// Between two lines passes this part of the run's time.
const PART: u64 = 300;

/// What changed at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitsLine {
    /// Milliseconds since 1970.
    pub at: u64,
    /// What the instances with these labels wait for from now on, as [`Waits`]; `None` if for nothing.
    pub waits: Vec<(Option<Value>, Vec<String>)>,
}

/// Writes the changes of a run's reasons.
#[derive(Debug)]
pub struct WaitsLog {
    log: BoundedLog,
    known: BTreeMap<String, Waits>,
}

/// Reads the changes while they are written.
pub type FollowWaits = FollowLines<WaitsLine>;

impl RunDir {
    fn waits_path(&self) -> PathBuf {
        self.path().join("waits.jsonl")
    }

    pub fn waits_log(&self) -> WaitsLog {
        WaitsLog { log: BoundedLog::new(self.waits_path(), EVERY, PART), known: BTreeMap::new() }
    }

    pub fn follow_waits(&self) -> FollowWaits {
        FollowLines::new(self.waits_path())
    }
}

impl WaitsLog {
    /// Writes what differs from the last line, unless that was a moment ago. The last line says that nothing is known any
    /// more.
    ///
    /// # Errors
    /// The disk is full.
    pub fn note(&mut self, now: u64, waiting: &[WaitingStep]) -> Result<()> {
        if !self.log.is_due(now) {
            return Ok(());
        }
        let shown = if self.log.is_last() { &[] } else { waiting };
        let present: BTreeMap<String, Waits> =
            shown.iter().map(|one| (one.label.clone(), without_times(&one.reason))).collect();
        let mut waits: Vec<(Option<Value>, Vec<String>)> = Vec::new();
        let ended: Vec<String> = self.known.keys().filter(|label| !present.contains_key(*label)).cloned().collect();
        if !ended.is_empty() {
            waits.push((None, ended));
        }
        for (label, reason) in present.iter().filter(|(label, reason)| self.known.get(*label) != Some(reason)) {
            let reason = Some(serde_json::to_value(reason).map_err(|e| self.log.failed(e.into()))?);
            match waits.iter_mut().find(|(of, _)| *of == reason) {
                Some((_, labels)) => labels.push(label.clone()),
                None => waits.push((reason, vec![label.clone()])),
            }
        }
        if waits.is_empty() {
            return Ok(());
        }
        self.log.append(now, &WaitsLine { at: now, waits })?;
        self.known = present;
        Ok(())
    }
}

/// Without times, which change with every estimate.
fn without_times(reason: &Waits) -> Waits {
    let mut reason = reason.clone();
    match &mut reason {
        Waits::Resources { short } => short.iter_mut().for_each(|scarce| scarce.until = None),
        Waits::Retry { at, .. } => *at = 0,
        _ => {}
    }
    reason
}

#[cfg(test)]
mod tests {
    use flow_core::{RunId, reason::Waits};

    use super::*;
    use crate::StoreDir;

    #[test]
    fn only_changes_are_written_and_at_most_one_line_a_second() {
        let temp = tempfile::tempdir().unwrap();
        let run = StoreDir::create(temp.path()).unwrap().run(&RunId("r".to_owned()));
        run.create().unwrap();
        let (mut log, mut follow) = (run.waits_log(), run.follow_waits());
        let turn = |label: &str, of: &str| WaitingStep {
            label: label.to_owned(),
            reason: Waits::Turn { label: of.to_owned() },
        };
        assert_eq!(follow.poll().unwrap(), [], "there is no file yet");
        log.note(5_000, &[turn("a", "x"), turn("b", "x")]).unwrap();
        log.note(5_500, &[]).unwrap();
        log.note(6_000, &[turn("a", "x"), turn("b", "x")]).unwrap();
        log.note(7_000, &[turn("b", "y"), turn("c", "x")]).unwrap();
        let told = |line: &WaitsLine| {
            let of = |(of, labels): &(Option<Value>, Vec<String>)| match of {
                Some(of) => format!("{}: {}", labels.join(" "), of["label"]),
                None => format!("{}: -", labels.join(" ")),
            };
            (line.at, line.waits.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        let lines = follow.poll().unwrap();
        let told: Vec<(u64, String)> = lines.iter().map(told).collect();
        assert_eq!(told, [(5_000, r#"a b: "x""#.to_owned()), (7_000, r#"a: -, b: "y", c: "x""#.to_owned())]);
        assert_eq!(follow.poll().unwrap(), []);
    }
}
