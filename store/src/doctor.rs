//! `flow doctor`: checks the database against artifacts and journals, rebuilds it if it is damaged, and reports the
//! findings. Changes nothing that is sound; the caller words the report.

use std::{collections::BTreeMap, ops::ControlFlow, path::Path};

use flow_core::{Artifact, ArtifactKind, Digest, KeptOutput, StepResult, reason::Damage};

use crate::{Batch, LostOutput, Objects, RebuiltDatabase, Store, bytes::parse, open_database::OpenDatabase};
use flow_runs::{Holder, Result, StoreDir, StoreError};

/// The findings and repairs of `flow doctor`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Set if the database was damaged and rebuilt from the journals.
    pub rebuilt: Option<RebuiltDatabase>,
    /// Results that the journals have and the database had lost, now restored. Their artifacts are complete.
    pub restored: usize,
    /// Results in the database, without those dropped here.
    pub results: usize,
    /// Checked artifacts of results.
    pub artifacts: usize,
    /// Dropped results by label, with the reason: the next run makes them again.
    pub dropped: Vec<(String, String)>,
    /// Damaged folder lists that were made again.
    pub relisted: usize,
    /// Results without their series, which was damaged or gone, by label. They keep all numbers.
    pub without_series: Vec<String>,
    /// Results whose artifacts cannot be read because of a system error, by label. They stay.
    pub unseen: Vec<(String, String)>,
    /// Damaged kept logs and number files, which were dropped; their results stay.
    pub unkept: usize,
    /// Unreadable values of the database, which were dropped.
    pub unreadable: usize,
    /// Runs with unreadable journal lines, and their number.
    pub journals: Vec<(String, u32)>,
    /// Results that no journal has any more: they are lost when the database is.
    pub unjournalled: usize,
    /// Artifacts were read completely, not only their sizes and times.
    pub contents_read: bool,
}

impl Diagnosis {
    pub fn is_sound(&self) -> bool {
        let Diagnosis { results, artifacts, contents_read, .. } = *self;
        *self == Diagnosis { results, artifacts, contents_read, ..Diagnosis::default() }
    }
}

/// Checks the store in `path` and repairs what it can. With `contents` every artifact is read and hashed again. Waits
/// for the store like [`Store::open_alone`]; the returned store can be used at once.
///
/// # Errors
/// Another process holds it, its format is newer, or the disk is full.
pub fn doctor(
    path: &Path,
    me: &Holder,
    mut waiting: impl FnMut(&Holder) -> ControlFlow<()>,
    contents: bool,
) -> Result<(Store, Diagnosis)> {
    let dir = StoreDir::create(path)?;
    let users = dir.alone(me, &mut waiting)?;
    let lock = dir.lock(me, waiting)?;
    let mut diagnosis = Diagnosis { contents_read: contents, ..Diagnosis::default() };
    for run in dir.runs()? {
        let Some(mut lines) = dir.run(&run).lines(0)? else { continue };
        let mut unread = 0;
        while let Some(line) = lines.next_line()? {
            unread += u32::from(line.is_none());
        }
        if unread > 0 {
            diagnosis.journals.push((run.0, unread));
        }
    }
    Objects::of(&dir).sweep_workplace()?;
    let (core, rebuilt) = OpenDatabase::open(&dir)?;
    // Reads every page of the database.
    let opened = match core.scan(b"", &mut |_, _| Ok(())) {
        Err(StoreError::Damaged { detail, .. }) => {
            drop(core);
            OpenDatabase::rebuild(&dir, Some(detail))?
        }
        read => read.map(|()| (core, rebuilt))?,
    };
    let store = Store::of(dir, me, opened, Some(lock), Some(users));
    diagnosis.rebuilt = store.rebuilt().cloned();
    if diagnosis.rebuilt.is_none() {
        restore(&store, &mut diagnosis)?;
    }
    check_results(&store, contents, &mut diagnosis)?;
    // After a rebuild, the next run would have to do it before it starts.
    store.renew_index();
    Ok((store, diagnosis))
}

