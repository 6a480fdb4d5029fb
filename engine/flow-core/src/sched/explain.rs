//! What an instance waits for, as a value: its requests, what is available, and the holders. Other modules make the
//! words.

use super::demand::Demand;
use super::machine::Scheduler;
use super::resources::Allocations;
use super::state::{Class, Core, EndReason, TaskState, Window};
use crate::reason::{PeerConflict, Resource};
use crate::{AttemptId, CorunGpus, GpuId, InstanceId, Outcome, Time};

/// The state of an instance and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// It has not arrived.
    Arrival,
    /// It waits for these unsettled instances. In a co-run group: the needs of all members.
    Needs(Vec<InstanceId>),
    /// It waits for the store's answer.
    LookUp,
    Resources(Vec<Shortage>),
    /// It wants the machine alone or is a co-run group, and these of this run still run.
    Others(Vec<InstanceId>),
    /// It waits for these to end, which have the machine to themselves.
    Exclusive(Vec<InstanceId>),
    /// It waits for other runs on the machine.
    OtherRuns(PeerConflict),
    /// There is room, but it would delay this gang, which has a reservation.
    Reserved(InstanceId),
    /// There is room, but the policy prefers this gang, the first in its order. `None`: the next decision starts it.
    Turn(Option<InstanceId>),
    /// It failed, and is retried.
    Retry {
        at: Time,
        /// Number of failures so far.
        failures: u32,
    },
    /// It runs and waits at its group's barrier for these. Empty: all are there, or it has not reached the barrier
    /// itself.
    Barrier {
        attempt: AttemptId,
        /// Members that are not ready.
        missing: Vec<InstanceId>,
    },
    Running {
        attempt: AttemptId,
        since: Time,
        /// Its expected end, if it has an estimate.
        expected_end: Option<Time>,
    },
    /// It was told to end.
    Killed {
        attempt: AttemptId,
        /// The outcome that it will have.
        outcome: Outcome,
    },
    /// Its attempt ended; these of its group still run.
    Group(Vec<InstanceId>),
    /// It waits until its result is in the store.
    Recording,
    /// It is done.
    Settled {
        outcome: Outcome,
        /// The instance that caused it, if any.
        because: Option<InstanceId>,
    },
}

/// A resource of which less is available than requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: Resource<GpuId>,
    pub requested: u64,
    pub available: u64,
    pub total: u64,
    /// Holders in this run, by start.
    pub held_by: Vec<Holder>,
    /// Held by foreign processes; bytes of a GPU.
    pub foreign: u64,
    /// Held by other runs on the machine.
    pub other_runs: u64,
    /// Held back for requests of other runs that are served first.
    pub ahead: u64,
}

/// An instance of this run that holds a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub instance: InstanceId,
    pub amount: u64,
    /// When it is expected to end.
    pub until: Option<Time>,
}

impl Shortage {
    /// Held by nobody yet.
    fn of(resource: Resource<GpuId>, requested: u64, available: u64, total: u64) -> Shortage {
        let (foreign, other_runs, ahead) = (0, 0, 0);
        Shortage { resource, requested, available, total, held_by: Vec::new(), foreign, other_runs, ahead }
    }
}

impl Scheduler {
    /// What an instance waits for at this instant.
    pub fn explain(&self, now: Time, id: InstanceId) -> WaitState {
        let core = self.core();
        let Some(node) = core.nodes.get(id.index()) else { return WaitState::Arrival };
        match node.state {
            TaskState::Pending => WaitState::Needs(core.unmet_needs(node.gang)),
            TaskState::LookingUp => WaitState::LookUp,
            TaskState::Waiting { .. } => core.explain_queue(now, node.gang),
            TaskState::Paused { until } => WaitState::Retry { at: until, failures: core.node(node.gang).failures },
            TaskState::Running { attempt } => core.explain_running(now, id, attempt),
            TaskState::Ended { .. } => {
                let runs = |m: &InstanceId| matches!(core.node(*m).state, TaskState::Running { .. });
                WaitState::Group(core.members(node.gang).iter().copied().filter(runs).collect())
            }
            TaskState::Recording { .. } => WaitState::Recording,
            TaskState::Settled { outcome, because, .. } => WaitState::Settled { outcome, because },
        }
    }
}

