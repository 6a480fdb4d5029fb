//! Attempts of an earlier run whose flow process died, followed through their folders until they end. Their supervisor
//! process holds the locks. Knows no workflow.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    time::{Duration, Instant},
};

use flow_core::{
    AttemptId, Outcome, RunId,
    reason::{Cause, StartFault},
};
use flow_store::StoreDir;

use super::{
    Ended, Event, Executor, Observed, OutcomeOverride, RecordedCoRunners, RemoteObservation, RetryAdvice, Work,
    intents::{Intent, Standing},
};
use crate::{
    ExecError,
    attempt::Folder,
    clock,
    node::{NodeFiles, Record},
};

/// How often folders are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The intents of units on this machine. Each stays on disk until the results of all its attempts are recorded.
#[derive(Default)]
pub(super) struct UnitIntents(Vec<(Intent, BTreeSet<AttemptId>)>);

impl UnitIntents {
    pub(super) fn add(&mut self, unit: &[Work]) {
        let attempts = unit.iter().map(|work| work.program.attempt).collect();
        let intent = unit.iter().find_map(|work| Some(work.stays.as_ref()?.intent.clone()));
        self.0.extend(intent.map(|intent| (intent, attempts)));
    }

    pub(super) fn settled(&mut self, dir: &StoreDir, attempt: AttemptId) {
        self.0.retain_mut(|(intent, attempts)| {
            let over = attempts.remove(&attempt) && attempts.is_empty();
            if over {
                intent.remove(dir);
            }
            !over
        });
    }
}

/// An attempt of another run that this one follows.
struct AdoptedAttempt {
    folder: Folder,
    /// The run that started it.
    run: RunId,
    is_grouped: bool,
    is_told: bool,
    /// Its group was released by this run.
    is_released: bool,
}

/// The attempts that this run follows.
pub(crate) struct AdoptedAttempts {
    dir: StoreDir,
    followed: BTreeMap<AttemptId, AdoptedAttempt>,
    intents: UnitIntents,
    events: VecDeque<Event>,
    looked_at: Option<Instant>,
}

impl AdoptedAttempts {
    pub(crate) fn new(dir: StoreDir) -> AdoptedAttempts {
        let (followed, intents) = (BTreeMap::new(), UnitIntents::default());
        AdoptedAttempts { dir, followed, intents, events: VecDeque::new(), looked_at: None }
    }

    pub(crate) fn has(&self, attempt: AttemptId) -> bool {
        self.intents.0.iter().any(|(_, attempts)| attempts.contains(&attempt))
    }

    fn tell(&self, attempt: AttemptId, tell: impl FnOnce(&Folder) -> io::Result<()>) -> io::Result<()> {
        self.followed.get(&attempt).map_or(Ok(()), |followed| tell(&followed.folder))
    }

    fn look(&mut self) {
        let mut over = Vec::new();
        for (&attempt, followed) in &mut self.followed {
            // Read before the record: the supervisor writes the record before it exits.
            let kept = self.dir.run(&followed.run).kept();
            let files = NodeFiles::of(followed.folder.path());
            let record = files.read_ended();
            if !followed.is_told && (record.is_some() || files.read_started().is_some()) {
                followed.is_told = true;
                self.events.push_back(Event::Started { attempt, node: None });
            }
            let end = match record {
                // It ended after the barrier: the scheduler must hear of the barrier first.
                Some(record) if followed.is_grouped && record.released.is_some() && !followed.is_released => continue,
                Some(record) => ended(record),
                None if kept.is_none() => lost(),
                None => continue,
            };
            over.push((attempt, end));
        }
        // In the order of their ends: the first end closes the window of a group.
        over.sort_by(|(_, a), (_, b)| a.exit.ended_at.total_cmp(&b.exit.ended_at));
        for (attempt, end) in over {
            self.followed.remove(&attempt);
            self.events.push_back(Event::Ended { attempt, end: Box::new(end) });
        }
    }
}

/// The end that its record describes.
fn ended(record: Record) -> Ended {
    let Record {
        exit, host, gpus, cost, looks, released, timed_out, elsewhere, unwatched, beside, near, closed, ..
    } = record;
    let instead =
        timed_out.then_some(OutcomeOverride { outcome: Outcome::TimedOut, cause: None, again: RetryAdvice::AsAsked });
    Ended {
        exit,
        seen: Observed { samples: host, gpus, cost },
        there: Some(RemoteObservation { looks, released, closed }),
        instead,
        beside: Some(RecordedCoRunners { attempts: beside, near, elsewhere, unwatched }),
    }
}

/// The supervisor process is gone, and the attempt with it.
fn lost() -> Ended {
    let cause = Some(Cause::NotStarted { error: Some(StartFault::KeeperKilled.into()) });
    let instead = Some(OutcomeOverride { outcome: Outcome::Failed, cause, again: RetryAdvice::Lost });
    let now = clock::unix_seconds();
    Ended { instead, ..Ended::here(super::slurm::unseen(now, now), Observed::default()) }
}

impl Executor for AdoptedAttempts {
    fn start(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        self.intents.add(&unit);
        let is_grouped = unit.len() > 1;
        let Some(intent) = unit.iter().find_map(|work| Some(work.stays.as_ref()?.intent.clone())) else {
            return Ok(());
        };
        for work in unit {
            let (folder, run) = (Folder::at(work.program.folder), intent.run.clone());
            let followed = AdoptedAttempt { folder, run, is_grouped, is_told: false, is_released: false };
            self.followed.insert(work.program.attempt, followed);
        }
        self.looked_at = None;
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        if let Some(followed) = self.followed.get_mut(&attempt) {
            followed.is_released = true;
        }
        self.tell(attempt, |folder| if folder.is_released() { Ok(()) } else { folder.go(at) })
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.tell(attempt, Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        // If the file cannot be written, the attempt continues and flow waits for it.
        let _ = self.tell(attempt, |folder| NodeFiles::of(folder.path()).ask_to_end(grace));
        if let Some(followed) = self.followed.get_mut(&attempt) {
            followed.is_released = true;
        }
    }

    fn settled(&mut self, attempt: AttemptId) {
        self.intents.settled(&self.dir, attempt);
    }

    fn root(&self) -> Option<u32> {
        None
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            if self.followed.is_empty() {
                return std::future::pending().await;
            }
            let pause = self.looked_at.map_or(Duration::ZERO, |at| LOOK.saturating_sub(clock::since(at)));
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            self.looked_at = Some(clock::steady());
            self.look();
        }
    }
}

/// True if the whole unit can be joined: each attempt still runs or ended by itself.
pub(crate) fn is_sound(intent: &Intent, dir: &StoreDir) -> bool {
    intent.standing(dir) == Standing::Sound
}
