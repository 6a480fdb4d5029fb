//! The state of each attempt, from the decision to start it until its result is recorded or dropped. Decides nothing.

use std::{collections::BTreeMap, sync::Arc};

use bytesize::ByteSize;
use flow_core::{AttemptId, Instance, InstanceId, Outcome, sched::Placement};
use flow_store::{Activity, WorkProgress};
use flow_supervisor::intents::Intent;

use super::running::LiveAttempt;
use crate::driver::results::cleanup::Leftover;

/// Hashing and copying is shown after this many seconds.
pub(crate) const SLOW: f64 = 5.0;

pub(crate) enum AttemptState {
    /// Its folder is being filled. If it was killed meanwhile, its program does not start.
    Filling { killed: Option<Outcome> },
    /// Its program runs, or waits in a batch queue.
    Running(Box<LiveAttempt>),
    /// Its program has ended, and its outputs are being collected.
    Collecting(Box<EndedProgram>),
    /// Its result is known and not recorded yet.
    Recording(UnrecordedAttempt),
    /// Its result is dropped, because nobody waits for it. The next run starts or collects it.
    GivenUp,
}

/// A program that has ended and whose outputs are being collected.
pub(crate) struct EndedProgram {
    pub(crate) shown: flow_runs::RunningStep,
    pub(crate) activity: Activity,
    /// Seconds since 1970.
    pub(crate) since: f64,
    /// If this run does not collect its outputs, the next one does.
    pub(crate) is_collectable: bool,
    /// The same, if it is written.
    pub(crate) intent: Option<Arc<Intent>>,
    /// The user was told that it takes long.
    pub(crate) is_reported: bool,
}

/// What the next run would need if this one died before the result is recorded.
#[derive(Default)]
pub(crate) struct UnrecordedAttempt {
    /// Work folders and records of ends.
    pub(crate) needed: Vec<Leftover>,
    /// The intent, if the end is written down.
    pub(crate) intent: Option<Arc<Intent>>,
}

#[derive(Default)]
pub(crate) struct AttemptStates {
    all: BTreeMap<AttemptId, (InstanceId, AttemptState)>,
    /// The last attempt of each instance.
    last: BTreeMap<InstanceId, AttemptId>,
    /// Allocated GPUs, as indices among the machine's.
    gpus: BTreeMap<AttemptId, Vec<usize>>,
    /// Illegal changes.
    faults: Vec<String>,
}

impl AttemptState {
    fn may_become(&self, to: &AttemptState) -> bool {
        use AttemptState::{Collecting, Filling, GivenUp, Recording, Running};
        matches!(
            (self, to),
            (Filling { .. }, Filling { .. } | Running(_) | Recording(_) | GivenUp)
                | (Running(_), Collecting(_) | Recording(_))
                | (Collecting(_), Recording(_) | GivenUp)
        )
    }

    fn name(&self) -> &'static str {
        match self {
            AttemptState::Filling { .. } => "filling",
            AttemptState::Running(_) => "running",
            AttemptState::Collecting(_) => "collecting",
            AttemptState::Recording(_) => "recording",
            AttemptState::GivenUp => "given up",
        }
    }

    /// True if a program runs, has yet to start, or has outputs to be collected.
    fn is_open(&self) -> bool {
        matches!(self, AttemptState::Filling { .. } | AttemptState::Running(_) | AttemptState::Collecting(_))
    }
}

impl AttemptStates {
    /// An attempt begins: its folder is being filled.
    pub(crate) fn begin(&mut self, attempt: AttemptId, instance: InstanceId, placement: &Placement) {
        if self.all.insert(attempt, (instance, AttemptState::Filling { killed: None })).is_some() {
            self.faults.push(format!("attempt {} begins twice", attempt.0));
        }
        self.last.insert(instance, attempt);
        if !placement.gpus.is_empty() {
            self.gpus.insert(attempt, gpus_of(placement).collect());
        }
    }

    /// The one function that changes a state, with everything derived from it. Returns the former state; none if the
    /// attempt is forgotten, or cannot change in this way.
    pub(crate) fn set(&mut self, attempt: AttemptId, to: AttemptState) -> Option<AttemptState> {
        let (_, state) = self.all.get_mut(&attempt)?;
        if !state.may_become(&to) {
            self.faults.push(format!("attempt {} cannot go from {} to {}", attempt.0, state.name(), to.name()));
            return None;
        }
        if !to.is_open() {
            self.gpus.remove(&attempt);
        }
        Some(std::mem::replace(state, to))
    }

