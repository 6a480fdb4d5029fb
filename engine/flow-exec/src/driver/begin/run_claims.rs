//! Claims: attempts that this run executes and that other runs of the store may not, by attempt fingerprint, and their
//! holders. Background jobs use it. Knows no placement and no program.
//!
//! A claim is for an attempt, not a result: two runs that read one attempt's metrics in two ways need it only once.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use flow_core::{Digest, RunId, StepResult, reason::Waits};
use flow_runs::{Claimant, Claims, StoreDir, StoreError};
use flow_store::Store;

use crate::driver::recover::orphans::OrphanedWork;

/// Interval and number of looks while another run publishes.
const PUBLISHES: Duration = Duration::from_millis(20);
const PUBLISHING: u32 = 500;

/// What an instance is about to run.
pub(crate) struct ClaimRequest {
    pub(crate) fingerprint: Digest,
    /// The fingerprint of its attempt.
    pub(crate) attempt: Digest,
    /// Existing results do not matter.
    pub(crate) forced: bool,
}

pub(crate) struct RunClaims {
    claims: Claims,
    /// Results of other runs for which a start was called off. Each is looked at once, because it may turn out to be
    /// unusable: no clock tells whether it was there when its gang was decided.
    seen: Mutex<BTreeSet<(Digest, RunId, u64)>>,
}

impl RunClaims {
    /// A run without claims.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn nothing(dir: &StoreDir, run: &RunId) -> Result<RunClaims, StoreError> {
        Ok(RunClaims { claims: Claims::open(dir, Some(run))?, seen: Mutex::default() })
    }

    /// The other run that executes one of these attempts, if any.
    pub(crate) fn by_others(&self, dir: &StoreDir, attempts: &[Digest]) -> Result<Option<Waits>, StoreError> {
        let lasting = attempts.iter().map(Claims::detached_claim);
        let Some(claimant) = self.claims.taken(attempts.iter().copied().chain(lasting))? else { return Ok(None) };
        let run = match claimant.pid {
            Some(pid) => {
                let supervised = |run: &RunId| dir.run(run).daemon().is_some_and(|daemon| daemon.pid == Some(pid));
                let living = dir.living()?.into_iter().find(|run| run.process.pid == pid).and_then(|run| run.run);
                living.or_else(|| dir.runs().ok()?.into_iter().rev().find(supervised))
            }
            None => None,
        };
        let user = run.as_ref().and_then(|run| dir.run(run).others()).unwrap_or_default();
        Ok(Some(Waits::SharedWork { run, user, pid: claimant.pid }))
    }

    /// The other process that has claimed one of these attempts.
    pub(crate) fn taken(&self, attempts: &[Digest]) -> Result<Option<Claimant>, StoreError> {
        self.claims.taken(attempts.iter().copied())
    }

    /// The process that supervises one of these attempts after its run died.
    pub(crate) fn supervisor(&self, attempts: &[Digest]) -> Result<Option<Claimant>, StoreError> {
        self.claims.taken(attempts.iter().map(Claims::detached_claim))
    }

    /// Claims a gang that is about to start in `run`. `false` if another run executes it, or has finished it since the
    /// decision.
    pub(crate) fn claim(
        &self,
        (store, orphans): (&Store, &OrphanedWork),
        run: &RunId,
        gang: &[ClaimRequest],
    ) -> Result<bool, StoreError> {
        let attempts: Vec<Digest> = gang.iter().map(|intent| intent.attempt).collect();
        if self.claims.take(&attempts)?.is_some() {
            return Ok(false);
        }
        // The previous holder may have been killed between writing its journal and the database.
        let lives = |run: &RunId| self.claims.none_lost_by(run, &attempts);
        let news = orphans.import_deaths(store, lives).and_then(|()| {
            let is_done = |intent| self.is_done_by_others((store, orphans), run, intent);
            gang.iter().try_fold(false, |news, intent| Ok(news | is_done(intent)?))
        });
        if !matches!(news, Ok(false)) {
            self.give_back(&attempts)?;
        }
        news.map(|news| !news)
    }

    /// # Errors
    /// The claims cannot be given back.
    pub(crate) fn give_back(&self, attempts: &[Digest]) -> Result<(), StoreError> {
        self.claims.give_back(attempts)
    }

    fn is_done_by_others(
        &self,
        (store, orphans): (&Store, &OrphanedWork),
        run: &RunId,
        intent: &ClaimRequest,
    ) -> Result<bool, StoreError> {
        if intent.forced {
            return Ok(false);
        }
        let found = store.result_of(&intent.fingerprint, &intent.attempt)?;
        let Some(found) = found.filter(|found: &StepResult| found.run != *run) else { return Ok(false) };
        // It is older than the work of a dead run that this run collects.
        let followed = orphans.followed(&intent.fingerprint).or_else(|| orphans.followed(&intent.attempt));
        if followed.is_some_and(|followed| !followed.is_recorded(|| Some(found.clone()))) {
            return Ok(false);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.insert((found.fingerprint, found.run, found.ended_at)))
    }

    /// Waits, with a limit, for another run that is publishing, because two runs may have entries in one file.
    pub(crate) fn publishing(&self) -> Result<Option<Publishing<'_>>, StoreError> {
        let what = Digest::of(b"publishing");
        for _ in 0..PUBLISHING {
            if self.claims.take(&[what])?.is_none() {
                return Ok(Some(Publishing { claims: &self.claims, what }));
            }
            thread::sleep(PUBLISHES);
        }
        Ok(None)
    }
}

/// While it exists, no other run of the store publishes.
pub(crate) struct Publishing<'a> {
    claims: &'a Claims,
    what: Digest,
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        // If it cannot be given back now, the end of this process does so soon.
        let _ = self.claims.give_back(&[self.what]);
    }
}
