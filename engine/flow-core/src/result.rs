//! What an attempt leaves behind: outcome, artifacts, metrics, usage, circumstances. Values only; the store keeps them,
//! expressions, tables and reports read them.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Digest, Outcome, RunId, Span,
    reason::{Cause, ClosedBy, Spoiled},
};

/// The result of an instance, as the store keeps it under its fingerprint. Its JSON stays under 64 KB: series are an
/// artifact of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The fingerprint it is kept under.
    pub fingerprint: Digest,
    /// The workflow's name.
    pub workflow: String,
    /// The step's name when it ran.
    pub step: String,
    /// `solo[version=v7,batch=16]`.
    pub label: String,
    /// The point of the matrix, in declared order; flattened, scalars only.
    pub axes: IndexMap<String, Value>,
    /// Which repetition, counted from 0; absent where the step has no `repeat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it ended so, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Reasons for which the measurement is not to be trusted; empty for a sound one. Spoiled results are never reused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spoiled: Vec<Spoiled>,
    /// The run that produced it.
    pub run: RunId,
    /// When the attempt began, milliseconds since 1970.
    pub started_at: u64,
    /// When it ended, milliseconds since 1970.
    pub ended_at: u64,
    /// Its artifacts, by output name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<String, Artifact>,
    /// Where those were in the work folder, by output name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, String>,
    /// Its numbers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metric>,
    /// The parameters it ran with (`with:` as resolved), for tables that show a parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// What flow measured from outside.
    #[serde(default)]
    pub usage: Usage,
    /// What was true while it ran.
    #[serde(default)]
    pub circumstances: Circumstances,
    /// The artifact that holds its series ([`Series`] as JSON), if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Digest>,
    /// What of a plain program's attempt is kept, so that its metrics can be read in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// `flow accept` keeps an old result for a changed fingerprint; the reason that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// Whether one at these axes, of the step that a co-run group is like, is what a member at those is alone: it is equal on every axis
/// that both have.
pub(crate) fn is_alone_of(alone: &IndexMap<String, Value>, member: &IndexMap<String, Value>) -> bool {
    alone.iter().all(|(axis, value)| member.get(axis).is_none_or(|own| own == value))
}

/// NVIDIA's driver averages a GPU's load over up to so many seconds.
const LOAD_IS_OVER: f64 = 1.0;

impl StepResult {
    /// The epochs that count took long enough for the load of a GPU in them to be known: what the driver tells of a shorter time is in
    /// part of the time before.
    pub fn tells_gpu_load(&self) -> bool {
        let epochs = self.metrics.get("epoch_time").and_then(|time| Some(time.value * f64::from(time.epochs?)));
        epochs.is_none_or(|whole| whole >= LOAD_IS_OVER)
    }

    /// The run alone that a member of a co-run group is a copy of, among the results of the step that it is `like`: equal on every
    /// axis that both have. None where two fit: that would be a choice, and there is none to make honestly.
    pub fn run_alone<'r>(&self, solo: impl IntoIterator<Item = &'r StepResult>) -> Option<&'r StepResult> {
        let all = solo.into_iter().filter(|alone| self.is_at(alone));
        let mut found = all.filter(|alone| alone.repetition.unwrap_or(0) == self.repetition.unwrap_or(0));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// All of them, by repetition: none where two of one repetition fit.
    pub(crate) fn runs_alone<'r>(&self, solo: impl IntoIterator<Item = &'r StepResult>) -> Vec<&'r StepResult> {
        let mut found: Vec<&StepResult> = solo.into_iter().filter(|alone| self.is_at(alone)).collect();
        found.sort_by_key(|alone| alone.repetition);
        if found.windows(2).any(|two| two[0].repetition == two[1].repetition) { Vec::new() } else { found }
    }

    fn is_at(&self, alone: &StepResult) -> bool {
        is_alone_of(&alone.axes, &self.axes)
    }

    /// An attempt was made, and ran to an end of its own.
    pub fn was_tried(&self) -> bool {
        !matches!(self.outcome, Outcome::Skipped | Outcome::Cancelled | Outcome::DoesNotFit)
    }

    /// Every object of the store that it names.
    pub fn objects(&self) -> impl Iterator<Item = Digest> {
        let kept = self.kept.iter().flat_map(Kept::objects);
        self.outputs.values().map(|artifact| artifact.digest).chain(self.series).chain(kept)
    }
}

