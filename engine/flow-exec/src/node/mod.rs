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
//!
//! Besides, a node rings for an attempt whose `started.json` or `ended.json` has come: an empty file in a folder of the run ([`Bells`]), so
//! that the engine looks into one folder instead of into those of all attempts. Who is not rung for is looked at more seldom.

mod serve;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use flow_core::{
    AttemptId, GpuFacts,
    measure::{GpuSamples, HostSamples, Looks},
};
use flow_protocol::Exit;
use flow_store::RunDir;
use serde::{Deserialize, Serialize};

use crate::{attempt::write_atomically, keeper};

pub use serve::serve;

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
    pub(crate) bells: Bells,
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
#[derive(Debug, Serialize, Deserialize)]
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

    /// It is not to end after all.
    pub(crate) fn let_live(&self) {
        let _ = fs::remove_file(self.kill());
    }

    /// Its program is to end.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn ask_to_end(&self, grace: Duration) -> io::Result<()> {
        write_atomically(&self.kill(), format!("{:.3}", grace.as_secs_f64()).as_bytes())
    }
}

/// The folder in which nodes ring for attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bells(PathBuf);

impl Bells {
    /// Those of a run.
    pub(crate) fn of(run: &RunDir) -> Bells {
        Bells(run.path().join("bells"))
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn hang(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)
    }

    /// There is something to read of an attempt.
    fn ring(&self, attempt: AttemptId) {
        // Where nobody hangs bells any more nobody waits either.
        let _ = fs::File::create(self.bell(attempt));
    }

    /// For which of those that are `listened` to was rung since the last time.
    pub(crate) fn rung(&self, listened: impl Fn(AttemptId) -> bool) -> Vec<AttemptId> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| Some(AttemptId(entry.file_name().to_str()?.parse().ok()?)));
        // Silenced before anything is read: what comes after that rings again.
        numbers.filter(|attempt| listened(*attempt) && fs::remove_file(self.bell(*attempt)).is_ok()).collect()
    }

    /// Nobody listens any more.
    pub(crate) fn take_down(&self) {
        self.rung(|_| true);
        let _ = fs::remove_dir(&self.0);
    }

    fn bell(&self, attempt: AttemptId) -> PathBuf {
        self.0.join(attempt.0.to_string())
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
