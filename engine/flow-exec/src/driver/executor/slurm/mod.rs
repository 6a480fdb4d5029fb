//! Slurm as an executor. A thread of its own talks to Slurm, because each command may take seconds. This file has the
//! side of the loop.

mod book;
mod client;
mod cluster;
mod jobs;
mod submit;
mod worker;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use flow_core::{AttemptId, Place};
use flow_protocol::Exit;
use flow_runs::{RunDir, StoreDir};
use flow_supervisor::{
    attempt::Folder,
    intents::{self, Intent},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Event, Executor, Work};
use crate::ExecError;

pub use client::{NoAnswer, Rules};
pub(crate) use cluster::{Cluster, Impossible, UnmetKey, unknown_partition};
pub use cluster::{ClusterUnavailable, overview, rules};
pub(crate) use submit::{longest_of, requested_time};

use worker::Worker;

/// Settings for a run's use of Slurm.
pub(crate) struct Settings {
    pub(crate) dir: StoreDir,
    /// The path of `flow` on the nodes.
    pub(crate) flow: PathBuf,
    /// Initial interval between queries of the queue.
    pub(crate) poll: Duration,
    /// The environment of a job, without secrets.
    pub(crate) environment: BTreeMap<String, String>,
    /// For users who look at the queue.
    pub(crate) workflow: String,
}

/// Requests to the thread.
enum SlurmRequest {
    Start(Vec<Work>),
    Kill { attempt: AttemptId, grace: Duration },
    Settled { attempt: AttemptId },
}

/// Slurm, for a run. Dropping it ends the thread; jobs keep running, and their records stay.
pub(crate) struct Slurm {
    /// To the thread, until it has to end.
    requests: Option<Sender<SlurmRequest>>,
    thread: Option<thread::JoinHandle<()>>,
    events: UnboundedReceiver<Event>,
    folders: BTreeMap<AttemptId, Folder>,
    /// The run must end, and a user waits for that.
    hurry: Arc<AtomicBool>,
}

impl Slurm {
    /// Starts the thread.
    pub(crate) fn new(settings: Settings) -> Result<Slurm, ExecError> {
        let (asks, asked) = channel();
        let (tell, events) = unbounded_channel();
        let hurry = Arc::<AtomicBool>::default();
        let theirs = Arc::clone(&hurry);
        let life = move || Worker::new(settings, tell, theirs).run(&asked);
        let begun = thread::Builder::new().name("slurm".into()).spawn(life);
        let begun = begun.map_err(ExecError::io("start", "the thread that talks to Slurm"))?;
        Ok(Slurm { requests: Some(asks), thread: Some(begun), events, folders: BTreeMap::new(), hurry })
    }

    fn send(&self, ask: SlurmRequest) {
        // If the thread is gone, the caller notices when it waits for events.
        let _ = self.requests.as_ref().map(|asks| asks.send(ask));
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Settled jobs must be noted on disk before this process ends.
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Executor for Slurm {
    fn start(&mut self, gang: Vec<Work>) -> Result<(), ExecError> {
        self.folders.extend(gang.iter().map(|work| (work.program.attempt, Folder::at(work.program.folder.clone()))));
        self.send(SlurmRequest::Start(gang));
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), |folder| folder.go(at))
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        self.send(SlurmRequest::Kill { attempt, grace });
    }

    fn hurry(&mut self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    fn settled(&mut self, attempt: AttemptId) {
        self.folders.remove(&attempt);
        self.send(SlurmRequest::Settled { attempt });
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        let gone = || ExecError::Fault("the thread that talks to Slurm has ended".to_owned());
        self.events.recv().await.ok_or_else(gone)
    }
}

/// Jobs of a dead run that Slurm still has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanedJobs {
    pub running: usize,
    pub waiting: usize,
    /// In the order of the run.
    pub jobs: Vec<OrphanedJob>,
}

/// One of these jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanedJob {
    /// The instances that run in it.
    pub labels: Vec<String>,
    /// `12`, `12_3`.
    pub job: String,
    /// The node, or Slurm's reason why it waits.
    pub place: Result<String, String>,
}