/// sled may open a damaged file without reporting its losses, and a user may remove or cut a journal. Results that
/// `flow gc` dropped do not come back, because the journals note that.
fn restore(store: &Store, diagnosis: &mut Diagnosis) -> Result<()> {
    let (mut journalled, mut batch) = (BTreeMap::new(), Batch::new());
    OpenDatabase::of_journals(store.dir())?.each(b"r", |_, value| {
        journalled.extend(parse(value).map(|result: StepResult| (result.fingerprint, result)));
    })?;
    for (fingerprint, result) in &journalled {
        let whole = || matches!(store.objects().missing(result), Ok(None));
        if !store.has(fingerprint)? && !result.outputs.is_empty() && whole() {
            batch.results.push(result.clone());
        }
    }
    diagnosis.restored = batch.results.len();
    store.apply(&batch)?;
    store.each_result(|result| {
        diagnosis.unjournalled += usize::from(!journalled.contains_key(&result.fingerprint));
    })
}

fn check_results(store: &Store, contents: bool, diagnosis: &mut Diagnosis) -> Result<()> {
    let mut seen: BTreeMap<Digest, ArtifactCheck> = BTreeMap::new();
    let mut lost: Vec<(StepResult, LostOutput)> = Vec::new();
    let mut kept: BTreeMap<Digest, String> = BTreeMap::new();
    let mut batch = Batch::new();
    diagnosis.unreadable = store.drop_unreadable()?;
    store.each_result(|result| {
        diagnosis.results += 1;
        kept.extend(result.kept.iter().flat_map(KeptOutput::objects).map(|digest| (digest, result.label.clone())));
        for (output, artifact) in &result.outputs {
            let seen = seen.entry(artifact.digest).or_insert_with(|| see(store.objects(), artifact, contents));
            diagnosis.relisted += usize::from(std::mem::take(&mut seen.relisted));
            match &seen.damage {
                Ok(None) => {}
                Ok(Some(damage)) => {
                    let damage = LostOutput { output: output.clone(), damage: damage.clone() };
                    return lost.push((result, damage));
                }
                Err(error) => diagnosis.unseen.push((result.label.clone(), error.clone())),
            }
        }
        if let Some(series) = result.series.filter(|_| contents) {
            match store.objects().whole(&series) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    diagnosis.without_series.push(result.label.clone());
                    batch.results.push(StepResult { series: None, ..result });
                }
                Err(error) => diagnosis.unseen.push((result.label, error.to_string())),
            }
        }
    })?;
    diagnosis.artifacts = seen.len();
    for (digest, label) in kept.iter().filter(|(digest, _)| !seen.contains_key(*digest)) {
        match store.objects().drop_damaged(digest, contents) {
            Ok(dropped) => diagnosis.unkept += usize::from(dropped),
            Err(error) => diagnosis.unseen.push((label.clone(), error.to_string())),
        }
    }
    diagnosis.results -= lost.len();
    for (result, damage) in lost {
        batch.forget(&result.fingerprint);
        for artifact in result.outputs.values() {
            if seen.get(&artifact.digest).is_some_and(|seen| matches!(seen.damage, Ok(Some(_)))) {
                store.objects().remove(&artifact.digest)?;
            }
        }
        diagnosis.dropped.push((result.label, damage.to_string()));
    }
    diagnosis.dropped.sort();
    diagnosis.unseen.sort();
    store.apply(&batch)
}

/// The state of an artifact. The error is text because it is reported for each of its results.
struct ArtifactCheck {
    damage: Result<Option<Damage>, String>,
    /// Its damaged list was made again.
    relisted: bool,
}

fn see(objects: &Objects, artifact: &Artifact, contents: bool) -> ArtifactCheck {
    let unlisted =
        || artifact.kind == ArtifactKind::Folder && objects.manifest(&artifact.digest).is_ok_and(|list| list.is_none());
    let was_unlisted = unlisted();
    let damage = if contents { objects.verify_content(artifact) } else { objects.check(artifact) };
    ArtifactCheck { damage: damage.map_err(|error| error.to_string()), relisted: was_unlisted && !unlisted() }
}
