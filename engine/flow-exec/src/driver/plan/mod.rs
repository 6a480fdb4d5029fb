//! `flow plan`, `why`, `accept` and `forget`: what a run would do, whether or not another process runs. Takes the
//! store's lock only if it is free.

pub(super) mod continued;
pub(super) mod forecast;
pub(super) mod lookup;
pub(super) mod present;
pub(super) mod unwanted_work;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use flow_core::{
    Digest, Input, InstanceId, JournalLine, RunEvent, RunId, StepResult,
    fingerprint::{PartValue, Parts, Tree},
    plan::{
        self, AcceptAnswer, AcceptedDifferences, Force, Lookup, Plan, State, accept as accept_core, plan as plan_core,
    },
    reason::Fault,
    why::ListContent,
};
use flow_runs::{Holder, StoreDir, StoreError};
use flow_store::{Batch, Inputs, LastFingerprint, Objects, RebuiltDatabase, Snapshot, Store};
use flow_supervisor::clock;

use crate::{
    ExecError,
    driver::{
        recover::follow,
        session::{
            Session,
            identity::{holder, new_run_id},
        },
    },
};
pub use lookup::listed;
use lookup::{RecordedParts, StoreLookup, inputs_of};

/// The results of earlier runs. No store if nothing has run yet.
pub struct Knowledge(Option<Box<Store>>);

impl Knowledge {
    /// Opens the session's store, if there is one. Creates nothing.
    ///
    /// # Errors
    /// The store is of a newer format, or damaged.
    pub fn open(session: &Session, doing: &str) -> Result<Knowledge, ExecError> {
        match session.workspace.existing_store()? {
            Some(dir) => Knowledge::of(&dir, doing),
            None => Ok(Knowledge(None)),
        }
    }

    /// Opens a store to read it, which may be that of an imported run.
    ///
    /// # Errors
    /// It is damaged.
    pub fn of(dir: &StoreDir, doing: &str) -> Result<Knowledge, ExecError> {
        Ok(Knowledge(Some(Box::new(Store::open_to_read(dir, &holder(doing))?))))
    }

    /// The store with the results, if anything has run yet.
    pub fn results(&self) -> Option<&Store> {
        self.0.as_deref()
    }

    /// Set if the database was damaged and rebuilt.
    pub fn rebuilt(&self) -> Option<&RebuiltDatabase> {
        self.results()?.rebuilt()
    }

    /// The folder of the store, if there is one.
    pub fn dir(&self) -> Option<&StoreDir> {
        self.results().map(Store::dir)
    }

