//! Work of dead runs that still runs: batch jobs, and attempts on this machine. This run joins what it needs, and ends
//! what belongs to its workflow and nobody needs. Starts nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use flow_core::{AttemptId, Digest, RunEvent, RunId};
use flow_runs::{LivingRuns, StoreDir, StoreError};
use flow_store::Store;
use flow_supervisor::{
    clock,
    intents::{self, Intent, Member, OrphanState},
};

use super::follow::{self, AttemptToFollow};
use crate::driver::executor::composite;

/// The work of dead runs, as it was found.
pub(crate) struct OrphanedWork {
    dir: StoreDir,
    found: Mutex<OrphanScan>,
    /// The number of looks whose dead runs have been imported: looks that saw deaths or may have missed some.
    imported: Mutex<u64>,
}

struct OrphanScan {
    intents: Vec<Intent>,
    /// Intents that this run is about to join.
    promised: Vec<Intent>,
    labels: BTreeMap<RunId, Arc<BTreeMap<AttemptId, String>>>,
    /// Batch jobs as they were found: the fingerprints of their results, by label.
    jobs: BTreeMap<String, BTreeSet<Digest>>,
    /// The runs whose attempts this run has joined, by fingerprint.
    joined: BTreeMap<Digest, RunId>,
    /// The workflow files of runs that left jobs.
    files: BTreeMap<RunId, Option<String>>,
    /// When it changes, dead runs are searched again.
    changed_at: Option<SystemTime>,
    /// The other living runs, to notice deaths.
    living: LivingRuns,
    dead: BTreeSet<RunId>,
    /// Number of looks that saw deaths, or may have missed some.
    looks: u64,
}

impl OrphanedWork {
    /// Looks for all of it, on behalf of the run `own`.
    pub(crate) fn look(store: &Store, own: &RunId) -> OrphanedWork {
        let (dir, news) = (store.dir(), store.dir().jobs_changed_at());
        // First, so that every death from here on is noticed.
        let mut living = LivingRuns::other_than(dir, own);
        let _ = living.ended(clock::system(), |_| false);
        let (marked, intents): (Vec<Intent>, Vec<Intent>) =
            follow::still_needed(store, follow::all(dir)).into_iter().partition(Intent::is_marked);
        composite::end_unwanted(dir, &marked);
        let mut jobs: BTreeMap<String, BTreeSet<Digest>> = BTreeMap::new();
        for member in intents.iter().filter(|intent| intent.here.is_none()).flat_map(|intent| &intent.members) {
            jobs.entry(member.label.clone()).or_default().insert(member.fingerprint);
        }
        let (labels, files, dead) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        // Runs that died before are not imported yet.
        let (promised, joined) = (Vec::new(), BTreeMap::new());
        let found =
            OrphanScan { intents, promised, labels, jobs, joined, files, changed_at: news, living, dead, looks: 1 };
        OrphanedWork { dir: dir.clone(), found: Mutex::new(found), imported: Mutex::new(0) }
    }

    /// The attempt with this fingerprint that this run can follow.
    pub(crate) fn followed(&self, fingerprint: &Digest) -> Option<AttemptToFollow> {
        self.with(|found, dir| {
            let each = found.promised.iter().chain(&found.intents);
            let mut each = each.flat_map(|intent| intent.members.iter().map(move |member| (intent, member)));
            let fits = |(intent, member): &(&Intent, &Member)| {
                member.fingerprint == *fingerprint && follow::is_followed(dir, intent)
            };
            each.find(fits).map(|(intent, member)| AttemptToFollow::of(intent, member))
        })
    }

