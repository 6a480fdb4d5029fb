//! Places a demand: on which GPUs it would run now, and whether their holders can bear it. Changes nothing in the
//! ledger.

use std::cmp::Reverse;

use super::api::Placement;
use super::contention::{self, Host, Load, UNKNOWN_DEVICE};
use super::demand::{AloneLoad, Demand, GpuMemory};
use super::resources::{Allocation, Allocations, Gpu};
use crate::{CorunGpus, GpuId, InstanceId};

/// How a demand joins others on their GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharingKind {
    /// Nothing else is on them, or sharing is expected to pay.
    Well,
    /// To measure whether sharing pays.
    OnTrial,
}

/// A running or hypothetical piece of work.
struct Work<'a> {
    /// Its instance, if it may have been measured next to another.
    instance: Option<InstanceId>,
    alone_load: &'a AloneLoad,
    gpus: &'a [GpuId],
}

impl<'a> Work<'a> {
    fn of(held: &'a Allocation) -> Self {
        Work { instance: Some(held.instance), alone_load: &held.alone_load, gpus: &held.placement.gpus }
    }

    /// Its measured slowdown next to the only other work on its GPUs; alone is 1.
    fn measured(&self, all: &[Work<'_>], ledger: &Allocations) -> Option<f64> {
        let shares =
            |other: &&Work<'_>| !std::ptr::eq(*other, self) && other.gpus.iter().any(|gpu| self.gpus.contains(gpu));
        let mut others = all.iter().filter(shares);
        let other = others.next().filter(|_| others.next().is_none())?;
        ledger.sharing.pairs.get(&(self.instance?, other.instance?)).copied()
    }
}

/// Speeds of all work that runs at once.
#[derive(Clone, Copy)]
struct JointSpeed {
    /// The speed of the slowest; alone is 1.
    slowest: f64,
    /// The sum of all speeds.
    sum: f64,
}

impl JointSpeed {
    fn of(work: &[Work<'_>], ledger: &Allocations, devices: &[f64]) -> Self {
        let load = |work: &Work<'_>| Load {
            cores: work.alone_load.cpu_milli as f64 / 1e3,
            gpu_busy: f64::from(work.alone_load.gpu_milli) / 1e3,
            gpus: work.gpus.iter().map(|gpu| gpu.index()).collect(),
        };
        let mut loads: Vec<Load> = work.iter().map(load).collect();
        let elsewhere = ledger.others.holds.cpu_milli;
        if elsewhere > 0 {
            // CPU load of other runs slows this run's work down, and is slowed down by it.
            loads.push(Load { cores: elsewhere as f64 / 1e3, gpu_busy: 0.0, gpus: Vec::new() });
        }
        let measured: Vec<Option<f64>> = match ledger.sharing.pairs.is_empty() {
            true => Vec::new(),
            false => work.iter().map(|one| one.measured(work, ledger)).collect(),
        };
        let host = Host { cores: ledger.cpus as f64, devices: devices.to_vec() };
        let speeds = contention::speeds_where(&loads, &measured, &host);
        JointSpeed { slowest: speeds.iter().copied().fold(1.0, f64::min), sum: speeds.iter().sum() }
    }
}

impl Allocations {
    /// Whether a demand could be placed now.
    pub(super) fn fits(&self, demand: &Demand) -> bool {
        let empty = || self.takers(demand).filter(|(_, gpu)| gpu.is_empty()).count();
        self.sums_suffice(demand)
            && (empty() >= demand.gpus as usize
                || self.choose(demand).is_some_and(|gpus| self.joins(demand, &gpus).is_some()))
    }

    /// The GPUs that would take a demand.
    fn takers(&self, demand: &Demand) -> impl Iterator<Item = (GpuId, &Gpu)> {
        (0..).map(GpuId).zip(&self.gpus).filter(|(_, gpu)| gpu.takes(demand))
    }

