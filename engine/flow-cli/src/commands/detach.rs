//! `flow run --detach`: the same run in a process of its own, away from the terminal.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use flow_exec::Workspace;
use flow_runs::{Holder, ProcessIdentity};

use super::CommandResult;
use crate::{error::CliError, output::Output};

/// Interval of checks whether the run has begun.
const LOOK: Duration = Duration::from_millis(50);
/// After so many checks, the wait for the store is left to the background process.
const PATIENCE: u32 = 20;

/// Starts the run in the background and returns when it has begun.
pub(crate) fn start(workspace: &Workspace, output: &mut Output) -> CommandResult<ExitCode> {
    let store = workspace.make_store()?;
    let said = store.path().join("detached.log");
    let cannot = |e: std::io::Error| CliError::failed(format!("flow cannot start the run in the background: {e}"));
    // A new file with access for its owner only. An existing file in a shared store might be
    // another member's.
    let _ = fs::remove_file(&said);
    let file = File::options().write(true).create_new(true).mode(0o600).open(&said).map_err(cannot)?;
    let exe = std::env::current_exe().map_err(cannot)?;
    let args = std::env::args_os().skip(1).map(|arg| if arg == "--detach" { "--detached".into() } else { arg });
    let mut child = Command::new(exe)
        .args(args)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(cannot)?)
        .stderr(file)
        .spawn()
        .map_err(cannot)?;
    // The process id alone is not enough: a process in another container may have the same one.
    let its = ProcessIdentity::of(child.id());
    let mut waited = 0;
    loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            // It ended at once: the workflow is invalid, or there is nothing to do. Its output is
            // printed here.
            let text = fs::read_to_string(&said).unwrap_or_default();
            output.forward(text.trim_end(), status.success())?;
            return Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)));
        }
        let living = store.living()?;
        let begun = living.iter().find(|one| its.as_ref() == Some(&one.process));
        if let Some(Holder { process, run: Some(run), .. }) = begun {
            output.line(format!("run {run} continues in the background (process {})", process.pid))?;
            output.note("`flow attach` follows it, `flow status` shows it once, `flow cancel` ends it")?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(holder) = store.holder()?.filter(|holder| holder.run.is_none()) {
            waited += 1;
            if waited > PATIENCE {
                output
                    .line(format!("process {} waits in the background: the store is in use by {holder}", child.id()))?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        thread::sleep(LOOK);
    }
}

/// Starts a session of its own, so that the process survives the terminal.
pub(crate) fn leave_terminal() {
    // It fails only for the leader of a process group, which survives the terminal anyway.
    nix::unistd::setsid().map(drop).unwrap_or_default();
}
