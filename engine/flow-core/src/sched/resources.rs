//! Who holds what: an indexed pool of GPUs and sums of CPUs and memory, in whole units and bytes. Knows nothing of tasks,
//! states or policies; it places a demand or says no.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::api::{Capacity, GpuState, Limits, Placement, Placer, Sharing, Task};
use super::contention::{self, Host, Load, UNKNOWN_DEVICE};
use crate::{AttemptId, CorunGpus, Exclusive, GpuId, InstanceId};

const GIB: u64 = 1 << 30;

/// What a task asks of admission. Tasks with equal demands fit or do not fit alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Demand {
    pub(super) gpus: u32,
    pub(super) gpu_memory: GpuMemory,
    pub(super) cpus: u32,
    pub(super) asks: Asks,
    pub(super) memory: u64,
    /// Nothing else of ours on its GPUs.
    pub(super) gpus_alone: bool,
    /// Nothing else of ours on the machine.
    pub(super) machine_alone: bool,
    /// Its instance, where that was measured beside another: then it is like no other.
    pub(super) paired: Option<InstanceId>,
}

/// What a task keeps busy while it runs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asks {
    /// Thousandths of a core.
    pub(super) cpu_milli: u64,
    /// History saw it; else it is the CPUs that it holds.
    pub(super) cpu_learned: bool,
    /// Thousandths of each of its GPUs; all of it while nobody knows.
    pub(super) gpu_milli: u32,
    /// Beside others it shows what sharing costs.
    pub(super) telling: bool,
}

/// What is known of the memory that a task takes on each of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GpuMemory {
    /// The author's word: it fits exactly where that much is free.
    Declared(u64),
    /// The peak that history saw: never a reason to refuse a task for good.
    Learned(u64),
    /// Nothing is known.
    Unknown,
}

impl Demand {
    pub(super) fn of(task: &Task, sharing: &Sharing) -> Self {
        let request = &task.request;
        let learned = task.estimate.gpu_memory.filter(|_| task.estimate.samples > 0);
        let gpu_memory = match (request.gpus, request.gpu_memory, learned) {
            (0, ..) => GpuMemory::Declared(0),
            (_, Some(bytes), _) => GpuMemory::Declared(bytes),
            (_, None, Some(bytes)) => GpuMemory::Learned(bytes),
            (_, None, None) => GpuMemory::Unknown,
        };
        let unknown = task.estimate.samples == 0 || gpu_memory == GpuMemory::Unknown;
        let alone = unknown || task.measured || task.exclusive != Exclusive::No;
        // CPUs that are declared are kept free for it; what history says of a step that keeps GPUs busy only decides when.
        let held = u64::from(request.cpus) * 1_000;
        let seen = task.estimate.cpu_milli.filter(|_| request.gpus > 0 && !alone && task.estimate.samples > 0);
        let asks = Asks {
            cpu_milli: seen.map_or(held, |milli| held.min(milli.into())),
            cpu_learned: seen.is_some(),
            gpu_milli: if request.gpus == 0 { 0 } else { task.estimate.gpu_busy_milli.unwrap_or(1_000).min(1_000) },
            telling: request.gpus > 0 && !alone && task.estimate.timed_alone && task.estimate.gpu_busy_milli.is_some(),
        };
        let id = task.instance;
        let measured = sharing.pairs.range((id, InstanceId(0))..).next().is_some_and(|((first, _), _)| *first == id);
        Demand {
            gpus: request.gpus,
            gpu_memory,
            cpus: request.cpus,
            asks,
            memory: request.memory.unwrap_or(0),
            gpus_alone: request.gpus > 0 && alone,
            machine_alone: task.exclusive == Exclusive::Machine,
            paired: (measured && !alone).then_some(id),
        }
    }

    /// What is reserved on a card of this size: room that must be free beside others of ours.
    pub(super) fn on_card(&self, total: u64) -> u64 {
        match self.gpu_memory {
            GpuMemory::Declared(bytes) => bytes,
            GpuMemory::Learned(bytes) => bytes.saturating_add(margin(total)).min(total),
            GpuMemory::Unknown => margin(total),
        }
    }

