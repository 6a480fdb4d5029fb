//! Errors inside a reason, as values: from the system, the store, an expression or a built-in step. Their English words
//! are here, because diagnostics use the same. The catalogues of reports have the other languages, under the value's
//! name in JSON.

use std::{fmt, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BuiltinFault, StoreAction, Texts};
use crate::Outcome;

/// An error. In JSON, plain words are a string; everything else is an object with a unique `kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(remote = "Self", untagged)]
pub enum Fault {
    /// A message of a library.
    #[error("{0}")]
    Text(String),
    /// From the system, or about what is in a file's place.
    #[error(transparent)]
    File(Box<FileFault>),
    #[error(transparent)]
    Store(Box<StoreFault>),
    /// From an expression.
    #[error(transparent)]
    Expr(Box<ExprFault>),
    /// From a body with invalid values.
    #[error(transparent)]
    Body(Box<BodyFault>),
    /// From a program that could not be started.
    #[error(transparent)]
    Start(Box<StartFault>),
    /// From NVIDIA's driver, or about a GPU.
    #[error(transparent)]
    Gpu(Box<GpuFault>),
    /// From a built-in step.
    #[error(transparent)]
    Builtin(Box<BuiltinFault>),
}

crate::compiled_once::compiled_once!(Fault);

/// What holds for each of these kinds.
macro_rules! kinds {
    ($($variant:ident($fault:ident)),*) => {
        impl Texts for Fault {
            fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
                match self {
                    Fault::Text(text) => each(text),
                    $( Fault::$variant(fault) => fault.texts(each), )*
                }
            }
        }
        $( impl From<$fault> for Fault {
            fn from(fault: $fault) -> Self {
                Fault::$variant(Box::new(fault))
            }
        } )*
    };
}
kinds!(
    File(FileFault),
    Store(StoreFault),
    Expr(ExprFault),
    Body(BodyFault),
    Start(StartFault),
    Gpu(GpuFault),
    Builtin(BuiltinFault)
);

impl From<String> for Fault {
    fn from(words: String) -> Self {
        Fault::Text(words)
    }
}

impl From<&str> for Fault {
    fn from(words: &str) -> Self {
        Fault::Text(words.to_owned())
    }
}

/// The value that an error carries, else the system's message.
impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        if let Some(fault) = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()) {
            return fault.clone();
        }
        match error.raw_os_error() {
            Some(code) => FileFault::System { code, message: error.to_string() }.into(),
            None => Fault::Text(error.to_string()),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::from(&error)
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        io::Error::other(fault)
    }
}

/// Defines enums of errors: each variant with its fields and its words.
macro_rules! faults {
    ($($(#[$about:meta])* $name:ident {
        $($variant:ident $({ $($field:ident: $type:ty),* })? = $words:literal,)*
    })*) => { $(
        $(#[$about])*
        #[derive(
            Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema, thiserror::Error,
        )]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum $name {
            $( #[error($words)] $variant $({ $($field: $type),* })?, )*
        }

        impl $crate::reason::Texts for $name {
            fn texts(&mut self, _each: &mut dyn FnMut(&mut String)) {
                match self {
                    $( $name::$variant $({ $($field),* })? => { $($( $field.texts(_each); )*)? } )*
                }
            }
        }
    )* };
}
pub(super) use faults;

/// A list of names, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NameList(pub Vec<String>);

impl<T: Into<String>> FromIterator<T> for NameList {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        NameList(names.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(", ")) }
    }
}

impl Texts for NameList {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.0.texts(each);
    }
}

/// Several errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Several<T>(pub Vec<T>);

impl<T: fmt::Display> fmt::Display for Several<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(T::to_string).collect();
        f.write_str(&all.join("; "))
    }
}

impl<T: Texts> Texts for Several<T> {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.0.texts(each);
    }
}

