//! Data of earlier work: results by fingerprint, the last fingerprint of each instance with its parts, and the usage of
//! attempts. Values and keys; [`crate::Store`] knows where they are stored.

use flow_core::{Digest, JournalLine, RunEvent, RunId, StepResult, learn::Observation, plan::LookupKeys};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use flow_runs::Result;

/// Number of observations kept per shape: the newest.
pub const HISTORY: usize = 32;

/// Read access to earlier work, as [`crate::Store`] gives it. Callers that need many results ask for all at once.
pub trait Results {
    /// The results kept under these fingerprints. [`crate::Objects::missing`] tells whether their artifacts still
    /// exist.
    ///
    /// # Errors
    /// The database cannot be read.
    fn results_of(&self, fingerprints: &[Digest]) -> Result<Vec<Option<StepResult>>>;

    /// The same for one fingerprint.
    ///
    /// # Errors
    /// The database cannot be read.
    fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        Ok(self.results_of(&[*fingerprint])?.pop().flatten())
    }

    /// The last good result of an attempt, by the attempt's fingerprint, for any reading of its metrics.
    ///
    /// # Errors
    /// The database cannot be read.
    fn of_attempt(&self, attempt: &Digest) -> Result<Option<StepResult>>;

    /// The last fingerprint of an instance, whatever its outcome.
    ///
    /// # Errors
    /// The database cannot be read.
    fn last(&self, workflow: &str, label: &str) -> Result<Option<LastFingerprint>>;

    /// For each of these instances, the first that exists: the result under its fingerprint, the last good result of
    /// its attempt, or its last fingerprint.
    ///
    /// # Errors
    /// The database cannot be read.
    fn earlier(&self, workflow: &str, of: &[LookupKeys<'_>]) -> Result<Vec<EarlierData>>;

    /// All results, in no order.
    ///
    /// # Errors
    /// The database cannot be read.
    fn all(&self) -> Result<Vec<StepResult>>;

    /// The newest attempts of each of these shapes, oldest first, at most [`HISTORY`].
    ///
    /// # Errors
    /// The database cannot be read.
    fn histories(&self, shapes: &[String]) -> Result<Vec<Vec<Observation>>>;

    /// The same for one shape.
    ///
    /// # Errors
    /// The database cannot be read.
    fn history(&self, shape: &str) -> Result<Vec<Observation>> {
        Ok(self.histories(&[shape.to_owned()])?.pop().unwrap_or_default())
    }
}

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

/// Every shape under which a result is observed.
pub(crate) fn all_shapes(result: &StepResult) -> Vec<String> {
    let mut shapes = shapes(&result.workflow, &result.step, &result.label).to_vec();
    if result.circumstances.sharing.is_some() {
        shapes.extend(result.circumstances.gpu_models.first().map(|model| device_shape(model)));
    }
    shapes
}

fn observations(result: &StepResult) -> impl Iterator<Item = (String, Observation)> {
    let observation = Observation::of(result);
    all_shapes(result).into_iter().map(move |shape| (shape, observation.clone()))
}

/// The attempt of a result, if other readings can be made from this one.
pub(crate) fn attempt_of(result: &StepResult) -> Option<Digest> {
    result.kept.as_ref().filter(|_| result.disturbances.is_empty()).map(|kept| kept.attempt)
}

/// The key that orders attempts by age; it is unique to one attempt.
pub(crate) fn order(of: &Observation) -> (u64, &RunId, &str) {
    (of.at, &of.run, &of.label)
}

/// True if both observe the same attempt.
pub(crate) fn is_same_attempt(a: &Observation, b: &Observation) -> bool {
    order(a) == order(b)
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
            RunEvent::Observed { result } => self.observe(result),
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

    fn observe(&mut self, result: &StepResult) {
        self.observed.extend(observations(result));
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
