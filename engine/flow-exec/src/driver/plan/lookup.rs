//! The world, as decisions ask for it: input files by digest, results and last fingerprints from the store. Decides nothing.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use flow_core::{
    DeclaredEnvironment, Difference, Digest, Input, Instance, InstanceId, JournalLine, Metrics, Python, RunEvent,
    RunId, StepResult,
    fingerprint::{Parts, Tree},
    plan::{Lookup, LookupKeys, Reading, ReusableResult},
    reason::Fault,
    why::{Files, ListContent},
};
use flow_runs::{StoreDir, StoreError};
use flow_store::{EarlierData, EntryKind, Inputs, Objects, Snapshot, SnapshotResult, Store};
use flow_supervisor::clock;

use crate::{
    declared_environment,
    driver::{
        recover::follow::AttemptToFollow,
        results::{
            checkpoint::Checkpoint,
            reading::{collect_again, read_again},
        },
        session::Session,
    },
};

/// Answers from files and a store.
pub(crate) struct StoreLookup<'a> {
    /// The workflow's name, under which last fingerprints are kept.
    pub(crate) workflow: &'a str,
    pub(crate) folder: PathBuf,
    /// The store; `None` before the first run.
    pub(crate) results: Option<&'a Store>,
    /// Under what else instances were recorded; none before the first run.
    pub(crate) recorded: Option<&'a RecordedParts>,
    /// Artifacts; none before the first run.
    pub(crate) objects: Option<Objects>,
    /// Inputs, each hashed once a run.
    pub(crate) inputs: &'a Inputs,
    /// What is read again is to be recorded: its series is kept.
    pub(crate) keep: bool,
    /// What stood for each instance in an earlier run, if that is to be relied on.
    pub(crate) previous: &'a [Option<SnapshotResult>],
    /// The declared environments by name, if `previous` is to be relied on.
    pub(crate) environments: Option<&'a BTreeMap<String, DeclaredEnvironment>>,
    /// The attempt of a dead run under this fingerprint, if it is followed.
    pub(crate) followed: &'a dyn Fn(&Digest) -> Option<AttemptToFollow>,
    /// Lookups of the instances that are decided next, and of the one that is being decided.
    pub(crate) ahead: VecDeque<EarlyLookup>,
    pub(crate) found: Option<EarlyLookup>,
    /// Results whose artifacts are gone: why. Worth a line to people.
    pub(crate) damaged: BTreeMap<Digest, String>,
    /// The first error of the store; what was asked counts as not there.
    pub(crate) error: Option<StoreError>,
}

impl<'a> StoreLookup<'a> {
    /// Without a store. Other knowledge is added later.
    pub(crate) fn of_inputs(workflow: &'a str, folder: &Path, inputs: &'a Inputs) -> Self {
        StoreLookup {
            workflow,
            folder: folder.to_owned(),
            results: None,
            recorded: None,
            objects: None,
            inputs,
            keep: false,
            previous: &[],
            environments: None,
            followed: &|_| None,
            ahead: VecDeque::new(),
            found: None,
            damaged: BTreeMap::new(),
            error: None,
        }
    }
}

/// Under what instances of a workflow were recorded by earlier runs. Journals are read when that is first asked for.
pub(crate) struct RecordedParts {
    dir: StoreDir,
    workflow: String,
    /// So many journals are read, from the newest on, and so many bytes of them.
    most: (usize, u64),
    parts: OnceLock<BTreeMap<String, Vec<Parts>>>,
    /// The forgotten results, and the journals that say so.
    forgotten: OnceLock<BTreeMap<Digest, RunId>>,
}

impl RecordedParts {
    /// How far back journals are read for a reason.
    pub(crate) fn lately(dir: &StoreDir, workflow: &str) -> RecordedParts {
        RecordedParts { most: (100, 64 << 20), ..RecordedParts::ever(dir, workflow) }
    }

