//! Samples the GPUs from outside: one thread per GPU, because one that hangs must not block the others. Each queries
//! NVML ten times a second while an attempt holds its GPU, and once a second while a step waits for one. If all queries
//! together take more than a share of a core (in some virtual machines each takes a millisecond), they become less
//! frequent. Knows GPUs and attempts; epochs and starts are up to the caller.

mod gpu;

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use flow_core::{AttemptId, ForeignProcess, GpuFacts, measure::GpuSamples};
use tokio::sync::Notify;

use super::{SamplingCost, owners::Owners};
use crate::{clock, nvml::Library};
use gpu::{GpuScan, Holder, OneGpu};

/// Interval of looks at GPUs that an attempt holds.
const EVERY: Duration = Duration::from_millis(100);
/// Interval for the others, and for slowly changing values.
const SLOWLY: Duration = Duration::from_secs(1);
/// The share of one CPU core that all GPUs together may take for sampling, on average.
const SHARE: f64 = 0.005;
/// A GPU that takes longer to answer is silent: nothing may start on it until it answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state of a GPU, without what our attempts hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuStatus {
    /// It is not lost.
    pub alive: bool,
    /// It has not answered for a while. Programs on it may still run.
    pub silent: bool,
    /// Memory that programs can use at all, bytes: without the driver's own. 0 if unknown.
    pub usable: u64,
    /// Memory that is not free and not ours, bytes: of foreign processes, a desktop, or the driver.
    pub others: u64,
    /// Compute processes that are not ours.
    pub foreign: Vec<ForeignProcess>,
}

/// The running GPU sampler. Dropping it ends the threads, without waiting for one that a broken GPU blocks.
#[derive(Debug)]
pub struct GpuSampler {
    shared: Arc<SharedState>,
    gpus: Vec<GpuFacts>,
}

#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<GpuSamplerState>,
    wake: Condvar,
    /// Signals that a look at a GPU is done to blocking callers; `async_looked` to async ones.
    looked: Condvar,
    async_looked: Notify,
}

/// A requested look at GPUs.
#[derive(Debug)]
pub struct SampleRequest {
    /// The number of the first look at each GPU that begins after the request.
    looks: BTreeMap<usize, u64>,
    since: Instant,
}

impl SampleRequest {
    pub fn is_of(&self, gpu: usize) -> bool {
        self.looks.contains_key(&gpu)
    }
}

#[derive(Debug, Default)]
struct GpuSamplerState {
    tracked: BTreeMap<AttemptId, TrackedAttempt>,
    gpus: Vec<GpuThreadState>,
    /// A step waits for a GPU.
    watched: bool,
    /// The driver's process ids are valid in this namespace.
    sees_all: bool,
    trouble: Option<String>,
    stop: bool,
}

/// State shared between the thread of a GPU and its callers.
#[derive(Debug, Default)]
struct GpuThreadState {
    status: GpuStatus,
    /// A look was requested at once.
    requested: bool,
    /// Number of looks begun, and done.
    begun: u64,
    over: u64,
    /// Start of the present query; set from the start until the first answer.
    asking: Option<Instant>,
    /// CPU time of a look, averaged over the last ones, seconds.
    cost: f64,
    /// CPU time of the thread.
    cpu: Duration,
}

#[derive(Debug)]
struct TrackedAttempt {
    keeper: u32,
    holds: Vec<Holder>,
    samples: GpuSamples,
    cost: SamplingCost,
}

impl GpuSampler {
    /// Starts the threads for the GPUs that flow may use, and waits for one look at each.
    ///
    /// # Errors
    /// No more threads can be created.
    pub fn start(gpus: &[GpuFacts]) -> io::Result<GpuSampler> {
        let (sampler, first) = GpuSampler::begin(gpus)?;
        sampler.wait_for(&first);
        Ok(sampler)
    }

    /// The same, without waiting for the first look at all of them.
    ///
    /// # Errors
    /// As [`GpuSampler::start`].
    pub fn begin(gpus: &[GpuFacts]) -> io::Result<(GpuSampler, SampleRequest)> {
        let shared = Arc::new(SharedState::default());
        let fresh = || GpuThreadState {
            status: GpuStatus { alive: true, ..GpuStatus::default() },
            asking: Some(clock::steady()),
            ..GpuThreadState::default()
        };
        shared.lock().gpus = gpus.iter().map(|_| fresh()).collect();
        let (theirs, facts) = (Arc::clone(&shared), gpus.to_vec());
        thread::Builder::new().name("gpus".into()).spawn(move || theirs.run(&facts))?;
        let sampler = GpuSampler { shared, gpus: gpus.to_vec() };
        let first = sampler.request(&(0..gpus.len()).collect::<Vec<_>>());
        Ok((sampler, first))
    }