    /// Room that must be free on a card without others of ours. History only keeps it off cards that strangers fill: a peak
    /// that fits needs no margin here, and one that was seen on a larger card says nothing.
    pub(super) fn on_empty_card(&self, total: u64) -> u64 {
        match self.gpu_memory {
            GpuMemory::Learned(bytes) if bytes <= total => bytes,
            GpuMemory::Learned(_) => margin(total),
            GpuMemory::Declared(_) | GpuMemory::Unknown => self.on_card(total),
        }
    }

    /// What a member of a co-run group reserves: only what its author declared, since a learned peak or a margin would
    /// forbid the very experiment.
    fn declared(&self) -> u64 {
        match self.gpu_memory {
            GpuMemory::Declared(bytes) => bytes,
            GpuMemory::Learned(_) | GpuMemory::Unknown => 0,
        }
    }
}

/// What a learned peak may be exceeded by: 1 GiB, or a twentieth of the card if that is more; half of a tiny card.
fn margin(total: u64) -> u64 {
    GIB.max(total / 20).min(total / 2)
}

/// What an attempt holds beside its placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Others may run beside it, on other GPUs only if `gpus_alone`.
    Anyone { gpus_alone: bool },
    /// Nothing of ours runs beside it.
    Nobody,
    /// Only the other members of its group, who together may ask for more CPUs than there are.
    Group(InstanceId),
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) instance: InstanceId,
    pub(super) placement: Placement,
    pub(super) beside: Beside,
    pub(super) asks: Asks,
}

#[derive(Clone, Debug)]
pub(super) struct Gpu {
    pub(super) state: GpuState,
    pub(super) holders: Vec<GpuHold>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct GpuHold {
    pub(super) attempt: AttemptId,
    pub(super) reserved: u64,
    pub(super) used: u64,
    pub(super) alone: bool,
}

impl Gpu {
    /// Total − strangers − Σ over ours of max(reserved, used).
    pub(super) fn free(&self) -> u64 {
        let ours = self.holders.iter().fold(0u64, |sum, h| sum.saturating_add(h.reserved.max(h.used)));
        self.state.memory.saturating_sub(self.state.strangers).saturating_sub(ours)
    }

    pub(super) fn takes(&self, demand: &Demand) -> bool {
        self.state.alive
            && !self.holders.iter().any(|h| h.alone || demand.gpus_alone)
            && self.free() >= self.wanted(demand)
    }

    /// Free memory that a demand wants here.
    pub(super) fn wanted(&self, demand: &Demand) -> u64 {
        if self.holders.is_empty() {
            demand.on_empty_card(self.state.memory)
        } else {
            demand.on_card(self.state.memory)
        }
    }
}

/// How a demand joins others on their GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joins {
    /// There are none, or it is expected to pay.
    Well,
    /// To find out whether it pays.
    OnTrial,
}

/// Something that runs, or would.
struct Work<'a> {
    /// Where it may have been measured beside another.
    instance: Option<InstanceId>,
    asks: &'a Asks,
    gpus: &'a [GpuId],
}

impl<'a> Work<'a> {
    fn of(held: &'a Held) -> Self {
        Work { instance: Some(held.instance), asks: &held.asks, gpus: &held.placement.gpus }
    }