    pub(crate) fn ever(dir: &StoreDir, workflow: &str) -> RecordedParts {
        let most = (usize::MAX, u64::MAX);
        let (parts, forgotten) = (OnceLock::new(), OnceLock::new());
        RecordedParts { dir: dir.clone(), workflow: workflow.to_owned(), most, parts, forgotten }
    }

    /// The journal of the last `flow forget` that dropped this result.
    fn forgotten(&self, fingerprint: &Digest) -> flow_runs::Result<Option<RunId>> {
        if self.forgotten.get().is_none() {
            let mut all = BTreeMap::new();
            let runs = self.dir.runs()?;
            for run in &runs[runs.len().saturating_sub(self.most.0)..] {
                let dir = self.dir.run(run);
                let first = dir.first_line()?;
                if !matches!(first, Some(JournalLine { event: RunEvent::Accepted { .. }, .. })) {
                    continue;
                }
                dir.read_journal(|line| {
                    if let RunEvent::Forgotten { fingerprint, .. } = line.event {
                        all.insert(fingerprint, run.clone());
                    }
                })?;
            }
            let _ = self.forgotten.set(all);
        }
        Ok(self.forgotten.get().and_then(|all| all.get(fingerprint)).cloned())
    }

    /// All these runs had: none of them is a trial, and their journals tell no more than the last fingerprints do.
    fn had_the_same_parameters(&self) -> flow_runs::Result<bool> {
        let mut first = None;
        for run in self.dir.runs()?.iter().rev().take(self.most.0) {
            let start = match self.dir.run(run).first_line()? {
                Some(JournalLine { event: RunEvent::RunStarted(start), .. }) if start.workflow == self.workflow => {
                    start
                }
                _ => continue,
            };
            if *first.get_or_insert_with(|| start.params.clone()) != start.params {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn of(&self, label: &str) -> flow_runs::Result<Vec<Parts>> {
        if self.parts.get().is_none() {
            let mut all: BTreeMap<String, Vec<Parts>> = BTreeMap::new();
            if self.most.0 == usize::MAX || !self.had_the_same_parameters()? {
                flow_store::recorded(&self.dir, &self.workflow, self.most, |label, last| {
                    // Parts of an older form are as good as none.
                    all.entry(label).or_default().extend(serde_json::from_value::<Parts>(last.parts));
                })?;
            }
            let _ = self.parts.set(all);
        }
        Ok(self.parts.get().and_then(|all| all.get(label)).cloned().unwrap_or_default())
    }
}

/// Lookups of an instance that were made in advance.
pub(crate) struct EarlyLookup {
    fingerprint: Digest,
    attempt: Digest,
    label: String,
    earlier: EarlierData,
}

/// The inputs of a workflow, none of them hashed yet.
pub(crate) fn inputs_of(session: &Session, objects: Option<Objects>, previous: Option<&Snapshot>) -> Inputs {
    let written = session.expansion.instances.iter().flat_map(|instance| instance.inputs.iter());
    let written: BTreeSet<&str> = written.map(|input| input.path.as_str()).collect();
    let named = written.into_iter().map(|path| session.path(path)).collect();
    Inputs::new(objects, previous, clock::system()).of_workflow(session.workspace.root.clone(), named)
}

/// The digest of an instance's inputs and its declared environment as they are; `None` if one cannot be read.
pub(crate) fn digest_of(
    instance: &Instance,
    declared: Option<&DeclaredEnvironment>,
    folder: &Path,
    hashed: &Inputs,
) -> Option<Digest> {
    let mut digests = Vec::with_capacity(instance.inputs.len());
    for input in instance.inputs.iter() {
        digests.extend(hashed.hash_path(&folder.join(&input.path), input.by_listing).ok()?.digest.0);
    }
    if let Some(declared) = declared {
        digests.extend(packages(declared, hashed).ok()?.0);
    }
    Some(Digest::of(&digests))
}

/// The digest of the packages of a declared environment, listed once in a run.
fn packages(declared: &DeclaredEnvironment, hashed: &Inputs) -> Result<Digest, Fault> {
    let place = Path::new(&declared.place);
    if declared_environment::is_image_file(declared) {
        return Ok(hashed.hash_path(place, false)?.digest);
    }
    hashed.list(place, || declared_environment::list(declared))
}

/// Lists the declared environments of these instances before anything is planned, so that one state counts in the run.
pub(crate) fn list_environments(session: &Session, wanted: &[InstanceId], hashed: &Inputs) {
    for declared in session.environments_of(wanted) {
        // An error is reported by each instance.
        let _ = packages(declared, hashed);
    }
}

/// The instance's declared environment, if its packages changed since they were listed, and the first differences.
pub(crate) fn drifted<'s>(
    session: &'s Session,
    instance: &Instance,
    hashed: &Inputs,
    objects: &Objects,
) -> Option<(&'s DeclaredEnvironment, Vec<Difference>)> {
    const NAMED: usize = 3;
    let declared = session.expansion.environment_of(instance)?;
    let (place, list) = (Path::new(&declared.place), || declared_environment::list(declared));
    let has_changed = match declared_environment::is_image_file(declared) {
        true => hashed.changed(place, false).is_some(),
        false => hashed.has_changed(place, list),
    };
    let differences = || {
        let Some(ListContent::Packages(was)) = listed(&packages(declared, hashed).ok()?, objects).ok()? else {
            return None;
        };
        let is: Python = serde_json::from_slice(&declared_environment::list(declared).ok()?.text).ok()?;
        let mut all = was.differences_to(&is);
        all.truncate(NAMED);
        Some(all)
    };
    has_changed.then(|| (declared, differences().unwrap_or_default()))
}

/// The list behind a digest of a fingerprint, if it is stored.
///
/// # Errors
/// It cannot be read.
pub fn listed(digest: &Digest, objects: &Objects) -> flow_runs::Result<Option<ListContent>> {
    let file = |entry: flow_store::Entry| match entry.kind {
        EntryKind::File { digest, .. } => Some((entry.path.to_string_lossy().into_owned(), digest)),
        _ => None,
    };
    if let Some(manifest) = objects.manifest(digest)? {
        return Ok(Some(ListContent::Files(manifest.entries.into_iter().filter_map(file).collect::<Files>())));
    }
    let packages = objects.read_private(digest).and_then(|text| serde_json::from_slice(&text).ok());
    Ok(packages.map(ListContent::Packages))
}

impl<'a> StoreLookup<'a> {
    /// A store that could not be read is not asked again.
    fn results(&self) -> Option<&'a Store> {
        self.results.filter(|_| self.error.is_none())
    }

    fn kept<T>(&mut self, answer: flow_runs::Result<Option<T>>) -> Option<T> {
        answer.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            None
        })
    }
}

