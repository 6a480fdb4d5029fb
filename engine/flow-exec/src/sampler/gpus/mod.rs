//! The GPUs seen from outside: a thread a card, for one that hangs must not blind flow to the others. Each asks NVIDIA's library ten
//! times a second while an attempt holds its card and once a second while somebody waits for one; less often where the answers of all
//! cost more than a share of a core (in some virtual machines each takes a millisecond). Knows cards and attempts; what counts as an
//! epoch, and who may start, is the caller's.

mod card;

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use flow_core::{
    AttemptId, GpuFacts, Stranger,
    measure::{GpuSamples, Known},
};
use tokio::sync::Notify;

use super::{owners::Owners, share};
use crate::{clock, nvml::Library};
use card::{CardScan, Holder, OneCard};

/// How often cards are looked at that an attempt of ours holds.
const EVERY: Duration = Duration::from_millis(100);
/// How often the others are, and what changes slowly.
const SLOWLY: Duration = Duration::from_secs(1);
/// The share of one core that looking may take, at all cards together, over many looks.
const SHARE: f64 = 0.005;
/// A card that takes longer to answer is silent: nothing is to be started on it until it does.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a card stands, less what attempts of ours hold of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CardStatus {
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

/// The running sampler of GPUs. Dropping it ends the threads, unless a sick card holds one: nobody waits for that.
#[derive(Debug)]
pub struct GpuSampler {
    shared: Arc<Shared>,
    cards: Vec<GpuFacts>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<GpuSamplerState>,
    wake: Condvar,
    /// A look at a card is over: for who stands still meanwhile, and for who does not.
    looked: Condvar,
    told: Notify,
}

/// A look at cards that was asked for.
#[derive(Debug)]
pub struct Asked {
    /// Which looks at which cards begin after it was.
    looks: BTreeMap<usize, u64>,
    since: Instant,
}

impl Asked {
    pub fn is_of(&self, card: usize) -> bool {
        self.looks.contains_key(&card)
    }
}

#[derive(Debug, Default)]
struct GpuSamplerState {
    tracked: BTreeMap<AttemptId, Tracked>,
    cards: Vec<CardState>,
    /// Somebody waits for a card.
    watched: bool,
    /// The driver tells ids of processes that mean here what it means.
    sees_all: bool,
    trouble: Option<String>,
    stop: bool,
}

/// What the thread of a card and everybody else tell each other.
#[derive(Debug, Default)]
struct CardState {
    standing: CardStatus,
    /// Somebody wants to know at once.
    asked: bool,
    /// Looks that have begun, and those that are over.
    begun: u64,
    over: u64,
    /// It is being asked since then; from the start on, until it has answered once.
    asking: Option<Instant>,
    /// CPU time of a look, over the last ones, seconds.
    cost: f64,
    /// CPU time of the thread.
    cpu: Duration,
}

#[derive(Debug)]
struct Tracked {
    keeper: u32,
    holds: Vec<Holder>,
    samples: GpuSamples,
    since: Instant,
    cpu: Duration,
}

impl Tracked {
    fn cost(&self, cpu: Duration) -> f64 {
        share(cpu.saturating_sub(self.cpu), self.since)
    }
}

