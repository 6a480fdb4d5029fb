//! Attempts that hold a placement, from the decision until their outputs are collected. Among them are those without a
//! running program, which are being filled or collected. Decides nothing.

use std::{collections::BTreeMap, sync::Arc};

use bytesize::ByteSize;
use flow_core::{AttemptId, Instance, InstanceId, Outcome, sched::Placement};
use flow_store::{Activity, Doing};

use crate::driver::executor::intents::Intent;

/// Hashing and copying is shown after this many seconds.
pub(crate) const SLOW: f64 = 5.0;

/// An attempt that is being filled before its program runs, or collected after it.
pub(crate) struct Held {
    pub(crate) instance: InstanceId,
    /// It must end with this outcome before it starts.
    pub(crate) killed: Option<Outcome>,
    /// Present after its program has ended.
    pub(crate) ended: Option<EndedProgram>,
}

/// A program that has ended and whose outputs are being collected.
pub(crate) struct EndedProgram {
    pub(crate) shown: flow_store::Running,
    pub(crate) activity: Activity,
    /// Seconds since 1970.
    pub(crate) since: f64,
    /// If this run does not collect its outputs, the next one does.
    pub(crate) is_kept: bool,
    /// The same, if it is written.
    pub(crate) intent: Option<Arc<Intent>>,
    /// The user was told that it takes long.
    pub(crate) is_told: bool,
}

impl EndedProgram {
    fn slow(&self, now: f64) -> Option<String> {
        self.activity.doing().filter(|_| now - self.since >= SLOW).map(|doing| progress(&doing))
    }
}

#[derive(Default)]
pub(crate) struct Placements {
    held: BTreeMap<AttemptId, Held>,
    /// As indices among the machine's GPUs.
    gpus: BTreeMap<AttemptId, Vec<usize>>,
}

impl Placements {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Its folder is being filled.
    pub(crate) fn fill(&mut self, attempt: AttemptId, instance: InstanceId, placement: &Placement) {
        if !placement.gpus.is_empty() {
            self.gpus.insert(attempt, placement.gpus.iter().map(|gpu| gpu.index()).collect());
        }
        self.held.insert(attempt, Held { instance, killed: None, ended: None });
    }

    /// Its folder is filled, or filling failed.
    pub(crate) fn filled(&mut self, attempt: AttemptId) -> Option<Held> {
        self.held.remove(&attempt)
    }

    /// Its outputs are being collected.
    pub(crate) fn collect(&mut self, attempt: AttemptId, ended: EndedProgram) {
        self.held.insert(attempt, Held { instance: ended.shown.instance, killed: None, ended: Some(ended) });
    }

    /// Its GPUs are free.
    pub(crate) fn free(&mut self, attempt: AttemptId) {
        self.gpus.remove(&attempt);
    }

    /// Releases all that is being filled or collected, because nobody waits for it any more.
    pub(crate) fn give_up(&mut self) -> BTreeMap<AttemptId, Held> {
        self.held.keys().for_each(|attempt| _ = self.gpus.remove(attempt));
        std::mem::take(&mut self.held)
    }

    /// Releases everything that it holds.
    pub(crate) fn is_over(&mut self, attempt: AttemptId) -> Option<Held> {
        self.gpus.remove(&attempt);
        self.held.remove(&attempt)
    }

    /// An attempt that has not started must end with this outcome.
    pub(crate) fn kill(&mut self, attempt: AttemptId, outcome: Outcome) {
        if let Some(held) = self.held.get_mut(&attempt) {
            held.killed.get_or_insert(outcome);
        }
    }

    /// Indices of the allocated GPUs among the machine's.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.gpus.values().flatten().copied()
    }

    /// True if an attempt of this instance is being filled or collected.
    pub(crate) fn is_held(&self, instance: InstanceId) -> bool {
        self.held.values().any(|held| held.instance == instance)
    }

    /// Attempts in collection for the status file; after a while with the file that is being hashed or copied.
    pub(crate) fn status(&self, now: f64) -> impl Iterator<Item = flow_store::Running> {
        self.held.values().filter_map(|held| held.ended.as_ref()).map(move |ended| {
            let mut shown = ended.shown.clone();
            shown.text = ended.slow(now).or(shown.text);
            shown
        })
    }

    /// Collections that take long, with their instance and current file. Each is returned once.
    pub(crate) fn slow(&mut self, now: f64) -> Vec<(InstanceId, String)> {
        let ended = self.held.values_mut().filter_map(|held| held.ended.as_mut()).filter(|ended| !ended.is_told);
        let slow = ended.filter_map(|ended| {
            let text = ended.slow(now)?;
            ended.is_told = true;
            Some((ended.shown.instance, text))
        });
        slow.collect()
    }
}

/// The placement of an attempt where it runs. For a batch job the scheduler has only its place in the queue.
pub(crate) fn given(instance: &Instance, placement: Placement) -> Placement {
    if !instance.is_batch() {
        return placement;
    }
    let (cpus, memory) = (instance.request.cpus, instance.request.memory.unwrap_or(0));
    Placement { cpus, memory, gpu_memory: instance.request.gpu_memory.unwrap_or(0), ..placement }
}

/// The GPUs of a placement, as indices among the machine's.
pub(crate) fn cards_of(placement: &Placement) -> impl Iterator<Item = usize> {
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
