//! The holder's database: applies journal lines to it, from any process. Knows no sockets.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use flow_core::{JournalLine, RunId, reason::StoreAction};

use crate::{
    Batch, Objects, Result, StoreDir, StoreError,
    bytes::{Bytes, Each, Found, attempt_key, history_key, json, last_key, parse, result_key},
    db::{Db, DbBatch},
    journal::Lines,
    mark::{MARK, Mark, is_record, mark_key},
    results::{attempt_of, is_same_attempt},
    rings::Rings,
    wire::{Answer, PAGE, Request},
};

/// Number of results that are applied in one batch.
const CHUNK: usize = 512;

/// A database that this process holds.
pub(crate) struct OpenDatabase {
    pub(crate) dir: StoreDir,
    pub(crate) db: Db,
    rings: Rings,
    /// One write at a time: of two that replace the same value, the last one wins, here and in `rings`.
    recording: Mutex<()>,
    /// Ended runs whose journals were applied completely.
    ended: Mutex<BTreeSet<RunId>>,
    /// Other processes have recorded since it was opened.
    is_shared: AtomicBool,
}

impl Bytes for OpenDatabase {
    fn objects(&self) -> &Objects {
        self.db.objects()
    }

    fn first(&self, of: &[Vec<Vec<u8>>]) -> Result<Vec<Found>> {
        self.db.first(of)
    }

    fn scan(&self, prefixes: &[Vec<u8>], each: &mut Each<'_>) -> Result<()> {
        self.db.scan(prefixes, each)
    }
}

impl OpenDatabase {
    pub(crate) fn on(dir: &StoreDir, db: Db) -> OpenDatabase {
        OpenDatabase {
            dir: dir.clone(),
            db,
            rings: Rings::default(),
            recording: Mutex::default(),
            ended: Mutex::default(),
            is_shared: AtomicBool::new(false),
        }
    }

    /// The answers to these requests: at least one, and as many as fit into one frame.
    ///
    /// # Errors
    /// The first one failed.
    pub(crate) fn answer(&self, requests: &[Request]) -> Result<Vec<Answer>> {
        let (mut answers, mut bytes) = (Vec::with_capacity(requests.len()), 0);
        for request in requests {
            let answer = match self.answer_one(request) {
                Ok(answer) => answer,
                Err(error) if answers.is_empty() => return Err(error),
                Err(_) => break,
            };
            bytes += answer.size();
            answers.push(answer);
            if bytes >= PAGE {
                break;
            }
        }
        Ok(answers)
    }

    fn answer_one(&self, request: &Request) -> Result<Answer> {
        match request {
            Request::First(keys) => self.db.first_of(keys).map(Answer::First),
            Request::TakeInEnded => self.take_in_ended().map(|()| Answer::Done),
            Request::Scan { prefix, after } => self.page(prefix, after.as_deref()),
            Request::Write(writes) => self.write(DbBatch::of_writes(writes.clone())).map(|()| Answer::Done),
            Request::Begin(run) => self.begin(&RunId(run.clone())).map(|()| Answer::Done),
            Request::Record { run, to } => self.record(&RunId(run.clone()), *to).map(|()| Answer::Done),
        }
    }

