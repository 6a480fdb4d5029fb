//! Opening the database: applies what journals have beyond their marks, and rebuilds a damaged or missing database from
//! them. Uses [`Batch::take_in`](crate::Batch), like live recording. Has words only for repairs.

use std::{fmt, fs, path::PathBuf};

use flow_core::{RunEvent, RunId, reason::StoreAction};

use crate::{
    Result, StoreDir, StoreError,
    bytes::{Bytes, json},
    db::{Db, DbBatch},
    mark::{MARK, Mark, mark_key},
    open_database::OpenDatabase,
    results::shapes,
};

/// A longer part of a journal without results is covered by the base mark, so that it is not read every time.
const VAIN: u64 = 1 << 20;

/// A database that was rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The reason.
    pub because: String,
    /// The new place of the old one, if there was one.
    pub aside: Option<PathBuf>,
    /// Number of results in the journals.
    pub results: usize,
    pub runs: u32,
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (runs, results) = (count(self.runs as usize, "journal"), count(self.results, "result"));
        let because = &self.because;
        write!(f, "the database {because}; it was rebuilt from {runs} with {results}")?;
        match &self.aside {
            Some(aside) => write!(f, ", the old one is in {}", aside.display()),
            None => Ok(()),
        }
    }
}

impl OpenDatabase {
    /// The database of a store whose lock the caller holds, with all journals applied.
    pub(crate) fn open(dir: &StoreDir) -> Result<(OpenDatabase, Option<Rebuilt>)> {
        let core = match Db::open(dir) {
            Ok(Some(db)) => OpenDatabase::on(dir, db),
            Ok(None) => return OpenDatabase::rebuild(dir, None),
            Err(StoreError::Damaged { detail, .. }) => return OpenDatabase::rebuild(dir, Some(detail)),
            Err(error) => return Err(error),
        };
        match core.catch_up() {
            Ok(_) => Ok((core, None)),
            Err(StoreError::Damaged { detail, .. }) => {
                drop(core);
                OpenDatabase::rebuild(dir, Some(detail))
            }
            Err(error) => Err(error),
        }
    }

    /// Rebuilds the database from the journals. A damaged one is moved aside after the new one is complete.
    pub(crate) fn rebuild(dir: &StoreDir, damage: Option<String>) -> Result<(OpenDatabase, Option<Rebuilt>)> {
        let mut first = DbBatch::default();
        // It may lack what snapshots of earlier runs depend on.
        first.put(MARK.to_vec(), json(&Mark { shared: dir.runs()?.pop(), ..Mark::none() }));
        let new = OpenDatabase::on(dir, Db::aside(dir, first)?);
        let runs = new.catch_up()?;
        // Synced before it is renamed into place.
        new.write(DbBatch::default())?;
        let mut results = 0;
        new.scan(&[b"r".to_vec()], &mut |_, _, _| {
            results += 1;
            Ok(())
        })?;
        drop(new);
        let aside = damage.is_some().then(|| set_aside(dir)).transpose()?;
        Db::put_in_place(dir)?;
        let because = match damage {
            Some(detail) => format!("was damaged ({detail})"),
            None => "was missing".to_owned(),
        };
        let rebuilt = Rebuilt { because, aside, results, runs };
        let missing = || StoreError::io(StoreAction::Open, dir.db())(nix::errno::Errno::ENOENT.into());
        let core = OpenDatabase::on(dir, Db::open(dir)?.ok_or_else(missing)?);
        // A new store has nothing to report.
        Ok((core, Some(rebuilt).filter(|rebuilt| rebuilt.aside.is_some() || rebuilt.results > 0)))
    }

    /// Applies what journals have beyond their marks, including those of living runs. Returns how many were read.
    fn catch_up(&self) -> Result<u32> {
        let runs = self.dir.runs()?;
        let base = match self.mark()? {
            Some(base) => base,
            // The database is new.
            None => {
                let base = Mark::none();
                self.move_mark(&base)?;
                base
            }
        };
        let (mut read, mut vain, mut newest) = (0, 0, None);
        // A killed run may have less in the database than one that began after it.
        self.expect_others();
        for run in runs.into_iter().filter(|run| *run >= base.run) {
            let from = self.rest_of(&base, &run)?;
            let folder = self.dir.run(&run);
            let Some(to) = folder.settled()? else { continue };
            let Some(lines) = folder.lines_to(from, to.max(from))? else { continue };
            read += 1;
            if to > from {
                lines.sync()?;
            }
            let (marked, end) = self.take_in(&run, lines, from, |line| self.lacks(&line.event))?;
            vain = if marked > from { end - marked } else { vain + (end - from) };
            newest = Some((run, end));
        }
        let living: Vec<RunId> = self.dir.living()?.into_iter().filter_map(|who| who.run).collect();
        // This process is one of them.
        if living.len() <= 1 {
            self.expect_nobody();
        }
        // A run that has not begun will apply everything itself.
        let open = living.into_iter().filter(|run| self.dir.run(run).journal().exists()).collect();
        self.fold(&base, open, newest.filter(|_| vain > VAIN))?;
        Ok(read)
    }

    /// Moves the base mark over ended runs, and removes marks that are no longer needed. `open`: the living runs;
    /// `over`: an offset up to which journals contain no result.
    fn fold(&self, base: &Mark, open: Vec<RunId>, over: Option<(RunId, u64)>) -> Result<()> {
        let marks = self.marks()?;
        let (mut folded, kept) = base.folded(&marks, &open);
        let mut writes = DbBatch::default();
        if let Some((run, to)) = over.filter(|_| open.is_empty()) {
            (folded.run, folded.to) = (run, to);
        }
        marks.keys().filter(|run| !kept.contains(run)).for_each(|run| writes.delete(mark_key(run)));
        if folded != *base {
            writes.put(MARK.to_vec(), json(&folded));
        }
        if writes.len() == 0 { Ok(()) } else { self.put(writes) }
    }

    pub(crate) fn move_mark(&self, mark: &Mark) -> Result<()> {
        let mut writes = DbBatch::default();
        writes.put(MARK.to_vec(), json(mark));
        self.write(writes)
    }

    /// Whether a record is missing. A journal without a mark is read from its beginning.
    fn lacks(&self, record: &RunEvent) -> Result<bool> {
        Ok(match record {
            RunEvent::Recorded { result, .. } => {
                let kept = self.result(&result.fingerprint)?;
                kept.is_none_or(|kept| (&kept.run, kept.ended_at) != (&result.run, result.ended_at))
            }
            RunEvent::Observed { result } => {
                let [instance, _] = shapes(&result.workflow, &result.step, &result.label);
                let seen = self.histories(&[instance])?;
                !seen.iter().flatten().any(|seen| (&seen.run, seen.at) == (&result.run, result.ended_at))
            }
            RunEvent::Tried { workflow, label, run, .. } => {
                self.last(workflow, label)?.is_none_or(|last| last.run <= *run)
            }
            RunEvent::Forgotten { fingerprint, .. } => self.result(fingerprint)?.is_some(),
            // Its results may be among those read with it.
            RunEvent::Dropped { .. } => true,
            _ => false,
        })
    }
}

/// Moves a damaged database to an unused path, and returns that path.
fn set_aside(dir: &StoreDir) -> Result<PathBuf> {
    let aside = (1..)
        .map(|n| dir.database_folder().join(format!("db.damaged-{n}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| dir.database_folder().join("db.damaged"));
    fs::rename(dir.db(), &aside).map_err(StoreError::io(StoreAction::MoveAside, dir.db()))?;
    Ok(aside)
}
