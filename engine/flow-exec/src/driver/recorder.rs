//! What records: lines for the journal and what they come to in the database gather here, are written aside, and are told to the
//! screen and to the scheduler when they are there. Knows no attempts; what becomes of a commit on the disk is the store's.

use std::{future, sync::Arc};

use flow_core::{InstanceId, JournalLine, Span, Time};
use flow_store::{Ahead, Batch, Commit, Journal, StoreError, Unapplied, is_record};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::{context::RunContext, screen::STATUS};
use crate::ExecError;

/// How long results gather before they are written, where others come soon: a disk is waited for as long for one as for ten.
const GATHER: Span = Span::from_millis(10);

/// The lines that are written, or why not.
pub(super) type Applied = Result<Vec<JournalLine>, Unapplied>;

pub(super) struct Recorder {
    context: Arc<RunContext>,
    journal: Journal,
    /// What is not journalled yet, for who comes when this process was killed,
    ahead: Ahead,
    /// with so many of the lines that wait for the next commit.
    noted: usize,
    pub(super) batch: Batch,
    /// Who is recorded by the next commit.
    recorded: Vec<InstanceId>,
    committing: Option<Committing>,
    /// What the journal had no room for. It goes before everything else.
    unwritten: Option<Commit>,
    committed_at: Time,
    said_unwritten: bool,
}

/// A batch on its way to the disk, and whom it records.
struct Committing {
    done: JoinHandle<Applied>,
    recorded: Vec<InstanceId>,
}

/// What is safe now.
#[derive(Default)]
pub(super) struct Written {
    pub(super) lines: Vec<JournalLine>,
    pub(super) recorded: Vec<InstanceId>,
    /// Why nothing can be written for the moment. It is for the screen alone, since the journal may be what has no room, and is
    /// said once.
    pub(super) trouble: Option<String>,
}

impl Recorder {
    pub(super) fn new(context: Arc<RunContext>, journal: Journal) -> Recorder {
        Recorder {
            context,
            ahead: Ahead::of(&journal),
            noted: 0,
            journal,
            batch: Batch::new(),
            recorded: Vec::new(),
            committing: None,
            unwritten: None,
            committed_at: Time(0),
            said_unwritten: false,
        }
    }

    /// The next commit settles this instance.
    pub(super) fn record(&mut self, instance: InstanceId) {
        self.recorded.push(instance);
    }

    /// A commit is on its way.
    pub(super) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// Until when results wait for others, or for room; not if there is nothing to write, or if nothing runs (`alone`) that others
    /// could come from.
    pub(super) fn gather_until(&self, alone: bool) -> Option<Time> {
        let pause = if self.unwritten.is_some() { STATUS } else { GATHER };
        let waits = self.unwritten.is_some() || !self.batch.is_empty() || !self.recorded.is_empty();
        (waits && !alone).then(|| self.committed_at + pause)
    }

    /// Writes these lines and what gathered while the last batch was written. Where a disk has to be waited for this goes on
    /// aside, for other steps need not wait.
    pub(super) fn commit(
        &mut self,
        lines: &mut Vec<JournalLine>,
        alone: bool,
        now: Time,
    ) -> Result<Written, ExecError> {
        self.note(lines);
        if self.committing.is_some() || self.gather_until(alone).is_some_and(|until| now < until) {
            return Ok(Written::default());
        }
        let (commit, recorded) = (self.gathered(lines)?, std::mem::take(&mut self.recorded));
        self.committed_at = now;
        if commit.is_quick() {
            return self.written(commit.apply(), recorded, alone);
        }
        self.committing = Some(Committing { done: spawn_blocking(move || commit.apply()), recorded });
        Ok(Written::default())
    }

    /// Writes what is left, here and now.
    pub(super) fn commit_last(&mut self, lines: &mut Vec<JournalLine>) -> Result<Written, ExecError> {
        let (commit, recorded) = (self.gathered(lines)?, std::mem::take(&mut self.recorded));
        let written = self.written(commit.apply(), recorded, true)?;
        self.ahead.remove();
        Ok(written)
    }

    /// A kill between here and the commit does not undo what these lines record.
    fn note(&mut self, lines: &[JournalLine]) {
        let new = &lines[self.noted..];
        let is_after_gap = !self.ahead.holds_some() && (self.committing.is_some() || self.unwritten.is_some());
        let is_worth_it = self.ahead.holds_some() || new.iter().any(is_record);
        if !new.is_empty() && is_worth_it && !is_after_gap {
            self.noted = if self.ahead.note(new) { lines.len() } else { 0 };
        }
    }

    fn gathered(&mut self, lines: &mut Vec<JournalLine>) -> Result<Commit, ExecError> {
        let (lines, batch) = (std::mem::take(lines), std::mem::take(&mut self.batch));
        self.noted = 0;
        let commit = self.context.store.commit(&self.journal, lines, &batch)?;
        Ok(match self.unwritten.take() {
            Some(earlier) => earlier.with(commit),
            None => commit,
        })
    }

    /// Waits for the commit that is on its way. Nothing is lost when the future is dropped.
    pub(super) async fn committed(&mut self) -> Result<Applied, JoinError> {
        match &mut self.committing {
            Some(committing) => (&mut committing.done).await,
            None => future::pending().await,
        }
    }

    /// What has come of it.
    pub(super) fn done(&mut self, done: Result<Applied, JoinError>, alone: bool) -> Result<Written, ExecError> {
        let Some(Committing { recorded, .. }) = self.committing.take() else { return Ok(Written::default()) };
        let done = done.map_err(|e| ExecError::Fault(format!("the store could not be written: {e}")))?;
        self.written(done, recorded, alone)
    }

    /// Where the disk is full while steps run, they run on: what there is to tell waits for room.
    fn written(&mut self, done: Applied, mut recorded: Vec<InstanceId>, alone: bool) -> Result<Written, ExecError> {
        match done {
            Ok(lines) => {
                if self.noted == 0 {
                    self.ahead.clear();
                }
                Ok(Written { lines, recorded, trouble: None })
            }
            Err(Unapplied::Nowhere(commit, error)) if error.is_disk_full() && !alone => {
                recorded.append(&mut self.recorded);
                self.recorded = recorded;
                self.unwritten = Some(*commit);
                Ok(Written { trouble: self.trouble(&error), ..Written::default() })
            }
            Err(unapplied) => Err(StoreError::from(unapplied).into()),
        }
    }

    /// A file of the run cannot be written: the sentence for it, the first time.
    pub(super) fn trouble(&mut self, error: &StoreError) -> Option<String> {
        (!std::mem::replace(&mut self.said_unwritten, true)).then(|| format!("what runs goes on: {error}"))
    }
}
