//! Removes the copies of inputs and the files of attempts at the end of a run. On a slow disk this takes long, so it
//! counts as part of the run, and a notice says so.

use flow_supervisor::clock;
use std::{
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use super::{EventLoop, Executor};

/// Below this time there is no notice.
const SHORT: Duration = Duration::from_secs(1);
/// Interval between updates of the screen.
const SHOW: Duration = Duration::from_millis(200);

impl<X: Executor> EventLoop<'_, X> {
    /// Removes the files while the screen shows that the run is still busy.
    pub(in crate::driver) fn tidy(&mut self) {
        let context = Arc::clone(&self.context);
        let what = match context.captures.files() {
            0 => "files of steps in their work folders".to_owned(),
            1 => "the copy of an input file".to_owned(),
            files => format!("{files} copies of input files"),
        };
        let (begun, mut notice) = (clock::steady(), Some(format!("cleaning up: removing {what}")));
        let mut leftovers = std::mem::take(&mut self.attempts.leftovers);
        let work = || {
            context.captures.clear();
            leftovers.clear();
        };
        while_it_lasts(work, SHOW, || {
            let text = if clock::since(begun) < SHORT { None } else { notice.take() };
            text.into_iter().for_each(|text| self.screen.notice(text));
            self.show_status(None);
        });
        self.attempts.leftovers = leftovers;
    }
}

/// Runs `work` on another thread and calls `tell` at each interval. Without a thread nothing is done.
fn while_it_lasts(work: impl FnOnce() + Send, each: Duration, mut tell: impl FnMut()) {
    let (doing, done) = channel::<()>();
    thread::scope(|scope| {
        let work = move || {
            let _doing = doing;
            work();
        };
        // If the thread cannot start, the work is dropped, and the channel with it.
        let _ = thread::Builder::new().name("tidy".to_owned()).spawn_scoped(scope, work);
        while done.recv_timeout(each) == Err(RecvTimeoutError::Timeout) {
            tell();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_takes_its_time_is_told_until_it_is_done() {
        let (end, ends) = channel();
        let (mut told, done) = (0, AtomicBool::new(false));
        let is_done = &done;
        let work = move || {
            ends.recv().unwrap();
            is_done.store(true, Ordering::Relaxed);
        };
        while_it_lasts(work, Duration::from_millis(1), || {
            told += 1;
            if told == 3 {
                end.send(()).unwrap();
            }
        });
        assert!(done.into_inner() && told >= 3);
        while_it_lasts(|| (), Duration::from_secs(60), || unreachable!());
    }
}
