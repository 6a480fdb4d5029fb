//! A simulated Slurm: a queue with limits between flow's scheduler, which submits jobs, and the nodes, whose GPUs Slurm
//! allocates. Holds no rule of flow's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use flow_core::{AttemptId, CorunGpus, GpuId, GroupId, Span, Time};

use crate::nodes::Nodes;
use crate::pending::{Job, OfferOutcome, PendingJobs, together};
use crate::slurm::{Idle, QueueStats, Slurm};
use crate::{Cluster, SimError, SimTask};

/// The queue and the nodes behind it.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    slurm: Slurm,
    /// Wanted by flow, not submitted yet.
    wanted: VecDeque<Job>,
    /// `sbatch` is busy until then.
    busy_until: Time,
    pending: PendingJobs,
    /// Attempts that flow has handed over and that have not ended, with their GPUs once they have started.
    handed: BTreeMap<AttemptId, Option<Vec<GpuId>>>,
    /// How many of them are submitted.
    submitted: usize,
    /// Those that ended and are still known, by when they are forgotten.
    remembered: VecDeque<Time>,
    /// Those of flow's attempts that it does not know to have ended.
    unnoticed: BTreeSet<AttemptId>,
    nodes: Nodes,
    at: Time,
    last_end: Time,
    calls: u64,
    most: usize,
    waited: u128,
    started: u64,
    /// In GPU-microseconds.
    idle: BTreeMap<Idle, u128>,
    /// The part of `idle` after the last end.
    since_end: BTreeMap<Idle, u128>,
}

impl Queue {
    pub(crate) fn new(slurm: Slurm, cluster: Cluster, tasks: &[SimTask]) -> Result<Queue, SimError> {
        let mut groups: BTreeMap<GroupId, u32> = BTreeMap::new();
        for task in tasks.iter().filter(|task| task.task.batch) {
            let asked = task.task.request.gpus;
            let gpus = match task.task.corun {
                None => asked,
                Some((group, mode)) => {
                    let sum = groups.entry(group).or_default();
                    *sum = together(mode, *sum, asked);
                    *sum
                }
            };
            if gpus > cluster.gpus {
                return Err(SimError::TooWideForNode { instance: task.task.instance, gpus, node: cluster.gpus });
            }
        }
        Ok(Queue {
            slurm,
            wanted: VecDeque::new(),
            busy_until: Time(0),
            pending: PendingJobs::default(),
            handed: BTreeMap::new(),
            submitted: 0,
            remembered: VecDeque::new(),
            unnoticed: BTreeSet::new(),
            nodes: Nodes::new(cluster),
            at: Time(0),
            last_end: Time(0),
            calls: 0,
            most: 0,
            waited: 0,
            started: 0,
            idle: BTreeMap::new(),
            since_end: BTreeMap::new(),
        })
    }

    /// flow wants an attempt started. Members of a group come one after the other, at one instant.
    pub(crate) fn submit(&mut self, attempt: AttemptId, task: &SimTask, now: Time) {
        self.account(now);
        self.handed.insert(attempt, None);
        self.unnoticed.insert(attempt);
        let (group, asked) = (task.task.corun, task.task.request.gpus);
        if let Some((_, mode)) = group
            && let Some(job) = self.wanted.back_mut().filter(|job| job.group == group && job.from == now)
        {
            job.attempts.push((attempt, asked));
            job.gpus = together(mode, job.gpus, asked);
            return;
        }
        let priority = task.task.priority;
        self.wanted.push_back(Job { attempts: vec![(attempt, asked)], group, gpus: asked, priority, from: now });
    }

    /// An attempt has ended: when flow sees it. `None` if it had ended before.
    pub(crate) fn end(&mut self, attempt: AttemptId, now: Time) -> Option<Time> {
        self.account(now);
        match self.handed.remove(&attempt)? {
            Some(gpus) => {
                self.submitted -= 1;
                self.nodes.give_back(&gpus);
            }
            None => self.withdraw(attempt),
        }
        self.remembered.push_back(now + Span::from_secs_f64(self.slurm.remembered_s));
        self.last_end = now;
        self.since_end.clear();
        Some(now + Span::from_secs_f64(self.slurm.notice_s))
    }

    /// It was cancelled before it started.
    fn withdraw(&mut self, attempt: AttemptId) {
        if let Some(at) = self.wanted.iter().position(|job| job.has(attempt)) {
            if !self.wanted[at].leave(attempt) {
                self.wanted.remove(at);
            }
        } else if self.pending.withdraw(attempt) {
            self.submitted -= 1;
        }
    }

    /// flow knows that an attempt has ended.
    pub(crate) fn noticed(&mut self, attempt: AttemptId, now: Time) {
        self.account(now);
        self.unnoticed.remove(&attempt);
    }

    /// Does what Slurm does now. Returns the attempts that start, each with its GPUs.
    pub(crate) fn step(&mut self, now: Time) -> Vec<(AttemptId, Vec<GpuId>)> {
        self.account(now);
        while self.remembered.front().is_some_and(|forgotten| *forgotten <= now) {
            self.remembered.pop_front();
        }
        self.call(now);
        self.most = self.most.max(self.submitted);
        if now.0.is_multiple_of(self.tick()) { self.start(now) } else { Vec::new() }
    }

