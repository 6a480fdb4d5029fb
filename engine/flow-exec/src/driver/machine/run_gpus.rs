//! The state of the GPUs: foreign processes on them, other flows that hold them, lost GPUs. Reports it to the
//! scheduler; holds no scheduling rule.

use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    os::fd::OwnedFd,
};

use flow_core::{
    AttemptId, GpuFacts, GpuId, Machine,
    measure::GpuSamples,
    reason::Occupant,
    sched::{Capacity, GpuHolders, GpuState},
};
use flow_supervisor::{
    hardware::gpu_lock::{GpuLock, Refusal},
    sampler::{GpuSampler, GpuStatus, SampleRequest},
};

/// Changes of memory use below this size are ignored.
const NOISE: u64 = 16 << 20;

/// The GPUs of a run.
pub(crate) struct RunGpus {
    facts: Vec<GpuFacts>,
    /// The capacity of the run without the GPUs.
    capacity: Capacity,
    /// Started when the first step that requests GPUs can run, and never for fake GPUs.
    sampler: Option<GpuSampler>,
    begun: bool,
    /// None for a GPU whose lock file cannot be used.
    locks: Vec<Option<GpuLock>>,
    /// The other flow that holds a GPU, if one does.
    held: Vec<Option<String>>,
    status: Vec<GpuStatus>,
    /// Pending checks: of GPUs on which nothing may start before, and of the GPUs of failed attempts.
    looking: Option<SampleRequest>,
    unsure: BTreeMap<AttemptId, SampleRequest>,
    /// GPUs that other flows have released and that were not checked since. They count as still held.
    given_back: BTreeSet<usize>,
    /// The states last reported to the scheduler.
    reported: Vec<GpuState>,
    /// GPU memory of running attempts, as last reported to the scheduler.
    used: BTreeMap<AttemptId, Vec<u64>>,
    /// Notices that were shown.
    shown: BTreeSet<String>,
}

impl RunGpus {
    pub(crate) fn new(machine: &Machine, capacity: Capacity) -> RunGpus {
        let facts = if machine.fake_gpus { Vec::new() } else { machine.gpus.clone() };
        let count = facts.len();
        RunGpus {
            reported: facts.iter().map(|gpu| GpuState { memory: gpu.memory, foreign: 0, alive: true }).collect(),
            locks: facts.iter().map(|gpu| Some(GpuLock::of(&gpu.uuid))).collect(),
            facts,
            capacity,
            sampler: None,
            begun: false,
            held: vec![None; count],
            status: vec![GpuStatus { alive: true, ..GpuStatus::default() }; count],
            looking: None,
            unsure: BTreeMap::new(),
            given_back: BTreeSet::new(),
            used: BTreeMap::new(),
            shown: BTreeSet::new(),
        }
    }

    /// Before a decision, takes the locks of all GPUs that no other flow holds, so that no GPU is allocated twice. `wanted`: a
    /// step that requests GPUs waits. Returns messages.
    pub(crate) fn open(&mut self, wanted: bool) -> Vec<String> {
        let mut say = Vec::new();
        if self.facts.is_empty() || !wanted && self.sampler.is_none() {
            return say;
        }
        if !std::mem::replace(&mut self.begun, true) {
            match GpuSampler::begin(&self.facts) {
                Ok((sampler, first)) => (self.sampler, self.looking) = (Some(sampler), Some(first)),
                Err(error) => say.push(format!("GPUs cannot be measured: {error}")),
            }
        }
        let Some(sampler) = &self.sampler else { return say };
        sampler.watch(wanted);
        say.extend(sampler.trouble());
        self.status = sampler.statuses();
        if self.looking.take_if(|asked| sampler.is_over(asked)).is_some() {
            self.given_back.clear();
        }
        let mut is_asked = false;
        if wanted {
            for (index, ((lock, held), gpu)) in self.locks.iter_mut().zip(&mut self.held).zip(&self.facts).enumerate() {
                let was_held = held.is_some();
                *held = match lock.as_mut().map(GpuLock::take) {
                    Some(Err(Refusal::Held(holder))) => Some(holder),
                    Some(Err(Refusal::Unusable(why))) => {
                        say.push(format!("flow cannot lock GPU {} against other flows: {why}", gpu.index));
                        *lock = None;
                        None
                    }
                    None | Some(Ok(())) => None,
                };
                // Also while a check is pending: another flow may have held the GPU in between.
                if was_held && held.is_none() {
                    self.given_back.insert(index);
                    is_asked = true;
                }
            }
            // The last samples there show steps of the flow that released it.
            if is_asked {
                let unseen =
                    (0..self.facts.len()).filter(|index| self.given_back.contains(index) || self.is_unseen(*index));
                self.looking = Some(sampler.request(&unseen.collect::<Vec<_>>()));
            }
        }
        say.extend(self.notices());
        say.retain(|text| !self.shown.contains(text));
        self.shown.extend(say.iter().cloned());
        say
    }