    /// Requests a look at these GPUs at once.
    pub fn request(&self, gpus: &[usize]) -> SampleRequest {
        let mut state = self.shared.lock();
        let mut looks = BTreeMap::new();
        for n in gpus {
            if let Some(gpu) = state.gpus.get_mut(*n) {
                gpu.requested = true;
                // A look in progress may have read its values before this request.
                looks.insert(*n, gpu.begun + 1);
            }
        }
        self.shared.wake.notify_all();
        SampleRequest { looks, since: clock::steady() }
    }

    /// True if the look is done, or a GPU took too long to answer.
    pub fn is_over(&self, request: &SampleRequest) -> bool {
        self.shared.lock().is_over(request)
    }

    /// Returns when [`GpuSampler::is_over`] may have changed. Dropping the future loses nothing.
    pub async fn looked(&self, request: &SampleRequest) {
        let _ = tokio::time::timeout(request.left(), self.shared.async_looked.notified()).await;
    }

    fn wait_for(&self, request: &SampleRequest) {
        let mut state = self.shared.lock();
        while !state.is_over(request) {
            state = self.shared.looked.wait_timeout(state, request.left()).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sets whether a step waits for a GPU, so that all are looked at once a second.
    pub fn watch(&self, watched: bool) {
        let mut state = self.shared.lock();
        if state.watched != watched {
            state.watched = watched;
            self.shared.wake.notify_all();
        }
    }

    /// Samples an attempt on GPUs, by their index in the list, from before its start.
    pub fn track(&self, attempt: AttemptId, keeper: u32, gpus: &[usize]) {
        let uuids = gpus.iter().filter_map(|gpu| Some(self.gpus.get(*gpu)?.uuid.clone()));
        let samples = GpuSamples::since(clock::unix_seconds(), uuids);
        let mut state = self.shared.lock();
        let holds = gpus.iter().map(|gpu| Holder::new(*gpu)).collect();
        let tracked = TrackedAttempt { keeper, holds, samples, cost: SamplingCost::from_now(state.cpu()) };
        state.tracked.insert(attempt, tracked);
        self.shared.wake.notify_all();
    }

    /// Stops sampling an attempt. Returns its samples, and the share of one CPU core that sampling took.
    pub fn untrack(&self, attempt: AttemptId) -> (GpuSamples, f64) {
        let mut state = self.shared.lock();
        let Some(mut tracked) = state.tracked.remove(&attempt) else { return Default::default() };
        tracked.samples.close(clock::unix_seconds());
        (tracked.samples, tracked.cost.share(state.cpu()))
    }

    /// Memory of an attempt on each of its GPUs, bytes; `None` if it cannot be separated from that of others.
    pub fn memory(&self, attempt: AttemptId) -> Option<Vec<u64>> {
        let state = self.shared.lock();
        let tracked = state.tracked.get(&attempt)?;
        (!tracked.samples.unverified()).then(|| tracked.samples.memory_now())
    }

    /// The states of the GPUs, in the order of the list.
    pub fn statuses(&self) -> Vec<GpuStatus> {
        let state = self.shared.lock();
        state.gpus.iter().map(|gpu| GpuStatus { silent: gpu.is_silent(), ..gpu.status.clone() }).collect()
    }

    /// The reason, if any, why nothing can be seen.
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

impl SampleRequest {
    fn left(&self) -> Duration {
        PATIENCE.saturating_sub(clock::since(self.since))
    }
}

impl GpuThreadState {
    /// It has not answered for a while, or was as slow the last time.
    fn is_silent(&self) -> bool {
        self.status.silent || self.asking.is_some_and(|since| clock::since(since) > PATIENCE)
    }
}

impl GpuSamplerState {
    fn is_over(&self, request: &SampleRequest) -> bool {
        let is_seen = |(n, look): (&usize, &u64)| self.gpus[*n].over >= *look || self.gpus[*n].is_silent();
        self.trouble.is_some() || request.left().is_zero() || request.looks.iter().all(is_seen)
    }

    /// CPU time of all threads.
    fn cpu(&self) -> Duration {
        self.gpus.iter().map(|gpu| gpu.cpu).sum()
    }

    /// The attempts' holds on a GPU.
    fn holds(&self, n: usize) -> impl Iterator<Item = &Holder> {
        self.tracked.values().flat_map(|tracked| &tracked.holds).filter(move |hold| hold.gpu == n)
    }

    fn is_held(&self, n: usize) -> bool {
        self.holds(n).next().is_some()
    }

    /// Intervals for GPUs that attempts hold, and for the others and slow values, so that all queries stay within their
    /// share.
    fn pace(&self) -> (Duration, Duration) {
        let costs = self.gpus.iter().enumerate().map(|(n, gpu)| gpu.cost * if self.is_held(n) { 1.0 } else { 0.1 });
        let often = EVERY.max(Duration::from_secs_f64(costs.sum::<f64>() / SHARE)).min(SLOWLY);
        (often, SLOWLY.max(often * 10))
    }

    /// How long a GPU may wait for its next look; `None` if nobody needs one.
    fn pause(&self, n: usize) -> Option<Duration> {
        let (often, slowly) = self.pace();
        let held = self.is_held(n);
        (held || self.watched || !self.tracked.is_empty()).then_some(if held { often } else { slowly })
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, GpuSamplerState> {
        // The maps are valid after any panic: entries are only inserted and removed whole.
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
                    // If this thread panics, nobody waits for it, and no step is ended for that reason.
                    let watch = AssertUnwindSafe(|| self.watch_gpu(n, OneGpu::new(library, facts)));
                    if panic::catch_unwind(watch).is_err() {
                        let why = "a GPU is no longer measured because of a bug in flow; please report it";
                        self.give_up(n..n + 1, why.to_owned());
                    }
                };
                if let Err(e) = thread::Builder::new().name(format!("gpu {n}")).spawn_scoped(threads, watch) {
                    self.give_up(n..n + 1, format!("GPU {} cannot be measured: {e}", facts.index));
                }
            }
        });
    }

