//! `flow gc`: removes what no recent run reaches and no step would reuse. Marks from the journals of the runs that
//! stay.
//!
//! Results are removed from the database first, then from the journals, then their files. So after a kill every result
//! that can be found is complete, and the next `flow gc` does the rest. A journal that is still needed gets a line with
//! the results dropped from it, so that nothing restores them. On a full disk files are removed first, because the
//! database needs space to delete. A kill then leaves results without files, which count as missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirEntry},
    io::ErrorKind,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::{Digest, InstanceId, JournalLine, RunEvent, RunId, StepResult, reason::StoreAction};
use flow_runs::{
    Holder, Journal, Result, RunDir, StoreDir, StoreError,
    journal::Lines,
    tree::{remove_tree, tree_size},
    work::{free_work, free_work_of_gone_stores},
};
use serde_json::Value;

use crate::{
    Batch, LastFingerprint, Objects, RebuiltDatabase, Snapshot, Store, bytes::parse, open_database::OpenDatabase,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of newest runs per workflow file. If it is at least 1, the last result of each step stays as well.
    pub runs: usize,
    /// Also all runs that began at or after this time, in milliseconds since 1970.
    pub since: Option<u64>,
}

/// What `flow gc` removed, or would remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreedSpace {
    /// Completely removed runs.
    pub runs: usize,
    pub results: usize,
    /// Artifacts, and lists of input folders.
    pub objects: usize,
    /// Checkpoints of interrupted attempts.
    pub checkpoints: usize,
    /// Their bytes in total.
    pub bytes: u64,
    /// Runs that stay, including those of which only the journal stays because others use its results.
    pub kept: usize,
    /// Imports: nothing here can make these results again, so they go only when they are forgotten.
    pub imports: usize,
    /// Set if the database was damaged and had to be rebuilt first.
    pub rebuilt: Option<RebuiltDatabase>,
    /// Runs and artifacts that stay because only their owners, other users of a shared store, can remove them.
    pub others: (usize, usize),
}

/// Removes from the store in `path` what only old runs reach, even on a completely full disk. With `dry`, only reports
/// it.
///
/// # Errors
/// Another process holds the store; something cannot be read or removed. What is kept is complete in any case.
pub fn gc(path: &Path, me: &Holder, keep: Retention, dry: bool) -> Result<FreedSpace> {
    let dir = StoreDir::create(path)?;
    let users = dir.alone(me, |_| ControlFlow::Break(()))?;
    let lock = dir.lock(me, |_| ControlFlow::Break(()))?;
    Objects::of(&dir).sweep_workplace()?;
    let (opened, (bytes, objects)) = match OpenDatabase::open(&dir) {
        Err(error) if error.is_disk_full() && !dry => {
            let room = free_space(&dir, keep)?;
            (OpenDatabase::open(&dir)?, room)
        }
        opened => (opened?, (0, 0)),
    };
    let freed = Store::of(dir, me, opened, Some(lock), Some(users)).gc(keep, dry)?;
    Ok(FreedSpace { bytes: freed.bytes + bytes, objects: freed.objects + objects, ..freed })
}

/// Removes what the journals alone show to be unused: attempt folders, and artifacts of results that nothing else
/// names. The journals stay, because the database must still be updated. Returns the bytes and the number of artifacts.
fn free_space(dir: &StoreDir, keep: Retention) -> Result<(u64, usize)> {
    let LiveSet { runs, reached } = LiveSet::of(dir, keep)?;
    let journals = OpenDatabase::of_journals(dir)?;
    let (mut going, mut staying) = (BTreeSet::new(), BTreeSet::new());
    journals.each(b"r", |_, value| {
        let Some(result) = parse::<StepResult>(value) else { return };
        let objects = if reached.contains(&result.fingerprint) { &mut staying } else { &mut going };
        objects.extend(result.objects().chain(result.circumstances.environment));
    })?;
    journals.each(b"l", |_, value| {
        let _ = parse::<LastFingerprint>(value).map(|last| digests_in(&last.parts, &mut staying));
    })?;
    let mut bytes = sweep_snapshots(dir, &runs, false)? + sweep_checkpoints(dir, &runs, false)?.0;
    let mut removed = 0;
    for digest in going.difference(&staying) {
        let freed = remove_own(dir, digest)?.unwrap_or(0);
        removed += usize::from(freed > 0);
        bytes += freed;
    }
    for run in runs.iter().filter(|run| !run.keep) {
        let folder = dir.run(&run.id);
        if !is_of_others(&folder.attempts()) {
            bytes += free_files(&folder, false)?;
        }
    }
    Ok((bytes, removed))
}

