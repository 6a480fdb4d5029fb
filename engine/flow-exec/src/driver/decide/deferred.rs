//! Gangs that other runs of the store execute. They wait until the others' claims are free and are then looked up
//! again: either there is a result, or this run makes it. Knows no placement and no program.

use std::collections::BTreeMap;

use flow_core::{
    Digest, InstanceId, Span, Time,
    reason::Waits,
    sched::{Answer, Event},
};
use flow_runs::StoreError;
use flow_supervisor::hardware::ledger::FollowingGang;

use crate::driver::{
    begin::{context::RunContext, fill::Fill, run_claims::RunClaims},
    updates::outbox::Outbox,
};

/// Interval between two looks at the claims of other runs.
const POLL: Span = Span::from_millis(100);

/// A gang that another run executes.
pub(crate) struct DeferredGang {
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) attempts: Vec<Digest>,
    pub(crate) who: Waits,
}

/// The waiting gangs, and the claims of this run.
#[derive(Default)]
pub(crate) struct DeferredGangs {
    waiting: Vec<DeferredGang>,
    /// The claims that instances of this run hold.
    claimed: BTreeMap<InstanceId, Digest>,
    looked_at: Time,
    /// Waits that were shown to the user.
    shown: Vec<Waits>,
}

impl DeferredGangs {
    /// Defers gangs until the other runs have finished them.
    pub(crate) fn wait_for(&mut self, gangs: Vec<DeferredGang>, out: &mut Outbox) {
        for gang in gangs {
            self.show(&gang.who, out);
            self.waiting.push(gang);
        }
    }

    fn show(&mut self, who: &Waits, out: &mut Outbox) {
        if !self.shown.contains(who) {
            self.shown.push(who.clone());
            let text = format!("{} does some of the same steps: each runs once, for both runs", name(who));
            out.notice(None, text);
        }
    }

    /// The other run's work that an instance waits for.
    pub(crate) fn who(&self, instance: InstanceId) -> Option<&Waits> {
        self.waiting.iter().find(|gang| gang.instances.contains(&instance)).map(|gang| &gang.who)
    }

    /// The first gang that waits for another run, to be shown to everybody on this machine.
    pub(crate) fn follows(&self, context: &RunContext) -> Option<FollowingGang> {
        let gang = self.waiting.first()?;
        let label = context.secrets.hide(context.instance(*gang.instances.first()?).label.to_string());
        let run =
            if let Waits::SharedWork { run, .. } = &gang.who { run.as_ref().map(ToString::to_string) } else { None };
        Some(FollowingGang { label, run })
    }

    /// When to look at the claims again.
    pub(crate) fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| self.looked_at + POLL)
    }

    /// The gangs that other runs have finished.
    ///
    /// # Errors
    /// The claims cannot be looked at.
    pub(crate) fn free(
        &mut self,
        context: &RunContext,
        now: Time,
        out: &mut Outbox,
    ) -> Result<Vec<Vec<InstanceId>>, StoreError> {
        if self.due().is_none_or(|due| now < due) {
            return Ok(Vec::new());
        }
        self.looked_at = now;
        let mut free = Vec::new();
        for mut gang in std::mem::take(&mut self.waiting) {
            let claimed = &context.claimed;
            let taken = claimed.taken(&gang.attempts)?;
            if taken.is_none() {
                context.orphans.look_for_deaths(|_| false);
            }
            let claimant = match taken {
                // An attempt whose run died is joined.
                None if !context.orphans.are_here(&gang.attempts) => claimed.supervisor(&gang.attempts)?,
                taken => taken,
            };
            let Some(claimant) = claimant else {
                free.push(gang.instances);
                continue;
            };
            // The earlier holder may have ended, and a third run may have claimed it before this one.
            let before = if let Waits::SharedWork { pid, .. } = &gang.who { *pid } else { None };
            if claimant.pid != before
                && let Some(who) = claimed.by_others(context.store.dir(), &gang.attempts)?
            {
                self.show(&who, out);
                gang.who = who;
            }
            self.waiting.push(gang);
        }
        Ok(free)
    }

    /// Nothing new starts: answers all waiting instances with a miss.
    pub(crate) fn give_up(&mut self, out: &mut Outbox) {
        for instance in std::mem::take(&mut self.waiting).into_iter().flat_map(|gang| gang.instances) {
            out.push(Event::Answered { instance, answer: Answer::Miss });
        }
    }

    /// A gang is about to start: returns whether it must be claimed first. A retry already has its claim.
    pub(crate) fn starts(&mut self, gang: &[Fill]) -> bool {
        let before = self.claimed.len();
        self.claimed.extend(gang.iter().map(|fill| (fill.instance, fill.claim)));
        self.claimed.len() > before
    }

    /// The gang could not be claimed.
    pub(crate) fn taken_back(&mut self, instance: InstanceId) {
        self.claimed.remove(&instance);
    }

    /// An instance is settled and its result is in the store: gives the claim back.
    ///
    /// # Errors
    /// The claim cannot be given back.
    pub(crate) fn settled(&mut self, claimed: &RunClaims, instance: InstanceId) -> Result<(), StoreError> {
        match self.claimed.remove(&instance) {
            Some(attempt) => claimed.give_back(&[attempt]),
            None => Ok(()),
        }
    }
}

fn name(who: &Waits) -> String {
    match who {
        Waits::SharedWork { run: Some(run), user, .. } if user.is_empty() => format!("run {run}"),
        Waits::SharedWork { run: Some(run), user, .. } => format!("run {run} of {user}"),
        Waits::SharedWork { pid: Some(pid), .. } => format!("another flow (process {pid})"),
        _ => "another flow, in another container,".to_owned(),
    }
}
