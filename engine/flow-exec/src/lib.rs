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
pub use driver::{
    Audit, AuditFailure, CheckedSteps, ClusterUnavailable, EnvironmentChange, ForceRequest, ForgetResult, Knowledge,
    LinkedInput, NoAnswer, OrphanedJob, OrphanedJobs, PresentEnvironment, PresentInputs, Private, PublishRequest,
    PublishedFile, RemadeFiles, RemadeStep, Rules, RunEnd, RunOptions, Session, SessionRequest, UnwantedWork, Update,
    WithheldFile, WorkReport, absolute_path, accept, audit, audited, cancel_jobs, carry, check, done_by_others,
    end_strays, ended_since, environment, forecast, foreign_results, forget, has_audits, ignored, import,
    input_text_count, input_texts, jobs_waiting, last_place, listed, named, on_each_model, open, orphaned_jobs,
    overview, parts, place_of_orphaned_jobs, plan, plan_at_other_place, plugin_digests, predict, present_inputs,
    progress, remake, rules, run, running_orphans, to_set_up, unfinished_jobs, unwanted, work_report,
};
pub use error::ExecError;
pub use python_command::serve_node;
pub use uv_environments::{UnusedEnvironment, clear_environments};
pub use workspace::Workspace;