impl Store {
    /// Removes what only old runs reach; with `dry`, only reports it.
    ///
    /// # Errors
    /// A run of another process is alive and could use any of it; something cannot be read or removed. What is kept is
    /// complete in any case.
    pub fn gc(&self, keep: Retention, dry: bool) -> Result<FreedSpace> {
        if let Some(holder) = if self.has_all() { None } else { self.others()?.pop() } {
            return Err(StoreError::Held { path: self.dir().path().to_owned(), holder: Box::new(holder) });
        }
        let LiveSet { runs, reached } = LiveSet::of(self.dir(), keep)?;
        let count = |which: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| which(run)).count();
        let kept = count(&|run| run.keep && !run.theirs && !run.accepts && !run.imports);
        let imports = count(&|run| run.imports);
        let others = (count(&|run| run.theirs), 0);
        let mut freed = FreedSpace { kept, imports, rebuilt: self.rebuilt().cloned(), others, ..FreedSpace::default() };
        let mut batch = Batch::new();
        let mut objects = BTreeSet::new();
        let mut kept = BTreeSet::new();
        let mut attempts = BTreeMap::new();
        let mut readings = BTreeMap::new();
        self.each_result(|result| {
            if reached.contains(&result.fingerprint) {
                objects.extend(result.objects().chain(result.circumstances.environment));
                attempts.extend(result.kept.map(|kept| (kept.attempt, result.fingerprint)));
                kept.insert(result.fingerprint);
            } else {
                batch.forget(&result.fingerprint);
            }
        })?;
        // Another reading of the same attempt may stay.
        self.each_attempt(|attempt, reading| {
            if !kept.contains(&reading) {
                let other = attempts.get(&attempt).copied();
                batch.attempts.push((attempt, other));
                readings.extend(other.map(|other| (reading, (attempt, other))));
            }
        })?;
        freed.results = batch.forgotten.len();
        let staying: BTreeSet<&RunId> = runs.iter().filter(|run| run.keep).map(|run| &run.id).collect();
        let mut gone = Vec::new();
        self.each_last(|workflow, label, last| {
            if reached.contains(&last.fingerprint) || staying.contains(&last.run) {
                digests_in(&last.parts, &mut objects);
            } else {
                gone.push((workflow.to_owned(), label.to_owned()));
            }
        })?;
        let gone: Vec<(&str, &str)> = gone.iter().map(|(workflow, label)| (&**workflow, &**label)).collect();
        objects.extend(self.value_objects_without(&batch, &gone)?);

        if !dry {
            let forget = || self.apply(&batch).and_then(|()| self.forget_last(&gone));
            match forget() {
                Err(error) if error.is_disk_full() => {
                    let (bytes, removed) = free_space(self.dir(), keep)?;
                    (freed.bytes, freed.objects) = (freed.bytes + bytes, freed.objects + removed);
                    forget()?;
                }
                forgotten => forgotten?,
            }
            for run in runs.iter().filter(|run| !run.keep) {
                freed.bytes += run.drop_from_journal(self.dir(), &kept, &readings)?;
            }
        }
        let (bytes, checkpoints) = sweep_checkpoints(self.dir(), &runs, dry)?;
        freed.bytes += sweep_snapshots(self.dir(), &runs, dry)? + bytes;
        freed.checkpoints += checkpoints;
        freed.bytes += free_work_of_gone_stores(self.dir(), dry)?;
        for run in runs.iter().filter(|run| run.keep) {
            freed.bytes += free_copies(&self.dir().run(&run.id), dry)?;
        }
        for run in runs.iter().filter(|run| !run.keep) {
            let folder = self.dir().run(&run.id);
            if is_of_others(&folder.attempts()) {
                freed.others.0 += 1;
                continue;
            }
            let needed = run.is_needed(&kept);
            freed.bytes += match needed {
                true => free_files(&folder, dry)?,
                false => free_work(&folder, dry)? + free(folder.path(), dry)?,
            };
            let count = if needed { &mut freed.kept } else { &mut freed.runs };
            *count += usize::from(!run.accepts);
        }
        let mut unmarked = BTreeSet::new();
        self.objects().each(|digest| {
            if !objects.contains(&digest) {
                unmarked.insert(digest);
            }
        })?;
        for digest in &unmarked {
            match if dry { Some(self.objects().size_of(digest)?) } else { remove_own(self.dir(), digest)? } {
                Some(bytes) => (freed.bytes, freed.objects) = (freed.bytes + bytes, freed.objects + 1),
                None => freed.others.1 += 1,
            }
        }
        Ok(freed)
    }
}

