//! What other runs of the machine hold and wait for, and the order in which runs are served. Pure: the caller finds the other runs. The
//! live engine and the tests that drive several schedulers against one machine use the same rules.
//!
//! Each run publishes what it holds and its head: the first gang that other runs keep from starting. All runs order all heads alike:
//! higher priority first, then the longest wait, then the run's number. The first head of all gets its room as soon as running steps
//! have ended, because
//!
//! - a run counts as taken what others hold and what the heads before its own ask for;
//! - nothing starts while such a head wants the machine for itself;
//! - of the GPUs that such a head may have, as many are kept for it as it asks for: free ones first, then those of the run itself;
//! - a head that waits for GPUs keeps no CPUs, because its wait could last hours.
//!
//! A GPU belongs to one run: while a step of it is there, no other run starts anything on it.
//!
//! Steps of milliseconds would be handed over one by one, and the machine would idle until the next run notices. So each start of a
//! run begins its [`Shift`]: for a tenth of a second the run may start as much as ends there.

use std::{cmp::Reverse, collections::BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{GpuId, InstanceId, Span, Time};

/// An amount of the machine that a run holds or asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineShare {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Host memory, bytes.
    pub memory: u64,
    /// Attempts; summed over heads: the number of heads.
    pub attempts: u32,
    /// Its GPUs.
    #[serde(default, skip_serializing_if = "crate::result::is_zero")]
    pub gpus: u32,
    /// It has, or wants, the machine for itself: an exclusive step, or a co-run group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

impl MachineShare {
    /// What both hold.
    pub fn add(&mut self, more: &MachineShare) {
        self.cpu_milli = self.cpu_milli.saturating_add(more.cpu_milli);
        self.memory = self.memory.saturating_add(more.memory);
        self.attempts = self.attempts.saturating_add(more.attempts);
        self.gpus = self.gpus.saturating_add(more.gpus);
        self.exclusive |= more.exclusive;
    }
}

/// A run's first gang that other runs keep from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Start of its wait, on a clock that all runs share.
    pub since: u64,
    /// Higher goes first.
    pub priority: i64,
    /// Its request.
    pub request: MachineShare,
    /// The GPUs of ours that it may have.
    pub gpus: Vec<GpuId>,
}

/// A place in the order in which runs are served. The smallest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    priority: Reverse<i64>,
    since: u64,
    run: u32,
}

impl QueuePosition {
    /// The place of a gang with this priority that waits since then, in run number `run`.
    pub fn new(priority: i64, since: u64, run: u32) -> QueuePosition {
        QueuePosition { priority: Reverse(priority), since, run }
    }
}

/// Holders of a run's GPUs before a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuHolders {
    /// GPUs that its own steps use.
    pub ours: BTreeSet<GpuId>,
    /// Those of other flows.
    pub peers: Vec<GpuId>,
}

/// Another run on the machine, as it published itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRun {
    /// Distinguishes runs.
    pub run: u32,
    /// Holdings of its attempts.
    pub holds: MachineShare,
    /// Its head, if something of it waits.
    pub head: Option<Head>,
}

impl PeerRun {
    /// Its place in the order, if one of its gangs waits.
    pub fn turn(&self) -> Option<QueuePosition> {
        self.head.as_ref().map(|head| QueuePosition::new(head.priority, head.since, self.run))
    }
}

/// The sum of all other runs of the machine, for one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerLoad {
    /// Number of other runs.
    pub runs: u32,
    pub holds: MachineShare,
    /// The sum of what the heads before ours ask for.
    pub ahead: MachineShare,
    /// GPUs of ours that other flows have.
    pub gpus: Vec<GpuId>,
    /// GPUs on which nothing of ours may start, because they are reserved for heads before ours.
    pub reserved: BTreeSet<GpuId>,
}

impl PeerLoad {
    /// Only the GPUs of other flows.
    pub fn on(holders: &GpuHolders) -> PeerLoad {
        PeerLoad { gpus: holders.peers.clone(), ..PeerLoad::default() }
    }

