//! The state of a run according to its events: a fold, nothing else. `status`, `logs`, `show` and
//! `diff` fold a journal into the same view.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use flow_core::{
    AttemptId, Digest, InstanceId, JournalLine, Origin, Outcome, PlannedAction, RunEvent, RunId, RunStart, RunTimes,
    StepResult,
    reason::{Cause, Disturbance},
    why::WrittenSteps,
};
use flow_runs::{Status, StoreDir, WaitingStep};
use flow_store::Store;
use serde_json::Value;

use crate::{
    error::CliError,
    reasons::{self, InstanceReason},
};

/// The state of a run.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) start: Option<RunStart>,
    /// Its start, milliseconds since 1970.
    pub(crate) started_at: u64,
    /// The time of the last event.
    pub(crate) now: u64,
    /// Instances of its plan.
    pub(crate) instances: BTreeMap<InstanceId, InstanceView>,
    /// Attempts, including ended ones.
    pub(crate) attempts: BTreeMap<AttemptId, Attempt>,
    /// The times of its steps, and the attempts that run.
    pub(super) times: RunTimes,
    /// Instances that are not settled, counted as events come: the bars are drawn often, and a sweep is long.
    open: usize,
    /// Groups whose verdict made repetitions unnecessary, with the first of these.
    pub(super) decided: BTreeMap<String, InstanceId>,
    /// The message about the request to end.
    pub(crate) interruptions: Vec<String>,
    /// Published files, and whether they changed.
    pub(crate) published: Vec<(String, bool)>,
    /// Reports that were not published: the published file, the other place, and the reason.
    pub(crate) withheld: Vec<(String, String, String)>,
    /// Files that could not be published, and why.
    pub(crate) not_published: Vec<String>,
    /// The exit code, once it has ended.
    pub(crate) exit: Option<i32>,
    /// Waiting instances, and their reasons.
    pub(crate) waiting: Vec<(String, String)>,
    /// The holder of the store that this run waits for.
    pub(crate) held: Option<String>,
    /// The steps as written.
    pub(crate) written: WrittenSteps,
    /// Set for an imported run: its results belong to this run.
    pub(crate) imported: Option<Origin>,
    /// The id of the import.
    pub(crate) import: Option<RunId>,
}

#[derive(Debug)]
pub(crate) struct InstanceView {
    /// `solo[version=v7,batch=16]`.
    pub(crate) label: String,
    pub(crate) step: String,
    /// The plan's decision.
    pub(crate) planned: PlannedAction,
    pub(crate) state: InstanceState,
    /// Why it ran, or why it was settled so.
    pub(crate) reason: Option<InstanceReason>,
    /// Its attempts, in their order.
    attempts: Vec<AttemptId>,
    /// The fingerprint of its result.
    pub(crate) fingerprint: Option<Digest>,
    /// Its result, if this run produced it.
    result: Option<Box<StepResult>>,
}

impl InstanceView {
    /// Why its numbers were not found, although it is done.
    pub(crate) fn no_metrics(&self) -> Option<&Cause> {
        let done = self.result.as_ref().filter(|result| result.outcome == Outcome::Ok)?;
        done.cause.as_ref().filter(|cause| matches!(cause, Cause::NoMetrics { .. }))
    }

    /// It ran or its result was reused, with the same values of all parameters that it depends on,
    /// as far as known.
    pub(crate) fn came_to_something(&self, params: &BTreeMap<String, Value>) -> bool {
        let then = self.result.iter().flat_map(|result| &result.circumstances.params);
        (!self.attempts.is_empty() || matches!(self.state, InstanceState::Cached(..)))
            && then.into_iter().all(|(name, value)| params.get(name) == Some(value))
    }

    /// Required numbers were not found, and nothing was started, because reading again would fail
    /// again.
    pub(crate) fn is_unread(&self) -> bool {
        self.attempts.is_empty()
            && matches!(self.reason, Some(InstanceReason::Settled(_, Some(Cause::NoMetrics { .. }))))
    }
}

/// The state of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InstanceState {
    /// Not settled, not running.
    Waiting,
    /// An attempt is running.
    Running,
    /// A result of that run is reused.
    Cached(Outcome, RunId),
    /// This run settled it with a result.
    Done(Outcome),
    /// This run settled it without one.
    Settled(Outcome),
    /// It was planned for a verdict that was known without it.
    NotNeeded,
}

