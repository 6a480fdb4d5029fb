//! The state of a run in its slot of the ledger: one line of JSON, written and read. Knows no file.

use flow_core::sched::MachineShare;
use serde::{Deserialize, Serialize};

/// The format of a slot. A flow ignores slots with another number.
const FORMAT: u32 = 2;
/// Texts are cut to so many characters: they are for people.
const TEXT: usize = 80;
/// The same where there is no room for that.
const SHORT: usize = 16;
/// `GPU-` and eight digits; no machine has more such GPUs.
const NAME_LENGTH: usize = 12;
const MAX_GPUS: usize = 16;
/// No machine has more: a million CPUs, a pebibyte.
const MOST_CPU_MILLI: u64 = 1_000_000_000;
const MOST_MEMORY: u64 = 1 << 50;
const MOST_ATTEMPTS: u32 = 1_000_000;

/// A run, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its format; set when it is written.
    pub format: u32,
    pub run: String,
    pub person: String,
    pub workflow: String,
    /// Its process, as it calls itself.
    pub pid: u32,
    /// When that process began, clock ticks since the boot: what tells it from another of its number.
    #[serde(default)]
    pub process_start: u64,
    /// The resources of its attempts.
    pub holds: MachineShare,
    /// Its gangs that wait for other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waiter>,
    /// Its gangs that another run of its store already runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<FollowingGang>,
    /// Its attempts that run elsewhere and hold nothing here.
    #[serde(default, skip_serializing_if = "Jobs::is_none")]
    pub jobs: Jobs,
}

/// A gang that waits for what another run does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowingGang {
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

/// A gang that other runs keep from starting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The label of its first instance.
    pub label: String,
    /// Since when, milliseconds since 1970.
    pub since: u64,
    /// Higher goes first.
    pub priority: i64,
    /// Its request.
    pub request: MachineShare,
    /// Where it asks for GPUs, those that it may have, by their [`ledger_name`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Counts up as long as its run looks whether there is room: one that was stopped keeps nothing from others.
    pub beat: u32,
}

/// The name of a GPU in the ledger: the beginning of its UUID, which tells the GPUs of a machine apart.
pub fn ledger_name(uuid: &str) -> String {
    uuid.chars().take(NAME_LENGTH).collect()
}

impl Slot {
    /// JSON and spaces, in exactly the bytes of a slot. If there is too little room, texts are cut, then waiting gangs.
    pub(super) fn bytes(&self, size: usize) -> Vec<u8> {
        let mut slot = Slot { format: FORMAT, ..self.clone() };
        for (most, waits) in [(TEXT, true), (SHORT, true), (SHORT, false)] {
            slot.cut(most);
            // What it holds must be known; its place may be lost.
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

    /// A slot of another run; `None` if it is invalid.
    pub(super) fn read(bytes: &[u8]) -> Option<Slot> {
        let mut slot: Slot = serde_json::from_slice(bytes).ok()?;
        let sound = |holds: &MachineShare| {
            holds.cpu_milli <= MOST_CPU_MILLI && holds.memory <= MOST_MEMORY && holds.attempts <= MOST_ATTEMPTS
        };
        let asks = slot.waits.as_ref().is_none_or(|waits| sound(&waits.request));
        if slot.format != FORMAT || !sound(&slot.holds) || !asks {
            return None;
        }
        slot.cut(TEXT);
        Some(slot)
    }

    fn cut(&mut self, most: usize) {
        if let Some(waits) = &mut self.waits {
            waits.gpus.truncate(MAX_GPUS);
            waits.gpus.iter_mut().for_each(|name| *name = ledger_name(name));
        }
        let label = self.waits.iter_mut().map(|waits| &mut waits.label);
        let follows =
            self.follows.iter_mut().flat_map(|follows| [&mut follows.label].into_iter().chain(&mut follows.run));
        for text in [&mut self.run, &mut self.person, &mut self.workflow].into_iter().chain(label).chain(follows) {
            if let Some((at, _)) = text.char_indices().nth(most) {
                text.truncate(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_run_says_has_room() {
        let gpus = vec!["GPU-1a2b3c4d".to_owned(); 2 * MAX_GPUS];
        let waits = Waiter { label: "\u{1}é".repeat(500), priority: i64::MIN, gpus, ..Waiter::default() };
        let slot = Slot {
            run: "\"".repeat(300),
            person: "\u{7}".repeat(300),
            workflow: "w".repeat(300),
            waits: Some(waits),
            follows: Some(FollowingGang { label: "é".repeat(500), run: Some("r".repeat(500)) }),
            ..Slot::default()
        };
        let bytes = slot.bytes(1024);
        assert_eq!(bytes.len(), 1024);
        assert!(Slot::read(&bytes).unwrap().workflow.starts_with("www"));
        let small = Slot { run: "20261122-100000-0000".into(), ..Slot::default() };
        assert_eq!(Slot::read(&small.bytes(1024)).map(|read| read.run), Some(small.run.clone()));
        let holds = MachineShare { cpu_milli: u64::MAX, ..MachineShare::default() };
        assert_eq!(Slot::read(&Slot { holds, ..small }.bytes(1024)), None, "nobody has so many CPUs");
    }
}
