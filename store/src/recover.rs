//! Opening the database: applies what journals have beyond their marks, and rebuilds a damaged or missing database from
//! them. Uses [`Batch::apply`](crate::Batch), like live recording. Has words only for repairs.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf};

use flow_core::reason::StoreAction;

use crate::{
    db::{Db, DbBatch},
    mutex::lock,
    open_database::OpenDatabase,
};
use flow_runs::{Result, StoreDir, StoreError, mark::mark_key};

/// A database that was rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltDatabase {
    /// The reason.
    pub because: String,
    /// The new place of the old one, if there was one.
    pub moved_to: Option<PathBuf>,
    /// Number of results in the journals.
    pub results: usize,
    pub runs: u32,
}

impl fmt::Display for RebuiltDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (runs, results) = (count(self.runs as usize, "journal"), count(self.results, "result"));
        let because = &self.because;
        write!(f, "the database {because}; it was rebuilt from {runs} with {results}")?;
        match &self.moved_to {
            Some(aside) => write!(f, ", the old one is in {}", aside.display()),
            None => Ok(()),
        }
    }
}

impl OpenDatabase {
    /// The database of a store whose lock the caller holds, with all journals applied.
    pub(crate) fn open(dir: &StoreDir) -> Result<(OpenDatabase, Option<RebuiltDatabase>)> {
        let opened = Db::open(dir).and_then(|db| {
            let core = db.map(|db| OpenDatabase::on(dir, db));
            core.iter().try_for_each(|core| core.catch_up().map(drop)).map(|()| core)
        });
        match opened {
            Ok(Some(core)) => Ok((core, None)),
            Ok(None) => OpenDatabase::rebuild(dir, None),
            Err(StoreError::Damaged { detail, .. }) => OpenDatabase::rebuild(dir, Some(detail)),
            Err(error) => Err(error),
        }
    }

    /// Rebuilds the database from the journals. A damaged one is moved aside after the new one is complete.
    pub(crate) fn rebuild(dir: &StoreDir, damage: Option<String>) -> Result<(OpenDatabase, Option<RebuiltDatabase>)> {
        let new = OpenDatabase::on(dir, Db::create_new(dir)?);
        let runs = new.catch_up()?;
        // Synced before it is renamed into place.
        new.write(DbBatch::default())?;
        let mut results = 0;
        new.scan(b"r", &mut |_, _| {
            results += 1;
            Ok(())
        })?;
        drop(new);
        let aside = damage.is_some().then(|| move_away(dir)).transpose()?;
        Db::put_in_place(dir)?;
        let because = match damage {
            Some(detail) => format!("was damaged ({detail})"),
            None => "was missing".to_owned(),
        };
        let rebuilt = RebuiltDatabase { because, moved_to: aside, results, runs };
        let missing = || StoreError::io(StoreAction::Open, dir.db())(nix::errno::Errno::ENOENT.into());
        let core = OpenDatabase::on(dir, Db::open(dir)?.ok_or_else(missing)?);
        core.catch_up()?;
        // A new store has nothing to report.
        Ok((core, Some(rebuilt).filter(|rebuilt| rebuilt.moved_to.is_some() || rebuilt.results > 0)))
    }

    /// Applies what journals have beyond their marks, including those of living runs. Returns how many were read.
    pub(crate) fn catch_up(&self) -> Result<u32> {
        let marks = self.marks()?;
        // A killed run may have less in the database than one that began after it.
        self.expect_others(true);
        let (mut runs, mut read) = (BTreeMap::new(), 0);
        for run in self.dir.runs()? {
            let (folder, mark) = (self.dir.run(&run), marks.get(&run).copied());
            // Before it is read, because until then it may grow.
            let is_over = folder.is_over();
            let is_known = mark.is_some() && mark == folder.journal_length();
            let to = if is_known { mark } else { self.import_rest(&run)? };
            read += u32::from(!is_known && to.is_some());
            runs.insert(run, (!is_over).then_some(to.unwrap_or(0)));
        }
        let removed: DbBatch =
            marks.keys().filter(|run| !runs.contains_key(run)).map(|run| (mark_key(run), None)).collect();
        if self.is_held() && runs.values().all(Option::is_none) {
            self.expect_others(false);
        }
        lock(&self.followed).runs = runs;
        if removed.is_empty() { Ok(read) } else { self.put(removed, None).map(|()| read) }
    }
}

/// Moves a damaged database to an unused path, and returns that path.
fn move_away(dir: &StoreDir) -> Result<PathBuf> {
    let aside = (1..)
        .map(|n| dir.database_folder().join(format!("db.damaged-{n}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| dir.database_folder().join("db.damaged"));
    fs::rename(dir.db(), &aside).map_err(StoreError::io(StoreAction::MoveAside, dir.db()))?;
    Ok(aside)
}
