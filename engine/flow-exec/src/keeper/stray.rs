//! What is left of runs whose engine and keeper were killed at once: found by the attempt's folder in its environment, from
//! which its store is told, and by the attempt's mark. Who was given the variable by hand, to try a plugin, has no mark.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use flow_core::AttemptId;
use flow_protocol::ATTEMPT_VAR;
use nix::sys::signal::Signal;
use procfs::process::{Process, all_processes};

use super::tree::{attempt_marked, signal};

/// Kills what earlier runs of a store left alive, and says what that was. The caller holds the store, so that no run of it is
/// alive.
pub fn kill_strays(store: &Path) -> Option<String> {
    let runs = identity(&store.join("runs"))?;
    let mut killed = BTreeMap::new();
    // A process may fork while it is being killed.
    for _ in 0..100 {
        let mut left = false;
        for process in all_processes().into_iter().flatten().flatten() {
            if let Some(run) = run_of(&process, runs).filter(|_| process.pid.unsigned_abs() != std::process::id()) {
                let command = process.cmdline().unwrap_or_default().join(" ");
                signal(process.pid, Signal::SIGKILL);
                killed.insert(process.pid, (command, run));
                left = true;
            }
        }
        if !left {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    const SHOWN: usize = 3;
    let (_, (_, run)) = killed.first_key_value()?;
    let mut shown: Vec<String> =
        killed.iter().take(SHOWN).map(|(pid, (command, _))| format!("{pid} (`{command}`)")).collect();
    if killed.len() > SHOWN {
        shown.push(format!("and {} more", killed.len() - SHOWN));
    }
    let shown = shown.join(", ");
    Some(format!("run {run} was killed; what it had left running is killed now: {shown}"))
}

/// The run of the store with this folder of runs that a living process belongs to.
fn run_of(process: &Process, runs: (u64, u64)) -> Option<String> {
    let environment = process.environ().ok()?;
    let folder = PathBuf::from(environment.get(OsStr::new(ATTEMPT_VAR))?);
    // `STORE/runs/RUN/attempts/7`
    let attempt = AttemptId(folder.file_name()?.to_str()?.parse().ok()?);
    let run = folder.ancestors().nth(2)?;
    // As the process sees it: in a container the same path is another folder.
    let seen =
        Path::new("/proc").join(process.pid.to_string()).join("root").join(run.parent()?.strip_prefix("/").ok()?);
    let ours = identity(&seen)? == runs && attempt_marked(process)? == attempt;
    ours.then(|| run.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino()))
}