    /// What it was measured to take beside the only other one on its GPUs, alone taking 1.
    fn measured(&self, all: &[Work<'_>], sharing: &Sharing) -> Option<f64> {
        let shares =
            |other: &&Work<'_>| !std::ptr::eq(*other, self) && other.gpus.iter().any(|gpu| self.gpus.contains(gpu));
        let mut others = all.iter().filter(shares);
        let other = others.next().filter(|_| others.next().is_none())?;
        sharing.pairs.get(&(self.instance?, other.instance?)).copied()
    }
}

/// What is done at once.
#[derive(Clone, Copy)]
struct Prospect {
    /// The speed of the slowest, alone being 1.
    slowest: f64,
    /// The sum of all speeds.
    sum: f64,
}

impl Prospect {
    fn of(work: &[Work<'_>], ledger: &Ledger, devices: &[f64]) -> Self {
        let load = |work: &Work<'_>| Load {
            cores: work.asks.cpu_milli as f64 / 1e3,
            gpu_busy: f64::from(work.asks.gpu_milli) / 1e3,
            gpus: work.gpus.iter().map(|gpu| gpu.index()).collect(),
        };
        let loads: Vec<Load> = work.iter().map(load).collect();
        let measured: Vec<Option<f64>> = match ledger.sharing.pairs.is_empty() {
            true => Vec::new(),
            false => work.iter().map(|one| one.measured(work, &ledger.sharing)).collect(),
        };
        let host = Host { cores: ledger.cpus as f64, devices: devices.to_vec() };
        let speeds = contention::speeds_where(&loads, &measured, &host);
        Prospect { slowest: speeds.iter().copied().fold(1.0, f64::min), sum: speeds.iter().sum() }
    }
}

/// The books: what there is, and which attempt holds how much of it.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) gpus: Vec<Gpu>,
    pub(super) cpus: u64,
    pub(super) memory: u64,
    pub(super) jobs: usize,
    /// Thousandths, as asked for.
    pub(super) held_cpus: u64,
    pub(super) held_memory: u64,
    pub(super) holders: BTreeMap<AttemptId, Held>,
    placer: Placer,
    sharing: Sharing,
    /// Capacity shrank under what was running.
    shrunk: bool,
}

impl Ledger {
    pub(super) fn new(capacity: &Capacity, limits: &Limits) -> Self {
        let mut ledger = Ledger {
            gpus: Vec::new(),
            cpus: 0,
            memory: 0,
            jobs: 0,
            held_cpus: 0,
            held_memory: 0,
            holders: BTreeMap::new(),
            placer: limits.placer,
            sharing: limits.sharing.clone(),
            shrunk: false,
        };
        ledger.set_capacity(capacity);
        ledger
    }

    /// More is known of what sharing costs.
    pub(super) fn price(&mut self, devices: &[f64], trial: &[Option<f64>]) {
        (self.sharing.devices, self.sharing.trial) = (devices.to_vec(), trial.to_vec());
    }

    /// Nobody joins another on trial.
    pub(super) fn try_nothing(&mut self) {
        self.sharing.trial.clear();
    }

    /// A GPU that the list no longer has counts as dead.
    pub(super) fn set_capacity(&mut self, capacity: &Capacity) {
        for (gpu, state) in self.gpus.iter_mut().zip(&capacity.gpus) {
            gpu.state = state.clone();
        }
        for gone in self.gpus.iter_mut().skip(capacity.gpus.len()) {
            gone.state.alive = false;
        }
        let known = self.gpus.len();
        let new = capacity.gpus.iter().skip(known);
        self.gpus.extend(new.map(|state| Gpu { state: state.clone(), holders: Vec::new() }));
        self.cpus = u64::from(capacity.cpus);
        self.memory = capacity.memory;
        self.jobs = capacity.jobs.map_or(usize::MAX, |jobs| jobs.max(1) as usize);
        self.shrunk = self.oversubscribed().is_some();
    }

    /// Something runs that wants nothing beside it.
    pub(super) fn closed(&self) -> bool {
        // Such an attempt is alone, or among its group: any holder tells.
        self.holders.values().next().is_some_and(|held| !matches!(held.beside, Beside::Anyone { .. }))
    }

    /// Whether a demand could be placed now.
    pub(super) fn fits(&self, demand: &Demand) -> bool {
        self.sums_suffice(demand)
            && match (demand.gpus, self.placer) {
                (0, _) => true,
                (gpus, Placer::Emptiest) if self.empty_takers(demand) >= gpus as usize => true,
                _ => self.choose(demand).is_some_and(|gpus| self.joins(demand, &gpus).is_some()),
            }
    }

