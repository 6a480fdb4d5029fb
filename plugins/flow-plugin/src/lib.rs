//! A plugin's side of flow's protocol. Knows one attempt's folder, and nothing of workflows, caches or schedules.
//!
//! A plugin is a program with named steps. A step is a function of its parameters and of an [`Attempt`]:
//!
//! ```no_run
//! use flow_plugin::{Attempt, Error, Plugin};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Count {
//!     folder: String,
//! }
//!
//! fn count(with: Count, attempt: &Attempt) -> Result<(), Error> {
//!     let files = std::fs::read_dir(attempt.path(&with.folder))?.count();
//!     attempt.metric("files", files as f64, "");
//!     std::fs::write(attempt.output("out")?, format!("{files}\n"))?;
//!     Ok(())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Plugin::new("counter", env!("CARGO_PKG_VERSION")).step("count", count).main()
//! }
//! ```
//!
//! [`Plugin::main`] finds the attempt, reads the request, calls the step, and reports the outcome. It is `ok`, or
//! `out_of_memory` for [`Error::out_of_memory`]. Any other error or panic is `failed`, with its message.
//!
//! The feature `harness` adds the module `harness`, which runs a step in a temporary folder without an engine.
#![warn(missing_docs)]

mod attempt;
mod error;
#[cfg(feature = "harness")]
pub mod harness;
mod plugin;

pub use attempt::{Attempt, now};
pub use error::Error;
pub use flow_protocol as protocol;
pub use flow_protocol::Summary;
pub use plugin::Plugin;
