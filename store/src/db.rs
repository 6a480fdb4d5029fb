//! The database: bytes by key in sled, which only this file uses. Knows prefixes and batches, not the meaning of
//! values.
//!
//! A kill makes sled lose acknowledged records, the newest first, unless it is flushed, so a batch that exists nowhere
//! else is followed by a flush. The timer is off. Values above about 128 KB become files that leak when overwritten: a
//! value over [`INLINE`] is stored as an object, and the database has its digest.
//!
//! A kill may happen at any moment of opening. When sled creates a database it writes its configuration in two pieces,
//! so a new one is made in `db.new` and renamed when it is complete. An unfinished snapshot, which sled takes for the
//! newest one, is removed first. Corruption reported by sled is [`StoreError::Damaged`], noted in the folder for the
//! next opening, which may not touch the same page. Errors of the system are [`StoreError::Io`].

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs, io, panic,
    path::{Path, PathBuf},
    sync::{
        Mutex, Once,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use flow_core::reason::{Fault, StoreAction};
use nix::{sys::statvfs::statvfs, unistd::Uid};

use crate::{
    Objects,
    bytes::{EachValue, FoundValue, object_reference},
};
use flow_runs::{Result, StoreDir, StoreError, error::LIMIT, file, tree::remove_tree};

/// Larger values are stored as objects.
const INLINE: usize = 48 << 10;
/// sled writes when it opens. A full disk would damage the database at that moment, so it is not opened with less free
/// space.
const FREE_SPACE: u64 = 1 << 20;
/// sled's folder for large values.
const BLOBS: &str = "blobs";
/// A file in the folder after sled has reported corruption: its message.
const DAMAGED: &str = "damaged";
/// A file in the folder after the database is complete.
const MADE: &str = "made";
/// A record in every database that has lost nothing.
const RECORD: &[u8] = b"made";

pub(crate) struct Db {
    path: PathBuf,
    /// `None` while it is closed.
    sled: Option<sled::Db>,
    has_failed: AtomicBool,
    objects: Objects,
}

/// Closing writes the rest. It panics if that fails, or waits forever if something failed before. The journals have
/// everything, so nothing is lost.
impl Drop for Db {
    fn drop(&mut self) {
        /// How long closing may take after a failure. Open files end with the process.
        const PATIENCE: Duration = Duration::from_secs(2);
        let sled = self.sled.take();
        let close = move || drop(quietly(|| drop(sled)));
        if !self.has_failed.load(Ordering::Relaxed) {
            return close();
        }
        let (closed, waits) = mpsc::channel();
        let closing = thread::Builder::new().name("sled-closing".to_owned()).spawn(move || {
            close();
            let _ = closed.send(());
        });
        if closing.is_ok() {
            let _ = waits.recv_timeout(PATIENCE);
        }
    }
}

/// Values by key; none means deletion.
pub(crate) type DbBatch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Db {
    /// Opens the database, if it exists. The caller holds the store's lock.
    pub(crate) fn open(dir: &StoreDir) -> Result<Option<Db>> {
        let path = dir.db();
        let half = dir.new_db();
        remove_tree(&half)?;
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io(StoreAction::Read, &path)(e)),
        };
        for entry in entries {
            let entry = entry.map_err(StoreError::io(StoreAction::Read, &path))?;
            if entry.file_name().to_string_lossy().ends_with(".generating") {
                fs::remove_file(entry.path()).map_err(StoreError::io(StoreAction::Remove, entry.path()))?;
            } else if entry.file_name() != BLOBS {
                // Writing through a link would overwrite a file outside of the store.
                file::check(&entry.path()).map_err(StoreError::io(StoreAction::Use, entry.path()))?;
            }
        }
        match fs::read_to_string(path.join(DAMAGED)) {
            Ok(detail) => return Err(StoreError::Damaged { path, detail }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(StoreError::io(StoreAction::Read, path.join(DAMAGED))(e)),
        }
        let db = Db::at(dir, path)?;
        db.check_memory()?;
        Ok(Some(db))
    }

    /// Creates a database in `db.new`, to be filled and then [put in place](Db::put_in_place).
    pub(crate) fn create_new(dir: &StoreDir) -> Result<Db> {
        let path = dir.new_db();
        remove_tree(&path)?;
        let db = Db::at(dir, path)?;
        db.mark_made()?;
        Ok(db)
    }

    fn mark_made(&self) -> Result<()> {
        self.write(DbBatch::from([(RECORD.to_vec(), Some(b"1".to_vec()))]))?;
        let made = self.path.join(MADE);
        fs::write(&made, "").map_err(StoreError::io(StoreAction::Write, &made))
    }

    /// Moves the closed new database into place.
    pub(crate) fn put_in_place(dir: &StoreDir) -> Result<()> {
        fs::rename(dir.new_db(), dir.db()).map_err(StoreError::io(StoreAction::MoveIntoPlace, dir.new_db()))?;
        dir.sync_folder()
    }

    fn at(dir: &StoreDir, path: PathBuf) -> Result<Db> {
        if free_space(&dir.database_folder())? < FREE_SPACE {
            let full = format!("less than {} KiB are free on its disk", FREE_SPACE >> 10);
            return Err(StoreError::io(StoreAction::Open, &path)(io::Error::new(io::ErrorKind::StorageFull, full)));
        }
        may_start_threads().map_err(StoreError::io(StoreAction::UseDatabase, &path))?;
        let config = sled::Config::default().path(&path).cache_capacity(64 << 20).flush_every_ms(None);
        // sled's own lock, like ours, can outlive a killed process by a moment.
        let mut tries = 0;
        let sled = loop {
            match guarded(&path, || config.open()) {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock && tries < 300 => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(10));
                }
                Err(StoreError::Io { what, path, source }) if source.kind() == io::ErrorKind::WouldBlock => {
                    let source = io::Error::other("another process has it open");
                    return Err(StoreError::Io { what, path, source });
                }
                opened => break opened?,
            }
        };
        Ok(Db { path, sled: Some(sled), has_failed: AtomicBool::new(false), objects: Objects::of(dir) })
    }

    /// sled takes a file with a damaged start for a new one. A marker file and a record inside reveal this.
    fn check_memory(&self) -> Result<()> {
        match self.call(|sled| sled.contains_key(RECORD))? {
            true => Ok(()),
            false if self.path.join(MADE).exists() => Err(damaged(&self.path, "all its records are lost")),
            false => self.mark_made(),
        }
    }

    fn call<T>(&self, call: impl FnOnce(&sled::Db) -> sled::Result<T>) -> Result<T> {
        let asked = guarded(&self.path, || self.sled.as_ref().map_or(Err(gone()), call));
        asked.inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))
    }

    /// Writes everything or nothing, and returns when no kill can undo it. Waits for the disk, some milliseconds on a
    /// busy one.
    pub(crate) fn write(&self, batch: DbBatch) -> Result<()> {
        self.put(batch)?;
        self.call(|sled| sled.flush()).map(drop)
    }

    /// Writes everything or nothing. A kill can undo it, together with all later writes.
    pub(crate) fn put(&self, batch: DbBatch) -> Result<()> {
        let mut writes = sled::Batch::default();
        for (key, value) in batch {
            match value {
                None => writes.remove(key),
                Some(value) if value.len() > INLINE => {
                    writes.insert(key, object_reference(&self.objects.store_bytes(&value)?.digest));
                }
                Some(value) => writes.insert(key, value),
            }
        }
        self.call(|sled| sled.apply_batch(writes))
    }

    /// The first of these keys that has a value, and the value.
    pub(crate) fn first_of(&self, keys: &[Vec<u8>]) -> Result<FoundValue> {
        for (n, key) in keys.iter().enumerate() {
            if let Some(value) = self.call(|sled| sled.get(key))? {
                return Ok(Some((n, value.to_vec())));
            }
        }
        Ok(None)
    }

    /// Visits all keys with `prefix`, in order.
    pub(crate) fn scan(&self, prefix: &[u8], each: &mut EachValue<'_>) -> Result<()> {
        let mut found = self.call(|sled| Ok(sled.scan_prefix(prefix)))?;
        while let Some((key, value)) = guarded(&self.path, || found.next().transpose())? {
            each(&key, &value)?;
        }
        Ok(())
    }
}

