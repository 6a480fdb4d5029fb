//! Why an instance ended as it did, or did not run. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchEnd, Fault, FolderFault, Lack, NoMetrics, Refusal,
    texts::{Texts, texts, without},
};
use crate::{Outcome, Span, verdict::Call};

/// Why an instance ended as it did, or did not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Its `when` is false.
    ConditionFalse { expression: String },
    /// An axis of its matrix has no value.
    EmptyAxis { axis: String },
    /// Its step, or one that it reads, has no instances.
    NoInstances {
        /// The step that it reads; absent if it is its own step.
        step: Option<String>,
        /// Why that step has none.
        because: Option<Box<Cause>>,
    },
    /// All instances of its step are skipped.
    AllSkipped,
    /// This machine can never run it.
    Lacks { lack: Lack },
    /// It requests more than exists.
    RequestTooLarge,
    /// An expression of its body has no value.
    Unresolved {
        /// The error of the evaluation.
        error: Fault,
    },
    /// A declared input cannot be read.
    NoInput {
        /// The read error.
        error: Fault,
    },
    /// Its declared environment cannot be read.
    NoEnvironment {
        name: String,
        /// The read error.
        error: Fault,
    },
    /// Whether its stored result is complete is unknown; it is kept.
    ResultUnseen {
        /// The error of the check.
        error: Fault,
    },
    /// Nothing provides its step.
    NotProvided {
        /// `torch/train`, `flow/table`.
        uses: String,
    },
    /// Another member of its co-run group cannot run.
    MemberCannotRun {
        /// The member that cannot run.
        label: String,
        because: Box<Cause>,
    },
    /// An instance that it needs cannot run.
    NeedCannotRun {
        /// The instance that it needs.
        label: String,
    },
    /// An instance that it needs did not succeed.
    NeedFailed {
        /// The instance that it needs.
        label: String,
    },
    /// Another instance failed, and the run stops after a failure.
    OtherFailed {
        /// The instance that failed.
        label: String,
    },
    /// Another member of its co-run group did not succeed.
    MemberFailed {
        /// The member that ended.
        label: String,
    },
    /// A user cancelled the run.
    RunCancelled,
    /// It was planned for a verdict that was reached without it.
    Decided {
        /// The step and its group.
        group: String,
        /// The number of runs of the group.
        looks: u32,
        /// The verdict; absent if repetitions could not decide anything.
        verdict: Option<Call>,
    },
    /// It was not requested.
    NotRun,
    /// A GPU that it needed to start was lost.
    GpuGone,
    /// Its process could not be started.
    NotStarted {
        /// The system's error, if there is one.
        error: Option<Fault>,
    },
    /// Its folder could not be prepared.
    NotFilled {
        /// The part that failed.
        what: FolderFault,
    },
    /// A built-in step failed.
    Builtin { error: Fault },
    /// No section of a report has anything to show.
    NothingToShow,
    /// A step that should have made a schedule did not.
    NoSchedule,
    /// Its program reported failure, in these words.
    Reported { text: String },
    /// Its program reported failure without a reason.
    ReportedFailure,
    /// Its program reported `ok`, but then ended differently.
    ReportedSuccess { end: ProcessEnd },
    /// A plugin ended without reporting an outcome.
    NoReport { end: ProcessEnd },
    /// Its program ended with an error.
    Exited {
        end: ProcessEnd,
        /// The last line that it printed.
        last_line: Option<String>,
    },
    /// Its program reported that memory ran out.
    OutOfMemory {
        memory: Memory,
        /// The program's message.
        message: Option<String>,
    },
    /// The kernel killed it because host memory ran out.
    KilledForMemory,
    /// It exceeded its time limit.
    TimedOut { limit: Span },
    /// A file that is missing in its work folder exists in the project, but is not among its inputs. The path is relative
    /// to the workflow.
    NotListed {
        path: String,
        /// How it ended.
        because: Option<Box<Cause>>,
    },
    /// Its numbers are missing.
    NoMetrics { problem: NoMetrics },
    /// It succeeded without writing an output.
    NoOutput {
        output: String,
        /// Where it was expected.
        path: String,
        /// New files in its work folder with the most similar names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        new: Vec<String>,
        /// Number of further new files.
        #[serde(default)]
        more: u32,
        /// Its work folder, relative to the workflow's folder if inside.
        work: String,
    },
    /// It succeeded, but an output cannot be checked.
    OutputUnseen {
        output: String,
        /// Where it was expected.
        path: String,
        /// The error of the check.
        error: Fault,
    },
    /// Its output cannot be stored.
    NotStored {
        /// The store's error.
        error: Fault,
    },
    /// A GPU of its placement was lost while it ran.
    GpuLost {
        /// The GPU, counted as users do.
        gpu: u32,
        model: String,
        because: Option<Box<Cause>>,
    },
    /// Its plugin lacks something that its set-up made. The next run sets it up again.
    SetUpAgain { plugin: String, because: Option<Box<Cause>> },
    /// It was killed because it violated the protocol.
    Refused {
        /// The violation.
        refusal: Refusal,
    },
    /// Slurm ended its job, or would never have started it.
    Batch {
        /// Slurm's job id, if it had one.
        job: Option<String>,
        /// How it ended.
        end: BatchEnd,
    },
    /// Only its outcome is known.
    Ended { outcome: Outcome },
}

