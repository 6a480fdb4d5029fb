//! This machine as an executor. The keeper starts with the first attempt, so that a run that reuses everything has
//! none; the sampler starts with the first process. A detached run has both in a daemon, which survives this process and
//! tells it when an attempt's folder has a new file.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    time::Duration,
};

use flow_core::{
    AttemptId,
    reason::{Fault, StartFault},
};

use super::{
    Ended, Event, Executor, Observed, Work,
    adopted::UnitIntents,
    daemon::{DaemonHandle, Settings},
    intents::Member,
};
use crate::{
    ExecError,
    attempt::Folder,
    keeper::{self, Keeper, Request},
    node::{Begin, NodeFiles},
    sampler::Sampler,
};

pub(crate) struct Local {
    exe: PathBuf,
    record: PathBuf,
    keeper: Option<Keeper>,
    sampler: Option<Sampler>,
    /// Present if attempts survive this process.
    outlives: Option<Settings>,
    daemon: Option<DaemonHandle>,
    intents: UnitIntents,
    /// Attempts of the daemon that have not started yet.
    unstarted: BTreeSet<AttemptId>,
    /// Events of its attempts.
    told: VecDeque<Event>,
    life: Option<(OwnedFd, u32)>,
    locks: Vec<Option<OwnedFd>>,
    folders: BTreeMap<AttemptId, Folder>,
}

impl Local {
    /// `exe` is the flow program; `record` identifies the owner while any process of it may be alive.
    pub(crate) fn new(exe: PathBuf, record: PathBuf) -> Local {
        Local {
            exe,
            record,
            keeper: None,
            sampler: None,
            outlives: None,
            daemon: None,
            intents: UnitIntents::default(),
            unstarted: BTreeSet::new(),
            told: VecDeque::new(),
            life: None,
            locks: Vec::new(),
            folders: BTreeMap::new(),
        }
    }

    /// Its attempts survive this process.
    pub(crate) fn outliving(mut self, settings: Settings) -> Local {
        self.outlives = Some(settings);
        self
    }

    /// Starts a unit that survives this process.
    fn begin(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        let Some(settings) = &self.outlives else { return Ok(()) };
        let daemon = match &mut self.daemon {
            Some(daemon) => daemon,
            none => {
                let daemon = DaemonHandle::spawn(settings, self.life.take(), std::mem::take(&mut self.locks));
                none.insert(daemon.map_err(ExecError::io("start what is to keep the steps", &self.exe))?)
            }
        };
        let attempts: Vec<AttemptId> = unit.iter().map(|work| work.program.attempt).collect();
        let refused =
            |reason: Fault| attempts.iter().map(move |&attempt| Event::SpawnFailed { attempt, reason: reason.clone() });
        let intent = unit.first().and_then(|work| Some(work.stays.as_ref()?.intent.clone()));
        let Some(intent) = intent.filter(|intent| intent.members.len() == unit.len()) else {
            self.told.extend(refused(StartFault::NotWrittenDown.into()));
            return Ok(());
        };
        let folders = unit.iter().map(|work| (work.program.attempt, Folder::at(work.program.folder.clone())));
        let folders: Vec<_> = folders.collect();
        self.intents.add(&unit);
        let begun = intent.note(&settings.dir).and_then(|()| {
            let begin = |(work, member): (Work, &Member)| {
                let stays = work.stays?;
                let timeout = stays.timeout.map(|span| Duration::from_micros(span.0));
                let (unit, fingerprint) = (intent.key.clone(), member.fingerprint);
                Some(Begin { start: work.program, unit, fingerprint, cards: stays.cards, timeout, holds: stays.holds })
            };
            daemon.begin(unit.into_iter().zip(&intent.members).filter_map(begin).collect())
        });
        match begun {
            Ok(()) => {
                self.unstarted.extend(&attempts);
                self.folders.extend(folders);
            }
            Err(error) => {
                attempts.iter().for_each(|attempt| self.intents.settled(&settings.dir, *attempt));
                self.told.extend(refused(error.to_string().into()));
            }
        }
        Ok(())
    }