impl Core {
    fn unmet_needs(&self, gang: InstanceId) -> Vec<InstanceId> {
        let needs = self.members(gang).iter().flat_map(|&m| &self.node(m).task.needs).map(|need| need.on);
        let mut unmet: Vec<_> = needs.filter(|&on| !self.is_settled(on)).collect();
        unmet.sort();
        unmet.dedup();
        unmet
    }

    fn explain_running(&self, now: Time, id: InstanceId, attempt: AttemptId) -> WaitState {
        let live = &self.live[&attempt];
        if let Some(outcome) = live.killed {
            return WaitState::Killed { attempt, outcome };
        }
        match self.group(self.node(id).gang) {
            Some(group) if group.window == Window::Ahead => {
                let late = |m: &InstanceId| match self.node(*m).state {
                    TaskState::Running { attempt } => !self.live[&attempt].ready,
                    _ => false,
                };
                let missing = group.members.iter().copied().filter(|m| live.ready && late(m)).collect();
                WaitState::Barrier { attempt, missing }
            }
            _ => WaitState::Running { attempt, since: live.since, expected_end: self.expected_end_at(live, now) },
        }
    }

    fn explain_queue(&self, now: Time, gang: InstanceId) -> WaitState {
        let ledger = &self.feasibility.now;
        let running: Vec<InstanceId> = ledger.holders.values().map(|held| held.instance).collect();
        let class = self.class(gang);
        let batch = self.node(gang).demand.batch;
        if ledger.closed() && !batch {
            return WaitState::Exclusive(running);
        }
        if !running.is_empty() && !batch && (matches!(class, Class::Group(_)) || self.node(gang).demand.machine_alone) {
            return WaitState::Others(running);
        }
        if let Some(elsewhere) = self.blocked_by_peers(class) {
            return WaitState::OtherRuns(elsewhere);
        }
        if !self.class_fits(ledger, class) {
            let demands: Vec<Demand> = self.members(gang).iter().map(|&m| self.node(m).demand).collect();
            let own = self.group(gang).is_some_and(|group| group.mode == CorunGpus::Own);
            let all = demands.iter().map(|demand| demand.gpus).sum();
            let mut short = Vec::new();
            // The run holds nothing here, so a group lacks what foreign processes hold. Most of its members lack the
            // same.
            for demand in demands {
                let gpus = if own { all } else { demand.gpus };
                let lacks = self.shortages(now, ledger, &Demand { gpus, ..demand });
                short.extend(lacks.into_iter().filter(|one| !short.contains(one)).collect::<Vec<_>>());
            }
            return WaitState::Resources(short);
        }
        match &self.reservation {
            Some(reserved) if self.admit(gang).is_none() => WaitState::Reserved(reserved.gang),
            _ => {
                let first = self.queue.order.first().map(|key| key.2).filter(|&first| first != gang);
                WaitState::Turn(first.filter(|_| self.ending == EndReason::No))
            }
        }
    }