#[derive(Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) instance: InstanceId,
    /// Its folder, relative to the store.
    pub(crate) folder: String,
    /// UUIDs of its GPUs.
    pub(crate) gpus: Vec<String>,
    /// The number of GPUs that its job requests from Slurm.
    gpus_requested: u32,
    pub(crate) cpus: u32,
    /// Its job waits in Slurm's queue.
    pub(crate) queued: bool,
    /// When it began, or was submitted if it is queued: milliseconds since 1970.
    pub(crate) began: u64,
    /// How it ended.
    pub(crate) ended: Option<Outcome>,
    /// A sentence about its end.
    pub(crate) message: Option<String>,
    /// Inputs with other content than its fingerprint says.
    pub(crate) wrong_inputs: Vec<Disturbance>,
    /// Its job and node, if Slurm runs it.
    pub(crate) place: Option<String>,
    /// Between 0 and 1, if known.
    pub(crate) fraction: Option<f64>,
    /// Its expected end, milliseconds since 1970.
    pub(crate) ends_at: Option<u64>,
    /// A short text from the program.
    pub(crate) text: String,
}

impl View {
    /// The same run, before its first event.
    pub(crate) fn unread(self) -> View {
        View { imported: self.imported, import: self.import, ..View::default() }
    }

    /// Applies a line of the journal.
    pub(crate) fn event(&mut self, line: &JournalLine) {
        self.now = self.now.max(line.at);
        self.times.add(line);
        match &line.event {
            RunEvent::RunStarted(start) => {
                self.started_at = line.at;
                self.start = Some((**start).clone());
            }
            RunEvent::Instance { instance, label, step, plan, written } => {
                if !written.is_empty() {
                    self.written.insert(step.clone(), written.clone());
                }
                let shown = InstanceView {
                    label: label.clone(),
                    step: step.clone(),
                    planned: plan.clone(),
                    state: InstanceState::Waiting,
                    reason: None,
                    attempts: Vec::new(),
                    fingerprint: None,
                    result: None,
                };
                if let Entry::Vacant(new) = self.instances.entry(*instance) {
                    new.insert(shown);
                    self.open += 1;
                }
            }
            RunEvent::Cached { instance, fingerprint, outcome, from } => self.set(*instance, |shown| {
                shown.state = InstanceState::Cached(*outcome, from.clone());
                shown.fingerprint = Some(*fingerprint);
            }),
            RunEvent::Started { instance, attempt, folder, why, gpus, gpus_requested, cpus, queued } => {
                let started = Attempt {
                    instance: *instance,
                    folder: folder.clone(),
                    gpus: gpus.clone(),
                    gpus_requested: *gpus_requested,
                    queued: *queued,
                    cpus: *cpus,
                    began: line.at,
                    ..Attempt::default()
                };
                self.attempts.insert(*attempt, started);
                self.set(*instance, |shown| {
                    shown.state = InstanceState::Running;
                    shown.reason = Some(InstanceReason::Runs(why.clone()));
                    shown.attempts.push(*attempt);
                });
            }
            RunEvent::Ended { instance, attempt, outcome, cause, disturbances } => {
                if let Some(ended) = self.attempts.get_mut(attempt) {
                    ended.ended = Some(*outcome);
                    ended.message = cause.as_ref().map(reasons::cause);
                    ended.wrong_inputs = disturbances.iter().filter(|why| why.is_of_content()).cloned().collect();
                }
                // Perhaps for the next attempt; otherwise it is settled at once.
                if *outcome == Outcome::Failed {
                    self.set(*instance, |shown| shown.state = InstanceState::Waiting);
                }
            }
            RunEvent::Recorded { instance, result, read_again, .. } => {
                let unread = self.ended_otherwise(*instance, result.outcome);
                self.set(*instance, |shown| {
                    shown.state = match read_again {
                        true => InstanceState::Cached(result.outcome, result.run.clone()),
                        // It was stored only so that its metrics can be read differently; its
                        // outcome comes next.
                        false if unread => InstanceState::Waiting,
                        false => InstanceState::Done(result.outcome),
                    };
                    shown.fingerprint = Some(result.fingerprint);
                    shown.result = Some(result.clone());
                });
            }
            RunEvent::Settled { instance, cause: Some(Cause::Decided { group, .. }), .. } => {
                self.decided.entry(group.clone()).or_insert(*instance);
                self.set(*instance, |shown| shown.state = InstanceState::NotNeeded);
            }
            RunEvent::Settled { instance, outcome, cause } => self.set(*instance, |shown| {
                shown.state = InstanceState::Settled(*outcome);
                shown.reason = Some(InstanceReason::Settled(*outcome, cause.clone()));
                if let Some(result) = &mut shown.result {
                    (result.outcome, result.cause) = (*outcome, cause.clone());
                }
            }),
            RunEvent::Interrupted { grace, again } => self.interruptions.push(reasons::interrupted(*grace, *again)),
            RunEvent::Published { path, changed } => self.published.push((path.clone(), *changed)),
            RunEvent::Withheld { path, written, why } => {
                self.withheld.push((path.clone(), written.clone(), reasons::withheld(why)));
            }
            RunEvent::RunEnded { exit, not_published, .. } => {
                self.exit = Some(*exit);
                self.not_published.clone_from(not_published);
            }
            // An imported run has a journal of its own, without these.
            RunEvent::Imported { .. }
            | RunEvent::Foreign { .. }
            | RunEvent::Accepted { .. }
            | RunEvent::Forgotten { .. }
            | RunEvent::Dropped { .. }
            | RunEvent::Remarked { .. }
            | RunEvent::Observed { .. }
            | RunEvent::Tried { .. }
            | RunEvent::Again { .. }
            | RunEvent::Notice { .. }
            | RunEvent::Ready { .. }
            | RunEvent::Released { .. }
            | RunEvent::Epoch { .. } => {}
        }
    }

