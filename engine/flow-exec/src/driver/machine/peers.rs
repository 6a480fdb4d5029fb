//! The other runs of this machine. Before a decision, a run reads their resources and waiting steps and passes them to the
//! scheduler. It writes its own state before another run decides. Holds no scheduling rule.
//!
//! A run that is alone reads one short file per decision, and writes to it when its resources change. If the ledger is
//! unusable, the run says so once and continues as if it were alone. If another run was stopped during a decision, this
//! one continues alone after some seconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    time::Duration,
};

use flow_core::{
    Circumstances, GpuFacts, GpuId, InstanceId, Span, Time,
    reason::{Labels, PeerConflict},
    sched::{BlockedGang, GpuHolders, Head, PeerLoad, PeerRun, QueuePosition, Scheduler, Shift},
};
use flow_runs::ProcessIdentity;
use flow_supervisor::{
    clock,
    hardware::{
        self,
        ledger::{FollowingGang, Jobs, Ledger, LedgerView, Slot, Waiter, ledger_name},
    },
};

/// The load of other runs on this machine, as last seen.
#[derive(Default)]
pub(crate) struct OtherRuns {
    pub(crate) attempts: u32,
    /// There may be other runs that flow cannot see.
    pub(crate) unwatched: bool,
}

impl OtherRuns {
    /// That they are there is a circumstance of an attempt.
    pub(crate) fn note(&self, circumstances: &mut Circumstances, measured: bool) {
        circumstances.other_attempts = circumstances.other_attempts.max(self.attempts);
        circumstances.unwatched |= self.unwatched && measured;
    }
}

/// The longest and the first interval between looks for room. Short steps would otherwise leave the machine idle.
const LOOK: Span = Span::from_millis(300);
const FIRST_LOOK: Span = Span::from_millis(3);
/// Of the time that something has waited, one part in so many passes until the next look.
const PATIENCE: u64 = 8;
/// How often a run without others looks for what only time changes: who has lost patience.
const ALONE: Span = Span::from_millis(1_000);
/// How soon it is tried again while somebody else decides.
const AGAIN: Duration = Duration::from_millis(2);
/// Nobody takes longer to decide who was not stopped.
const STUCK: Span = Span::from_millis(5_000);
/// How often who waits says that it still does,
const BEAT: Span = Span::from_millis(2_000);
/// and how long it counts after it has said so.
const STALE: Span = Span::from_millis(10_000);
/// How often a measured attempt's run looks whether it is as alone as it should be.
const WATCH: Span = Span::from_millis(1_000);

/// The other runs of a machine.
pub(crate) struct PeerRuns {
    /// None where it is of no use, or what is executed is not on this machine.
    ledger: Option<Ledger>,
    /// Others may be there whom we do not see, nor they us.
    blind: bool,
    own: Slot,
    /// The names of our GPUs.
    gpu_names: Vec<String>,
    /// When the run's clock began, milliseconds since 1970.
    zero: u64,
    seen: LedgerView,
    reported: PeerLoad,
    shift: Shift,
    /// When each that waits was first seen to have said so, by slot.
    beats: BTreeMap<u32, (u32, Time)>,
    busy_since: Option<Time>,
    /// So long that nobody waits for it any more.
    stuck: bool,
    decided_at: Time,
    watched_at: Time,
    beat_at: Time,
    lent: bool,
    shown: BTreeSet<String>,
}

impl PeerRuns {
    /// `shared` where what is executed runs on this machine.
    pub(crate) fn new(run: &str, workflow: &str, gpus: &[GpuFacts], shared: bool, now: Time) -> PeerRuns {
        let process = ProcessIdentity::own();
        PeerRuns {
            ledger: shared.then(Ledger::of_machine),
            blind: false,
            own: Slot {
                run: run.to_owned(),
                person: hardware::person(),
                workflow: workflow.to_owned(),
                pid: process.pid,
                process_start: process.started,
                ..Slot::default()
            },
            gpu_names: gpus.iter().map(|gpu| ledger_name(&gpu.uuid)).collect(),
            zero: clock::unix_millis().saturating_sub(now.0 / 1_000),
            seen: LedgerView::default(),
            reported: PeerLoad::default(),
            shift: Shift::default(),
            beats: BTreeMap::new(),
            busy_since: None,
            stuck: false,
            decided_at: Time(0),
            watched_at: Time(0),
            beat_at: Time(0),
            lent: false,
            shown: BTreeSet::new(),
        }
    }

    /// Whether a decision is due, though nothing happened that calls for one.
    pub(crate) fn is_due(&self, now: Time, scheduler: &Scheduler) -> bool {
        scheduler.could_start() && now - self.decided_at >= self.pause(now, scheduler)
    }

