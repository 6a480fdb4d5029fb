//! Assumptions of a simulation about a cluster's Slurm, and what jobs meet there. Plain data for [`crate::queue`].

use std::collections::BTreeMap;

use flow_core::reason::BuiltinFault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Assumptions about a cluster's Slurm, and about flow on it. Each job has one node. Jobs wait in order, and later jobs
/// that fit may pass. Only GPUs count. Higher priorities go first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    /// Most jobs of one run of flow in the queue, running ones too.
    #[schemars(range(min = 1))]
    pub queue: u32,
    /// `MaxArraySize`: most tasks in one array.
    #[schemars(range(min = 1))]
    pub array: u32,
    /// `MaxJobCount`: most jobs that the controller knows, those that ended lately too.
    #[schemars(range(min = 1))]
    pub jobs: u32,
    /// `MinJobAge`: for how many seconds it knows a job that has ended.
    #[schemars(range(min = 0))]
    pub remembered_s: f64,
    /// Seconds that every job waits for jobs of others, as measured.
    #[schemars(range(min = 0))]
    pub delay_s: f64,
    /// Jobs are started every so many seconds.
    #[schemars(range(min = 0.001))]
    pub tick_s: f64,
    /// Jobs that Slurm can start in a second.
    #[schemars(range(min = 0.001))]
    pub rate: f64,
    /// Seconds that one call of `sbatch` takes.
    #[schemars(range(min = 0))]
    pub submit_s: f64,
    /// Seconds until flow sees that a job has ended.
    #[schemars(range(min = 0))]
    pub notice_s: f64,
}

impl Default for Slurm {
    /// Slurm's own limits and tick; the rate and the time of a call are of a controller on two cores.
    fn default() -> Self {
        Slurm {
            queue: 200,
            array: 1001,
            jobs: 10_000,
            remembered_s: 300.0,
            delay_s: 0.0,
            tick_s: 3.0,
            rate: 40.0,
            submit_s: 0.01,
            notice_s: 1.0,
        }
    }
}

const NAMES: [&str; 9] =
    ["queue", "array", "jobs", "remembered_s", "delay_s", "tick_s", "rate", "submit_s", "notice_s"];

impl Slurm {
    /// Reads `queue=500,delay_s=600`; what is not named stays as it is here.
    ///
    /// # Errors
    /// What was expected.
    pub fn with(self, text: &str) -> Result<Slurm, BuiltinFault> {
        let mut slurm = self;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "default") {
            let own = || part.to_owned();
            let (name, value) = part.split_once('=').ok_or_else(|| BuiltinFault::SlurmNotANumber { part: own() })?;
            let value = value.trim();
            let no_number = |_| BuiltinFault::SlurmNoNumber { part: own(), value: value.to_owned() };
            let number = value.parse::<f64>().map_err(no_number)?;
            match name.trim() {
                "queue" => slurm.queue = number as u32,
                "array" => slurm.array = number as u32,
                "jobs" => slurm.jobs = number as u32,
                "remembered_s" => slurm.remembered_s = number,
                "delay_s" => slurm.delay_s = number,
                "tick_s" => slurm.tick_s = number,
                "rate" => slurm.rate = number,
                "submit_s" => slurm.submit_s = number,
                "notice_s" => slurm.notice_s = number,
                other => {
                    let (name, known) = (other.to_owned(), NAMES.into_iter().collect());
                    return Err(BuiltinFault::SlurmUnknown { name, known });
                }
            }
        }
        slurm.check()?;
        Ok(slurm)
    }

    /// # Errors
    /// A number that makes no sense.
    pub fn check(&self) -> Result<(), BuiltinFault> {
        let counts = [("queue", self.queue), ("array", self.array), ("jobs", self.jobs)];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(BuiltinFault::SlurmZero { name: (*name).to_owned() });
        }
        let times = [
            ("remembered_s", self.remembered_s, 0.0),
            ("delay_s", self.delay_s, 0.0),
            ("tick_s", self.tick_s, 0.001),
            ("rate", self.rate, 0.001),
            ("submit_s", self.submit_s, 0.0),
            ("notice_s", self.notice_s, 0.0),
        ];
        match times.iter().find(|(_, value, least)| !(*least..=1e7).contains(value)) {
            Some((name, value, min)) => Err(BuiltinFault::SlurmOutside {
                name: (*name).to_owned(),
                value: value.to_string(),
                min: min.to_string(),
            }),
            None => Ok(()),
        }
    }
}

/// What kept GPUs idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// Nothing was left to do, or nothing that could be done yet.
    NoWork,
    /// Jobs that would fit waited for Slurm's next turn.
    Tick,
    /// flow had as many jobs in the queue as it may.
    Queue,
    /// The controller could take no more jobs.
    Jobs,
    /// Jobs waited for those of others.
    Delay,
    /// Jobs were being submitted.
    Submit,
    /// No node had as many free GPUs as a job wanted.
    Fit,
}

/// What the jobs met.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueStats {
    /// Calls of `sbatch`.
    pub calls: u64,
    /// Most jobs in the queue at once, running ones too.
    pub most_in_queue: usize,
    /// From submission to start, on average, seconds.
    pub mean_wait_s: f64,
    /// GPU time in which GPUs were idle, as a share of all there was until the last job ended.
    pub idle: BTreeMap<Idle, f64>,
}
