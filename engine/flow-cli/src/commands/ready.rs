//! `flow ready`: the barrier of a co-run group, for scripts. It uses the attempt's folder as a
//! plugin does.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use flow_supervisor::clock;

use super::CommandResult;
use crate::error::CliError;

/// The variable that names the attempt's folder.
const ATTEMPT: &str = "FLOW_ATTEMPT";
/// The variable with the number of members in the co-run group; unset outside of one.
const CORUN: &str = "FLOW_CORUN";
/// Interval of checks whether the barrier is open. Longer, so that it does not disturb
/// measurements.
const LOOK: Duration = Duration::from_millis(2);

/// Arguments of `flow ready`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example, in a workflow:
  run: python load.py && flow ready && python train.py")]
pub(crate) struct Ready {}

impl Ready {
    pub(crate) fn execute(self) -> CommandResult {
        let Some(folder) = std::env::var_os(ATTEMPT).map(PathBuf::from) else {
            // Outside of flow the script runs unchanged.
            return Ok(());
        };
        let failed = |e: io::Error| CliError::failed(format!("`{}` cannot be written: {e}", folder.display()));
        announce(&folder).map_err(failed)?;
        if std::env::var_os(CORUN).is_some() {
            let go = folder.join("go");
            // The supervisor kills this process with the attempt, so there is no timeout here.
            while !go.exists() {
                thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

/// One write per line, like everyone who writes messages.
fn announce(folder: &Path) -> io::Result<()> {
    let line = format!("{}\n", serde_json::json!({ "at": clock::unix_seconds(), "type": "ready" }));
    let mut messages = File::options().append(true).create(true).open(folder.join("messages.jsonl"))?;
    messages.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_appended() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("messages.jsonl"), "{\"type\":\"hello\"}\n").unwrap();
        announce(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("messages.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!(last["type"], "ready");
        assert!(text.ends_with('\n'));
    }
}
