//! One GPU: the result of a look at it, and the part that belongs to an attempt. Queries the library; keeps no data of
//! attempts.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use flow_core::{AttemptId, ForeignProcess, GpuFacts, measure::GpuLook};

use crate::{
    clock,
    nvml::{Handle, Library, Look, Process, Query},
    sampler::owners::{Owner, Owners},
};

/// Changes of a GPU's memory that occur without any computation.
const NOISE: u64 = 16 << 20;

/// A GPU, and the result of the last look.
pub(super) struct OneGpu<'a> {
    library: &'a Library,
    facts: GpuFacts,
    /// Requested again after the GPU was lost.
    handle: Option<Handle<'a>>,
    used: Option<u64>,
    processes: Option<Vec<Process>>,
    /// Foreign processes, and whether they use graphics: a desktop takes memory, but does not compute.
    draws: BTreeMap<u32, bool>,
    slowly: Option<Instant>,
    shares_until: u64,
}

/// The result of one look.
pub(super) struct GpuScan {
    look: Look,
    at: f64,
    /// Memory that programs can use at all.
    pub(super) usable: u64,
    /// The part of it that is not free.
    pub(super) used: u64,
    /// The driver reports processes.
    listed: bool,
    /// Memory by attempt; `None` if the driver does not report that of one of its processes.
    ours: BTreeMap<AttemptId, Option<u64>>,
    foreign: Vec<ForeignProcess>,
    /// Processes that this process cannot see.
    unseen: Vec<ForeignProcess>,
    /// Share of the multiprocessors by owner, if it was queried.
    shares: Option<Vec<(Owner, f64)>>,
}

impl<'a> OneGpu<'a> {
    pub(super) fn new(library: &'a Library, facts: &GpuFacts) -> OneGpu<'a> {
        OneGpu {
            library,
            facts: facts.clone(),
            handle: None,
            used: None,
            processes: None,
            draws: BTreeMap::new(),
            slowly: None,
            shares_until: 0,
        }
    }

    /// True if slowly changing values are due for a query.
    pub(super) fn is_due(&self, every: Duration) -> bool {
        self.slowly.is_none_or(|at| clock::since(at) >= every)
    }

    /// True if this process is on it.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.processes.iter().flatten().any(|process| process.pid == pid)
    }

    /// Looks; `None` if the GPU is lost.
    pub(super) fn look(
        &mut self,
        owners: &mut Owners,
        keeper: Option<u32>,
        held: bool,
        slowly: bool,
    ) -> Option<GpuScan> {
        let handle = match self.handle.take() {
            Some(handle) => handle,
            None => self.library.gpu(self.facts.index).ok()?,
        };
        if slowly {
            self.slowly = Some(clock::steady());
        }
        let look = handle.look(Query { memory: true, energy: held && slowly, link: slowly }).ok()?;
        let used = look.memory.map(|memory| memory.used);
        // Processes are the slowest query. They are queried after a change of memory, and from time to time.
        if slowly || used != self.used || self.processes.is_none() {
            self.processes = handle.processes(look.memory).ok()?;
        }
        self.used = used;
        let mut found = GpuScan {
            at: clock::unix_seconds(),
            usable: look.memory.map_or(0, |memory| memory.used.saturating_add(memory.free).min(memory.total)),
            used: used.unwrap_or(0),
            listed: self.processes.is_some(),
            look,
            ours: BTreeMap::new(),
            foreign: Vec::new(),
            unseen: Vec::new(),
            shares: None,
        };
        for process in self.processes.iter().flatten() {
            let foreign = |name: String| ForeignProcess {
                pid: process.pid,
                name,
                gpu: self.facts.uuid.clone(),
                memory: process.memory.unwrap_or(0),
            };
            match owners.of(process.pid, keeper) {
                Owner::Attempt(attempt) => {
                    // The driver's process ids are valid in this namespace.
                    owners.sees_all = true;
                    let sum = found.ours.entry(attempt).or_insert(Some(0));
                    *sum = sum.zip(process.memory).map(|(sum, more)| sum + more);
                }
                Owner::Foreign(name) => {
                    let draws = || handle.drawing().contains(&process.pid);
                    let draws = *self.draws.entry(process.pid).or_insert_with(draws);
                    // The server of a shared CUDA context (MPS) does not compute by itself.
                    if !draws && name != "nvidia-cuda-mps-server" {
                        found.foreign.push(foreign(name));
                    }
                }
                Owner::Unseen => found.unseen.push(foreign("?".to_owned())),
            }
        }
        let there = |pid: &u32| self.processes.iter().flatten().any(|process| process.pid == *pid);
        self.draws.retain(|pid, _| there(pid));
        let several = self.processes.as_ref().is_some_and(|list| list.len() > 1);
        if slowly && held && several {
            let (shares, until) = handle.shares(self.shares_until);
            let first = self.shares_until == 0;
            self.shares_until = until;
            // The first answer covers the time before this sampler.
            found.shares =
                (!first).then(|| shares.into_iter().map(|(pid, share)| (owners.of(pid, keeper), share)).collect());
        }
        self.handle = Some(handle);
        Some(found)
    }
}

