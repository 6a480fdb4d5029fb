//! Publishes to the machine's other runs: the holdings of this run, and its gang that they keep from starting. Other
//! runs appear here only as totals.

use super::machine::Scheduler;
use super::others::{BlockedGang, MachineShare, PeerLoad};
use super::state::{Class, Core};
use crate::reason::PeerConflict;
use crate::{CorunGpus, InstanceId};

impl Scheduler {
    /// Holdings of the running attempts.
    pub fn holding(&self) -> MachineShare {
        let ledger = &self.core().feasibility.now;
        MachineShare {
            cpu_milli: ledger.held_cpus,
            memory: ledger.held_memory,
            attempts: ledger.holders.len() as u32,
            gpus: ledger.gpus.iter().filter(|gpu| !gpu.holders.is_empty()).count() as u32,
            exclusive: ledger.closed(),
        }
    }

    /// Total capacity, ignoring other runs.
    pub fn all(&self) -> MachineShare {
        let capacity = &self.core().capacity;
        MachineShare { cpu_milli: u64::from(capacity.cpus) * 1_000, memory: capacity.memory, ..MachineShare::default() }
    }

    /// The first gang of this run that other runs keep from starting. It stays the same until it starts, so it keeps its
    /// place in their order while room gathers. A gang that wants the machine for itself makes other runs stop starting.
    /// It is published only once this run, too, starts nothing before it.
    pub fn held_up(&self) -> Option<BlockedGang> {
        let core = self.core();
        let (gang, since) = core.held_up?;
        let drains = || {
            let reserved = core.reservation.as_ref().is_some_and(|reserved| reserved.gang == gang);
            reserved || core.feasibility.now.holders.is_empty()
        };
        if core.wants_alone(core.class(gang)) && !drains() {
            return None;
        }
        let (priority, asks) = (core.priority(gang), core.request(gang));
        Some(BlockedGang { gang, since, priority, request: asks })
    }

    /// The highest priority of the gangs that may start. It gives the run its turn when [`Self::held_up`] is `None`.
    pub fn highest_priority(&self) -> i64 {
        let core = self.core();
        let waiting = core.queue.order.iter().map(|key| key.2).chain(core.fresh.iter().copied());
        waiting.map(|gang| core.priority(gang)).max().unwrap_or(0)
    }

    /// Whether a gang could start if it had room.
    pub fn could_start(&self) -> bool {
        let core = self.core();
        !core.queue.order.is_empty() || !core.fresh.is_empty()
    }
}

impl Core {
    pub(super) fn others_changed(&mut self, others: PeerLoad) {
        if self.feasibility.now.others != others {
            self.feasibility.set_others(&others);
            self.dirty = true;
        }
    }

    /// Chooses, after a decision, the gang that waits for other runs. The present one is kept while it has no room, even
    /// if other gangs of this run pass it. Otherwise the gangs could alternate and block each other.
    pub(super) fn stake(&mut self) {
        let others = &self.feasibility.now.others;
        if others.runs == 0 || self.queue.order.is_empty() {
            self.held_up = None;
            return;
        }
        let still = |gang: InstanceId| {
            let class = self.class(gang);
            self.node(gang).key.is_some()
                && !self.class_fits(&self.feasibility.now, class)
                && self.class_fits(&self.feasibility.drained.without_others(true), class)
        };
        self.held_up = match self.held_up {
            Some((gang, since)) if still(gang) => Some((gang, since)),
            _ => self.first_blocked_by_peers().map(|gang| (gang, self.now)),
        };
    }

    /// The first gang that would have room without other runs: now, or once this run's attempts have ended.
    fn first_blocked_by_peers(&self) -> Option<InstanceId> {
        let (now, drained) = (&self.feasibility.now, &self.feasibility.drained);
        let (now_free, drained_free) = (now.without_others(true), drained.without_others(true));
        let blocked = |class: Class| {
            !self.class_fits(now, class)
                && self.class_fits(&drained_free, class)
                && (!self.class_fits(drained, class) || self.class_fits(&now_free, class))
        };
        let firsts =
            self.queue.classes.iter().filter(|&(&class, _)| blocked(class)).filter_map(|(_, alike)| alike.first());
        firsts.min().map(|key| key.2)
    }

    fn wants_alone(&self, class: Class) -> bool {
        match class {
            Class::Alike(demand) => demand.machine_alone,
            Class::Group(_) => true,
        }
    }

    fn priority(&self, gang: InstanceId) -> i64 {
        self.members(gang).iter().map(|&m| self.node(m).task.priority).max().unwrap_or(0)
    }

    fn request(&self, gang: InstanceId) -> MachineShare {
        let class = self.class(gang);
        let mut asks = MachineShare { exclusive: self.wants_alone(class), ..MachineShare::default() };
        let same = self.group(gang).is_some_and(|group| group.mode != CorunGpus::Own);
        for &member in self.members(gang) {
            let demand = &self.node(member).demand;
            asks.cpu_milli = asks.cpu_milli.saturating_add(demand.alone_load.cpu_milli);
            asks.memory = asks.memory.saturating_add(demand.memory);
            asks.attempts += 1;
            asks.gpus = if same { asks.gpus.max(demand.gpus) } else { asks.gpus.saturating_add(demand.gpus) };
        }
        let lacks_gpus = asks.gpus > 0 && !self.class_fits(&self.feasibility.drained.without_others(false), class);
        if lacks_gpus && !asks.exclusive {
            (asks.cpu_milli, asks.memory) = (0, 0);
        }
        asks
    }

    /// How other runs keep gangs of a class from starting, whatever room there is.
    pub(super) fn blocked_by_peers(&self, class: Class) -> Option<PeerConflict> {
        let PeerLoad { holds, ahead, .. } = &self.feasibility.now.others;
        let alone = self.wants_alone(class);
        if holds.exclusive {
            Some(PeerConflict::Exclusive)
        } else if alone && holds.attempts > 0 {
            Some(PeerConflict::Running)
        } else if ahead.exclusive || alone && ahead.attempts > 0 {
            Some(PeerConflict::Ahead)
        } else {
            None
        }
    }
}
