//! The database: bytes by key in sled, the only file that names it. Knows prefixes and batches, not what the values mean.
//!
//! sled loses acknowledged records on a kill unless it is flushed, so every batch is followed by a flush and the timer is off.
//! Values above some 128 KB become files that leak when overwritten: a value over [`INLINE`] is kept among the objects, and the
//! database holds its digest.

use std::{
    fs, io, panic,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use flow_core::Digest;
use nix::{sys::statvfs::statvfs, unistd::Uid};

use crate::{Objects, Result, StoreDir, StoreError};

/// Larger values are kept among the objects.
const INLINE: usize = 48 << 10;
/// sled writes when it is opened. Where that fails for want of room the database is damaged: it is not opened with less than this.
const ROOM: u64 = 1 << 20;
/// First byte of a value that stands in an object; JSON never begins with it.
const ELSEWHERE: u8 = b'@';

#[derive(Clone)]
pub(crate) struct Db {
    path: PathBuf,
    sled: sled::Db,
    objects: Objects,
}

#[derive(Default)]
pub(crate) struct DbBatch {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
}

impl DbBatch {
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.puts.push((key, value));
    }

    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.deletes.push(key);
    }

    pub(crate) fn deletes(&self) -> usize {
        self.deletes.len()
    }
}

impl Db {
    /// Opens the database, or makes it. The caller holds the store's lock.
    pub(crate) fn open(dir: &StoreDir) -> Result<Db> {
        let path = dir.db();
        if path.exists() && free(dir.path())? < ROOM {
            let full = format!("less than {} KiB are free on its disk", ROOM >> 10);
            return Err(StoreError::io("open", &path)(io::Error::new(io::ErrorKind::StorageFull, full)));
        }
        let config = sled::Config::default().path(&path).cache_capacity(64 << 20).flush_every_ms(None);
        // The lock of sled itself can outlive a killed process by a moment, as ours can. Its message alone tells.
        let mut tries = 0;
        let sled = loop {
            let opened = guarded(&path, || config.open());
            match opened {
                Err(StoreError::Io { source, .. })
                    if tries < 30 && source.to_string().contains("could not acquire lock") =>
                {
                    tries += 1;
                    thread::sleep(Duration::from_millis(100));
                }
                opened => break opened?,
            }
        };
        let db = Db { path, sled, objects: dir.objects() };
        db.check_memory()?;
        Ok(db)
    }

    /// A file whose beginning is damaged sled takes for a new one. A mark beside it and a record in it tell the difference.
    fn check_memory(&self) -> Result<()> {
        const RECORD: &[u8] = b"made";
        let mark = self.path.join("made");
        if guarded(&self.path, || self.sled.contains_key(RECORD))? {
            return Ok(());
        }
        if mark.exists() {
            return Err(StoreError::Damaged { path: self.path.clone(), detail: "all its records are lost".into() });
        }
        guarded(&self.path, || {
            self.sled.insert(RECORD, b"1")?;
            self.sled.flush()
        })?;
        fs::write(&mark, "").map_err(StoreError::io("write", &mark))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(guarded(&self.path, || self.sled.get(key))?.and_then(|value| self.whole(&value)))
    }

    /// Writes everything or nothing, and returns when no kill can undo it. It waits for the disk, some milliseconds on a busy one.
    pub(crate) fn write(&self, batch: DbBatch) -> Result<()> {
        let mut writes = sled::Batch::default();
        for (key, value) in batch.puts {
            if value.len() > INLINE {
                let object = self.objects.store_bytes(&value)?;
                writes.insert(key, format!("{}{}", char::from(ELSEWHERE), object.digest).into_bytes());
            } else {
                writes.insert(key, value);
            }
        }
        for key in batch.deletes {
            writes.remove(key);
        }
        guarded(&self.path, || {
            self.sled.apply_batch(writes)?;
            self.sled.flush()
        })
        .map(drop)
    }

    /// Every key and value that begins with `prefix`, in order of key; no value where it stands in an object that is lost.
    pub(crate) fn scan(&self, prefix: &[u8], mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>) -> Result<()> {
        let mut found = self.sled.scan_prefix(prefix);
        while let Some(entry) = guarded(&self.path, || found.next().transpose())? {
            each(&entry.0, self.whole(&entry.1).as_deref())?;
        }
        Ok(())
    }

    /// The objects that values stand in, each with its key.
    pub(crate) fn scan_objects(&self, mut each: impl FnMut(&[u8], Digest)) -> Result<()> {
        let mut found = self.sled.iter();
        while let Some((key, value)) = guarded(&self.path, || found.next().transpose())? {
            if let Some(digest) = elsewhere(&value) {
                each(&key, digest);
            }
        }
        Ok(())
    }

    fn whole(&self, value: &[u8]) -> Option<Vec<u8>> {
        match elsewhere(value) {
            Some(digest) => self.objects.read(&digest, "").ok(),
            None => Some(value.to_vec()),
        }
    }
}

/// Bytes that this user can still write on the disk of a folder.
fn free(folder: &Path) -> Result<u64> {
    let found = statvfs(folder).map_err(|e| StoreError::io("look at the disk of", folder)(e.into()))?;
    if found.blocks() == 0 {
        // It tells nothing of itself, as some file systems in user space do.
        return Ok(u64::MAX);
    }
    // Some of it is kept for root.
    let blocks = if Uid::effective().is_root() { found.blocks_free() } else { found.blocks_available() };
    Ok(blocks as u64 * found.fragment_size() as u64)
}

fn elsewhere(value: &[u8]) -> Option<Digest> {
    let (ELSEWHERE, rest) = value.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    std::str::from_utf8(rest).ok()?.parse().ok()
}

/// Calls sled, and turns what it says into our errors. On a damaged file it panics here and there.
fn guarded<T>(path: &Path, call: impl FnOnce() -> sled::Result<T>) -> Result<T> {
    let damaged = |detail: String| StoreError::Damaged { path: path.to_owned(), detail };
    match panic::catch_unwind(panic::AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(source))) => {
            Err(StoreError::Io { what: "use the database", path: path.to_owned(), source })
        }
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(panicked) => {
            let words = panicked.downcast_ref::<String>().cloned();
            Err(damaged(words.or_else(|| panicked.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()))
        }
    }
}
