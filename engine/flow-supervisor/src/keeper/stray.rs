//! Ends the remains of runs whose engine and keeper were killed at once. The proof is the mark of a keeper that a record
//! of this store names (see `record`), if that record's keeper and engine are dead. It also covers a process with a
//! cleaned environment. Only a keeper hands down its mark, so such a process descends from a keeper with this number
//! that started at this hundredth of a second, modulo 2.9 hours. Another keeper with the number at such a time is
//! unlikely, and one that lives now is checked (`Lost`). A process that started before the recorded keeper is not its
//! descendant. Start times say no more: a daemon may fork after its keeper's death and still belongs to the attempt.
//!
//! A record is only its writer's claim: it covers that user's processes alone, or any user's if root wrote it. The
//! checked process is the one signalled (`signal_if`). Processes of other namespaces or of another boot, or without our
//! own `/proc`, are left alone.

use std::{collections::BTreeMap, path::Path, thread, time::Duration};

use flow_runs::ProcessIdentity;
use nix::sys::signal::Signal;
use procfs::process::{Process, all_processes};

use super::{
    record::{self, OrphanRecord},
    tree::{Mark, is_alive, mark_on, signal_if},
};

/// True if a run or a set-up of a store was killed together with its keeper, and nobody has cleaned up since.
pub fn may_have_strays(store: &Path) -> bool {
    !record::lost(store).is_empty()
}

/// Kills processes of dead runs of a store, and returns a notice. The caller uses the store, so that nobody removes it.
pub fn kill_strays(store: &Path) -> Option<String> {
    let lost = record::lost(store);
    if lost.is_empty() {
        return None;
    }
    // Process numbers of another namespace must not be signalled.
    let me = ProcessIdentity::of(std::process::id())?.pid.cast_signed();
    let of = |process: &Process| of_lost(process, &lost).filter(|_| process.pid != me && is_alive(process));
    let (mut killed, mut refused) = (BTreeMap::new(), BTreeMap::new());
    // A process may fork while it is being killed.
    for _ in 0..100 {
        let mut left = false;
        for process in all_processes().into_iter().flatten().flatten() {
            let Some(run) = of(&process) else { continue };
            // Only its program name: its arguments may contain secrets, and no store knows their values.
            let command = process.stat().map(|stat| stat.comm).unwrap_or_default();
            match signal_if(process.pid, Signal::SIGKILL, |now| of(now).as_ref() == Some(&run)) {
                Ok(false) => {}
                Ok(true) => {
                    killed.insert(process.pid, (command, run));
                    left = true;
                }
                Err(_) => _ = refused.insert(process.pid, (command, run)),
            }
        }
        if !left {
            if refused.is_empty() {
                lost.iter().for_each(OrphanRecord::settle);
            }
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let told = [("flow kills the processes that it left running", killed), ("only its user may kill this", refused)];
    let told: Vec<String> = told.iter().filter_map(|(what, which)| words(what, which)).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn words(what: &str, which: &BTreeMap<i32, (String, String)>) -> Option<String> {
    const SHOWN: usize = 3;
    let (_, (_, run)) = which.first_key_value()?;
    let mut shown: Vec<String> =
        which.iter().take(SHOWN).map(|(pid, (command, _))| format!("{pid} (`{command}`)")).collect();
    if which.len() > SHOWN {
        shown.push(format!("and {} more", which.len() - SHOWN));
    }
    Some(format!("{run} was killed; {what}: {}", shown.join(", ")))
}

/// The owner, in words, of a process with the mark of a dead keeper.
fn of_lost(process: &Process, lost: &[OrphanRecord]) -> Option<String> {
    let (mark, started) = (mark_on(process)?, process.stat().ok()?.starttime);
    let found = lost.iter().find(|lost| is_of(&lost.keeper, mark, started))?;
    [0, process.status().ok()?.ruid].contains(&found.user).then(|| found.of.clone())
}

/// True if a process with this mark and start time belongs to an attempt of this keeper.
fn is_of(keeper: &ProcessIdentity, mark: u64, started: u64) -> bool {
    Mark::of(keeper).attempt(mark).is_some() && started >= keeper.started
}

#[cfg(test)]
mod tests {
    use flow_core::AttemptId;

    use super::*;

    #[test]
    fn only_what_its_own_keeper_marked_is_of_a_keeper() {
        let keeper = |pid, started| ProcessIdentity { pid, started, ..ProcessIdentity::own() };
        let dead = keeper(4_194_303, 123_456_789);
        let mark = |of: &ProcessIdentity, attempt| Mark::of(of).with(AttemptId(attempt));
        assert!(is_of(&dead, mark(&dead, 0), dead.started) && is_of(&dead, mark(&dead, 4_194_303), dead.started + 1));
        assert!(!is_of(&dead, mark(&dead, 7), dead.started - 1), "it was there before the keeper was");
        for other in [keeper(4_194_303, 123_456_790), keeper(4_194_302, 123_456_789), keeper(1, 1)] {
            assert!(!is_of(&dead, mark(&other, 7), 200_000_000), "{other:?}");
        }
        assert!(!is_of(&dead, u64::from(dead.pid) << 32 | 7, 200_000_000));
        assert!(!is_of(&keeper(0, 0), u64::MAX, 1));
    }
}