    fn with_world<T>(
        &self,
        session: &Session,
        recorded: fn(&StoreDir, &str) -> RecordedParts,
        query: impl FnOnce(&mut StoreLookup<'_>) -> T,
    ) -> Result<T, ExecError> {
        let activity = &session.activity;
        let objects: Option<Objects> = self.dir().map(|dir| Objects::of(dir).doing(activity.clone()));
        let snapshot = self.dir().and_then(|dir| Snapshot::load(dir, &session.workspace.snapshot_name()));
        // Only a process that uses the store writes lists of input folders into it.
        let keep = objects.clone().filter(|_| self.results().is_some_and(|store| !store.is_read_only()));
        let inputs = inputs_of(session, keep, snapshot.as_ref()).doing(activity.clone());
        let to_follow = self.dir().map(|dir| follow::to_follow(dir, &follow::seen(dir))).unwrap_or_default();
        let recorded = self.dir().map(|dir| recorded(dir, &session.expansion.workflow));
        let (workflow, folder) = (&*session.expansion.workflow, &session.workspace.folder);
        let mut world = StoreLookup {
            results: self.results(),
            recorded: recorded.as_ref(),
            objects,
            followed: &|fingerprint| to_follow.get(fingerprint).cloned(),
            ..StoreLookup::of_inputs(workflow, folder, &inputs)
        };
        let answer = query(&mut world);
        match world.error {
            Some(error) => Err(error.into()),
            None => Ok(answer),
        }
    }
}

/// The plan for a run of these instances.
///
/// # Errors
/// The store cannot be read.
pub fn plan(session: &Session, knowledge: &Knowledge, wanted: &[InstanceId], force: &Force) -> Result<Plan, ExecError> {
    knowledge.with_world(session, RecordedParts::lately, |world| plan_core(&session.context(), wanted, world, force))
}

/// Labels of instances that `plan` runs on Slurm although the killed run of another user left a job that does the same, by that run
/// and its user. The jobs may have ended. Nobody waits for them.
///
/// # Errors
/// The store cannot be read.
pub fn done_by_others(
    session: &Session,
    knowledge: &Knowledge,
    wanted: &[InstanceId],
    plan: &Plan,
) -> Result<BTreeMap<(RunId, String), Vec<String>>, ExecError> {
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let jobs = knowledge.dir().map(follow::of_others).unwrap_or_default();
    if jobs.is_empty() {
        return Ok(found);
    }
    let results: BTreeMap<Digest, (RunId, String)> = jobs
        .into_iter()
        .flat_map(|(user, job)| {
            job.members.into_iter().map(move |of| (of.fingerprint, (job.run.clone(), user.clone())))
        })
        .collect();
    let parts = parts(session, knowledge, wanted)?;
    for item in plan.items.iter().filter(|item| matches!(item.state, State::Run(_))) {
        let instance = &session.expansion.instances[item.id.index()];
        let label = instance.label.to_string();
        let result = parts.get(&label).filter(|_| instance.is_batch()).map(Parts::digest);
        if let Some(job) = result.and_then(|result| results.get(&result)) {
            found.entry(job.clone()).or_default().push(label);
        }
    }
    Ok(found)
}

/// The plan of such a run on another machine, without earlier results but with all inputs. Inputs that are missing here
/// are taken from the last run.
pub fn plan_at_other_place(session: &Session, knowledge: &Knowledge, wanted: &[InstanceId]) -> Plan {
    let expansion = &session.expansion;
    let mut recorded = BTreeMap::new();
    for instance in &expansion.instances {
        let last = knowledge.results().and_then(|known| known.last(&expansion.workflow, &instance.label).ok()?);
        let parts = last.and_then(|last| serde_json::from_value::<Parts>(last.parts).ok());
        for part in parts.into_iter().flat_map(|parts| parts.base) {
            if let PartValue::Tree { path, digest, manifest, .. } = part.value {
                recorded.insert(path, Tree { digest, manifest });
            }
        }
    }
    let mut elsewhere = OtherPlace { session, inputs: inputs_of(session, None, None), recorded };
    plan_core(&session.context(), wanted, &mut elsewhere, &Force::Nothing)
}

/// A place where every input exists and nothing has run.
struct OtherPlace<'a> {
    session: &'a Session,
    inputs: Inputs,
    recorded: BTreeMap<String, Tree>,
}

impl Lookup for OtherPlace<'_> {
    fn input(&mut self, input: &Input) -> Result<Tree, Fault> {
        let path = self.session.path(&input.path);
        if path.exists() {
            let digest = self.inputs.hash_path(&path, input.by_listing)?.digest;
            return Ok(Tree { digest, manifest: None });
        }
        if let Some(tree) = self.recorded.get(&input.path) {
            return Ok(*tree);
        }
        Ok(Tree { digest: Digest::of(input.path.as_bytes()), manifest: None })
    }

    fn result(&mut self, _fingerprint: &Digest) -> Result<Option<StepResult>, Fault> {
        Ok(None)
    }

    fn last(&mut self, _label: &str) -> Option<Parts> {
        None
    }

    fn listed(&mut self, _digest: &Digest) -> Option<ListContent> {
        None
    }
}

