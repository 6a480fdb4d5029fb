//! The jobs of a run and their records on disk, sorted by the first attempt of each, so that they have the scheduler's
//! order. Does not call Slurm.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::{Duration, Instant},
};

use flow_core::{AttemptId, RunId};
use flow_runs::StoreDir;
use flow_slurm::JobId;
use flow_supervisor::{
    clock,
    intents::{self, Intent},
    node::{NodeFiles, Notifier, WakeUpReader},
};

use super::{
    client::JobNames,
    jobs::{BatchJob, Stage},
    submit,
};
use crate::driver::executor::Event;

pub(super) struct Book {
    dir: StoreDir,
    /// Unfinished jobs, by first attempt.
    jobs: BTreeMap<AttemptId, BatchJob>,
    to_submit: BTreeSet<AttemptId>,
    unsure: BTreeSet<AttemptId>,
    /// Jobs with an attempt that must end.
    killed: BTreeSet<AttemptId>,
    /// Wake-ups from nodes, by the run that requested their attempts first, with the job of each attempt.
    wake_ups: BTreeMap<RunId, (WakeUpReader, BTreeMap<AttemptId, AttemptId>)>,
    /// The first attempt of the job, for each attempt whose result is not recorded yet.
    first_of: BTreeMap<AttemptId, AttemptId>,
    /// Records on disk, kept until the results of all attempts in a job are recorded.
    written: BTreeMap<AttemptId, RecordedJob>,
    /// The number of tasks of each array whose results are not recorded, or were not known to be when it was read.
    arrays: BTreeMap<String, u32>,
    /// Arrays of which some counted tasks are ticked off, but not all.
    ticked_off: BTreeSet<(RunId, String)>,
    /// Tasks whose results were recorded since the last tick-off.
    safe: BTreeMap<(RunId, String), Vec<u32>>,
}

/// A job whose record is on disk.
struct RecordedJob {
    run: RunId,
    key: String,
    task: Option<u32>,
    job: Option<JobId>,
    /// Number of its attempts whose results are not recorded yet.
    left: usize,
    /// It stays in the queue for the next run.
    remains_queued: bool,
}

impl Book {
    pub(super) fn new(dir: StoreDir) -> Book {
        Book {
            dir,
            jobs: BTreeMap::new(),
            to_submit: BTreeSet::new(),
            unsure: BTreeSet::new(),
            killed: BTreeSet::new(),
            wake_ups: BTreeMap::new(),
            first_of: BTreeMap::new(),
            written: BTreeMap::new(),
            arrays: BTreeMap::new(),
            ticked_off: BTreeSet::new(),
            safe: BTreeMap::new(),
        }
    }

    /// Adds a job to submit, or one of an earlier run. Returns its first attempt.
    pub(super) fn add(&mut self, job: BatchJob) -> Option<AttemptId> {
        let first = job.members.first()?.attempt;
        let intent = &job.intent;
        let ear = || WakeUpReader::new(Notifier::of(&self.dir.run(&intent.run)));
        let (_, whom) = self.wake_ups.entry(intent.run.clone()).or_insert_with(|| (ear(), BTreeMap::new()));
        whom.extend(intent.members.iter().map(|member| (member.attempt, first)));
        self.first_of.extend(job.members.iter().map(|member| (member.attempt, first)));
        if let Some(task) = intent.task {
            self.arrays.entry(intent.key.clone()).or_insert(task.of);
        }
        self.written.insert(first, RecordedJob::of(intent, job.members.len()));
        let stage = job.stage;
        self.jobs.insert(first, job);
        self.put(&[first], stage);
        Some(first)
    }

