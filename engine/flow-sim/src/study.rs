//! A policy on generated arrivals, over several seeds: what `flow simulate --arrivals` and the step `flow/simulate` do.

use flow_core::sched::contention::Host;
use flow_core::sched::{Capacity, GpuState, Limits, policy};
use flow_core::{Interval, Provided};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arrivals::{Arrivals, Kind};
use crate::{Cluster, Schedule, SimTask, Simulation, Summary, Use};

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
    /// GPU time that is asked for, as a share of what there is.
    pub density: f64,
    /// How many jobs arrive.
    #[serde(default = "jobs")]
    pub jobs: usize,
    /// What arrives.
    pub mix: Vec<Kind>,
    /// How often it is repeated, with other chance.
    #[serde(default = "seeds")]
    pub seeds: u64,
    /// Jobs may share GPUs, as if history knew what each kind takes.
    #[serde(default)]
    pub share: bool,
}

/// The step `flow/simulate`, as workflows use it.
pub fn provided() -> Provided {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    Provided {
        about: "a scheduling policy on generated arrivals, over several seeds".into(),
        with: settings.into_generator().into_root_schema_for::<StudyWith>().to_value(),
        outputs: IndexMap::from([("out".to_owned(), "out".to_owned())]),
        ..Provided::default()
    }
}

fn jobs() -> usize {
    300
}

fn seeds() -> u64 {
    5
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Study {
    /// The tasks of the first seed, and their schedule.
    pub first: (Vec<SimTask>, Schedule),
    /// What they shared.
    pub host: Host,
    /// The cluster.
    pub cluster: Cluster,
    /// Each seed.
    pub seeds: Vec<(Summary, Use)>,
}

impl Study {
    /// Runs it.
    ///
    /// # Errors
    /// What is wrong with its parameters, in words.
    pub fn of(with: &StudyWith) -> Result<Study, String> {
        let cluster = Cluster::parse(&with.gpus)?;
        let made = || policy::named(&with.policy).ok_or_else(|| policy::unknown(&with.policy));
        let narrow = made()?.one_gpu_only();
        with.mix.iter().try_for_each(Kind::check)?;
        if !(0.001..=100.0).contains(&with.density) {
            return Err(format!("density is {}, expected a share of the GPUs' time, as 0.9", with.density));
        }
        if with.jobs == 0 || with.jobs > 1_000_000 || with.seeds == 0 || with.seeds > 1_000 {
            return Err("expected 1 to 1,000,000 jobs and 1 to 1,000 seeds".to_owned());
        }
        if with.mix.iter().map(|kind| kind.weight).sum::<f64>() <= 0.0 {
            return Err("the mix has no kind with a weight above 0".to_owned());
        }
        let most = if narrow { 1 } else { with.mix.iter().map(|kind| kind.gpus).max().unwrap_or(0) };
        if let Some(wide) = with.mix.iter().find(|kind| kind.gpus.min(most) > cluster.total()) {
            return Err(format!("{} asks for {} GPUs, and there are {}", wide.name, wide.gpus, cluster.total()));
        }
        let host = Host { cores: with.cpus.unwrap_or(f64::from(u32::MAX)), devices: Vec::new() };
        let gpu = GpuState { memory: GPU_MEMORY, strangers: 0, alive: true };
        let cpus = with.cpus.map_or(u32::MAX, |cores| cores as u32);
        let capacity = Capacity { gpus: vec![gpu; cluster.total() as usize], cpus, memory: u64::MAX, jobs: None };
        let mut first = None;
        let mut seeds = Vec::new();
        for seed in 0..with.seeds {
            let (kinds, density, gpus) = (&with.mix, with.density, cluster.total());
            let tasks = Arrivals { kinds, jobs: with.jobs, density, gpus, seed, known: with.share, narrow }.poisson();
            let simulation = Simulation::new(tasks.clone(), capacity.clone(), made()?, Limits::simulated());
            let schedule = simulation.and_then(|s| s.on(host.clone()).run(|_, _| {})).map_err(|e| e.to_string())?;
            let summary = Summary::of(&with.policy, &tasks, &schedule, gpus);
            seeds.push((summary, Use::of(&tasks, &schedule, gpus, with.cpus.unwrap_or(0.0))));
            first.get_or_insert((tasks, schedule));
        }
        Ok(Study { first: first.unwrap_or_default(), host, cluster, seeds })
    }

    /// A number over its seeds.
    pub fn over(&self, value: impl Fn(&Summary, &Use) -> f64) -> Interval {
        Interval::over(self.seeds.iter().map(|(summary, used)| value(summary, used)))
    }
}