    /// A page of entries with `prefix` after a key, and whether there are more.
    fn page(&self, prefix: &[u8], after: Option<&[u8]>) -> Result<Answer> {
        let (mut entries, mut bytes, mut more) = (Vec::new(), 0, false);
        self.db.scan_behind(prefix, after, &mut |key, value| {
            if bytes >= PAGE {
                more = true;
                return Ok(ControlFlow::Break(()));
            }
            bytes += key.len() + value.len();
            entries.push((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Answer::Page { entries, more })
    }

    /// The writes for lines of a run's journal, together with a batch.
    pub(crate) fn writes(&self, run: &RunId, lines: &[JournalLine], batch: &Batch) -> Result<DbBatch> {
        let mut recorded = Batch::new();
        lines.iter().for_each(|line| recorded.take_in(line));
        if self.is_shared.load(Ordering::Relaxed) {
            self.leave_later(run, &mut recorded)?;
        }
        let mut writes = DbBatch::default();
        for digest in recorded.forgotten.iter().chain(&batch.forgotten) {
            writes.delete(result_key(digest));
        }
        for batch in [&recorded, batch] {
            put_values(batch, &mut writes);
            for (shape, observation) in &batch.observed {
                if let Some(slot) = self.rings.place(self, shape, observation)? {
                    writes.put(history_key(shape, Some(slot)), json(observation));
                }
            }
            for (shape, observation) in &batch.observed_again {
                self.each(&history_key(shape, None), &mut |key, value| {
                    if parse(value).is_some_and(|seen| is_same_attempt(&seen, observation)) {
                        writes.put(key.to_vec(), json(observation));
                    }
                })?;
            }
        }
        Ok(writes)
    }

    /// Drops records that a run with a later id has replaced, as if the journals were read one by one.
    fn leave_later(&self, run: &RunId, recorded: &mut Batch) -> Result<()> {
        let (results, last) = (std::mem::take(&mut recorded.results), std::mem::take(&mut recorded.last));
        for result in results {
            if self.result(&result.fingerprint)?.is_none_or(|kept| kept.run <= *run) {
                recorded.results.push(result);
            }
        }
        for (workflow, label, made) in last {
            if self.last(&workflow, &label)?.is_none_or(|kept| kept.run <= *run) {
                recorded.last.push((workflow, label, made));
            }
        }
        Ok(())
    }

    /// Applies lines of a run's journal, which is on disk up to `to`, and changes that no journal contains. Data in the
    /// journal is not synced a second time.
    pub(crate) fn commit(&self, run: &RunId, lines: &[JournalLine], only_here: DbBatch, to: Option<u64>) -> Result<()> {
        let _one = self.one_at_a_time();
        let is_only_here = only_here.len() > 0;
        let mut writes = only_here;
        // Deletions first: a forgotten result may be recorded again in these lines.
        writes.append(self.writes(run, lines, &Batch::new())?);
        if let Some(to) = to {
            writes.put(mark_key(run), json(&to));
        }
        match writes.len() {
            0 => Ok(()),
            _ if is_only_here => self.write(writes),
            _ => self.put(writes),
        }
    }

    /// Writes everything or nothing; a kill can undo it.
    pub(crate) fn put(&self, writes: DbBatch) -> Result<()> {
        self.db.put(writes).inspect_err(|_| self.rings.forget())
    }

    /// Writes everything or nothing, and returns when no kill can undo it.
    pub(crate) fn write(&self, writes: DbBatch) -> Result<()> {
        self.db.write(writes).inspect_err(|_| self.rings.forget())
    }

    /// Starts a run with a mark of its own, because other runs may write at the same time.
    pub(crate) fn begin(&self, run: &RunId) -> Result<()> {
        let _one = self.one_at_a_time();
        let mut writes = DbBatch::default();
        writes.put(mark_key(run), json(&0_u64));
        let is_behind = match self.mark()? {
            // Newer runs were removed while the clock was ahead, or a run named after this one was faster. This run
            // must be replayed, and those must not be read twice.
            Some(base) if base.run >= *run => {
                if base.run > *run && self.value::<u64>(mark_key(&base.run))?.is_none() {
                    writes.put(mark_key(&base.run), json(&base.to));
                }
                writes.put(MARK.to_vec(), json(&Mark { run: run.clone(), to: 0, shared: base.shared }));
                true
            }
            _ => false,
        };
        // Synced, because later snapshots must know that two runs overlapped.
        let is_one_of_many = !self.marks()?.is_empty();
        if is_behind || is_one_of_many { self.write(writes) } else { self.put(writes) }
    }

    /// The journal of a run is on disk up to `to`: applies its new part.
    pub(crate) fn record(&self, run: &RunId, to: u64) -> Result<()> {
        let _one = self.one_at_a_time();
        let base = self.mark()?.unwrap_or_else(Mark::none);
        let from = self.rest_of(&base, run)?;
        if to <= from {
            return Ok(());
        }
        self.expect_others();
        let path = self.dir.run(run).journal();
        let Some(lines) = self.dir.run(run).lines_to(from, to)? else {
            return Err(StoreError::io(StoreAction::Read, &path)(nix::errno::Errno::ENOENT.into()));
        };
        let read_to = self.take_in(run, lines, from, |_| Ok(true))?.1;
        if read_to < to {
            let detail = format!("it was to have whole lines up to byte {to}, and has them up to {read_to}");
            return Err(StoreError::Malformed { path, detail: Box::new(detail.into()) });
        }
        Ok(())
    }

    /// Applies unreported journal lines of runs that began since the store was opened and have ended.
    pub(crate) fn take_in_ended(&self) -> Result<()> {
        let ended = || self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for run in self.marks()?.into_keys() {
            if !ended().contains(&run) && self.dir.run(&run).lives().is_none() {
                self.take_in_rest(&run)?;
                ended().insert(run);
            }
        }
        Ok(())
    }

    /// Applies what a run's journal has beyond its mark, whether it was reported or not.
    pub(crate) fn take_in_rest(&self, run: &RunId) -> Result<()> {
        let _one = self.one_at_a_time();
        let base = self.mark()?.unwrap_or_else(Mark::none);
        let from = self.rest_of(&base, run)?;
        let Some(to) = self.dir.run(run).settled()? else { return Ok(()) };
        match self.dir.run(run).lines_to(from, to)? {
            Some(lines) if to > from => {
                self.expect_others();
                lines.sync()?;
                self.take_in(run, lines, from, |_| Ok(true)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Applies those records of a journal that `lacks` reports as missing, with the mark after each chunk. Returns the
    /// end of the last record, and how far it read.
    pub(crate) fn take_in(
        &self,
        run: &RunId,
        mut lines: Lines,
        from: u64,
        lacks: impl Fn(&JournalLine) -> Result<bool>,
    ) -> Result<(u64, u64)> {
        let mut marked = from;
        loop {
            let recorded = next_records(&mut lines)?;
            if recorded.is_empty() {
                return Ok((marked, lines.to));
            }
            let mut missing = Vec::with_capacity(recorded.len());
            for line in recorded {
                if lacks(&line)? {
                    missing.push(line);
                }
            }
            let mut writes = self.writes(run, &missing, &Batch::new())?;
            marked = lines.to;
            writes.put(mark_key(run), json(&marked));
            self.put(writes)?;
        }
    }

    /// From here on, records may be older than stored ones.
    pub(crate) fn expect_others(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// From here on not, until another process records.
    pub(crate) fn expect_nobody(&self) {
        self.is_shared.store(false, Ordering::Relaxed);
    }

    /// The offset in a run's journal from which the database has nothing yet.
    pub(crate) fn rest_of(&self, base: &Mark, run: &RunId) -> Result<u64> {
        Ok(base.rest_of(run, self.value(mark_key(run))?))
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the values of a batch that have keys of their own.
fn put_values(batch: &Batch, writes: &mut DbBatch) {
    for result in &batch.results {
        writes.put(result_key(&result.fingerprint), json(result));
        if let Some(attempt) = attempt_of(result) {
            writes.put(attempt_key(&attempt), json(&result.fingerprint));
        }
    }
    for (attempt, reading) in &batch.attempts {
        match reading {
            Some(reading) => writes.put(attempt_key(attempt), json(reading)),
            None => writes.delete(attempt_key(attempt)),
        }
    }
    for (workflow, label, last) in &batch.last {
        writes.put(last_key(workflow, label), json(last));
    }
}

/// The writes for a batch that no journal contains. It has no observations.
pub(crate) fn unjournalled(batch: &Batch) -> DbBatch {
    let mut writes = DbBatch::default();
    batch.forgotten.iter().for_each(|digest| writes.delete(result_key(digest)));
    put_values(batch, &mut writes);
    writes
}

/// The next records of a journal, at most [`CHUNK`].
fn next_records(lines: &mut Lines) -> Result<Vec<JournalLine>> {
    let mut recorded = Vec::new();
    while recorded.len() < CHUNK {
        match lines.next_line()? {
            Some(line) => recorded.extend(line.filter(is_record)),
            None => break,
        }
    }
    Ok(recorded)
}