    /// The run that started the attempt with this fingerprint, if this run has joined it.
    pub(crate) fn joined(&self, fingerprint: &Digest) -> Option<RunId> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).joined.get(fingerprint).cloned()
    }

    /// True if none of it is on this machine.
    pub(crate) fn has_nothing_here(&self) -> bool {
        self.with(|found, _| found.intents.iter().chain(&found.promised).all(|intent| intent.here.is_none()))
    }

    fn with<T>(&self, work: impl FnOnce(&mut OrphanScan, &StoreDir) -> T) -> T {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_again(&mut found, false);
        work(&mut found, &self.dir)
    }

    /// Runs beside this one may have been killed and have left work. Looks at all runs that are not known to `live`.
    /// Returns how many looks saw deaths, or may have missed some.
    pub(crate) fn look_for_deaths(&self, live: impl Fn(&RunId) -> bool) -> u64 {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = found.living.ended(clock::system(), live) {
            found.looks += 1;
            let before = found.dead.len();
            found.dead.extend(ended.into_iter().filter(|run| follow::may_have_orphans(&self.dir.run(run))));
            if found.dead.len() > before {
                self.look_again(&mut found, true);
            }
        }
        found.looks
    }

    /// The same, and imports the records of runs that have died by now into the store.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn import_deaths(&self, store: &Store, live: impl Fn(&RunId) -> bool) -> Result<(), StoreError> {
        let looks = self.look_for_deaths(live);
        let mut imported = self.imported.lock().unwrap_or_else(PoisonError::into_inner);
        if *imported < looks {
            store.import_ended()?;
            *imported = looks;
        }
        Ok(())
    }

    fn look_again(&self, found: &mut OrphanScan, is_needed: bool) {
        let news = self.dir.jobs_changed_at();
        if is_needed || news != found.changed_at {
            let kept = |intent: &Intent| intent.here.is_none() || found.promised.contains(intent);
            let before: Vec<Intent> = found.intents.iter().filter(|intent| kept(intent)).cloned().collect();
            let here = follow::all(&self.dir).into_iter().filter(|intent| intent.here.is_some());
            found.intents = here.filter(|intent| !found.promised.contains(intent)).chain(before).collect();
            found.changed_at = news;
        }
    }

    /// Takes the job of an earlier run that runs these attempts, in their order, by fingerprint.
    pub(crate) fn job(&self, attempts: &[Digest]) -> Option<Intent> {
        self.with(|found, _| {
            let at = found.intents.iter().position(|intent| intent.here.is_none() && does(intent, attempts))?;
            let intent = found.intents.swap_remove(at);
            found.joins(&intent);
            Some(intent)
        })
    }

    /// True if these attempts run on this machine or have ended there. If so, they are reserved for this run.
    pub(crate) fn are_here(&self, attempts: &[Digest]) -> bool {
        self.with(|found, dir| {
            if found.promised.iter().any(|intent| does(intent, attempts)) {
                return true;
            }
            let fits = |intent: &Intent| intent.here.is_some() && does(intent, attempts);
            let Some(at) =
                found.intents.iter().position(|intent| fits(intent) && intent.state(dir) == OrphanState::Sound)
            else {
                // Attempts that cannot be joined block a new start, so they are ended.
                found.intents.retain(|intent| !fits(intent) || intent.end(dir));
                return false;
            };
            let promised = found.intents.swap_remove(at);
            found.promised.push(promised);
            true
        })
    }

    /// Takes the intent of these attempts: they belong to this run from here on.
    pub(crate) fn take(&self, attempts: &[Digest]) -> Option<Intent> {
        if !self.are_here(attempts) {
            return None;
        }
        self.with(|found, _| {
            let at = found.promised.iter().position(|intent| does(intent, attempts))?;
            let intent = found.promised.swap_remove(at);
            found.joins(&intent);
            Some(intent)
        })
    }

    /// The labels of a dead run's attempts.
    pub(crate) fn labels(&self, run: &RunId) -> Arc<BTreeMap<AttemptId, String>> {
        self.with(|found, dir| {
            Arc::clone(found.labels.entry(run.clone()).or_insert_with(|| Arc::new(labels(dir, run))))
        })
    }

    /// Ends attempts of the workflow file `file` with these labels but another fingerprint, unless another run follows
    /// them. Returns the labels of the ended ones, like all that follow.
    pub(crate) fn end_unwanted(
        &self,
        file: &str,
        wanted: &BTreeMap<String, Option<Digest>>,
        is_followed: impl Fn(&Digest) -> bool,
    ) -> BTreeSet<String> {
        let is_other = |member: &Member| wanted.get(&member.label).is_some_and(|of| *of != Some(member.fingerprint));
        self.end(file, is_followed, |intent| intent.members.iter().any(is_other))
    }

    /// Ends attempts of a workflow file that has no such instance any more.
    pub(crate) fn end_unknown(
        &self,
        file: &str,
        is_known: impl Fn(&str) -> bool,
        is_followed: impl Fn(&Digest) -> bool,
    ) -> BTreeSet<String> {
        let is_over = |intent: &Intent| intent.members.iter().any(|member| !is_known(&member.label));
        let mut ended = self.end(file, is_followed, is_over);
        if self.has_jobs() {
            ended.extend(self.end_jobs_where(file, |member| !is_known(&member.label)));
        }
        ended
    }

    fn end(
        &self,
        file: &str,
        is_followed: impl Fn(&Digest) -> bool,
        is_over: impl Fn(&Intent) -> bool,
    ) -> BTreeSet<String> {
        let mut ended = BTreeSet::new();
        self.with(|found, dir| {
            found.intents.retain(|intent| {
                let followed = || intent.members.iter().any(|member| is_followed(&member.fingerprint));
                let over = intent.here.as_deref() == Some(file) && is_over(intent) && !followed();
                // An attempt that has not ended yet is checked again with the next decision about its label.
                let (is_new, stays) = (over && !intent.should_end(), !over || intent.end(dir));
                if is_new && stays {
                    ended.extend(labels_of(intent));
                }
                stays
            });
        });
        ended
    }

    /// True if there are batch jobs.
    pub(crate) fn has_jobs(&self) -> bool {
        self.with(|found, _| found.intents.iter().any(|intent| intent.here.is_none()))
    }

    /// True if a batch job with this label but another result was found.
    pub(crate) fn has_other_job(&self, label: &str, result: &Digest) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.jobs.get(label).is_some_and(|of| of.iter().any(|of| of != result))
    }

    /// Ends jobs of the workflow file `file` with these labels but other results than wanted.
    pub(crate) fn end_jobs(&self, file: &str, wanted: &BTreeMap<String, Option<Digest>>) -> BTreeSet<String> {
        self.end_jobs_where(file, |member| {
            wanted.get(&member.label).is_some_and(|wanted| *wanted != Some(member.fingerprint))
        })
    }

    fn end_jobs_where(&self, file: &str, is_over: impl Fn(&Member) -> bool) -> BTreeSet<String> {
        let jobs = self.take_jobs(file, is_over);
        // Another living run may have joined them.
        if jobs.is_empty() || other_runs_live(&self.dir) {
            return BTreeSet::new();
        }
        composite::end_unwanted(&self.dir, &jobs);
        jobs.iter().flat_map(labels_of).collect()
    }

    /// This run must end: ends jobs of the workflow file `file` with these labels that it has not joined yet. Returns a
    /// notice.
    pub(crate) fn end_unjoined(&self, file: &str, labels: &BTreeSet<String>) -> Option<String> {
        let jobs = self.take_jobs(file, |member| labels.contains(&member.label));
        match jobs.len() {
            0 => None,
            many if other_runs_live(&self.dir) => Some(format!(
                "jobs of an earlier run continue, because another run of this store may follow them: {many}"
            )),
            _ => composite::end_unjoined(&self.dir, jobs),
        }
    }

    /// Takes the running jobs of a workflow file that match: they belong to nobody from here on.
    fn take_jobs(&self, file: &str, is_so: impl Fn(&Member) -> bool) -> Vec<Intent> {
        self.with(|found, dir| {
            let mut jobs = Vec::new();
            let files = &mut found.files;
            found.intents.retain(|intent| {
                // A job that has ended stays, for runs that need its result again.
                let taken = intent.here.is_none() && intent.members.iter().any(&is_so) && !intent.has_ended();
                let of_run = || dir.run(&intent.run).start().map(|start| start.file);
                let taken = taken && files.entry(intent.run.clone()).or_insert_with(of_run).as_deref() == Some(file);
                jobs.extend(taken.then(|| intent.clone()));
                !taken
            });
            jobs
        })
    }
}