faults! {
    /// The system's error about a file, or why a file is not read.
    FileFault {
        System { code: i32, message: String } = "{message}",
        NotRegular { found: FileKind } = "it is not a regular file, but {found}",
        InTheWay { found: FileKind } = "it is not a regular file, but {found}: move it away",
        LinkInPlace = "it is a symbolic link, which flow does not follow",
        NotText { line: u64 } = "it is not UTF-8 text in line {line}",
        TooLong { size: String, most: String } = "it has {size}, and flow reads such files only up to {most}",
        NoText = "it is not UTF-8 text",
        SheetEmpty = "it is empty; expected column names in its first line",
        SheetLine { line: u64, found: u64, expected: u64 } = "line {line} has {found} cells, but the first line names {expected} columns",
        BadPattern { line: u64, message: String } = "line {line}: {message}",
    }

    /// What is found in place of a file.
    FileKind {
        Folder = "a folder",
        Link = "a link",
        Pipe = "a pipe",
        Socket = "a socket",
        Device = "a device",
    }

    /// Errors of the store, and missing data.
    StoreFault {
        StoreRefused { which: StoreAction, path: String, error: Box<Fault> } = "cannot {which} `{path}`: {error}",
        NoInodes { which: StoreAction, path: String, error: Box<Fault> } =
            "cannot {which} `{path}`: {error}; the file system has no inodes left: remove some files, of whatever size; then run again: nothing recorded is lost",
        StoreFull { which: StoreAction, path: String, error: Box<Fault> } =
            "cannot {which} `{path}`: {error}; free a few MiB by hand, which `flow gc` needs to remove files of old runs; then run again: nothing recorded is lost",
        Malformed { path: String, error: Box<Fault> } = "`{path}` is not what was expected: {error}",
        LeadsBack { path: String } = "`{path}` cannot be stored: it leads back to a folder above it",
        LeadsOut { path: String, to: String } =
            "`{path}` cannot be stored: it is a symbolic link to `{to}`, which is neither in the output nor an input: copy the file",
        LeadsOutside { path: String, to: String } =
            "`{path}` cannot be stored: it contains a symbolic link to `{to}`, outside of the step's folder: copy the file",
        NoArtifact { path: String, found: FileKind } = "`{path}` cannot be stored: it is {found}; only files, folders and links can be stored",
        ArtifactGone { digest: String } =
            "artifact {digest} is missing from the store or damaged (it is not there): `flow doctor` lists other damage, and the next run makes it again",
        ArtifactLacks { digest: String, path: String } =
            "artifact {digest} is missing from the store or damaged (no `{path}`): `flow doctor` lists other damage, and the next run makes it again",
        ArtifactChanged { digest: String, path: String } =
            "artifact {digest} is missing from the store or damaged (both `{path}` and the list of its files changed): `flow doctor` lists other damage, and the next run makes it again",
    }

    /// Why an expression has no value.
    ExprFault {
        CannotBeComputed { message: String } = "it cannot be computed: {message}",
        NoSuchAxis { axis: String, axes: NameList } = "nothing in the list has an axis `{axis}`; there is {axes}",
        NothingToCompare { attribute: String } = "nothing in the list has a value `{attribute}` that can be compared",
        ZeroInCommand = "a command cannot contain a NUL",
        EndedWithoutOutput { label: String, outcome: Outcome } = "`{label}` ended as {outcome}: it has no output",
        EndedWithoutThisOutput { label: String, outcome: Outcome, output: String } =
            "`{label}` ended as {outcome}: it has no output `{output}`",
        EndedWithoutMetrics { label: String, outcome: Outcome } = "`{label}` ended as {outcome}: it has no metrics",
        DeclaresNoOutputs { label: String } = "`{label}` declares no outputs",
        SeveralOutputs { label: String, outputs: NameList } = "`{label}` has several outputs; write `.outputs.NAME`, one of {outputs}",
        NoSuchOutput { label: String, output: String } = "`{label}` has no output `{output}`",
        NoSuchMetric { label: String, metric: String, metrics: NameList } = "`{label}` has no metric `{metric}`; it has {metrics}",
        MetricMisspelt { label: String, metric: String, near: String } =
            "`{label}` has no metric `{metric}`; did you mean `{near}`?",
        NoneIsLeft { step: String, key: String } = "no instance of `{step}` is left to take `{key}` of",
        WantsOne { step: String, key: String, count: u64, example: String } =
            "`{key}` needs one instance of `{step}`, but there are {count}: narrow them, as in `{example}`",
        Undefined { expression: String } = "`{expression}` is undefined",
        UndefinedResult = "the result is undefined",
        NotFinite { value: String } = "the result is {value}, not a finite number",
        NumberTooLarge { value: String } = "{value} is too large a number",
        NoValue { type_name: String } = "a {type_name} cannot be a value",
        NotMade = "the value could not be made",
        NullInText = "the value is null and cannot be part of a text; `| default('…', true)` gives it one",
    }

    /// Why the body of an instance cannot be evaluated.
    BodyFault {
        ReadsUnder { label: String, expression: String, key: String, place: String, error: Box<Fault> } =
            "`{label}` reads `{expression}` (`{key}`, {place}): {error}",
        Reads { label: String, expression: String, place: String, error: Box<Fault> } =
            "`{label}` reads `{expression}` ({place}): {error}",
        NoCommand { label: String, place: String, error: Box<Fault> } = "`{label}` ({place}): {error}",
        NoWith { label: String, place: String, error: Box<Fault> } = "`{label}` ({place}): in `with`, {error}",
        BadWith { label: String, place: String, mistakes: Several<ParameterFault> } = "`{label}` ({place}): {mistakes}",
        BadEnv { label: String, place: String, mistakes: Several<VariableFault> } = "`{label}` ({place}): in `env`, {mistakes}",
    }

    /// Why a program could not be started.
    StartFault {
        NoProgram = "there is no program to start",
        ZeroByte = "an argument, a variable or a path holds a zero byte",
        NoProcess { error: Box<Fault> } = "no new process: {error}",
        NoSession { error: Box<Fault> } = "no new session: {error}",
        NoEntry { path: String, error: Box<Fault> } = "cannot enter {path}: {error}",
        NotOnPath { program: String } = "`{program}` is not a program on the PATH; install it, or give its path",
        NoBash = "`bash` is not on the PATH, and this command needs a shell; install it, or write `shell: sh` into the step",
        NoInterpreter { program: String } = "`{program}` is there, but the interpreter in its first line is not",
        NotThere { program: String } =
            "`{program}` is not in the step's work folder, which has only the files listed in `inputs:`",
        NotExecutable { program: String } = "`{program}` is not executable; `chmod +x` it, or name its interpreter",
        NotAProgram { program: String } = "`{program}` is neither a program nor a script with `#!` in its first line",
        ArgumentsTooLong { program: String } = "`{program}`: the arguments and variables together are too long; a script of several lines under `run: |` can write the same into a file",
        CannotStart { program: String, error: Box<Fault> } = "`{program}` cannot be started: {error}",
        Unredacted { path: String, error: Box<Fault> } = "flow cannot search its output for secrets in {path}: {error}",
        RunsAlready { attempt: u32 } = "attempt {attempt} is already running",
        TooManyAttempts { most: u32 } = "a run has at most {most} attempts; run again to continue",
        NoLog { path: String, error: Box<Fault> } = "cannot write {path}: {error}",
        KeeperKilled = "its supervisor process was killed, and the step with it",
        EndedByRequest = "something else than this run told it to end before its work was done",
        JobNotWritten { error: Box<Fault> } = "the files of its job cannot be written: {error}",
        NotWrittenDown = "it has no record",
    }

    /// Why GPUs cannot be used.
    GpuFault {
        DriverSilent { seconds: u64 } =
            "NVIDIA's driver did not answer within {seconds} s; flow continues without GPUs. A GPU may be faulty: does `nvidia-smi` answer?",
        NoQueryThread { error: Box<Fault> } = "flow cannot start a thread to query NVIDIA's library: {error}",
        NoGpu = "NVIDIA's driver is installed, but this process sees no GPU",
        GpusNotCounted { message: String } = "NVIDIA's driver does not report the number of GPUs: {message}",
        GpusHidden { variable: String, value: String } = "{variable} is `{value}`, which hides every GPU of this machine",
        Divided { gpu: u32, model: String } =
            "GPU {gpu} ({model}) is divided by MIG, but flow uses only whole GPUs; `nvidia-smi -i {gpu} -mig 0` makes it whole",
        GpuLost { gpu: u32 } = "GPU {gpu} is lost; flow continues without it",
        GpuOffTheBus { gpu: u32 } =
            "GPU {gpu} is lost, having fallen off the bus; flow continues without it until the machine is restarted",
        GpuForbidden { gpu: u32 } = "this user may not use GPU {gpu}; check the modes of /dev/nvidia*",
        GpuUnknown { gpu: u32, message: String } = "GPU {gpu} does not report its model ({message}); flow continues without it",
        LibraryNotLoaded { variable: String, path: String, message: String } = "{variable} `{path}` cannot be loaded: {message}",
        DriverNotLoaded =
            "NVIDIA's library is installed, but its driver is not loaded; on the host, `nvidia-smi` shows why; a container needs `--gpus all`",
        DriverOfOtherVersion =
            "NVIDIA's library and the loaded driver have different versions, as after an update; restart the machine, or reload the driver",
        DriverForbidden = "this user may not use NVIDIA's driver; check the modes of /dev/nvidia*",
        LibraryNotStarted { message: String } = "NVIDIA's library cannot be started: {message}",
    }

    /// An error in a parameter; `message` has the full message of planning.
    ParameterFault {
        ParameterUnknown { uses: String, name: String, message: String } = "{message}",
        ParameterMissing { uses: String, name: String, message: String } = "{message}",
        ParameterWrong { uses: String, name: String, value: FoundValue, message: String } = "{message}",
        ParameterRefused { uses: String, name: String, message: String } = "{message}",
        ParameterTooLarge { uses: String, name: String, value: String, of: String, metric: String, most: String } =
            "`{name}` of `{uses}` is {value}, more than the {most} {metric} of `{of}`: take a smaller one",
        ParameterTooLargeForPart {
            uses: String,
            name: String,
            value: String,
            of: String,
            metric: String,
            most: String,
            part: String,
            share: String,
            rest: String
        } =
            "`{name}` of `{uses}` is {value}, more than the {most} {metric} of `{of}`, of which `{part}: {share}` leaves about {rest}: take that or less",
    }

    /// An error in an environment variable.
    VariableFault {
        VariableWrong { value: FoundValue } = "found {value}, expected a text or a number",
        VariableRefused { message: String } = "{message}",
    }

    /// A value in an expression.
    FoundValue {
        Null = "null",
        Truth { text: String } = "{text}",
        Number { text: String } = "the number {text}",
        Text { text: String } = "the text {text}",
        List { text: String } = "the list {text}",
        Mapping { text: String } = "the mapping {text}",
        Other { type_name: String } = "{type_name}",
    }
}
