//! Programs that a process supervises without a reliable engine: a keeper, the samplers, and the observations that an
//! engine would make. Does not know its caller.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use flow_core::{
    AttemptId, GpuFacts,
    measure::{HostSamples, LINE_ENDS, Looks},
};
use flow_protocol::{Exit, file};

use super::{NodeFacts, Record};
use crate::{
    attempt::{Folder, Lines},
    clock,
    keeper::{self, Event, Keeper, Request},
    sampler::{GpuSampler, Sampler},
};

/// A running or ended program.
pub(super) struct Program {
    pub(super) folder: Folder,
    pub(super) facts: NodeFacts,
    /// Its GPUs, as indices among the observed ones.
    pub gpus: Vec<usize>,
    log: Option<Lines>,
    looks: Looks,
    released: Option<f64>,
    /// When its process started.
    pub(super) began: Option<f64>,
    /// The grace period of the last request to end it.
    killed: Option<Duration>,
    /// The attempts that ran beside it, and those of them on its GPUs.
    corunners: BTreeSet<AttemptId>,
    near: BTreeSet<AttemptId>,
}

/// A change of a program.
pub(super) enum ProgramEvent {
    Started(AttemptId),
    Ended(AttemptId, Box<(Program, Record)>),
}

pub(super) struct Programs {
    keeper: Keeper,
    sampler: Sampler,
    gpus: Option<GpuSampler>,
    pub(super) running: BTreeMap<AttemptId, Program>,
}

impl Programs {
    /// Supervises programs on these GPUs. `engine`: the caller's process, if it is the parent and belongs to flow.
    pub(super) fn new(keeper: Keeper, devices: &[GpuFacts], engine: Option<u32>) -> Result<Programs, String> {
        let sampler = Sampler::start(keeper.pid(), engine);
        let sampler = sampler.map_err(|e| format!("the sampler cannot be started: {e}"))?;
        let gpus = (!devices.is_empty()).then(|| GpuSampler::start(devices)).transpose();
        let gpus = gpus.map_err(|e| format!("GPUs cannot be measured: {e}"))?;
        Ok(Programs { keeper, sampler, gpus, running: BTreeMap::new() })
    }

    pub(super) fn keeper(&self) -> u32 {
        self.keeper.pid()
    }

    /// Starts a program on these GPUs.
    pub(super) fn begin(&mut self, start: keeper::Start, facts: NodeFacts, gpus: Vec<usize>) {
        let (attempt, folder) = (start.attempt, Folder::at(start.folder.clone()));
        if let Some(sampler) = self.gpus.as_ref().filter(|_| !gpus.is_empty()) {
            sampler.track(attempt, self.keeper.pid(), &gpus);
        }
        let mut log = Lines::new(folder.log(), LINE_ENDS);
        log.comes_after(clock::unix_seconds());
        let mut program = Program {
            log: Some(log),
            folder,
            facts,
            gpus,
            looks: Looks::default(),
            released: None,
            began: None,
            killed: None,
            corunners: BTreeSet::new(),
            near: BTreeSet::new(),
        };
        for (id, other) in &mut self.running {
            let near = other.gpus.iter().any(|gpu| program.gpus.contains(gpu));
            for (to, who) in [(&mut *other, attempt), (&mut program, *id)] {
                to.corunners.insert(who);
                if near {
                    to.near.insert(who);
                }
            }
        }
        self.running.insert(attempt, program);
        self.keeper.send(&Request::Start(start));
    }

    /// The next event. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<ProgramEvent, String> {
        loop {
            let event = self.keeper.next_event().await.map_err(|gone| gone.to_string())?;
            if let Some(event) = self.take(event) {
                return Ok(event);
            }
        }
    }

    fn take(&mut self, event: Event) -> Option<ProgramEvent> {
        match event {
            Event::Started { attempt, pid } => {
                self.sampler.track(attempt, pid);
                let program = self.running.get_mut(&attempt)?;
                (program.facts.pid, program.began) = (pid, Some(clock::unix_seconds()));
                Some(ProgramEvent::Started(attempt))
            }
            Event::SpawnFailed { attempt, reason } => {
                let now = clock::unix_seconds();
                let spawn_error = Some(keeper::written(&reason));
                self.ended(attempt, Exit { started_at: now, ended_at: now, spawn_error, ..Exit::default() })
            }
            Event::Exited { attempt, exit } => self.ended(attempt, exit),
        }
    }

    fn ended(&mut self, attempt: AttemptId, exit: Exit) -> Option<ProgramEvent> {
        let mut program = self.running.remove(&attempt)?;
        read_log(&mut program.log, &mut program.looks, exit.ended_at, Some(exit.code == Some(0)));
        let (host, cost) = self.sampler.untrack(attempt);
        let gpus = self.gpus.as_ref().filter(|_| !program.gpus.is_empty());
        let (gpus, gpu_cost) = gpus.map(|gpus| gpus.untrack(attempt)).unwrap_or_default();
        let record = Record {
            host: if exit.spawn_error.is_some() { HostSamples::default() } else { host },
            exit,
            gpus,
            cost: cost + gpu_cost,
            looks: std::mem::take(&mut program.looks),
            released: program.released,
            corunners: std::mem::take(&mut program.corunners),
            near: std::mem::take(&mut program.near),
            ..Record::default()
        };
        Some(ProgramEvent::Ended(attempt, Box::new((program, record))))
    }

    /// Ends a program; a second call can only shorten the grace period.
    pub(super) fn end(&mut self, attempt: AttemptId, grace: Duration) {
        let Some(program) = self.running.get_mut(&attempt) else { return };
        if program.killed.is_none_or(|before| grace < before) {
            program.killed = Some(grace);
            self.keeper.send(&Request::Kill { attempt, grace });
        }
    }

    pub(super) fn end_all(&mut self, grace: Duration) {
        for attempt in self.running.keys() {
            self.keeper.send(&Request::Kill { attempt: *attempt, grace });
        }
    }

    /// Warns all programs that they will be ended soon.
    pub(super) fn warn_all(&mut self, grace: Duration) {
        for attempt in self.running.keys() {
            self.keeper.send(&Request::Warn { attempt: *attempt, grace });
        }
    }

    /// The looks that an engine next to the programs would make twenty times a second.
    pub(super) fn look(&mut self) {
        let now = clock::unix_seconds();
        for program in self.running.values_mut() {
            read_log(&mut program.log, &mut program.looks, now, None);
            if program.released.is_none() && program.folder.path().join(file::GO).exists() {
                program.released = Some(now);
                program.log.iter_mut().for_each(|log| log.comes_after(now));
            }
        }
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = (AttemptId, &Path)> {
        self.running.iter().map(|(attempt, program)| (*attempt, program.folder.path()))
    }
}

/// Notes what was written to a log since the last look. At the end it reads the rest, and a last line without line end
/// if the program ended by itself.
fn read_log(read: &mut Option<Lines>, looks: &mut Looks, now: f64, ended: Option<bool>) {
    let Some(log) = read else { return };
    if ended.is_some() {
        let _ = log.hasten();
    }
    loop {
        match (log.poll(), log.came(now)) {
            (Ok(Some(lines)), at) => {
                if !lines.is_empty() {
                    let (from, to) = log.found();
                    looks.push(from, to, at);
                    log.comes_after(at);
                }
            }
            (Ok(None), _) => break,
            // The engine will see the same error.
            (Err(_), _) => {
                *read = None;
                return;
            }
        }
        if ended.is_none() {
            break;
        }
    }
    if ended == Some(true) && log.unfinished().is_some() {
        let (from, to) = log.found();
        looks.push(from, to, now);
    }
}
