//! The live driver: opens a workflow, plans it, runs it, publishes. Holds no scheduling rule and prints nothing.

mod attempts;
mod audit;
mod begin;
mod cancel;
mod decide;
mod executor;
mod live;
mod machine;
mod plan;
mod recover;
mod reports;
mod request;
mod results;
mod run;
mod session;
#[cfg(test)]
mod tests;
mod unchanged;
mod updates;

pub use attempts::state::progress;
pub use audit::{Audit, AuditFailure, audit, audited, has_audits};
pub use begin::capture::LinkedInput;
pub use begin::environments::{EnvironmentChange, PresentEnvironment, load as environment};
pub use begin::live_sources::absolute_path;
pub use begin::setups::to_set_up;
pub use begin::work_place::{WorkReport, work_report};
pub use executor::composite::{cancel_jobs, orphaned_jobs};
pub use executor::slurm::{ClusterUnavailable, NoAnswer, OrphanedJob, OrphanedJobs, Rules, overview, rules};
pub use plan::continued::open;
pub use plan::forecast::{CheckedSteps, check, forecast, on_each_model, predict};
pub use plan::present::{PresentInputs, present_inputs};
pub use plan::unwanted_work::{UnwantedWork, unwanted};
pub use plan::{
    ForgetResult, Knowledge, accept, done_by_others, forget, ignored, listed, parts, plan, plan_at_other_place,
};
pub use recover::follow::{end_strays, ended_since, jobs_waiting, running_orphans, unfinished_jobs};
pub use reports::builtin::RemadeFiles;
pub use reports::exports::{Private, carry, input_text_count, input_texts, plugin_digests};
pub use reports::publish::{PublishRequest, PublishedFile, WithheldFile};
pub use reports::remake::{RemadeStep, remake};
pub use request::{ForceRequest, RunEnd, RunOptions};
pub use run::run;
pub use session::imports::{foreign_results, import, named};
pub use session::{Session, SessionRequest, last_place, place_of_orphaned_jobs};
pub use updates::Update;
