//! The ledger: a pool of GPUs and sums of CPUs and memory, in whole gangs and bytes. It knows no tasks, states or
//! policies; `place` decides where a demand goes.

use std::collections::{BTreeMap, BTreeSet};

use super::api::{Capacity, GpuState, Limits, Placement, Sharing};
use super::demand::{AloneLoad, Demand};
use super::others::PeerLoad;
use crate::{AttemptId, GpuId, InstanceId};

/// What else may run while an attempt holds its placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exclusivity {
    /// Others may run too; with `gpus_alone`, only on other GPUs.
    Anyone { gpus_alone: bool },
    /// Nothing else of this run.
    Nobody,
    /// Only the other members of its group, which together may request more CPUs than there are.
    Group(InstanceId),
    /// It is in a batch system's queue, and shares nothing with local work.
    Batch,
}

/// Facts about a placement that are kept after its release.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacementFacts {
    /// One of its GPUs no longer responds.
    pub(super) lost: bool,
    /// The most memory that was reserved or used on one of its GPUs.
    pub(super) peak: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub(super) instance: InstanceId,
    pub(super) placement: Placement,
    pub(super) exclusivity: Exclusivity,
    pub(super) alone_load: AloneLoad,
}

#[derive(Clone, Debug)]
pub(super) struct Gpu {
    pub(super) state: GpuState,
    pub(super) holders: Vec<GpuHold>,
    /// Nothing more starts on it: another run waits for it and is ahead.
    pub(super) reserved_for_peer: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct GpuHold {
    pub(super) attempt: AttemptId,
    pub(super) reserved: u64,
    pub(super) used: u64,
    pub(super) alone: bool,
}

impl Gpu {
    /// Total − foreign processes' − Σ over ours of max(reserved, used).
    pub(super) fn free(&self) -> u64 {
        let ours = self.holders.iter().fold(0u64, |sum, h| sum.saturating_add(h.reserved.max(h.used)));
        self.state.memory.saturating_sub(self.state.foreign).saturating_sub(ours)
    }

    /// Nothing of ours is on it.
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Others have all of it: another flow process holds it, or it does not respond.
    pub(super) fn taken(&self) -> bool {
        self.state.memory > 0 && self.state.foreign >= self.state.memory
    }

    pub(super) fn takes(&self, demand: &Demand) -> bool {
        self.state.alive
            && !self.reserved_for_peer
            && !self.holders.iter().any(|h| h.alone)
            && (!demand.gpus_alone || self.is_empty())
            && self.free() >= self.wanted(demand)
    }

    /// Free memory that a demand requires here.
    pub(super) fn wanted(&self, demand: &Demand) -> u64 {
        if self.is_empty() { demand.on_empty_gpu(self.state.memory) } else { demand.on_gpu(self.state.memory) }
    }
}

/// The ledger: what exists, and how much of it each attempt holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Allocations {
    pub(super) gpus: Vec<Gpu>,
    pub(super) cpus: u64,
    pub(super) memory: u64,
    pub(super) jobs: usize,
    /// Thousandths, as requested.
    pub(super) held_cpus: u64,
    pub(super) held_memory: u64,
    pub(super) holders: BTreeMap<AttemptId, Allocation>,
    /// Attempts in a batch system's queue. `batch` is their maximum.
    pub(super) queued: BTreeSet<AttemptId>,
    pub(super) batch: usize,
    pub(super) sharing: Sharing,
    /// Other runs of the machine.
    pub(super) others: PeerLoad,
    /// Capacity shrank while attempts ran.
    shrunk: bool,
}

impl Allocations {
    /// Updates the interference coefficients.
    pub(super) fn set_interference(&mut self, devices: &[f64], trial: &[Option<f64>]) {
        (self.sharing.devices, self.sharing.trial) = (devices.to_vec(), trial.to_vec());
    }

    /// This ledger without other runs, and with `gpus` also without their hold on GPUs.
    pub(super) fn without_others(&self, gpus: bool) -> Allocations {
        let mut ledger = self.clone();
        let others = std::mem::take(&mut ledger.others);
        for (id, gpu) in (0..).map(GpuId).zip(&mut ledger.gpus).filter(|_| gpus) {
            gpu.reserved_for_peer = false;
            if others.gpus.contains(&id) {
                gpu.state.foreign = 0;
            }
        }
        ledger
    }

    /// Forbids trials.
    pub(super) fn try_nothing(&mut self) {
        self.sharing.trial.clear();
    }

