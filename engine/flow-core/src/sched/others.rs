//! What other runs of the machine hold and wait for, as it counts for this one, and the order in which they are all served.
//! Pure: who they are and how one hears of them is somebody else's. The live engine and the tests that drive several
//! schedulers against one machine use the same rules.
//!
//! Each run publishes what it holds and the unit of its own that waits at the head because of others. All runs order all
//! heads alike: higher priority first, then who waits longest, then the run's number. A run counts as taken what others hold
//! and what the heads before its own ask for, so that nothing passes who waits longer; where such a head wants the machine
//! for itself, nothing starts. GPUs are told apart: of those that such a head may have as many are kept for it as it asks for, free ones first
//! and then those of the run itself, on which it starts nothing more; what waits for GPUs keeps no CPUs meanwhile, for these could be hours. The first head of all has nobody before it, and gets its room as soon as what runs has ended.
//!
//! On a GPU on which nothing wants it alone steps of several runs meet, by the rules that hold within one: each run publishes of such
//! a GPU what its own reserve and keep busy, and takes that of others for company there.
//!
//! Steps of milliseconds would be handed over one by one, and the machine would idle while each next run notices. So what a run
//! starts begins its [`Shift`]: for a tenth of a second what ends there may be followed by as much of its own.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};

use crate::{GpuId, InstanceId, Span, Time};

/// What a run holds of its machine, or asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Host memory, bytes.
    pub memory: u64,
    /// Attempts; of heads, how many there are.
    pub attempts: u32,
    /// GPUs that it has, or has a part of.
    #[serde(default, skip_serializing_if = "none")]
    pub gpus: u32,
    /// It has, or wants, the machine for itself: an exclusive step, a co-run group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

fn none(amount: &u32) -> bool {
    *amount == 0
}

impl Holding {
    /// Something was given back, whatever came instead.
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

/// A unit that other runs keep from starting, the first of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Since when, on a clock that all runs share.
    pub since: u64,
    /// Higher goes first.
    pub priority: i64,
    /// What it asks for.
    pub asks: Holding,
    /// Of our GPUs those that it may have.
    pub cards: Vec<GpuId>,
}

/// A place in the order in which runs are served: the least is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    priority: Reverse<i64>,
    since: u64,
    run: u32,
}

impl QueuePosition {
    /// The place of something of this priority that waits since then; `run` tells runs apart.
    pub fn new(priority: i64, since: u64, run: u32) -> QueuePosition {
        QueuePosition { priority: Reverse(priority), since, run }
    }
}

/// What steps of a run have of a GPU on which nothing wants it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardLoad {
    /// How many they are.
    pub steps: u32,
    /// What they reserve or use of its memory, bytes.
    pub memory: u64,
    /// Thousandths of a core that they keep busy, of one on several GPUs its part.
    pub cpu_milli: u64,
    /// Thousandths of the GPU that each keeps busy alone, summed up.
    pub gpu_milli: u64,
}

impl CardLoad {
    /// Somebody has a part of it and does not say which.
    const UNKNOWN: CardLoad = CardLoad { steps: 1, memory: u64::MAX, cpu_milli: 0, gpu_milli: 1_000 };

    pub(super) fn add(&mut self, more: &CardLoad) {
        self.steps = self.steps.saturating_add(more.steps);
        self.memory = self.memory.saturating_add(more.memory);
        self.cpu_milli = self.cpu_milli.saturating_add(more.cpu_milli);
        self.gpu_milli = self.gpu_milli.saturating_add(more.gpu_milli);
    }
}

/// The GPUs of a run, as it finds them before a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardHolders {
    /// Those that steps of its own are on.
    pub ours: BTreeSet<GpuId>,
    /// Those that other flows have alone,
    pub theirs: Vec<GpuId>,
    /// and those that whoever is on them shares.
    pub joint: Vec<GpuId>,
}

/// Another run of the machine, as it published itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRun {
    /// What tells runs apart.
    pub run: u32,
    /// What its attempts hold.
    pub holds: Holding,
    /// What it has of our GPUs that it shares.
    pub shares: BTreeMap<GpuId, CardLoad>,
    /// What of its own waits at the head for others.
    pub head: Option<Head>,
}

impl PeerRun {
    /// Its place in the order, if something of it waits.
    pub fn turn(&self) -> Option<QueuePosition> {
        self.head.as_ref().map(|head| QueuePosition::new(head.priority, head.since, self.run))
    }
}