/// Bytes that this user can still write to a folder's disk; `u64::MAX` if the disk does not report it.
///
/// # Errors
/// The folder cannot be reached.
pub fn free_space(folder: &Path) -> Result<u64> {
    let found = statvfs(folder).map_err(|e| StoreError::io(StoreAction::LookAtDisk, folder)(e.into()))?;
    if found.blocks() == 0 {
        // Some user-space file systems report nothing.
        return Ok(u64::MAX);
    }
    // Some blocks are reserved for root.
    let blocks = if Uid::effective().is_root() { found.blocks_free() } else { found.blocks_available() };
    Ok(blocks as u64 * found.fragment_size() as u64)
}

/// sled waits forever for a thread that could not be started.
///
/// # Errors
/// Fewer threads can be started than sled and flow need.
fn may_start_threads() -> io::Result<()> {
    const THREADS: usize = 8;
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // They live until the lock is dropped.
        let _closed = gate.lock();
        (0..THREADS).try_for_each(|_| {
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, || drop(gate.lock())).map(drop)
        })
    })
    .map_err(|e| io::Error::other(format!("{THREADS} threads cannot be started: {e}{LIMIT}")))
}

/// Calls sled and converts its errors. On a damaged file, sled sometimes panics.
fn guarded<T>(path: &Path, call: impl FnOnce() -> sled::Result<T>) -> Result<T> {
    let refused = |source| StoreError::Io { what: StoreAction::UseDatabase, path: path.to_owned(), source };
    let error = match quietly(call) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error,
        Err(panicked) => {
            let words = panicked.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panicked.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
            // It also panics on some unexpected system errors.
            return Err(match system_error(&words) {
                Some(source) => refused(source),
                None => damaged(path, "sled cannot go on reading it"),
            });
        }
    };
    Err(match error {
        sled::Error::Io(source) if source.raw_os_error().is_some() => refused(source),
        sled::Error::Io(source) => match system_error(&source.to_string()) {
            Some(source) => refused(source),
            None if source.kind() == io::ErrorKind::UnexpectedEof => damaged(path, "its file ends too early"),
            None => refused(source.kind().into()),
        },
        // Only this message, about another version, is not damage, if the version is stored as it was written.
        sled::Error::Unsupported(words)
            if words.contains("pagecache version") && is_as_written(&path.join("conf")) != Some(false) =>
        {
            StoreError::Malformed {
                path: path.to_owned(),
                detail: Box::new(Fault::from(
                    "another version of the database wrote it: use that flow, or move it away, and the next run rebuilds it from the runs' journals",
                )),
            }
        }
        sled::Error::ReportableBug(words) => refused(io::Error::other(words)),
        _ => damaged(path, "its contents contradict each other"),
    })
}

