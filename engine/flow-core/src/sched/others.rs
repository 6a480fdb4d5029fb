//! Holdings and requests of the other runs on this machine, and the order in which all runs are served. Pure: other
//! modules find the runs and exchange the data. The live engine and the tests that drive several schedulers against one
//! machine use the same rules.
//!
//! Each run publishes its holdings and its *head*: the first of its units that other runs keep from starting. All runs
//! order the heads alike: higher priority first, then the longest wait, then the run's number. A run counts as taken
//! what others hold and what earlier heads request, so nothing passes a longer wait. Nothing starts before a head that
//! wants the machine for itself. GPUs are counted individually: each head gets as many of its eligible GPUs as it
//! requests. Free ones are kept first, then the run's own, on which it starts nothing more. A head that waits for GPUs
//! holds back no CPUs, because the wait could last hours. Nothing precedes the first head, which gets its room as soon
//! as running work ends.
//!
//! Several runs may share a GPU on which no step wants it alone, by the same rules as within one run. Each run publishes
//! the memory and load of its steps on such a GPU and counts the published load of others there.
//!
//! If runs handed over after each step of milliseconds, the machine would idle until the next run notices. So a start
//! begins the run's [`Shift`]: for a tenth of a second it may replace its ending steps by as much work of its own.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};

use crate::{GpuId, InstanceId, Span, Time};

/// Resources of the machine that a run holds, or requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Host memory, bytes.
    pub memory: u64,
    /// Attempts; summed over heads: the number of heads.
    pub attempts: u32,
    /// GPUs that it holds, entirely or in part.
    #[serde(default, skip_serializing_if = "none")]
    pub gpus: u32,
    /// It has, or wants, the machine for itself: an exclusive step, or a co-run group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

fn none(amount: &u32) -> bool {
    *amount == 0
}

impl Holding {
    /// Whether any amount is smaller than before, whatever else grew.
    pub fn is_less_than(&self, before: &Holding) -> bool {
        self.cpu_milli < before.cpu_milli
            || self.memory < before.memory
            || self.attempts < before.attempts
            || self.gpus < before.gpus
            || (before.exclusive && !self.exclusive)
    }

    fn add(&mut self, more: &Holding) {
        self.cpu_milli = self.cpu_milli.saturating_add(more.cpu_milli);
        self.memory = self.memory.saturating_add(more.memory);
        self.attempts = self.attempts.saturating_add(more.attempts);
        self.gpus = self.gpus.saturating_add(more.gpus);
        self.exclusive |= more.exclusive;
    }
}

/// A run's first unit that other runs keep from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Start of its wait, on a clock that all runs share.
    pub since: u64,
    /// Higher goes first.
    pub priority: i64,
    /// Its request.
    pub asks: Holding,
    /// The GPUs of this run that it could use.
    pub cards: Vec<GpuId>,
}

/// A place in the order in which runs are served. The smallest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    priority: Reverse<i64>,
    since: u64,
    run: u32,
}

impl QueuePosition {
    /// The place of a unit with this priority that waits since then, in run number `run`.
    pub fn new(priority: i64, since: u64, run: u32) -> QueuePosition {
        QueuePosition { priority: Reverse(priority), since, run }
    }
}

/// The load of a run's steps on a GPU on which none of them wants it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardLoad {
    /// Number of steps.
    pub steps: u32,
    /// GPU memory that they reserve or use, bytes.
    pub memory: u64,
    /// Thousandths of a core that they keep busy. A step on several GPUs counts its part.
    pub cpu_milli: u64,
    /// Thousandths of the GPU that each keeps busy alone, summed.
    pub gpu_milli: u64,
}

impl CardLoad {
    /// Another run uses part of the GPU and does not publish how much.
    const UNKNOWN: CardLoad = CardLoad { steps: 1, memory: u64::MAX, cpu_milli: 0, gpu_milli: 1_000 };

    pub(super) fn add(&mut self, more: &CardLoad) {
        self.steps = self.steps.saturating_add(more.steps);
        self.memory = self.memory.saturating_add(more.memory);
        self.cpu_milli = self.cpu_milli.saturating_add(more.cpu_milli);
        self.gpu_milli = self.gpu_milli.saturating_add(more.gpu_milli);
    }
}

/// Holders of a run's GPUs before a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardHolders {
    /// GPUs that its own steps use.
    pub ours: BTreeSet<GpuId>,
    /// GPUs that other flow processes hold alone.
    pub theirs: Vec<GpuId>,
    /// GPUs that their holders share.
    pub joint: Vec<GpuId>,
}

/// Another run on the machine, as it published itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRun {
    /// Distinguishes runs.
    pub run: u32,
    /// Holdings of its attempts.
    pub holds: Holding,
    /// Its load on those GPUs of this run that it shares.
    pub shares: BTreeMap<GpuId, CardLoad>,
    /// Its unit that waits for other runs, if any.
    pub head: Option<Head>,
}

impl PeerRun {
    /// Its place in the order, if one of its units waits.
    pub fn turn(&self) -> Option<QueuePosition> {
        self.head.as_ref().map(|head| QueuePosition::new(head.priority, head.since, self.run))
    }
}

