//! Records results: collects journal lines and database changes, writes them in the background, and returns them when
//! they are safe. Knows no attempts; the store handles the commit itself.

use std::{future, sync::Arc};

use flow_core::{InstanceId, JournalLine, Span, Time};
use flow_runs::{Journal, StoreError};
use flow_store::{Batch, Commit, CommitError};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::{
    ExecError,
    driver::{begin::context::RunContext, updates::screen::STATUS},
};

/// How long results are collected before a write, because a disk takes as long for one as for ten: the first while nothing
/// else waits for room, at most the second while steps do.
const GATHER: (Span, Span) = (Span::from_millis(10), Span::from_millis(100));

/// What runs while results wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLoad {
    /// Nothing that could add results.
    Idle,
    /// Steps, and no other waits for room: one may wait for these results.
    Running,
    /// Steps, and others wait for room, so that these results keep none from starting.
    Queued,
}

/// The lines that were written, or the error.
pub(crate) type AppliedLines = Result<Vec<JournalLine>, CommitError>;

pub(crate) struct Recorder {
    context: Arc<RunContext>,
    journal: Journal,
    pub(crate) batch: Batch,
    /// Instances that the next commit records.
    recorded: Vec<InstanceId>,
    committing: Option<PendingBatch>,
    /// Changes for which the journal had no room. They are written before everything else.
    unwritten: Option<Commit>,
    committed_at: Time,
    last_write: Span,
    warned_unwritten: bool,
}

/// A batch that is being written, and the instances that it records.
struct PendingBatch {
    done: JoinHandle<AppliedLines>,
    recorded: Vec<InstanceId>,
}

/// Lines and instances that are on disk.
#[derive(Default)]
pub(crate) struct CommittedBatch {
    pub(crate) lines: Vec<JournalLine>,
    pub(crate) recorded: Vec<InstanceId>,
    /// The reason why nothing can be written at the moment. Only for the screen, because the journal may have no room.
    /// Shown once.
    pub(crate) trouble: Option<String>,
}

impl Recorder {
    pub(crate) fn new(context: Arc<RunContext>, journal: Journal) -> Recorder {
        Recorder {
            context,
            journal,
            batch: Batch::new(),
            recorded: Vec::new(),
            committing: None,
            unwritten: None,
            committed_at: Time(0),
            last_write: Span::default(),
            warned_unwritten: false,
        }
    }

    /// The next commit records this instance.
    pub(crate) fn record(&mut self, instance: InstanceId) {
        self.recorded.push(instance);
    }

    /// True while a commit is being written.
    pub(crate) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// Until when results wait for others, or for disk space. None if there is nothing to write, or nothing runs.
    pub(crate) fn gather_until(&self, load: RunLoad) -> Option<Time> {
        let pause = if self.unwritten.is_some() { STATUS } else { pause(load, self.last_write) };
        let waits = self.unwritten.is_some() || !self.batch.is_empty() || !self.recorded.is_empty();
        (waits && load != RunLoad::Idle).then(|| self.committed_at + pause)
    }

    /// Writes these lines and those collected since the last batch. In the background if it must wait for the disk, so
    /// that other steps do not wait.
    pub(crate) fn commit(
        &mut self,
        lines: &mut Vec<JournalLine>,
        load: RunLoad,
        now: Time,
    ) -> Result<CommittedBatch, ExecError> {
        if self.committing.is_some() || self.gather_until(load).is_some_and(|until| now < until) {
            return Ok(CommittedBatch::default());
        }
        let (commit, recorded) = (self.gathered(lines)?, std::mem::take(&mut self.recorded));
        self.committed_at = now;
        if commit.is_quick() {
            return self.written(commit.apply(), recorded, load);
        }
        self.committing = Some(PendingBatch { done: spawn_blocking(move || commit.apply()), recorded });
        Ok(CommittedBatch::default())
    }

    /// Writes the rest, on this thread.
    pub(crate) fn commit_last(&mut self, lines: &mut Vec<JournalLine>) -> Result<CommittedBatch, ExecError> {
        let (commit, recorded) = (self.gathered(lines)?, std::mem::take(&mut self.recorded));
        self.written(commit.apply(), recorded, RunLoad::Idle)
    }

    fn gathered(&mut self, lines: &mut Vec<JournalLine>) -> Result<Commit, ExecError> {
        let (lines, batch) = (std::mem::take(lines), std::mem::take(&mut self.batch));
        let commit = self.context.store.commit(&self.journal, lines, &batch)?;
        Ok(match self.unwritten.take() {
            Some(earlier) => earlier.with(commit),
            None => commit,
        })
    }

    /// Waits for the running commit. Dropping the future loses nothing.
    pub(crate) async fn committed(&mut self) -> Result<AppliedLines, JoinError> {
        match &mut self.committing {
            Some(committing) => (&mut committing.done).await,
            None => future::pending().await,
        }
    }

    /// Handles the end of the commit.
    pub(crate) fn done(
        &mut self,
        done: Result<AppliedLines, JoinError>,
        load: RunLoad,
        now: Time,
    ) -> Result<CommittedBatch, ExecError> {
        let Some(PendingBatch { recorded, .. }) = self.committing.take() else { return Ok(CommittedBatch::default()) };
        self.last_write = now - self.committed_at;
        let done = done.map_err(|e| ExecError::Fault(format!("the store could not be written: {e}")))?;
        self.written(done, recorded, load)
    }

    /// If the disk is full while steps run, they continue, and the lines wait for room.
    fn written(
        &mut self,
        done: AppliedLines,
        mut recorded: Vec<InstanceId>,
        load: RunLoad,
    ) -> Result<CommittedBatch, ExecError> {
        match done {
            Ok(lines) => Ok(CommittedBatch { lines, recorded, trouble: None }),
            Err(CommitError::Nowhere(commit, error)) if error.is_disk_full() && load != RunLoad::Idle => {
                recorded.append(&mut self.recorded);
                self.recorded = recorded;
                self.unwritten = Some(*commit);
                Ok(CommittedBatch { trouble: self.trouble(&error), ..CommittedBatch::default() })
            }
            Err(unapplied) => Err(StoreError::from(unapplied).into()),
        }
    }

    /// The message that a file of the run cannot be written; only the first time.
    pub(crate) fn trouble(&mut self, error: &StoreError) -> Option<String> {
        (!std::mem::replace(&mut self.warned_unwritten, true)).then(|| format!("running steps continue: {error}"))
    }
}

/// How long results wait for others. While steps wait for room, four times as long as the last write took: a disk creates
/// the files of steps slowly while it writes.
fn pause(load: RunLoad, last_write: Span) -> Span {
    match load {
        RunLoad::Queued => Span(last_write.0.saturating_mul(4)).clamp(GATHER.0, GATHER.1),
        RunLoad::Idle | RunLoad::Running => GATHER.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_wait_for_a_slow_disk_only_while_steps_wait_for_room() {
        let ms = Span::from_millis;
        for (load, last_write, expected) in [
            (RunLoad::Queued, ms(0), ms(10)),
            (RunLoad::Queued, ms(2), ms(10)),
            (RunLoad::Queued, ms(8), ms(32)),
            (RunLoad::Queued, ms(500), ms(100)),
            (RunLoad::Running, ms(500), ms(10)),
        ] {
            assert_eq!(pause(load, last_write), expected, "{load:?} after {last_write:?}");
        }
    }
}
