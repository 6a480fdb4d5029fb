//! Attempts on this machine that survive their run, followed through their folders until they end. A daemon keeps them:
//! that of this run, which starts them on request and says which folder has a new file, or that of an earlier run whose
//! flow process died. Knows no workflow.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use flow_core::{
    AttemptId, Outcome, RunId,
    reason::{Cause, Fault, StartFault},
};
use flow_runs::StoreDir;
use flow_supervisor::{
    attempt::Folder,
    clock,
    intents::{Intent, Member},
    keeper,
    node::{AttemptStart, DaemonEvent, NodeFiles, Record},
};

use super::{
    AttemptEnd, Event, Executor, LocalObservation, OutcomeOverride, RecordedCoRunners, RemoteObservation, RetryAdvice,
    Work,
    daemon::{DaemonHandle, Settings},
};
use crate::ExecError;

/// How often the folders of an earlier run's attempts are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// An attempt that is followed.
struct FollowedAttempt {
    folder: Folder,
    /// The run that started it.
    run: RunId,
    is_own: bool,
    is_grouped: bool,
    is_reported: bool,
    /// Its group was released by this run.
    is_released: bool,
    /// This run told it to end.
    is_killed: bool,
}

/// The attempts that this run follows.
pub(crate) struct DetachedAttempts {
    dir: StoreDir,
    /// Present if this run is detached.
    settings: Option<Settings>,
    daemon: Option<DaemonHandle>,
    /// What the daemon is to hold.
    life: Option<(OwnedFd, u32)>,
    locks: Vec<Option<OwnedFd>>,
    followed: BTreeMap<AttemptId, FollowedAttempt>,
    /// Each stays on disk until the results of all its attempts are recorded.
    intents: Vec<(Intent, BTreeSet<AttemptId>)>,
    events: VecDeque<Event>,
    looked_at: Option<Instant>,
}

impl DetachedAttempts {
    /// `settings`: of this run's daemon, if it is detached.
    pub(crate) fn new(dir: StoreDir, settings: Option<Settings>) -> DetachedAttempts {
        DetachedAttempts {
            dir,
            settings,
            daemon: None,
            life: None,
            locks: Vec::new(),
            followed: BTreeMap::new(),
            intents: Vec::new(),
            events: VecDeque::new(),
            looked_at: None,
        }
    }

    /// True if this run is detached.
    pub(crate) fn is_on(&self) -> bool {
        self.settings.is_some()
    }

    pub(crate) fn has(&self, attempt: AttemptId) -> bool {
        self.intents.iter().any(|(_, attempts)| attempts.contains(&attempt))
    }

    /// Starts a gang of this run.
    fn begin(&mut self, intent: &Intent, gang: Vec<Work>) -> Result<io::Result<()>, ExecError> {
        let Some(settings) = &self.settings else {
            return Err(ExecError::Fault("a run that is not detached has a detached attempt".to_owned()));
        };
        let daemon = match &mut self.daemon {
            Some(daemon) => daemon,
            none => {
                let daemon = DaemonHandle::spawn(settings, self.life.take(), std::mem::take(&mut self.locks));
                none.insert(daemon.map_err(ExecError::io("start what is to keep the steps", &settings.exe))?)
            }
        };
        let begin = |(work, member): (Work, &Member)| {
            let stays = work.detached?;
            let timeout = stays.timeout.map(|span| Duration::from_micros(span.0));
            let (gang, fingerprint) = (intent.key.clone(), member.fingerprint);
            Some(AttemptStart { start: work.program, gang, fingerprint, gpus: stays.gpus, timeout, holds: stays.holds })
        };
        let gang = gang.into_iter().zip(&intent.members).filter_map(begin).collect();
        Ok(intent.note(&self.dir).and_then(|()| daemon.begin(gang)))
    }

    fn write(&self, attempt: AttemptId, tell: impl FnOnce(&Folder) -> io::Result<()>) -> io::Result<()> {
        self.followed.get(&attempt).map_or(Ok(()), |followed| tell(&followed.folder))
    }

