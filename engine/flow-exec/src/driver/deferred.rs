//! What other runs of the store do at the same time: units of this run that wait for them, to be looked up again when their claims
//! are free: then there is a result, or it is ours to make. Knows no placement and no program.

use std::collections::BTreeMap;

use flow_core::{
    Digest, InstanceId, Span, Time,
    reason::Waits,
    sched::{Answer, Event},
};
use flow_store::StoreError;

use super::{context::RunContext, fill::Fill, outbox::Outbox, run_claims::RunClaims};
use crate::hardware::ledger::Follows;

/// How often claims of others are looked at.
const POLL: Span = Span::from_millis(100);

/// A unit that another run does.
pub(super) struct DeferredUnit {
    pub(super) instances: Vec<InstanceId>,
    pub(super) attempts: Vec<Digest>,
    pub(super) who: Waits,
}

/// The units that wait, and what this run has claimed itself.
#[derive(Default)]
pub(super) struct DeferredUnits {
    waiting: Vec<DeferredUnit>,
    /// Since when those wait that nobody has a claim of.
    waits_since: Time,
    /// What instances of this run have claimed.
    claimed: BTreeMap<InstanceId, Digest>,
    looked_at: Time,
    /// Of whom people were told.
    told: Vec<Waits>,
}

impl DeferredUnits {
    /// Units are looked up again when the others are done with them.
    pub(super) fn wait_for(&mut self, units: Vec<DeferredUnit>, out: &mut Outbox) {
        for unit in units {
            self.tell(&unit.who, out);
            self.waiting.push(unit);
        }
    }

    fn tell(&mut self, who: &Waits, out: &mut Outbox) {
        if !self.told.contains(who) {
            self.told.push(who.clone());
            let text = match who {
                Waits::Job { run, user } => format!(
                    "jobs of run {run} of {user}, which does not live any more, do some of the same steps: they are waited for"
                ),
                who => format!("{} does some of the same steps: each is done once, and serves both", name(who)),
            };
            out.notice(None, text);
        }
    }

    /// What another run does, and which.
    pub(super) fn who(&self, instance: InstanceId) -> Option<&Waits> {
        self.waiting.iter().find(|unit| unit.instances.contains(&instance)).map(|unit| &unit.who)
    }

    /// The first that another run does, for all on this machine to see.
    pub(super) fn follows(&self, context: &RunContext) -> Option<Follows> {
        let unit = self.waiting.first()?;
        let label = context.secrets.hide(context.instance(*unit.instances.first()?).label.to_string());
        let run =
            if let Waits::Elsewhere { run, .. } = &unit.who { run.as_ref().map(ToString::to_string) } else { None };
        Some(Follows { label, run })
    }

    /// When claims are to be looked at.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| self.looked_at + POLL)
    }

    /// Those that others are done with.
    ///
    /// # Errors
    /// The claims cannot be looked at.
    pub(super) fn free(
        &mut self,
        context: &RunContext,
        now: Time,
        out: &mut Outbox,
    ) -> Result<Vec<Vec<InstanceId>>, StoreError> {
        if self.due().is_none_or(|due| now < due) {
            return Ok(Vec::new());
        }
        self.looked_at = now;
        let ask = now - self.waits_since >= context.session.expansion.slurm.poll;
        if ask {
            self.waits_since = now;
        }
        let mut free = Vec::new();
        for mut unit in std::mem::take(&mut self.waiting) {
            let claimed = &context.claimed;
            let taken = claimed.taken(&unit.attempts)?;
            if taken.is_none() {
                context.left.look_for_deaths(|_| false);
            }
            let forced = unit.instances.iter().any(|id| context.force.covers(*id));
            let claimant = match taken {
                // What goes on since its run died is joined.
                None if forced || !context.left.goes_on(&unit.attempts) => claimed.kept(&unit.attempts)?,
                taken => taken,
            };
            let Some(claimant) = claimant else {
                if matches!(unit.who, Waits::Job { .. }) && !ask {
                    self.waiting.push(unit);
                } else {
                    free.push(unit.instances);
                }
                continue;
            };
            // Whose it was may have ended, and a third have been quicker than this run.
            let before = if let Waits::Elsewhere { pid, .. } = &unit.who { *pid } else { None };
            if claimant.pid != before
                && let Some(who) = claimed.by_others(context.store.dir(), &unit.attempts)?
            {
                self.tell(&who, out);
                unit.who = who;
            }
            self.waiting.push(unit);
        }
        if !free.is_empty() {
            context.theirs.look_again();
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
    pub(super) fn settled(&mut self, claimed: &RunClaims, instance: InstanceId) -> Result<(), StoreError> {
        match self.claimed.remove(&instance) {
            Some(attempt) => claimed.give_back(&[attempt]),
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
