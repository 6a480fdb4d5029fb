//! A policy on jobs that arrive, generated over several seeds or as a trace has them: what the step `flow/simulate` does.

use flow_core::CatalogueStep;
use flow_core::reason::BuiltinFault;
use flow_core::sched::contention::Host;
use flow_core::sched::policy::{self, Lyapunov, Policy};
use flow_core::sched::{Capacity, GpuState, Limits};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arrivals::{Arrivals, Chance, Kind};
use crate::{Cluster, Schedule, SimTask, Simulation, Slurm, Summary, Use, trace};

/// GPU memory of machines of which only the number of GPUs is given, bytes.
const GPU_MEMORY: u64 = 80 << 30;

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudyWith {
    /// The cluster, as NODESxGPUS: `1x4`.
    pub gpus: String,
    /// Cores that all jobs share; without them the CPU does not count.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// A scheduling policy. Those for one GPU a job get wide jobs on one, as many times longer.
    pub policy: String,
    /// For `lyapunov`: seconds of waiting that a GPU-second is worth; 1 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub v: Option<f64>,
    /// Kinds of jobs that arrive by chance …
    #[serde(default)]
    pub mix: Vec<Kind>,
    /// … so densely: the GPU time that is asked for, as a share of what there is …
    #[serde(default)]
    pub density: Option<f64>,
    /// … and so many.
    #[serde(default = "jobs")]
    pub jobs: usize,
    /// In place of a mix: a trace of jobs, as CSV with the columns job_id, submit_s, num_gpus, duration_s.
    #[serde(default)]
    #[schemars(extend("x-flow" = "path"))]
    pub trace: Option<String>,
    /// How often it is repeated, with other chance.
    #[serde(default = "seeds")]
    pub seeds: u64,
    /// Jobs may share GPUs, as if history knew what each kind takes.
    #[serde(default)]
    pub share: bool,
    /// Generated jobs have priorities 0, 1, … below this, each as likely.
    #[serde(default = "priorities")]
    #[schemars(range(min = 1, max = 100))]
    pub priorities: u32,
    /// Error of the durations that policies see: the standard deviation of its logarithm; 0 for exact durations.
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    pub estimate_error: f64,
    /// Jobs go through Slurm, whose nodes `gpus` tells, with these limits and times; `{}` for Slurm's own.
    #[serde(default)]
    pub slurm: Option<Slurm>,
}

/// The step `flow/simulate`, as workflows use it.
pub fn provided() -> CatalogueStep {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    CatalogueStep {
        about: "a scheduling policy on jobs that arrive, generated over several seeds or as a trace has them".into(),
        with: settings.into_generator().into_root_schema_for::<StudyWith>().to_value(),
        outputs: IndexMap::from([("out".to_owned(), "out".to_owned())]),
        ..CatalogueStep::default()
    }
}

/// 300 of them, as `--jobs` has it.
fn jobs() -> usize {
    300
}

fn seeds() -> u64 {
    30
}