    /// Forgets an attempt: its result is recorded or dropped, or it will not start.
    pub(crate) fn remove(&mut self, attempt: AttemptId) -> Option<(InstanceId, AttemptState)> {
        let (instance, state) = self.all.remove(&attempt)?;
        if self.last.get(&instance) == Some(&attempt) {
            self.last.remove(&instance);
        }
        self.gpus.remove(&attempt);
        Some((instance, state))
    }

    /// Its GPUs are free before its outputs are collected.
    pub(crate) fn free_gpus(&mut self, attempt: AttemptId) {
        self.gpus.remove(&attempt);
    }

    pub(crate) fn get(&self, attempt: AttemptId) -> Option<&AttemptState> {
        self.all.get(&attempt).map(|(_, state)| state)
    }

    /// The last attempt of an instance, and its state.
    pub(crate) fn last_of(&self, instance: InstanceId) -> Option<(AttemptId, &AttemptState)> {
        let attempt = *self.last.get(&instance)?;
        Some((attempt, self.get(attempt)?))
    }

    /// The instance of an attempt whose folder is being filled, and the outcome with which it must end before it starts.
    pub(crate) fn filling(&self, attempt: AttemptId) -> Option<(InstanceId, Option<Outcome>)> {
        match self.all.get(&attempt)? {
            (instance, AttemptState::Filling { killed }) => Some((*instance, *killed)),
            _ => None,
        }
    }

    pub(crate) fn running(&self, attempt: AttemptId) -> Option<&LiveAttempt> {
        match self.get(attempt)? {
            AttemptState::Running(running) => Some(running),
            _ => None,
        }
    }

    pub(crate) fn running_mut(&mut self, attempt: AttemptId) -> Option<&mut LiveAttempt> {
        match self.all.get_mut(&attempt)? {
            (_, AttemptState::Running(running)) => Some(running),
            _ => None,
        }
    }

    pub(crate) fn all_running(&self) -> impl Iterator<Item = (AttemptId, &LiveAttempt)> {
        self.all.iter().filter_map(|(attempt, (_, state))| match state {
            AttemptState::Running(running) => Some((*attempt, &**running)),
            _ => None,
        })
    }

    /// What is unrecorded of another attempt with this intent, which a group has for all its members.
    pub(crate) fn same_gang(&mut self, intent: &Arc<Intent>) -> Option<&mut UnrecordedAttempt> {
        self.all.values_mut().find_map(|(_, state)| match state {
            AttemptState::Recording(other) if other.intent.as_ref().is_some_and(|of| Arc::ptr_eq(of, intent)) => {
                Some(other)
            }
            _ => None,
        })
    }

    /// Attempts in collection for the status file; after a while with the file that is being hashed or copied.
    pub(crate) fn all_collecting(&self, now: f64) -> impl Iterator<Item = flow_runs::RunningStep> {
        self.all.values().filter_map(move |(_, state)| match state {
            AttemptState::Collecting(ended) => {
                let mut shown = ended.shown.clone();
                shown.text = ended.slow(now).or(shown.text);
                Some(shown)
            }
            _ => None,
        })
    }

    /// Collections that take long, with their instance and current file. Each is returned once.
    pub(crate) fn slow(&mut self, now: f64) -> Vec<(InstanceId, String)> {
        let slow = self.all.values_mut().filter_map(|(instance, state)| match state {
            AttemptState::Collecting(ended) if !ended.is_reported => {
                let text = ended.slow(now)?;
                ended.is_reported = true;
                Some((*instance, text))
            }
            _ => None,
        });
        slow.collect()
    }

    /// True if nothing is being filled or collected and no program runs.
    pub(crate) fn are_over(&self) -> bool {
        !self.all.values().any(|(_, state)| state.is_open())
    }

    /// True if an attempt of this instance is being filled, runs, or is being collected.
    pub(crate) fn is_open(&self, instance: InstanceId) -> bool {
        self.last_of(instance).is_some_and(|(_, state)| state.is_open())
    }

