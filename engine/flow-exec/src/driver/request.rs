//! What a run is asked for, and how it ended.

use std::collections::BTreeMap;

use flow_core::{RunId, Unfollowed, plan::Force};

use super::{
    Session, SessionRequest,
    publish::{PublishRequest, PublishedFile, WithheldFile},
};
use crate::ExecError;

/// What to run, and how.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The workflow and what decides its expansion.
    pub session: SessionRequest,
    /// Steps or labels; everything without.
    pub targets: Vec<String>,
    /// `--force`.
    pub force: ForceRequest,
    /// `-k`.
    pub keep_going: bool,
    /// `-j`.
    pub jobs: Option<u32>,
    /// `--policy`, before what the workflow says.
    pub policy: Option<String>,
    /// `--publish`, `--no-publish`.
    pub publish: PublishRequest,
    /// Wait while somebody else holds the store.
    pub wait: bool,
    /// `-m`.
    pub note: Option<String>,
    /// The command line, for whoever is told that the store is held.
    pub doing: String,
    /// It runs in the background: jobs of a batch system outlive it, however it ends, but for `flow cancel`, and what runs on this machine
    /// where it is killed.
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

    /// As decisions take it.
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
    /// The run; of one with nothing to do, the run that it repeats.
    pub run: RunId,
    /// 0 done, 1 a step failed or something could not be published, 130 interrupted.
    pub exit: i32,
    /// Settled instances by how.
    pub counts: BTreeMap<String, u32>,
    /// What is published, whether it changed or not.
    pub published: Vec<PublishedFile>,
    /// What was written elsewhere, for what is published stays.
    pub withheld: Vec<WithheldFile>,
    /// Instances of flow's own steps that have a result: tables and reports.
    pub made: Vec<String>,
    /// Steps that were kept, and that one ran which they come after and read nothing of.
    pub unfollowed: Vec<Unfollowed>,
    /// Nothing had changed since that run: no process was started, nothing was opened.
    pub unchanged: bool,
}
