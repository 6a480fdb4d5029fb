//! Behaviour of simulated tasks, and faults of a simulated machine. Plain data.

use flow_core::sched::{Answer, Capacity, Task};
use flow_core::{Outcome, Span};

/// A task and what it does when it is started.
#[derive(Clone, Debug, PartialEq)]
pub struct SimTask {
    /// As the scheduler sees it. Tasks are given in order of id, and arrive in that order.
    pub task: Task,
    /// What the store answers.
    pub answer: Answer,
    /// Its attempts in order. Further attempts behave like the last one.
    pub attempts: Vec<Attempt>,
    /// Its kind of job in a mix, for charts.
    pub kind: String,
}

impl SimTask {
    /// A task that does its work and is done.
    pub fn new(task: Task, work: Span) -> Self {
        let attempts = vec![Attempt::new(work)];
        SimTask { task, answer: Answer::Miss, attempts, kind: String::new() }
    }

    /// Makes it run on one GPU: one for several takes as many times longer, and keeps as many fewer cores busy.
    pub fn narrow(&mut self) {
        let gpus = &mut self.task.request.gpus;
        let times = (*gpus).max(1);
        *gpus = (*gpus).min(1);
        let longer = |span: Span| Span(span.0.saturating_mul(times.into()));
        let estimate = &mut self.task.estimate;
        estimate.duration = estimate.duration.map(longer);
        estimate.cpu_milli = estimate.cpu_milli.map(|milli| (f64::from(milli) / f64::from(times)).round() as u32);
        for attempt in &mut self.attempts {
            attempt.work = longer(attempt.work);
            attempt.cores /= f64::from(times);
        }
    }
}

/// What one attempt does.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// How long it takes to be ready, whatever else runs; it keeps nothing busy meanwhile. In a co-run group work begins at the
    /// release.
    pub warm_up: Span,
    /// How long its work takes, alone.
    pub work: Span,
    /// Cores that it keeps busy alone. Counts where a simulation has a host ([`crate::Simulation::on`]).
    pub cores: f64,
    /// Share of time in which it keeps each of its GPUs busy alone.
    pub gpu_busy: f64,
    pub end: End,
    /// Told to end, it takes all the grace it is given.
    pub obstinate: bool,
}

impl Attempt {
    pub fn new(work: Span) -> Self {
        let end = End::Exits { outcome: Outcome::Ok, disturbed: false };
        Attempt { warm_up: Span(0), work, cores: 0.0, gpu_busy: 0.0, end, obstinate: false }
    }
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, when its work is done. One that only keeps its group company ends when it is told to stop.
    Exits {
        outcome: Outcome,
        /// The measurement is not to be trusted.
        disturbed: bool,
    },
    /// Before it is ready, as a member of a co-run group.
    BeforeReady(Outcome),
    SpawnFails,
    /// Never, unless it is killed.
    Hangs,
}

/// Faults of the machine or the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// GPUs come, go, or are taken by foreign processes.
    Capacity(Capacity),
    Cancel {
        /// With this much grace.
        grace: Span,
    },
    /// Events about every attempt that has ended come once more.
    Echo,
}