    /// The open lock files, for the process that holds them after this one is gone.
    pub(crate) fn lent(&mut self) -> Vec<Option<OwnedFd>> {
        self.locks.iter_mut().map(|lock| lock.as_mut().and_then(GpuLock::lent)).collect()
    }

    /// After a decision: keeps the locks of the GPUs that are given out, and gives the rest back.
    pub(crate) fn close(&mut self, given_out: BTreeSet<usize>) {
        for (index, lock) in self.locks.iter_mut().enumerate() {
            if let Some(lock) = lock.as_mut().filter(|_| !given_out.contains(&index)) {
                lock.release();
            }
        }
    }

    /// Called periodically: refreshes the locks that are held.
    pub(crate) fn keep(&mut self) {
        self.locks.iter_mut().flatten().for_each(GpuLock::keep);
    }

    /// The new capacity, if the scheduler has an old state of the GPUs.
    pub(crate) fn changed(&mut self) -> Option<Capacity> {
        let state = |(index, ((gpu, status), held)): (usize, ((&GpuFacts, &GpuStatus), &Option<String>))| {
            let memory = if status.usable > 0 { status.usable } else { gpu.memory };
            let is_taken = held.is_some() || status.silent || self.is_unseen(index);
            let foreign = if is_taken { memory } else { status.others.min(memory) };
            GpuState { memory, foreign, alive: status.alive }
        };
        let gpus = self.facts.iter().zip(&self.status).zip(&self.held).enumerate();
        let states: Vec<GpuState> = gpus.map(state).collect();
        let alike = |(a, b): (&GpuState, &GpuState)| {
            a.alive == b.alive && a.memory == b.memory && a.foreign.abs_diff(b.foreign) <= NOISE
        };
        if states.iter().zip(&self.reported).all(alike) {
            return None;
        }
        self.reported.clone_from(&states);
        Some(Capacity { gpus: states, ..self.capacity.clone() })
    }

    /// Begins to sample an attempt that is about to start on these GPUs.
    pub(crate) fn track(&mut self, attempt: AttemptId, keeper: u32, gpus: &[usize]) {
        for index in gpus {
            if let Some(Some(lock)) = self.locks.get_mut(*index) {
                lock.sign();
            }
        }
        if let Some(sampler) = self.sampler.as_ref().filter(|_| !gpus.is_empty()) {
            sampler.track(attempt, keeper, gpus);
        }
    }

    /// GPU samples of an attempt that has ended, and the share of a CPU core that sampling took.
    pub(crate) fn untrack(&mut self, attempt: AttemptId) -> (GpuSamples, f64) {
        self.sampler.as_ref().map(|sampler| sampler.untrack(attempt)).unwrap_or_default()
    }

    /// GPU memory of those running attempts whose memory use has changed.
    pub(crate) fn used_now(&mut self, running: impl Iterator<Item = AttemptId>) -> Vec<(AttemptId, Vec<u64>)> {
        let Some(sampler) = &self.sampler else { return Vec::new() };
        let mut changed = Vec::new();
        let mut used = BTreeMap::new();
        for attempt in running {
            let before = self.used.remove(&attempt).unwrap_or_default();
            let now = sampler.memory(attempt).unwrap_or_default();
            let moved = |(n, now): (usize, &u64)| now.abs_diff(before.get(n).copied().unwrap_or(0)) > NOISE;
            if now.iter().enumerate().any(moved) {
                changed.push((attempt, now.clone()));
                used.insert(attempt, now);
            } else {
                used.insert(attempt, before);
            }
        }
        self.used = used;
        changed
    }

