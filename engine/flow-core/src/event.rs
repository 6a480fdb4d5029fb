//! Run events: the lines of the journal, one JSON object each. Screen, status, report and recovery are folds over them.
//!
//! A change here that older versions of flow cannot read needs a new [`JOURNAL_FORMAT`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AttemptId, CorunGpus, Digest, InstanceId, Machine, Origin, Outcome, Place, Remark, Revision, RunId, Span,
    StepResult,
    reason::{Cause, Disturbance, ProfileReason, Texts, WithheldReason},
    why::RunReasons,
};

/// The version of the journal's format.
pub const JOURNAL_FORMAT: u32 = 5;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// Milliseconds since 1970.
    pub at: u64,
    #[serde(flatten)]
    pub event: RunEvent,
}

/// An event in a run.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The first line of every journal.
    RunStarted(Box<RunStart>),
    /// The first line of the journal of a `flow accept`, which is not a run; the kept results follow.
    Accepted {
        /// The workflow file, relative to the root if inside.
        file: String,
        reason: String,
    },
    /// The first line of the journal of a `flow import`, which is not a run; this many [`Self::Foreign`] follow.
    Imported {
        /// The origin of these results.
        origin: Box<Origin>,
        /// Identifies the file.
        bundle: Digest,
        results: u32,
    },
    /// A result of another machine. It never answers a step of this one.
    Foreign { result: Box<StepResult> },
    /// Every instance of the plan, once, in order of id.
    Instance {
        /// Its number in this run.
        instance: InstanceId,
        /// `solo[version=v7,batch=16]`.
        label: String,
        step: String,
        /// Its state in the plan at the start.
        plan: PlannedAction,
        /// The keys of its step as written, for `flow diff`; only at the step's first instance.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        written: Map<String, Value>,
    },
    /// A warning about the workflow on this machine.
    Remarked { remark: Remark },
    /// A result was reused.
    Cached {
        instance: InstanceId,
        fingerprint: Digest,
        /// The outcome of that result.
        outcome: Outcome,
        /// The run that produced it.
        from: RunId,
    },
    /// An attempt was started, or handed to a batch system.
    Started {
        instance: InstanceId,
        attempt: AttemptId,
        /// Its folder, relative to the store.
        folder: String,
        why: RunReasons,
        /// UUIDs of its GPUs.
        gpus: Vec<String>,
        /// Number of GPUs requested from a batch system, which assigns them later.
        #[serde(default, skip_serializing_if = "crate::result::is_zero")]
        gpus_requested: u32,
        cpus: u32,
        /// Whether a batch system starts it when there is room.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queued: bool,
    },
    /// It waits at the barrier of its group.
    Ready { attempt: AttemptId },
    /// The barrier of a group was released.
    Released { attempts: Vec<AttemptId>, gpus: CorunGpus },
    Epoch {
        attempt: AttemptId,
        /// From 1, as the program counts.
        epoch: u32,
        /// Metrics of that epoch; NaN if not finite.
        #[serde(with = "crate::result::not_finite::map")]
        metrics: BTreeMap<String, f64>,
        /// Their units, if any: `ratio`, `s`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        units: BTreeMap<String, String>,
    },
    Ended {
        instance: InstanceId,
        attempt: AttemptId,
        outcome: Outcome,
        /// Why, if there is a reason.
        cause: Option<Cause>,
        /// Why its measurement is unreliable; empty for a sound one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disturbances: Vec<Disturbance>,
    },
    /// Another attempt follows the one that ended.
    Again { instance: InstanceId, because: Repeat },
    /// An instance is settled and its result is in the store. The journal alone rebuilds the database from this,
    /// [`Self::Observed`] and [`Self::Tried`].
    Recorded {
        instance: InstanceId,
        result: Box<StepResult>,
        /// The parts of its fingerprint, for `flow why`.
        parts: Value,
        /// Whether no attempt produced it: its metrics were read again from stored output.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        read_again: bool,
    },
    /// An attempt ended without a stored result, because it failed, was cancelled, or was disturbed while an earlier
    /// result exists. Its usage serves estimates.
    Observed {
        /// Its unstored result.
        result: Box<StepResult>,
    },
    /// The last fingerprint of an instance, if no result of its workflow has it: `flow why` compares with it.
    Tried {
        workflow: String,
        label: String,
        run: RunId,
        fingerprint: Digest,
        /// The parts of its fingerprint.
        parts: Value,
    },
    /// An instance is settled without a result in the store.
    Settled {
        instance: InstanceId,
        /// `skipped`, `cancelled`, `does_not_fit`, `failed`.
        outcome: Outcome,
        /// Why, if there is more to report.
        cause: Option<Cause>,
    },
    /// The run was asked to end.
    Interrupted {
        /// How long running steps may take to end; absent: they are killed at once.
        grace: Option<Span>,
        /// Whether it is a repeated request.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A message for the user: a foreign process on a GPU, a disturbed measurement, an ignored message.
    Notice {
        /// The instance it is about.
        instance: Option<InstanceId>,
        text: String,
    },
    /// A result can no longer be found under its fingerprint, because a user removed it.
    Forgotten {
        fingerprint: Digest,
        /// Its instance.
        label: String,
    },
    /// `flow gc` removed results that this journal records. Appended after the run has ended.
    Dropped {
        results: Vec<Digest>,
        /// Attempts of which another reading remains, and its fingerprint.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        readings: BTreeMap<Digest, Digest>,
    },
    /// A file was published, or was up to date.
    Published {
        /// The file, relative to the root if inside.
        path: String,
        changed: bool,
    },
    /// A published file was left as it is; the run's version is written elsewhere.
    Withheld {
        /// The published file, relative to the root if inside.
        path: String,
        /// The other place.
        written: String,
        why: WithheldReason,
    },
    /// The last line of a run. If it is missing, the run was killed.
    RunEnded {
        /// 0 done, 1 a step failed, 130 interrupted.
        exit: i32,
        /// Number of settled instances by kind: `cached`, `ok`, `failed`, …
        counts: BTreeMap<String, u32>,
        /// The repeated run, if there was nothing to do; then no journal is written.
        run: Option<RunId>,
        /// What could not be published and why, one sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not_published: Vec<String>,
    },
}