/// What other runs of the machine come to, for one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerLoad {
    /// How many there are.
    pub runs: u32,
    pub holds: Holding,
    /// What of theirs that waits is served before ours asks for.
    pub ahead: Holding,
    /// GPUs of ours that other flows have alone.
    pub gpus: Vec<GpuId>,
    /// What is theirs on GPUs of which ours may have a part.
    pub company: BTreeMap<GpuId, CardLoad>,
    /// GPUs on which nothing of ours may start, for they are kept for what is ahead.
    pub kept: BTreeSet<GpuId>,
}

impl PeerLoad {
    /// What others come to on its GPUs alone.
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

    /// Others are not seen for certain, or do not see us: where somebody has a part of a GPU nothing more starts.
    pub fn distrust(&mut self, cards: &CardHolders) {
        self.company = cards.joint.iter().map(|card| (*card, CardLoad::UNKNOWN)).collect();
    }

    /// What others come to for a run whose turn this is, with these of its GPUs.
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

    /// Keeps as many GPUs for a head as it asks for: free ones, then ours, then those that others share. On those that other flows have
    /// alone they have to start nothing more.
    fn keep(&mut self, head: &Head, ours: &BTreeSet<GpuId>) {
        let open = |card: &&GpuId| !self.kept.contains(card) && (ours.contains(card) || !self.gpus.contains(card));
        let mut open: Vec<GpuId> = head.cards.iter().filter(open).copied().collect();
        open.sort_by_key(|card| (!ours.contains(card) && self.company.contains_key(card), ours.contains(card)));
        self.kept.extend(open.into_iter().take(head.asks.gpus as usize));
    }

    /// Nobody is ahead of us.
    pub fn is_first(&self) -> bool {
        self.ahead.attempts == 0
    }

    /// Of all there is so much may start before who is ahead, while we hold that; not before one who wants the machine for itself.
    pub fn leave(&mut self, room: &Holding, holds: &Holding, all: &Holding) {
        if self.ahead.exclusive || room.cpu_milli == 0 {
            return;
        }
        let free = |all: u64, theirs: u64, ours: u64| all.saturating_sub(theirs).saturating_sub(ours);
        let cpu_milli = free(all.cpu_milli, self.holds.cpu_milli, holds.cpu_milli);
        let memory = free(all.memory, self.holds.memory, holds.memory);
        self.kept.clear();
        // All that is ahead may ask for more than there is.
        self.ahead.cpu_milli = self.ahead.cpu_milli.min(cpu_milli.saturating_sub(room.cpu_milli));
        self.ahead.memory = self.ahead.memory.min(memory.saturating_sub(room.memory));
    }

    /// Thousandths of a CPU that are not there for us.
    pub(super) fn cpu_milli(&self) -> u64 {
        self.holds.cpu_milli.saturating_add(self.ahead.cpu_milli)
    }

    /// Bytes of host memory that are not there for us.
    pub(super) fn memory(&self) -> u64 {
        self.holds.memory.saturating_add(self.ahead.memory)
    }

    /// Whether something may start as far as the machine is wanted alone, by it (`alone`) or by one of theirs.
    pub(super) fn let_start(&self, alone: bool) -> bool {
        let nobody = self.holds.attempts == 0 && self.ahead.attempts == 0;
        !self.holds.exclusive && !self.ahead.exclusive && (nobody || !alone)
    }
}

/// How long a run's shift lasts.
const SHIFT: Span = Span::from_millis(100);

/// The short time in which a run that was served need not hand over what ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    until: Time,
    held: Holding,
}

impl Shift {
    /// Something of ours started, and this is what we hold with it.
    pub fn started(&mut self, now: Time, holds: Holding) {
        if now >= self.until {
            *self = Shift { until: now + SHIFT, held: holds };
        } else {
            self.held.cpu_milli = self.held.cpu_milli.max(holds.cpu_milli);
            self.held.memory = self.held.memory.max(holds.memory);
        }
    }

    /// How much we may start before who is ahead, holding this.
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
    /// Since when others keep it from starting.
    pub since: Time,
    /// Of its members the highest.
    pub priority: i64,
    /// What it asks for.
    pub asks: Holding,
    /// How long it is expected to take.
    pub takes: Option<Span>,
}

/// What one attempt holds, and until when that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booked {
    pub holds: Holding,
    /// Until when, where that is known.
    pub until: Option<Time>,
}
