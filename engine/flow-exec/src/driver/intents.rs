//! What is written down of a job before a batch system is asked for it, in the folder of its run, and read by the run that comes after
//! one that died. It stays until what came of the job is safe. Of what goes on on this machine the same is written when its run has
//! died. Asks nobody for a job.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use flow_core::{Artifact, AttemptId, Circumstances, Digest, RunId, sched::Placement};
use flow_slurm::JobId;
use flow_store::{Kept, RunDir, StoreDir};
use serde::{Deserialize, Serialize};

use crate::{
    attempt::{write_atomically, write_durably},
    clock, keeper,
    node::NodeFiles,
};

/// One job, written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// Its name in the batch system, by which it is found again.
    pub(crate) key: String,
    /// Which task of an array it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<u32>,
    /// Its number there, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
    /// The run that asked for it first.
    pub(crate) run: RunId,
    /// The attempts that run in it; more than one are a co-run group.
    pub(crate) members: Vec<Member>,
    /// It is no job of a batch system: it goes on on this machine since its run's death, of this workflow file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) here: Option<String>,
}

/// An attempt in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Of the run that asked first.
    pub(crate) attempt: AttemptId,
    /// Of its result; on this machine, of the attempt, which serves every reading of it.
    pub(crate) fingerprint: Digest,
    pub(crate) label: String,
    pub(crate) folder: PathBuf,
    /// When it was filled, seconds since 1970.
    pub(crate) began: f64,
    /// Its program says by itself when it is ready.
    pub(crate) announces: bool,
    /// What it writes goes through pipes.
    pub(crate) piped: bool,
    /// Artifacts that it reads in the store itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) linked: Vec<(String, Artifact)>,
    /// What it has of this machine, and what was known of that at its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) given: Option<Box<Given>>,
}

/// What an attempt has that runs on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) placement: Placement,
    pub(crate) circumstances: Circumstances,
}

/// How what goes on on this machine stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It goes on, or came to something by itself.
    Sound,
    /// It was told to end, or not all of it began, and it is about to be gone.
    Ends,
    /// Nothing of it goes on, and nothing came of it.
    Lost,
}

/// How long an attempt may take to end that nobody wants.
const GRACE: Duration = Duration::from_secs(10);
/// How long who keeps what a run has left may take to write that down, and how often it is looked.
const WRITES: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

impl Intent {
    /// The name of a job: of the attempts that run in it, and of no others of any store.
    pub(crate) fn key(store: &Path, run: &RunId, attempts: &[AttemptId]) -> String {
        let of = format!("{} {run} {attempts:?}", store.display());
        format!("{}{}", flow_slurm::KEY_PREFIX, &Digest::of(of.as_bytes()).to_string()[..20])
    }

    /// How what goes on on this machine stands.
    pub(crate) fn standing(&self, dir: &StoreDir) -> Standing {
        let files = || self.members.iter().map(|member| NodeFiles::of(&member.folder));
        let ended = |files: &NodeFiles| files.read_ended().map(|record| record.warned.is_none());
        let goes = matches!(dir.run(&self.run).kept(), Kept::Goes { .. });
        let ends: Vec<Option<bool>> = files().map(|files| ended(&files)).collect();
        if !goes && ends.iter().any(Option::is_none) {
            // Who kept it may have ended between the two looks.
            let again = files().all(|files| ended(&files).is_some());
            return if again { self.standing(dir) } else { Standing::Lost };
        }
        let begun = |(files, ended): (NodeFiles, &Option<bool>)| ended.is_some() || files.read_started().is_some();
        let sound = files().zip(&ends).all(begun)
            && files().all(|files| files.asked_to_end().is_none())
            && ends.iter().flatten().all(|by_itself| *by_itself);
        match (sound, ends.iter().all(Option::is_some)) {
            (true, _) => Standing::Sound,
            (false, true) => Standing::Lost,
            (false, false) => Standing::Ends,
        }
    }

    /// It is to end, on this machine, for nobody wants what it comes to; says whether there is something to end.
    pub(crate) fn end(&self, dir: &StoreDir) -> bool {
        let going = self.members.iter().map(|member| NodeFiles::of(&member.folder));
        let going: Vec<NodeFiles> = going.filter(|files| files.read_ended().is_none()).collect();
        if going.is_empty() || !matches!(dir.run(&self.run).kept(), Kept::Goes { .. }) {
            self.remove(dir);
            return false;
        }
        // Said once: who said it before may have said it with less grace.
        going.iter().filter(|files| files.asked_to_end().is_none()).for_each(|files| _ = files.ask_to_end(GRACE));
        true
    }