    /// Stops looking at these GPUs.
    fn give_up(&self, gpus: Range<usize>, why: String) {
        let mut state = self.lock();
        state.trouble = Some(why);
        for gpu in state.gpus.get_mut(gpus).into_iter().flatten() {
            gpu.asking = None;
        }
        self.notify_looked();
    }

    fn notify_looked(&self) {
        self.looked.notify_all();
        self.async_looked.notify_one();
    }

    /// The main function of a GPU's thread.
    fn watch_gpu(&self, n: usize, mut gpu: OneGpu<'_>) {
        let mut owners = Owners::new();
        let (mut looked, mut spent) = (None::<Instant>, clock::thread_cpu());
        let mut state = self.lock();
        while !state.stop {
            // A new attempt needs a look before it has used anything.
            let new = state.holds(n).any(|hold| !hold.is_seen());
            if !state.gpus[n].requested && !new {
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
            // Later looks are compared with the first one, which therefore reads everything.
            let slowly = new || gpu.is_due(state.pace().1);
            let held = state.is_held(n);
            let keeper = state.tracked.values().map(|tracked| tracked.keeper).next();
            owners.sees_all |= state.sees_all;
            let this = &mut state.gpus[n];
            (this.requested, this.asking, this.begun) = (false, Some(begun), this.begun + 1);
            drop(state);
            let seen = gpu.look(&mut owners, keeper, held, slowly);
            owners.keep(|pid| gpu.has(pid));
            let cpu = clock::thread_cpu();
            state = self.lock();
            state.sees_all |= owners.sees_all;
            let this = &mut state.gpus[n];
            (this.asking, this.over, this.cpu) = (None, this.over + 1, cpu);
            // Averaged, because some looks query more than others.
            this.cost += (cpu.saturating_sub(spent).as_secs_f64() - this.cost) / 8.0;
            spent = cpu;
            state.note(n, seen, &owners, held, clock::since(begun) > PATIENCE);
            self.notify_looked();
        }
    }
}

impl GpuSamplerState {
    /// Applies the result of a look at a GPU.
    fn note(&mut self, n: usize, seen: Option<GpuScan>, owners: &Owners, held: bool, silent: bool) {
        let Some(seen) = seen else {
            self.gpus[n].status = GpuStatus { alive: false, silent: false, ..self.gpus[n].status.clone() };
            // A lost GPU gets no first look: stop waiting for it.
            self.tracked.values_mut().flat_map(|t| &mut t.holds).filter(|h| h.gpu == n).for_each(Holder::give_up);
            return;
        };
        let mut ours = 0u64;
        for (attempt, tracked) in &mut self.tracked {
            for (place, hold) in tracked.holds.iter_mut().enumerate().filter(|(_, hold)| hold.gpu == n) {
                let of = hold.part(*attempt, &seen, owners.sees_all);
                ours = if of.unverified { ours.max(of.memory) } else { ours.saturating_add(of.memory) };
                tracked.samples.push(place, of);
            }
        }
        self.gpus[n].status = GpuStatus {
            alive: true,
            silent,
            usable: seen.usable,
            others: seen.used.saturating_sub(ours),
            foreign: seen.foreign(owners.sees_all || held),
        };
    }
}
