//! Generated workloads: kinds of jobs that arrive by chance at a chosen density. Seeded: the same seed gives the same jobs,
//! whatever the density, the policy and what is known of them, so that these are compared on one load.

use flow_core::reason::{BuiltinFault, Expected, Unit};
use flow_core::sched::{Estimate, EstimateSource, Task};
use flow_core::{InstanceId, ResourceRequest, Span, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Attempt, SimTask};

/// A kind of job.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub name: String,
    /// How often it comes, against the others.
    #[serde(default = "one")]
    pub weight: f64,
    /// GPUs that it holds, all at once.
    #[serde(default = "one_gpu")]
    pub gpus: u32,
    /// How long it runs alone, seconds: the median.
    pub duration_s: f64,
    /// How far durations spread: the deviation of their logarithm; 0, always the same.
    #[serde(default)]
    pub spread: f64,
    /// Cores that it keeps busy alone.
    #[serde(default)]
    pub cpu_cores: f64,
    /// Share of time in which it keeps each of its GPUs busy alone.
    #[serde(default = "one")]
    pub gpu_busy: f64,
    /// Memory that it takes on each, GiB.
    #[serde(default)]
    pub gpu_memory_gib: f64,
}

fn one() -> f64 {
    1.0
}

fn one_gpu() -> u32 {
    1
}

impl Kind {
    /// Whether its numbers make sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), BuiltinFault> {
        let (count_of, between) = (|unit| Expected::CountOf { unit }, |min, max| Expected::Between { min, max });
        let bounds = [
            ("weight", self.weight, 0.0..=1e9, Expected::ZeroOrMore),
            ("duration_s", self.duration_s, 1e-3..=1e9, count_of(Unit::Seconds)),
            ("spread", self.spread, 0.0..=5.0, between(0, 5)),
            ("cpu_cores", self.cpu_cores, 0.0..=1e6, count_of(Unit::Cores)),
            ("gpu_busy", self.gpu_busy, 0.0..=1.0, between(0, 1)),
            ("gpu_memory_gib", self.gpu_memory_gib, 0.0..=1e6, count_of(Unit::Gibibytes)),
        ];
        match bounds.into_iter().find(|(_, value, good, _)| !good.contains(value)) {
            Some((name, value, _, expected)) => {
                let (kind_name, name) = (self.name.clone(), name.to_owned());
                Err(BuiltinFault::KindOutside { kind_name, name, value: value.to_string(), expected })
            }
            None => Ok(()),
        }
    }

    /// Mean duration: that of a log-normal distribution with this median.
    fn mean_s(&self) -> f64 {
        self.duration_s * (self.spread * self.spread / 2.0).exp()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals<'a> {
    pub kinds: &'a [Kind],
    pub jobs: usize,
    /// GPU time that is asked for, as a share of what there is: beyond 1 the queue grows.
    pub density: f64,
    /// GPUs that there are.
    pub gpus: u32,
    pub seed: u64,
    /// History knows what each kind takes, so that jobs may share GPUs.
    pub known: bool,
    /// Every job runs on one GPU, those for several as many times longer.
    pub narrow: bool,
    /// What else is by chance.
    pub chance: Chance,
}

/// Properties that are drawn for a job besides its kind, arrival and duration. Each has a random stream of its own, so
/// asking for one changes no other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Priorities are 0, 1, … below this, each as likely.
    pub priorities: u32,
    /// How far estimates of durations are off: the deviation of the logarithm of their error.
    pub estimate_error: f64,
}

impl Chance {
    /// Something is by chance.
    pub fn any(&self) -> bool {
        self.priorities > 1 || self.estimate_error > 0.0
    }

    /// Draws it for tasks in their order.
    pub fn befall(&self, tasks: &mut [SimTask], seed: u64) {
        // Far from the seeds of arrivals, which count up from 0.
        let [mut level, mut error] = [1, 2].map(|n| fastrand::Rng::with_seed(!seed ^ (n << 32)));
        for task in tasks.iter_mut().map(|task| &mut task.task) {
            if self.priorities > 1 {
                task.priority = i64::from(level.u32(0..self.priorities));
            }
            let off = (self.estimate_error * normal(&mut error)).exp();
            let told = |actual: Span| Span::from_secs_f64(actual.as_secs_f64() * off);
            task.estimate.duration =
                task.estimate.duration.map(|actual| if off == 1.0 { actual } else { told(actual) });
        }
    }
}

