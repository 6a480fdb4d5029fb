//! Converts attempts to the input of `sbatch`: one job per gang, and one array for many equal gangs. Does not call
//! Slurm.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use flow_core::{Exclusive, Span};
use flow_supervisor::{
    intents::{self, Intent, Task},
    node::{Job, NodeFiles, Notifier, Program},
};

use super::{Settings, jobs::BatchJob};
use crate::driver::executor::{BatchWork, Work};

/// Memory that `flow` and its keeper use of a job's allocation.
const OWN_MEMORY: u64 = 64 << 20;
/// How much longer Slurm's limit is than the attempt's own, so that flow ends it first.
const BEYOND: Duration = Duration::from_secs(120);
/// How long before its end a job is warned.
const WARNING: Duration = Duration::from_secs(60);
/// A shorter job would be warned from the start.
const WORTH_WARNING: Duration = Duration::from_secs(300);

pub(super) fn job(settings: &Settings, gang: Vec<Work>) -> io::Result<Option<BatchJob>> {
    let (mut request, mut comment) = (flow_slurm::Job::default(), String::new());
    let (mut memory, mut times, mut shares) = (Some(0_u64), Vec::new(), false);
    let (mut programs, mut attempts, mut first): (Vec<Program>, Vec<_>, Option<(Intent, bool)>) = Default::default();
    for Work { program, job, .. } in gang {
        let Some(job) = job else { continue };
        let BatchWork { label, gpus, cpus, memory: own, timeout, longest, exclusive, shares_gpus, .. } = job;
        let BatchWork { slurm, gpu_model, intent, joined, nice, .. } = job;
        shares |= shares_gpus;
        request.gpus = if shares_gpus { request.gpus.max(gpus) } else { request.gpus + gpus };
        request.cpus += cpus;
        memory = memory.zip(own).map(|(sum, own)| sum.saturating_add(own));
        times.push(requested_time(slurm.time, timeout, longest));
        request.exclusive |= exclusive == Exclusive::Machine;
        if comment.is_empty() {
            comment = format!("flow: {label} of {}", settings.workflow);
            (request.partition, request.account) = (slurm.partition, slurm.account);
            (request.gpu_type, request.options) = (slurm.gpu_type, slurm.options);
            request.nice = nice;
        }
        // A group has the highest priority of its members.
        request.nice = request.nice.min(nice);
        attempts.push((program.attempt, program.folder.clone()));
        programs.push(Program { start: program, gpus, gpu_model });
        first.get_or_insert((intent, joined));
    }
    let Some((intent, joined)) = first else { return Ok(None) };
    if intent.members.is_empty() {
        return Err(io::Error::other("it has no record of its task"));
    }
    request.memory = memory.filter(|memory| *memory > 0).map(|memory| memory.saturating_add(OWN_MEMORY));
    request.time = longest_of(times.into_iter());
    // Only Slurm knows a limit that the partition sets.
    request.warning = request.time.is_none_or(|time| time >= WORTH_WARNING).then_some(WARNING);
    let beat = settings.poll.clamp(Duration::from_secs(1), Duration::from_secs(10));
    let notifier = Notifier::of(&settings.dir.run(&intent.run));
    let for_node = Job { programs, shares_gpus: shares, beat, notifier };
    let mut job = BatchJob::new(intent, (request, comment), attempts.into_iter(), joined);
    if !joined {
        job.for_node = serde_json::to_vec(&for_node)?;
        if !job.intent.members.iter().any(|member| member.piped) {
            // Written while other starts are gathered, so that an array is submitted sooner.
            write_node_files(&mut job)?;
        }
    }
    Ok(Some(job))
}

/// The time that an attempt requests; none if its partition decides.
pub(crate) fn requested_time(time: Option<Span>, timeout: Option<Span>, longest: Option<Duration>) -> Option<Duration> {
    let duration = |span: Span| Duration::from_micros(span.0);
    // With more than its partition allows, it would wait forever.
    let beyond = |timeout| duration(timeout).saturating_add(BEYOND).min(longest.unwrap_or(Duration::MAX));
    time.map(duration).or_else(|| timeout.map(beyond))
}

