//! Run events: what the journal holds, one JSON object a line. Screen, status, report and recovery are folds over them.
//!
//! A change here that an older flow could not read needs a new [`JOURNAL_FORMAT`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AttemptId, CorunGpus, Digest, InstanceId, Machine, Origin, Outcome, Place, Remark, Revision, RunId, Span,
    StepResult,
    reason::{Cause, ProfileReason, Spoiled, Texts, Withheld},
    why::Why,
};

/// The version of the journal's format.
pub const JOURNAL_FORMAT: u32 = 3;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// Milliseconds since 1970.
    pub at: u64,
    #[serde(flatten)]
    pub event: RunEvent,
}

/// What happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The first line of every journal.
    RunStarted(Box<RunStart>),
    /// The first line of the journal of a `flow accept`, which is no run; what it kept follows.
    Accepted {
        /// The workflow file, relative to the root where it is below it.
        file: String,
        reason: String,
    },
    /// The first line of the journal of a `flow import`, which is no run; as many [`Self::Foreign`] follow.
    Imported {
        /// Whose results these are.
        origin: Box<Origin>,
        /// The digest of the file, by which it is known again.
        bundle: Digest,
        results: u32,
    },
    /// A result of another machine: no answer to a step of this one.
    Foreign { result: Box<StepResult> },
    /// Every instance of the plan, once, in order of id.
    Instance {
        /// Its number in this run.
        instance: InstanceId,
        /// `solo[version=v7,batch=16]`.
        label: String,
        step: String,
        /// What the plan says at the start.
        plan: Planned,
        /// The keys of its step as written, at the step's first instance, for `flow diff`.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        written: Map<String, Value>,
    },
    /// Something about the workflow on this machine.
    Remarked { remark: Remark },
    /// A result was reused.
    Cached {
        instance: InstanceId,
        fingerprint: Digest,
        /// How it had ended.
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
        why: Why,
        /// UUIDs of its GPUs.
        gpus: Vec<String>,
        /// How many its job asks a batch system for: which it gets is known later.
        #[serde(default, skip_serializing_if = "crate::result::is_zero")]
        gpus_asked: u32,
        cpus: u32,
        /// A batch system starts it when there is room.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queued: bool,
    },
    /// It waits at the barrier of its group.
    Ready { attempt: AttemptId },
    /// The barrier of a group was released.
    Released { attempts: Vec<AttemptId>, gpus: CorunGpus },
    Epoch {
        attempt: AttemptId,
        /// Counted from 1, as the program counted it.
        epoch: u32,
        /// Metrics of that epoch; NaN where the program gave none that is finite.
        #[serde(with = "crate::result::not_finite::map")]
        metrics: BTreeMap<String, f64>,
        /// Units of those that have one: `ratio`, `s`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        units: BTreeMap<String, String>,
    },
    Ended {
        instance: InstanceId,
        attempt: AttemptId,
        outcome: Outcome,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
        /// Why its measurement is not to be trusted; empty for a sound one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        spoiled: Vec<Spoiled>,
    },
    /// The attempt that ended is followed by another one.
    Again { instance: InstanceId, because: Repeat },
    /// An instance is settled and its result in the store. The journal alone rebuilds the database from this, [`Self::Observed`] and
    /// [`Self::Tried`].
    Recorded {
        instance: InstanceId,
        result: Box<StepResult>,
        /// The parts of its fingerprint, for `flow why`.
        parts: Value,
        /// No attempt produced it: its metrics were read again, from what an earlier run kept.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        read_again: bool,
    },
    /// An attempt ended whose result is not kept, for it failed, was cancelled, or is spoiled where an earlier one stands: what it
    /// used, for estimates.
    Observed {
        /// As it would have been kept.
        result: Box<StepResult>,
    },
    /// What an instance was last tried under, where no result of its workflow tells it: `flow why` compares with it.
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
        /// Why, where there is more to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
    /// Somebody asked the run to end.
    Interrupted {
        /// How long running steps may take to end; they are killed at once without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<Span>,
        /// Not for the first time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// Something worth a line to people: a stranger on a GPU, a spoiled measurement, an ignored message.
    Notice {
        /// The instance it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<InstanceId>,
        text: String,
    },
    /// A result is not to be found any more under its fingerprint, for somebody wished so.
    Forgotten {
        fingerprint: Digest,
        /// The instance that it was of.
        label: String,
    },
    /// `flow gc` dropped results that this journal records. It is appended after the run has ended.
    Dropped {
        results: Vec<Digest>,
        /// Attempts of which another reading stays, and its fingerprint.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        readings: BTreeMap<Digest, Digest>,
    },
    /// A file was published, or was up to date.
    Published {
        /// The file, relative to the root where it is below it.
        path: String,
        changed: bool,
    },
    /// What is published was left as it is; what the run has to say is written elsewhere.
    Withheld {
        /// The published file, relative to the root where it is below it.
        path: String,
        /// Where it is written instead.
        written: String,
        why: Withheld,
    },
    /// The last line that the run writes; where it is missing, the run was killed.
    RunEnded {
        /// 0 done, 1 a step failed, 130 interrupted.
        exit: i32,
        /// Settled instances by how: `cached`, `ok`, `failed`, …
        counts: BTreeMap<String, u32>,
        /// The run that is repeated, where there was nothing to do: no journal is written then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// What could not be published, and why, a sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not_published: Vec<String>,
    },
}