/// The plan for an instance before anything ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PlannedAction {
    /// Its result is in the store.
    Cached,
    /// It will run, and why.
    Run {
        /// The first reasons.
        why: RunReasons,
        /// The run whose attempt still runs, so that none is started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        running_in: Option<RunId>,
    },
    /// Decided after these, which will run.
    After { steps: Vec<String> },
    /// It runs if the preceding runs leave the verdict on its group undecided.
    MayRepeat,
    /// It was planned for a verdict that was reached without it.
    NotNeeded {
        /// The verdict.
        cause: Cause,
    },
    /// It does not run, and why.
    Skipped { cause: Cause },
}

impl Texts for RunEvent {
    /// The texts that are neither the workflow's own nor filtered before: a result's are, when its attempt ends.
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            RunEvent::Instance { plan: PlannedAction::Run { why, .. }, .. } | RunEvent::Started { why, .. } => {
                why.texts(each)
            }
            RunEvent::Instance {
                plan: PlannedAction::Skipped { cause } | PlannedAction::NotNeeded { cause }, ..
            } => cause.texts(each),
            RunEvent::Ended { cause, disturbances, .. } => {
                cause.texts(each);
                disturbances.texts(each);
            }
            RunEvent::Again { because: Repeat::Failed { cause, .. }, .. } | RunEvent::Settled { cause, .. } => {
                cause.texts(each);
            }
            RunEvent::Notice { text, .. } => each(text),
            RunEvent::RunStarted(_)
            | RunEvent::Accepted { .. }
            | RunEvent::Imported { .. }
            | RunEvent::Foreign { .. }
            | RunEvent::Forgotten { .. }
            | RunEvent::Dropped { .. }
            | RunEvent::Instance {
                plan: PlannedAction::Cached | PlannedAction::After { .. } | PlannedAction::MayRepeat,
                ..
            }
            | RunEvent::Remarked { .. }
            | RunEvent::Cached { .. }
            | RunEvent::Ready { .. }
            | RunEvent::Released { .. }
            | RunEvent::Epoch { .. }
            | RunEvent::Again { because: Repeat::Disturbed, .. }
            | RunEvent::Recorded { .. }
            | RunEvent::Observed { .. }
            | RunEvent::Tried { .. }
            | RunEvent::Interrupted { .. }
            | RunEvent::Published { .. }
            | RunEvent::Withheld { .. }
            | RunEvent::RunEnded { .. } => {}
        }
    }
}

/// Why another attempt follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Repeat {
    /// Its measurement was disturbed.
    Disturbed,
    /// It failed, or was interrupted.
    Failed {
        /// Why, if there is a reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
        /// Whether the next one resumes from its checkpoint.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumes: bool,
    },
}

/// The first line of a journal.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// The [`JOURNAL_FORMAT`] of the flow that wrote it.
    pub format: u32,
    pub run: RunId,
    pub flow: String,
    /// The workflow file, relative to the root if inside.
    pub file: String,
    pub workflow: String,
    /// The active profile, and why.
    pub profile: Option<(String, ProfileReason)>,
    pub params: BTreeMap<String, Value>,
    /// The author's note, `-m`.
    pub note: Option<String>,
    /// `--set` as given, for `flow diff`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The requested steps, which run with all their needs; empty for the whole workflow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    pub policy: String,
    /// `--force` as given; empty for every step.
    pub force: Option<Vec<String>>,
    /// `--on` as given.
    pub on: Option<Place>,
    /// The commit of the root's repository.
    pub revision: Option<Revision>,
    pub machine: Machine,
    /// Whether Slurm reported its nodes' resources and the store has them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_nodes: bool,
    /// Number of instances.
    pub instances: u32,
    /// Process id of the engine.
    pub pid: u32,
}