/// The memory that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    Gpu,
    Host,
}

impl Memory {
    /// The memory that a program's message means. If the words do not show it, the placement decides.
    pub fn meant(said: Option<&str>, on_gpus: bool) -> Memory {
        const GPU: [&str; 7] = ["GPU", "CUDA", "cuda", "CUBLAS", "CUDNN", "HIP", "NCCL"];
        const HOST: [&str; 6] =
            ["host memory", "CPU", "bad_alloc", "MemoryError", "Cannot allocate", "memory allocation of"];
        let says = |words: &[&str]| said.is_some_and(|said| words.iter().any(|word| said.contains(word)));
        if says(&GPU) || on_gpus && !says(&HOST) { Memory::Gpu } else { Memory::Host }
    }
}

/// How a process ended, as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProcessEnd {
    Code {
        code: i32,
    },
    Signal {
        /// `SIGSEGV`.
        name: String,
    },
    /// The system did not report it.
    Unknown,
}

/// What a command's exit code and last line reveal beyond their own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitHint {
    /// A command wrote to a pipe whose reader had ended.
    BrokenPipe,
    /// `module` is a function that this shell lacks.
    Module,
    /// `conda activate` needs a function that this shell lacks.
    Conda,
    /// Something other than flow killed it.
    Killed,
}

impl ExitHint {
    pub fn of(end: &ProcessEnd, last_line: Option<&str>) -> Option<ExitHint> {
        const BROKEN_PIPE: i32 = 128 + 13;
        const KILLED: i32 = 128 + 9;
        let line = last_line.unwrap_or_default();
        let says = |words: &[&str]| words.iter().any(|word| line.contains(word));
        match end {
            ProcessEnd::Code { code: 127 } if says(&["module: ", "ml: "]) => Some(ExitHint::Module),
            ProcessEnd::Code { code: 127 } if says(&["conda: ", "mamba: "]) => Some(ExitHint::Conda),
            ProcessEnd::Code { code: 1 } if says(&["conda init", "conda activate", "mamba shell"]) => {
                Some(ExitHint::Conda)
            }
            ProcessEnd::Code { code: BROKEN_PIPE } => Some(ExitHint::BrokenPipe),
            ProcessEnd::Code { code: KILLED } => Some(ExitHint::Killed),
            ProcessEnd::Signal { name } if name == "SIGKILL" => Some(ExitHint::Killed),
            _ => None,
        }
    }
}

crate::compiled_once::compiled_once!(Cause);

without!(Memory);
texts! {
    Cause {
        ConditionFalse { expression }, EmptyAxis { axis }, NoInstances { step, because }, AllSkipped {}, Lacks { lack },
        RequestTooLarge {}, Unresolved { error }, NoInput { error }, NoEnvironment { name, error }, ResultUnseen { error }, NotProvided { uses },
        MemberCannotRun { label, because }, NeedCannotRun { label }, NeedFailed { label }, OtherFailed { label },
        MemberFailed { label }, RunCancelled {}, Decided { group, looks, verdict }, NotRun {}, GpuGone {}, NotStarted { error }, NotFilled { what },
        Builtin { error }, NothingToShow {}, NoSchedule {}, Reported { text }, ReportedFailure {}, ReportedSuccess { end },
        NoReport { end }, Exited { end, last_line }, OutOfMemory { memory, message }, KilledForMemory {},
        TimedOut { limit }, NotListed { path, because }, NoMetrics { problem }, NoOutput { output, path, new, more, work },
        OutputUnseen { output, path, error },
        NotStored { error }, GpuLost { gpu, model, because }, SetUpAgain { plugin, because }, Refused { refusal },
        Batch { job, end }, Ended { outcome },
    }
    ProcessEnd { Code { code }, Signal { name }, Unknown {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_that_reveal_more() {
        for (code, line, hint) in [
            (141, None, Some(ExitHint::BrokenPipe)),
            (141, Some("epoch 3"), Some(ExitHint::BrokenPipe)),
            (127, Some("bash: line 1: module: command not found"), Some(ExitHint::Module)),
            (127, Some("sh: 1: module: not found"), Some(ExitHint::Module)),
            (127, Some("bash: line 2: conda: command not found"), Some(ExitHint::Conda)),
            (1, Some("CondaError: Run 'conda init' before 'conda activate'"), Some(ExitHint::Conda)),
            (127, Some("bash: line 1: pyton: command not found"), None),
            (1, Some("ModuleNotFoundError: No module named 'torch'"), None),
            (1, None, None),
            (137, Some("Killed"), Some(ExitHint::Killed)),
        ] {
            assert_eq!(ExitHint::of(&ProcessEnd::Code { code }, line), hint, "{code} {line:?}");
        }
        for (name, hint) in [("SIGKILL", Some(ExitHint::Killed)), ("SIGSEGV", None)] {
            assert_eq!(ExitHint::of(&ProcessEnd::Signal { name: name.to_owned() }, None), hint, "{name}");
        }
    }
}