    /// The folder of an attempt of the daemon has a new file.
    fn look(&mut self, attempt: AttemptId) {
        let Some(files) = self.folders.get(&attempt).map(|folder| NodeFiles::of(folder.path())) else { return };
        let record = files.read_ended();
        let reason = record.as_ref().and_then(|record| record.exit.spawn_error.as_ref()).map(keeper::told);
        if self.unstarted.remove(&attempt) && reason.is_none() {
            self.told.push_back(Event::Started { attempt, node: None });
        }
        let Some(record) = record else { return };
        self.folders.remove(&attempt);
        self.told.push_back(match reason {
            Some(reason) => Event::SpawnFailed { attempt, reason },
            None => {
                let seen = Observed { samples: record.host, gpus: record.gpus, cost: record.cost };
                Event::Ended { attempt, end: Box::new(Ended::here(record.exit, seen)) }
            }
        });
    }

    fn tell(&self, attempt: AttemptId, tell: impl FnOnce(&Folder) -> io::Result<()>) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), tell)
    }

    fn told(&mut self, event: keeper::Event) -> Result<Event, ExecError> {
        Ok(match event {
            keeper::Event::Started { attempt, pid } => {
                if let (None, Some(keeper)) = (&self.sampler, &self.keeper) {
                    let sampler = Sampler::start(keeper.pid()).map_err(ExecError::io("start", "the sampler"))?;
                    self.sampler = Some(sampler);
                }
                if let Some(sampler) = &self.sampler {
                    sampler.track(attempt, pid);
                }
                Event::Started { attempt, node: None }
            }
            keeper::Event::SpawnFailed { attempt, reason } => {
                self.folders.remove(&attempt);
                Event::SpawnFailed { attempt, reason }
            }
            keeper::Event::Exited { attempt, exit } => {
                self.folders.remove(&attempt);
                let seen = self.sampler.as_ref().map(|sampler| sampler.untrack(attempt));
                let (samples, cost) = seen.unwrap_or_default();
                let seen = Observed { samples, cost, ..Observed::default() };
                Event::Ended { attempt, end: Box::new(Ended::here(exit, seen)) }
            }
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // After an error, requests that are still queued must not start.
        if let Some(keeper) = self.keeper.as_mut().filter(|_| self.folders.is_empty()) {
            keeper.finish();
        }
    }
}

impl Executor for Local {
    fn start(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        if self.outlives.is_some() {
            return self.begin(unit);
        }
        if self.keeper.is_none() {
            let keeper = Keeper::spawn_with(&self.exe, &self.record, self.life.take().map(|(life, _)| life));
            self.keeper = Some(keeper.map_err(ExecError::io("start the keeper", &self.exe))?);
        }
        for Work { program, .. } in unit {
            self.folders.insert(program.attempt, Folder::at(program.folder.clone()));
            if let Some(keeper) = &mut self.keeper {
                keeper.send(&Request::Start(program));
            }
        }
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        self.tell(attempt, |folder| folder.go(at))
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.tell(attempt, Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        if let Some(keeper) = &mut self.keeper {
            keeper.send(&Request::Kill { attempt, grace });
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.kill(attempt, grace);
            // If the file cannot be written and this process dies, the next run takes the end for the program's own.
            let _ = self.tell(attempt, |folder| NodeFiles::of(folder.path()).ask_to_end(grace));
        }
    }

    fn settled(&mut self, attempt: AttemptId) {
        if let Some(settings) = &self.outlives {
            self.intents.settled(&settings.dir, attempt);
        }
    }

    fn root(&self) -> Option<u32> {
        let daemon = self.daemon.as_ref().map(DaemonHandle::keeper);
        daemon.or_else(|| self.keeper.as_ref().map(Keeper::pid))
    }

    fn shares_this_machine(&self) -> bool {
        true
    }

    fn lend(&mut self, life: OwnedFd, place: u32) {
        self.life = Some((life, place));
    }

    fn lend_locks(&mut self, locks: Vec<Option<OwnedFd>>) {
        self.locks = locks;
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        loop {
            if let Some(event) = self.told.pop_front() {
                return Ok(event);
            }
            let Some(daemon) = &mut self.daemon else { break };
            let attempt = daemon.next_news().await?;
            self.look(attempt);
        }
        let Some(keeper) = &mut self.keeper else { return std::future::pending().await };
        let event = keeper.next_event().await?;
        self.told(event)
    }
}
