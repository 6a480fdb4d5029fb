//! `flow __node FOLDER`: a job on its node. It claims the job's folder, runs the keeper and the samplers beside the programs of its
//! attempts, and leaves in each attempt's folder what the engine reads, wherever that is. The folders are the whole interface.
//!
//! | file | written by | holds |
//! | --- | --- | --- |
//! | `node.json` | engine, for its user alone; removed when it was read | [`Job`]: the programs, their variables and secrets |
//! | `claim/` | node | a second job for the same folder ends at once |
//! | `started.json` | node | [`NodeFacts`]: where the program runs |
//! | `beat` | node, every few seconds | a number that grows while it lives |
//! | `kill` | engine | the program is to end: how many seconds it has for that |
//! | `ended.json` | node, last, as a whole | [`Record`]: how it ended and what was seen of it |

mod programs;
mod serve;
mod stay;

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use flow_core::{
    AttemptId, GpuFacts,
    measure::{GpuSamples, HostSamples, Looks},
};
use flow_protocol::Exit;
use serde::{Deserialize, Serialize};

use crate::{attempt::write_atomically, keeper};

pub use serve::serve;
pub(crate) use stay::STAY_ARG;
pub use stay::stay;
pub(crate) use stay::{Ask, Begin, Hello, Tell, Welcome};

/// What the job's script ends with where its folder is not there.
pub(crate) const NO_FOLDER: u8 = 97;
/// What a job ends with whose folder another one has.
pub(crate) const CLAIMED: u8 = 98;

/// What a node is to run. It holds secrets: nothing prints it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) programs: Vec<Program>,
    /// All programs have the same GPUs.
    pub(crate) shares_gpus: bool,
    /// How often it says that it lives.
    pub(crate) beat: Duration,
}

/// A program of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) start: keeper::Start,
    pub(crate) gpus: u32,
    /// The model of its GPUs, as far as the engine knows, for where the node cannot tell.
    pub(crate) gpu_model: Option<String>,
}

/// Where a program runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeFacts {
    /// The node's name.
    pub(crate) host: String,
    /// The job, as the batch system calls it.
    pub(crate) job: Option<String>,
    /// The program's main process.
    pub(crate) pid: u32,
    pub(crate) cpu_model: String,
    /// All CPUs of the node.
    pub(crate) host_cpus: u32,
    pub(crate) memory: u64,
    pub(crate) driver: Option<String>,
    /// Those that the program has.
    pub(crate) gpus: Vec<GpuFacts>,
}

/// How a program ended on its node, by the node's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) exit: Exit,
    pub(crate) host: HostSamples,
    pub(crate) gpus: GpuSamples,
    /// Share of one core that seeing it took.
    pub(crate) cost: f64,
    /// When which part of its log was there.
    pub(crate) looks: Looks,
    /// When the barrier of its group was seen to be open.
    pub(crate) released: Option<f64>,
    /// The batch system told it to end: its time was about to be up (`true`), or it was cancelled.
    pub(crate) warned: Option<bool>,
    /// Its time was up, and nobody else was there to end it.
    #[serde(default)]
    pub(crate) timed_out: bool,
    /// So many attempts of other runs of the machine were seen at once, or some were there that nobody could see.
    #[serde(default)]
    pub(crate) elsewhere: u32,
    #[serde(default)]
    pub(crate) unwatched: bool,
    /// Attempts that ran beside it, and which of them on its GPUs, where who kept it knows.
    #[serde(default)]
    pub(crate) beside: BTreeSet<AttemptId>,
    #[serde(default)]
    pub(crate) near: BTreeSet<AttemptId>,
}

/// The files of an attempt that runs on a node.
pub(crate) struct NodeFiles(PathBuf);

impl NodeFiles {
    pub(crate) fn of(folder: &Path) -> NodeFiles {
        NodeFiles(folder.to_owned())
    }

    pub(crate) fn job(&self) -> PathBuf {
        self.0.join("node.json")
    }

    pub(crate) fn claim(&self) -> PathBuf {
        self.0.join("claim")
    }

    fn started(&self) -> PathBuf {
        self.0.join("started.json")
    }

    /// # Errors
    /// In words: the disk is full.
    fn write_started(&self, facts: &NodeFacts) -> Result<(), String> {
        let path = self.started();
        let bytes = serde_json::to_vec(facts).unwrap_or_default();
        write_atomically(&path, &bytes).map_err(|e| not_written(&path, &e))
    }

    /// Somebody asked that its program end: how soon.
    pub(crate) fn asked_to_end(&self) -> Option<Duration> {
        let seconds = std::fs::read_to_string(self.kill()).ok()?.trim().parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn beat(&self) -> PathBuf {
        self.0.join("beat")
    }

    fn kill(&self) -> PathBuf {
        self.0.join("kill")
    }

    fn ended(&self) -> PathBuf {
        self.0.join("ended.json")
    }

    /// Where its program runs, once it does.
    pub(crate) fn read_started(&self) -> Option<NodeFacts> {
        read(&self.started())
    }

    /// How it ended, once it has.
    pub(crate) fn read_ended(&self) -> Option<Record> {
        read(&self.ended())
    }

    /// What its node last said.
    pub(crate) fn read_beat(&self) -> Option<u64> {
        read(&self.beat())
    }

    /// Its program is to end.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn ask_to_end(&self, grace: Duration) -> io::Result<()> {
        write_atomically(&self.kill(), format!("{:.3}", grace.as_secs_f64()).as_bytes())
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn not_written(path: &Path, error: &io::Error) -> String {
    format!("`{}` cannot be written: {error}", path.display())
}
