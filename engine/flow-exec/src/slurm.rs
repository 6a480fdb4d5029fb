//! Slurm's commands, run and waited for no longer than is reasonable. Does not know what is asked.

use std::{collections::BTreeMap, io, process::Stdio, time::Duration};

use flow_slurm::{LOAD, Load, NODES, Node, ParseError, parse_load, parse_nodes};
use tokio::{process::Command, runtime, time};

use crate::hardware::person;

/// Slurm's commands themselves give up after some nine seconds where the controller is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Slurm said nothing that tells anything.
#[derive(Debug, thiserror::Error)]
pub enum Silent {
    /// There is no such command here.
    #[error("there is no Slurm here: `{program}` is not installed or not on the PATH")]
    NotInstalled { program: &'static str },
    /// It was ended for taking too long.
    #[error("`{program}` did not answer within {} s", PATIENCE.as_secs())]
    Late { program: &'static str },
    /// It failed, or could not be started.
    #[error("`{program}` failed: {words}")]
    Failed { program: &'static str, words: String },
    /// It printed what is not known.
    #[error(transparent)]
    Strange(#[from] ParseError),
}

/// What a command of Slurm prints.
///
/// # Errors
/// It does not answer, or with an error.
pub async fn ask(program: &'static str, args: &[&str]) -> Result<String, Silent> {
    let mut command = Command::new(program);
    // A user's own defaults would change what is listed, and how.
    for name in ["SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SQUEUE_STATES", "SQUEUE_PARTITION", "SQUEUE_USERS", "SQUEUE_NAMES"]
    {
        command.env_remove(name);
    }
    for name in ["SINFO_FORMAT", "SINFO_PARTITION", "SLURM_BITSTR_LEN", "SLURM_TIME_FORMAT"] {
        command.env_remove(name);
    }
    command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let answer = time::timeout(PATIENCE, command.output()).await.map_err(|_| Silent::Late { program })?;
    let output = answer.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Silent::NotInstalled { program },
        _ => Silent::Failed { program, words: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = if words.is_empty() { output.status.to_string() } else { words.join("; ") };
    Err(Silent::Failed { program, words })
}

/// The nodes of the cluster, and how many jobs its partitions have: two questions, however large it is.
///
/// # Errors
/// Slurm does not answer, or with an error.
pub fn cluster() -> Result<(Vec<Node>, BTreeMap<String, Load>), Silent> {
    let failed = |error: io::Error| Silent::Failed { program: "sinfo", words: error.to_string() };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let nodes = parse_nodes(&ask("sinfo", NODES).await?)?;
        let loads = parse_load(&ask("squeue", LOAD).await?, &person())?;
        Ok((nodes, loads))
    })
}