impl GpuSampler {
    /// Starts the threads for the GPUs that flow may use, and waits until each was looked at once.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(cards: &[GpuFacts]) -> io::Result<GpuSampler> {
        let (sampler, first) = GpuSampler::begin(cards)?;
        sampler.wait_for(&first);
        Ok(sampler)
    }

    /// The same, with the first look at all of them on its way.
    ///
    /// # Errors
    /// As [`GpuSampler::start`].
    pub fn begin(cards: &[GpuFacts]) -> io::Result<(GpuSampler, Asked)> {
        let shared = Arc::new(Shared::default());
        let card = || CardState {
            standing: CardStatus { alive: true, ..CardStatus::default() },
            asking: Some(clock::steady()),
            ..CardState::default()
        };
        shared.lock().cards = cards.iter().map(|_| card()).collect();
        let (theirs, facts) = (Arc::clone(&shared), cards.to_vec());
        thread::Builder::new().name("gpus".into()).spawn(move || theirs.run(&facts))?;
        let sampler = GpuSampler { shared, cards: cards.to_vec() };
        let first = sampler.ask(&(0..cards.len()).collect::<Vec<_>>());
        Ok((sampler, first))
    }

    /// Asks for a look at these cards at once.
    pub fn ask(&self, cards: &[usize]) -> Asked {
        let mut state = self.shared.lock();
        let mut looks = BTreeMap::new();
        for n in cards {
            if let Some(card) = state.cards.get_mut(*n) {
                card.asked = true;
                // A look that has begun may have been answered before what is asked about.
                looks.insert(*n, card.begun + 1);
            }
        }
        self.shared.wake.notify_all();
        Asked { looks, since: clock::steady() }
    }

    /// It was looked, or a card took longer than one may take to answer.
    pub fn is_over(&self, asked: &Asked) -> bool {
        self.shared.lock().is_over(asked)
    }

    /// Returns when that may be so. Nothing is lost when the future is dropped.
    pub async fn looked(&self, asked: &Asked) {
        let _ = tokio::time::timeout(asked.left(), self.shared.told.notified()).await;
    }

    fn wait_for(&self, asked: &Asked) {
        let mut state = self.shared.lock();
        while !state.is_over(asked) {
            state = self.shared.looked.wait_timeout(state, asked.left()).unwrap_or_else(PoisonError::into_inner).0;
        }
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
        let tracked = Tracked { keeper, holds, samples, since: clock::steady(), cpu: state.cpu() };
        state.tracked.insert(attempt, tracked);
        self.shared.wake.notify_all();
    }

    /// What was seen of an attempt, which is not followed any more, and the share of one core that seeing it took.
    pub fn untrack(&self, attempt: AttemptId) -> (GpuSamples, f64) {
        let mut state = self.shared.lock();
        let Some(mut tracked) = state.tracked.remove(&attempt) else { return Default::default() };
        tracked.samples.close(clock::unix_seconds());
        let cost = tracked.cost(state.cpu());
        (tracked.samples, cost)
    }

    /// What is new of an attempt that is followed, and the share of one core that seeing it takes.
    pub(crate) fn new_samples(
        &self,
        attempt: AttemptId,
        known: &mut Vec<Known>,
    ) -> (Option<(Vec<usize>, GpuSamples)>, f64) {
        let state = self.shared.lock();
        let tracked = state.tracked.get(&attempt);
        tracked.map(|tracked| (tracked.samples.news(known), tracked.cost(state.cpu()))).unwrap_or_default()
    }

    /// Memory of a followed attempt on each of its cards, bytes; nothing where it cannot be told from that of others.
    pub fn memory(&self, attempt: AttemptId) -> Option<Vec<u64>> {
        let state = self.shared.lock();
        let tracked = state.tracked.get(&attempt)?;
        (!tracked.samples.unverified()).then(|| tracked.samples.memory_now())
    }

    /// How the cards stand, in the order of the list.
    pub fn standing(&self) -> Vec<CardStatus> {
        let state = self.shared.lock();
        state.cards.iter().map(|card| CardStatus { silent: card.is_silent(), ..card.standing.clone() }).collect()
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

impl Asked {
    fn left(&self) -> Duration {
        PATIENCE.saturating_sub(clock::since(self.since))
    }
}

impl CardState {
    /// It has not answered for a while, or was as slow the last time.
    fn is_silent(&self) -> bool {
        self.standing.silent || self.asking.is_some_and(|since| clock::since(since) > PATIENCE)
    }
}

impl GpuSamplerState {
    fn is_over(&self, asked: &Asked) -> bool {
        let is_seen = |(n, look): (&usize, &u64)| self.cards[*n].over >= *look || self.cards[*n].is_silent();
        self.trouble.is_some() || asked.left().is_zero() || asked.looks.iter().all(is_seen)
    }

    /// What the threads took of the CPU.
    fn cpu(&self) -> Duration {
        self.cards.iter().map(|card| card.cpu).sum()
    }

    /// The holds of attempts on a card.
    fn holds(&self, n: usize) -> impl Iterator<Item = &Holder> {
        self.tracked.values().flat_map(|tracked| &tracked.holds).filter(move |hold| hold.card == n)
    }

    fn is_held(&self, n: usize) -> bool {
        self.holds(n).next().is_some()
    }

    /// How often cards that attempts hold are looked at, and the others, and what changes slowly: all that together within its share.
    fn pace(&self) -> (Duration, Duration) {
        let costs = self.cards.iter().enumerate().map(|(n, card)| card.cost * if self.is_held(n) { 1.0 } else { 0.1 });
        let often = EVERY.max(Duration::from_secs_f64(costs.sum::<f64>() / SHARE)).min(SLOWLY);
        (often, SLOWLY.max(often * 10))
    }

    /// How long a card may wait for its next look; `None` if nobody wants to know.
    fn pause(&self, n: usize) -> Option<Duration> {
        let (often, slowly) = self.pace();
        let held = self.is_held(n);
        (held || self.watched || !self.tracked.is_empty()).then_some(if held { often } else { slowly })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, GpuSamplerState> {
        // The maps are sound after any panic: entries are only put in and taken out whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, facts: &[GpuFacts]) {
        let library = match Library::open() {
            Ok(library) => library,
            Err(closed) => {
                self.give_up(0..facts.len(), format!("GPUs cannot be measured: {}", closed.words()));
                return;
            }
        };
        thread::scope(|threads| {
            let library = &library;
            for (n, facts) in facts.iter().enumerate() {
                let watch = move || {
                    // Whatever becomes of this thread, nobody waits for it, and no step is ended because of it.
                    let watch = AssertUnwindSafe(|| self.watch_card(n, OneCard::new(library, facts)));
                    if panic::catch_unwind(watch).is_err() {
                        let why = "a GPU is not measured any more, by a fault of flow; please report it";
                        self.give_up(n..n + 1, why.to_owned());
                    }
                };
                if let Err(e) = thread::Builder::new().name(format!("gpu {n}")).spawn_scoped(threads, watch) {
                    self.give_up(n..n + 1, format!("GPU {} cannot be measured: {e}", facts.index));
                }
            }
        });
    }

    /// These cards are not looked at any more.
    fn give_up(&self, cards: Range<usize>, why: String) {
        let mut state = self.lock();
        state.trouble = Some(why);
        for card in state.cards.get_mut(cards).into_iter().flatten() {
            card.asking = None;
        }
        self.tell_looked();
    }

    fn tell_looked(&self) {
        self.looked.notify_all();
        self.told.notify_one();
    }

    /// The life of a card's thread.
    fn watch_card(&self, n: usize, mut card: OneCard<'_>) {
        let mut owners = Owners::new();
        let (mut looked, mut spent) = (None::<Instant>, clock::thread_cpu());
        let mut state = self.lock();
        while !state.stop {
            // An attempt that begins is looked at before it has taken anything.
            let new = state.holds(n).any(|hold| !hold.is_seen());
            if !state.cards[n].asked && !new {
                let pause = state.pause(n);
                let left = pause.map(|pause| pause.saturating_sub(looked.map_or(pause, clock::since)));
                if left.is_none_or(|left| !left.is_zero()) {
                    state = match left {
                        Some(left) => self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                        None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                    };
                    continue;
                }
            }
            let begun = clock::steady();
            looked = Some(begun);
            // What begins needs to be compared with how things stood before it.
            let slowly = new || card.is_due(state.pace().1);
            let held = state.is_held(n);
            let keeper = state.tracked.values().map(|tracked| tracked.keeper).next();
            owners.sees_all |= state.sees_all;
            let this = &mut state.cards[n];
            (this.asked, this.asking, this.begun) = (false, Some(begun), this.begun + 1);
            drop(state);
            let seen = card.look(&mut owners, keeper, held, slowly);
            owners.keep(|pid| card.has(pid));
            let cpu = clock::thread_cpu();
            state = self.lock();
            state.sees_all |= owners.sees_all;
            let this = &mut state.cards[n];
            (this.asking, this.over, this.cpu) = (None, this.over + 1, cpu);
            // Looks differ, for some things are asked in some of them only.
            this.cost += (cpu.saturating_sub(spent).as_secs_f64() - this.cost) / 8.0;
            spent = cpu;
            state.note(n, seen, &owners, held, clock::since(begun) > PATIENCE);
            self.tell_looked();
        }
    }
}

impl GpuSamplerState {
    /// What a look at a card has found.
    fn note(&mut self, n: usize, seen: Option<CardScan>, owners: &Owners, held: bool, silent: bool) {
        let Some(seen) = seen else {
            self.cards[n].standing = CardStatus { alive: false, silent: false, ..self.cards[n].standing.clone() };
            // It will not be there before it is lost.
            self.tracked.values_mut().flat_map(|t| &mut t.holds).filter(|h| h.card == n).for_each(Holder::give_up);
            return;
        };
        let mut ours = 0u64;
        for (attempt, tracked) in &mut self.tracked {
            for (place, hold) in tracked.holds.iter_mut().enumerate().filter(|(_, hold)| hold.card == n) {
                let of = hold.part(*attempt, &seen, owners.sees_all);
                ours = if of.unverified { ours.max(of.memory) } else { ours.saturating_add(of.memory) };
                tracked.samples.push(place, of);
            }
        }
        self.cards[n].standing = CardStatus {
            alive: true,
            silent,
            usable: seen.usable,
            others: seen.taken.saturating_sub(ours),
            strangers: seen.strangers(owners.sees_all || held),
        };
    }
}
