//! The wait of the live loop: for the first event, or for the next time at which something is due.

use std::{
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use flow_core::Time;

use super::{EventLoop, LoopEvent};
use crate::{
    ExecError,
    driver::executor::{self, Executor},
};

/// Interval between checks whether background jobs wait for the holder of the store.
const SILENT: Duration = Duration::from_secs(1);
/// Interval between checks of the GPUs that a step waits for.
const WATCH: Duration = Duration::from_millis(500);

impl<X: Executor> EventLoop<'_, X> {
    pub(super) async fn wait(&mut self) -> Result<LoopEvent, ExecError> {
        let now = self.clock.now();
        let span = |at: Time| Duration::from_micros((at - now).0);
        let until_wake = self.scheduler.next_wake().filter(|_| !self.peers.is_busy()).map(span);
        let until_room = self.peers.sleep(now, &self.scheduler);
        let listening = self.attempts.listen_in().filter(|_| !self.background.is_listening());
        let listening = listening.map(|pause| span(self.listened_at + pause));
        let watching = (self.gpus.is_watching() && self.wants_gpus()).then_some(WATCH);
        // Pending work wakes the loop by itself. The interval is for the notice that it waits for the holder of the
        // store.
        let aside = (self.recorder.is_committing() || !self.background.is_idle()).then_some(SILENT);
        let gathering = self.recorder.gather_until(self.load());
        let gathering = gathering.filter(|_| !self.recorder.is_committing()).map(span);
        let theirs = self.deferred.due().map(span);
        let giving_up = self.gives_up_at.filter(|at| now < *at).map(span);
        let dues = [until_wake, until_room, gathering, listening, watching, aside, theirs, giving_up];
        let Some(pause) = dues.into_iter().flatten().min() else {
            return Err(ExecError::Fault("nothing is running or due, but some steps are not settled".to_owned()));
        };
        tokio::select! {
            biased;
            end = self.cancel.next_request() => Ok(LoopEvent::Interrupt(end)),
            done = self.recorder.committed() => Ok(LoopEvent::Committed(done)),
            event = self.attempts.executor.next_event() => Ok(LoopEvent::Executor(event?)),
            done = self.background.next() => Ok(LoopEvent::Job(done?)),
            () = self.gpus.looked(), if !self.background.is_listening() => Ok(LoopEvent::Time),
            () = tokio::time::sleep(pause) => Ok(LoopEvent::Time),
        }
    }

    /// An event that is available without waiting.
    pub(super) fn event_now(&mut self) -> Result<Option<executor::Event>, ExecError> {
        let next = pin!(self.attempts.executor.next_event());
        match next.poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(event) => Ok(Some(event?)),
            Poll::Pending => Ok(None),
        }
    }
}