fn priorities() -> u32 {
    3
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Study {
    /// The tasks of the first seed, and their schedule.
    pub first: (Vec<SimTask>, Schedule),
    /// The host that they shared.
    pub host: Host,
    pub cluster: Cluster,
    /// The figures of each seed.
    pub seeds: Vec<(Summary, Use)>,
}

impl Study {
    /// Runs it; `trace` is the text of the trace that `with` names.
    ///
    /// # Errors
    /// What is wrong with its parameters or its trace, in words.
    pub fn of(with: &StudyWith, trace: Option<&str>) -> Result<Study, BuiltinFault> {
        let cluster = Cluster::parse(&with.gpus)?;
        if with.jobs == 0 || with.jobs > 1_000_000 || with.seeds == 0 || with.seeds > 1_000 {
            return Err(BuiltinFault::TooManyJobs);
        }
        if let Some(slurm) = &with.slurm {
            slurm.check()?;
            if with.share || with.cpus.is_some() {
                return Err(BuiltinFault::SlurmShares);
            }
        }
        let made = || with.policy();
        let narrow = made()?.one_gpu_only();
        let workload = match trace {
            Some(text) => Workload::replayed(with, text, cluster, narrow)?,
            None => Workload::generated(with, cluster, narrow)?,
        };
        let host = Host { cores: with.cpus.unwrap_or(f64::from(u32::MAX)), devices: Vec::new() };
        let gpu = GpuState { memory: GPU_MEMORY, foreign: 0, alive: true };
        let cpus = with.cpus.map_or(u32::MAX, |cores| cores as u32);
        let capacity = Capacity { gpus: vec![gpu; cluster.total() as usize], cpus, ..cluster.capacity() };
        let mut first = None;
        let mut seeds = Vec::new();
        for seed in 0..workload.seeds(with.seeds) {
            let tasks = workload.tasks(seed);
            let simulation = Simulation::new(tasks.clone(), capacity.clone(), made()?, Limits::simulated());
            let simulation = simulation.and_then(|simulation| match with.slurm {
                Some(slurm) => simulation.on_slurm(slurm, cluster),
                None => Ok(simulation.on(host.clone())),
            });
            let schedule = simulation
                .and_then(|s| s.run(|_, _| {}))
                .map_err(|e| BuiltinFault::SimulationFails { message: e.to_string() })?;
            let summary = Summary::of(&with.policy, &tasks, &schedule, cluster.total());
            seeds.push((summary, Use::of(&tasks, &schedule, cluster.total(), with.cpus.unwrap_or(0.0))));
            first.get_or_insert((tasks, schedule));
        }
        Ok(Study { first: first.unwrap_or_default(), host, cluster, seeds })
    }
}

impl StudyWith {
    fn policy(&self) -> Result<Box<dyn Policy>, BuiltinFault> {
        let made = policy::named(&self.policy).ok_or_else(|| policy::unknown(&self.policy))?;
        match self.v {
            None => Ok(made),
            Some(_) if made.name() != Lyapunov::default().name() => {
                Err(BuiltinFault::VOfOther { policy: self.policy.clone() })
            }
            Some(v) if !(0.0..=1e9).contains(&v) => Err(BuiltinFault::VNegative { value: v.to_string() }),
            Some(v) => Ok(Box::new(Lyapunov { v })),
        }
    }

    fn chance(&self) -> Chance {
        Chance { priorities: self.priorities, estimate_error: self.estimate_error }
    }
}

enum Workload<'a> {
    /// Other jobs with each seed.
    Generated(Arrivals<'a>),
    /// The same jobs; by chance is what is known of them.
    Replayed(Vec<SimTask>, Chance),
}

impl<'a> Workload<'a> {
    fn generated(with: &'a StudyWith, cluster: Cluster, narrow: bool) -> Result<Workload<'a>, BuiltinFault> {
        let Some(density) = with.density else {
            return Err(BuiltinFault::NoDensity);
        };
        if !(0.001..=100.0).contains(&density) {
            return Err(BuiltinFault::DensityOutside { value: density.to_string() });
        }
        with.mix.iter().try_for_each(Kind::check)?;
        if with.mix.iter().map(|kind| kind.weight).sum::<f64>() <= 0.0 {
            return Err(BuiltinFault::EmptyMix);
        }
        if with.policy == "priority" && with.priorities < 2 {
            return Err(BuiltinFault::OnePriority);
        }
        let most = if narrow { 1 } else { with.mix.iter().map(|kind| kind.gpus).max().unwrap_or(0) };
        if let Some(wide) = with.mix.iter().find(|kind| kind.gpus.min(most) > cluster.total()) {
            let (kind_name, gpus, has) = (wide.name.clone(), wide.gpus, cluster.total());
            return Err(BuiltinFault::KindTooWide { kind_name, gpus, has });
        }
        let (kinds, jobs, gpus) = (&with.mix, with.jobs, cluster.total());
        let known = with.share;
        Ok(Workload::Generated(Arrivals { kinds, jobs, density, gpus, seed: 0, known, narrow, chance: with.chance() }))
    }

    fn replayed(with: &StudyWith, text: &str, cluster: Cluster, narrow: bool) -> Result<Workload<'a>, BuiltinFault> {
        if !with.mix.is_empty() || with.density.is_some() {
            return Err(BuiltinFault::TraceWithMix);
        }
        if with.share {
            return Err(BuiltinFault::TraceShares);
        }
        let told = |errors: Vec<trace::TraceError>| {
            let first = errors.into_iter().next();
            first.map_or(BuiltinFault::TraceWithoutMistake, |first| BuiltinFault::BadTrace {
                line: first.line,
                mistake: first.what,
                advice: first.help,
            })
        };
        let jobs = trace::read(text, &trace::Columns::default()).map_err(told)?.jobs;
        if !narrow {
            let wide = trace::too_wide(&jobs, cluster.total(), None);
            if !wide.is_empty() {
                return Err(told(wide));
            }
        }
        // Its priorities are those of the trace.
        let chance = Chance { priorities: 1, ..with.chance() };
        let levels = jobs.iter().any(|job| job.priority != jobs[0].priority);
        if with.policy == "priority" && !levels {
            return Err(BuiltinFault::OnePriorityInTrace);
        }
        let mut tasks = trace::tasks(&jobs);
        if narrow {
            tasks.iter_mut().for_each(SimTask::narrow);
        }
        Ok(Workload::Replayed(tasks, chance))
    }

    /// How often it is worth repeating.
    fn seeds(&self, asked: u64) -> u64 {
        match self {
            Workload::Replayed(_, chance) if !chance.any() => 1,
            _ => asked,
        }
    }

    fn tasks(&self, seed: u64) -> Vec<SimTask> {
        match self {
            Workload::Generated(arrivals) => Arrivals { seed, ..arrivals.clone() }.poisson(),
            Workload::Replayed(tasks, chance) => {
                let mut tasks = tasks.clone();
                chance.befall(&mut tasks, seed);
                tasks
            }
        }
    }
}
