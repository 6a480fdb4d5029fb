//! Which attempts hold a placement, from the decision until what they left is collected, and those of them of which no program
//! runs: their folders are being filled, or their outputs collected. Decides nothing.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use flow_core::{AttemptId, Instance, InstanceId, Outcome, sched::Placement};
use flow_store::{Activity, Doing};

/// Hashing and copying that takes longer is shown, seconds.
pub(super) const SLOW: f64 = 5.0;

/// An attempt that is filled before its program runs, or collected after it.
pub(super) struct Held {
    pub(super) instance: InstanceId,
    /// It is to be ended with this outcome before it has begun.
    pub(super) killed: Option<Outcome>,
    /// Where its program ran.
    pub(super) ended: Option<EndedProgram>,
}

/// A program that has ended and whose outputs are being collected.
pub(super) struct EndedProgram {
    pub(super) shown: flow_store::Running,
    pub(super) activity: Activity,
    /// Seconds since 1970.
    pub(super) since: f64,
    /// If this run does not collect its outputs, the next one does.
    pub(super) is_kept: bool,
    /// People know that it takes long.
    pub(super) is_told: bool,
}

impl EndedProgram {
    fn slow(&self, now: f64) -> Option<String> {
        self.activity.doing().filter(|_| now - self.since >= SLOW).map(|doing| progress(&doing))
    }
}

#[derive(Default)]
pub(super) struct Placements {
    held: BTreeMap<AttemptId, Held>,
    /// By number among the machine's.
    gpus: BTreeMap<AttemptId, Vec<usize>>,
}

impl Placements {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Its folder is to be filled.
    pub(super) fn fill(&mut self, attempt: AttemptId, instance: InstanceId, placement: &Placement) {
        if !placement.gpus.is_empty() {
            self.gpus.insert(attempt, placement.gpus.iter().map(|gpu| gpu.index()).collect());
        }
        self.held.insert(attempt, Held { instance, killed: None, ended: None });
    }

    /// Its folder is filled, or cannot be.
    pub(super) fn filled(&mut self, attempt: AttemptId) -> Option<Held> {
        self.held.remove(&attempt)
    }

    /// What it left is to be collected.
    pub(super) fn collect(&mut self, attempt: AttemptId, ended: EndedProgram) {
        self.held.insert(attempt, Held { instance: ended.shown.instance, killed: None, ended: Some(ended) });
    }

    /// Its GPUs are free.
    pub(super) fn free(&mut self, attempt: AttemptId) {
        self.gpus.remove(&attempt);
    }

    /// Nobody waits for what is being filled or collected any more.
    pub(super) fn give_up(&mut self) -> BTreeMap<AttemptId, Held> {
        self.held.keys().for_each(|attempt| _ = self.gpus.remove(attempt));
        std::mem::take(&mut self.held)
    }

    /// It holds nothing any more.
    pub(super) fn is_over(&mut self, attempt: AttemptId) -> Option<Held> {
        self.gpus.remove(&attempt);
        self.held.remove(&attempt)
    }

    /// One that has not begun is to end with this outcome.
    pub(super) fn kill(&mut self, attempt: AttemptId, outcome: Outcome) {
        if let Some(held) = self.held.get_mut(&attempt) {
            held.killed.get_or_insert(outcome);
        }
    }

    /// GPUs that are given out, by their number among the machine's.
    pub(super) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.gpus.values().flatten().copied()
    }

    /// An attempt of this instance is filled or collected.
    pub(super) fn is_held(&self, instance: InstanceId) -> bool {
        self.held.values().any(|held| held.instance == instance)
    }

    /// What the status shows of those that are collected: after a while, which file is being hashed or copied.
    pub(super) fn status(&self, now: f64) -> impl Iterator<Item = flow_store::Running> {
        self.held.values().filter_map(|held| held.ended.as_ref()).map(move |ended| {
            let mut shown = ended.shown.clone();
            shown.text = ended.slow(now).or(shown.text);
            shown
        })
    }

    /// Collecting that is found to take long: of which instance, and what is being done. Each once.
    pub(super) fn slow(&mut self, now: f64) -> Vec<(InstanceId, String)> {
        let ended = self.held.values_mut().filter_map(|held| held.ended.as_mut()).filter(|ended| !ended.is_told);
        let slow = ended.filter_map(|ended| {
            let text = ended.slow(now)?;
            ended.is_told = true;
            Some((ended.shown.instance, text))
        });
        slow.collect()
    }
}

/// What an attempt has where it runs: the scheduler knows of a batch system no more than its queue.
pub(super) fn given(instance: &Instance, placement: Placement) -> Placement {
    if instance.slurm.is_none() {
        return placement;
    }
    let (cpus, memory) = (instance.request.cpus, instance.request.memory.unwrap_or(0));
    Placement { cpus, memory, gpu_memory: instance.request.gpu_memory.unwrap_or(0), ..placement }
}

/// The GPUs of a placement, by their number among the machine's.
pub(super) fn cards_of(placement: &Placement) -> impl Iterator<Item = usize> {
    placement.gpus.iter().map(|gpu| gpu.index())
}

/// `hashing big.bin, 12.0 of 60.0 GiB`.
pub fn progress(doing: &Doing) -> String {
    let name = doing.path.file_name().unwrap_or(doing.path.as_os_str()).to_string_lossy();
    let size = |bytes: u64| ByteSize(bytes).display().iec().to_string();
    let (done, total) = (size(doing.done), size(doing.total));
    let done = match (done.split_once(' '), total.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => done,
    };
    format!("{} {name}, {done} of {total}", doing.verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_few_words() {
        let of = |done, total| progress(&Doing { verb: "hashing", path: "/w/out/big.bin".into(), done, total });
        assert_eq!(of(12 << 30, 60 << 30), "hashing big.bin, 12.0 of 60.0 GiB");
        assert_eq!(of(3 << 20, 60 << 30), "hashing big.bin, 3.0 MiB of 60.0 GiB");
    }
}
