//! Work with hidden properties: trainings whose epochs take their true time. The functions of a live run observe them
//! and learn. Holds no rule of learning, as the driver holds none of scheduling.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::learn::History;
use flow_core::measure::{CoRunners, GpuLook, GpuSamples, HostSamples, Reported, Used, gather};
use flow_core::sched::{Event, contention::Host};
use flow_core::{
    AttemptId, Circumstances, Digest, Expansion, GpuId, InstanceId, Outcome, RunId, Span, StepResult, Time, TimedEpoch,
    Usage,
};

use crate::{Attempt, Schedule, arrivals::normal};

/// The hidden properties of a machine and of its work, which the scheduler has to learn.
#[derive(Clone, Debug)]
pub struct GroundTruth {
    /// By GPU: what sharing it costs at the beginning, and by how much that changes in a second.
    pub coefficients: Vec<(f64, f64)>,
    /// By how much the time of an epoch deviates, as a share of it: one standard deviation, at most six.
    pub noise: f64,
    /// Seed of the deviations; also the name of the run.
    pub seed: u64,
    /// When the simulation begins, in seconds. Several simulations that share a history follow one another.
    pub since: f64,
}

/// The outcome of a simulation that learns.
#[derive(Clone, Debug)]
pub struct Learned<'a> {
    pub schedule: Schedule,
    /// The history at the end.
    pub history: History<'a>,
    /// Results, in the order in which they were recorded.
    pub results: Vec<StepResult>,
    /// The events about learned values that the scheduler received, with their times.
    pub told: Vec<(Time, Event)>,
}

/// The observer of a simulated machine.
#[derive(Clone, Debug)]
pub(crate) struct Learning<'a> {
    pub(crate) history: History<'a>,
    pub(crate) results: Vec<StepResult>,
    pub(crate) told: Vec<(Time, Event)>,
    expansion: &'a Expansion,
    truth: GroundTruth,
    chance: fastrand::Rng,
    corunners: CoRunners,
    watched: BTreeMap<AttemptId, Watched>,
    /// Results that are not recorded yet.
    ended: BTreeMap<AttemptId, StepResult>,
    /// Instances that ask for GPUs and have no result yet.
    waiting: BTreeSet<InstanceId>,
    looked_at: f64,
}

/// Observations of an attempt so far.
#[derive(Clone, Debug)]
struct Watched {
    instance: InstanceId,
    gpus: Vec<GpuId>,
    began: f64,
    epochs: u32,
    epoch_began: f64,
    reported: Reported,
    on_host: HostSamples,
    on_gpus: GpuSamples,
    cpu_s: f64,
}

/// The current activity of an attempt.
pub(crate) struct Activity<'s> {
    pub(crate) attempt: AttemptId,
    pub(crate) conduct: &'s Attempt,
    pub(crate) gpus: &'s [GpuId],
    /// Speed relative to running alone; 0 while it is idle.
    pub(crate) speed: f64,
}

impl<'a> Learning<'a> {
    pub(crate) fn new(expansion: &'a Expansion, history: History<'a>, truth: GroundTruth) -> Self {
        let wants = expansion.instances.iter().filter(|instance| instance.request.gpus > 0);
        Learning {
            history,
            results: Vec::new(),
            told: Vec::new(),
            expansion,
            chance: fastrand::Rng::with_seed(truth.seed),
            corunners: CoRunners::default(),
            watched: BTreeMap::new(),
            ended: BTreeMap::new(),
            waiting: wants.map(|instance| instance.id).collect(),
            looked_at: truth.since,
            truth,
        }
    }

    fn seconds(&self, now: Time) -> f64 {
        self.truth.since + now.as_secs_f64()
    }

    /// The true host at this time.
    pub(crate) fn host(&self, now: Time) -> Host {
        let at = self.seconds(now);
        let price = |&(first, each): &(f64, f64)| (first + each * at).max(0.0);
        let devices = self.truth.coefficients.iter().map(price).collect();
        Host { cores: f64::from(self.expansion.machine.cpus), devices }
    }

    pub(crate) fn begin(&mut self, attempt: AttemptId, instance: InstanceId, gpus: &[GpuId], now: Time) {
        let began = self.seconds(now);
        self.corunners.join(attempt, instance, gpus, began);
        let uuids = gpus.iter().map(|gpu| self.expansion.machine.gpus[gpu.index()].uuid.clone());
        let watched = Watched {
            instance,
            gpus: gpus.to_vec(),
            began,
            epochs: 0,
            epoch_began: began,
            reported: Reported::default(),
            on_host: HostSamples::since(began),
            on_gpus: GpuSamples::since(began, uuids),
            cpu_s: 0.0,
        };
        self.watched.insert(attempt, watched);
    }

    /// How long the next epoch takes alone, if it takes so long by itself: the first warms up, for half as long again.
    pub(crate) fn next_epoch(&mut self, attempt: AttemptId, epoch: Span) -> Span {
        let first = self.watched.get(&attempt).is_some_and(|watched| watched.epochs == 0);
        let deviation = self.truth.noise * normal(&mut self.chance).clamp(-6.0, 6.0);
        let longer = (1.0 + deviation).max(0.01) * if first { 1.5 } else { 1.0 };
        Span::from_secs_f64(epoch.as_secs_f64() * longer)
    }

