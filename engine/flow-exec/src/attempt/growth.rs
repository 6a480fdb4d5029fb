//! When a log grew: a thread that looks at nothing but the lengths of files, so that a line has the time at which it was written
//! and not the one at which somebody got round to reading it. Keeps logs within their bounds; reads none.

use std::{
    collections::VecDeque,
    fs, io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::Duration,
};

use super::log;
use crate::clock;

/// How often logs are looked at.
const EVERY: Duration = Duration::from_millis(50);

/// The running thread. Dropping it ends it.
#[derive(Debug)]
pub struct Growths(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    logs: Vec<Weak<Growth>>,
    stop: bool,
}

/// How one log grew, as far as nobody has asked for it yet.
#[derive(Debug)]
pub struct Growth {
    path: PathBuf,
    /// Somebody will ask when it grew.
    timed: bool,
    /// It had this length at this time, seconds since 1970; both only rise.
    marks: Mutex<VecDeque<(u64, f64)>>,
    bound: Mutex<Bound>,
}

/// How a log is kept within its bounds.
#[derive(Debug, Default)]
struct Bound {
    /// So far it was given back.
    given: u64,
    /// It cannot be, and has grown too long: why, in words.
    too_long: Option<String>,
}

impl Growths {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start() -> io::Result<Growths> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("logs".into()).spawn(move || theirs.run())?;
        Ok(Growths(shared))
    }

    /// Follows a file, which need not be there yet, for as long as the answer is kept; `timed`, with the times of its growth.
    pub fn follow(&self, path: PathBuf, timed: bool) -> Arc<Growth> {
        let growth = Arc::new(Growth { path, timed, marks: Mutex::default(), bound: Mutex::default() });
        lock(&self.0.state).logs.push(Arc::downgrade(&growth));
        self.0.wake.notify_all();
        growth
    }
}

impl Drop for Growths {
    fn drop(&mut self) {
        lock(&self.0.state).stop = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = lock(&self.state);
        while !state.stop {
            state.logs.retain(|log| log.strong_count() > 0);
            if state.logs.is_empty() {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let logs: Vec<Arc<Growth>> = state.logs.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            logs.iter().for_each(|log| log.look());
            drop(logs);
            // One that is new is looked at with the others.
            thread::sleep(EVERY);
            state = lock(&self.state);
        }
    }
}

impl Growth {
    fn look(&self) {
        let Ok(found) = fs::symlink_metadata(&self.path) else { return };
        if !found.is_file() {
            return;
        }
        if self.timed {
            self.mark(found.len(), clock::unix_seconds());
        }
        let mut bound = lock(&self.bound);
        if let Err(e) = log::shorten(&self.path, found.len(), &mut bound.given)
            && found.len() > log::LONGEST
        {
            let mib = log::LONGEST >> 20;
            bound.too_long = Some(format!(
                "it printed more than {mib} MiB, and the file system cannot drop the middle of a log ({e})"
            ));
        }
    }

    /// Why the program has to be ended, if its log takes too much of the disk.
    pub(crate) fn too_long(&self) -> Option<String> {
        lock(&self.bound).too_long.clone()
    }

    /// It has this length now.
    pub(crate) fn mark(&self, length: u64, now: f64) {
        let mut marks = lock(&self.marks);
        if marks.back().map_or(length > 0, |(last, _)| length > *last) {
            marks.push_back((length, now));
        }
    }

    /// When what ends there was first seen, if it was; what lies before is not asked for again.
    pub(crate) fn seen(&self, end: u64) -> Option<f64> {
        let mut marks = lock(&self.marks);
        // The last one stays: it says how far the log was seen.
        while marks.len() > 1 && marks.front().is_some_and(|(length, _)| *length < end) {
            marks.pop_front();
        }
        marks.front().filter(|(length, _)| *length >= end).map(|(_, at)| *at)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What they hold is sound after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_has_the_time_at_which_it_was_first_seen() {
        let growth = Growth { path: PathBuf::new(), timed: true, marks: Mutex::default(), bound: Mutex::default() };
        assert_eq!(growth.seen(5), None);
        for (length, now) in [(0, 1.0), (10, 2.0), (10, 3.0), (30, 4.0), (20, 5.0), (40, 6.0)] {
            growth.mark(length, now);
        }
        let seen = [5, 10, 11, 30, 31, 40, 41].map(|end| growth.seen(end));
        assert_eq!(seen, [Some(2.0), Some(2.0), Some(4.0), Some(4.0), Some(6.0), Some(6.0), None]);
        growth.mark(40, 7.0);
        growth.mark(41, 8.0);
        assert_eq!(growth.seen(41), Some(8.0));
    }

    #[test]
    fn a_log_is_followed_as_long_as_somebody_wants_to_know() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let growths = Growths::start().unwrap();
        let growth = growths.follow(path.clone(), true);
        let before = clock::unix_seconds();
        fs::write(&path, "epoch 1\n").unwrap();
        let at = loop {
            match growth.seen(8) {
                Some(at) => break at,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        assert!(at >= before && at <= clock::unix_seconds(), "{before} {at}");
        let weak = Arc::downgrade(&growth);
        drop(growth);
        while weak.strong_count() > 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
