//! Data of earlier work: results by fingerprint, the last fingerprint of each instance with its parts, and the usage of
//! attempts. Values and keys; [`crate::Store`] knows where they are stored.

use flow_core::{Digest, JournalLine, RunEvent, RunId, StepResult, learn::Observation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of observations kept per shape: the newest.
pub const HISTORY: usize = 32;

/// Data about an instance from earlier runs.
#[derive(Clone, Debug, PartialEq)]
pub enum EarlierData {
    /// The result under its fingerprint.
    Result(Box<StepResult>),
    /// No such result, but one of its attempt.
    Attempt(Box<StepResult>),
    /// Neither, only its last fingerprint.
    Last(LastFingerprint),
    Nothing,
}

/// The last fingerprint of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastFingerprint {
    pub fingerprint: Digest,
    /// The parts of the fingerprint, for `flow why`.
    pub parts: Value,
    /// The run that wrote it.
    pub run: RunId,
}

/// The shapes under which a result is observed, the exact one first: the instance, and its step.
pub fn shapes(workflow: &str, step: &str, label: &str) -> [String; 2] {
    [format!("{workflow}/{label}"), format!("{workflow}/{step}/")]
}

/// The shape for observed interference on a GPU of this model.
pub fn device_shape(model: &str) -> String {
    format!("gpu/{model}")
}

/// The observation of a result, under each of its shapes.
fn observations(result: &StepResult) -> impl Iterator<Item = (String, Observation)> {
    let mut shapes = shapes(&result.workflow, &result.step, &result.label).to_vec();
    if result.circumstances.sharing.is_some() {
        shapes.extend(result.circumstances.gpu_models.first().map(|model| device_shape(model)));
    }
    let observation = Observation::of(result);
    shapes.into_iter().map(move |shape| (shape, observation.clone()))
}

/// The attempt of a result, if other readings can be made from this one.
pub(crate) fn attempt_of(result: &StepResult) -> Option<Digest> {
    result.kept.as_ref().filter(|_| result.disturbances.is_empty()).map(|kept| kept.attempt)
}

/// The key that orders attempts by age; it is unique to one attempt.
pub(crate) fn order(of: &Observation) -> (u64, &RunId, &str) {
    (of.at, &of.run, &of.label)
}

/// Changes that are written together and that no journal contains. Records come from the lines of a journal.
#[derive(Default)]
pub struct Batch {
    pub(crate) results: Vec<StepResult>,
    pub(crate) last: Vec<(String, String, LastFingerprint)>,
    pub(crate) observed: Vec<(String, Observation)>,
    /// Replaces earlier observations of the same attempt.
    pub(crate) observed_again: Vec<(String, Observation)>,
    /// The result under which an attempt is known; none to remove it.
    pub(crate) attempts: Vec<(Digest, Option<Digest>)>,
    pub(crate) forgotten: Vec<Digest>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds what a journal line records: a result under its fingerprint, the parts for `flow why`, and the usage. The
    /// only way into the database, for live recording, opening and rebuilding.
    pub(crate) fn apply(&mut self, line: &JournalLine) {
        match &line.event {
            RunEvent::Recorded { result, parts, read_again, .. } => {
                self.tried(&result.workflow, &result.label, result.fingerprint, parts, &result.run);
                let observed = if *read_again { &mut self.observed_again } else { &mut self.observed };
                observed.extend(observations(result));
                self.forgotten.retain(|forgotten| *forgotten != result.fingerprint);
                self.results.push((**result).clone());
            }
            RunEvent::Forgotten { fingerprint, .. } => {
                self.results.retain(|result| result.fingerprint != *fingerprint);
                self.forgotten.push(*fingerprint);
            }
            RunEvent::Dropped { results, readings } => {
                self.results.retain(|result| !results.contains(&result.fingerprint));
                self.forgotten.extend(results);
                self.attempts.extend(readings.iter().map(|(attempt, reading)| (*attempt, Some(*reading))));
            }
            RunEvent::Observed { result } => self.observed.extend(observations(result)),
            RunEvent::Tried { workflow, label, run, fingerprint, parts } => {
                self.tried(workflow, label, *fingerprint, parts, run);
            }
            _ => {}
        }
    }

    fn tried(&mut self, workflow: &str, label: &str, fingerprint: Digest, parts: &Value, run: &RunId) {
        let last = LastFingerprint { fingerprint, parts: parts.clone(), run: run.clone() };
        self.last.push((workflow.to_owned(), label.to_owned(), last));
    }

    /// Forgets the result under a fingerprint, because its artifacts are gone.
    pub fn forget(&mut self, fingerprint: &Digest) {
        self.forgotten.push(*fingerprint);
    }

    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let Batch { results, last, observed, observed_again, attempts, forgotten } = self;
        let observed = observed.is_empty() && observed_again.is_empty();
        results.is_empty() && last.is_empty() && observed && attempts.is_empty() && forgotten.is_empty()
    }
}
