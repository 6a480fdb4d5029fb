//! What runs left that do not live any more, by the intents in their folders: what goes on, and what came to something and was taken
//! in by nobody. Begins and joins nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};

use flow_core::{AttemptId, Digest, JournalLine, Place, RunEvent, RunId};
use flow_store::{DaemonState, Results, RunDir, Store, StoreDir};

use super::intents::{self, Intent, Member, Standing};
use crate::{
    clock,
    keeper::{self, record},
    node::NodeFiles,
};

/// How long who keeps what a run has left may take to write that down, and how often it is looked.
const WRITES: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// What runs that do not live any more asked for, and of which nobody took the result in.
pub(crate) fn all(dir: &StoreDir) -> Vec<Intent> {
    // What other people have left is theirs to end and to take in: nobody else can look into it.
    let own = dead(dir).filter(|run| run.others().is_none());
    let intents = own.inspect(settled).inspect(intents::forget_unfinished).flat_map(|run| intents::of(&run));
    intents
        .filter(|intent| {
            let lost = intent.here.is_some() && intent.standing(dir) == Standing::Lost;
            if lost {
                intent.remove(dir);
            }
            !lost
        })
        .collect()
}

/// Runs that do not live any more, and may have left something that goes on.
fn dead(dir: &StoreDir) -> impl Iterator<Item = RunDir> {
    dir.runs().unwrap_or_default().into_iter().map(|run| dir.run(&run)).filter(may_have_left)
}

/// The run does not live any more, and may have left something that goes on, or has ended and is not recorded.
pub(crate) fn may_have_left(run: &RunDir) -> bool {
    // In this order: what is written down in between is found.
    (record::is_unsettled(run.path()) || run.has_jobs()) && run.lives().is_none()
}

/// Jobs of a batch system that such runs of other people asked for, with their owners, as far as they can be read.
pub(crate) fn of_others(dir: &StoreDir) -> Vec<(String, Intent)> {
    let theirs = dead(dir).filter_map(|run| Some((run.others()?, run)));
    let each = theirs.flat_map(|(user, run)| intents::of(&run).into_iter().map(move |intent| (user.clone(), intent)));
    each.filter(|(_, intent)| intent.here.is_none()).collect()
}

/// The same as [`all`], for who only looks.
pub(crate) fn seen(dir: &StoreDir) -> Vec<Intent> {
    dead(dir).inspect(settled).flat_map(|run| intents::of(&run)).collect()
}

/// Which of these the next run follows instead of beginning them anew, by fingerprint: since which run.
pub(crate) fn to_follow(dir: &StoreDir, left: &[Intent]) -> BTreeMap<Digest, RunId> {
    let of = |intent: &Intent| -> Vec<_> {
        intent.members.iter().map(|member| (member.fingerprint, intent.run.clone())).collect()
    };
    left.iter().filter(|intent| is_followed(dir, intent)).flat_map(of).collect()
}

fn is_followed(dir: &StoreDir, intent: &Intent) -> bool {
    match intent.here {
        Some(_) => intent.standing(dir) == Standing::Sound,
        None => intent.members.iter().all(|member| member.folder.is_dir()) && !intent.is_marked(),
    }
}

/// Where killed runs of this user and of the workflow file `file` left something that the next run follows, by label.
pub(crate) fn places(dir: &StoreDir, file: &str) -> BTreeMap<String, Place> {
    let is_of_file = |run: &RunDir| match run.first_line() {
        Ok(Some(JournalLine { event: RunEvent::RunStarted(start), .. })) => start.file == file,
        _ => false,
    };
    let own = dead(dir).filter(|run| run.others().is_none() && is_of_file(run)).inspect(settled);
    let followed = own.flat_map(|run| intents::of(&run)).filter(|intent| is_followed(dir, intent));
    let of = |intent: Intent| {
        let place = if intent.here.is_some() { Place::Local } else { Place::Slurm };
        intent.members.into_iter().map(move |member| (member.label, place)).collect::<Vec<_>>()
    };
    followed.flat_map(of).collect()
}