    /// The GPUs that a demand would get: empty, then least busy, then without foreign processes, then with the most room.
    fn choose(&self, demand: &Demand) -> Option<Vec<GpuId>> {
        let key = |(id, gpu): (GpuId, &Gpu)| {
            let held = gpu.holders.iter().filter_map(|hold| self.holders.get(&hold.attempt));
            let busy_milli: u32 = held.map(|held| held.alone_load.gpu_milli).sum();
            (busy_milli, gpu.holders.len(), gpu.state.foreign > 0, Reverse(gpu.free()), id)
        };
        let mut takers: Vec<_> = self.takers(demand).map(key).collect();
        let wanted = demand.gpus as usize;
        if takers.len() > wanted {
            takers.select_nth_unstable(wanted);
            takers.truncate(wanted);
        }
        let mut chosen: Vec<GpuId> = takers.into_iter().map(|(.., id)| id).collect();
        chosen.sort();
        (chosen.len() == wanted).then_some(chosen)
    }

    /// How a demand may join the holders of these GPUs, if it may.
    fn joins(&self, demand: &Demand, gpus: &[GpuId]) -> Option<SharingKind> {
        if gpus.iter().all(|gpu| self.gpus[gpu.index()].is_empty()) {
            return Some(SharingKind::Well);
        }
        let mut work: Vec<Work<'_>> = self.holders.values().map(Work::of).collect();
        let before = JointSpeed::of(&work, self, &self.sharing.devices);
        work.push(Work { instance: demand.paired, alone_load: &demand.alone_load, gpus });
        let after = JointSpeed::of(&work, self, &self.sharing.devices);
        // The sums are rounded: a value exactly at a bound is within it.
        let within = 1e-9;
        let bearable = after.slowest + within >= 1.0 / self.sharing.slowdown;
        let gains = |before: JointSpeed, after: JointSpeed| after.sum - before.sum + within >= self.sharing.gain;
        if bearable && gains(before, after) {
            return Some(SharingKind::Well);
        }
        let hoped = self.hoped(demand, gpus).filter(|_| bearable)?;
        let after = JointSpeed::of(&work, self, &hoped);
        work.pop();
        gains(JointSpeed::of(&work, self, &hoped), after).then_some(SharingKind::OnTrial)
    }

    /// The coefficients for a trial, if a trial would be conclusive: the two have the GPUs to themselves, both show the
    /// cost of sharing, and the CPUs suffice for both.
    fn hoped(&self, demand: &Demand, gpus: &[GpuId]) -> Option<Vec<f64>> {
        if self.sharing.trial.is_empty() {
            return None;
        }
        let mut there = gpus.iter().flat_map(|gpu| &self.gpus[gpu.index()].holders).map(|hold| hold.attempt);
        let other = there.next().filter(|first| there.all(|next| next == *first))?;
        let held = self.holders.get(&other)?;
        let only = |gpu: &GpuId| self.gpus[gpu.index()].holders.len() == 1;
        let informative =
            demand.alone_load.informative && held.alone_load.informative && held.placement.gpus.iter().all(only);
        if !informative
            || self.taken_cpus().saturating_add(demand.alone_load.cpu_milli) > self.cpus.saturating_mul(1_000)
        {
            return None;
        }
        let mut devices = self.sharing.devices.clone();
        devices.resize(self.gpus.len().max(devices.len()), UNKNOWN_DEVICE);
        for gpu in gpus {
            devices[gpu.index()] = self.sharing.trial.get(gpu.index()).copied().flatten()?;
        }
        Some(devices)
    }

    /// GPUs with room that a demand would share badly, without the empty ones. `None`: it would not share badly.
    pub(super) fn shared_badly(&self, demand: &Demand) -> Option<Vec<GpuId>> {
        let mut gpus = self.choose(demand).filter(|gpus| self.joins(demand, gpus).is_none())?;
        gpus.retain(|gpu| !self.gpus[gpu.index()].is_empty());
        Some(gpus)
    }

    /// The larger measured slowdown of a demand and the only holder of a GPU, if this pair was measured. Alone is 1.
    pub(super) fn measured_slowdown(&self, demand: &Demand, gpu: GpuId) -> Option<f64> {
        let gpu = &self.gpus[gpu.index()];
        let [hold] = gpu.holders.as_slice() else { return None };
        let (own, other) = (demand.paired?, self.holders.get(&hold.attempt)?.instance);
        let of = |pair| self.sharing.pairs.get(&pair).copied();
        Some(of((own, other))?.max(of((other, own))?))
    }