    /// The id of a run in this store. An imported run had another one where it was made.
    pub(crate) fn id_here<'a>(&'a self, run: &'a RunId) -> &'a RunId {
        match (&self.imported, &self.import) {
            (Some(origin), Some(import)) if origin.run == *run => import,
            _ => run,
        }
    }

    /// Applies the progress of an attempt.
    pub(crate) fn progress(&mut self, attempt: AttemptId, fraction: Option<f64>, text: String) {
        if let Some(attempt) = self.attempts.get_mut(&attempt) {
            attempt.fraction = fraction.or(attempt.fraction);
            attempt.text = text;
        }
    }

    /// Applies the status of the run.
    pub(crate) fn status(&mut self, status: Status) {
        self.now = self.now.max(status.updated_at);
        let said = |waiting: WaitingStep| (waiting.label, reasons::waits(&waiting.reason, status.updated_at));
        self.waiting = status.waiting.into_iter().map(said).collect();
        for running in status.running {
            if let Some(attempt) = self.attempts.get_mut(&running.attempt) {
                attempt.fraction = running.fraction.or(attempt.fraction);
                attempt.ends_at = running.ends_at;
                (attempt.queued, attempt.began) = (running.queued.is_some(), running.started_at);
                self.times.began(running.attempt, running.started_at);
                attempt.place = reasons::slurm_place(&running);
                let queued = running.queued.as_ref().map(|queued| format!("queued {}", reasons::queued(queued)));
                attempt.text = queued.or(running.text).unwrap_or_default();
            }
        }
    }

    fn set(&mut self, instance: InstanceId, change: impl FnOnce(&mut InstanceView)) {
        let Some(shown) = self.instances.get_mut(&instance) else { return };
        let was_open = usize::from(shown.state.is_open());
        change(shown);
        self.open = self.open + usize::from(shown.state.is_open()) - was_open;
    }

    /// The label of an instance; its number if the journal did not name it.
    pub(crate) fn label(&self, instance: InstanceId) -> String {
        self.instances.get(&instance).map_or_else(|| format!("#{}", instance.0), |shown| shown.label.clone())
    }

    /// The label of an attempt's instance.
    pub(crate) fn label_of(&self, attempt: AttemptId) -> String {
        self.attempts.get(&attempt).map(|attempt| self.label(attempt.instance)).unwrap_or_default()
    }

    /// The attempts of an instance, in their order.
    pub(crate) fn attempts_of(&self, shown: &InstanceView) -> impl ExactSizeIterator<Item = &Attempt> {
        shown.attempts.iter().map(|id| &self.attempts[id])
    }

    /// Inputs of an instance's last attempt that had other content than its fingerprint says.
    pub(crate) fn wrong_inputs(&self, shown: &InstanceView) -> &[Disturbance] {
        self.attempts_of(shown).last().map_or(&[], |attempt| &attempt.wrong_inputs)
    }

    /// True if an instance ended well, but its result is not kept.
    pub(crate) fn is_not_kept(&self, shown: &InstanceView) -> bool {
        let ended_well = matches!(shown.state, InstanceState::Done(_) | InstanceState::Cached(..));
        ended_well && !self.wrong_inputs(shown).is_empty()
    }

    /// Whether the last attempt of an instance ended with another outcome.
    pub(crate) fn ended_otherwise(&self, instance: InstanceId, outcome: Outcome) -> bool {
        let last = self.instances.get(&instance).and_then(|shown| self.attempts_of(shown).last());
        last.and_then(|attempt| attempt.ended).is_some_and(|ended| ended != outcome)
    }