    /// An epoch has ended. Says how many have.
    pub(crate) fn epoch(&mut self, attempt: AttemptId, now: Time) -> u32 {
        let at = self.seconds(now);
        let Some(watched) = self.watched.get_mut(&attempt) else { return 0 };
        watched.epochs += 1;
        let (epoch, began) = (watched.epochs, watched.epoch_began);
        watched.reported.epoch(TimedEpoch { part: 0, epoch, began, ended: at });
        watched.epoch_began = at;
        watched.epochs
    }

    /// Looks at everybody; nothing has changed since the last look.
    pub(crate) fn look(&mut self, all: &[Activity<'_>], now: Time) {
        let at = self.seconds(now);
        let span = at - std::mem::replace(&mut self.looked_at, at);
        let cores = |doing: &Activity<'_>| doing.conduct.cores * doing.speed;
        let busy = all.iter().map(cores).sum::<f64>() / f64::from(self.expansion.machine.cpus);
        for doing in all {
            let Some(watched) = self.watched.get_mut(&doing.attempt) else { continue };
            let used = Used { cpu_s: cores(doing) * span, ..Used::default() };
            watched.cpu_s += used.cpu_s;
            watched.on_host.push(at, Some(span), &used, Some((busy.min(1.0), 0.0)));
            for (place, gpu) in doing.gpus.iter().enumerate() {
                let there = all.iter().filter(|other| other.gpus.contains(gpu));
                let load: f64 = there.map(|other| other.conduct.gpu_busy * other.speed).sum();
                let memory = doing.conduct.gpu_memory;
                watched.on_gpus.push(place, GpuLook { at, memory, load: Some(load.min(1.0)), ..GpuLook::default() });
            }
        }
    }

    /// An attempt has ended: what was seen of it becomes its result.
    pub(crate) fn end(&mut self, attempt: AttemptId, outcome: Outcome, now: Time) {
        let ended = self.seconds(now);
        let Some(watched) = self.watched.remove(&attempt) else { return };
        let mut corunners = self.corunners.leave(attempt, ended, watched.reported.at_work(true));
        for (other, corunner) in &mut corunners {
            corunner.at_work = self.watched.get(other).map_or(corunner.at_work, |runs| runs.reported.at_work(false));
        }
        let (machine, instance) = (&self.expansion.machine, &self.expansion.instances[watched.instance.index()]);
        let labels = |on_gpu: bool| {
            let there = corunners.values().filter(|other| !on_gpu || !other.gpus.is_empty());
            there.map(|other| self.expansion.instances[other.instance.index()].label.to_string()).collect()
        };
        let gathered = gather(&watched.reported, watched.began, ended, None);
        let whole = Usage {
            wall_s: Some(ended - watched.began),
            cpu_s: Some(watched.cpu_s),
            phases: gathered.phases,
            ..Usage::default()
        };
        let host = watched.on_host.load(&gathered.spans);
        let mut result = StepResult {
            caveats: Vec::new(),
            fingerprint: Digest::of(instance.label.as_bytes()),
            workflow: self.expansion.workflow.clone(),
            step: self.expansion.steps[instance.step.index()].name.clone(),
            label: instance.label.to_string(),
            axes: (*instance.axes).clone(),
            repetition: instance.repetition,
            outcome,
            cause: None,
            spoiled: Vec::new(),
            run: RunId(self.truth.seed.to_string()),
            started_at: (watched.began * 1e3) as u64,
            ended_at: (ended * 1e3) as u64,
            outputs: Default::default(),
            paths: Default::default(),
            metrics: gathered.metrics,
            params: BTreeMap::new(),
            usage: Usage {
                gpus: watched.on_gpus.figures(&gathered.spans).gpus,
                ..watched.on_host.usage(whole, &gathered.spans, machine.cpus)
            },
            circumstances: Circumstances {
                mode: instance.mode(),
                gpu_models: watched.gpus.iter().map(|gpu| machine.gpus[gpu.index()].name.clone()).collect(),
                host_cpus: machine.cpus,
                corunners: labels(false),
                neighbours: labels(true),
                cpu_saturated: host.cpu_saturated,
                ..Circumstances::default()
            },
            series: None,
            kept: None,
            accepted: None,
        };
        let sharing = self.history.sharing(watched.instance, &watched.gpus, &watched.reported, &corunners, &result);
        result.circumstances.sharing = sharing;
        self.ended.insert(attempt, result);
    }

    /// A result is recorded. Returns what the scheduler is to know of what that teaches.
    pub(crate) fn record(&mut self, instance: InstanceId, attempt: AttemptId, now: Time) -> Vec<Event> {
        let Some(result) = self.ended.remove(&attempt) else { return Vec::new() };
        let events = self.history.learn(instance, &result, &self.waiting);
        self.waiting.remove(&instance);
        self.results.push(result);
        self.told.extend(events.iter().map(|event| (now, event.clone())));
        events
    }
}
