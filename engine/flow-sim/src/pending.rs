//! Jobs that wait in a simulated Slurm, in the order in which it looks at them: by priority, then by when they may start.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use flow_core::{AttemptId, CorunGpus, GroupId, Time};

/// Attempts that are one job: one, or a co-run group.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// With the GPUs of each.
    pub(crate) attempts: Vec<(AttemptId, u32)>,
    pub(crate) group: Option<(GroupId, CorunGpus)>,
    pub(crate) gpus: u32,
    pub(crate) priority: i64,
    /// When it may start; before it is submitted, when flow wanted to.
    pub(crate) from: Time,
}

impl Job {
    pub(crate) fn has(&self, attempt: AttemptId) -> bool {
        self.attempts.iter().any(|(other, _)| *other == attempt)
    }

    /// Takes an attempt out; says whether others are left.
    pub(crate) fn leave(&mut self, attempt: AttemptId) -> bool {
        self.attempts.retain(|(other, _)| *other != attempt);
        let mode = self.group.map_or(CorunGpus::Own, |(_, mode)| mode);
        self.gpus = self.attempts.iter().fold(0, |sum, &(_, gpus)| together(mode, sum, gpus));
        !self.attempts.is_empty()
    }
}

/// GPUs of a group's job, with one member more.
pub(crate) fn together(mode: CorunGpus, others: u32, one: u32) -> u32 {
    match mode {
        CorunGpus::Own => others.saturating_add(one),
        CorunGpus::Shared => others.max(one),
    }
}

/// Those that are submitted and have not started.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingJobs {
    /// By priority, the largest first, each in order of `from`.
    classes: BTreeMap<Reverse<i64>, VecDeque<Job>>,
    /// How many want how many GPUs.
    sizes: BTreeMap<u32, usize>,
}

impl PendingJobs {
    /// Comes last of its class: what is submitted later starts no sooner.
    pub(crate) fn push(&mut self, job: Job) {
        *self.sizes.entry(job.gpus).or_default() += 1;
        self.classes.entry(Reverse(job.priority)).or_default().push_back(job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The fewest GPUs that one of them wants.
    pub(crate) fn smallest(&self) -> Option<u32> {
        self.sizes.first_key_value().map(|(&gpus, _)| gpus)
    }

    /// The jobs that may start by then, in order within each class.
    pub(crate) fn ready(&self, by: Time) -> impl Iterator<Item = &Job> {
        self.classes.values().flat_map(move |jobs| jobs.iter().take_while(move |job| job.from <= by))
    }

    /// When the next one may start, after that.
    pub(crate) fn next_ready(&self, after: Time) -> Option<Time> {
        let next = |jobs: &VecDeque<Job>| Some(jobs.get(jobs.partition_point(|job| job.from <= after))?.from);
        self.classes.values().filter_map(next).min()
    }

    /// The earliest `from` of those that want no more GPUs than this.
    pub(crate) fn first_within(&self, gpus: u32) -> Option<Time> {
        if self.smallest().is_none_or(|smallest| smallest > gpus) {
            return None;
        }
        self.classes.values().filter_map(|jobs| jobs.iter().find(|job| job.gpus <= gpus)).map(|job| job.from).min()
    }

    /// Some may not start yet.
    pub(crate) fn is_any_after(&self, at: Time) -> bool {
        self.classes.values().filter_map(VecDeque::back).any(|job| job.from > at)
    }

    /// Offers those that may start by now in order, each with the fewest GPUs that one of all wants, until `take` wants no more.
    pub(crate) fn offer(&mut self, now: Time, mut take: impl FnMut(Job, u32) -> OfferOutcome) {
        let mut enough = false;
        for (class, mut jobs) in std::mem::take(&mut self.classes) {
            let mut waiting = VecDeque::new();
            while !enough && jobs.front().is_some_and(|job| job.from <= now) {
                let Some(job) = jobs.pop_front() else { break };
                let (gpus, smallest) = (job.gpus, self.smallest().unwrap_or(0));
                match take(job, smallest) {
                    OfferOutcome::Taken => self.one_less(gpus),
                    OfferOutcome::Waits(job) => waiting.push_back(job),
                    OfferOutcome::Enough(job) => {
                        jobs.push_front(job);
                        enough = true;
                    }
                }
            }
            waiting.append(&mut jobs);
            if !waiting.is_empty() {
                self.classes.insert(class, waiting);
            }
        }
    }

    /// One attempt is not to start after all; says whether it waited here.
    pub(crate) fn withdraw(&mut self, attempt: AttemptId) -> bool {
        let found =
            self.classes.iter().find_map(|(class, jobs)| Some((*class, jobs.iter().position(|job| job.has(attempt))?)));
        let Some((class, at)) = found else { return false };
        let Some(jobs) = self.classes.get_mut(&class) else { return false };
        let before = jobs[at].gpus;
        if jobs[at].leave(attempt) {
            *self.sizes.entry(jobs[at].gpus).or_default() += 1;
        } else {
            jobs.remove(at);
        }
        if jobs.is_empty() {
            self.classes.remove(&class);
        }
        self.one_less(before);
        true
    }

    /// One job with so many GPUs fewer waits.
    fn one_less(&mut self, gpus: u32) {
        if let Some(count) = self.sizes.get_mut(&gpus) {
            *count -= 1;
            if *count == 0 {
                self.sizes.remove(&gpus);
            }
        }
    }
}

/// The outcome of an offer.
pub(crate) enum OfferOutcome {
    Taken,
    Waits(Job),
    /// It waits, and no more jobs are taken.
    Enough(Job),
}