    /// Whether the CPUs suffice: declared CPUs are reserved, demand known from history may exceed them somewhat.
    pub(super) fn cpus_suffice(&self, demand: &Demand) -> bool {
        let all = self.cpus * 1_000;
        let bound = if demand.alone_load.cpu_learned { (all as f64 * self.sharing.cpu) as u64 } else { all };
        u64::from(demand.cpus) <= self.cpus && self.taken_cpus().saturating_add(demand.alone_load.cpu_milli) <= bound
    }

    /// Thousandths of a CPU that this run holds, or cannot have because of other runs.
    pub(super) fn taken_cpus(&self) -> u64 {
        self.held_cpus.saturating_add(self.others.cpu_milli())
    }

    /// Bytes of host memory, likewise.
    pub(super) fn taken_memory(&self) -> u64 {
        self.held_memory.saturating_add(self.others.memory())
    }

    /// Whether the batch system's queue has a free place.
    pub(super) fn queue_suffices(&self) -> bool {
        self.attempts() < self.jobs && self.queued.len() < self.batch
    }

    fn sums_suffice(&self, demand: &Demand) -> bool {
        if demand.batch {
            return self.queue_suffices();
        }
        let memory = demand.memory;
        (self.holders.is_empty() || !demand.machine_alone && !self.closed())
            && self.others.let_start(demand.machine_alone)
            && self.attempts() < self.jobs
            && self.cpus_suffice(demand)
            && self.taken_memory().saturating_add(memory) <= self.memory
    }

    /// The placement that a demand would get now.
    pub(super) fn place(&self, demand: &Demand) -> Option<Placement> {
        if !self.sums_suffice(demand) {
            return None;
        }
        let gpus = self.choose(demand)?;
        let trial = self.joins(demand, &gpus)? == SharingKind::OnTrial;
        let chosen = || gpus.iter().map(|gpu| &self.gpus[gpu.index()]);
        let room = chosen().map(Gpu::free).min().unwrap_or(0);
        let gpu_memory = match demand.gpu_memory {
            GpuMemory::Unknown => room,
            _ => chosen().map(|gpu| demand.on_gpu(gpu.state.memory)).max().unwrap_or(0).min(room),
        };
        Some(Placement { gpus, cpus: demand.cpus, gpu_memory, memory: demand.memory, trial })
    }

    /// The placements that the members of a group would get now, in their order. Nothing else of this run may run. GPUs
    /// and declared memory count; CPUs, `-j` and learned GPU memory do not.
    pub(super) fn place_group(&self, mode: CorunGpus, members: &[Demand]) -> Option<Vec<Placement>> {
        if members.iter().all(|member| member.batch) {
            // The group is one batch job, and its members share the node.
            return self.queue_suffices().then(|| vec![Placement::default(); members.len()]);
        }
        let memory = members.iter().fold(0u64, |sum, m| sum.saturating_add(m.memory));
        if !self.holders.is_empty() || !self.others.let_start(true) || memory > self.memory {
            return None;
        }
        let mut free_gpus: Vec<_> = (0..self.gpus.len() as u32)
            .map(|i| (GpuId(i), &self.gpus[i as usize]))
            .filter(|(_, g)| g.state.alive && !g.taken() && !g.reserved_for_peer)
            .collect();
        free_gpus.sort_by_key(|(id, gpu)| (Reverse(gpu.free()), *id));
        let mut room: Vec<u64> = free_gpus.iter().map(|(_, gpu)| gpu.free()).collect();
        // The largest demand chooses first, from the GPUs with the most room: if any assignment exists, this one does.
        let mut by_size: Vec<usize> = (0..members.len()).collect();
        by_size.sort_by_key(|&m| (Reverse(members[m].declared()), m));
        let mut placements = vec![Placement::default(); members.len()];
        let mut next = 0;
        for m in by_size {
            let (demand, wanted) = (&members[m], members[m].gpus as usize);
            let first = if mode == CorunGpus::Own { next } else { 0 };
            next = first + wanted;
            if next > free_gpus.len() {
                return None;
            }
            for free in &mut room[first..next] {
                *free = free.checked_sub(demand.declared())?;
            }
            let mut gpus: Vec<GpuId> = free_gpus[first..next].iter().map(|(id, _)| *id).collect();
            gpus.sort();
            let (cpus, gpu_memory, memory) = (demand.cpus, demand.declared(), demand.memory);
            placements[m] = Placement { gpus, cpus, gpu_memory, memory, trial: false };
        }
        Some(placements)
    }
}
