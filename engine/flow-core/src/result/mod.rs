//! What an attempt leaves behind: outcome, artifacts, metrics, usage, circumstances. Values only; the store keeps them,
//! expressions, tables and reports read them.

mod circumstances;
mod kept_output;
mod numbers;
mod usage;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Digest, Outcome, RunId,
    reason::{Cause, Caveat, Disturbance},
};

pub use circumstances::{Circumstances, CorunGpus, CorunWindow, ForeignProcess, GpuSharing, Mode, Revision};
pub use kept_output::{KeptInput, KeptOutput};
pub(crate) use numbers::not_finite;
pub use numbers::{Metric, Point, Series, TimedEpoch};
pub(crate) use usage::Phases;
pub use usage::{EarlierUsage, GpuUsage, Usage};

/// The result of an instance, as stored under its fingerprint. Its JSON stays under 64 KB: series are a separate
/// artifact.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The fingerprint under which it is stored.
    pub fingerprint: Digest,
    pub workflow: String,
    /// The step's name when it ran.
    pub step: String,
    /// `solo[version=v7,batch=16]`.
    pub label: String,
    /// The point of the matrix, in declared order; flattened, scalars only.
    pub axes: IndexMap<String, Value>,
    /// The repetition, from 0; absent if the step has no `repeat`.
    pub repetition: Option<u32>,
    pub outcome: Outcome,
    /// Why it ended so, if there is a reason.
    pub cause: Option<Cause>,
    /// Why the measurement is unreliable; empty for a sound one. Disturbed results are never reused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// Why its metrics may not cover the whole attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
    /// The run that produced it.
    pub run: RunId,
    /// When the attempt began, milliseconds since 1970.
    pub started_at: u64,
    /// When it ended, milliseconds since 1970.
    pub ended_at: u64,
    /// Its artifacts, by output name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<String, Artifact>,
    /// The outputs' places in the work folder, by output name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, String>,
    /// Its numbers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metric>,
    /// The parameters it ran with (`with:` as resolved), for tables that show a parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// Outside measurements by flow.
    #[serde(default)]
    pub usage: Usage,
    /// Conditions under which it ran.
    #[serde(default)]
    pub circumstances: Circumstances,
    /// The artifact that holds its series ([`Series`] as JSON), if it has any.
    pub series: Option<Digest>,
    /// Stored data of a plain program's attempt, so that its metrics can be read again.
    pub kept: Option<KeptOutput>,
    /// Set by `flow accept`, which keeps an old result for a changed fingerprint: the user's reason.
    pub accepted: Option<String>,
}

/// Whether a run at the axes `alone` is the solo run of a co-run member at the axes `member`: they are equal on every
/// common axis.
pub(crate) fn is_alone_of(alone: &IndexMap<String, Value>, member: &IndexMap<String, Value>) -> bool {
    alone.iter().all(|(axis, value)| member.get(axis).is_none_or(|own| own == value))
}

/// NVIDIA's driver averages a GPU's load over up to this many seconds. Over a shorter time the load is unknown.
pub const GPU_LOAD_SPAN: f64 = 1.0;

impl StepResult {
    /// Whether the counted epochs were long enough for a GPU load. Over a shorter time, the driver's value includes the
    /// time before.
    pub(crate) fn has_gpu_load(&self) -> bool {
        let epochs = self.metrics.get("epoch_time").and_then(|time| Some(time.value * f64::from(time.epochs?)));
        epochs.is_none_or(|whole| whole >= GPU_LOAD_SPAN)
    }

    /// The solo run of a co-run member, among the results of the step that it is `like`: equal on every common axis.
    /// `None` if two match, because choosing one would be arbitrary.
    pub fn run_alone<'r>(&self, solo: impl IntoIterator<Item = &'r StepResult>) -> Option<&'r StepResult> {
        let all = solo.into_iter().filter(|alone| is_alone_of(&alone.axes, &self.axes));
        let mut found = all.filter(|alone| alone.repetition.unwrap_or(0) == self.repetition.unwrap_or(0));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// All solo runs, by repetition; empty if two of one repetition match.
    pub(crate) fn runs_alone<'r>(&self, solo: impl IntoIterator<Item = &'r StepResult>) -> Vec<&'r StepResult> {
        let mut found: Vec<&StepResult> =
            solo.into_iter().filter(|alone| is_alone_of(&alone.axes, &self.axes)).collect();
        found.sort_by_key(|alone| alone.repetition);
        if found.windows(2).any(|two| two[0].repetition == two[1].repetition) { Vec::new() } else { found }
    }

    /// Whether an attempt was made, and ran to its own end.
    pub fn was_tried(&self) -> bool {
        !matches!(self.outcome, Outcome::Skipped | Outcome::Cancelled | Outcome::DoesNotFit)
    }

    /// Every object of the store that it references.
    pub fn objects(&self) -> impl Iterator<Item = Digest> {
        let kept = self.kept.iter().flat_map(KeptOutput::objects);
        self.outputs.values().map(|artifact| artifact.digest).chain(self.series).chain(kept)
    }
}

/// A file or a folder that a step produced, identified by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The digest of the content; for a folder, of its sorted list of names, modes and digests.
    pub digest: Digest,
    pub kind: ArtifactKind,
    /// Total bytes.
    pub bytes: u64,
    /// Files in it; 1 for a file.
    pub files: u64,
}

/// Kind of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    File,
    /// A folder with everything below it.
    Folder,
}

pub(crate) fn is_zero<N: Default + PartialEq>(count: &N) -> bool {
    *count == N::default()
}
