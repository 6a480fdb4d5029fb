//! The options of a run, and its end.

use std::collections::BTreeMap;

use flow_core::{Difference, RunId, UnreadDependency, plan::Force};

use super::{
    reports::publish::{PublishRequest, PublishedFile, WithheldFile},
    session::Session,
    session::SessionRequest,
};
use crate::ExecError;

/// What to run, and how.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The workflow, and everything that affects its expansion.
    pub session: SessionRequest,
    /// Steps or labels; empty means everything.
    pub targets: Vec<String>,
    /// `--force`.
    pub force: ForceRequest,
    /// `-k`.
    pub keep_going: bool,
    /// `-j`.
    pub jobs: Option<u32>,
    /// `--policy`, which overrides the workflow.
    pub policy: Option<String>,
    /// `--publish`, `--no-publish`.
    pub publish: PublishRequest,
    /// Wait while another process has the store alone.
    pub wait: bool,
    /// `-m`.
    pub note: Option<String>,
    /// The command line, shown to other processes that find the store locked.
    pub doing: String,
    /// It runs in the background. Jobs survive it however it ends, except for `flow cancel`; attempts on this machine
    /// survive if it is killed.
    pub detached: bool,
}

/// `--force`, as asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForceRequest {
    #[default]
    Nothing,
    All,
    /// Steps or labels.
    Only(Vec<String>),
}

impl ForceRequest {
    pub(super) fn is_nothing(&self) -> bool {
        *self == ForceRequest::Nothing
    }

    /// The forced steps as given, if any; empty for all.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        match self {
            ForceRequest::Nothing => None,
            ForceRequest::All => Some(Vec::new()),
            ForceRequest::Only(names) => Some(names.clone()),
        }
    }

    /// Converts it for planning.
    ///
    /// # Errors
    /// An unknown name.
    pub fn of(&self, session: &Session) -> Result<Force, ExecError> {
        match self {
            ForceRequest::Nothing => Ok(Force::Nothing),
            ForceRequest::All => Ok(Force::All),
            ForceRequest::Only(names) => Force::named(&session.expansion, names).map_err(|d| session.wrong(d)),
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run. If there was nothing to do, the run whose results are still valid.
    pub run: RunId,
    /// 0 done, 1 a step failed or something could not be published, 130 interrupted.
    pub exit: i32,
    /// Number of settled instances by outcome.
    pub counts: BTreeMap<String, u32>,
    /// Published files, changed or not.
    pub published: Vec<PublishedFile>,
    /// Files written elsewhere, because the published version stays.
    pub withheld: Vec<WithheldFile>,
    /// Instances of flow's own steps that have a result: tables and reports.
    pub made: Vec<String>,
    /// Reused steps that come `after` a step that ran, without reading anything of it.
    pub unfollowed: Vec<UnreadDependency>,
    /// How programs and packages differ from those of reused results.
    pub environments: Vec<Difference>,
    /// Nothing had changed since that run: no process was started, nothing was opened.
    pub unchanged: bool,
}