/// The time of a job with several attempts: no limit if one of them has none.
pub(crate) fn longest_of(times: impl Iterator<Item = Option<Duration>>) -> Option<Duration> {
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Writes the programs for a node. They may hold secrets, so this happens just before the job's record: the next run
/// then finds and removes them, and `flow gc` removes what a kill in between leaves.
fn write_node_files(job: &mut BatchJob) -> io::Result<()> {
    match std::mem::take(&mut job.for_node).as_slice() {
        // It exists since a first try, or an earlier run.
        [] => Ok(()),
        told => write_private(&NodeFiles::of(job.intent.folder()).job(), told),
    }
}

/// Writes the record of a single job, and returns the request for `sbatch`.
pub(super) fn one(settings: &Settings, job: &mut BatchJob) -> io::Result<flow_slurm::Job> {
    let before = arrays(&[job]);
    if job.intent.task.take().is_some() {
        // It was meant for an array that Slurm did not accept.
        let attempts: Vec<_> = job.intent.members.iter().map(|member| member.attempt).collect();
        job.intent.key = Intent::key(settings.dir.path(), &job.intent.run, &attempts);
    }
    write_node_files(job)?;
    let folder = job.intent.folder();
    let script = folder.join("slurm.sh");
    fs::write(&script, flow_slurm::script(&text(&settings.flow)?, &text(folder)?))?;
    job.intent.write(&settings.dir)?;
    before.iter().for_each(|key| intents::remove(&settings.dir, &job.intent.run, key));
    let (key, comment) = (job.intent.key.clone(), job.comment.clone());
    let (folder, script) = (text(folder)?, text(&script)?);
    Ok(flow_slurm::Job { key, comment, folder, script, array: None, ..job.request.clone() })
}

/// The same for jobs with equal requests, which become tasks of one array, in this order.
pub(super) fn array(settings: &Settings, jobs: &mut [&mut BatchJob]) -> io::Result<flow_slurm::Job> {
    let Some(first) = jobs.first() else { return Err(io::Error::other("an array of nothing")) };
    let (run, request) = (first.intent.run.clone(), first.request.clone());
    let attempts: Vec<_> = jobs.iter().flat_map(|job| &job.intent.members).map(|member| member.attempt).collect();
    let key = Intent::key(settings.dir.path(), &run, &attempts);
    let folder = settings.dir.run(&run).path().join("arrays").join(&key);
    fs::create_dir_all(&folder)?;
    let (script, manifest) = (folder.join("slurm.sh"), folder.join("manifest"));
    let folders: Vec<String> = jobs.iter().map(|job| text(job.intent.folder())).collect::<io::Result<_>>()?;
    fs::write(&manifest, flow_slurm::manifest(folders.iter().map(String::as_str)))?;
    fs::write(&script, flow_slurm::array_script(&text(&settings.flow)?, &text(&manifest)?))?;
    let (tasks, before) = (jobs.len() as u32, arrays(jobs));
    for (number, job) in (0..).zip(jobs.iter_mut()) {
        (job.intent.key, job.intent.task) = (key.clone(), Some(Task { number, of: tasks }));
    }
    jobs.iter_mut().try_for_each(|job| write_node_files(job))?;
    intents::write_array(&settings.dir, jobs.iter().map(|job| &job.intent))?;
    before.iter().filter(|before| **before != key).for_each(|before| intents::remove(&settings.dir, &run, before));
    let (folder, script) = (text(&folder)?, text(&script)?);
    let comment = format!("flow: {tasks} steps of {}", settings.workflow);
    Ok(flow_slurm::Job { key, comment, folder, script, array: Some(tasks), ..request })
}

/// The arrays that these were meant for before, and that do not exist.
fn arrays(jobs: &[&mut BatchJob]) -> BTreeSet<String> {
    jobs.iter().filter(|job| job.intent.task.is_some()).map(|job| job.intent.key.clone()).collect()
}

/// True if one array can run both jobs.
pub(super) fn are_alike(a: &BatchJob, b: &BatchJob) -> bool {
    let alone = |job: &BatchJob| job.members.len() == 1;
    alone(a) && alone(b) && a.intent.run == b.intent.run && a.request == b.request
}

fn text(path: &Path) -> io::Result<String> {
    let text = path.to_str().filter(|text| flow_slurm::is_usable(text));
    let unusable = || io::Error::other(format!("`{}` has characters that Slurm changes", path.display()));
    text.map(str::to_owned).ok_or_else(unusable)
}

/// Readable by its user alone from the start. Not synced: after a power cut a node finds no program and runs none.
fn write_private(path: &PathBuf, content: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, content)
}
