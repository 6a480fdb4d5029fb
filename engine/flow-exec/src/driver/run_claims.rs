//! What this run may do and other runs of the store may not: claims, by the fingerprint of an attempt, and what is known of who
//! has one. Jobs ask it. Knows no placement and no program, and what a result is worth is decided as always.
//!
//! Claimed is an attempt, not a result: two runs that read one attempt's metrics in two ways need it once.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use flow_core::{Digest, RunId, StepResult, reason::Waits};
use flow_store::{Claimant, Claims, DaemonState, Store, StoreDir, StoreError};

use super::orphans::OrphanedWork;

/// How often, and how many times, it is looked whether somebody else has published.
const PUBLISHES: Duration = Duration::from_millis(20);
const PUBLISHING: u32 = 500;

/// What an instance is about to do.
pub(super) struct ClaimRequest {
    pub(super) fingerprint: Digest,
    /// The fingerprint of its attempt.
    pub(super) attempt: Digest,
    /// Whatever results there are.
    pub(super) forced: bool,
}

/// The claims of a run.
pub(crate) struct RunClaims {
    claims: Claims,
    /// Results of other runs for which a start was taken back. Each is looked at once, for it may be of no use: whether it was
    /// there when its unit was decided is not told by any clock.
    seen: Mutex<BTreeSet<(Digest, RunId, u64)>>,
}

impl RunClaims {
    /// Nothing yet.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn nothing(dir: &StoreDir, run: &RunId) -> Result<RunClaims, StoreError> {
        Ok(RunClaims { claims: Claims::open(dir, Some(run))?, seen: Mutex::default() })
    }

    /// Who else does one of these attempts, if somebody does.
    pub(super) fn by_others(&self, dir: &StoreDir, attempts: &[Digest]) -> Result<Option<Waits>, StoreError> {
        let lasting = attempts.iter().map(Claims::lasting);
        let Some(claimant) = self.claims.taken(attempts.iter().copied().chain(lasting))? else { return Ok(None) };
        let run = match claimant.pid {
            Some(pid) => {
                let kept = |run: &RunId| dir.run(run).kept() == DaemonState::Goes { pid: Some(pid) };
                let living = dir.living()?.into_iter().find(|run| run.process.pid == pid).and_then(|run| run.run);
                living.or_else(|| dir.runs().ok()?.into_iter().rev().find(kept))
            }
            None => None,
        };
        let user = run.as_ref().and_then(|run| dir.run(run).others()).unwrap_or_default();
        Ok(Some(Waits::Elsewhere { run, user, pid: claimant.pid }))
    }

    /// Who else has claimed one of these attempts.
    pub(super) fn taken(&self, attempts: &[Digest]) -> Result<Option<Claimant>, StoreError> {
        self.claims.taken(attempts.iter().copied())
    }

    /// Who keeps one of these attempts since its run died.
    pub(super) fn kept(&self, attempts: &[Digest]) -> Result<Option<Claimant>, StoreError> {
        self.claims.taken(attempts.iter().map(Claims::lasting))
    }

    /// Claims a unit that is about to start in `run`; `false` where another run does it, or has done it since it was decided.
    pub(super) fn claim(
        &self,
        (store, left): (&Store, &OrphanedWork),
        run: &RunId,
        unit: &[ClaimRequest],
    ) -> Result<bool, StoreError> {
        let attempts: Vec<Digest> = unit.iter().map(|intent| intent.attempt).collect();
        if self.claims.take(&attempts)?.is_some() {
            return Ok(false);
        }
        // Whose claim this was may have been killed between its journal and the database.
        let lives = |run: &RunId| self.claims.none_lost_by(run, &attempts);
        let news = left.take_in_deaths(store, lives).and_then(|()| {
            let is_done = |intent| self.is_done_by_others(store, run, intent);
            unit.iter().try_fold(false, |news, intent| Ok(news | is_done(intent)?))
        });
        if !matches!(news, Ok(false)) {
            self.give_back(&attempts)?;
        }
        news.map(|news| !news)
    }

    /// # Errors
    /// The claims cannot be given back.
    pub(super) fn give_back(&self, attempts: &[Digest]) -> Result<(), StoreError> {
        self.claims.give_back(attempts)
    }

    fn is_done_by_others(&self, store: &Store, run: &RunId, intent: &ClaimRequest) -> Result<bool, StoreError> {
        if intent.forced {
            return Ok(false);
        }
        let found = store.result_of(&intent.fingerprint, &intent.attempt)?;
        let Some(found) = found.filter(|found: &StepResult| found.run != *run) else { return Ok(false) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.insert((found.fingerprint, found.run, found.ended_at)))
    }

    /// Waits for whoever publishes at this moment, for two runs may have an entry for one file; not for ever.
    pub(super) fn publishing(&self) -> Result<Publishing<'_>, StoreError> {
        let what = Digest::of(b"publishing");
        for _ in 0..PUBLISHING {
            if self.claims.take(&[what])?.is_none() {
                return Ok(Publishing { claims: Some(&self.claims), what });
            }
            thread::sleep(PUBLISHES);
        }
        Ok(Publishing { claims: None, what })
    }
}

/// Nobody else of the store publishes while this is there.
pub(super) struct Publishing<'a> {
    claims: Option<&'a Claims>,
    what: Digest,
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        if let Some(claims) = self.claims {
            // Where it cannot be given back now it is when this process ends, which is soon.
            let _ = claims.give_back(&[self.what]);
        }
    }
}