/// Every run, and all results that must stay.
struct LiveSet {
    runs: Vec<Run>,
    reached: BTreeSet<Digest>,
}

impl LiveSet {
    fn of(dir: &StoreDir, keep: Retention) -> Result<LiveSet> {
        let mut marked = LiveSet { runs: Vec::new(), reached: BTreeSet::new() };
        let mut newest: BTreeMap<(String, Option<u32>), NewestRun> = BTreeMap::new();
        for id in dir.runs()?.into_iter().rev() {
            let folder = dir.run(&id);
            let (mut run, told) = Run::read(&folder, id)?;
            // Two users of one store have separate workflows, whatever their names.
            let owner = fs::metadata(folder.path()).ok().map(|meta| meta.uid());
            let newer = newest.entry((run.file.clone(), owner)).or_default();
            let recent = newer.runs < keep.runs || keep.since.is_some_and(|since| run.began >= since);
            let stays = recent || folder.has_jobs() || run.imports;
            run.theirs = !stays && folder.others_results().is_some();
            run.keep = stays || run.theirs;
            // Accepted results stay as long as the run before them.
            newer.runs += usize::from(!run.accepts && !run.imports);
            if run.keep {
                marked.reached.extend(run.reuses.iter().chain(&run.records));
            }
            match &run {
                // A run that was killed before its first line has no information.
                Run { imports, file, .. } if *imports || file.is_empty() || keep.runs == 0 => {}
                Run { accepts: true, .. } => newer.accepted(&told, &mut marked.reached),
                Run { .. } => newer.last_results(told, &mut marked.reached),
            }
            marked.runs.push(run);
        }
        Ok(marked)
    }
}

/// A run's information about instances.
#[derive(Default)]
struct InstanceFacts {
    given: RunParameters,
    /// It covers the whole workflow.
    whole: bool,
    labels: BTreeMap<InstanceId, String>,
    /// Their results, by label.
    results: BTreeMap<String, Digest>,
}

/// The profile of a run, and its explicit parameter values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RunParameters {
    profile: Option<String>,
    set: Vec<String>,
}

/// State per workflow file while its runs are visited, the newest first.
#[derive(Default)]
struct NewestRun {
    runs: usize,
    /// The parameters of the newest run.
    given: Option<RunParameters>,
    /// Instances by parameters: the file's own for each profile, and those of the newest run.
    instances: BTreeMap<RunParameters, Instances>,
}

#[derive(Default)]
struct Instances {
    /// Instances with a result from a newer run.
    done: BTreeSet<String>,
    /// All instances, according to the newest run of the whole workflow.
    there: Option<BTreeSet<String>>,
}

impl Instances {
    /// True if no newer run gives it a result or shows that it no longer exists.
    fn lack(&self, label: &str) -> bool {
        !self.done.contains(label) && self.there.as_ref().is_none_or(|there| there.contains(label))
    }
}

impl NewestRun {
    /// Keeps the last result of each existing instance, because the next run would reuse it. Runs of other steps,
    /// however many, do not change that.
    fn last_results(&mut self, told: InstanceFacts, reached: &mut BTreeSet<Digest>) {
        let newest = self.given.get_or_insert_with(|| told.given.clone());
        if !told.given.set.is_empty() && told.given != *newest {
            return;
        }
        let instances = self.instances.entry(told.given).or_default();
        for (label, result) in told.results {
            if instances.lack(&label) {
                reached.insert(result);
                instances.done.insert(label);
            }
        }
        if told.whole && instances.there.is_none() {
            instances.there = Some(told.labels.into_values().collect());
        }
    }