/// What of an attempt is kept to be read again, wherever `metrics:` say that its numbers are. The objects are its owner's alone, as
/// the attempt's folder is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The fingerprint of the attempt: that of the result, less `metrics:`.
    pub attempt: Digest,
    /// The object that holds its log, when which part of it was read, and what it used meanwhile
    /// ([`Record`](crate::measure::Record)); absent where it printed nothing and was over before anybody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Digest>,
    /// Files that may hold numbers and are no outputs, by their paths in the work folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Digest>,
    /// Files that were to hold numbers and were not there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<String>,
    /// Its input files as it was given them, small ones, by their paths as declared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, KeptInput>,
    /// So many bytes of its log were given back while it wrote, and are not kept.
    #[serde(default, skip_serializing_if = "no_bytes")]
    pub cut: u64,
}

/// An input file, so that two runs can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptInput {
    /// Of its content.
    pub digest: Digest,
    /// Its length.
    pub bytes: u64,
    /// It is a text, which is kept as an object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
}

impl Kept {
    /// Every object of the store that it names.
    pub fn objects(&self) -> impl Iterator<Item = Digest> {
        let texts = self.inputs.values().filter(|input| input.text).map(|input| &input.digest);
        self.record.iter().chain(self.files.values()).chain(texts).copied()
    }
}

fn no_bytes(bytes: &u64) -> bool {
    *bytes == 0
}

/// A file or a folder that a step produced, named by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The digest of the content; for a folder, of its sorted list of names, modes and digests.
    pub digest: Digest,
    /// File or folder.
    pub kind: ArtifactKind,
    /// Bytes in all.
    pub bytes: u64,
    /// Files in it; 1 for a file.
    pub files: u64,
}

/// What an artifact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// One file.
    File,
    /// A folder with everything below it.
    Folder,
}

/// A named number with a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number: the last epoch's, or the mean over the epochs that count. NaN where the program gave none that is finite.
    #[serde(deserialize_with = "not_finite::number")]
    pub value: f64,
    /// `s`, `images/s`, `bytes`, `ratio`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// How many values of the series the number rests on; absent for a plain number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Standard deviation over them, where there are at least two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// The values themselves, where a place among them means the same in other results too, as a seed of a simulation does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
}

/// JSON writes what is not finite as null; here it is read as NaN.
pub(crate) mod not_finite {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer};

    type Epochs<T> = BTreeMap<String, Vec<(u32, T)>>;

    pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(value(Option::deserialize(from)?))
    }

    pub(crate) fn map<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
        let read = BTreeMap::<String, Option<f64>>::deserialize(from)?;
        Ok(read.into_iter().map(|(name, number)| (name, value(number))).collect())
    }

    pub(crate) fn series<'de, D: Deserializer<'de>>(from: D) -> Result<Epochs<f64>, D::Error> {
        let read = Epochs::<Option<f64>>::deserialize(from)?;
        let values =
            |of: Vec<(u32, Option<f64>)>| of.into_iter().map(|(epoch, number)| (epoch, value(number))).collect();
        Ok(read.into_iter().map(|(name, of)| (name, values(of))).collect())
    }

    fn value(number: Option<f64>) -> f64 {
        number.unwrap_or(f64::NAN)
    }
}

/// The series of an attempt: what charts draw. An artifact, never a value of the database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Metrics with one value an epoch, by name: (epoch, value).
    #[serde(deserialize_with = "not_finite::series")]
    pub epochs: BTreeMap<String, Vec<(u32, f64)>>,
    /// Begin and end of each epoch, seconds since the attempt began.
    pub epoch_times: Vec<(u32, f64, f64)>,
    /// Samples of the host and the GPUs by name (`cpu`, `cpu_cores`, `rss`, `gpu0_load`, `gpu0_memory`, `gpu0_memory_load`, …):
    /// (seconds since the attempt began, value).
    pub samples: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Series {
    /// There is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.epochs.is_empty() && self.samples.is_empty() && self.epoch_times.is_empty()
    }
}

