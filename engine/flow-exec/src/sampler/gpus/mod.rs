//! The GPUs seen from outside: one thread that asks NVIDIA's library, ten times a second while an attempt holds a card and once a
//! second while somebody waits for one; less often where the answers cost more than a share of a core (in some virtual machines
//! each takes a millisecond). Knows cards and attempts; what counts as an epoch, and who may start, is the caller's.

mod card;

use std::{
    collections::BTreeMap,
    io,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use flow_core::{AttemptId, GpuFacts, Stranger};

use super::{GpuSamples, owners::Owners};
use crate::{clock, nvml::Library};
use card::{Holder, OneCard};

/// How often cards are looked at that an attempt of ours holds.
const EVERY: Duration = Duration::from_millis(100);
/// How often the others are, and what changes slowly.
const SLOWLY: Duration = Duration::from_secs(1);
/// The share of one core that looking may take, over many rounds.
const SHARE: f64 = 0.005;
/// A card that takes longer to answer is silent: nothing is to be started on it until it does.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a card stands, less what attempts of ours hold of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// It is not lost.
    pub alive: bool,
    /// It has not answered for a while. What runs on it may still go on.
    pub silent: bool,
    /// Memory that programs can have at all, bytes: less what the driver keeps for itself. 0 where it was not told.
    pub usable: u64,
    /// Memory that is not free and not ours, bytes: of strangers, of a desktop, of the driver itself.
    pub others: u64,
    /// Compute processes that are not ours.
    pub strangers: Vec<Stranger>,
}

/// The running sampler of GPUs. Dropping it ends the thread, unless a sick card holds it: nobody waits for that.
#[derive(Debug)]
pub struct GpuSampler {
    shared: Arc<Shared>,
    cards: Vec<GpuFacts>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// A round is over.
    looked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tracked: BTreeMap<AttemptId, Tracked>,
    standing: Vec<Standing>,
    /// Somebody waits for a card.
    watched: bool,
    /// Somebody wants to know at once.
    asked: bool,
    /// Rounds that are over, and whether one is under way.
    rounds: u64,
    in_round: bool,
    /// The card that is being asked, and since when.
    asking: Option<(usize, Instant)>,
    cpu: Duration,
    trouble: Option<String>,
    stop: bool,
}

#[derive(Debug)]
struct Tracked {
    keeper: u32,
    holds: Vec<Holder>,
    samples: GpuSamples,
    since: Instant,
    cpu: Duration,
}

impl GpuSampler {
    /// Starts the thread for the GPUs that flow may use, and waits until each was looked at once.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(cards: &[GpuFacts]) -> io::Result<GpuSampler> {
        let shared = Arc::new(Shared::default());
        let alive = Standing { alive: true, ..Standing::default() };
        shared.lock().standing = vec![alive; cards.len()];
        let (theirs, facts) = (Arc::clone(&shared), cards.to_vec());
        thread::Builder::new().name("gpus".into()).spawn(move || {
            // Whatever becomes of this thread, nobody waits for it, and no step is ended because of it.
            let ended = panic::catch_unwind(AssertUnwindSafe(|| theirs.run(&facts)));
            let mut state = theirs.lock();
            if ended.is_err() {
                state.trouble = Some("GPUs are not measured any more, by a fault of flow; please report it".to_owned());
            }
            state.asking = None;
            theirs.looked.notify_all();
        })?;
        let sampler = GpuSampler { shared, cards: cards.to_vec() };
        sampler.look_now();
        Ok(sampler)
    }

    /// Looks at all cards at once, and waits for that as long as one may take to answer.
    pub fn look_now(&self) {
        let mut state = self.shared.lock();
        // A round that has begun may have passed the card already.
        let enough = state.rounds + if state.in_round { 2 } else { 1 };
        let begun = clock::steady();
        while state.rounds < enough && state.trouble.is_none() {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            state.asked = true;
            self.shared.wake.notify_all();
            state = self.shared.looked.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.asked = false;
    }

    /// Whether somebody waits for a card, so that all are looked at once a second.
    pub fn watch(&self, watched: bool) {
        let mut state = self.shared.lock();
        if state.watched != watched {
            state.watched = watched;
            self.shared.wake.notify_all();
        }
    }

    /// Follows an attempt on cards, by their place in the list, from before its start.
    pub fn track(&self, attempt: AttemptId, keeper: u32, cards: &[usize]) {
        let uuids = cards.iter().filter_map(|card| Some(self.cards.get(*card)?.uuid.clone()));
        let samples = GpuSamples::since(clock::unix_seconds(), uuids);
        let mut state = self.shared.lock();
        let holds = cards.iter().map(|card| Holder::new(*card)).collect();
        let tracked = Tracked { keeper, holds, samples, since: clock::steady(), cpu: state.cpu };
        state.tracked.insert(attempt, tracked);
        self.shared.wake.notify_all();
    }

    /// What was seen of an attempt, which is not followed any more, and the share of one core that seeing it took.
    pub fn untrack(&self, attempt: AttemptId) -> (GpuSamples, f64) {
        let mut state = self.shared.lock();
        let Some(tracked) = state.tracked.remove(&attempt) else { return Default::default() };
        let took = tracked.since.elapsed().as_secs_f64();
        let cpu = state.cpu.saturating_sub(tracked.cpu).as_secs_f64();
        (tracked.samples, if took > 0.0 { cpu / took } else { 0.0 })
    }

    /// Memory of a followed attempt on each of its cards, bytes; nothing where it cannot be told from that of others.
    pub fn memory(&self, attempt: AttemptId) -> Option<Vec<u64>> {
        let state = self.shared.lock();
        let tracked = state.tracked.get(&attempt)?;
        (!tracked.samples.unverified()).then(|| tracked.samples.memory_now())
    }

    /// How the cards stand, in the order of the list.
    pub fn standing(&self) -> Vec<Standing> {
        let state = self.shared.lock();
        let mut standing = state.standing.clone();
        if let Some((card, since)) = state.asking
            && since.elapsed() > PATIENCE
            && let Some(hung) = standing.get_mut(card)
        {
            hung.silent = true;
        }
        standing
    }

    /// Why nothing can be seen, if that is so.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }
}

