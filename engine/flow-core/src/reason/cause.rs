//! Why an instance ended as it did, or was not run. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchEnd, Fault, Filling, Lack, NoMetrics, Refusal,
    texts::{Texts, texts, without},
};
use crate::{Outcome, Span, verdict::Call};

/// Why an instance ended as it did, or was not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Its `when` is false.
    ConditionFalse { expression: String },
    /// An axis of its matrix has no value.
    EmptyAxis { axis: String },
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
    Lacks { lack: Lack },
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
        /// The member that could not be had.
        label: String,
        because: Box<Cause>,
    },
    /// Something that it needs cannot run.
    NeedCannotRun {
        /// The instance that it needs.
        label: String,
    },
    /// Something that it needs did not succeed.
    NeedFailed {
        /// The instance that it needs.
        label: String,
    },
    /// Something else failed, and the run does not go on after a failure.
    FailedElsewhere {
        /// The instance that failed.
        label: String,
    },
    /// Another member of its co-run group did not succeed.
    MemberFailed {
        /// The member that ended.
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
        /// The part of its folder.
        what: Filling,
    },
    /// One of flow's own steps could not do what its parameters ask for.
    Builtin { error: Fault },
    /// A report has no section with anything to show.
    NothingToShow,
    /// A step that should have made a schedule made none.
    NoSchedule,
    /// Its program said so, in these words.
    Said { text: String },
    /// Its program said that it failed, without a word about why.
    SaidFailed,
    /// Its program said `ok`, and then ended in another way.
    SaidOk { end: ProcessEnd },
    /// A plugin ended without saying an outcome.
    SaidNothing { end: ProcessEnd },
    /// Its program ended badly.
    Exited {
        end: ProcessEnd,
        /// The last line that it printed.
        last_line: Option<String>,
    },
    /// Memory ran out, as its program says.
    OutOfMemory {
        memory: Memory,
        /// What the program said of it.
        said: Option<String>,
    },
    /// The kernel killed it for want of host memory.
    KilledForMemory,
    /// It ran longer than its limit.
    TimedOut { limit: Span },
    /// A file that is missing in its work folder lies beside the workflow, and is not among its inputs.
    NotListed {
        path: String,
        /// How it ended.
        because: Option<Box<Cause>>,
    },
    /// Its numbers are not where they should be.
    NoMetrics { problem: NoMetrics },
    /// It ended well, without an output.
    NoOutput {
        output: String,
        /// Where it was expected.
        path: String,
        /// New files in its work folder, those with the most similar names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        new: Vec<String>,
        /// How many more there are.
        #[serde(default)]
        more: u32,
        /// Its work folder, from the workflow's folder if it is below that. Unknown to an earlier flow.
        #[serde(default)]
        work: Option<String>,
    },
    /// It ended well, and whether an output is there cannot be told.
    OutputUnseen {
        output: String,
        /// Where it was expected.
        path: String,
        /// What looking at it said.
        error: Fault,
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
        model: String,
        because: Option<Box<Cause>>,
    },
    /// Its plugin lacks what its set-up made ready: the next run sets it up again.
    SetUpAgain { plugin: String, because: Option<Box<Cause>> },
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
    Ended { outcome: Outcome },
}

/// Whose memory did not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    Gpu,
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
    Code {
        code: i32,
    },
    Signal {
        /// `SIGSEGV`.
        name: String,
    },
    /// The system did not tell.
    Unknown,
}

/// What the exit code and the last line of a command reveal, beyond their own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitHint {
    /// A command wrote to a pipe whose reader had ended.
    BrokenPipe,
    /// `module` is a function that this shell does not have.
    Module,
    /// `conda activate` needs a function that this shell does not have.
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
        AsksTooMuch {}, Unresolved { error }, NoInput { error }, ResultUnseen { error }, NotProvided { uses },
        MemberCannotRun { label, because }, NeedCannotRun { label }, NeedFailed { label }, FailedElsewhere { label },
        MemberFailed { label }, RunCancelled {}, Decided { group, looks, verdict }, NotRun {}, GpuGone {}, NotStarted { error }, NotFilled { what },
        Builtin { error }, NothingToShow {}, NoSchedule {}, Said { text }, SaidFailed {}, SaidOk { end },
        SaidNothing { end }, Exited { end, last_line }, OutOfMemory { memory, said }, KilledForMemory {},
        TimedOut { limit }, NotListed { path, because }, NoMetrics { problem }, NoOutput { output, path, new, more, work },
        OutputUnseen { output, path, error },
        NotKept { error }, GpuLost { gpu, model, because }, SetUpAgain { plugin, because }, Refused { refusal },
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