/// What flow itself measured of an attempt. Means cover the epochs that count, or the whole attempt if it has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time from start to exit, seconds.
    pub wall_s: f64,
    /// CPU time of the whole process tree, user and system, seconds.
    pub cpu_s: f64,
    /// Mean CPU use as a share of the whole host, 0 to 1.
    pub cpu_util: f64,
    /// Its peak.
    pub cpu_util_peak: f64,
    /// Mean CPU use in cores.
    pub cpu_cores: f64,
    /// Peak of the summed resident sets, bytes.
    pub rss_peak: u64,
    /// Bytes read from storage.
    pub disk_read: u64,
    /// Bytes written to storage.
    pub disk_written: u64,
    /// One entry a GPU of the placement, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUsage>,
    /// Energy of the GPUs of the placement, joules, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// How many samples of `/proc` this rests on.
    pub samples: u32,
    /// What measuring all that ran at the time took, as a share of one core.
    #[serde(default)]
    pub sampler_cpu: f64,
    /// How many processes it left running when it ended, which were ended then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swept: u32,
    /// What its wall time is made of, where it told its epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// What it used before it went on, in attempts that were ended in the middle: in the totals and peaks above already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
}

/// What attempts used that were ended in the middle, and from whose checkpoint another one went on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    /// How many.
    pub jobs: u32,
    /// Of how many of them it is not known what they used, for they were killed together with flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unmeasured: u32,
    /// From start to exit of each, seconds.
    pub wall_s: f64,
    pub cpu_s: f64,
    /// The highest, bytes.
    pub rss_peak: u64,
    pub disk_read: u64,
    pub disk_written: u64,
    /// Where the driver told it of every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// The highest on each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_peak: Vec<u64>,
}

impl Earlier {
    /// With one more, whose usage has that of those before it in it.
    pub fn and(usage: &Usage) -> Earlier {
        let earlier = usage.earlier.as_ref();
        Earlier {
            jobs: earlier.map_or(0, |earlier| earlier.jobs) + 1,
            unmeasured: earlier.map_or(0, |earlier| earlier.unmeasured),
            wall_s: usage.wall_s,
            cpu_s: usage.cpu_s,
            rss_peak: usage.rss_peak,
            disk_read: usage.disk_read,
            disk_written: usage.disk_written,
            energy_j: usage.energy_j,
            gpu_memory_peak: usage.gpus.iter().map(|gpu| gpu.memory_peak).collect(),
        }
    }
}

impl Usage {
    /// Totals of a job that goes on from these, before its own samples are looked at.
    pub fn after(self, earlier: Option<Earlier>) -> Usage {
        let Some(before) = &earlier else { return self };
        Usage {
            wall_s: self.wall_s + before.wall_s,
            cpu_s: self.cpu_s + before.cpu_s,
            rss_peak: self.rss_peak.max(before.rss_peak),
            earlier,
            ..self
        }
    }
}

/// What the wall time of an attempt with epochs is made of: `before_s + epochs × period_s + after_s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Start-up, seconds, with what the first epoch took longer than the others.
    pub before_s: f64,
    /// Epochs that it told.
    pub epochs: u32,
    /// From the end of one epoch to the end of the next, seconds; with what comes between them.
    pub period_s: f64,
    /// From the end of the last epoch, seconds.
    pub after_s: f64,
}

pub(crate) fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What flow measured on one GPU of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUsage {
    /// NVML's UUID.
    pub uuid: String,
    /// Peak memory of the attempt's processes, bytes.
    pub memory_peak: u64,
    /// Mean memory, bytes.
    pub memory_mean: u64,
    /// Per-process figures were not to be had: the card against its state before the start.
    #[serde(default)]
    pub unverified: bool,
    /// Mean GPU load, 0 to 1: the share of time in which a kernel ran.
    pub load_mean: f64,
    /// The same from start to end, whatever counts: also what comes before the first epoch and after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_whole: Option<f64>,
    /// Peak GPU load.
    pub load_peak: f64,
    /// Share of time with GPU load above 90 %.
    pub load_above_90: f64,
    /// Mean load of the memory controller, 0 to 1.
    pub memory_load_mean: f64,
    /// Its peak.
    pub memory_load_peak: f64,
    /// Share of time with memory-controller load above 90 %.
    pub memory_load_above_90: f64,
    /// Mean power, watts, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mean: Option<f64>,
    /// PCIe generation and width in use under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<(u32, u32)>,
}

/// What a repository stood at: a commit, and whether a file that it tracks was another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision {
    /// The hash of the commit.
    pub commit: String,
    /// There were changes that were not committed.
    pub dirty: bool,
}