/// The parts of these instances' fingerprints by label, as far as they are known before anything runs.
///
/// # Errors
/// The store cannot be read.
pub fn parts(
    session: &Session,
    knowledge: &Knowledge,
    wanted: &[InstanceId],
) -> Result<BTreeMap<String, Parts>, ExecError> {
    let parts =
        knowledge.with_world(session, RecordedParts::lately, |world| plan::parts(&session.context(), wanted, world))?;
    let label = |id: InstanceId| session.expansion.instances[id.index()].label.to_string();
    Ok(parts.into_iter().map(|(id, parts)| (label(id), parts)).collect())
}

/// The result of `flow forget`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ForgetResult {
    /// Labels of the forgotten results.
    pub labels: Vec<String>,
    /// Their fingerprints.
    pub fingerprints: BTreeSet<Digest>,
    /// Labels of results that stay, because only these users may forget them.
    pub others: BTreeMap<String, BTreeSet<String>>,
}

/// `flow forget`: removes results of the instances that `names` mean, under every fingerprint, and those that they
/// `reuse` under earlier step names. Results of other users stay. The journals keep them, and `flow gc` removes their
/// files.
///
/// # Errors
/// The store cannot be written.
pub fn forget(
    store: &Store,
    workflow: &str,
    file: &str,
    names: &[String],
    reuse: &BTreeSet<Digest>,
    only_accepted: bool,
) -> Result<ForgetResult, ExecError> {
    let mut lines =
        vec![RunEvent::Accepted { file: file.to_owned(), reason: format!("forgotten: {}", names.join(", ")) }];
    let mut forgotten = ForgetResult::default();
    let mut taken_back = BTreeSet::new();
    let mut whose = BTreeMap::new();
    let mut kept = None;
    store.each_result(|StepResult { fingerprint, label, workflow: of, run, accepted, .. }| {
        let named = names.iter().any(|name| flow_core::selects(name, &label));
        if of != workflow || !named && !reuse.contains(&fingerprint) || only_accepted && accepted.is_none() {
            return;
        }
        let others = whose.entry(run).or_insert_with_key(|run| store.dir().run(run).others_results());
        match others {
            Some(user)
                if accepted.is_none()
                    || !kept.get_or_insert_with(|| kept_by_us(store.dir())).contains(&fingerprint) =>
            {
                forgotten.others.entry(user.clone()).or_default().insert(label);
            }
            _ => {
                forgotten.labels.push(label.clone());
                forgotten.fingerprints.insert(fingerprint);
                taken_back.extend(accepted.is_some().then_some(fingerprint));
                lines.push(RunEvent::Forgotten { fingerprint, label });
            }
        }
    })?;
    if !forgotten.labels.is_empty() {
        lines.extend(before_accepted(store.dir(), workflow, &taken_back)?);
        let at = clock::unix_millis();
        let lines = lines.into_iter().map(|event| JournalLine { at, event }).collect();
        let journal = store.begin(&new_run_id(&store.dir().runs()?).0)?;
        store.commit(&journal, lines, &Batch::new())?.apply().map_err(StoreError::from)?;
        // The snapshots say that there is nothing to do.
        store.dir().drop_snapshots()?;
    }
    Ok(forgotten)
}

/// The last fingerprints before `flow accept` kept these results, as events: later reasons compare with runs only.
fn before_accepted(dir: &StoreDir, workflow: &str, accepted: &BTreeSet<Digest>) -> Result<Vec<RunEvent>, ExecError> {
    let mut all: BTreeMap<String, (Option<LastFingerprint>, bool)> = BTreeMap::new();
    if !accepted.is_empty() {
        flow_store::recorded(dir, workflow, (usize::MAX, u64::MAX), |label, last| {
            let (ran, is_accepted) = all.entry(label).or_default();
            *is_accepted = accepted.contains(&last.fingerprint);
            if !*is_accepted {
                *ran = Some(last);
            }
        })?;
    }
    let accepted = all.into_iter().filter(|(_, (_, is_accepted))| *is_accepted);
    let event = |(label, (ran, _)): (String, (Option<LastFingerprint>, bool))| {
        let LastFingerprint { fingerprint, parts, run } = ran?;
        Some(RunEvent::Tried { workflow: workflow.to_owned(), label, run, fingerprint, parts })
    };
    Ok(accepted.filter_map(event).collect())
}