    /// Looks at the attempts of earlier runs, whose daemons tell this run nothing.
    fn look(&mut self) {
        let others = self.followed.iter().filter(|(_, followed)| !followed.is_own);
        let others: Vec<AttemptId> = others.map(|(attempt, _)| *attempt).collect();
        let mut over: Vec<_> =
            others.into_iter().filter_map(|attempt| Some((attempt, self.look_at(attempt)?))).collect();
        // In the order of their ends: the first end closes the window of a group.
        over.sort_by(|(_, a), (_, b)| a.exit.ended_at.total_cmp(&b.exit.ended_at));
        over.into_iter().for_each(|(attempt, end)| self.ended(attempt, end));
    }

    /// Looks at the files of such an attempt. Returns its end.
    fn look_at(&mut self, attempt: AttemptId) -> Option<AttemptEnd> {
        let followed = self.followed.get(&attempt)?;
        // Read before the record: the daemon writes the record before it exits.
        let is_supervised = self.dir.run(&followed.run).daemon().is_some();
        let files = NodeFiles::of(followed.folder.path());
        let record = files.read_ended();
        if record.is_some() || files.read_started().is_some() {
            self.started(attempt);
        }
        let followed = self.followed.get(&attempt)?;
        match record {
            // Its program may have ended well, because it was told to end before its work was done.
            Some(record) if record.warned.is_some() || !followed.is_killed && files.end_grace().is_some() => {
                Some(lost(StartFault::EndedByRequest))
            }
            // It ended after the barrier: the scheduler must hear of the barrier first.
            Some(record) if followed.is_grouped && record.released.is_some() && !followed.is_released => None,
            Some(record) => Some(ended(record)),
            None => (!is_supervised).then(|| lost(StartFault::KeeperKilled)),
        }
    }

    /// Applies an event of the daemon of this run.
    fn apply(&mut self, event: DaemonEvent) {
        let (attempt, record) = match event {
            DaemonEvent::Started(attempt) => return self.started(attempt),
            DaemonEvent::Ended(attempt, record) => (attempt, record),
        };
        let Some(followed) = self.followed.get(&attempt) else { return };
        let record = record.map(|record| *record).or_else(|| NodeFiles::of(followed.folder.path()).read_ended());
        if let Some(reason) = record.as_ref().and_then(|record| record.exit.spawn_error.as_ref()) {
            self.followed.remove(&attempt);
            return self.events.push_back(Event::SpawnFailed { attempt, reason: keeper::start_fault(reason) });
        }
        self.started(attempt);
        self.ended(
            attempt,
            match record {
                Some(record) if record.warned.is_some() => lost(StartFault::EndedByRequest),
                Some(Record { exit, host, gpus, cost, .. }) => {
                    AttemptEnd::here(exit, LocalObservation { samples: host, gpus, cost })
                }
                None => lost(StartFault::KeeperKilled),
            },
        );
    }

    fn started(&mut self, attempt: AttemptId) {
        if let Some(followed) = self.followed.get_mut(&attempt).filter(|followed| !followed.is_reported) {
            followed.is_reported = true;
            self.events.push_back(Event::Started { attempt, node: None });
        }
    }

    fn ended(&mut self, attempt: AttemptId, end: AttemptEnd) {
        self.followed.remove(&attempt);
        self.events.push_back(Event::Ended { attempt, end: Box::new(end) });
    }
}

/// The end that its record describes.
fn ended(record: Record) -> AttemptEnd {
    let Record {
        exit,
        host,
        gpus,
        cost,
        looks,
        released,
        timed_out,
        other_attempts,
        unwatched,
        corunners,
        near,
        closed,
        ..
    } = record;
    let instead = timed_out.then_some(OutcomeOverride {
        outcome: Outcome::TimedOut,
        cause: None,
        again: RetryAdvice::AsConfigured,
    });
    AttemptEnd {
        exit,
        seen: LocalObservation { samples: host, gpus, cost },
        there: Some(RemoteObservation { looks, released, closed }),
        instead,
        corunners: Some(RecordedCoRunners { attempts: corunners, near, other_runs: other_attempts, unwatched }),
    }
}