/// Returns when what is left of a dead run is written down.
fn settled(run: &RunDir) {
    let begun = clock::steady();
    let is_at_it = || match run.kept() {
        DaemonState::Unsure => true,
        DaemonState::Goes { .. } => false,
        DaemonState::Nothing => record::is_unsettled(run.path()),
    };
    while is_at_it() && clock::since(begun) < WRITES {
        thread::sleep(LOOK);
    }
}

/// The labels of what goes on on this machine of a run that does not live.
pub fn going_on(dir: &StoreDir, run: &RunDir) -> Vec<String> {
    if run.lives().is_some() {
        return Vec::new();
    }
    settled(run);
    let going =
        intents::of(run).into_iter().filter(|intent| intent.here.is_some() && intent.standing(dir) != Standing::Lost);
    let members = going.flat_map(|intent| intent.members);
    let members = members.filter(|member| NodeFiles::of(&member.folder).read_ended().is_none());
    // In the order in which they began.
    let labels: BTreeMap<AttemptId, String> = members.map(|member| (member.attempt, member.label)).collect();
    labels.into_values().collect()
}

/// The labels of jobs of a batch system that a run has left, and that have not come to anything.
pub fn jobs_going_on(run: &RunDir) -> Vec<String> {
    let jobs = intents::of(run).into_iter().filter(|intent| intent.here.is_none() && !intent.has_ended());
    jobs.flat_map(|intent| intent.members).map(|member| member.label).collect()
}

/// The labels of what has ended since a run was killed, here or in a batch system, and is taken in by the next run.
pub fn ended_since(dir: &StoreDir, run: &RunDir) -> Vec<String> {
    if run.lives().is_some() {
        return Vec::new();
    }
    settled(run);
    let is_taken = |intent: &Intent| match intent.here {
        Some(_) => intent.standing(dir) == Standing::Sound,
        None => !intent.is_marked(),
    };
    let members = intents::of(run).into_iter().filter(is_taken).flat_map(|intent| intent.members);
    members.filter(|member| NodeFiles::of(&member.folder).has_ended()).map(|member| member.label).collect()
}

/// The intents whose results are not all in the store yet. Files of the others are removed: their run died after it
/// recorded the result and before it removed the intent.
pub(crate) fn still_needed(store: &Store, left: Vec<Intent>) -> Vec<Intent> {
    let is_safe = |member: &Member| {
        NodeFiles::of(&member.folder).has_ended() && matches!(store.result(&member.fingerprint), Ok(Some(_)))
    };
    // Recorded by what its run had noted, or by somebody else.
    let is_known = |member: &Member| matches!(store.of_attempt(&member.fingerprint), Ok(Some(_)));
    let is_over = |intent: &Intent| match intent.here {
        None => intent.members.iter().all(is_safe),
        Some(_) => intent.is_over && intent.members.iter().all(is_known),
    };
    let (safe, needed): (Vec<_>, Vec<_>) = left.into_iter().partition(is_over);
    let used: BTreeSet<&str> = needed.iter().map(|intent| &*intent.key).collect();
    for Intent { key, task, run, .. } in &safe {
        match task {
            Some(task) if used.contains(&**key) => intents::tick_off(store.dir(), run, key, &[task.number]),
            _ => intents::remove(store.dir(), run, key),
        }
    }
    needed
}

/// Kills what runs that were killed have left running on this machine, but for what a batch system runs here by chance, and says what
/// that was.
pub(crate) fn kill_strays(dir: &StoreDir, left: &[Intent]) -> Option<String> {
    let there = left.iter().flat_map(|intent| &intent.members).map(|member| member.folder.clone());
    keeper::kill_strays(dir.path(), &there.collect())
}

/// The same, for who knows of no jobs.
pub fn end_strays(dir: &StoreDir) -> Option<String> {
    kill_strays(dir, &all(dir))
}
