//! `flow __node FOLDER`: a job on its node. It claims the job's folder, runs the keeper and the samplers next to the
//! programs of its attempts, and writes the files that the engine reads from another machine. The folders are the whole
//! interface.
//!
//! | file | written by | holds |
//! | --- | --- | --- |
//! | `node.json` | engine, for its user alone; removed after it was read | [`Job`]: the programs, their variables and secrets |
//! | `claim/` | node | a second job for the same folder ends at once |
//! | `started.json` | node, daemon | [`NodeFacts`]: where the program runs |
//! | `beat` | node, every few seconds | a number that grows while the node lives |
//! | `kill` | engine, daemon | a request to end the program, with its grace period in seconds |
//! | `ended.json` | node, daemon, last, atomically; the engine of a foreground run for steps that took a while | [`Record`]: how it ended, and the observations |
//!
//! When `started.json` or `ended.json` is there, a node also sends a wake-up: a line in its host's file in the run's
//! folder ([`Notifier`]). So the engine reads the new lines of a few files instead of the folders of all attempts, which
//! it looks at less often.

mod outgoing;
mod programs;
mod serve;
mod supervisor;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use flow_core::{
    AttemptId, Environment, GpuFacts,
    measure::{GpuSamples, HostSamples, Looks},
};
use flow_protocol::Exit;
use flow_runs::RunDir;
use serde::{Deserialize, Serialize};

use crate::{attempt::write_atomically, keeper};

pub use serve::{EnvironmentOf, serve};
pub use supervisor::SUPERVISOR_ARG;
pub use supervisor::supervise;
pub use supervisor::{AttemptStart, DaemonEvent, DaemonRequest, Hello, Welcome};

/// Exit code of the job's script if its folder does not exist.
pub const NO_FOLDER: u8 = 97;
/// Exit code of a job whose folder another job has claimed.
pub const CLAIMED: u8 = 98;

/// The programs for a node. It holds secrets: nothing prints it.
#[derive(Serialize, Deserialize)]
pub struct Job {
    pub programs: Vec<Program>,
    /// All programs use the same GPUs.
    pub shares_gpus: bool,
    /// The interval of its beats.
    pub beat: Duration,
    pub notifier: Notifier,
}

/// A program of it.
#[derive(Serialize, Deserialize)]
pub struct Program {
    pub start: keeper::Start,
    pub gpus: u32,
    /// The model of its GPUs, as far as the engine knows, in case the node cannot report it.
    pub gpu_model: Option<String>,
}

/// Where a program runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    pub host: String,
    /// The job's id in the batch system.
    pub job: Option<String>,
    /// The program's main process.
    pub(crate) pid: u32,
    pub cpu_model: String,
    /// All CPUs of the node.
    pub host_cpus: u32,
    /// Those that the job may use, if fewer.
    #[serde(default)]
    pub allowed_cpus: Option<u32>,
    pub memory: u64,
    pub driver: Option<String>,
    /// The GPUs of the program.
    pub gpus: Vec<GpuFacts>,
    /// The software environment of the program.
    #[serde(default)]
    pub environment: Environment,
}

/// The end of a program on its node, by the node's clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub exit: Exit,
    pub host: HostSamples,
    pub gpus: GpuSamples,
    /// Share of one CPU core that sampling took.
    pub cost: f64,
    /// When each part of its log was there.
    pub looks: Looks,
    /// When the node saw the barrier of its group open.
    pub released: Option<f64>,
    /// Set if the batch system ended it: near its time limit (`true`), or by a cancellation.
    pub warned: Option<bool>,
    /// Its time limit was reached, and no engine was there to end it.
    #[serde(default)]
    pub timed_out: bool,
    /// The largest number of attempts of other runs seen at once; `unwatched` if some could not be seen.
    #[serde(default)]
    pub other_attempts: u32,
    #[serde(default)]
    pub unwatched: bool,
    /// Attempts that ran beside it, and those of them on its GPUs, if its supervisor knows them.
    #[serde(default)]
    pub corunners: BTreeSet<AttemptId>,
    #[serde(default)]
    pub near: BTreeSet<AttemptId>,
    /// When the window of its group closed, if before its end and known to its supervisor.
    #[serde(default)]
    pub closed: Option<f64>,
}

/// Names of these files, as in the table above.
const STARTED: &str = "started.json";
const BEAT: &str = "beat";
const KILL: &str = "kill";
const ENDED: &str = "ended.json";

/// The files of an attempt that runs on a node.
pub struct NodeFiles(PathBuf);

impl NodeFiles {
    pub fn of(folder: &Path) -> NodeFiles {
        NodeFiles(folder.to_owned())
    }

    pub fn job(&self) -> PathBuf {
        self.0.join("node.json")
    }

    pub fn claim(&self) -> PathBuf {
        self.0.join("claim")
    }