/// Whether sled's configuration matches its checksum, which sled itself ignores. None if it cannot be read.
fn is_as_written(conf: &Path) -> Option<bool> {
    let bytes = fs::read(conf).ok()?;
    let (text, checksum) = bytes.split_last_chunk()?;
    Some(crc32fast::hash(text) == u32::from_le_bytes(*checksum))
}

/// Notes the damage for the next opening, if possible.
fn damaged(path: &Path, detail: &str) -> StoreError {
    let _ = fs::write(path.join(DAMAGED), detail);
    StoreError::Damaged { path: path.to_owned(), detail: detail.to_owned() }
}

/// The system's error inside sled's message: `… Os { code: 28, kind: StorageFull, message: "…" }`.
fn system_error(words: &str) -> Option<io::Error> {
    let (_, rest) = words.split_once("Os { code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok().map(io::Error::from_raw_os_error)
}

fn gone() -> sled::Error {
    sled::Error::ReportableBug("the database is closed".into())
}

/// Calls sled without printing its panics, because their messages become our errors.
fn quietly<T>(call: impl FnOnce() -> T) -> thread::Result<T> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            let of_sled = thread::current().name().is_some_and(|name| name.starts_with("sled-"));
            if !of_sled && !QUIET.get() {
                before(panicked);
            }
        }));
    });
    let before = QUIET.replace(true);
    let called = panic::catch_unwind(panic::AssertUnwindSafe(call));
    QUIET.set(before);
    called
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_said_is_found_in_the_words_of_sled() {
        let hidden = r#"called `Result::unwrap()` on an `Err` value: Io(Os { code: 28, kind: StorageFull, message: "No space" })"#;
        let found = system_error(hidden).unwrap();
        assert_eq!((found.raw_os_error(), found.kind()), (Some(28), io::ErrorKind::StorageFull));
        assert!(system_error("index out of bounds").is_none());
        let dir = Path::new("/nowhere/db");
        let said = |error: sled::Error| guarded(dir, || Err::<(), _>(error)).unwrap_err().to_string();
        let cloned = sled::Error::Io(io::Error::new(io::ErrorKind::StorageFull, hidden));
        assert!(said(cloned).contains("No space left on device"));
        let locked = r#"could not acquire lock on "/db": Os { code: 11, kind: WouldBlock, message: "busy" }"#;
        assert!(said(sled::Error::Io(io::Error::other(locked))).contains("temporarily unavailable"));
        let panicked = guarded::<()>(dir, || panic!("{hidden}"));
        assert!(matches!(panicked, Err(StoreError::Io { .. })));
        assert!(matches!(guarded::<()>(dir, || panic!("out of bounds")), Err(StoreError::Damaged { .. })));
    }
}
