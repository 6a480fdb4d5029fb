//! Reasons as values: why an instance ended as it did or was not run, why a measurement is not to be trusted, whose memory ran
//! out, what something waits for. No words: catalogues make them, in every language. A text in a reason is somebody else's: a program's, the system's or the
//! author's; a name, a path. An error that led to it is a value as well ([`Fault`]).

mod builtin_fault;
mod fault;
mod publish;
mod store_action;
mod texts;
mod waits;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Outcome, Span, verdict::Call};

pub use builtin_fault::{AxesHint, BuiltinFault, Expected, Hint, TraceFault, Unit, UnitProblem};
pub use fault::{
    BodyFault, ExprFault, Fault, FileFault, FileKind, FoundValue, GpuFault, NameList, ParameterFault, Several,
    StartFault, StoreFault, VariableFault,
};
pub use publish::Withheld;
pub use store_action::StoreAction;
pub use texts::Texts;
use texts::texts;
pub use waits::{Labels, Occupant, Resource, Rivalry, Scarce, Waits};

/// Why an instance ended as it did, or was not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Its `when` is false.
    ConditionFalse {
        /// The expression.
        expression: String,
    },
    /// An axis of its matrix has no value.
    EmptyAxis {
        /// The axis.
        axis: String,
    },
    /// Its step, or one that it reads, has no instances.
    NoInstances {
        /// The step that it reads; absent where it is its own.
        step: Option<String>,
        /// Why that has none.
        because: Option<Box<Cause>>,
    },
    /// All instances of its step are skipped.
    AllSkipped,
    /// This machine can never run it.
    Lacks {
        /// What is lacking.
        lack: Lack,
    },
    /// It asks for more than there is.
    AsksTooMuch,
    /// An expression of its body has no value.
    Unresolved {
        /// What evaluating it said.
        error: Fault,
    },
    /// A declared input cannot be read.
    NoInput {
        /// What reading it said.
        error: Fault,
    },
    /// Whether its kept result is whole cannot be told; it stays.
    ResultUnseen {
        /// What looking at it said.
        error: Fault,
    },
    /// Nobody provides its step.
    NotProvided {
        /// `torch/train`, `flow/table`.
        uses: String,
    },
    /// Another member of its co-run group cannot run.
    MemberCannotRun {
        /// The member.
        label: String,
        /// Why.
        because: Box<Cause>,
    },
    /// Something that it needs cannot run.
    NeedCannotRun {
        /// What it needs.
        label: String,
    },
    /// Something that it needs did not succeed.
    NeedFailed {
        /// What it needs.
        label: String,
    },
    /// Something else failed, and the run does not go on after a failure.
    FailedElsewhere {
        /// What failed.
        label: String,
    },
    /// Another member of its co-run group did not succeed.
    MemberFailed {
        /// The member.
        label: String,
    },
    /// Somebody cancelled the run.
    RunCancelled,
    /// It was planned for a verdict that is decided without it.
    Decided {
        /// The step and its group.
        group: String,
        /// After how many runs of it.
        looks: u32,
        /// What it comes to; absent where there is nothing that a repetition could decide.
        verdict: Option<Call>,
    },
    /// Nobody asked for it.
    NotRun,
    /// A GPU was lost that it needed to begin.
    GpuGone,
    /// Its process could not be started.
    NotStarted {
        /// What the system said, where it said something.
        error: Option<Fault>,
    },
    /// Its folder could not be made ready.
    NotFilled {
        /// What of it.
        what: Filling,
    },
    /// One of flow's own steps could not do what its parameters ask for.
    Builtin {
        /// What it said.
        error: Fault,
    },
    /// A report has no section with anything to show.
    NothingToShow,
    /// A step that should have made a schedule made none.
    NoSchedule,
    /// Its program said so, in these words.
    Said {
        /// The words.
        text: String,
    },
    /// Its program said that it failed, without a word about why.
    SaidFailed,
    /// Its program said `ok`, and then ended in another way.
    SaidOk {
        /// How it ended.
        end: ProcessEnd,
    },
    /// A plugin ended without saying an outcome.
    SaidNothing {
        /// How it ended.
        end: ProcessEnd,
    },
    /// Its program ended badly.
    Exited {
        /// How it ended.
        end: ProcessEnd,
        /// The last line that it printed.
        last_line: Option<String>,
    },
    /// Memory ran out, as its program says.
    OutOfMemory {
        /// Whose.
        memory: Memory,
        /// What the program said of it.
        said: Option<String>,
    },
    /// The kernel killed it for want of host memory.
    KilledForMemory,
    /// It ran longer than its limit.
    TimedOut {
        /// The limit.
        limit: Span,
    },
    /// A file that is missing in its work folder lies beside the workflow, and is not among its inputs.
    NotListed {
        /// The file.
        path: String,
        /// How it ended.
        because: Option<Box<Cause>>,
    },
    /// Its numbers are not where they should be.
    NoMetrics {
        /// What is wrong.
        problem: NoMetrics,
    },
    /// It ended well, without an output.
    NoOutput {
        /// The output.
        output: String,
        /// Where it was expected.
        path: String,
    },
    /// What it produced cannot be kept.
    NotKept {
        /// What the store said.
        error: Fault,
    },
    /// A GPU of its placement was lost while it ran.
    GpuLost {
        /// The GPU, as people count.
        gpu: u32,
        /// Its model.
        model: String,
        /// How it ended.
        because: Option<Box<Cause>>,
    },
    /// Its plugin lacks what its set-up made ready: the next run sets it up again.
    SetUpAgain {
        /// The plugin.
        plugin: String,
        /// How it ended.
        because: Option<Box<Cause>>,
    },
    /// It was ended, for it did not keep to the protocol.
    Refused {
        /// How it did not.
        refusal: Refusal,
    },
    /// Slurm ended its job, or would never have begun it.
    Batch {
        /// Its job, as Slurm calls it, where it had one.
        job: Option<String>,
        /// What became of it.
        end: BatchEnd,
    },
    /// All that is known is how it ended.
    Ended {
        /// How.
        outcome: Outcome,
    },
}

