//! What the loop has to write: gathered, written aside, and told to the screen and to the scheduler when it is there. Knows no
//! files; what becomes of a commit is the store's.

use flow_core::{InstanceId, JournalLine, RunEvent, Span, Time, sched::Event};
use flow_store::{Commit, StoreError, Unapplied};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::{
    Update,
    live::{Live, STATUS},
};
use crate::{ExecError, clock};

/// How long results gather before they are written, where others come soon: a disk is waited for as long for one as for ten.
const GATHER: Span = Span::from_millis(10);

/// The lines that are written, or why not.
pub(super) type Applied = Result<Vec<JournalLine>, Unapplied>;

/// A batch on its way to the disk, and whom it records.
pub(super) struct Committing {
    pub(super) done: JoinHandle<Applied>,
    recorded: Vec<InstanceId>,
}

impl Live<'_> {
    /// Writes what this turn brought, and what gathered while the last batch was written. This goes on aside, for a disk takes
    /// its time and other steps need not wait; the screen and the scheduler hear of it when it is safe, in the order in which it happened.
    pub(super) fn commit(&mut self) -> Result<(), ExecError> {
        if self.committing.is_some() || self.gather_until().is_some_and(|until| self.clock.now() < until) {
            return Ok(());
        }
        let (commit, recorded) = (self.gathered()?, std::mem::take(&mut self.recorded));
        self.committed_at = self.clock.now();
        if commit.is_quick() {
            return self.tell(commit.apply(), recorded);
        }
        self.committing = Some(Committing { done: spawn_blocking(move || commit.apply()), recorded });
        Ok(())
    }

    /// What is to be written.
    fn gathered(&mut self) -> Result<Commit, ExecError> {
        let (lines, batch) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.batch));
        let commit = self.store.commit(&self.journal, lines, &batch)?;
        Ok(match self.unwritten.take() {
            Some(earlier) => earlier.with(commit),
            None => commit,
        })
    }

    /// Until when results wait for others, or for room; not if there is nothing to write, or if nothing runs that others could come
    /// from.
    pub(super) fn gather_until(&self) -> Option<Time> {
        let pause = if self.unwritten.is_some() { STATUS } else { GATHER };
        let waits = self.unwritten.is_some() || !self.batch.is_empty() || !self.recorded.is_empty();
        (waits && !self.attempts.is_empty()).then(|| self.committed_at + pause)
    }

    pub(super) fn committed(&mut self, done: Result<Applied, JoinError>) -> Result<(), ExecError> {
        let Some(Committing { recorded, .. }) = self.committing.take() else { return Ok(()) };
        let done = done.map_err(|e| ExecError::Fault(format!("the store could not be written: {e}")))?;
        self.tell(done, recorded)?;
        // What has gathered since.
        self.commit()
    }

    /// Where the disk is full while steps run, they run on: what there is to tell waits for room.
    fn tell(&mut self, done: Applied, mut recorded: Vec<InstanceId>) -> Result<(), ExecError> {
        match done {
            Ok(lines) => lines.into_iter().for_each(|line| (self.observe)(Update::Event(line))),
            Err(Unapplied::Nowhere(commit, error)) if error.is_disk_full() && !self.attempts.is_empty() => {
                recorded.append(&mut self.recorded);
                self.recorded = recorded;
                self.unwritten = Some(*commit);
                self.say_unwritten(&error);
                return Ok(());
            }
            Err(unapplied) => return Err(StoreError::from(unapplied).into()),
        }
        self.queue.extend(recorded.into_iter().map(|instance| Event::Recorded { instance }));
        Ok(())
    }

    /// Says, once, that a file of the run cannot be written; on the screen alone, for the journal may be one of them.
    pub(super) fn say_unwritten(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.said_unwritten, true) {
            let event = RunEvent::Notice { instance: None, text: format!("what runs goes on: {error}") };
            (self.observe)(Update::Event(JournalLine { at: clock::unix_millis(), event }));
        }
    }

    pub(crate) fn say(&mut self, mut event: RunEvent) {
        if let RunEvent::Notice { text, .. } | RunEvent::Ended { message: Some(text), .. } = &mut event {
            *text = self.secrets.hide(std::mem::take(text));
        }
        self.lines.push(JournalLine { at: clock::unix_millis(), event });
    }

    /// Says something after the loop has ended.
    pub(crate) fn say_last(&mut self, events: Vec<RunEvent>) -> Result<(), ExecError> {
        events.into_iter().for_each(|event| self.say(event));
        let (commit, recorded) = (self.gathered()?, std::mem::take(&mut self.recorded));
        self.tell(commit.apply(), recorded)
    }
}