/// Totals of the other runs on the machine, from the view of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerLoad {
    /// Number of other runs.
    pub runs: u32,
    pub holds: Holding,
    /// Requests of their heads that are served before this run's head.
    pub ahead: Holding,
    /// GPUs of this run that other flow processes hold alone.
    pub gpus: Vec<GpuId>,
    /// Load of others on GPUs that this run may share.
    pub company: BTreeMap<GpuId, CardLoad>,
    /// GPUs on which this run may start nothing, because they are kept for heads before its own.
    pub kept: BTreeSet<GpuId>,
}

impl PeerLoad {
    /// The totals on this run's GPUs alone.
    pub fn on(cards: &CardHolders, rivals: &[PeerRun]) -> PeerLoad {
        let mut others = PeerLoad { gpus: cards.theirs.clone(), ..PeerLoad::default() };
        for card in &cards.joint {
            let mut sum = CardLoad::default();
            rivals.iter().filter_map(|rival| rival.shares.get(card)).for_each(|load| sum.add(load));
            if sum.steps > 0 {
                others.company.insert(*card, sum);
            } else if !cards.ours.contains(card) {
                others.company.insert(*card, CardLoad::UNKNOWN);
            }
        }
        others
    }

    /// Other runs cannot be seen reliably, or cannot see this one: nothing more starts on a GPU that anyone shares.
    pub fn distrust(&mut self, cards: &CardHolders) {
        self.company = cards.joint.iter().map(|card| (*card, CardLoad::UNKNOWN)).collect();
    }

    /// The totals for a run with this place in the order and these GPUs.
    pub fn facing(own: QueuePosition, rivals: &[PeerRun], cards: &CardHolders) -> PeerLoad {
        let mut others = PeerLoad::on(cards, rivals);
        let mut ahead: Vec<(QueuePosition, &Head)> = Vec::new();
        for rival in rivals {
            others.runs += 1;
            others.holds.add(&rival.holds);
            ahead.extend(rival.turn().filter(|turn| *turn < own).zip(rival.head.as_ref()));
        }
        ahead.sort_by_key(|(turn, _)| *turn);
        for (_, head) in ahead {
            others.ahead.add(&Holding { attempts: 1, ..head.asks });
            others.keep(head, &cards.ours);
        }
        others
    }

    /// Keeps as many GPUs for a head as it requests: free ones, then this run's, then those that others share. On GPUs
    /// that other flow processes hold alone, those processes keep the room.
    fn keep(&mut self, head: &Head, ours: &BTreeSet<GpuId>) {
        let open = |card: &&GpuId| !self.kept.contains(card) && (ours.contains(card) || !self.gpus.contains(card));
        let mut open: Vec<GpuId> = head.cards.iter().filter(open).copied().collect();
        open.sort_by_key(|card| (!ours.contains(card) && self.company.contains_key(card), ours.contains(card)));
        self.kept.extend(open.into_iter().take(head.asks.gpus as usize));
    }

    /// No head is before this run's.
    pub fn is_first(&self) -> bool {
        self.ahead.attempts == 0
    }

    /// Lets this run start `room` before the heads ahead, unless one of them wants the machine for itself.
    pub fn leave(&mut self, room: &Holding, holds: &Holding, all: &Holding) {
        if self.ahead.exclusive || room.cpu_milli == 0 {
            return;
        }
        let free = |all: u64, theirs: u64, ours: u64| all.saturating_sub(theirs).saturating_sub(ours);
        let cpu_milli = free(all.cpu_milli, self.holds.cpu_milli, holds.cpu_milli);
        let memory = free(all.memory, self.holds.memory, holds.memory);
        self.kept.clear();
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

    /// Whether exclusive use of the machine allows a start. `alone`: the starting unit wants the machine for itself.
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
    held: Holding,
}

impl Shift {
    /// A unit of this run started; `holds` includes it.
    pub fn started(&mut self, now: Time, holds: Holding) {
        if now >= self.until {
            *self = Shift { until: now + SHIFT, held: holds };
        } else {
            self.held.cpu_milli = self.held.cpu_milli.max(holds.cpu_milli);
            self.held.memory = self.held.memory.max(holds.memory);
        }
    }

    /// How much this run may start before the heads ahead, given its holdings.
    pub fn room(&self, now: Time, holds: &Holding) -> Holding {
        if now >= self.until {
            return Holding::default();
        }
        let (cpu_milli, memory) = (self.held.cpu_milli, self.held.memory);
        Holding {
            cpu_milli: cpu_milli.saturating_sub(holds.cpu_milli),
            memory: memory.saturating_sub(holds.memory),
            ..Holding::default()
        }
    }
}

/// The unit that a scheduler's run publishes as its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedUnit {
    pub unit: InstanceId,
    /// When other runs began to keep it from starting.
    pub since: Time,
    /// The highest priority of its members.
    pub priority: i64,
    /// Its request.
    pub asks: Holding,
    /// Its expected duration.
    pub takes: Option<Span>,
}

/// Holdings of one attempt, and their expected end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booked {
    pub holds: Holding,
    /// The expected end, if known.
    pub until: Option<Time>,
}
