//! What a run says of itself in its slot of the ledger, as one line of JSON, and how that of others is read. Knows no file.

use flow_core::sched::{CardLoad, Holding};
use serde::{Deserialize, Serialize};

/// What a slot is written in. Who finds another number does not understand it.
const FORMAT: u32 = 1;
/// Texts are cut to so many characters: they are for people.
const TEXT: usize = 80;
/// The same where there is no room for that.
const SHORT: usize = 16;
/// So many running attempts are told apart; what more there are, as one.
const STEPS: usize = 6;
/// `GPU-` and eight digits; no machine has more such cards.
const CARD: usize = 12;
const CARDS: usize = 16;
/// No machine has more: a million CPUs, a pebibyte.
const MOST_CPU_MILLI: u64 = 1_000_000_000;
const MOST_MEMORY: u64 = 1 << 50;
const MIB: u64 = 1 << 20;
const MOST_ATTEMPTS: u32 = 1_000_000;

/// A run, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// What it is written in; set when it is written.
    pub format: u32,
    pub run: String,
    pub person: String,
    pub workflow: String,
    /// Its process, as it calls itself.
    pub pid: u32,
    /// When that process began, clock ticks since the boot: what tells it from another of its number.
    #[serde(default)]
    pub process_start: u64,
    /// The name of its bell, once it has waited for others.
    #[serde(default, skip_serializing_if = "is_none")]
    pub bell: u64,
    /// What its attempts hold.
    pub holds: Holding,
    /// What these are, as far as there is room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// What these have of GPUs of which others may have a part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// What of it waits for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waiter>,
    /// What of it another run of its store does already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// What of it is elsewhere, where it holds nothing here.
    #[serde(default, skip_serializing_if = "Jobs::is_none")]
    pub jobs: Jobs,
}

fn is_none(bell: &u64) -> bool {
    *bell == 0
}

/// A unit that waits for what another run does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// The label of its first instance.
    pub label: String,
    /// The other run, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Attempts that a batch system has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    pub running: u32,
    /// Those that wait there.
    pub queued: u32,
}

impl Jobs {
    pub fn is_none(&self) -> bool {
        *self == Jobs::default()
    }
}

/// What a running attempt holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub holds: Holding,
    /// Until when that is expected, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// The part that steps of a run have of a GPU, as a list, for there is little room: its [`card`] name, how many steps they are, MiB of
/// its memory, thousandths of a core, and of the GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share(pub String, u32, u64, u64, u64);

impl Share {
    /// Of the card of this name.
    pub(crate) fn of(card: &str, load: &CardLoad) -> Share {
        Share(card.to_owned(), load.steps, load.memory.div_ceil(MIB), load.cpu_milli, load.gpu_milli)
    }

    pub(crate) fn load(&self) -> CardLoad {
        let &Share(_, steps, mib, cpu_milli, gpu_milli) = self;
        CardLoad { steps, memory: mib.saturating_mul(MIB), cpu_milli, gpu_milli }
    }
}

/// A unit that other runs keep from starting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The label of its first instance.
    pub label: String,
    /// Since when, milliseconds since 1970.
    pub since: u64,
    /// Higher goes first.
    pub priority: i64,
    /// What it asks for.
    pub asks: Holding,
    /// Where it asks for GPUs, those that it may have, by their [`card`] names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<String>,
    /// How long it is expected to take, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<u64>,
    /// Counts up as long as its run looks whether there is room: one that was stopped keeps nothing from others.
    pub beat: u32,
}

/// The name of a GPU in the ledger: the beginning of its UUID, which tells the cards of a machine apart.
pub fn card(uuid: &str) -> String {
    uuid.chars().take(CARD).collect()
}

impl Slot {
    /// So many bytes of JSON and spaces. What has no room is cut: texts, then steps, then what waits.
    pub(super) fn bytes(&self, size: usize) -> Vec<u8> {
        let mut slot = Slot { format: FORMAT, ..self.clone() };
        slot.gather(STEPS);
        for (most, steps, waits) in [(TEXT, STEPS, true), (SHORT, STEPS, true), (SHORT, 1, true), (SHORT, 1, false)] {
            slot.cut(most);
            slot.gather(steps);
            // Who loses his place waits; what is on a GPU is not to be lost.
            (slot.waits, slot.follows) = (slot.waits.filter(|_| waits), slot.follows.filter(|_| waits));
            // Its keys are texts: it has a JSON.
            let mut bytes = serde_json::to_vec(&slot).unwrap_or_default();
            if bytes.len() <= size {
                bytes.resize(size, b' ');
                return bytes;
            }
        }
        vec![0; size]
    }

