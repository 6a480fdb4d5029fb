//! Slurm as an executor: a thread of its own talks to it, for each of its commands may take seconds. Here: what the loop asks and is
//! told.

mod book;
mod client;
mod cluster;
mod jobs;
mod submit;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet},
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

use flow_core::AttemptId;
use flow_protocol::Exit;
use flow_store::{RunDir, StoreDir};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{
    executor::{Event, Executor, Work},
    intents::{self, Intent},
};
use crate::{ExecError, attempt::Folder};

pub use client::{NoAnswer, Qualities, Rules};
pub(crate) use cluster::{Cluster, Impossible, Unmet, unknown_partition};
pub use cluster::{Unasked, overview, rules};
pub(crate) use submit::{asked_time, longest_of};

use worker::Worker;

/// How a run talks to Slurm.
pub(crate) struct Settings {
    pub(crate) dir: StoreDir,
    /// `flow` as nodes find it.
    pub(crate) flow: PathBuf,
    /// How often the queue is asked, at first.
    pub(crate) poll: Duration,
    /// The variables that a job begins with; none of them a secret.
    pub(crate) environment: BTreeMap<String, String>,
    /// For people who look at the queue.
    pub(crate) workflow: String,
}

/// What the thread is asked for.
enum Ask {
    Start(Vec<Work>),
    Kill { attempt: AttemptId, grace: Duration },
    Settled { attempt: AttemptId },
}

/// Slurm, for a run. Dropping it ends the thread; jobs go on, and what is written down of them stays.
pub(crate) struct Slurm {
    settings: Option<Settings>,
    asks: Option<Sender<Ask>>,
    thread: Option<thread::JoinHandle<()>>,
    events: Option<UnboundedReceiver<Event>>,
    folders: BTreeMap<AttemptId, Folder>,
    /// The run is to end, and somebody waits for that.
    hurry: Arc<AtomicBool>,
}

impl Slurm {
    /// The thread is started with the first attempt.
    pub(crate) fn new(settings: Settings) -> Slurm {
        Slurm {
            settings: Some(settings),
            asks: None,
            thread: None,
            events: None,
            folders: BTreeMap::new(),
            hurry: Arc::default(),
        }
    }

    fn ask(&self, ask: Ask) {
        // A thread that is gone is found out by who waits for events.
        let _ = self.asks.as_ref().map(|asks| asks.send(ask));
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // What is settled is to be written down as such before this process ends.
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Executor for Slurm {
    fn start(&mut self, unit: Vec<Work>) -> Result<(), ExecError> {
        if let Some(settings) = self.settings.take() {
            let (asks, asked) = channel();
            let (tell, events) = unbounded_channel();
            let hurry = Arc::clone(&self.hurry);
            let life = move || Worker::new(settings, tell, hurry).run(&asked);
            let begun = thread::Builder::new().name("slurm".into()).spawn(life);
            let begun = begun.map_err(ExecError::io("start", "the thread that talks to Slurm"))?;
            self.thread = Some(begun);
            (self.asks, self.events) = (Some(asks), Some(events));
        }
        self.folders.extend(unit.iter().map(|work| (work.program.attempt, Folder::at(work.program.folder.clone()))));
        self.ask(Ask::Start(unit));
        Ok(())
    }

    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), |folder| folder.go(at))
    }

    fn stop(&mut self, attempt: AttemptId) -> io::Result<()> {
        self.folders.get(&attempt).map_or(Ok(()), Folder::stop)
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        self.ask(Ask::Kill { attempt, grace });
    }

    fn hurry(&mut self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    fn settled(&mut self, attempt: AttemptId) {
        self.folders.remove(&attempt);
        self.ask(Ask::Settled { attempt });
    }

    fn root(&self) -> Option<u32> {
        None
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        let gone = || ExecError::Fault("the thread that talks to Slurm has ended".to_owned());
        events.recv().await.ok_or_else(gone)
    }
}

/// How many jobs Slurm has still of each of these runs, which do not live any more; `None` where it does not say, and soon. It is asked
/// once for all.
pub fn jobs_left(runs: &[&RunDir]) -> Vec<Option<usize>> {
    let jobs = |run: &&RunDir| intents::of(run).into_iter().filter(|intent| intent.here.is_none());
    let names = |run| jobs(run).map(|intent| intent.key).collect();
    let left: Vec<BTreeSet<String>> = runs.iter().map(names).collect();
    let is_any = left.iter().any(|names| !names.is_empty());
    let rows = if is_any { client::Client::brief().queue() } else { Ok(Vec::new()) };
    let goes_on = |row: &&flow_slurm::Row| {
        let is_over = matches!(flow_slurm::fate(row), flow_slurm::Fate::Ended(_) | flow_slurm::Fate::Never(_));
        // Of what is being cleaned away nothing runs any more.
        !is_over && row.state != "COMPLETING"
    };
    let count = |names: &BTreeSet<String>| match &rows {
        _ if names.is_empty() => Some(0),
        Ok(rows) => Some(rows.iter().filter(goes_on).filter(|row| names.contains(&row.key)).count()),
        Err(_) => None,
    };
    left.iter().map(count).collect()
}

