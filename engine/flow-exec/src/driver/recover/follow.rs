//! Work left by dead runs, found by the intents in their folders: attempts and jobs that still run, and ended ones
//! whose results nobody imported. Starts and joins nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use flow_core::{AttemptId, Digest, Place, RunId, StepResult};
use flow_runs::{RunDir, StoreDir};
use flow_store::Store;
use flow_supervisor::{
    intents::{self, Intent, Member, OrphanState},
    keeper,
    node::NodeFiles,
};

/// Requests of dead runs whose results nobody imported.
pub(crate) fn all(dir: &StoreDir) -> Vec<Intent> {
    // Runs of other users are skipped: only their owner can read, end or import their work.
    let own = dead(dir).filter(|run| run.others().is_none());
    let intents = own.inspect(intents::forget_unfinished).flat_map(|run| intents::of(&run));
    intents
        .filter(|intent| {
            let lost = intent.here.is_some() && intent.state(dir) == OrphanState::Lost;
            if lost {
                intent.remove(dir);
            }
            !lost
        })
        .collect()
}

/// Dead runs that may have left something running.
fn dead(dir: &StoreDir) -> impl Iterator<Item = RunDir> {
    dir.runs().unwrap_or_default().into_iter().map(|run| dir.run(&run)).filter(may_have_orphans)
}

/// The run is dead and may have left attempts that run, or that ended without a record.
pub(crate) fn may_have_orphans(run: &RunDir) -> bool {
    run.has_jobs() && run.lives().is_none()
}

/// Jobs of a batch system that such runs of other users asked for, with their users. Only those users can see whether a job ended.
pub(crate) fn of_others(dir: &StoreDir) -> Vec<(String, Intent)> {
    let theirs = dead(dir).filter_map(|run| Some((run.others()?, run)));
    let each = theirs.flat_map(|(user, run)| intents::of(&run).into_iter().map(move |intent| (user.clone(), intent)));
    each.filter(|(_, intent)| intent.here.is_none()).collect()
}

/// The same as [`all`], for commands that only look.
pub(crate) fn seen(dir: &StoreDir) -> Vec<Intent> {
    dead(dir).flat_map(|run| intents::of(&run)).collect()
}

/// An attempt that the next run follows instead of a new start.
#[derive(Clone)]
pub(crate) struct AttemptToFollow {
    /// The dead run that started it.
    pub(crate) run: RunId,
    folder: PathBuf,
}

impl AttemptToFollow {
    pub(crate) fn of(intent: &Intent, member: &Member) -> AttemptToFollow {
        AttemptToFollow { run: intent.run.clone(), folder: member.folder.clone() }
    }

    /// True if its result is in the store, or a later one is. `stored` looks up the result under its fingerprint.
    pub(crate) fn is_recorded(&self, stored: impl FnOnce() -> Option<StepResult>) -> bool {
        let Some(record) = NodeFiles::of(&self.folder).read_ended() else { return false };
        stored().is_some_and(|result| result.started_at >= (record.exit.started_at * 1e3) as u64)
    }
}

/// The attempts that the next run follows, by fingerprint.
pub(crate) fn to_follow(dir: &StoreDir, orphans: &[Intent]) -> BTreeMap<Digest, AttemptToFollow> {
    let of = |intent: &Intent| -> Vec<_> {
        intent.members.iter().map(|member| (member.fingerprint, AttemptToFollow::of(intent, member))).collect()
    };
    orphans.iter().filter(|intent| is_followed(dir, intent)).flat_map(of).collect()
}

pub(crate) fn is_followed(dir: &StoreDir, intent: &Intent) -> bool {
    match intent.here {
        Some(_) => intent.state(dir) == OrphanState::Sound,
        None => intent.members.iter().all(|member| member.folder.is_dir()) && !intent.is_marked(),
    }
}

/// Attempts and jobs that killed runs of this user and this workflow file left.
pub(crate) fn of_file(dir: &StoreDir, file: &str) -> Vec<Intent> {
    let is_of_file = |run: &RunDir| run.start().is_some_and(|start| start.file == file);
    let own = dead(dir).filter(|run| run.others().is_none() && is_of_file(run));
    own.flat_map(|run| intents::of(&run)).collect()
}