impl OrphanScan {
    fn joins(&mut self, intent: &Intent) {
        self.joined.extend(intent.members.iter().map(|member| (member.fingerprint, intent.run.clone())));
    }
}

fn labels_of(intent: &Intent) -> impl Iterator<Item = String> {
    intent.members.iter().map(|member| member.label.clone())
}

/// True if more than one run of this store is alive.
fn other_runs_live(dir: &StoreDir) -> bool {
    let runs = dir.runs().unwrap_or_default();
    runs.into_iter().filter(|run| dir.run(run).lives().is_some()).take(2).count() > 1
}

/// From the journal of the run, and from lines that it was about to write there.
fn labels(dir: &StoreDir, run: &RunId) -> BTreeMap<AttemptId, String> {
    let run = dir.run(run);
    let (mut instances, mut labels) = (BTreeMap::new(), BTreeMap::new());
    // If the journal cannot be read, labels of attempts that ran together are missing.
    let _ = run.read_journal(|line| match line.event {
        RunEvent::Instance { instance, label, .. } => drop(instances.insert(instance, label)),
        RunEvent::Started { instance, attempt, .. } => {
            labels.extend(instances.get(&instance).map(|label| (attempt, label.clone())));
        }
        _ => {}
    });
    let members = intents::of(&run).into_iter().flat_map(|intent| intent.members);
    labels.extend(members.map(|member| (member.attempt, member.label)));
    labels
}

/// True if an intent has these attempts, in their order, and their folders exist.
fn does(intent: &Intent, attempts: &[Digest]) -> bool {
    let same = intent.members.iter().map(|member| &member.fingerprint).eq(attempts);
    same && intent.members.iter().all(|member| member.folder.is_dir())
}