    /// Applies a new capacity. A GPU that is missing from it counts as dead.
    pub(super) fn set_capacity(&mut self, capacity: &Capacity) {
        for (gpu, state) in self.gpus.iter_mut().zip(&capacity.gpus) {
            gpu.state = state.clone();
        }
        for gone in self.gpus.iter_mut().skip(capacity.gpus.len()) {
            gone.state.alive = false;
        }
        let known = self.gpus.len();
        let new = capacity.gpus.iter().skip(known);
        self.gpus.extend(new.map(|state| Gpu { state: state.clone(), holders: Vec::new(), reserved_for_peer: false }));
        self.cpus = u64::from(capacity.cpus);
        self.memory = capacity.memory;
        self.jobs = capacity.jobs.map_or(usize::MAX, |jobs| jobs.max(1) as usize);
        self.batch = capacity.batch as usize;
        self.shrunk = self.oversubscribed().is_some();
    }

    /// Number of attempts, local and queued.
    pub(super) fn attempts(&self) -> usize {
        self.holders.len() + self.queued.len()
    }

    /// Whether a running attempt forbids all others.
    pub(super) fn closed(&self) -> bool {
        // Such an attempt is alone or within its group, so any holder shows it.
        self.holders.values().next().is_some_and(|held| !matches!(held.exclusivity, Exclusivity::Anyone { .. }))
    }

    pub(super) fn take(
        &mut self,
        attempt: AttemptId,
        instance: InstanceId,
        placement: &Placement,
        exclusivity: Exclusivity,
        alone_load: AloneLoad,
    ) {
        if exclusivity == Exclusivity::Batch {
            self.queued.insert(attempt);
            return;
        }
        let alone = matches!(exclusivity, Exclusivity::Anyone { gpus_alone: true });
        for gpu in &placement.gpus {
            self.gpus[gpu.index()].holders.push(GpuHold { attempt, reserved: placement.gpu_memory, used: 0, alone });
        }
        if placement.trial {
            self.try_nothing();
        }
        self.held_cpus += alone_load.cpu_milli;
        self.held_memory = self.held_memory.saturating_add(placement.memory);
        self.holders.insert(attempt, Allocation { instance, placement: placement.clone(), exclusivity, alone_load });
    }

    pub(super) fn release(&mut self, attempt: AttemptId) {
        self.queued.remove(&attempt);
        let Some(held) = self.holders.remove(&attempt) else { return };
        for gpu in &held.placement.gpus {
            self.gpus[gpu.index()].holders.retain(|h| h.attempt != attempt);
        }
        self.held_cpus -= held.alone_load.cpu_milli;
        self.held_memory -= held.placement.memory;
        self.shrunk = self.shrunk && self.oversubscribed().is_some();
    }

    /// Attempts that hold part of these GPUs.
    pub(super) fn sharers(&self, placement: &Placement) -> BTreeSet<AttemptId> {
        placement.gpus.iter().flat_map(|gpu| &self.gpus[gpu.index()].holders).map(|hold| hold.attempt).collect()
    }

    /// Facts about an attempt's placement for after its end.
    pub(super) fn held(&self, attempt: AttemptId) -> PlacementFacts {
        let holds = self.gpus.iter().flat_map(|gpu| &gpu.holders).filter(|hold| hold.attempt == attempt);
        let peak = holds.map(|hold| hold.reserved.max(hold.used)).max().unwrap_or(0);
        PlacementFacts { lost: self.lost_under(attempt), peak }
    }

    /// Records measured GPU memory, in the placement's order. Returns whether the free room changed.
    pub(super) fn sample(&mut self, attempt: AttemptId, used: &[u64]) -> bool {
        let Some(held) = self.holders.get(&attempt) else { return false };
        let mut changed = false;
        for (gpu, &used) in held.placement.gpus.iter().zip(used) {
            for hold in self.gpus[gpu.index()].holders.iter_mut().filter(|h| h.attempt == attempt) {
                changed |= hold.reserved.max(hold.used) != hold.reserved.max(used);
                hold.used = used;
            }
        }
        changed
    }

    /// Whether an attempt holds a GPU that no longer responds.
    pub(super) fn lost_under(&self, attempt: AttemptId) -> bool {
        let held = self.holders.get(&attempt);
        held.is_some_and(|held| held.placement.gpus.iter().any(|gpu| !self.gpus[gpu.index()].state.alive))
    }

    fn oversubscribed(&self) -> Option<String> {
        let group = self.holders.values().any(|held| matches!(held.exclusivity, Exclusivity::Group(_)));
        let kept = self
            .holders
            .values()
            .filter(|held| !held.alone_load.cpu_learned)
            .map(|held| held.alone_load.cpu_milli)
            .sum();
        let (all, soft) = (self.cpus * 1_000, (self.cpus as f64 * 1e3 * self.sharing.cpu) as u64);
        if !group && (self.held_cpus > soft || all < kept) {
            return Some(format!("{} of {all} thousandths of a CPU are held, {kept} of them declared", self.held_cpus));
        }
        if self.held_memory > self.memory {
            return Some(format!("{} of {} bytes of memory are held", self.held_memory, self.memory));
        }
        for (id, gpu) in self.gpus.iter().enumerate() {
            let reserved: u64 = gpu.holders.iter().map(|h| h.reserved).sum();
            if reserved > gpu.state.memory {
                return Some(format!("{reserved} of {} bytes of GPU {id} are reserved", gpu.state.memory));
            }
        }
        None
    }

