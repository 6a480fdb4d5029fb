//! Messages between the engine and a plugin. Types only: no files, no processes, no clock.
//!
//! **The attempt's folder is the whole interface**, so that one machine, `--detach` and Slurm are the same:
//!
//! | file | written by | holds |
//! | --- | --- | --- |
//! | `request.json` | engine, before the start | [`Request`] |
//! | `messages.jsonl` | program, appending | one [`Line`] a line, `hello` first |
//! | `go` | engine | the co-run barrier is released; the content is the time, in seconds since 1970 |
//! | `stop` | engine | a program that has sent `sufficed` ends after its current epoch |
//! | `log` | program | its standard output and error |
//! | `work/` | both | the program's current folder: `in/<step>` to read, `out/` to write |
//!
//! The program finds the folder in the environment variable [`ATTEMPT_VAR`]; every path inside [`Request`] is relative
//! to `work/`, the program's current folder.
//!
//! Each message is one line, written at once in append mode, so that threads and processes may share the file. Programs
//! only write to it: in a step with secrets it is a pipe. Unknown fields are ignored. A line of `messages.jsonl` that
//! is not a valid message is ignored and counted. The exit code and the last `outcome` decide together: a program
//! that says `ok` and then crashes has failed, and so has one that exits with 0 without an outcome. After
//! `out_of_memory` or `failed` it exits with 1.
//!
//! `tests/frozen/` holds each message and the request as JSON, for authors in other languages, and [`Exit`].
#![warn(missing_docs)]

mod message;
mod request;

pub use message::{Line, Message, Outcome, Summary};
pub use request::{Corun, Exit, Gpu, Placement, Request};

/// The version of the protocol that this crate describes. A program that says another one in its `hello` is refused.
pub const PROTOCOL: u32 = 1;

/// The environment variable that names the attempt's folder, absolute.
pub const ATTEMPT_VAR: &str = "FLOW_ATTEMPT";

/// The environment variable that holds the number of members of the attempt's co-run group; absent outside of one.
pub const CORUN_VAR: &str = "FLOW_CORUN";

/// The environment variable that names the checkpoint folder, an absolute path. The folder outlives the attempt until
/// there is a result. The next attempt with the same fingerprint finds its content, in this run or a later one.
pub const CHECKPOINT_VAR: &str = "FLOW_CHECKPOINT";

/// The environment variable that names the root of the project, an absolute path. Files that a program reads there are
/// not among its inputs.
pub const ROOT_VAR: &str = "FLOW_ROOT";

/// The environment variable that holds the Git commit of the project; absent if it is unknown.
pub const COMMIT_VAR: &str = "FLOW_COMMIT";

/// File names in the attempt's folder.
pub mod file {
    /// The request, JSON.
    pub const REQUEST: &str = "request.json";
    /// The program's messages, JSON lines.
    pub const MESSAGES: &str = "messages.jsonl";
    /// Written by the engine to release the barrier.
    pub const GO: &str = "go";
    /// Written by the engine to end a program that trains on.
    pub const STOP: &str = "stop";
    /// Standard output and error.
    pub const LOG: &str = "log";
    /// The program's current folder.
    pub const WORK: &str = "work";
}