    /// The GPUs that would take a demand.
    fn takers(&self, demand: &Demand) -> impl Iterator<Item = (GpuId, &Gpu)> {
        (0..).map(GpuId).zip(&self.gpus).filter(|(_, gpu)| gpu.takes(demand))
    }

    fn empty_takers(&self, demand: &Demand) -> usize {
        self.takers(demand).filter(|(_, gpu)| gpu.holders.is_empty()).count()
    }

    /// The GPUs that a demand would get.
    fn choose(&self, demand: &Demand) -> Option<Vec<GpuId>> {
        let (node, best) = match self.placer {
            _ if demand.gpus == 0 => return Some(Vec::new()),
            Placer::Emptiest => return self.emptiest(demand),
            Placer::First { node } => (node.max(1), false),
            Placer::Best { node } => (node.max(1), true),
        };
        let mut nodes: BTreeMap<u32, Vec<GpuId>> = BTreeMap::new();
        for (id, _) in self.takers(demand) {
            nodes.entry(id.0 / node).or_default().push(id);
        }
        let (whole, rest) = (demand.gpus / node, (demand.gpus % node) as usize);
        let mut chosen = Vec::new();
        for _ in 0..whole {
            let free = nodes.iter().find(|(_, gpus)| gpus.len() == node as usize).map(|(&id, _)| id)?;
            chosen.extend(nodes.remove(&free)?);
        }
        if rest > 0 {
            let mut enough = nodes.values().filter(|gpus| gpus.len() >= rest);
            let from = if best { enough.min_by_key(|gpus| gpus.len()) } else { enough.next() };
            chosen.extend(from?.iter().take(rest));
        }
        chosen.sort();
        Some(chosen)
    }

