//! Bringing a store of an earlier format over to this flow's, out of the parts it holds: nothing runs again for it. Killed at any
//! moment it goes on where it was when it is called again: what is of the present form stays as it is, and the number of the
//! format is written last.

use std::{io, ops::ControlFlow, path::Path};

use flow_core::reason::StoreAction;

use crate::{
    Holder, Result, RunDir, StoreDir, StoreError,
    bytes::{Bytes, json},
    db::{Db, DbBatch},
    file, format1,
    mark::Mark,
    open_database::OpenDatabase,
};

/// A store that was brought over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroughtOver {
    /// The format that it had.
    pub from: u32,
    /// Runs whose journals were written anew.
    pub runs: usize,
    /// Results in the database that were.
    pub results: usize,
}

/// Brings the store in `path` over, if it has an earlier format. It is waited for as in [`Store::open_alone`](crate::Store::open_alone).
///
/// # Errors
/// It is held; the disk is full; journals of others cannot be written: what could be brought over is, and they do the rest.
pub fn bring_over(
    path: &Path,
    me: &Holder,
    mut waiting: impl FnMut(&Holder) -> ControlFlow<()>,
) -> Result<Option<BroughtOver>> {
    let Some((dir, from)) = StoreDir::older(path)? else { return Ok(None) };
    let _alone = (dir.alone(me, &mut waiting)?, dir.lock(me, waiting)?);
    let mut brought = BroughtOver { from, runs: 0, results: 0 };
    match Db::open(&dir) {
        Ok(Some(db)) => brought.results = OpenDatabase::on(&dir, db).bring_over()?,
        // The next opening makes it anew, from journals that are of the present format then.
        Ok(None) | Err(StoreError::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut refused = None;
    for run in dir.runs()? {
        match journal(&dir, &dir.run(&run)) {
            Ok(written) => brought.runs += usize::from(written),
            Err(error) => _ = refused.get_or_insert(error),
        }
    }
    match refused {
        Some(error) => Err(error),
        None => {
            dir.sync_all()?;
            dir.write_format()?;
            Ok(Some(brought))
        }
    }
}

impl OpenDatabase {
    /// Every result in the present form. What journals have beyond the mark is looked for from the beginning of its run: places in
    /// that journal are others afterwards, and what is there already is not put there twice.
    fn bring_over(self) -> Result<usize> {
        if let Some(mark) = self.mark()? {
            self.move_mark(&Mark { to: 0, ..mark })?;
        }
        let mut writes = DbBatch::default();
        self.each(b"r", &mut |key, value| {
            if let Some(result) = value.and_then(format1::result) {
                writes.put(key.to_vec(), json(&result));
            }
        })?;
        let results = writes.len();
        self.write(writes)?;
        Ok(results)
    }
}

/// Writes the journal of a run anew, and its status. What was no line of any flow stays as it is.
fn journal(dir: &StoreDir, run: &RunDir) -> Result<bool> {
    if let Some(status) = read(&run.status_path())?.as_deref().and_then(format1::status) {
        dir.write_atomically(&run.status_path(), &json(&status))?;
    }
    let Some(bytes) = read(&run.journal())? else { return Ok(false) };
    let mut anew = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n").and_then(format1::line) {
            Some(line) => {
                anew.extend(json(&line));
                anew.push(b'\n');
            }
            None => anew.extend_from_slice(line),
        }
    }
    dir.write_atomically(&run.journal(), &anew)?;
    Ok(true)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match file::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io(StoreAction::Read, path)(e)),
    }
}