crate::compiled_once::compiled_once!(Cause, Spoiled, Lack, Filling, NoMetrics, Refusal, ProfileReason);

/// What became of a job of Slurm of which the attempt itself has nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BatchEnd {
    /// Its node was lost.
    NodeLost {
        /// Which, where that is known.
        node: Option<String>,
    },
    /// It ran longer than Slurm lets it.
    TimeLimit {
        /// Why it does not go on in another job. Absent where it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<Stopped>,
    },
    /// It took more memory than it asked for.
    Memory,
    /// Somebody cancelled it, and that was not flow.
    Cancelled,
    /// Slurm gave its place to another.
    Preempted,
    /// Slurm could not start it on its node.
    NotLaunched,
    /// It ended without a word of flow's on its node.
    Failed {
        /// Its exit code, as Slurm tells.
        code: Option<i32>,
        /// flow had begun there.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        begun: bool,
        /// The last line of the job's own log; empty where nothing stands there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    },
    /// Slurm holds it back until somebody lets it go.
    Held {
        /// As Slurm calls the reason.
        reason: String,
    },
    /// It waits for what will never be.
    Never {
        /// As Slurm calls the reason.
        reason: String,
    },
    /// Slurm refused it.
    Refused {
        /// What it said.
        error: String,
    },
    /// Slurm does not know it any more, and it left no result.
    Vanished,
    /// It is a run's of somebody else that does not live any more, and only they can read what it came to.
    Theirs {
        /// The run's id.
        run: String,
        /// Whose it is.
        user: String,
        /// What became of the job, as Slurm calls it; empty where it does not say.
        state: String,
    },
}

/// Why a step that Slurm's time limit ended does not go on in another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stopped {
    /// It left nothing to go on from.
    NoCheckpoint,
    /// What it left is what it began from: another job would get no further.
    NoProgress,
    /// `resume: false`.
    Unwanted,
    /// Members of a co-run group are measured together, from the beginning to the end.
    Group,
}

/// Why a measurement is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Spoiled {
    /// A process of somebody else computed on a GPU of its placement.
    Stranger {
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// The GPU, as people count.
        gpu: String,
    },
    /// A GPU of its placement did not answer for a while.
    GpuSilent {
        /// The GPU, as people count.
        gpu: String,
        /// For how long, seconds.
        seconds: u32,
    },
    /// Steps of other runs of this machine ran meanwhile, and it wanted that for itself.
    OtherRuns {
        /// How many at once, at most.
        attempts: u32,
    },
    /// An input changed while it ran.
    InputChanged {
        /// The file.
        path: String,
    },
    /// An artifact that it read where it lies is not as it was.
    ArtifactChanged {
        /// Where it was in the work folder.
        path: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Whether an artifact that it read where it lies is as it was cannot be told.
    ArtifactUnseen {
        /// Where it was in the work folder.
        path: String,
        /// What looking at it said.
        error: Fault,
    },
    /// It ran on other hardware than the one that was declared.
    OtherHardware {
        /// As declared.
        declared: String,
        /// On what it ran.
        found: String,
    },
    /// In words that have no form of their own here: an earlier flow's.
    Said {
        /// The words.
        text: String,
    },
}