impl GpuScan {
    /// Foreign compute processes. Ids that are unknown here are included only if none of them can be ours.
    pub(super) fn foreign(&self, known: bool) -> Vec<ForeignProcess> {
        let unseen = if known { &[][..] } else { &self.unseen[..] };
        self.foreign.iter().chain(unseen).cloned().collect()
    }
}

/// An attempt's use of a GPU.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) gpu: usize,
    before: Option<PriorState>,
}

/// The state of a GPU before an attempt used it.
#[derive(Debug)]
struct PriorState {
    used: u64,
    unseen: Vec<u32>,
}

impl Holder {
    pub(super) fn new(gpu: usize) -> Holder {
        Holder { gpu, before: None }
    }

    /// True if there was a look at the GPU since the attempt holds it.
    pub(super) fn is_seen(&self) -> bool {
        self.before.is_some()
    }

    pub(super) fn give_up(&mut self) {
        self.before.get_or_insert(PriorState { used: 0, unseen: Vec::new() });
    }

    /// The part of a look that belongs to this attempt. `known`: the driver's process ids are valid here.
    pub(super) fn part(&mut self, attempt: AttemptId, found: &GpuScan, known: bool) -> GpuLook {
        let unseen = || found.unseen.iter().map(|process| process.pid).collect();
        let before = self.before.get_or_insert_with(|| PriorState { used: found.used, unseen: unseen() });
        let risen = found.used.saturating_sub(before.used);
        let (memory, unverified) = match found.ours.get(&attempt) {
            Some(Some(memory)) => (*memory, false),
            Some(None) => (risen, true),
            None if found.listed && known => (0, false),
            None => (risen, risen > NOISE),
        };
        // An unseen process that was there before is not ours; one that came since may be.
        let foreign =
            found.foreign.iter().chain(found.unseen.iter().filter(|p| !known && before.unseen.contains(&p.pid)));
        let of_others = |shares: &Vec<(Owner, f64)>| {
            let others = shares.iter().filter(|(owner, _)| *owner != Owner::Attempt(attempt));
            others.map(|(_, share)| share).sum::<f64>().min(1.0)
        };
        GpuLook {
            at: found.at,
            memory,
            unverified,
            load: found.look.load,
            memory_load: found.look.memory_load,
            watts: found.look.watts,
            joules: found.look.joules,
            pcie: found.look.pcie,
            shared: found.shares.as_ref().map(of_others),
            foreign: foreign.cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A GPU with this much memory in use, partly by this attempt and partly by processes that may not be visible.
    fn found(used: u64, ours: Option<Option<u64>>, foreign: &[u32], unseen: &[u32], listed: bool) -> GpuScan {
        let to_process =
            |pid: &u32| ForeignProcess { pid: *pid, name: "python3".to_owned(), gpu: "GPU-a".to_owned(), memory: 10 };
        GpuScan {
            look: Look::default(),
            at: 1.0,
            usable: 1000 * MIB,
            used: used * MIB,
            listed,
            ours: ours.into_iter().map(|memory| (AttemptId(1), memory.map(|mib| mib * MIB))).collect(),
            foreign: foreign.iter().map(to_process).collect(),
            unseen: unseen.iter().map(to_process).collect(),
            shares: None,
        }
    }

    #[test]
    fn memory_is_told_by_process_or_else_compared_with_before() {
        /// Name, scan, whether ids are valid here, and the expected memory, unverified, foreign processes.
        type Case = (&'static str, GpuScan, bool, (u64, bool, &'static [u32]));
        let table: [Case; 8] = [
            ("by process", found(500, Some(Some(300)), &[], &[], true), true, (300, false, &[])),
            ("beside a foreign process", found(500, Some(Some(300)), &[7], &[], true), true, (300, false, &[7])),
            ("not on the GPU", found(500, None, &[7], &[], true), true, (0, false, &[7])),
            ("a process without its memory", found(500, Some(None), &[], &[], true), true, (400, true, &[])),
            ("no list", found(500, None, &[], &[], false), true, (400, true, &[])),
            ("no list, and nothing taken", found(105, None, &[], &[], false), true, (5, false, &[])),
            ("ids of a host: one was there, one came", found(500, None, &[], &[8, 9], true), false, (400, true, &[8])),
            ("ids that have ended", found(500, Some(Some(300)), &[], &[9], true), true, (300, false, &[])),
        ];
        for (name, found_now, known, (memory, unverified, foreign)) in table {
            let mut hold = Holder::new(0);
            hold.part(AttemptId(1), &found(100, None, &[], &[8], false), known);
            let seen = hold.part(AttemptId(1), &found_now, known);
            let pids: Vec<u32> = seen.foreign.iter().map(|process| process.pid).collect();
            assert_eq!((seen.memory / MIB, seen.unverified, &*pids), (memory, unverified, foreign), "{name}");
        }
    }

    #[test]
    fn the_time_slices_of_others_are_all_but_ones_own() {
        let mut now = found(500, Some(Some(300)), &[], &[], true);
        let owners = [Owner::Attempt(AttemptId(1)), Owner::Attempt(AttemptId(2)), Owner::Foreign("x".to_owned())];
        now.shares = Some(owners.into_iter().zip([0.5, 0.25, 0.125]).collect());
        assert_eq!(Holder::new(0).part(AttemptId(1), &now, true).shared, Some(0.375));
    }
}