    /// Indices of the allocated GPUs among the machine's.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.gpus.values().flatten().copied()
    }

    /// Gives up all that is being filled or collected, and returns it.
    pub(crate) fn give_up(&mut self) -> Vec<(AttemptId, InstanceId, AttemptState)> {
        let slow = |state: &AttemptState| matches!(state, AttemptState::Filling { .. } | AttemptState::Collecting(_));
        let all: Vec<_> = self.all.iter().filter(|(_, (_, state))| slow(state)).map(|(id, of)| (*id, of.0)).collect();
        let give_up = |(id, instance)| Some((id, instance, self.set(id, AttemptState::GivenUp)?));
        all.into_iter().filter_map(give_up).collect()
    }

    /// The first illegal change of a state, if any.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.faults.first().map(String::as_str)
    }

    /// Checks that derived data agrees with the states. Tests call it after every turn.
    ///
    /// # Errors
    /// The first disagreement, or illegal change.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_of =
            |(instance, attempt): (&InstanceId, &AttemptId)| self.all.get(attempt).is_some_and(|of| of.0 == *instance);
        if let Some((instance, _)) = self.last.iter().find(|last| !is_of(*last)) {
            return Err(format!("the last attempt of instance {} is not among the attempts", instance.0));
        }
        for (attempt, (instance, state)) in &self.all {
            let is = format!("attempt {} is {}, but", attempt.0, state.name());
            if state.is_open() && self.last.get(instance) != Some(attempt) {
                return Err(format!("{is} not the last of its instance"));
            }
            if !state.is_open() && self.gpus.contains_key(attempt) {
                return Err(format!("{is} holds GPUs"));
            }
        }
        if let Some(attempt) = self.gpus.keys().find(|attempt| !self.all.contains_key(attempt)) {
            return Err(format!("attempt {} is forgotten, but holds GPUs", attempt.0));
        }
        self.fault().map_or(Ok(()), |fault| Err(fault.to_owned()))
    }
}

impl EndedProgram {
    fn slow(&self, now: f64) -> Option<String> {
        self.activity.doing().filter(|_| now - self.since >= SLOW).map(|doing| progress(&doing))
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
pub(crate) fn gpus_of(placement: &Placement) -> impl Iterator<Item = usize> {
    placement.gpus.iter().map(|gpu| gpu.index())
}

/// `hashing big.bin, 12.0 of 60.0 GiB`.
pub fn progress(doing: &WorkProgress) -> String {
    let name = doing.path.file_name().unwrap_or(doing.path.as_os_str()).to_string_lossy();
    let size = |bytes: u64| ByteSize(bytes).display().iec().to_string();
    let (done, total) = (size(doing.done), size(doing.total));
    let done = match (done.split_once(' '), total.split_once(' ')) {
        (Some((number, gang)), Some((_, same))) if gang == same => number.to_owned(),
        _ => done,
    };
    format!("{} {name}, {done} of {total}", doing.verb)
}

#[cfg(test)]
mod tests {
    use flow_core::GpuId;

    use super::*;

    fn recording() -> AttemptState {
        AttemptState::Recording(UnrecordedAttempt::default())
    }

    #[test]
    fn an_attempt_holds_its_gpus_until_its_result_is_known() {
        let (mut states, instance) = (AttemptStates::default(), InstanceId(7));
        let on =
            |gpus: &[u32]| Placement { gpus: gpus.iter().map(|gpu| GpuId(*gpu)).collect(), ..Placement::default() };
        states.begin(AttemptId(1), instance, &on(&[0, 2]));
        assert!(states.is_open(instance) && states.gpus().eq([0, 2]));
        assert!(states.set(AttemptId(1), recording()).is_some());
        assert!(states.are_over() && states.gpus().next().is_none());
        // The next attempt of the instance, before the first is forgotten.
        states.begin(AttemptId(2), instance, &on(&[1]));
        states.remove(AttemptId(1));
        assert!(states.is_open(instance) && states.gpus().eq([1]));
        assert_eq!(states.give_up().len(), 1);
        assert!(states.are_over() && states.gpus().next().is_none());
        assert_eq!(states.check(), Ok(()));
    }

    #[test]
    fn an_illegal_change_is_a_fault_and_changes_nothing() {
        let mut states = AttemptStates::default();
        states.begin(AttemptId(1), InstanceId(0), &Placement::default());
        states.set(AttemptId(1), recording());
        assert!(states.set(AttemptId(1), AttemptState::Filling { killed: None }).is_none());
        assert!(matches!(states.get(AttemptId(1)), Some(AttemptState::Recording(_))));
        assert_eq!(states.fault(), Some("attempt 1 cannot go from recording to filling"));
        assert!(states.set(AttemptId(9), recording()).is_none(), "unknown");
        assert_eq!(states.faults.len(), 1);
    }

    #[test]
    fn progress_is_a_few_words() {
        let of = |done, total| progress(&WorkProgress { verb: "hashing", path: "/w/out/big.bin".into(), done, total });
        assert_eq!(of(12 << 30, 60 << 30), "hashing big.bin, 12.0 of 60.0 GiB");
        assert_eq!(of(3 << 20, 60 << 30), "hashing big.bin, 3.0 MiB of 60.0 GiB");
    }
}