    /// The grace period, if its program was asked to end.
    pub fn end_grace(&self) -> Option<Duration> {
        let seconds = std::fs::read_to_string(self.0.join(KILL)).ok()?.trim().parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Those of a program that has ended.
    pub fn all(&self) -> Vec<PathBuf> {
        [self.0.join(STARTED), self.0.join(KILL), self.0.join(ENDED)].into_iter().filter(|path| path.exists()).collect()
    }

    /// The facts about its node, once its program runs.
    pub fn read_started(&self) -> Option<NodeFacts> {
        read(&self.0.join(STARTED))
    }

    /// # Errors
    /// The disk is full.
    pub fn write_ended(&self, record: &Record) -> io::Result<()> {
        write_atomically(&self.0.join(ENDED), &serde_json::to_vec(record)?)
    }

    /// The record of its end, if it has ended.
    pub fn read_ended(&self) -> Option<Record> {
        read(&self.0.join(ENDED))
    }

    /// True if it has ended with a record.
    pub fn has_ended(&self) -> bool {
        self.0.join(ENDED).exists()
    }

    /// The node's latest beat.
    pub fn read_beat(&self) -> Option<u64> {
        read(&self.0.join(BEAT))
    }

    /// Withdraws the request to end.
    pub fn let_live(&self) {
        let _ = fs::remove_file(self.0.join(KILL));
    }

    /// Asks its program to end.
    ///
    /// # Errors
    /// The disk is full.
    pub fn request_end(&self, grace: Duration) -> io::Result<()> {
        write_atomically(&self.0.join(KILL), format!("{:.3}", grace.as_secs_f64()).as_bytes())
    }
}

/// The folder in which nodes leave wake-ups for attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notifier(PathBuf);

impl Notifier {
    /// The folder of a run.
    pub fn of(run: &RunDir) -> Notifier {
        Notifier(run.path().join("bells"))
    }

    /// Sends a wake-up for an attempt with new files. Each host has its own file, because on a network file system only
    /// one host can append to a file.
    fn wake(&self, host: &str, attempt: AttemptId) {
        let name: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file = fs::File::options().create(true).append(true).open(self.0.join(name));
        // If the folder is gone, nobody waits for wake-ups any more.
        let _ = file.and_then(|mut file| file.write_all(format!("{}\n", attempt.0).as_bytes()));
    }
}

/// The receiver of a run's wake-ups.
pub struct WakeUpReader {
    notifier: Notifier,
    /// Offset up to which each host's file was read.
    read: BTreeMap<OsString, u64>,
}

impl WakeUpReader {
    /// Makes wake-ups possible. If the disk is full there are none, and the queue shows when to look.
    pub fn new(bells: Notifier) -> WakeUpReader {
        let _ = fs::create_dir_all(&bells.0);
        WakeUpReader { notifier: bells, read: BTreeMap::new() }
    }

    /// The attempts with new wake-ups since the last call, with repetitions.
    pub fn woken(&mut self) -> Vec<AttemptId> {
        let mut rung = Vec::new();
        for entry in fs::read_dir(&self.notifier.0).into_iter().flatten().flatten() {
            let from = self.read.entry(entry.file_name()).or_default();
            let mut lines = String::new();
            let read = fs::File::open(entry.path()).and_then(|mut file| {
                file.seek(SeekFrom::Start(*from))?;
                file.read_to_string(&mut lines)
            });
            // A line without a line end is still being written.
            let Some(whole) = lines.rfind('\n').filter(|_| read.is_ok()) else { continue };
            *from += whole as u64 + 1;
            rung.extend(lines[..whole].lines().filter_map(|line| line.parse().ok()).map(AttemptId));
        }
        rung
    }

    /// Ends the wake-ups.
    pub fn close(&self) {
        let _ = fs::remove_dir_all(&self.notifier.0);
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn not_written(path: &Path, error: &io::Error) -> String {
    format!("`{}` cannot be written: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_is_heard_once() {
        let dir = tempfile::tempdir().unwrap();
        let bells = Notifier(dir.path().join("bells"));
        bells.wake("n1", AttemptId(0));
        let mut ear = WakeUpReader::new(bells.clone());
        assert_eq!(ear.woken(), [], "nobody had hung them yet");
        for (host, attempt) in [("n1", 7), ("n2/x", 8), ("n1", 7)] {
            bells.wake(host, AttemptId(attempt));
        }
        let mut rung = ear.woken();
        rung.sort();
        assert_eq!(rung, [7, 7, 8].map(AttemptId));
        fs::File::options().append(true).open(dir.path().join("bells/n1")).unwrap().write_all(b"1").unwrap();
        assert_eq!(ear.woken(), [], "half a line");
        bells.wake("n1", AttemptId(2));
        assert_eq!(ear.woken(), [AttemptId(12)]);
        ear.close();
        bells.wake("n1", AttemptId(3));
        assert_eq!(ear.woken(), []);
    }
}