    /// When it does something again, if nothing else happens before.
    pub(crate) fn next(&self) -> Option<Time> {
        let call = match (self.wanted.front(), self.remembered.front()) {
            (None, _) => None,
            (Some(_), Some(forgotten)) if self.is_full() => Some((*forgotten).max(self.busy_until)),
            (Some(_), None) if self.is_full() => None,
            (Some(job), _) => Some(self.busy_until.max(job.from)),
        };
        let first = self.pending.first_within(self.nodes.max_free());
        // When a job may start, what keeps it is another thing.
        let ready = self.pending.next_ready(self.at);
        let turn = first.map(|from| self.tick_after(from));
        call.into_iter().chain(turn).chain(ready).min()
    }

    pub(crate) fn met(&self) -> QueueStats {
        let all = (u128::from(self.last_end.0) * u128::from(self.nodes.gpus)).max(1) as f64;
        let beyond = |why: &Idle| self.since_end.get(why).copied().unwrap_or_default();
        let idle = self.idle.iter().map(|(why, time)| (*why, time.saturating_sub(beyond(why)) as f64 / all));
        QueueStats {
            calls: self.calls,
            most_in_queue: self.most,
            mean_wait_s: self.waited as f64 / 1e6 / self.started.max(1) as f64,
            idle: idle.filter(|(_, share)| *share > 0.0).collect(),
        }
    }

    /// Submits what can be: equal requests as arrays, one call after the other.
    fn call(&mut self, now: Time) {
        while self.busy_until <= now && !self.is_full() {
            let Some(alike) = self.wanted.front().map(|job| job.gpus) else { return };
            let room = self.slurm.jobs as usize - self.submitted - self.remembered.len();
            let most = room.min(self.slurm.array as usize);
            let count = self.wanted.iter().take(most).take_while(|job| job.gpus == alike).count();
            self.busy_until = now + Span::from_secs_f64(self.slurm.submit_s);
            let from = self.busy_until + Span::from_secs_f64(self.slurm.delay_s);
            for mut job in self.wanted.drain(..count) {
                self.submitted += job.attempts.len();
                self.waited += u128::from((from - job.from).0) * job.attempts.len() as u128;
                job.from = from;
                self.pending.push(job);
            }
            self.calls += 1;
        }
    }

    /// Starts what fits, in order.
    fn start(&mut self, now: Time) -> Vec<(AttemptId, Vec<GpuId>)> {
        let most = ((self.slurm.rate * self.slurm.tick_s) as usize).max(1);
        let (mut started, mut start) = (Vec::new(), Vec::new());
        let Queue { pending, nodes, .. } = self;
        pending.offer(now, |job, smallest| {
            if start.len() == most || smallest > nodes.max_free() {
                return OfferOutcome::Enough(job);
            }
            match nodes.take(job.gpus) {
                Some(gpus) => {
                    start.push((job, gpus));
                    OfferOutcome::Taken
                }
                None => OfferOutcome::Waits(job),
            }
        });
        for (job, gpus) in start {
            self.started += job.attempts.len() as u64;
            self.waited += u128::from((now - job.from).0) * job.attempts.len() as u128;
            let mut left = &gpus[..];
            for (attempt, asked) in job.attempts {
                let (own, rest) = left.split_at((asked as usize).min(left.len()));
                if !matches!(job.group, Some((_, CorunGpus::Shared))) {
                    left = rest;
                }
                self.nodes.hold(own);
                self.handed.insert(attempt, Some(own.to_vec()));
                started.push((attempt, own.to_vec()));
            }
        }
        started
    }

    /// The controller takes no more jobs.
    fn is_full(&self) -> bool {
        self.submitted + self.remembered.len() >= self.slurm.jobs as usize
    }

    fn tick(&self) -> u64 {
        Span::from_secs_f64(self.slurm.tick_s).0.max(1)
    }

    /// Slurm's next turn after now at which something that may start from then on starts.
    fn tick_after(&self, from: Time) -> Time {
        let tick = self.tick();
        let next = (self.at.0 / tick + 1) * tick;
        Time(next.max(from.0.div_ceil(tick) * tick))
    }

    /// Counts who was idle since the last time, and why.
    fn account(&mut self, now: Time) {
        let passed = u128::from((now - self.at).0);
        if passed > 0 && self.nodes.idle > 0 {
            let (why, time) = (self.why(), passed * u128::from(self.nodes.idle));
            *self.idle.entry(why).or_default() += time;
            *self.since_end.entry(why).or_default() += time;
        }
        self.at = now;
    }

    fn why(&self) -> Idle {
        let largest = self.nodes.max_free();
        let fits = self.pending.smallest().is_some_and(|gpus| gpus <= largest);
        if fits && self.pending.ready(self.at).any(|job| job.gpus <= largest) {
            Idle::Tick
        } else if !self.wanted.is_empty() && self.is_full() {
            Idle::Jobs
        } else if self.unnoticed.len() >= self.slurm.queue as usize {
            Idle::Queue
        } else if self.slurm.delay_s > 0.0 && self.pending.is_any_after(self.at) {
            Idle::Delay
        } else if !self.wanted.is_empty() || self.busy_until > self.at {
            Idle::Submit
        } else if !self.pending.is_empty() {
            Idle::Fit
        } else {
            Idle::NoWork
        }
    }
}
