//! Preemption in a simulated Slurm: which jobs make room for which others. Freed GPUs are kept until the waiting job
//! has all it needs.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{AttemptId, GpuId, Time};

use crate::nodes::Nodes;
use crate::pending::{Job, Rank};

/// A job that runs.
#[derive(Clone, Debug)]
struct Holder {
    rank: Rank,
    since: Time,
    node: usize,
    gpus: BTreeSet<GpuId>,
    attempts: BTreeSet<AttemptId>,
    /// It was told to make room.
    ends: bool,
}

/// A job for which others make room, with the GPUs that it has so far.
#[derive(Clone, Debug)]
struct Waiter {
    job: Job,
    node: usize,
    gpus: Vec<GpuId>,
}

/// The running jobs by rank, and the jobs that wait for room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preemption {
    /// By quality of service: the qualities whose jobs make room for it. Without it, tiers decide.
    pub(crate) by_quality: Option<Vec<BTreeSet<u32>>>,
    /// By their first attempt.
    holders: BTreeMap<AttemptId, Holder>,
    first_of: BTreeMap<AttemptId, AttemptId>,
    /// GPUs of jobs that were not told to make room, by rank.
    held: BTreeMap<Rank, u32>,
    waiters: Vec<Waiter>,
    /// GPUs that waiters have.
    pub(crate) kept: u32,
}

impl Preemption {
    /// A job runs on these.
    pub(crate) fn started(&mut self, job: &Job, gpus: &[GpuId], nodes: &Nodes, now: Time) {
        let (Some(&(first, _)), Some(gpu)) = (job.attempts.first(), gpus.first()) else { return };
        let attempts: BTreeSet<AttemptId> = job.attempts.iter().map(|&(attempt, _)| attempt).collect();
        self.first_of.extend(attempts.iter().map(|attempt| (*attempt, first)));
        *self.held.entry(job.rank).or_default() += gpus.len() as u32;
        let (node, gpus) = (nodes.node_of(*gpu), gpus.iter().copied().collect());
        self.holders.insert(first, Holder { rank: job.rank, since: now, node, gpus, attempts, ends: false });
    }

    /// An attempt has ended. The freed GPUs of its node go to the jobs that wait for them.
    pub(crate) fn ended(&mut self, attempt: AttemptId, nodes: &mut Nodes) {
        let Some(first) = self.first_of.remove(&attempt) else { return };
        let Some(holder) = self.holders.get_mut(&first) else { return };
        let node = holder.node;
        holder.attempts.remove(&attempt);
        if holder.attempts.is_empty() {
            if !holder.ends {
                let (rank, gpus) = (holder.rank, holder.gpus.len() as u32);
                self.forget(rank, gpus);
            }
            self.holders.remove(&first);
        }
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.node == node) {
            let lacks = waiter.job.gpus - waiter.gpus.len() as u32;
            let more = nodes.take_of(node, lacks);
            self.kept += more.len() as u32;
            waiter.gpus.extend(more);
        }
    }

    fn forget(&mut self, rank: Rank, gpus: u32) {
        if let Some(held) = self.held.get_mut(&rank) {
            *held -= gpus;
            if *held == 0 {
                self.held.remove(&rank);
            }
        }
    }

    /// A job makes room for another.
    fn yields(&self, job: Rank, other: Rank) -> bool {
        match &self.by_quality {
            Some(preempts) => preempts.get(other.quality as usize).is_some_and(|of| of.contains(&job.quality)),
            None => job.tier < other.tier,
        }
    }

    /// A job of this rank could be in need of others' GPUs that it may have.
    pub(crate) fn may_help(&self, rank: Rank) -> bool {
        self.held.keys().any(|held| self.yields(*held, rank))
    }

    /// Makes room for a job on the node where the fewest GPUs must be freed. Jobs of the lowest tier end first; within
    /// a tier, those that began last. Returns the attempts to end, or the job if no node can make room.
    pub(crate) fn make_room(&mut self, job: Job, nodes: &mut Nodes) -> Result<Vec<AttemptId>, Job> {
        if !self.may_help(job.rank) {
            return Err(job);
        }
        let mut lower: BTreeMap<usize, Vec<AttemptId>> = BTreeMap::new();
        for (first, holder) in
            self.holders.iter().filter(|(_, holder)| !holder.ends && self.yields(holder.rank, job.rank))
        {
            lower.entry(holder.node).or_default().push(*first);
        }
        let mut best: Option<(u32, usize, Vec<AttemptId>)> = None;
        for (node, mut firsts) in lower {
            firsts.sort_by_key(|first| {
                let holder = &self.holders[first];
                (holder.rank.tier, std::cmp::Reverse(holder.since), *first)
            });
            let (mut has, mut ends, mut victims) = (nodes.free_on(node), 0, Vec::new());
            for first in firsts {
                if has >= job.gpus {
                    break;
                }
                let gpus = self.holders[&first].gpus.len() as u32;
                (has, ends) = (has + gpus, ends + gpus);
                victims.push(first);
            }
            if has >= job.gpus && best.as_ref().is_none_or(|(least, ..)| ends < *least) {
                best = Some((ends, node, victims));
            }
        }
        let Some((_, node, victims)) = best else { return Err(job) };
        let mut attempts = Vec::new();
        for first in victims {
            let Some(holder) = self.holders.get_mut(&first) else { continue };
            holder.ends = true;
            let (rank, gpus) = (holder.rank, holder.gpus.len() as u32);
            attempts.extend(holder.attempts.iter().copied());
            self.forget(rank, gpus);
        }
        let gpus = nodes.take_of(node, job.gpus);
        self.kept += gpus.len() as u32;
        self.waiters.push(Waiter { job, node, gpus });
        Ok(attempts)
    }

    /// A waiting job has all its GPUs.
    pub(crate) fn is_any_served(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.gpus.len() as u32 >= waiter.job.gpus)
    }

    /// Nobody waits for others to end.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The next job that has all its GPUs. They are its own from now on.
    pub(crate) fn served(&mut self) -> Option<(Job, Vec<GpuId>)> {
        let at = self.waiters.iter().position(|waiter| waiter.gpus.len() as u32 >= waiter.job.gpus)?;
        let Waiter { job, mut gpus, .. } = self.waiters.remove(at);
        self.kept -= gpus.len() as u32;
        gpus.sort_unstable();
        Some((job, gpus))
    }

    /// An attempt is not to start after all; says whether others made room for it.
    pub(crate) fn withdraw(&mut self, attempt: AttemptId, nodes: &mut Nodes) -> bool {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.job.has(attempt)) else { return false };
        let waiter = &mut self.waiters[at];
        let keeps = if waiter.job.leave(attempt) { waiter.job.gpus as usize } else { 0 };
        let back = waiter.gpus.split_off(keeps.min(waiter.gpus.len()));
        self.kept -= back.len() as u32;
        nodes.put_back(&back);
        if keeps == 0 && self.waiters[at].job.attempts.is_empty() {
            self.waiters.remove(at);
        }
        true
    }
}