    /// The sum for a run at this position.
    pub fn facing(own: QueuePosition, rivals: &[PeerRun], holders: &GpuHolders) -> PeerLoad {
        let mut others = PeerLoad::on(holders);
        let mut ahead: Vec<(QueuePosition, &Head)> = Vec::new();
        for rival in rivals {
            others.runs += 1;
            others.holds.add(&rival.holds);
            ahead.extend(rival.turn().filter(|turn| *turn < own).zip(rival.head.as_ref()));
        }
        ahead.sort_by_key(|(turn, _)| *turn);
        for (_, head) in ahead {
            others.ahead.add(&MachineShare { attempts: 1, ..head.request });
            others.keep(head, &holders.ours);
        }
        others
    }

    /// Keeps as many GPUs for a head as it asks for: free ones, then ours. On those of other flows we start nothing anyway.
    fn keep(&mut self, head: &Head, ours: &BTreeSet<GpuId>) {
        let open = |gpu: &&GpuId| !self.reserved.contains(gpu) && (ours.contains(gpu) || !self.gpus.contains(gpu));
        let mut open: Vec<GpuId> = head.gpus.iter().filter(open).copied().collect();
        open.sort_by_key(|gpu| ours.contains(gpu));
        self.reserved.extend(open.into_iter().take(head.request.gpus as usize));
    }

    /// No head is before this run's.
    pub fn is_first(&self) -> bool {
        self.ahead.attempts == 0
    }

    /// Lets `room` of `all` start before the heads that are ahead, while we hold `holds`. A head that wants the machine for itself
    /// stays first.
    pub fn leave(&mut self, room: &MachineShare, holds: &MachineShare, all: &MachineShare) {
        if self.ahead.exclusive || room.cpu_milli == 0 {
            return;
        }
        let free = |all: u64, taken: u64, ours: u64| all.saturating_sub(taken).saturating_sub(ours);
        let cpu_milli = free(all.cpu_milli, self.holds.cpu_milli, holds.cpu_milli);
        let memory = free(all.memory, self.holds.memory, holds.memory);
        self.reserved.clear();
        // The heads together may request more than there is.
        self.ahead.cpu_milli = self.ahead.cpu_milli.min(cpu_milli.saturating_sub(room.cpu_milli));
        self.ahead.memory = self.ahead.memory.min(memory.saturating_sub(room.memory));
    }

    /// Thousandths of a CPU that other runs hold or that are kept for their heads.
    pub(super) fn cpu_milli(&self) -> u64 {
        self.holds.cpu_milli.saturating_add(self.ahead.cpu_milli)
    }

    /// Bytes of host memory that other runs hold or that are kept for their heads.
    pub(super) fn memory(&self) -> u64 {
        self.holds.memory.saturating_add(self.ahead.memory)
    }

    /// Whether exclusive use of the machine allows a start. `alone`: the starting gang wants the machine for itself.
    pub(super) fn let_start(&self, alone: bool) -> bool {
        let nobody = self.holds.attempts == 0 && self.ahead.attempts == 0;
        !self.holds.exclusive && !self.ahead.exclusive && (nobody || !alone)
    }
}

/// How long a run's shift lasts.
const SHIFT: Span = Span::from_millis(100);

/// The short time in which a run that was served may reuse what its ending steps free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    until: Time,
    held: MachineShare,
}

impl Shift {
    /// A gang of this run started; `holds` includes it.
    pub fn started(&mut self, now: Time, holds: MachineShare) {
        if now >= self.until {
            *self = Shift { until: now + SHIFT, held: holds };
        } else {
            self.held.cpu_milli = self.held.cpu_milli.max(holds.cpu_milli);
            self.held.memory = self.held.memory.max(holds.memory);
        }
    }

    /// How much this run may start before the heads ahead, given its holdings.
    pub fn available(&self, now: Time, holds: &MachineShare) -> MachineShare {
        if now >= self.until {
            return MachineShare::default();
        }
        let (cpu_milli, memory) = (self.held.cpu_milli, self.held.memory);
        MachineShare {
            cpu_milli: cpu_milli.saturating_sub(holds.cpu_milli),
            memory: memory.saturating_sub(holds.memory),
            ..MachineShare::default()
        }
    }
}

/// The gang that a scheduler's run publishes as its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedGang {
    pub gang: InstanceId,
    /// When other runs began to keep it from starting.
    pub since: Time,
    /// The highest priority of its members.
    pub priority: i64,
    /// Its request.
    pub request: MachineShare,
}