    /// What others wrote; none where that is nonsense.
    pub(super) fn read(bytes: &[u8]) -> Option<Slot> {
        let mut slot: Slot = serde_json::from_slice(bytes).ok()?;
        let sound = |holds: &Holding| {
            holds.cpu_milli <= MOST_CPU_MILLI && holds.memory <= MOST_MEMORY && holds.attempts <= MOST_ATTEMPTS
        };
        let asks = slot.waits.as_ref().is_none_or(|waits| sound(&waits.asks));
        let steps = slot.steps.iter().all(|step| sound(&step.holds));
        let few = |Share(_, steps, mib, cpu_milli, gpu_milli): &Share| {
            *steps <= MOST_ATTEMPTS
                && *mib <= MOST_MEMORY / MIB
                && *cpu_milli <= MOST_CPU_MILLI
                && *gpu_milli <= 1_000 * u64::from(MOST_ATTEMPTS)
        };
        let shares = slot.shares.len() <= CARDS && slot.shares.iter().all(few);
        if slot.format != FORMAT || !sound(&slot.holds) || !asks || !steps || !shares {
            return None;
        }
        slot.cut(TEXT);
        slot.gather(STEPS);
        Some(slot)
    }

    fn cut(&mut self, most: usize) {
        if let Some(waits) = &mut self.waits {
            waits.cards.truncate(CARDS);
            waits.cards.iter_mut().for_each(|name| *name = card(name));
        }
        self.shares.iter_mut().for_each(|share| share.0 = card(&share.0));
        let label = self.waits.iter_mut().map(|waits| &mut waits.label);
        let follows =
            self.follows.iter_mut().flat_map(|follows| [&mut follows.label].into_iter().chain(&mut follows.run));
        for text in [&mut self.run, &mut self.person, &mut self.workflow].into_iter().chain(label).chain(follows) {
            if let Some((at, _)) = text.char_indices().nth(most) {
                text.truncate(at);
            }
        }
    }

    /// Puts what is beyond so many steps together: held until the last of them has ended.
    fn gather(&mut self, most: usize) {
        while self.steps.len() > most.max(1) {
            let Some(last) = self.steps.pop() else { break };
            let Some(sum) = self.steps.last_mut() else { break };
            sum.until = sum.until.zip(last.until).map(|(a, b)| a.max(b));
            sum.holds.cpu_milli = sum.holds.cpu_milli.saturating_add(last.holds.cpu_milli);
            sum.holds.gpus = sum.holds.gpus.saturating_add(last.holds.gpus);
            sum.holds.memory = sum.holds.memory.saturating_add(last.holds.memory);
            sum.holds.attempts = sum.holds.attempts.saturating_add(last.holds.attempts);
            sum.holds.exclusive |= last.holds.exclusive;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_run_says_has_room() {
        let step = |until| Step {
            holds: Holding { cpu_milli: u64::MAX, memory: 7, attempts: 1, gpus: 1, exclusive: false },
            until,
        };
        let waits =
            Waiter { label: "\u{1}é".repeat(500), takes: Some(u64::MAX), priority: i64::MIN, ..Waiter::default() };
        let slot = Slot {
            run: "\"".repeat(300),
            person: "\u{7}".repeat(300),
            workflow: "w".repeat(300),
            steps: (0..50).map(|n| step(Some(n))).collect(),
            waits: Some(waits),
            follows: Some(Follows { label: "é".repeat(500), run: Some("r".repeat(500)) }),
            ..Slot::default()
        };
        let bytes = slot.bytes(1024);
        assert_eq!(bytes.len(), 1024);
        assert_ne!(bytes[0], 0);
        let small = Slot { run: "20261122-100000-0000".into(), steps: vec![step(None)], ..Slot::default() };
        assert_eq!(Slot::read(&small.bytes(1024)), None, "nobody has so many CPUs");
        // A full slot keeps what is on GPUs.
        let load = CardLoad { steps: 2, memory: 100 << 30, cpu_milli: 12_345, gpu_milli: 1_900 };
        let shares: Vec<Share> = (0..CARDS).map(|n| Share::of(&format!("GPU-1a2b{n:04}-77"), &load)).collect();
        let steps = (0..50).map(|n| Step { holds: Holding::default(), until: Some(n) }).collect();
        let waits =
            Waiter { label: "w".repeat(500), cards: vec!["GPU-1a2b3c4d".to_owned(); CARDS], ..Waiter::default() };
        let full = Slot { shares, steps, waits: Some(waits), person: "p".repeat(99), ..small.clone() };
        let read = Slot::read(&full.bytes(1024)).unwrap();
        assert_eq!((read.shares.len(), read.shares[7].load(), read.waits), (CARDS, load, None));
        let steps: Vec<Step> = (0..50)
            .map(|n| Step {
                holds: Holding { cpu_milli: 1_000, memory: 7, attempts: 1, gpus: 1, exclusive: false },
                until: Some(n),
            })
            .collect();
        let read = Slot::read(&Slot { steps, ..small }.bytes(1024)).unwrap();
        assert_eq!((read.steps.len(), read.steps[5].holds.attempts, read.steps[5].until), (6, 45, Some(49)));
    }
}