/// What the plan says of an instance before anything ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Planned {
    /// Its result is in the store.
    Cached,
    /// It is to run, and why.
    Run {
        /// The first of the reasons.
        why: Why,
        /// The run since which it goes on, and is not begun again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goes_on: Option<RunId>,
    },
    /// Decided after these, which are to run.
    After { steps: Vec<String> },
    /// It runs when what is to run before leaves the verdict on its group undecided.
    MayRepeat,
    /// It was planned for a verdict that is decided without it.
    NotNeeded {
        /// What that came to.
        cause: Cause,
    },
    /// Not run, and why.
    Skipped { cause: Cause },
}

impl Texts for RunEvent {
    /// Those that are not the workflow's own, nor have been looked at before: a result's are, when its attempt has ended.
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            RunEvent::Instance { plan: Planned::Run { why, .. }, .. } | RunEvent::Started { why, .. } => {
                why.texts(each)
            }
            RunEvent::Instance { plan: Planned::Skipped { cause } | Planned::NotNeeded { cause }, .. } => {
                cause.texts(each)
            }
            RunEvent::Ended { cause, spoiled, .. } => {
                cause.texts(each);
                spoiled.texts(each);
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
            | RunEvent::Instance { plan: Planned::Cached | Planned::After { .. } | Planned::MayRepeat, .. }
            | RunEvent::Remarked { .. }
            | RunEvent::Cached { .. }
            | RunEvent::Ready { .. }
            | RunEvent::Released { .. }
            | RunEvent::Epoch { .. }
            | RunEvent::Again { because: Repeat::Spoiled, .. }
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

/// Why an attempt is followed by another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Repeat {
    /// Its measurement is not to be trusted.
    Spoiled,
    /// It failed, or was ended in the middle.
    Failed {
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
        /// The next one goes on from what it left.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        goes_on: bool,
    },
}

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// [`JOURNAL_FORMAT`] of the flow that wrote it.
    pub format: u32,
    pub run: RunId,
    pub flow: String,
    /// The workflow file, relative to the root where it is below it.
    pub file: String,
    pub workflow: String,
    /// The profile in force, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<(String, ProfileReason)>,
    pub params: BTreeMap<String, Value>,
    /// What its author said of it, `-m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// `--set` as given, for `flow diff`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The steps that were asked for, which it is of with all that they need; none where it is of the whole workflow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    pub policy: String,
    /// `--on` as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Place>,
    /// The commit that the repository of its root stood at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    pub machine: Machine,
    /// Slurm told it what its nodes have, and the store remembers that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_nodes: bool,
    /// How many instances there are.
    pub instances: u32,
    /// Process id of the engine.
    pub pid: u32,
}