    /// Empty cards first, of the others those that are least busy; without strangers, with most room.
    fn emptiest(&self, demand: &Demand) -> Option<Vec<GpuId>> {
        let key = |(id, gpu): (GpuId, &Gpu)| {
            (self.busy_milli(gpu), gpu.holders.len(), gpu.state.strangers > 0, Reverse(gpu.free()), id)
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

    fn busy_milli(&self, gpu: &Gpu) -> u32 {
        gpu.holders.iter().filter_map(|h| self.holders.get(&h.attempt)).map(|held| held.asks.gpu_milli).sum()
    }

    /// How a demand may join those who hold these GPUs, if it may.
    fn joins(&self, demand: &Demand, gpus: &[GpuId]) -> Option<Joins> {
        if gpus.iter().all(|gpu| self.gpus[gpu.index()].holders.is_empty()) {
            return Some(Joins::Well);
        }
        let mut work: Vec<Work<'_>> = self.holders.values().map(Work::of).collect();
        let before = Prospect::of(&work, self, &self.sharing.devices);
        work.push(Work { instance: demand.paired, asks: &demand.asks, gpus });
        let after = Prospect::of(&work, self, &self.sharing.devices);
        // Sums of rounded numbers: what is exactly at a bound is within it.
        let within = 1e-9;
        let bearable = after.slowest + within >= 1.0 / self.sharing.slowdown;
        let gains = |before: Prospect, after: Prospect| after.sum - before.sum + within >= self.sharing.gain;
        if bearable && gains(before, after) {
            return Some(Joins::Well);
        }
        let hoped = self.hoped(demand, gpus).filter(|_| bearable)?;
        let after = Prospect::of(&work, self, &hoped);
        work.pop();
        gains(Prospect::of(&work, self, &hoped), after).then_some(Joins::OnTrial)
    }

    /// The prices at which a demand may join another on trial: where these two alone would have the GPUs, each would show
    /// what that costs, and the CPU could not be to blame.
    fn hoped(&self, demand: &Demand, gpus: &[GpuId]) -> Option<Vec<f64>> {
        if self.sharing.trial.is_empty() {
            return None;
        }
        let mut there = gpus.iter().flat_map(|gpu| &self.gpus[gpu.index()].holders).map(|hold| hold.attempt);
        let other = there.next().filter(|first| there.all(|next| next == *first))?;
        let held = self.holders.get(&other)?;
        let only = |gpu: &GpuId| self.gpus[gpu.index()].holders.len() == 1;
        let telling = demand.asks.telling && held.asks.telling && held.placement.gpus.iter().all(only);
        if !telling || self.held_cpus + demand.asks.cpu_milli > self.cpus * 1_000 {
            return None;
        }
        let mut devices = self.sharing.devices.clone();
        devices.resize(self.gpus.len().max(devices.len()), UNKNOWN_DEVICE);
        for gpu in gpus {
            devices[gpu.index()] = self.sharing.trial.get(gpu.index()).copied().flatten()?;
        }
        Some(devices)
    }

    /// GPUs with room for a demand that it would share badly; those without holders are not told.
    pub(super) fn crowded(&self, demand: &Demand) -> Option<Vec<GpuId>> {
        let mut gpus = self.choose(demand).filter(|gpus| self.joins(demand, gpus).is_none())?;
        gpus.retain(|gpu| !self.gpus[gpu.index()].holders.is_empty());
        Some(gpus)
    }

    /// What the slower of both took, where a demand was measured beside the only one on a GPU, alone taking 1.
    pub(super) fn measured_beside(&self, demand: &Demand, gpu: GpuId) -> Option<f64> {
        let [hold] = self.gpus[gpu.index()].holders.as_slice() else { return None };
        let (own, other) = (demand.paired?, self.holders.get(&hold.attempt)?.instance);
        let of = |pair| self.sharing.pairs.get(&pair).copied();
        Some(of((own, other))?.max(of((other, own))?))
    }

    /// Whether the CPUs suffice: what is declared is kept free, what history knows may go somewhat beyond.
    pub(super) fn cpus_suffice(&self, demand: &Demand) -> bool {
        let all = self.cpus * 1_000;
        let bound = if demand.asks.cpu_learned { (all as f64 * self.sharing.cpu) as u64 } else { all };
        u64::from(demand.cpus) <= self.cpus && self.held_cpus + demand.asks.cpu_milli <= bound
    }

    fn sums_suffice(&self, demand: &Demand) -> bool {
        let memory = demand.memory;
        (self.holders.is_empty() || !demand.machine_alone && !self.closed())
            && self.holders.len() < self.jobs
            && self.cpus_suffice(demand)
            && self.held_memory.saturating_add(memory) <= self.memory
    }

    /// Where a demand would go now.
    pub(super) fn place(&self, demand: &Demand) -> Option<Placement> {
        if !self.sums_suffice(demand) {
            return None;
        }
        let gpus = self.choose(demand)?;
        let trial = self.joins(demand, &gpus)? == Joins::OnTrial;
        let cards = || gpus.iter().map(|gpu| &self.gpus[gpu.index()]);
        let room = cards().map(Gpu::free).min().unwrap_or(0);
        let gpu_memory = match demand.gpu_memory {
            GpuMemory::Unknown => room,
            _ => cards().map(|gpu| demand.on_card(gpu.state.memory)).max().unwrap_or(0).min(room),
        };
        Some(Placement { gpus, cpus: demand.cpus, gpu_memory, memory: demand.memory, trial })
    }

    /// Where the members of a group would go now, in their order. Nothing of ours may run; CPUs, `-j` and what history
    /// says of GPU memory do not count, GPUs and declared memory do.
    pub(super) fn place_group(&self, mode: CorunGpus, members: &[Demand]) -> Option<Vec<Placement>> {
        let memory = members.iter().fold(0u64, |sum, m| sum.saturating_add(m.memory));
        if !self.holders.is_empty() || memory > self.memory {
            return None;
        }
        let mut cards: Vec<_> = (0..self.gpus.len() as u32)
            .map(|i| (GpuId(i), &self.gpus[i as usize]))
            .filter(|(_, g)| g.state.alive)
            .collect();
        cards.sort_by_key(|(id, gpu)| (Reverse(gpu.free()), *id));
        let mut room: Vec<u64> = cards.iter().map(|(_, gpu)| gpu.free()).collect();
        // The largest demand chooses first, from the cards with most room: if any assignment exists, this one does.
        let mut by_size: Vec<usize> = (0..members.len()).collect();
        by_size.sort_by_key(|&m| (Reverse(members[m].declared()), m));
        let mut placements = vec![Placement::default(); members.len()];
        let mut next = 0;
        for m in by_size {
            let (demand, wanted) = (&members[m], members[m].gpus as usize);
            let first = if mode == CorunGpus::Own { next } else { 0 };
            next = first + wanted;
            if next > cards.len() {
                return None;
            }
            for free in &mut room[first..next] {
                *free = free.checked_sub(demand.declared())?;
            }
            let mut gpus: Vec<GpuId> = cards[first..next].iter().map(|(id, _)| *id).collect();
            gpus.sort();
            let (cpus, gpu_memory, memory) = (demand.cpus, demand.declared(), demand.memory);
            placements[m] = Placement { gpus, cpus, gpu_memory, memory, trial: false };
        }
        Some(placements)
    }

    pub(super) fn take(
        &mut self,
        attempt: AttemptId,
        instance: InstanceId,
        placement: &Placement,
        beside: Beside,
        asks: Asks,
    ) {
        let alone = matches!(beside, Beside::Anyone { gpus_alone: true });
        for gpu in &placement.gpus {
            self.gpus[gpu.index()].holders.push(GpuHold { attempt, reserved: placement.gpu_memory, used: 0, alone });
        }
        if placement.trial {
            self.try_nothing();
        }
        self.held_cpus += asks.cpu_milli;
        self.held_memory = self.held_memory.saturating_add(placement.memory);
        self.holders.insert(attempt, Held { instance, placement: placement.clone(), beside, asks });
    }

    pub(super) fn release(&mut self, attempt: AttemptId) {
        let Some(held) = self.holders.remove(&attempt) else { return };
        for gpu in &held.placement.gpus {
            self.gpus[gpu.index()].holders.retain(|h| h.attempt != attempt);
        }
        self.held_cpus -= held.asks.cpu_milli;
        self.held_memory -= held.placement.memory;
        self.shrunk = self.shrunk && self.oversubscribed().is_some();
    }

    /// Who holds a part of these GPUs.
    pub(super) fn sharers(&self, placement: &Placement) -> BTreeSet<AttemptId> {
        placement.gpus.iter().flat_map(|gpu| &self.gpus[gpu.index()].holders).map(|hold| hold.attempt).collect()
    }

    /// The most that an attempt reserved or was seen to use of one GPU.
    pub(super) fn peak(&self, attempt: AttemptId) -> u64 {
        let holds = self.gpus.iter().flat_map(|gpu| &gpu.holders).filter(|hold| hold.attempt == attempt);
        holds.map(|hold| hold.reserved.max(hold.used)).max().unwrap_or(0)
    }

    /// Notes measured GPU memory, in the placement's order. Returns whether room changed.
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

    /// An attempt holds a GPU that does not answer any more.
    pub(super) fn lost_under(&self, attempt: AttemptId) -> bool {
        let held = self.holders.get(&attempt);
        held.is_some_and(|held| held.placement.gpus.iter().any(|gpu| !self.gpus[gpu.index()].state.alive))
    }

    fn oversubscribed(&self) -> Option<String> {
        let group = self.holders.values().any(|held| matches!(held.beside, Beside::Group(_)));
        let kept = self.holders.values().filter(|held| !held.asks.cpu_learned).map(|held| held.asks.cpu_milli).sum();
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

    /// Every cross-reference and every limit.
    pub(super) fn check(&self) -> Result<(), String> {
        let cpus: u64 = self.holders.values().map(|held| held.asks.cpu_milli).sum();
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
        let mut sides = self.holders.values().map(|held| held.beside);
        let first = sides.next();
        let together = |side: Beside| match (first, side) {
            (Some(Beside::Anyone { .. }), Beside::Anyone { .. }) => true,
            (Some(Beside::Group(a)), Beside::Group(b)) => a == b,
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