impl Arrivals<'_> {
    /// The jobs of one seed, with gaps as chance leaves them between independent arrivals.
    pub fn poisson(&self) -> Vec<SimTask> {
        let all: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let work = |kind: &Kind| kind.weight / all * f64::from(kind.gpus) * kind.mean_s();
        let gap = self.kinds.iter().map(work).sum::<f64>() / (self.density * f64::from(self.gpus));
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let mut at = 0.0;
        let mut tasks = Vec::with_capacity(self.jobs);
        for id in 0..self.jobs as u32 {
            at -= (1.0 - chance.f64()).ln() * gap;
            let mut pick = chance.f64() * all;
            let found = self.kinds.iter().find(|kind| {
                pick -= kind.weight;
                pick < 0.0
            });
            let seconds = |kind: &Kind, normal: f64| kind.duration_s * (kind.spread * normal).exp();
            let normal = normal(&mut chance);
            if let Some(kind) = found.or(self.kinds.last()) {
                tasks.push(self.task(id, kind, Time(0) + Span::from_secs_f64(at), seconds(kind, normal)));
            }
        }
        if self.narrow {
            tasks.iter_mut().for_each(SimTask::narrow);
        }
        self.chance.befall(&mut tasks, self.seed);
        tasks
    }

    fn task(&self, id: u32, kind: &Kind, submitted: Time, seconds: f64) -> SimTask {
        let work = Span::from_secs_f64(seconds);
        let milli = |value: f64| (value * 1e3).round() as u32;
        let task = Task {
            instance: InstanceId(id),
            request: ResourceRequest { gpus: kind.gpus, ..ResourceRequest::default() },
            estimate: Estimate {
                duration: Some(work),
                gpu_memory: Some((kind.gpu_memory_gib * f64::from(1 << 30)) as u64),
                cpu_milli: Some(milli(kind.cpu_cores)),
                gpu_busy_milli: Some(milli(kind.gpu_busy)),
                samples: u32::from(self.known),
                source: EstimateSource::Given,
                ..Estimate::default()
            },
            submitted,
            ..Task::default()
        };
        let attempt = Attempt { cores: kind.cpu_cores, gpu_busy: kind.gpu_busy, ..Attempt::new(work) };
        SimTask { attempts: vec![attempt], kind: kind.name.clone(), ..SimTask::new(task, work) }
    }
}

/// A normally distributed number (Box and Muller).
fn normal(chance: &mut fastrand::Rng) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - chance.f64()).ln()).sqrt(), std::f64::consts::TAU * chance.f64());
    radius * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURE: Chance = Chance { priorities: 1, estimate_error: 0.0 };
    fn kinds() -> Vec<Kind> {
        let kind = |name: &str, weight, gpus, duration_s, spread| Kind {
            name: name.to_owned(),
            weight,
            gpus,
            duration_s,
            spread,
            cpu_cores: 0.0,
            gpu_busy: 1.0,
            gpu_memory_gib: 0.0,
        };
        vec![kind("small", 3.0, 1, 100.0, 0.5), kind("wide", 1.0, 4, 400.0, 0.0)]
    }

    #[test]
    fn arrivals_come_as_densely_as_asked() {
        let kinds = kinds();
        let arrivals = |density, seed, narrow| {
            Arrivals { kinds: &kinds, jobs: 20_000, density, gpus: 8, seed, known: true, narrow, chance: SURE }
                .poisson()
        };
        let work = |tasks: &[SimTask]| -> f64 {
            tasks.iter().map(|t| f64::from(t.task.request.gpus) * t.attempts[0].work.as_secs_f64()).sum()
        };
        let tasks = arrivals(0.5, 1, false);
        let span = tasks.last().unwrap().task.submitted.as_secs_f64();
        assert!((work(&tasks) / span / 8.0 - 0.5).abs() < 0.02, "{}", work(&tasks) / span / 8.0);
        assert!(tasks.is_sorted_by_key(|task| task.task.submitted));
        // The same jobs at twice the density come twice as fast; on one GPU each they are as much work.
        let dense = arrivals(1.0, 1, false);
        assert_eq!(dense[7].attempts, tasks[7].attempts);
        let later = tasks[7].task.submitted.as_secs_f64() / dense[7].task.submitted.as_secs_f64();
        assert!((later - 2.0).abs() < 1e-6);
        assert!((work(&arrivals(0.5, 1, true)) / work(&tasks) - 1.0).abs() < 1e-9);
        assert_ne!(arrivals(0.5, 2, false), tasks);
    }

    #[test]
    fn chance_changes_only_what_it_is_asked_for() {
        let kinds = kinds();
        let arrivals = |chance| {
            let known = Arrivals {
                kinds: &kinds,
                jobs: 3_000,
                density: 0.9,
                gpus: 8,
                seed: 3,
                known: true,
                narrow: false,
                chance,
            };
            known.poisson()
        };
        let sure = arrivals(SURE);
        let tasks = arrivals(Chance { priorities: 3, estimate_error: 0.5 });
        let (mut levels, mut logs) = ([0; 3], Vec::new());
        for (task, sure) in tasks.iter().zip(&sure) {
            let actual = |task: &SimTask| (task.task.submitted, task.attempts.clone(), task.task.request.gpus);
            assert_eq!(actual(task), actual(sure));
            assert_eq!((sure.task.priority, sure.task.estimate.duration), (0, Some(sure.attempts[0].work)));
            levels[task.task.priority as usize] += 1;
            let told = task.task.estimate.duration.unwrap().as_secs_f64();
            logs.push((told / sure.attempts[0].work.as_secs_f64()).ln());
        }
        assert!(levels.iter().all(|n| (900..1_100).contains(n)), "{levels:?}");
        let sd = (logs.iter().map(|log| log * log).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((sd - 0.5).abs() < 0.03, "{sd}");
        let errors = arrivals(Chance { priorities: 1, estimate_error: 0.5 });
        assert_eq!(errors[7].task.estimate, tasks[7].task.estimate);
    }
}
