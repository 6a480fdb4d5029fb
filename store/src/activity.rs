//! Hashing and copying that may take long: whoever waits can end it, and see its progress.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::mutex::lock;

/// Work on files that can be ended. Clones are the same activity.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    ended: Arc<AtomicBool>,
    current: Arc<Mutex<Option<WorkProgress>>>,
}

/// The current work of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkProgress {
    /// `hashing`, `copying`, `reading`.
    pub verb: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Bytes done, of this total.
    pub done: u64,
    pub total: u64,
}

/// While it exists, this is the displayed work of the activity.
pub struct ShownWork<'a>(Option<&'a Activity>);

impl Activity {
    /// An activity that ends with this one and shows its own progress.
    #[must_use]
    pub fn part(&self) -> Activity {
        Activity { ended: Arc::clone(&self.ended), current: Arc::default() }
    }

    /// Ends it: hashing or copying fails at its next block.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn doing(&self) -> Option<WorkProgress> {
        lock(&self.current).clone().map(|work| WorkProgress { done: work.done.min(work.total), ..work })
    }

    /// Shows a piece of work, unless it is part of the one that is shown.
    #[must_use]
    pub fn begin(&self, verb: &'static str, path: &Path, total: u64) -> ShownWork<'_> {
        let mut current = lock(&self.current);
        if current.is_some() {
            return ShownWork(None);
        }
        *current = Some(WorkProgress { verb, path: path.to_owned(), done: 0, total });
        ShownWork(Some(self))
    }

    /// Adds to the number of bytes that are done.
    pub fn advance(&self, bytes: u64) {
        if let Some(current) = &mut *lock(&self.current) {
            current.done += bytes;
        }
    }

    /// # Errors
    /// It was ended.
    pub fn check(&self) -> io::Result<()> {
        if self.is_ended() { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }
}

impl Drop for ShownWork<'_> {
    fn drop(&mut self) {
        if let Some(activity) = self.0 {
            *lock(&activity.current) = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_with_the_whole_and_shows_its_own_progress() {
        let whole = Activity::default();
        let part = whole.part();
        let folder = part.begin("hashing", Path::new("out"), 100);
        let file = part.begin("copying", Path::new("out/a"), 10);
        part.advance(7);
        drop(file);
        let doing = WorkProgress { verb: "hashing", path: "out".into(), done: 7, total: 100 };
        assert_eq!((part.doing(), whole.doing()), (Some(doing), None));
        drop(folder);
        assert_eq!((part.doing(), part.is_ended()), (None, false));
        whole.end();
        assert!(part.check().is_err());
    }
}