/// The end of an attempt that has to run again for this reason.
fn lost(reason: StartFault) -> AttemptEnd {
    let cause = Some(Cause::NotStarted { error: Some(reason.into()) });
    let instead = Some(OutcomeOverride { outcome: Outcome::Failed, cause, again: RetryAdvice::Lost });
    let now = clock::unix_seconds();
    AttemptEnd { instead, ..AttemptEnd::here(super::slurm::unseen(now, now), LocalObservation::default()) }
}

impl Executor for DetachedAttempts {
    fn start(&mut self, gang: Vec<Work>) -> Result<(), ExecError> {
        let attempts: BTreeSet<AttemptId> = gang.iter().map(|work| work.program.attempt).collect();
        let refused = |reason: Fault| {
            attempts.clone().into_iter().map(move |attempt| Event::SpawnFailed { attempt, reason: reason.clone() })
        };
        let stays = gang.first().and_then(|work| work.detached.as_ref());
        let Some((intent, is_own)) = stays.map(|stays| (stays.intent.clone(), !stays.joined)) else {
            self.events.extend(refused(StartFault::NotWrittenDown.into()));
            return Ok(());
        };
        for work in &gang {
            let (folder, run) = (Folder::at(work.program.folder.clone()), intent.run.clone());
            let (is_reported, is_released, is_killed) = (false, false, false);
            let is_grouped = gang.len() > 1;
            let followed = FollowedAttempt { folder, run, is_own, is_grouped, is_reported, is_released, is_killed };
            self.followed.insert(work.program.attempt, followed);
        }
        if is_own && let Err(error) = self.begin(&intent, gang)? {
            intent.remove(&self.dir);
            attempts.iter().for_each(|attempt| _ = self.followed.remove(attempt));
            self.events.extend(refused(error.to_string().into()));
            return Ok(());
        }
        self.intents.push((intent, attempts));
        self.looked_at = None;
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        if let Some(followed) = self.followed.get_mut(&attempt) {
            followed.is_released = true;
        }
        self.write(attempt, |folder| if folder.is_released() { Ok(()) } else { folder.go(at) })
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.write(attempt, Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        // If the file cannot be written, an attempt of an earlier run continues, and flow waits for it.
        let _ = self.write(attempt, |folder| NodeFiles::of(folder.path()).request_end(grace));
        if let Some(followed) = self.followed.get_mut(&attempt) {
            (followed.is_released, followed.is_killed) = (true, true);
            self.daemon.iter_mut().filter(|_| followed.is_own).for_each(|daemon| daemon.kill(attempt, grace));
        }
    }

    fn settled(&mut self, attempt: AttemptId) {
        let dir = &self.dir;
        self.intents.retain_mut(|(intent, attempts)| {
            let over = attempts.remove(&attempt) && attempts.is_empty();
            if over {
                intent.remove(dir);
            }
            !over
        });
    }

    fn root(&self) -> Option<u32> {
        self.daemon.as_ref().map(DaemonHandle::keeper)
    }

    fn lend(&mut self, life: OwnedFd, place: u32) {
        self.life = Some((life, place));
    }

    fn lend_locks(&mut self, locks: Vec<Option<OwnedFd>>) {
        self.locks = locks;
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let follows = self.followed.values().any(|followed| !followed.is_own);
            let pause = self.looked_at.map_or(Duration::ZERO, |at| LOOK.saturating_sub(clock::since(at)));
            tokio::select! {
                biased;
                event = next_daemon_event(&mut self.daemon) => self.apply(event?),
                () = tokio::time::sleep(pause), if follows => {
                    self.looked_at = Some(clock::steady());
                    self.look();
                }
            }
        }
    }
}

async fn next_daemon_event(daemon: &mut Option<DaemonHandle>) -> Result<DaemonEvent, ExecError> {
    match daemon {
        Some(daemon) => daemon.next_event().await,
        None => std::future::pending().await,
    }
}