/// What is wrong with an artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Damage {
    /// It is not there.
    Missing,
    /// It is not as it was.
    Changed {
        /// What of it; absent where it is the artifact itself.
        path: Option<String>,
    },
    /// It looks as it did, and holds something else.
    Content,
}

/// The member of a co-run group that closed its window, not by ending well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedBy {
    /// The member.
    pub label: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a machine has too little of for a request, or for the members of a co-run group together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Lack {
    /// GPUs.
    Gpus {
        /// Asked for.
        needs: u32,
        /// There.
        has: u32,
        /// Why a GPU may not have been found.
        trouble: Option<Fault>,
    },
    /// GPUs with so much memory.
    GpuMemory {
        /// GPUs asked for.
        needs: u32,
        /// Bytes on each.
        memory: u64,
        /// How many have that.
        has: u32,
        /// Bytes of the largest.
        largest: u64,
    },
    /// CPUs.
    Cpus {
        /// Asked for.
        needs: u32,
        /// There.
        has: u32,
    },
    /// Host memory, bytes.
    Memory {
        /// Asked for.
        needs: u64,
        /// There.
        has: u64,
    },
    /// GPUs, one or more for each member of a group.
    GroupGpus {
        /// Members.
        members: u32,
        /// GPUs that they ask for together.
        needs: u32,
        /// There.
        has: u32,
    },
    /// GPUs with room for all members of a group.
    GroupGpuMemory {
        /// Members.
        members: u32,
        /// GPUs asked for.
        needs: u32,
        /// Bytes on each.
        memory: u64,
        /// How many have that.
        has: u32,
    },
    /// Host memory for all members of a group, bytes.
    GroupMemory {
        /// Members.
        members: u32,
        /// Asked for together.
        needs: u64,
        /// There.
        has: u64,
    },
    /// Another member of its group lacks something alone.
    Member {
        /// The member.
        label: String,
        /// What.
        lack: Box<Lack>,
    },
}

/// Whose memory did not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// A GPU's.
    Gpu,
    /// The host's.
    Host,
}

impl Memory {
    /// Whose memory a program means that says that it has too little; where its words do not tell, its placement does.
    pub fn meant(said: Option<&str>, on_gpus: bool) -> Memory {
        const GPU: [&str; 7] = ["GPU", "CUDA", "cuda", "CUBLAS", "CUDNN", "HIP", "NCCL"];
        const HOST: [&str; 6] =
            ["host memory", "CPU", "bad_alloc", "MemoryError", "Cannot allocate", "memory allocation of"];
        let says = |words: &[&str]| said.is_some_and(|said| words.iter().any(|word| said.contains(word)));
        if says(&GPU) || on_gpus && !says(&HOST) { Memory::Gpu } else { Memory::Host }
    }
}

/// How a process ended, as the system tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProcessEnd {
    /// By itself.
    Code {
        /// Its exit code.
        code: i32,
    },
    /// By a signal.
    Signal {
        /// `SIGSEGV`.
        name: String,
    },
    /// The system did not tell.
    Unknown,
}

/// Why the folder of an attempt could not be made ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Filling {
    /// A file or a folder of its own could not be made.
    Own {
        /// Which.
        path: String,
        /// What the system said.
        error: Fault,
    },
    /// An input cannot be brought there.
    Input {
        /// As its author wrote it.
        path: String,
        /// What the system said.
        error: Fault,
    },
    /// An input would be written into another one, a folder of the author's.
    InputInInput {
        /// Where it would be.
        path: String,
        /// The other one.
        folder: String,
    },
    /// An input changed since it was hashed.
    InputChanged {
        /// The file.
        path: String,
    },
    /// An artifact of another step cannot be brought there.
    Artifact {
        /// What the store said.
        error: Fault,
    },
    /// The plugin is gone.
    NoPlugin {
        /// Its name.
        plugin: String,
    },
}

/// Where the numbers of a plain program were expected, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum NoMetrics {
    /// The file cannot be read.
    Unread {
        /// The file.
        file: String,
        /// What the system said.
        error: Fault,
    },
    /// It is no JSON.
    NoJson {
        /// The file.
        file: String,
        /// What the library that reads it said.
        error: String,
    },
    /// It is JSON of another form.
    NoNumbers {
        /// The file.
        file: String,
    },
    /// A line is no JSON object.
    BadLine {
        /// The file.
        file: String,
        /// Counted from 1.
        line: u32,
        /// The line, cut where it is long.
        text: String,
    },
    /// Something else than commas stands between the names of its header.
    NoCommas {
        /// The file.
        file: String,
        /// They are tabs; semicolons if not.
        tabs: bool,
    },
    /// The file holds no number.
    NoneInFile {
        /// The file.
        file: String,
    },
    /// The table holds no number below its header.
    NoneInTable {
        /// The file.
        file: String,
    },
    /// No event file of TensorBoard is in the folder.
    NoEventFile {
        /// The folder.
        file: String,
    },
    /// An event file is damaged.
    BadEvent {
        /// The file.
        file: String,
        /// Where, in bytes.
        at: u64,
    },
    /// No printed line matches the pattern.
    NoneMatches {
        /// The pattern.
        pattern: String,
    },
}