    /// Results that `flow accept` kept stay in addition to those of an earlier run, because their parameters are not
    /// known.
    fn accepted(&self, told: &InstanceFacts, reached: &mut BTreeSet<Digest>) {
        let lacked = |label: &str| self.instances.is_empty() || self.instances.values().any(|some| some.lack(label));
        reached.extend(told.results.iter().filter(|(label, _)| lacked(label)).map(|(_, result)| *result));
    }
}

impl Run {
    fn read(folder: &RunDir, id: RunId) -> Result<(Run, InstanceFacts)> {
        let mut told = InstanceFacts::default();
        let (file, records, reuses) = (String::new(), Vec::new(), Vec::new());
        let (accepts, imports, theirs, keep) = (false, false, false, false);
        let mut run = Run { id, file, began: 0, ended: 0, end: 0, accepts, imports, records, reuses, theirs, keep };
        let mut lines = folder.lines(0)?;
        while let Some(line) = lines.as_mut().map_or(Ok(None), Lines::next_line)? {
            run.ended = line.as_ref().map_or(run.ended, |line| line.at);
            match line.map(|line| (line.at, line.event)) {
                Some((at, RunEvent::RunStarted(start))) => {
                    (run.file, run.began) = (start.file, at);
                    told.whole = start.targets.is_empty();
                    told.given = RunParameters { profile: start.profile.map(|(name, _)| name), set: start.set };
                }
                Some((at, RunEvent::Accepted { file, .. })) => (run.file, run.began, run.accepts) = (file, at, true),
                Some((_, RunEvent::Imported { .. })) => run.imports = true,
                Some((_, RunEvent::Instance { instance, label, .. })) => _ = told.labels.insert(instance, label),
                Some((_, RunEvent::Cached { instance, fingerprint, .. })) => {
                    run.reuses.push(fingerprint);
                    if let Some(label) = told.labels.get(&instance) {
                        told.results.insert(label.clone(), fingerprint);
                    }
                }
                Some((_, RunEvent::Recorded { result, .. })) => {
                    run.records.push(result.fingerprint);
                    told.results.insert(result.label, result.fingerprint);
                }
                Some((_, RunEvent::Dropped { results, .. })) => {
                    run.records.retain(|fingerprint| !results.contains(fingerprint));
                }
                _ => {}
            }
        }
        run.end = lines.map_or(0, |lines| lines.to);
        Ok((run, told))
    }

    /// A rebuild of the database needs the journals of kept results.
    fn is_needed(&self, kept: &BTreeSet<Digest>) -> bool {
        self.records.iter().any(|fingerprint| kept.contains(fingerprint))
    }

    /// Removes the journal, or notes in it which of its results are dropped. `readings` maps a dropped reading of an
    /// attempt to the one that stays. Returns the freed bytes.
    fn drop_from_journal(
        &self,
        dir: &StoreDir,
        kept: &BTreeSet<Digest>,
        readings: &BTreeMap<Digest, (Digest, Digest)>,
    ) -> Result<u64> {
        let folder = dir.run(&self.id);
        let is_others = is_of_others(&folder.attempts());
        if !is_others && !self.is_needed(kept) {
            return free(&folder.journal(), false);
        }
        let results: Vec<Digest> = self.records.iter().filter(|record| !kept.contains(record)).copied().collect();
        if results.is_empty() {
            return Ok(0);
        }
        let readings = results.iter().filter_map(|dropped| readings.get(dropped).copied()).collect();
        // The time of the last line, so that the run does not seem to have lasted until now.
        let line = JournalLine { at: self.ended, event: RunEvent::Dropped { results, readings } };
        match Journal::reopen(folder.journal(), self.end).and_then(|journal| journal.add(&[line], true)) {
            // Another user of a shared store wrote it.
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => Ok(0),
            told => told.map(|_| 0),
        }
    }
}