    fn pause(&self, now: Time, scheduler: &Scheduler) -> Span {
        match scheduler.held_up() {
            Some(held_up) => {
                // Who is first in order is waited for by everybody.
                let patience = if self.reported.is_first() { 8 * PATIENCE } else { PATIENCE };
                Span(((now - held_up.since).0 / patience).clamp(FIRST_LOOK.0, LOOK.0))
            }
            None if self.reported.runs > 0 => LOOK,
            None => ALONE,
        }
    }

    /// How long the loop may sleep: until others may have made room, or until who decides has decided.
    pub(crate) fn sleep(&self, now: Time, scheduler: &Scheduler) -> Option<Duration> {
        if self.is_busy() {
            return Some(AGAIN);
        }
        let next = self.decided_at + self.pause(now, scheduler);
        (self.reported.runs > 0 && scheduler.could_start()).then(|| Duration::from_micros((next - now).0))
    }

    /// Somebody else decides, and a decision of ours waits for that.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy_since.is_some() && !self.stuck
    }

    /// Before a decision: who else is there, and who has GPUs; `None` while somebody else decides. What there is to say comes
    /// with it.
    pub(crate) fn open(
        &mut self,
        now: Time,
        scheduler: &Scheduler,
        holders: &GpuHolders,
    ) -> (Option<PeerLoad>, Vec<String>) {
        let mut say = Vec::new();
        let mut without = None;
        match self.ledger.as_mut().map(Ledger::enter) {
            None => {}
            Some(Ok(true)) => (self.busy_since, self.stuck, self.blind) = (None, false, false),
            Some(Ok(false)) => {
                let since = *self.busy_since.get_or_insert(now);
                if now - since < STUCK {
                    return (None, say);
                }
                self.blind = true;
                let first = !std::mem::replace(&mut self.stuck, true);
                self.seen = self.ledger.as_mut().and_then(|ledger| ledger.look().ok()).unwrap_or_default();
                let who = self.seen.runs.iter().map(|(_, slot)| format!("process {}, {}", slot.pid, name_of(slot)));
                let who: Vec<String> = who.take(3).collect();
                let who = if who.is_empty() { String::new() } else { format!(", maybe {}", who.join(", or ")) };
                say.extend(first.then(|| format!(
                    "another run of this machine{who} was stopped while it decided what to start; this run continues without it, so steps of both may run at the same time; `kill -CONT PID` resumes a process"
                )));
            }
            Some(Err(why)) => without = Some(why),
        }
        if let Some(ledger) = self.ledger.as_mut().filter(|_| without.is_none()) {
            match ledger.look() {
                Ok(seen) => self.seen = seen,
                Err(error) => without = Some(error.to_string()),
            }
        }
        if let Some(why) = without {
            say.push(format!("this run and other runs of this machine do not see each other: {why}"));
            (self.ledger, self.busy_since, self.blind, self.seen) = (None, None, true, LedgerView::default());
            self.stuck = false;
        }
        if !self.seen.nonsense.is_empty() {
            say.push(
                "a run of this machine writes entries that this flow does not understand; it is ignored".to_owned(),
            );
        }
        self.decided_at = now;
        let peers = self.peer_runs(now);
        let mut others = if peers.is_empty() {
            // Nobody is to be told apart from us, and our own place takes a look at all that waits.
            PeerLoad::on(holders)
        } else {
            PeerLoad::facing(self.turn(now, scheduler), &peers, holders)
        };
        let holds = scheduler.holding();
        others.leave(&self.shift.available(now, &holds), &holds, &scheduler.all());
        self.reported.clone_from(&others);
        say.retain(|text| self.shown.insert(text.clone()));
        (Some(others), say)
    }

    /// Our place in the order of all.
    fn turn(&self, now: Time, scheduler: &Scheduler) -> QueuePosition {
        let run = self.ledger.as_ref().and_then(Ledger::own).unwrap_or(u32::MAX);
        match scheduler.held_up() {
            Some(BlockedGang { priority, since, .. }) => QueuePosition::new(priority, self.unix(since), run),
            None => QueuePosition::new(scheduler.highest_priority(), self.unix(now), run),
        }
    }

    /// The others, without the places of those that do not look any more whether there is room.
    fn peer_runs(&mut self, now: Time) -> Vec<PeerRun> {
        let mut beats = BTreeMap::new();
        let mut peers = Vec::new();
        for (run, slot) in &self.seen.runs {
            let head = slot.waits.as_ref().filter(|waits| {
                let before = self.beats.get(run).filter(|(beat, _)| *beat == waits.beat);
                let at = before.map_or(now, |(_, at)| *at);
                beats.insert(*run, (waits.beat, at));
                now - at < STALE
            });
            let ours = |waits: &Waiter| {
                let named = (0..).map(GpuId).zip(&self.gpu_names).filter(|(_, name)| waits.gpus.contains(name));
                named.map(|(id, _)| id).collect()
            };
            let head = head.map(|waits| Head {
                since: waits.since,
                priority: waits.priority,
                request: waits.request,
                gpus: ours(waits),
            });
            peers.push(PeerRun { run: *run, holds: slot.holds, head });
        }
        self.beats = beats;
        peers
    }

    /// What others have beside ours, as last seen.
    pub(crate) fn others(&self) -> OtherRuns {
        let attempts = self.seen.runs.iter().fold(0, |sum: u32, (_, slot)| sum.saturating_add(slot.holds.attempts));
        OtherRuns { attempts, unwatched: self.blind }
    }

    /// After a decision, by which something was `started` or not: says how we stand, and lets others decide. A descriptor comes back, once, that keeps our place as long as
    /// anything has it that we start.
    pub(crate) fn close(
        &mut self,
        now: Time,
        scheduler: &Scheduler,
        started: bool,
        label: impl Fn(InstanceId) -> String,
    ) -> Option<(OwnedFd, u32)> {
        self.ledger.as_ref()?;
        let held_up = scheduler.held_up();
        let mut beat = self.own.waits.as_ref().map_or(0, |waits| waits.beat);
        if held_up.is_some() && now - self.beat_at >= BEAT {
            self.beat_at = now;
            beat = beat.wrapping_add(1);
        }
        let waits = held_up.map(|held_up| Waiter {
            label: label(held_up.gang),
            since: self.unix(held_up.since),
            priority: held_up.priority,
            request: held_up.request,
            gpus: if held_up.request.gpus > 0 { self.gpu_names.clone() } else { Vec::new() },
            beat,
        });
        let holds = scheduler.holding();
        if started {
            self.shift.started(now, holds);
        }
        (self.own.holds, self.own.waits) = (holds, waits);
        let ledger = self.ledger.as_mut()?;
        // What cannot be written is tried again with the next decision; until then others believe what was there.
        self.blind |= ledger.write(&self.own).is_err();
        ledger.leave();
        if std::mem::replace(&mut self.lent, true) { None } else { ledger.life().zip(ledger.own()) }
    }

    /// Says how much of ours a batch system has, and what another run does, which is news for people alone.
    pub(crate) fn publish(&mut self, jobs: Jobs, follows: Option<FollowingGang>) {
        let Some(ledger) = &mut self.ledger else { return };
        let is_new = (self.own.jobs, &self.own.follows) != (jobs, &follows);
        // Who has nothing to decide yet has no place either; another one decides for a moment only.
        let has_place = ledger.own().is_some();
        if !has_place && follows.is_some() && ledger.enter() == Ok(true) {
            ledger.leave();
        } else if !is_new || !has_place {
            return;
        }
        (self.own.jobs, self.own.follows) = (jobs, follows);
        // What cannot be written now is written with the next decision.
        let _ = ledger.write(&self.own);
    }

    /// While something measured runs: looks now and then how many attempts of others do, though nobody decides anything.
    pub(crate) fn watch(&mut self, now: Time, at_once: bool) {
        if let Some(ledger) = self.ledger.as_mut().filter(|_| at_once || now - self.watched_at >= WATCH) {
            self.watched_at = now;
            // Where the file was removed we join those who made it anew, who did not see us.
            if ledger.enter() == Ok(true) {
                self.blind |= ledger.write(&self.own).is_err();
                ledger.leave();
            }
            if let Ok(seen) = ledger.look() {
                self.seen = seen;
            }
        }
    }

    /// Now and then: sees to the file.
    pub(crate) fn keep(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.keep();
        }
    }

    /// Who keeps something of ours from starting in this way.
    pub(crate) fn who(&self, how: PeerConflict) -> Option<Labels> {
        self.named(|slot| match how {
            PeerConflict::Exclusive => slot.holds.exclusive,
            PeerConflict::Running => slot.holds.attempts > 0,
            PeerConflict::Ahead => slot.waits.is_some(),
        })
    }

    /// Who holds CPUs or memory, or waits for some.
    pub(crate) fn holders(&self) -> Option<Labels> {
        self.named(|slot| slot.holds.attempts > 0 || slot.waits.is_some())
    }

    fn named(&self, which: impl Fn(&Slot) -> bool) -> Option<Labels> {
        let runs = self.seen.runs.iter().filter(|(_, slot)| which(slot));
        Labels::of(runs.map(|(_, slot)| name_of(slot)))
    }

    fn unix(&self, at: Time) -> u64 {
        self.zero.saturating_add(at.0 / 1_000)
    }
}

/// A run, for people.
fn name_of(slot: &Slot) -> String {
    format!("run {} ({}) of {}", slot.run, slot.workflow, slot.person)
}
