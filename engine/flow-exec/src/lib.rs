//! The live driver and its base: processes, samplers, plugins, files. Knows no scheduling rule and prints nothing.

mod audit_findings;
mod command_words;
mod declared_environment;
mod driver;
mod environment;
mod error;
mod launchers;
mod live_sources;
mod one_cpu;
mod paths;
pub mod plugins;
mod prefix;
mod python_command;
mod search_path;
mod site_packages;
pub mod text;
mod trace;
mod trust;
mod unlisted;
mod uv_environments;
mod workspace;

pub use audit_findings::{AuditFindings, Entry};
pub use driver::*;
pub use error::ExecError;
pub use python_command::serve_node;
pub use uv_environments::{UnusedEnvironment, clear_environments};
pub use workspace::Workspace;