    pub(super) fn job(&mut self, first: AttemptId) -> Option<&mut BatchJob> {
        self.jobs.get_mut(&first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// True if Slurm may have jobs of this run.
    pub(super) fn is_any_submitted(&self) -> bool {
        self.jobs.len() > self.to_submit.len()
    }

    /// True if something waits for the state of the queue.
    pub(super) fn is_to_be_known_soon(&self) -> bool {
        !self.unsure.is_empty() || !self.killed.is_empty()
    }

    pub(super) fn firsts(&self, which: impl Fn(&BatchJob) -> bool) -> Vec<AttemptId> {
        self.jobs.iter().filter(|(_, job)| which(job)).map(|(first, _)| *first).collect()
    }

    /// Sets the stage of jobs.
    pub(super) fn put(&mut self, which: &[AttemptId], stage: Stage) {
        for first in which {
            let Some(job) = self.jobs.get_mut(first) else { continue };
            job.stage = stage;
            for (set, here) in [
                (&mut self.to_submit, stage == Stage::ToSubmit),
                (&mut self.unsure, matches!(stage, Stage::Unsure { .. })),
            ] {
                if here {
                    set.insert(*first)
                } else {
                    set.remove(first)
                };
            }
        }
    }

    /// Updates the records after a change of a job.
    pub(super) fn see(&mut self, first: AttemptId) {
        let Some(job) = self.jobs.get(&first) else { return };
        if let Some(written) = self.written.get_mut(&first)
            && written.job != job.intent.job
        {
            written.job = job.intent.job;
            if job.intent.task.is_none() {
                // A job, like an array, is found by its name without its id.
                let _ = job.intent.note(&self.dir);
            }
        }
        if job.is_over() {
            self.to_submit.remove(&first);
            self.unsure.remove(&first);
            self.killed.remove(&first);
            if let Some((_, whom)) = self.wake_ups.get_mut(&job.intent.run) {
                job.intent.members.iter().for_each(|member| _ = whom.remove(&member.attempt));
            }
            if self.written.get(&first).is_none_or(|written| !written.remains_queued) {
                job.intent.forget_programs();
            }
            self.jobs.remove(&first);
        }
    }

    /// Jobs whose attempts have woken us up.
    pub(super) fn woken(&mut self) -> BTreeSet<AttemptId> {
        let listened = self.wake_ups.values_mut().filter(|(_, whom)| !whom.is_empty());
        listened
            .flat_map(|(ear, whom)| ear.woken().into_iter().filter_map(|attempt| whom.get(&attempt).copied()))
            .collect()
    }

    /// The first job to submit, and those that fit into one array with it.
    pub(super) fn alike(&self) -> Vec<AttemptId> {
        let Some(first) = self.to_submit.first().and_then(|first| self.jobs.get(first)) else { return Vec::new() };
        let waiting = self.to_submit.iter().filter_map(|id| Some((id, self.jobs.get(id)?)));
        let alike = waiting.enumerate().filter(|(n, (_, job))| *n == 0 || submit::are_alike(first, job));
        alike.map(|(_, (id, _))| *id).collect()
    }

    /// Writes records of jobs, in the order of their attempts.
    pub(super) fn write<T>(
        &mut self,
        which: &[AttemptId],
        write: impl FnOnce(&mut [&mut BatchJob]) -> io::Result<T>,
    ) -> io::Result<T> {
        let wanted: BTreeSet<AttemptId> = which.iter().copied().collect();
        let mut jobs: Vec<_> =
            self.jobs.iter_mut().filter(|(first, _)| wanted.contains(first)).map(|(_, job)| job).collect();
        let done = write(&mut jobs);
        for (first, job) in wanted.iter().zip(jobs) {
            if let Some(task) = job.intent.task {
                self.arrays.insert(job.intent.key.clone(), task.of);
            }
            self.written.insert(*first, RecordedJob::of(&job.intent, job.members.len()));
        }
        done
    }

    /// Slurm has accepted these jobs.
    pub(super) fn submitted(&mut self, which: &[AttemptId], id: JobId) -> Vec<Event> {
        let mut events = Vec::new();
        for first in which {
            let Some(job) = self.jobs.get_mut(first) else { continue };
            job.intent.job = Some(JobId { job: id.job, task: job.task() });
            events.extend(job.is_queued());
        }
        let intents = || which.iter().filter_map(|first| Some(&self.jobs.get(first)?.intent));
        if intents().any(|intent| intent.task.is_some()) {
            // An array is found by its name without its id.
            let _ = intents::note_array(&self.dir, intents());
        }
        self.put(which, Stage::InQueue);
        which.iter().for_each(|first| self.see(*first));
        events
    }

    /// An attempt must end, at this time at the latest.
    pub(super) fn kill(&mut self, attempt: AttemptId, by: Instant, grace: Duration) {
        let first = self.first_of.get(&attempt).copied();
        let Some((first, job)) = first.and_then(|first| Some((first, self.jobs.get_mut(&first)?))) else { return };
        for member in job.members.iter_mut().filter(|member| member.attempt == attempt && !member.ended) {
            member.killed = Some(member.killed.map_or(by, |before| before.min(by)));
            // If this cannot be written, Slurm ends the job.
            let _ = NodeFiles::of(&member.folder).request_end(grace);
        }
        job.cancelled = None;
        self.killed.insert(first);
    }

    /// Killed jobs that were never submitted.
    pub(super) fn unsubmitted_and_killed(&self) -> Vec<AttemptId> {
        let unsubmitted = |job: &BatchJob| job.stage == Stage::ToSubmit && job.to_cancel(clock::steady());
        self.killed.iter().filter(|first| self.jobs.get(first).is_some_and(unsubmitted)).copied().collect()
    }

    /// The jobs to cancel now: killed, and not cancelled within the last `again`.
    pub(super) fn cancels(&mut self, again: Duration) -> JobNames {
        let now = clock::steady();
        let mut which = JobNames::new();
        for first in &self.killed {
            let Some(job) = self.jobs.get_mut(first) else { continue };
            let told = job.cancelled.is_some_and(|at| clock::since(at) < again);
            if !told && job.stage != Stage::ToSubmit && job.to_cancel(now) {
                job.cancelled = Some(now);
                which.insert((job.intent.key.clone(), job.task()));
            }
        }
        which
    }

    /// Leaves a job in the queue after the end of this run.
    pub(super) fn leave(&mut self, first: AttemptId) -> Vec<Event> {
        let Some(job) = self.jobs.get_mut(&first) else { return Vec::new() };
        let events = job.leave();
        self.written.get_mut(&first).into_iter().for_each(|written| written.remains_queued = true);
        self.see(first);
        events
    }

    /// The result of an attempt is recorded or dropped.
    pub(super) fn settled(&mut self, attempt: AttemptId) {
        let Some(first) = self.first_of.remove(&attempt) else { return };
        let Some(written) = self.written.get_mut(&first) else { return };
        written.left -= 1;
        if written.left > 0 || written.remains_queued {
            return;
        }
        let Some(RecordedJob { run, key, task, .. }) = self.written.remove(&first) else { return };
        match task {
            Some(task) => self.safe.entry((run, key)).or_default().push(task),
            None => intents::remove(&self.dir, &run, &key),
        }
    }

    /// Notes on disk which tasks' results are recorded.
    pub(super) fn tick_off(&mut self) {
        for ((run, key), tasks) in std::mem::take(&mut self.safe) {
            let left = self.arrays.entry(key.clone()).or_default();
            *left = left.saturating_sub(tasks.len() as u32);
            if *left == 0 {
                intents::remove(&self.dir, &run, &key);
                self.ticked_off.remove(&(run, key));
            } else {
                intents::tick_off(&self.dir, &run, &key, &tasks);
                self.ticked_off.insert((run, key));
            }
        }
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        self.ticked_off.iter().for_each(|(run, key)| intents::remove_done(&self.dir, run, key));
        // Wake-ups for jobs that survive this run stay open for other runs.
        self.wake_ups.values().filter(|(_, whom)| whom.is_empty()).for_each(|(ear, _)| ear.close());
    }
}

impl RecordedJob {
    fn of(intent: &Intent, left: usize) -> RecordedJob {
        let task = intent.task.map(|task| task.number);
        RecordedJob {
            run: intent.run.clone(),
            key: intent.key.clone(),
            task,
            job: intent.job,
            left,
            remains_queued: false,
        }
    }
}