    /// Checks every cross-reference and every limit.
    pub(super) fn check(&self) -> Result<(), String> {
        let cpus: u64 = self.holders.values().map(|held| held.alone_load.cpu_milli).sum();
        let memory: u64 = self.holders.values().map(|held| held.placement.memory).sum();
        if (cpus, memory) != (self.held_cpus, self.held_memory) {
            return Err(format!(
                "the sums say {} thousandths of a CPU and {} bytes are held, the holders {cpus} and {memory}",
                self.held_cpus, self.held_memory
            ));
        }
        let on_gpus: usize = self.gpus.iter().map(|gpu| gpu.holders.len()).sum();
        let placed: usize = self.holders.values().map(|held| held.placement.gpus.len()).sum();
        if on_gpus != placed {
            return Err(format!("{placed} GPUs are placed on, {on_gpus} say so"));
        }
        for (id, gpu) in self.gpus.iter().enumerate() {
            for hold in &gpu.holders {
                let held = self.holders.get(&hold.attempt).ok_or(format!("GPU {id} is held by nobody"))?;
                if !held.placement.gpus.contains(&GpuId(id as u32)) {
                    return Err(format!("GPU {id} is held by an attempt that is placed elsewhere"));
                }
            }
            if gpu.holders.len() > 1 && gpu.holders.iter().any(|h| h.alone) {
                return Err(format!("GPU {id} is shared with an attempt that wants it alone"));
            }
        }
        let mut sides = self.holders.values().map(|held| held.exclusivity);
        let first = sides.next();
        let together = |side: Exclusivity| match (first, side) {
            (Some(Exclusivity::Anyone { .. }), Exclusivity::Anyone { .. }) => true,
            (Some(Exclusivity::Group(a)), Exclusivity::Group(b)) => a == b,
            _ => false,
        };
        if !sides.all(together) {
            return Err("something runs beside an attempt or a group that wants the machine alone".to_owned());
        }
        match self.oversubscribed() {
            Some(what) if !self.shrunk => Err(what),
            _ => Ok(()),
        }
    }
}

/// The present ledger and hypothetical ones. They separate "not now" from "not while others hold it" from "never".
#[derive(Clone, Debug, Default)]
pub(super) struct Feasibility {
    pub(super) now: Allocations,
    /// Nothing of this run is running.
    pub(super) drained: Allocations,
    /// Also without foreign processes and other runs.
    pub(super) cleared: Allocations,
    /// Also with every GPU that ever responded.
    pub(super) whole: Allocations,
}

impl Feasibility {
    pub(super) fn new(capacity: &Capacity, limits: &Limits) -> Self {
        let ledger = Allocations { sharing: limits.sharing.clone(), ..Allocations::default() };
        let mut feasibility =
            Feasibility { now: ledger.clone(), drained: ledger.clone(), cleared: ledger.clone(), whole: ledger };
        feasibility.set_capacity(capacity);
        feasibility.set_interference(&limits.sharing.devices, &limits.sharing.trial);
        feasibility
    }

    /// Updates the coefficients. The ledgers without running attempts never allow trials.
    pub(super) fn set_interference(&mut self, devices: &[f64], trial: &[Option<f64>]) {
        self.now.set_interference(devices, trial);
        for empty in [&mut self.drained, &mut self.cleared, &mut self.whole] {
            empty.set_interference(devices, &[]);
        }
    }

    /// Other runs come and go like foreign processes: a gang without room because of them waits.
    pub(super) fn set_others(&mut self, others: &PeerLoad) {
        for ledger in [&mut self.now, &mut self.drained] {
            for (id, gpu) in (0..).map(GpuId).zip(&mut ledger.gpus) {
                gpu.reserved_for_peer = others.reserved.contains(&id);
            }
            ledger.others.clone_from(others);
        }
    }

    pub(super) fn set_capacity(&mut self, capacity: &Capacity) {
        self.now.set_capacity(capacity);
        self.drained.set_capacity(capacity);
        self.cleared.set_capacity(capacity);
        self.cleared.gpus.iter_mut().for_each(|gpu| gpu.state.foreign = 0);
        let (cpus, memory) = (self.whole.cpus, self.whole.memory);
        self.whole.set_capacity(capacity);
        self.whole.gpus.iter_mut().for_each(|gpu| (gpu.state.foreign, gpu.state.alive) = (0, true));
        (self.whole.cpus, self.whole.memory) = (self.whole.cpus.max(cpus), self.whole.memory.max(memory));
    }
}