/// Why a program was not let go on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// It speaks another version of the protocol.
    OtherProtocol {
        /// The plugin and its version.
        plugin: String,
        /// What it speaks.
        theirs: u32,
        /// What this flow speaks.
        ours: u32,
    },
    /// It wrote a message before `hello`.
    NoHello {
        /// The version of the protocol that was expected.
        protocol: u32,
    },
    /// Its messages cannot be read.
    MessagesUnread {
        /// What the system said.
        error: Fault,
    },
    /// Its log cannot be read.
    LogUnread {
        /// What the system said.
        error: Fault,
    },
    /// Its log is too long, and cannot be shortened while it writes.
    LogTooLong {
        /// The most, MiB.
        most: u32,
        /// What the system said.
        error: Fault,
    },
    /// It cannot be told to go on or to end.
    NotReached {
        /// Its folder.
        folder: String,
        /// What the system said.
        error: Fault,
    },
}

texts! {
    Cause {
        ConditionFalse { expression }, EmptyAxis { axis }, NoInstances { step, because }, AllSkipped {}, Lacks { lack },
        AsksTooMuch {}, Unresolved { error }, NoInput { error }, ResultUnseen { error }, NotProvided { uses },
        MemberCannotRun { label, because }, NeedCannotRun { label }, NeedFailed { label }, FailedElsewhere { label },
        MemberFailed { label }, RunCancelled {}, Decided { group, looks, verdict }, NotRun {}, GpuGone {}, NotStarted { error }, NotFilled { what },
        Builtin { error }, NothingToShow {}, NoSchedule {}, Said { text }, SaidFailed {}, SaidOk { end },
        SaidNothing { end }, Exited { end, last_line }, OutOfMemory { memory, said }, KilledForMemory {},
        TimedOut { limit }, NotListed { path, because }, NoMetrics { problem }, NoOutput { output, path },
        NotKept { error }, GpuLost { gpu, model, because }, SetUpAgain { plugin, because }, Refused { refusal },
        Batch { job, end }, Ended { outcome },
    }
    BatchEnd {
        NodeLost { node }, TimeLimit { stopped }, Memory {}, Cancelled {}, Preempted {}, NotLaunched {},
        Failed { code, begun, said }, Held { reason }, Never { reason }, Refused { error }, Vanished {},
        Theirs { run, user, state },
    }
    Lack {
        Gpus { needs, has, trouble }, GpuMemory { needs, memory, has, largest }, Cpus { needs, has },
        Memory { needs, has }, GroupGpus { members, needs, has }, GroupGpuMemory { members, needs, memory, has },
        GroupMemory { members, needs, has }, Member { label, lack },
    }
    ProcessEnd { Code { code }, Signal { name }, Unknown {} }
    Spoiled {
        Stranger { pid, name, gpu }, GpuSilent { gpu, seconds }, OtherRuns { attempts }, InputChanged { path },
        ArtifactChanged { path, damage }, ArtifactUnseen { path, error },
        OtherHardware { declared, found }, Said { text },
    }
    Damage { Missing {}, Changed { path }, Content {} }
    Filling {
        Own { path, error }, Input { path, error }, InputInInput { path, folder }, InputChanged { path },
        Artifact { error }, NoPlugin { plugin },
    }
    NoMetrics {
        Unread { file, error }, NoJson { file, error }, NoNumbers { file }, BadLine { file, line, text },
        NoCommas { file, tabs }, NoneInFile { file }, NoneInTable { file }, NoEventFile { file }, BadEvent { file, at },
        NoneMatches { pattern },
    }
    Refusal {
        OtherProtocol { plugin, theirs, ours }, NoHello { protocol }, MessagesUnread { error }, LogUnread { error },
        LogTooLong { most, error }, NotReached { folder, error },
    }
}

/// Why a profile is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum ProfileReason {
    /// `--profile`.
    Asked,
    /// Its `when` is the first that holds.
    Holds {
        /// The expression.
        expression: String,
    },
}