/// Results of any user that this user's `flow accept` kept.
fn kept_by_us(dir: &StoreDir) -> BTreeSet<Digest> {
    let mut kept = BTreeSet::new();
    for run in dir.runs().into_iter().flatten().map(|run| dir.run(&run)).filter(|run| run.others().is_none()) {
        let first = run.first_line().ok().flatten();
        if !matches!(first, Some(JournalLine { event: RunEvent::Accepted { .. }, .. })) {
            continue;
        }
        // An unreadable journal keeps nothing.
        let _ = run.read_journal(|line| {
            if let RunEvent::Recorded { result, .. } = line.event {
                kept.insert(result.fingerprint);
            }
        });
    }
    kept
}

/// Ignored files in the input folders of these instances, relative to the workflow.
///
/// # Errors
/// A `.flowignore` is invalid, or a folder cannot be read.
pub fn ignored(session: &Session, wanted: &[InstanceId]) -> Result<Vec<PathBuf>, ExecError> {
    let inputs = inputs_of(session, None, None);
    let of = |id: &InstanceId| session.expansion.instances[id.index()].inputs.iter();
    let folders: BTreeSet<&str> = wanted.iter().flat_map(of).map(|input| input.path.as_str()).collect();
    let mut ignored = BTreeSet::new();
    for folder in folders.into_iter().filter(|folder| session.path(folder).is_dir()) {
        ignored.extend(inputs.ignored(&session.path(folder))?.iter().map(|path| Path::new(folder).join(path)));
    }
    Ok(ignored.into_iter().collect())
}

/// `flow accept`: keeps the earlier results that differ least from the instances that `names` mean (without names: all),
/// under the present fingerprints. `mended` is called if the database had to be rebuilt.
///
/// # Errors
/// Unknown names; another process has the store alone, or it cannot be written.
pub fn accept(
    session: &Session,
    names: &[String],
    reason: &str,
    kind: AcceptedDifferences,
    waiting: impl FnMut(&Holder) -> ControlFlow<()>,
    mended: impl FnOnce(&RebuiltDatabase),
) -> Result<Vec<AcceptAnswer>, ExecError> {
    let store = Store::open(session.workspace.make_store()?.path(), &holder("flow accept"), waiting)?;
    let knowledge = Knowledge(Some(Box::new(store)));
    knowledge.rebuilt().map(mended);
    let wanted = session.wanted(names)?;
    let accepted = knowledge
        .with_world(session, RecordedParts::ever, |world| {
            accept_core(&session.context(), &wanted, names, reason, kind, world)
        })?
        .map_err(|diagnostics| session.wrong(diagnostics))?;
    let begins =
        RunEvent::Accepted { file: session.workspace.name(&session.workspace.file), reason: reason.to_owned() };
    let kept = accepted.iter().filter_map(|accepted| match accepted {
        AcceptAnswer::Kept { id, result, parts, .. } => {
            let parts = serde_json::to_value(parts).unwrap_or_default();
            Some(RunEvent::Recorded { instance: *id, result: result.clone(), parts, read_again: false })
        }
        _ => None,
    });
    let at = clock::unix_millis();
    let lines: Vec<JournalLine> = std::iter::once(begins).chain(kept).map(|event| JournalLine { at, event }).collect();
    if let Some(store) = knowledge.results()
        && lines.len() > 1
    {
        // Without a journal, the kept results would be lost with the database, and to `flow gc`.
        let journal = store.begin(&new_run_id(&store.dir().runs()?).0)?;
        store.commit(&journal, lines, &Batch::new())?.apply().map_err(StoreError::from)?;
    }
    Ok(accepted)
}