    fn shortages(&self, now: Time, ledger: &Allocations, demand: &Demand) -> Vec<Shortage> {
        let holder = |attempt: &AttemptId, instance: InstanceId, amount: u64| Holder {
            instance,
            amount,
            until: self.live.get(attempt).and_then(|live| self.expected_end_at(live, now)),
        };
        let mut short = Vec::new();
        if demand.batch {
            let (held, total) = (ledger.queued.len() as u64, ledger.batch as u64);
            let (resource, available) = (Resource::Queue, total.saturating_sub(held));
            let held_by = ledger.queued.iter().filter_map(|attempt| Some((attempt, self.live.get(attempt)?.instance)));
            let held_by = held_by.map(|(attempt, instance)| holder(attempt, instance, 1)).collect();
            return vec![Shortage { held_by, ..Shortage::of(resource, 1, available, total) }];
        }
        if !ledger.cpus_suffice(demand) {
            let holders = ledger.holders.iter().filter(|(_, held)| held.alone_load.cpu_milli > 0);
            let cpus = |milli: u64| milli.div_ceil(1_000);
            let available = ledger.cpus.saturating_sub(cpus(ledger.taken_cpus()));
            short.push(Shortage {
                held_by: holders.map(|(a, held)| holder(a, held.instance, cpus(held.alone_load.cpu_milli))).collect(),
                other_runs: cpus(ledger.others.holds.cpu_milli),
                ahead: cpus(ledger.others.ahead.cpu_milli),
                ..Shortage::of(Resource::Cpus, cpus(demand.alone_load.cpu_milli), available, ledger.cpus)
            });
        }
        let memory = (ledger.others.holds.memory, ledger.others.ahead.memory);
        let mut sum = |resource, requested: u64, held: u64, total: u64, amount: fn(&super::Placement) -> u64| {
            if requested > total.saturating_sub(held) {
                let holders = ledger.holders.iter().filter(|(_, held)| amount(&held.placement) > 0);
                let held_by = holders.map(|(a, held)| holder(a, held.instance, amount(&held.placement))).collect();
                let available = total.saturating_sub(held);
                let (other_runs, ahead) = if resource == Resource::Memory { memory } else { (0, 0) };
                let of = Shortage::of(resource, requested, available, total);
                short.push(Shortage { held_by, other_runs, ahead, ..of });
            }
        };
        sum(Resource::Jobs, 1, ledger.attempts() as u64, ledger.jobs as u64, |_| 1);
        sum(Resource::Memory, demand.memory, ledger.taken_memory(), ledger.memory, |p| p.memory);
        let takers = ledger.gpus.iter().filter(|gpu| gpu.takes(demand)).count() as u64;
        let wanted = u64::from(demand.gpus);
        if wanted > takers {
            short.push(Shortage::of(Resource::Gpus, wanted, takers, ledger.gpus.len() as u64));
            for (i, gpu) in ledger.gpus.iter().enumerate().filter(|(_, gpu)| !gpu.takes(demand)) {
                let id = GpuId(i as u32);
                let resource = match (gpu.state.alive, gpu.reserved_for_peer) {
                    (false, _) => Resource::GpuLost(id),
                    (true, true) => Resource::GpuReserved(id),
                    (true, false) => Resource::GpuMemory(id),
                };
                let held_by = gpu.holders.iter().filter_map(|h| {
                    let held = ledger.holders.get(&h.attempt)?;
                    Some(holder(&h.attempt, held.instance, h.reserved.max(h.used)))
                });
                short.push(Shortage {
                    held_by: held_by.collect(),
                    foreign: gpu.state.foreign.min(gpu.state.memory),
                    ahead: u64::from(gpu.reserved_for_peer),
                    ..Shortage::of(resource, gpu.wanted(demand), gpu.free(), gpu.state.memory)
                });
            }
        }
        for id in ledger.shared_badly(demand).unwrap_or_default() {
            let held = ledger.gpus[id.index()]
                .holders
                .iter()
                .filter_map(|h| Some((h.attempt, ledger.holders.get(&h.attempt)?)));
            let held_by: Vec<_> =
                held.map(|(a, held)| holder(&a, held.instance, held.alone_load.gpu_milli.into())).collect();
            let busy = held_by.iter().map(|holder| holder.amount).sum::<u64>();
            let (resource, requested, available) = match ledger.measured_slowdown(demand, id) {
                Some(slowdown) => (Resource::GpuMeasured(id), (slowdown * 1e3).round() as u64, 1_000),
                None => (Resource::GpuBusy(id), demand.alone_load.gpu_milli.into(), 1_000u64.saturating_sub(busy)),
            };
            short.push(Shortage { held_by, ..Shortage::of(resource, requested, available, 1_000) });
        }
        short
    }
}