impl Revision {
    /// The first seven characters of the hash.
    pub fn short(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }
}

/// What was true while an attempt ran. Numbers taken under unlike circumstances are never averaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// How it was declared to run.
    pub mode: Mode,
    /// GPU models of the placement, in order; empty without GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// UUIDs of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Total memory of each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_total: Vec<u64>,
    /// GPU memory limit that the step declared, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<u64>,
    /// Host memory limit that the step declared, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Wall-clock limit that the step declared. A recorded time-out is reused only under a limit that is no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// CPUs of the placement.
    pub cpus: u32,
    /// CPUs of the host.
    pub host_cpus: u32,
    /// CPU model of the host.
    pub cpu_model: String,
    /// Host memory, bytes.
    pub host_memory: u64,
    /// The commit that the repository of the run's root stood at. A fact for people: what a step reads is in its fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// Parameters of the workflow that it depends on, scalars that are no paths: what it took says little of what it takes with others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Versions and devices that the program told: `torch`, `device`, `precision`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Labels of flow's own instances that ran at the same time: members of the co-run group, or others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corunners: Vec<String>,
    /// Of these, those that were on a GPU of its placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
    /// Attempts of other runs of this machine that ran meanwhile: so many at once, at most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elsewhere: u32,
    /// Of what is measured: whether other runs of this machine ran anything meanwhile, nobody could see.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwatched: bool,
    /// For a member of a co-run group: placement and window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corun: Option<CorunWindow>,
    /// Compute processes of others on the GPUs of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Stranger>,
    /// Mean share of the multiprocessors that others used on a GPU of the placement, in time slices of their own: co-runners and
    /// strangers. Absent where nobody else was there, or the driver does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_shared: Option<f64>,
    /// Mean CPU use of processes that are not flow's, as a share of the host.
    pub foreign_cpu: f64,
    /// Share of samples in which the host's CPUs were at least 95 % busy.
    pub cpu_saturated: f64,
    /// The GPUs were declared, not real.
    #[serde(default)]
    pub fake_gpus: bool,
    /// The kernel killed it for want of host memory, in which everything that runs on the host has a part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom_killed: bool,
    /// What this says of the interference on its GPU, where all who shared it ran alone as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<GpuSharing>,
}

impl Circumstances {
    /// The CPUs of the host ran out, in more than a tenth of the samples.
    pub(crate) fn short_of_cpu(&self) -> bool {
        self.cpu_saturated > 0.1
    }
}

/// What was seen of a GPU that was shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuSharing {
    /// Sum of the shares of time in which each keeps it busy alone.
    pub busy: f64,
    /// Slowdown: of a co-run group that of its members in the mean, else this attempt's own.
    pub slowdown: f64,
    /// Outside of co-run groups: with whom it had its GPUs in the epochs that were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// How many epochs these were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
}

/// How a step was declared to run. Part of a measured step's fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Beside whatever else is running.
    #[default]
    Plain,
    /// `exclusive`: alone on the machine, or on its GPUs.
    Alone,
    /// Member of a co-run group.
    Corun,
}

/// The window of a co-run group: what counts lies between release and the first member's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorunWindow {
    /// The group's name within its step, `v7`.
    pub group: String,
    /// `own`: disjoint GPUs; `shared`: all members on one set.
    pub gpus: CorunGpus,
    /// Members of the group, this one included.
    pub members: u32,
    /// Seconds from this attempt's start to the release of the barrier.
    pub released_at: f64,
    /// Seconds from this attempt's start to the end of the window.
    pub closed_at: f64,
    /// Epochs of this member that lie wholly inside. Zero: not enough overlap.
    pub epochs: u32,
    /// How the window ended, where it was not the first member's ordinary end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<ClosedBy>,
    /// The interference coefficient of the GPU model that the members shared, as far as it had been measured before this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<f64>,
}

/// Where the members of a co-run group run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CorunGpus {
    /// Each on GPUs of its own.
    #[default]
    Own,
    /// All on the same GPUs.
    Shared,
}

/// A compute process on one of our GPUs that is not ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stranger {
    /// Its process id, as NVML tells it.
    pub pid: u32,
    /// Its name, where it can be read.
    pub name: String,
    /// UUID of the GPU.
    pub gpu: String,
    /// Peak memory there, bytes.
    pub memory: u64,
}