/// What Slurm knows of jobs of these names, whoever's they are: its queue, and for those that it has not, its accounting database where
/// there is one.
pub(super) fn rows_of(keys: &BTreeSet<&str>) -> Result<Vec<flow_slurm::Row>, NoAnswer> {
    let client = client::Client::new();
    let keys: Vec<&str> = keys.iter().copied().collect();
    let mut rows = client.queue_of(&keys)?;
    let there: BTreeSet<&str> = rows.iter().map(|row| &*row.key).collect();
    let gone: Vec<&str> = keys.into_iter().filter(|key| !there.contains(key)).collect();
    if !gone.is_empty() {
        rows.extend(client.accounting_of(&gone).unwrap_or_default());
    }
    Ok(rows)
}

/// Ends the jobs that a run has left which does not live any more, and says how many Slurm had. What came of one before stays to be
/// taken in; the others are marked, so that the next run does not take them up.
///
/// # Errors
/// Slurm does not answer. The jobs are marked, and the next run of the workflow ends them.
pub fn cancel_jobs(run: &RunDir) -> Result<usize, NoAnswer> {
    let left: Vec<Intent> = intents::of(run).into_iter().filter(|intent| intent.here.is_none()).collect();
    if left.is_empty() {
        return Ok(0);
    }
    mark_and_cancel(&client::Client::new(), &left)
}

/// Ends jobs of runs that do not live any more, which nobody wants. Those that Slurm cannot be told of now stay marked, and the
/// next run tells it.
pub(super) fn end_unwanted(dir: &StoreDir, jobs: &[Intent]) {
    let _ = end(dir, jobs, &client::Client::new());
}

/// Ends jobs of runs that do not live any more, for a run that would have joined them and is told to end itself, and says what people
/// should know of that. Where Slurm does not answer, what has not begun stays, as a run's own jobs do.
pub(super) fn end_unjoined(dir: &StoreDir, mut jobs: Vec<Intent>) -> Option<String> {
    // What has come to something stays, for whoever wants that again.
    jobs.retain(|job| !job.has_ended());
    if jobs.is_empty() {
        return None;
    }
    let left = || "that an earlier run left and this one had not taken up";
    let Err(error) = end(dir, &jobs, &client::Client::hurried()) else {
        return Some(match jobs.len() {
            1 => format!("a job {} is cancelled", left()),
            many => format!("{many} jobs {} are cancelled", left()),
        });
    };
    let wait: Vec<&Intent> = jobs.iter().filter(|job| !job.has_begun()).collect();
    wait.iter().for_each(|job| job.let_live());
    stay(wait.len()).map(|stay| format!("Slurm does not answer: {error}; {stay}"))
}

/// What is said of so many jobs that wait in the queue, and that nobody could end.
fn stay(jobs: usize) -> Option<String> {
    match jobs {
        0 => None,
        1 => Some("a job stays in Slurm's queue: the next `flow run` finds it and takes it up".to_owned()),
        many => Some(format!("{many} jobs stay in Slurm's queue: the next `flow run` finds them and takes them up")),
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

/// These are all of one name: a job, or all tasks of an array of which anybody may want something yet.
fn is_whole(of: &[&Intent]) -> bool {
    of.iter().all(|job| job.task.is_none_or(|task| of.len() as u32 >= task.of))
}

/// Ends jobs that are to be taken up by nobody, and says how many Slurm had.
fn mark_and_cancel(client: &client::Client, jobs: &[Intent]) -> Result<usize, NoAnswer> {
    jobs.iter().for_each(Intent::mark);
    let which = jobs.iter().map(|job| (job.key.clone(), job.task.map(|task| task.number)));
    let had = client.cancel(&which.collect())?;
    jobs.iter().for_each(Intent::forget_programs);
    Ok(had)
}

/// The exit of a program of which nobody could say how it ended.
pub(crate) fn unseen(started_at: f64, ended_at: f64) -> Exit {
    Exit { started_at, ended_at: ended_at.max(started_at), ..Exit::default() }
}