/// The jobs that Slurm still has of each of these dead runs; `None` if it does not answer in time. One query for all of
/// them.
pub fn orphaned_jobs(runs: &[&RunDir]) -> Vec<Option<OrphanedJobs>> {
    let jobs = |run: &&RunDir| intents::of(run).into_iter().filter(|intent| intent.place == Place::Slurm).collect();
    let orphaned: Vec<Vec<Intent>> = runs.iter().map(jobs).collect();
    let is_any = orphaned.iter().any(|jobs| !jobs.is_empty());
    let rows = if is_any { client::Client::brief().queue() } else { Ok(Vec::new()) };
    let is_live = |row: &&flow_slurm::Row| {
        let is_over = matches!(
            flow_slurm::job_state(row),
            flow_slurm::JobState::Ended(_) | flow_slurm::JobState::NeverRuns { .. }
        );
        // A job in clean-up has no running process.
        !is_over && row.state != "COMPLETING"
    };
    // An intent without a task is a job of its own.
    let mut living: HashMap<(&str, Option<u32>), &flow_slurm::Row> = HashMap::new();
    for row in rows.iter().flatten().filter(is_live) {
        living.entry((&row.key, None)).or_insert(row);
        living.entry((&row.key, row.id.task)).or_insert(row);
    }
    let waits = |row: &flow_slurm::Row| flow_slurm::job_state(row) == flow_slurm::JobState::Waiting;
    let count = |intents: &Vec<Intent>| match &rows {
        _ if intents.is_empty() => Some(OrphanedJobs::default()),
        Ok(_) => {
            let of = |intent: &Intent| {
                let row = living.get(&(&*intent.key, intent.task.map(|task| task.number)))?;
                let place = if waits(row) { Err(row.reason.clone()) } else { Ok(row.node.clone()) };
                let labels = intent.members.iter().map(|member| member.label.clone()).collect();
                Some(OrphanedJob { labels, job: row.id.to_string(), place })
            };
            let jobs: Vec<OrphanedJob> = intents.iter().filter_map(of).collect();
            let running = jobs.iter().filter(|job| job.place.is_ok()).count();
            Some(OrphanedJobs { running, waiting: jobs.len() - running, jobs })
        }
        Err(_) => None,
    };
    orphaned.iter().map(count).collect()
}

/// Cancels the jobs of a dead run, and returns how many Slurm had. Jobs that had ended stay for import; the others are
/// marked, so that the next run does not join them.
///
/// # Errors
/// Slurm does not answer. The jobs are marked, and the next run of the workflow ends them.
pub fn cancel_jobs(run: &RunDir) -> Result<usize, NoAnswer> {
    let orphaned: Vec<Intent> = intents::of(run).into_iter().filter(|intent| intent.place == Place::Slurm).collect();
    if orphaned.is_empty() {
        return Ok(0);
    }
    mark_and_cancel(&client::Client::new(), &orphaned)
}

/// Cancels jobs of dead runs that nobody needs. If Slurm does not answer, they stay marked and the next run cancels
/// them.
pub(crate) fn end_unwanted(dir: &StoreDir, jobs: &[Intent]) {
    let _ = end(dir, jobs, &client::Client::new());
}

/// Cancels jobs of dead runs for a run that would have joined them and must end itself. Returns a notice. If Slurm does
/// not answer, jobs that have not started stay, like the run's own jobs.
pub(crate) fn end_unjoined(dir: &StoreDir, mut jobs: Vec<Intent>) -> Option<String> {
    // A job that has ended stays, for runs that need its result again.
    jobs.retain(|job| !job.has_ended());
    if jobs.is_empty() {
        return None;
    }
    let left = || "that an earlier run left";
    let Err(error) = end(dir, &jobs, &client::Client::hurried()) else {
        return Some(match jobs.len() {
            1 => format!("a job {} is cancelled", left()),
            many => format!("{many} jobs {} are cancelled", left()),
        });
    };
    let wait: Vec<&Intent> = jobs.iter().filter(|job| !job.has_begun()).collect();
    wait.iter().for_each(|job| job.let_live());
    queue_notice(wait.len()).map(|stay| format!("Slurm does not answer: {error}; {stay}"))
}

/// The notice that this many jobs stay in the queue, because they could not be cancelled.
fn queue_notice(jobs: usize) -> Option<String> {
    match jobs {
        0 => None,
        1 => Some("a job stays in Slurm's queue: the next `flow run` follows it".to_owned()),
        many => Some(format!("{many} jobs stay in Slurm's queue: the next `flow run` follows them")),
    }
}

fn end(dir: &StoreDir, jobs: &[Intent], client: &client::Client) -> Result<(), NoAnswer> {
    mark_and_cancel(client, jobs)?;
    for (key, of) in by_name(jobs) {
        let tasks: Vec<u32> = of.iter().filter_map(|job| Some(job.task?.number)).collect();
        match is_whole(&of) {
            true => intents::remove(dir, &of[0].run, key),
            false => intents::tick_off(dir, &of[0].run, key, &tasks),
        }
    }
    Ok(())
}

fn by_name(jobs: &[Intent]) -> BTreeMap<&str, Vec<&Intent>> {
    let mut all: BTreeMap<&str, Vec<&Intent>> = BTreeMap::new();
    jobs.iter().for_each(|job| all.entry(&job.key).or_default().push(job));
    all
}

/// True if these, all of one name, are a whole job or all tasks of an array that may still be needed.
fn is_whole(of: &[&Intent]) -> bool {
    of.iter().all(|job| job.task.is_none_or(|task| of.len() as u32 >= task.of))
}

/// Marks and cancels jobs that no run may join, and returns how many Slurm had.
fn mark_and_cancel(client: &client::Client, jobs: &[Intent]) -> Result<usize, NoAnswer> {
    jobs.iter().for_each(Intent::mark);
    let which = jobs.iter().map(|job| (job.key.clone(), job.task.map(|task| task.number)));
    let had = client.cancel(&which.collect())?;
    jobs.iter().for_each(Intent::forget_programs);
    Ok(had)
}

/// The exit of a program whose end nobody saw.
pub(crate) fn unseen(started_at: f64, ended_at: f64) -> Exit {
    Exit { started_at, ended_at: ended_at.max(started_at), ..Exit::default() }
}