/// The places of those that the next run follows, by label.
pub(crate) fn places(dir: &StoreDir, file: &str) -> BTreeMap<String, Place> {
    let followed = of_file(dir, file).into_iter().filter(|intent| is_followed(dir, intent));
    let of = |intent: Intent| {
        let place = intent.place;
        intent.members.into_iter().map(move |member| (member.label, place)).collect::<Vec<_>>()
    };
    followed.flat_map(of).collect()
}

/// Whether it still runs, and no run has ended it.
pub(crate) fn is_running(dir: &StoreDir, intent: &Intent) -> bool {
    !intent.has_ended() && is_followed(dir, intent)
}

/// The labels of a dead run's attempts that still run on this machine.
pub fn running_orphans(dir: &StoreDir, run: &RunDir) -> Vec<String> {
    if run.lives().is_some() {
        return Vec::new();
    }
    let going =
        intents::of(run).into_iter().filter(|intent| intent.here.is_some() && intent.state(dir) != OrphanState::Lost);
    let members = going.flat_map(|intent| intent.members);
    let members = members.filter(|member| NodeFiles::of(&member.folder).read_ended().is_none());
    // In the order in which they started.
    let labels: BTreeMap<AttemptId, String> = members.map(|member| (member.attempt, member.label)).collect();
    labels.into_values().collect()
}

/// The labels of batch jobs that a run has left and that have not ended.
pub fn unfinished_jobs(run: &RunDir) -> Vec<String> {
    let jobs = intents::of(run).into_iter().filter(|intent| intent.here.is_none() && !intent.has_ended());
    jobs.flat_map(|intent| intent.members).map(|member| member.label).collect()
}

/// The labels of batch jobs that a run has left and that no node has begun.
pub fn jobs_waiting(run: &RunDir) -> Vec<String> {
    let jobs = intents::of(run).into_iter().filter(|intent| intent.here.is_none());
    let waits = |member: &Member| {
        let files = NodeFiles::of(&member.folder);
        files.read_started().is_none() && !files.has_ended()
    };
    jobs.flat_map(|intent| intent.members).filter(waits).map(|member| member.label).collect()
}

/// The labels of attempts and jobs that have ended since their run was killed. The next run imports them.
pub fn ended_since(dir: &StoreDir, run: &RunDir) -> Vec<String> {
    if run.lives().is_some() {
        return Vec::new();
    }
    let is_taken = |intent: &Intent| match intent.here {
        Some(_) => intent.state(dir) == OrphanState::Sound,
        None => !intent.is_marked(),
    };
    let members = intents::of(run).into_iter().filter(is_taken).flat_map(|intent| intent.members);
    members.filter(|member| NodeFiles::of(&member.folder).has_ended()).map(|member| member.label).collect()
}

/// The intents whose results are not all in the store yet. Files of the others are removed: their run died after it
/// recorded the result and before it removed the intent.
pub(crate) fn still_needed(store: &Store, orphans: Vec<Intent>) -> Vec<Intent> {
    let is_over = |intent: &Intent| {
        let is_recorded = |member: &Member| {
            AttemptToFollow::of(intent, member).is_recorded(|| match intent.here {
                None => store.result(&member.fingerprint).ok()?,
                Some(_) => store.of_attempt(&member.fingerprint).ok()?,
            })
        };
        (intent.here.is_none() || intent.is_over) && intent.members.iter().all(is_recorded)
    };
    let (safe, needed): (Vec<_>, Vec<_>) = orphans.into_iter().partition(is_over);
    let used: BTreeSet<&str> = needed.iter().map(|intent| &*intent.key).collect();
    for Intent { key, task, run, .. } in &safe {
        match task {
            Some(task) if used.contains(&**key) => intents::tick_off(store.dir(), run, key, &[task.number]),
            _ => intents::remove(store.dir(), run, key),
        }
    }
    needed
}

/// The notice that attempts and jobs of killed runs with these labels were ended.
pub(crate) fn notice(labels: &BTreeSet<String>) -> Option<String> {
    /// Number of named ones.
    const NAMED: usize = 4;
    let named: Vec<&str> = labels.iter().take(NAMED).map(String::as_str).collect();
    let more = match labels.len().saturating_sub(NAMED) {
        0 if named.is_empty() => return None,
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("ended work of a killed run that this run does not need: {}{more}", named.join(", ")))
}

/// Kills processes that killed runs have left on this machine. Returns a notice.
pub fn end_strays(dir: &StoreDir) -> Option<String> {
    keeper::kill_strays(dir.path())
}
