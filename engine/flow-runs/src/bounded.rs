//! A file of JSON lines in the folder of a run that only a page reads, so it is not synced. It has few lines and a
//! maximum length.

use std::{
    fs::File,
    io::{self, Write},
    marker::PhantomData,
    path::PathBuf,
};

use flow_core::reason::StoreAction;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Result, StoreError, file, journal::Tail};

/// Maximum length of a file, in bytes.
const LONGEST: u64 = 8 << 20;

/// Writes the lines.
#[derive(Debug)]
pub(crate) struct BoundedLog {
    path: PathBuf,
    /// Shortest time between two lines, in milliseconds.
    every: u64,
    /// Between two lines passes this part of the run's time, so that a long run has few lines.
    part: u64,
    /// When the first line was written, and when the next one may be, milliseconds since 1970.
    began: u64,
    next: u64,
    length: u64,
}

impl BoundedLog {
    pub(crate) fn new(path: PathBuf, every: u64, part: u64) -> BoundedLog {
        BoundedLog { path, every, part, began: 0, next: 0, length: 0 }
    }

    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.next && self.length < LONGEST
    }

    /// No line is due before this time.
    pub(crate) fn pause(&mut self, until: u64) {
        self.next = self.next.max(until);
    }

    /// The next line is the last one. It should say that nothing is known any more.
    pub(crate) fn is_last(&self) -> bool {
        self.length >= LONGEST / 4 * 3
    }

    pub(crate) fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io(StoreAction::Write, &self.path)(error)
    }

    /// # Errors
    /// The disk is full.
    pub(crate) fn append(&mut self, now: u64, line: &impl Serialize) -> Result<()> {
        // Ends a partial line that a full disk left.
        let mut text = b"\n".to_vec();
        serde_json::to_writer(&mut text, line).map_err(|e| self.failed(e.into()))?;
        text.push(b'\n');
        let file = file::open(File::options().append(true).create(true), &self.path);
        file.and_then(|mut file| file.write_all(&text)).map_err(|e| self.failed(e))?;
        self.length = if self.is_last() { LONGEST } else { self.length + text.len() as u64 };
        self.began = if self.began == 0 { now } else { self.began };
        self.pause(now + self.every.max((now - self.began) / self.part));
        Ok(())
    }
}

/// Reads the lines while they are written.
#[derive(Debug)]
pub struct FollowLines<T>(Tail, PhantomData<T>);

impl<T: DeserializeOwned> FollowLines<T> {
    pub(crate) fn new(path: PathBuf) -> FollowLines<T> {
        FollowLines(Tail::new(path), PhantomData)
    }

    /// New lines since the last call. Text that is not such a line is left out.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn poll(&mut self) -> Result<Vec<T>> {
        let new = self.0.poll()?;
        Ok(new.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}