    /// The folder of the job: that of its first attempt.
    pub(crate) fn folder(&self) -> &Path {
        self.members.first().map_or(Path::new("/"), |member| &member.folder)
    }

    fn path(&self, dir: &StoreDir) -> PathBuf {
        let task = self.task.map(|task| format!("_{task}")).unwrap_or_default();
        dir.run(&self.run).jobs().join(format!("{}{task}.json", self.key))
    }

    /// Writes it down, and returns when no power cut can undo it.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn write(&self, dir: &StoreDir) -> io::Result<()> {
        fs::create_dir_all(dir.run(&self.run).jobs())?;
        write_durably(&self.path(dir), &serde_json::to_vec(self)?)
    }

    /// Writes it down where it is no loss that a power cut takes this back: what it adds to an earlier writing can be found again, or
    /// [`sync`] follows.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn note(&self, dir: &StoreDir) -> io::Result<()> {
        fs::create_dir_all(dir.run(&self.run).jobs())?;
        write_atomically(&self.path(dir), &serde_json::to_vec(self)?)
    }

    /// What came of it is safe.
    pub(crate) fn remove(&self, dir: &StoreDir) {
        let path = self.path(dir);
        let _ = fs::remove_file(&path);
        // Only an empty one goes.
        let _ = path.parent().map(fs::remove_dir);
    }
}

/// Returns when no power cut can undo what was noted of many jobs: that takes once as long as one file each would.
///
/// # Errors
/// The disk is full.
pub(crate) fn sync(dir: &StoreDir) -> io::Result<()> {
    Ok(nix::unistd::syncfs(fs::File::open(dir.path())?)?)
}

/// What runs that do not live any more asked for, and of which nobody took the result in.
pub(crate) fn left(dir: &StoreDir) -> Vec<Intent> {
    let runs = dir.runs().unwrap_or_default().into_iter().map(|run| dir.run(&run));
    let dead = runs.filter(|run| run.has_jobs() && run.lives().is_none());
    let all = dead.inspect(settled).inspect(forget_unfinished).flat_map(|run| of(&run));
    all.filter(|intent| {
        let lost = intent.here.is_some() && intent.standing(dir) == Standing::Lost;
        if lost {
            intent.remove(dir);
        }
        !lost
    })
    .collect()
}

/// Returns when what is left of a dead run is written down.
fn settled(run: &RunDir) {
    let begun = clock::steady();
    while run.kept() == Kept::Unsure && clock::since(begun) < WRITES {
        thread::sleep(LOOK);
    }
}

/// The labels of what goes on on this machine of a run that does not live.
pub fn going_on(dir: &StoreDir, run: &RunDir) -> Vec<String> {
    if run.lives().is_some() {
        return Vec::new();
    }
    settled(run);
    let going = of(run).into_iter().filter(|intent| intent.here.is_some() && intent.standing(dir) != Standing::Lost);
    let members = going.flat_map(|intent| intent.members);
    let members = members.filter(|member| NodeFiles::of(&member.folder).read_ended().is_none());
    // In the order in which they began.
    let labels: BTreeMap<AttemptId, String> = members.map(|member| (member.attempt, member.label)).collect();
    labels.into_values().collect()
}

/// What a run was in the middle of writing down when it was killed says nothing, and would keep its folder from going.
fn forget_unfinished(run: &RunDir) {
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    let unfinished = files.filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    unfinished.for_each(|path| _ = fs::remove_file(path));
    let _ = fs::remove_dir(run.jobs());
}

/// Those of a run.
pub(crate) fn of(run: &RunDir) -> Vec<Intent> {
    let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).filter_map(read).collect()
}

/// Kills what runs that were killed have left running on this machine, but for what a batch system runs here by chance, and says what
/// that was.
pub(crate) fn kill_strays(dir: &StoreDir, left: &[Intent]) -> Option<String> {
    let there = left.iter().flat_map(|intent| &intent.members).map(|member| member.folder.clone());
    keeper::kill_strays(dir.path(), &there.collect())
}

/// The same, for who knows of no jobs.
pub fn end_strays(dir: &StoreDir) -> Option<String> {
    kill_strays(dir, &left(dir))
}
