//! What other runs of the store do at the same time. What this run is about to start it claims before; what another one has
//! claimed is waited for, and looked up again when that claim is free: then there is a result, or it is ours to make. Knows no
//! placement and no program, and what a result is worth is decided as always.
//!
//! Claimed is an attempt, not a result: two runs that read one attempt's metrics in two ways need it once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use flow_core::{
    Digest, InstanceId, RunId, Span, StepResult, Time,
    reason::Waits,
    sched::{Answer, Event},
};
use flow_store::{Claims, Results, StoreDir, StoreError};

use super::{context::RunContext, fill::Fill, outbox::Outbox};

/// How often claims of others are looked at.
const POLL: Span = Span::from_millis(100);

/// What this run may do and others may not. Jobs ask it.
pub(crate) struct Claimed {
    claims: Claims,
    /// Results of other runs for which a start was taken back. Each is looked at once, for it may be of no use: whether it was
    /// there when its unit was decided is not told by any clock.
    seen: Mutex<BTreeSet<(Digest, RunId, u64)>>,
}

/// A unit that another run does.
pub(super) struct Unit {
    instances: Vec<InstanceId>,
    attempts: Vec<Digest>,
    who: Waits,
}

impl Claimed {
    /// Nothing yet.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn nothing(dir: &StoreDir) -> Result<Claimed, StoreError> {
        Ok(Claimed { claims: Claims::open(dir)?, seen: Mutex::default() })
    }

    /// The unit is to run: who does it already, if somebody does.
    pub(super) fn by_others(
        &self,
        dir: &StoreDir,
        instances: &[InstanceId],
        attempts: Vec<Digest>,
    ) -> Result<Option<Unit>, StoreError> {
        let Some(claimant) = self.claims.taken(attempts.iter().copied())? else { return Ok(None) };
        let run = match claimant.pid {
            Some(pid) => dir.living()?.into_iter().find(|run| run.process.pid == pid).and_then(|run| run.run),
            None => None,
        };
        let user = run.as_ref().and_then(|run| dir.run(run).others()).unwrap_or_default();
        let who = Waits::Elsewhere { run, user, pid: claimant.pid };
        Ok(Some(Unit { instances: instances.to_vec(), attempts, who }))
    }

    /// Claims a unit that is about to start; `false` where another run does it, or has done it since it was decided.
    pub(super) fn claim(&self, context: &RunContext, unit: &[Fill]) -> Result<bool, StoreError> {
        let attempts: Vec<Digest> = unit.iter().filter_map(|fill| fill.claim).collect();
        if self.claims.take(&attempts)?.is_some() {
            return Ok(false);
        }
        // Whose claim this was may have been killed between its journal and the database.
        context.store.take_in_ended().inspect_err(|_| drop(self.claims.give_back(&attempts)))?;
        let news = || unit.iter().try_fold(false, |news, fill| Ok(news | self.is_done_by_others(context, fill)?));
        let news: Result<bool, StoreError> = news();
        if !matches!(news, Ok(false)) {
            self.claims.give_back(&attempts)?;
        }
        news.map(|news| !news)
    }

    fn is_done_by_others(&self, context: &RunContext, fill: &Fill) -> Result<bool, StoreError> {
        let (Some(fingerprint), Some(attempt)) = (fill.fingerprint, fill.claim) else { return Ok(false) };
        if context.force.covers(fill.instance) {
            return Ok(false);
        }
        let news = |found: &StepResult| found.run != context.run;
        let found = match context.store.result(&fingerprint)? {
            None => context.store.of_attempt(&attempt)?,
            found => found,
        };
        let Some(found) = found.filter(news) else { return Ok(false) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.insert((found.fingerprint, found.run, found.ended_at)))
    }
}

/// What the loop keeps of it.
#[derive(Default)]
pub(super) struct Elsewhere {
    waiting: Vec<Unit>,
    /// What instances of this run have claimed.
    claimed: BTreeMap<InstanceId, Digest>,
    looked_at: Time,
    /// Of whom people were told.
    told: Vec<Waits>,
}

impl Elsewhere {
    /// Units are looked up again when the others are done with them.
    pub(super) fn wait_for(&mut self, units: Vec<Unit>, out: &mut Outbox) {
        for unit in units {
            if !self.told.contains(&unit.who) {
                self.told.push(unit.who.clone());
                let text =
                    format!("{} does some of the same steps: each is done once, and serves both", name(&unit.who));
                out.notice(None, text);
            }
            self.waiting.push(unit);
        }
    }

    /// What another run does, and which.
    pub(super) fn who(&self, instance: InstanceId) -> Option<&Waits> {
        self.waiting.iter().find(|unit| unit.instances.contains(&instance)).map(|unit| &unit.who)
    }

    /// When claims are to be looked at.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| self.looked_at + POLL)
    }

    /// Those that others are done with.
    ///
    /// # Errors
    /// The claims cannot be looked at.
    pub(super) fn free(&mut self, claimed: &Claimed, now: Time) -> Result<Vec<Vec<InstanceId>>, StoreError> {
        if self.due().is_none_or(|due| now < due) {
            return Ok(Vec::new());
        }
        self.looked_at = now;
        let mut free = Vec::new();
        for unit in std::mem::take(&mut self.waiting) {
            match claimed.claims.taken(unit.attempts.iter().copied())? {
                Some(_) => self.waiting.push(unit),
                None => free.push(unit.instances),
            }
        }
        Ok(free)
    }

    /// Nothing new starts: nobody waits for others any more.
    pub(super) fn give_up(&mut self, out: &mut Outbox) {
        for instance in std::mem::take(&mut self.waiting).into_iter().flat_map(|unit| unit.instances) {
            out.tell(Event::Answered { instance, answer: Answer::Miss });
        }
    }

    /// A unit is about to start; says whether it has to be claimed. One that is tried again still is.
    pub(super) fn starts(&mut self, unit: &[Fill]) -> bool {
        let before = self.claimed.len();
        self.claimed.extend(unit.iter().filter_map(|fill| Some((fill.instance, fill.claim?))));
        self.claimed.len() > before
    }

    /// It could not be claimed.
    pub(super) fn taken_back(&mut self, instance: InstanceId) {
        self.claimed.remove(&instance);
    }

    /// An instance is settled, and what it came to is in the store: others may have it.
    ///
    /// # Errors
    /// The claim cannot be given back.
    pub(super) fn settled(&mut self, claimed: &Claimed, instance: InstanceId) -> Result<(), StoreError> {
        match self.claimed.remove(&instance) {
            Some(attempt) => claimed.claims.give_back(&[attempt]),
            None => Ok(()),
        }
    }
}

fn name(who: &Waits) -> String {
    match who {
        Waits::Elsewhere { run: Some(run), user, .. } if user.is_empty() => format!("run {run}"),
        Waits::Elsewhere { run: Some(run), user, .. } => format!("run {run} of {user}"),
        Waits::Elsewhere { pid: Some(pid), .. } => format!("another flow (process {pid})"),
        _ => "another flow, in another container,".to_owned(),
    }
}
