//! Opening the database: what journals have beyond its mark is put there, and one that is damaged or missing is made anew from
//! them. Through [`Batch::take_in`](crate::Batch), as live recording. Words for people only where something was mended.

use std::{fs, path::PathBuf};

use flow_core::{JournalLine, RunEvent, RunId};

use crate::{
    Batch, Rebuilt, Result, Results, Store, StoreDir, StoreError,
    commit::{MARK, Mark, is_record},
    db::{Db, DbBatch, json},
    lock::Held,
    results::shapes,
};

/// So many results are put into the database at once.
const CHUNK: usize = 512;
/// The mark is moved over what holds no result where it is longer, so that it is not read again and again.
const VAIN: u64 = 1 << 20;

impl Store {
    /// Of a lock that was taken; gives it back with the error.
    pub(crate) fn with(dir: StoreDir, lock: Held) -> Result<Store, (Held, StoreError)> {
        let opened = dir.objects().sweep_workplace().and_then(|()| Db::open(&dir));
        let store = match opened {
            Ok(Some(db)) => Store::of(dir, db, lock),
            Ok(None) => return Store::rebuild(dir, lock, None),
            Err(StoreError::Damaged { detail, .. }) => return Store::rebuild(dir, lock, Some(detail)),
            Err(error) => return Err((lock, error)),
        };
        match store.catch_up() {
            Ok(_) => Ok(store),
            Err(StoreError::Damaged { detail, .. }) => {
                let dir = store.dir().clone();
                Store::rebuild(dir, store.close(), Some(detail))
            }
            Err(error) => Err((store.close(), error)),
        }
    }

    /// Makes the database anew from the journals. A damaged one is moved aside, when the new one is complete.
    pub(crate) fn rebuild(dir: StoreDir, lock: Held, damage: Option<String>) -> Result<Store, (Held, StoreError)> {
        let mut first = DbBatch::default();
        first.put(MARK.to_vec(), json(&Mark { run: RunId(String::new()), to: 0 }));
        let new = match Db::aside(&dir, first) {
            Ok(db) => Store::of(dir.clone(), db, lock),
            Err(error) => return Err((lock, error)),
        };
        let caught = new.catch_up().and_then(|runs| Ok((runs, new.count()?)));
        let lock = new.close();
        let placed = caught.and_then(|(runs, results)| {
            let aside = damage.is_some().then(|| set_aside(&dir)).transpose()?;
            Db::put_in_place(&dir)?;
            let because = match damage {
                Some(detail) => format!("was damaged ({detail})"),
                None => "was missing".to_owned(),
            };
            Ok(Rebuilt { because, aside, results, runs })
        });
        let opened = placed.and_then(|rebuilt| Ok((rebuilt, Db::open(&dir)?)));
        match opened {
            Ok((rebuilt, Some(db))) => {
                // Of a new store there is nothing to tell.
                let rebuilt = Some(rebuilt).filter(|rebuilt| rebuilt.aside.is_some() || rebuilt.results > 0);
                let mut store = Store::of(dir, db, lock);
                store.rebuilt = rebuilt;
                Ok(store)
            }
            Ok((_, None)) => Err((lock, StoreError::io("open", dir.db())(nix::errno::Errno::ENOENT.into()))),
            Err(error) => Err((lock, error)),
        }
    }

    /// Puts into the database what journals have beyond its mark, and says how many of them were read.
    fn catch_up(&self) -> Result<u32> {
        let runs = self.dir().runs()?;
        let Some(mark) = self.mark()? else {
            return self.adopt(&runs).map(|()| 0);
        };
        let (mut read, mut vain, mut newest) = (0, 0, None);
        for run in runs.into_iter().filter(|run| *run >= mark.run) {
            let mut to = if run == mark.run { mark.to } else { 0 };
            let Some(mut lines) = self.dir().run(&run).lines(to)? else { continue };
            read += 1;
            loop {
                let recorded = next_records(&mut lines)?;
                let end = Mark { run: run.clone(), to: lines.to };
                if recorded.is_empty() {
                    vain += lines.to - to;
                    newest = Some(end);
                    break;
                }
                vain = 0;
                to = lines.to;
                self.put(&recorded, end)?;
            }
        }
        match newest {
            Some(newest) if vain > VAIN => self.move_mark(newest)?,
            _ => {}
        }
        Ok(read)
    }

    /// An earlier flow wrote the database before the journals: it has all that these have.
    fn adopt(&self, runs: &[RunId]) -> Result<()> {
        for run in runs.iter().rev() {
            let path = self.dir().run(run).journal();
            match fs::metadata(&path) {
                Ok(meta) => return self.move_mark(Mark { run: run.clone(), to: meta.len() }),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::io("look at", &path)(e)),
            }
        }
        self.move_mark(Mark { run: RunId(String::new()), to: 0 })
    }

    /// Puts records into the database, and the mark behind them. Once: one that is there already, an earlier flow that came
    /// in between has put there.
    fn put(&self, recorded: &[JournalLine], mark: Mark) -> Result<()> {
        let mut missing = Vec::new();
        for line in recorded {
            if self.lacks(&line.event)? {
                missing.push(line.clone());
            }
        }
        let mut writes = self.writes(&missing, &Batch::new())?;
        writes.put(MARK.to_vec(), json(&mark));
        self.write(writes)
    }

    fn lacks(&self, record: &RunEvent) -> Result<bool> {
        Ok(match record {
            RunEvent::Recorded { result, .. } => {
                let kept = self.result(&result.fingerprint)?;
                kept.is_none_or(|kept| (&kept.run, kept.ended_at) != (&result.run, result.ended_at))
            }
            RunEvent::Observed { result } => {
                let [instance, _] = shapes(&result.workflow, &result.step, &result.label);
                let seen = self.history(&instance)?;
                !seen.iter().any(|seen| (&seen.run, seen.at) == (&result.run, result.ended_at))
            }
            RunEvent::Tried { workflow, label, run, .. } => {
                self.last(workflow, label)?.is_none_or(|last| last.run <= *run)
            }
            RunEvent::Forgotten { fingerprint, .. } => self.result(fingerprint)?.is_some(),
            _ => false,
        })
    }
}

/// The next records of a journal, as many as are put into the database at once.
fn next_records(lines: &mut crate::run::Lines) -> Result<Vec<JournalLine>> {
    let mut recorded = Vec::new();
    while recorded.len() < CHUNK {
        match lines.next_line()? {
            Some(line) => recorded.extend(line.filter(is_record)),
            None => break,
        }
    }
    Ok(recorded)
}

/// Moves a damaged database to where nothing is yet, and says where that is.
fn set_aside(dir: &StoreDir) -> Result<PathBuf> {
    let aside = (1..)
        .map(|n| dir.path().join(format!("db.damaged-{n}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| dir.path().join("db.damaged"));
    fs::rename(dir.db(), &aside).map_err(StoreError::io("move aside", dir.db()))?;
    Ok(aside)
}