impl Drop for GpuSampler {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The maps are sound after any panic: entries are only put in and taken out whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, facts: &[GpuFacts]) {
        let library = match Library::open() {
            Ok(library) => library,
            Err(closed) => {
                self.lock().trouble = Some(format!("GPUs cannot be measured: {}", closed.words()));
                return;
            }
        };
        let mut cards: Vec<OneCard<'_>> = facts.iter().map(|facts| OneCard::new(&library, facts)).collect();
        let mut owners = Owners::new();
        let (mut cost, mut spent) = (0.0, clock::thread_cpu());
        loop {
            let begun = clock::steady();
            let often = EVERY.max(Duration::from_secs_f64(cost / SHARE)).min(SLOWLY);
            let slowly = SLOWLY.max(often * 10);
            let mut state = self.lock();
            if state.stop {
                return;
            }
            let asked = std::mem::take(&mut state.asked);
            let held: Vec<bool> =
                (0..cards.len()).map(|n| state.tracked.values().any(|t| t.holds.iter().any(|h| h.card == n))).collect();
            let new: Vec<bool> = (0..cards.len())
                .map(|n| state.tracked.values().any(|t| t.holds.iter().any(|h| h.card == n && !h.is_seen())))
                .collect();
            let busy = held.contains(&true);
            if !asked && !busy && !state.watched {
                drop(self.wake.wait(state).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            state.in_round = true;
            drop(state);
            let due = |n: usize, card: &OneCard<'_>| !card.rests() && (asked || held[n] || card.is_due(slowly));
            for (n, card) in cards.iter_mut().enumerate().filter(|(n, card)| due(*n, card)) {
                // What begins needs to be compared with how things stood before it.
                let slow = card.is_due(slowly) || new[n];
                self.look(n, card, &mut owners, held[n], slow);
            }
            owners.keep(|pid| cards.iter().any(|card| card.has(pid)));
            let cpu = clock::thread_cpu();
            // Rounds differ, for some things are asked in some of them only.
            cost += (cpu.saturating_sub(spent).as_secs_f64() - cost) / 8.0;
            spent = cpu;
            let mut state = self.lock();
            state.cpu = cpu;
            (state.rounds, state.in_round) = (state.rounds + 1, false);
            self.looked.notify_all();
            let pause = if busy { often } else { SLOWLY };
            while !state.stop && !state.asked {
                let left = pause.saturating_sub(begun.elapsed());
                // An attempt that begins is looked at before it has taken anything.
                let new = |h: &Holder| !h.is_seen() && cards.get(h.card).is_some_and(|card| !card.rests());
                if left.is_zero() || state.tracked.values().flat_map(|t| &t.holds).any(new) {
                    break;
                }
                state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn look(&self, n: usize, card: &mut OneCard<'_>, owners: &mut Owners, held: bool, slowly: bool) {
        let keeper = {
            let mut state = self.lock();
            state.asking = Some((n, clock::steady()));
            state.tracked.values().map(|tracked| tracked.keeper).next()
        };
        let seen = card.look(owners, keeper, held, slowly);
        let mut state = self.lock();
        let took = state.asking.take().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        // While one card keeps the thread waiting nobody looks at the others.
        card.rest_after(took);
        let Some(seen) = seen else {
            if let Some(standing) = state.standing.get_mut(n) {
                standing.alive = false;
            }
            // It will not be there before it is lost.
            state.tracked.values_mut().flat_map(|t| &mut t.holds).filter(|h| h.card == n).for_each(Holder::give_up);
            return;
        };
        let mut ours = 0u64;
        for (attempt, tracked) in &mut state.tracked {
            for (place, hold) in tracked.holds.iter_mut().enumerate().filter(|(_, hold)| hold.card == n) {
                let of = hold.part(*attempt, &seen, owners.sees_all);
                ours = if of.unverified { ours.max(of.memory) } else { ours.saturating_add(of.memory) };
                tracked.samples.push(place, of);
            }
        }
        if let Some(standing) = state.standing.get_mut(n) {
            *standing = Standing {
                alive: true,
                silent: false,
                usable: seen.usable,
                others: seen.taken.saturating_sub(ours),
                strangers: seen.strangers(owners.sees_all || held),
            };
        }
    }
}