impl Lookup for StoreLookup<'_> {
    fn input(&mut self, input: &Input) -> Result<Tree, Fault> {
        let tree = self.inputs.hash_path(&self.folder.join(&input.path), input.by_listing)?;
        let folder = tree.kind == flow_core::ArtifactKind::Folder;
        Ok(Tree { digest: tree.digest, manifest: (folder && !input.by_listing).then_some(tree.digest) })
    }

    fn environment(&mut self, declared: &DeclaredEnvironment) -> Result<Option<Digest>, Fault> {
        match packages(declared, self.inputs) {
            Err(_) if !declared_environment::is_made(declared) => Ok(None),
            packages => packages.map(Some),
        }
    }

    fn unchanged_result(&mut self, instance: &Instance) -> Option<ReusableResult> {
        let stood = self.previous.get(instance.id.index())?.as_ref()?;
        let declared = instance.environment.as_ref().and_then(|name| self.environments?.get(&**name));
        let inputs = digest_of(instance, declared, &self.folder, self.inputs)?;
        (inputs == stood.inputs).then(|| ReusableResult {
            fingerprint: stood.fingerprint,
            outcome: stood.outcome,
            from: stood.from.clone(),
        })
    }

    fn ahead(&mut self, of: &[LookupKeys<'_>]) {
        let found = self.results().map(|results| results.earlier(self.workflow, of).map(Some));
        let found = found.and_then(|found| self.kept(found)).unwrap_or_default();
        let ahead = |(&LookupKeys { fingerprint, attempt, label }, earlier)| {
            let label = label.to_owned();
            EarlyLookup { fingerprint, attempt, label, earlier }
        };
        self.ahead = of.iter().zip(found).map(ahead).collect();
    }

    fn result(&mut self, fingerprint: &Digest) -> Result<Option<StepResult>, Fault> {
        if let Some(at) = self.ahead.iter().position(|ahead| ahead.fingerprint == *fingerprint) {
            self.found = self.ahead.drain(..=at).next_back();
        }
        let kept = match self.found.take_if(|found| found.fingerprint == *fingerprint) {
            Some(EarlyLookup { earlier: EarlierData::Result(result), .. }) => Some(*result),
            Some(other) => {
                self.found = Some(other);
                None
            }
            None => self.results().and_then(|results| self.kept(results.result(fingerprint))),
        };
        let (Some(result), Some(objects)) = (kept, &self.objects) else { return Ok(None) };
        let lost = objects.missing(&result);
        match lost? {
            None => Ok(Some(result)),
            Some(lost) => {
                self.damaged.insert(*fingerprint, lost.to_string());
                Ok(None)
            }
        }
    }

    fn previous_results(&mut self, of: &[Digest]) -> Vec<Option<StepResult>> {
        let found = self.results().map(|results| results.results_of(of).map(Some));
        found.and_then(|found| self.kept(found)).unwrap_or_else(|| vec![None; of.len()])
    }

    fn read_again(
        &mut self,
        attempt: &Digest,
        metrics: Option<&Metrics>,
        instance: &Instance,
    ) -> Result<Option<Reading>, Fault> {
        let kept = match self.found.take_if(|found| found.attempt == *attempt) {
            Some(EarlyLookup { earlier: EarlierData::Attempt(result), .. }) => Some(*result),
            Some(other) => {
                self.found = Some(other);
                None
            }
            None => self.results().and_then(|results| self.kept(results.of_attempt(attempt))),
        };
        let (Some(result), Some(objects)) = (kept, self.objects.clone()) else { return Ok(None) };
        match objects.missing(&result) {
            Ok(None) => Ok(self.kept(read_again(&objects, result, metrics, instance, self.keep))),
            // It is as if it had never been: there is nothing to be forgotten under this fingerprint.
            Ok(Some(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn collect_again(
        &mut self,
        uncollected: &Digest,
        metrics: Option<&Metrics>,
        instance: &Instance,
    ) -> Result<Option<Reading>, Fault> {
        let left = self.results().and_then(|results| self.kept(results.result(uncollected)));
        let (Some(mut result), Some(objects)) = (left, self.objects.clone()) else { return Ok(None) };
        let store = self.keep.then_some(&objects);
        if !collect_again(&mut result, instance, &self.folder, self.inputs, store)? {
            return Ok(None);
        }
        let from = result.run.clone();
        let reading = self.kept(read_again(&objects, result, metrics, instance, self.keep));
        Ok(reading.map(|mut reading| {
            let text = format!("its outputs come from the work folder of run {from}: its program did not run again");
            reading.remarks.insert(0, text);
            reading
        }))
    }

    fn running_in(&mut self, instance: &Instance, fingerprint: &Digest, attempt: &Digest) -> Option<RunId> {
        let followed = (self.followed)(if instance.is_batch() { fingerprint } else { attempt })?;
        let stored = || {
            let results = self.results()?;
            self.kept(results.result(fingerprint)).or_else(|| self.kept(results.of_attempt(attempt)))
        };
        (!followed.is_recorded(stored)).then_some(followed.run)
    }

    fn continues(&mut self, instance: &Instance, attempt: &Digest) -> bool {
        let checkpoint = self.recorded.map(|known| Checkpoint::of(&known.dir, attempt, &instance.label, ""));
        instance.resume && instance.corun.is_none() && checkpoint.is_some_and(|checkpoint| checkpoint.is_there())
    }

    fn damage(&self, fingerprint: &Digest) -> Option<String> {
        self.damaged.get(fingerprint).cloned()
    }

    fn is_forgotten(&mut self, label: &str, fingerprint: &Digest) -> bool {
        let forgotten = self.recorded.map(|recorded| recorded.forgotten(fingerprint));
        let Some(by) = forgotten.and_then(|forgotten| self.kept(forgotten)) else { return false };
        let last = self.results().and_then(|results| self.kept(results.last(self.workflow, label)));
        last.is_some_and(|last| last.run < by)
    }

    fn last(&mut self, label: &str) -> Option<Parts> {
        let results = self.results()?;
        let last = match self.found.take_if(|found| found.label == label) {
            Some(EarlyLookup { earlier: EarlierData::Last(last), .. }) => Some(last),
            Some(_) => None,
            None => self.kept(results.last(self.workflow, label)),
        }?;
        // Parts of an older form are as good as none: the reason is then that it never ran in this form.
        serde_json::from_value(last.parts).ok()
    }

    fn recorded(&mut self, label: &str) -> Vec<Parts> {
        let recorded = self.recorded.map(|recorded| recorded.of(label).map(Some));
        recorded.and_then(|recorded| self.kept(recorded)).unwrap_or_default()
    }

    fn listed(&mut self, digest: &Digest) -> Option<ListContent> {
        let list = listed(digest, self.objects.as_ref()?);
        self.kept(list)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, ops::ControlFlow};

    use serde_json::json;

    use super::*;
    use crate::driver::session::identity::holder;

    #[test]
    fn a_store_that_cannot_be_read_is_not_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(folder.path()).unwrap();
        let run = RunId("1".to_owned());
        let (fingerprint, attempt) = (Digest::of(b"f"), Digest::of(b"a"));
        let tried = |label: &str| {
            let (workflow, label, run) = ("w".to_owned(), label.to_owned(), run.clone());
            JournalLine {
                at: 1,
                event: RunEvent::Tried { workflow, label, run, fingerprint, parts: json!({"base": []}) },
            }
        };
        // A process that does not hold the database reads what it answers from the journal.
        let _holds = Store::open(dir.path(), &holder("flow run"), |_| ControlFlow::Break(())).unwrap();
        dir.run(&run).create().unwrap().add(&["a", "b"].map(tried), true).unwrap();
        let store = Store::open_to_read(&dir, &holder("flow why")).unwrap();
        let inputs = Inputs::new(None, None, clock::system());
        let world = || StoreLookup { results: Some(&store), ..StoreLookup::of_inputs("w", Path::new(""), &inputs) };
        assert!(world().last("a").is_some());

        let (journal, aside) = (dir.run(&run).journal(), folder.path().join("aside"));
        fs::rename(&journal, &aside).unwrap();
        fs::create_dir(&journal).unwrap();
        let mut unreadable = world();
        unreadable.ahead(&[LookupKeys { fingerprint, attempt, label: "a" }]);
        assert!(matches!(unreadable.error, Some(StoreError::Io { .. })));
        fs::remove_dir(&journal).unwrap();
        fs::rename(&aside, &journal).unwrap();
        assert_eq!((unreadable.result(&fingerprint), unreadable.last("b")), (Ok(None), None));
        assert!(world().last("b").is_some());
    }
}