    /// True while a check is pending, before which nothing starts on the GPU.
    fn is_unseen(&self, index: usize) -> bool {
        self.looking.as_ref().is_some_and(|asked| asked.is_of(index))
    }

    /// Requests a check of these GPUs, because an attempt failed and a lost GPU may be the cause.
    pub(crate) fn doubt(&mut self, attempt: AttemptId, gpus: &[usize]) {
        if let Some(sampler) = self.sampler.as_ref().filter(|_| !gpus.is_empty()) {
            self.unsure.insert(attempt, sampler.request(gpus));
        }
    }

    /// True if the check for lost GPUs of an ended attempt is done.
    pub(crate) fn is_sure(&mut self, attempt: AttemptId) -> bool {
        let Some(sampler) = &self.sampler else { return true };
        if self.unsure.get(&attempt).is_some_and(|asked| !sampler.is_over(asked)) {
            return false;
        }
        self.unsure.remove(&attempt);
        true
    }

    /// The first of these GPUs that is known to be lost.
    pub(crate) fn lost(&mut self, gpus: &[usize]) -> Option<&GpuFacts> {
        self.status = self.sampler.as_ref()?.statuses();
        let is_dead = |index: &&usize| self.status.get(**index).is_some_and(|status| !status.alive);
        self.facts.get(*gpus.iter().find(is_dead)?)
    }

    /// Returns when a requested check may be done. Dropping the future loses nothing.
    pub(crate) async fn looked(&self) {
        let all = || self.looking.iter().chain(self.unsure.values());
        match (&self.sampler, all().next()) {
            (Some(sampler), Some(_)) if all().any(|asked| sampler.is_over(asked)) => {}
            (Some(sampler), Some(asked)) => sampler.looked(asked).await,
            _ => future::pending().await,
        }
    }

    /// The other user of a GPU, if there is one.
    pub(crate) fn occupant(&self, index: usize) -> Option<Occupant> {
        if let Some(holder) = self.held.get(index)?.as_ref() {
            return Some(Occupant::Flow { holder: holder.clone() });
        }
        if self.given_back.contains(&index) {
            return Some(Occupant::Flow { holder: String::new() });
        }
        if self.status.get(index)?.silent {
            return Some(Occupant::Silent);
        }
        let foreign = &self.status.get(index)?.foreign;
        let first = foreign.iter().max_by_key(|process| process.memory)?;
        Some(Occupant::Processes { pid: first.pid, name: first.name.clone(), more: foreign.len() as u32 - 1 })
    }

    /// `GPU 2 (NVIDIA H200)`.
    pub(crate) fn name(&self, index: usize) -> String {
        self.facts.get(index).map_or_else(|| format!("GPU {index}"), |gpu| format!("GPU {} ({})", gpu.index, gpu.name))
    }

    /// The holders of all GPUs; `ours` are those on which our steps run.
    pub(crate) fn holders(&self, ours: BTreeSet<GpuId>) -> GpuHolders {
        let peers =
            self.held.iter().enumerate().filter(|(index, held)| held.is_some() || self.given_back.contains(index));
        GpuHolders { ours, peers: peers.map(|(index, _)| GpuId(index as u32)).collect() }
    }

    /// True if the state of a GPU may change while a decision waits for it.
    pub(crate) fn is_watching(&self) -> bool {
        self.sampler.is_some()
    }

    fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        for (index, status) in self.status.iter().enumerate() {
            if !status.alive {
                notices.push(format!("{} is lost; the run continues without it", self.name(index)));
            }
            if status.silent {
                notices.push(format!("{} does not answer; nothing starts on it until it does", self.name(index)));
            }
            // Processes of other flows are not foreign: the ledger lists them.
            let flows = self.locks.get(index).and_then(Option::as_ref).is_some_and(|lock| !lock.is_held())
                || self.is_unseen(index);
            for process in status.foreign.iter().filter(|_| !flows) {
                notices.push(format!(
                    "the foreign process {} ({}) computes on {}",
                    process.pid,
                    process.name,
                    self.name(index)
                ));
            }
            if let Some(holder) = &self.held[index] {
                let gpu = self.name(index);
                let holder = if holder.is_empty() { String::new() } else { format!(" ({holder})") };
                notices.push(format!(
                    "{gpu} is held by another flow{holder}; steps that need it wait; `--gpus` selects other GPUs"
                ));
            }
        }
        notices
    }
}
