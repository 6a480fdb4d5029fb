//! Samples the resource use of attempts from outside: one thread that reads `/proc` twice a second while something
//! runs. Knows processes, not steps; epochs are up to the caller.
//!
//! A step of a few milliseconds costs two map entries: nothing is read for it unless it is alive at a look. Samples
//! carry their time, so that means over any window can be computed later, also with readings from other sources.

mod gpus;
mod meter;
mod owners;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use flow_core::{AttemptId, Usage, measure::HostSamples};
use flow_protocol::Exit;

pub use gpus::{GpuSampler, GpuStatus, SampleRequest};

use crate::clock;
use meter::Meter;

/// Interval of the looks.
const EVERY: Duration = Duration::from_millis(500);
/// Delay of the first look after the first attempt: reading every process of the machine costs more than a step that
/// has ended by then.
const FIRST: Duration = Duration::from_millis(150);

/// The totals of an attempt from its exit, because samples end before the attempt does. An attempt that never started
/// took no time.
pub fn whole(exit: &Exit) -> Usage {
    Usage {
        wall_s: Some(exit.ended_at - exit.started_at).filter(|wall_s| *wall_s > 0.0),
        cpu_s: exit.cpu_s,
        rss_peak: exit.max_rss,
        disk_read: exit.disk_read,
        disk_written: exit.disk_written,
        swept: exit.swept,
        ..Usage::default()
    }
}

/// The running sampler. Dropping it ends the thread.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<SamplerState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct SamplerState {
    tracked: BTreeMap<AttemptId, TrackedAttempt>,
    /// The thread waits for the first attempt; otherwise it wakes by itself.
    idle: bool,
    /// CPU time of the thread.
    cpu: Duration,
    stop: bool,
}

#[derive(Debug)]
struct TrackedAttempt {
    root: i32,
    samples: HostSamples,
    cost: SamplingCost,
}

/// The CPU time that sampling took, from the start of an attempt.
#[derive(Debug)]
struct SamplingCost {
    since: Instant,
    cpu: Duration,
}

impl SamplingCost {
    /// `cpu`: what sampling took by now.
    fn from_now(cpu: Duration) -> SamplingCost {
        SamplingCost { since: clock::steady(), cpu }
    }

    /// As a share of one core; `cpu` is what sampling took by now.
    fn share(&self, cpu: Duration) -> f64 {
        let took = clock::since(self.since).as_secs_f64();
        if took > 0.0 { cpu.saturating_sub(self.cpu).as_secs_f64() / took } else { 0.0 }
    }
}

impl Sampler {
    /// Starts the thread. This process and all its descendants are ours, including `keeper` and its attempts. So is the
    /// parent process, while it lives, if it is the `engine`.
    ///
    /// # Errors
    /// No more threads can be created.
    pub fn start(keeper: u32, engine: Option<u32>) -> io::Result<Sampler> {
        let shared = Arc::new(SharedState::default());
        let theirs = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("sampler".into()).spawn(move || theirs.run(Meter::new(keeper, engine)))?;
        Ok(Sampler { shared, thread: Some(thread) })
    }

    /// Samples an attempt from now on; `root` is its main process.
    pub fn track(&self, attempt: AttemptId, root: u32) {
        let mut state = self.shared.lock();
        let samples = HostSamples::since(clock::unix_seconds());
        let tracked = TrackedAttempt { root: root.cast_signed(), samples, cost: SamplingCost::from_now(state.cpu) };
        state.tracked.insert(attempt, tracked);
        if state.idle {
            state.idle = false;
            self.shared.wake.notify_all();
        }
    }

    /// Stops sampling an attempt. Returns its samples, and the share of one CPU core that sampling took.
    pub fn untrack(&self, attempt: AttemptId) -> (HostSamples, f64) {
        let mut state = self.shared.lock();
        let Some(tracked) = state.tracked.remove(&attempt) else { return Default::default() };
        (tracked.samples, tracked.cost.share(state.cpu))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends within one look; a panic in it is ignored.
            let _ = thread.join();
        }
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, SamplerState> {
        // The map is valid after any panic: entries are only inserted and removed whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut meter: Meter) {
        let mut state = self.lock();
        while !state.stop {
            if state.tracked.is_empty() {
                state.idle = true;
                meter.forget();
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state = self.pause(state, clock::steady(), FIRST);
                continue;
            }
            let roots: BTreeMap<i32, AttemptId> = state.tracked.iter().map(|(id, t)| (t.root, *id)).collect();
            drop(state);
            let looked = clock::steady();
            let reading = meter.look(&roots, clock::unix_seconds());
            state = self.lock();
            state.cpu = clock::thread_cpu();
            for (attempt, tracked) in &mut state.tracked {
                if let Some(used) = reading.attempts.get(attempt) {
                    tracked.samples.push(reading.at, reading.since_last, used, reading.host);
                }
                if let Some(programs) = reading.programs.get(attempt) {
                    tracked.samples.saw(programs);
                }
            }
            state = self.pause(state, looked, EVERY);
        }
    }

    /// Waits until `long` after `since`, or until the sampler must stop.
    fn pause<'s>(
        &self,
        mut state: MutexGuard<'s, SamplerState>,
        since: Instant,
        long: Duration,
    ) -> MutexGuard<'s, SamplerState> {
        while !state.stop {
            let left = long.saturating_sub(clock::since(since));
            if left.is_zero() {
                break;
            }
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}