    /// Attempts that are running.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&AttemptId, &Attempt)> {
        self.times.running().filter_map(|id| Some((id, self.attempts.get(id)?)))
    }

    /// Numbers of settled instances and of all.
    pub(crate) fn settled(&self) -> (usize, usize) {
        (self.instances.len() - self.open, self.instances.len())
    }

    /// `GPU 0,1, 4 CPUs`: the resources of an attempt; `2 GPUs, 4 CPUs` if Slurm chooses them.
    pub(crate) fn holds(&self, attempt: &Attempt) -> String {
        let gpus: Vec<String> = attempt.gpus.iter().map(|uuid| self.gpu(uuid)).collect();
        let cpus = crate::words::count(attempt.cpus as usize, "CPU");
        match (gpus.is_empty(), attempt.gpus_requested) {
            (true, 0) => cpus,
            (true, asked) => format!("{}, {cpus}", crate::words::count(asked as usize, "GPU")),
            (false, _) => format!("GPU {}, {cpus}", gpus.join(",")),
        }
    }

    /// The index of a GPU.
    fn gpu(&self, uuid: &str) -> String {
        let gpus = self.start.as_ref().map(|start| start.machine.gpus.as_slice()).unwrap_or_default();
        gpus.iter().find(|gpu| gpu.uuid == uuid).map_or_else(|| uuid.to_owned(), |gpu| gpu.index.to_string())
    }

    /// Seconds since the run began.
    pub(crate) fn elapsed(&self, at: u64) -> f64 {
        at.saturating_sub(self.started_at) as f64 / 1e3
    }
}

impl InstanceState {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, InstanceState::Waiting | InstanceState::Running)
    }
}

/// Passes each of these with its result: its run's own, or the reused one. Results are requested
/// and held in batches.
pub(crate) fn each_result<'a>(
    shown: impl IntoIterator<Item = &'a InstanceView>,
    kept: &Store,
    store: &StoreDir,
    mut each: impl FnMut(&'a InstanceView, Option<StepResult>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    const AT_ONCE: usize = 512;
    let mut shown = shown.into_iter().peekable();
    while shown.peek().is_some() {
        let some: Vec<&InstanceView> = shown.by_ref().take(AT_ONCE).collect();
        let reused = some.iter().filter(|shown| shown.result.is_none()).filter_map(|shown| shown.fingerprint);
        let mut reused = kept.results_of(&reused.collect::<Vec<_>>())?.into_iter();
        let results = some.iter().map(|shown| match (&shown.result, &shown.fingerprint) {
            (Some(result), _) => Some((**result).clone()),
            (None, Some(_)) => reused.next().flatten(),
            (None, None) => None,
        });
        let mut results: Vec<Option<StepResult>> = results.collect();
        as_reused(&some, &mut results, store)?;
        for (shown, result) in some.into_iter().zip(results) {
            each(shown, result)?;
        }
    }
    Ok(())
}

/// Replaces results that were made again, with `--force`, after the run reused them. The journals have the earlier ones;
/// without that journal they are unknown.
fn as_reused(shown: &[&InstanceView], results: &mut [Option<StepResult>], store: &StoreDir) -> Result<(), CliError> {
    let mut wanted: BTreeMap<(RunId, Digest), usize> = BTreeMap::new();
    for (at, (shown, result)) in shown.iter().zip(results.iter_mut()).enumerate() {
        let InstanceState::Cached(_, from) = &shown.state else { continue };
        if result.as_ref().is_some_and(|result| result.run != *from)
            && let Some(result) = result.take()
        {
            wanted.insert((from.clone(), result.fingerprint), at);
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let named: BTreeSet<RunId> = wanted.keys().map(|(from, _)| from.clone()).collect();
    // Another run may have collected it.
    let others = store.runs()?.into_iter().filter(|run| !named.contains(run));
    for run in named.iter().cloned().chain(others) {
        if wanted.is_empty() {
            break;
        }
        let dir = store.run(&run);
        if dir.first_line()?.is_none() {
            continue;
        }
        dir.read_journal(|line| {
            if let RunEvent::Recorded { result, .. } = line.event
                && let Some(at) = wanted.remove(&(result.run.clone(), result.fingerprint))
            {
                results[at] = Some(*result);
            }
        })?;
    }
    Ok(())
}

/// An outcome that makes a run exit with code 1, unless the step records it.
pub(crate) fn is_failure(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Ok | Outcome::Skipped | Outcome::Cancelled)
}
