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
//! | `observations.jsonl` | engine, of a program beside it, look by look | what is in such a record where the engine did not live to use it ([`Observations`]) |
//!
//! Besides, a node rings for an attempt whose `started.json` or `ended.json` has come: a line in a file of its host in the run's folder ([`Bells`]),
//! so that the engine reads what was appended to a few files instead of looking into the folders of all attempts. Who is not rung for is looked at more seldom.

pub(crate) mod observations;
mod programs;
mod serve;
mod stay;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
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

pub(crate) use observations::{NewSamples, Observations, Surroundings, Written};
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
    /// When the window of its group was closed, where that was before its end and who kept it knew.
    #[serde(default)]
    pub(crate) closed: Option<f64>,
    /// Nobody watched it: its exit is all that is known.
    #[serde(default)]
    pub(crate) is_unseen: bool,
}

impl Record {
    /// Of an exit, with nothing that was seen before it.
    fn of(exit: Exit) -> Record {
        Record {
            exit,
            host: HostSamples::default(),
            gpus: GpuSamples::default(),
            cost: 0.0,
            looks: Looks::default(),
            released: None,
            warned: None,
            timed_out: false,
            elsewhere: 0,
            unwatched: false,
            beside: BTreeSet::new(),
            near: BTreeSet::new(),
            closed: None,
            is_unseen: false,
        }
    }
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

    pub(crate) fn ended(&self) -> PathBuf {
        self.0.join("ended.json")
    }

    /// Where its program runs, once it does.
    pub(crate) fn read_started(&self) -> Option<NodeFacts> {
        read(&self.started())
    }

    /// Makes the record of an end that who saw the attempt did not live to settle. There is none without the keeper's record of its exit,
    /// and none of what `is_watched`, and was not seen to its end.
    pub(crate) fn write_unsettled_end(&self, is_watched: bool) {
        let exit = if self.has_ended() { None } else { read::<Exit>(&self.0.join(flow_protocol::file::EXIT)) };
        let Some(exit) = exit else { return };
        let seen = observations::record(&self.0, &exit);
        let Some(record) = seen.or_else(|| (!is_watched).then(|| Record { is_unseen: true, ..Record::of(exit) }))
        else {
            return;
        };
        // Where it cannot be written its step is done again.
        let _ = write_atomically(&self.ended(), &serde_json::to_vec(&record).unwrap_or_default());
    }

    /// How it ended, once it has.
    pub(crate) fn read_ended(&self) -> Option<Record> {
        read(&self.ended())
    }

    /// It has ended, and said how.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended().exists()
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

    /// There is something to read of an attempt. Each host has a file of its own, for only one can append to a file of a network file
    /// system.
    fn ring(&self, host: &str, attempt: AttemptId) {
        let name: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file = fs::File::options().create(true).append(true).open(self.0.join(name));
        // Where nobody hangs bells any more nobody waits either.
        let _ = file.and_then(|mut file| file.write_all(format!("{}\n", attempt.0).as_bytes()));
    }
}

/// Who listens to the bells of a run.
pub(crate) struct Ear {
    bells: Bells,
    /// How much of each host's file was read.
    read: BTreeMap<OsString, u64>,
}

impl Ear {
    /// From now on nodes can ring. Where the disk is full they cannot, and the queue tells when to look.
    pub(crate) fn new(bells: Bells) -> Ear {
        let _ = fs::create_dir_all(&bells.0);
        Ear { bells, read: BTreeMap::new() }
    }

    /// For whom was rung since the last time, as often as they were.
    pub(crate) fn rung(&mut self) -> Vec<AttemptId> {
        let mut rung = Vec::new();
        for entry in fs::read_dir(&self.bells.0).into_iter().flatten().flatten() {
            let from = self.read.entry(entry.file_name()).or_default();
            let mut lines = String::new();
            let read = fs::File::open(entry.path()).and_then(|mut file| {
                file.seek(SeekFrom::Start(*from))?;
                file.read_to_string(&mut lines)
            });
            // A line without an end is still being written.
            let Some(whole) = lines.rfind('\n').filter(|_| read.is_ok()) else { continue };
            *from += whole as u64 + 1;
            rung.extend(lines[..whole].lines().filter_map(|line| line.parse().ok()).map(AttemptId));
        }
        rung
    }

    /// Nobody listens any more.
    pub(crate) fn close(&self) {
        let _ = fs::remove_dir_all(&self.bells.0);
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
        let bells = Bells(dir.path().join("bells"));
        bells.ring("n1", AttemptId(0));
        let mut ear = Ear::new(bells.clone());
        assert_eq!(ear.rung(), [], "nobody had hung them yet");
        for (host, attempt) in [("n1", 7), ("n2/x", 8), ("n1", 7)] {
            bells.ring(host, AttemptId(attempt));
        }
        let mut rung = ear.rung();
        rung.sort();
        assert_eq!(rung, [7, 7, 8].map(AttemptId));
        fs::File::options().append(true).open(dir.path().join("bells/n1")).unwrap().write_all(b"1").unwrap();
        assert_eq!(ear.rung(), [], "half a line");
        bells.ring("n1", AttemptId(2));
        assert_eq!(ear.rung(), [AttemptId(12)]);
        ear.close();
        bells.ring("n1", AttemptId(3));
        assert_eq!(ear.rung(), []);
    }
}