/// Removes snapshots of removed runs, because they would name missing results. Returns the freed bytes.
fn sweep_snapshots(dir: &StoreDir, runs: &[Run], dry: bool) -> Result<u64> {
    let stay = |snapshot: &Snapshot| runs.iter().any(|run| run.keep && run.id == *snapshot.run());
    let folder = dir.snapshot("");
    let mut bytes = 0;
    for entry in fs::read_dir(&folder).map_err(StoreError::io(StoreAction::Read, &folder))?.flatten() {
        let snapshot = entry.file_name().to_str().and_then(|name| Snapshot::load(dir, name));
        if !snapshot.as_ref().is_some_and(stay) {
            bytes += free(&entry.path(), dry)?;
        }
    }
    Ok(bytes)
}

/// Removes checkpoints last written before all runs that stay, with their accompanying files. Returns the bytes and the
/// number of checkpoints.
fn sweep_checkpoints(dir: &StoreDir, runs: &[Run], dry: bool) -> Result<(u64, usize)> {
    let oldest = runs.iter().filter(|run| run.keep && !run.imports).map(|run| run.began).min();
    let mut written: BTreeMap<PathBuf, Option<u128>> = BTreeMap::new();
    let entries: Vec<_> = fs::read_dir(dir.checkpoints()).into_iter().flatten().flatten().collect();
    for entry in &entries {
        let at = entry.metadata().and_then(|meta| meta.modified()).ok();
        let at = at.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).map(|at| at.as_millis());
        let newest = written.entry(entry.path().with_extension("")).or_default();
        *newest = at.max(*newest);
    }
    let (mut bytes, mut checkpoints) = (0, 0);
    for path in entries.iter().map(DirEntry::path) {
        let written = written.get(&path.with_extension("")).copied().flatten();
        let is_needed = oldest.zip(written).is_some_and(|(oldest, written)| written >= u128::from(oldest));
        if !is_needed && !is_of_others(&path) {
            checkpoints += usize::from(path.is_dir());
            bytes += free(&path, dry)?;
        }
    }
    Ok((bytes, checkpoints))
}

struct Run {
    id: RunId,
    file: String,
    began: u64,
    /// The time of its last line.
    ended: u64,
    /// The end of its last whole line.
    end: u64,
    /// Not a run, but a `flow accept`.
    accepts: bool,
    /// Not a run, but a `flow import`.
    imports: bool,
    records: Vec<Digest>,
    reuses: Vec<Digest>,
    /// It would be removed, but only its owner, another user, can drop what it reaches.
    theirs: bool,
    keep: bool,
}

/// Removes an artifact; `None` if another user of a shared store made the folder, because only the owner can move it.
fn remove_own(dir: &StoreDir, digest: &Digest) -> Result<Option<u64>> {
    match Objects::of(dir).remove(digest) {
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => Ok(None),
        removed => removed.map(Some),
    }
}

/// Removes all files of a run but its records, or with `dry` only computes their size.
fn free_files(run: &RunDir, dry: bool) -> Result<u64> {
    // The folder outside comes first, because the link that leads there must outlive it.
    let work = free_work(run, dry)? + free(&run.work(), dry)?;
    Ok(work + free(&run.attempts(), dry)? + free(&run.inputs(), dry)?)
}

/// Removes the copies of inputs that a killed run left, or with `dry` only computes their size.
fn free_copies(run: &RunDir, dry: bool) -> Result<u64> {
    if run.others().is_some() || run.has_jobs() || run.lives().is_some() {
        return Ok(0);
    }
    let of_run = Some(run.inputs()).filter(|_| run.has_inputs());
    of_run.into_iter().chain(run.copies_of_attempts()).map(|copies| free(&copies, dry)).sum()
}

/// True if the attempts belong to another user of a shared store, who alone can read them.
fn is_of_others(attempts: &Path) -> bool {
    fs::read_dir(attempts).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
}

/// Removes a file or folder, or with `dry` only computes its size.
fn free(path: &Path, dry: bool) -> Result<u64> {
    if dry { tree_size(path) } else { remove_tree(path) }
}

/// Digests in the parts of a fingerprint: of input folders, whose lists are kept for `flow why`.
fn digests_in(parts: &Value, found: &mut BTreeSet<Digest>) {
    match parts {
        Value::String(text) => found.extend(text.parse::<Digest>().ok()),
        Value::Array(items) => items.iter().for_each(|item| digests_in(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| digests_in(item, found)),
        _ => {}
    }
}
