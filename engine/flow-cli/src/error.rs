//! Turns errors into messages, hints and exit codes. This is the only such place.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flow_core::{Diagnostic, Source};
use flow_exec::{ExecError, NoAnswer};
use flow_runs::StoreError;

use crate::{
    diagnostics,
    output::{BAD, NOTE, Output, styled},
};

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The workflow, or the request for it, is wrong.
    Invalid {
        source: Box<Source>,
        /// The diagnostics.
        diagnostics: Vec<Diagnostic>,
    },
    /// An argument is wrong or names something that does not exist.
    Usage { message: String, hint: Option<String> },
    /// The command failed.
    Failed { message: String, hint: Option<String> },
    /// Output could not be written.
    Output(io::Error),
}

impl CliError {
    /// A mistake on the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError::Usage { message: message.into(), hint: None }
    }

    /// Something that did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        CliError::Failed { message: message.into(), hint: None }
    }

    /// Adds a hint.
    pub(crate) fn hint(self, text: impl Into<String>) -> Self {
        self.hint_if(Some(text))
    }

    /// Adds a hint, if there is one.
    pub(crate) fn hint_if(mut self, text: Option<impl Into<String>>) -> Self {
        if let CliError::Usage { hint, .. } | CliError::Failed { hint, .. } = &mut self {
            *hint = text.map(Into::into);
        }
        self
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self, output: &mut Output) -> ExitCode {
        let (said, code) = match self {
            // The reader of our output has gone, so nobody can see a message.
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => (Ok(()), 0),
            CliError::Output(error) => (print(output, &format!("cannot write: {error}"), None), 1),
            CliError::Invalid { source, diagnostics } => {
                let color = output.color_on_err();
                (output.forward(&diagnostics::render(source, diagnostics, color), false), 2)
            }
            CliError::Usage { message, hint } => (print(output, message, hint.as_deref()), 2),
            CliError::Failed { message, hint } => (print(output, message, hint.as_deref()), 1),
        };
        // An error while printing an error cannot be reported.
        drop(said);
        ExitCode::from(code)
    }
}

fn print(output: &mut Output, message: &str, hint: Option<&str>) -> io::Result<()> {
    output.error(format!("{} {message}", styled(BAD, "error:")))?;
    hint.map_or(Ok(()), |hint| output.error(format!("{} {hint}", styled(NOTE, "hint:"))))
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        CliError::Output(error)
    }
}

impl From<ExecError> for CliError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::Workflow { source_text: source, diagnostics } => CliError::Invalid { source, diagnostics },
            ExecError::Usage(message) => CliError::usage(message),
            ExecError::Untrusted { why, way_out } => CliError::usage(why).hint(way_out),
            ExecError::Store(error) => error.into(),
            ExecError::NoFile { ref source, ref path, .. } if source.kind() == io::ErrorKind::NotFound => {
                let hint = match nearest_file(path) {
                    Some(near) => format!("did you mean `{}`?", near.display()),
                    None => "`flow init` writes a small workflow to start from".to_owned(),
                };
                CliError::usage(error.to_string()).hint(hint)
            }
            ExecError::SlurmSilent(_) => CliError::failed(error.to_string()).hint_if(no_configuration()),
            error => CliError::failed(error.to_string()),
        }
    }
}

/// Advice for a shell in which Slurm's commands find no configuration.
pub(crate) fn no_configuration() -> Option<&'static str> {
    let is_found = std::env::var_os("SLURM_CONF").is_some() || Path::new("/etc/slurm/slurm.conf").exists();
    (!is_found).then_some("SLURM_CONF is not set in this shell; set it to the path of the cluster's slurm.conf")
}

/// The file in the same folder whose name is most similar to a missing one.
fn nearest_file(missing: &Path) -> Option<PathBuf> {
    let name = missing.file_name()?.to_str()?;
    let folder = missing.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    let near = flow_core::nearest(name, names.iter().map(String::as_str))?;
    Some(missing.with_file_name(near))
}

impl From<NoAnswer> for CliError {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::NotInstalled { command } => {
                CliError::failed(format!("there is no Slurm here: `{command}` is not on the PATH")).hint(
                    "run flow on a machine with Slurm's commands, usually the cluster's login node; `--on local` uses this machine instead; docs/slurm.md starts a local Slurm to try it",
                )
            }
            NoAnswer::Unread(_) => CliError::failed(error.to_string())
                .hint("this release of Slurm prints a format that flow does not know: please report it"),
            error => CliError::failed(format!("Slurm does not answer: {error}"))
                .hint(no_configuration().unwrap_or(
                    "`scontrol ping` shows whether its controller is up; SLURM_CONF names another configuration",
                )),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let failed = CliError::failed(error.to_string());
        let is_closed = |kind| matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
        match error {
            StoreError::Held { .. } => failed.hint("`flow status` shows its progress, `flow attach` follows it"),
            StoreError::Io { source, .. } if is_closed(source.kind()) => failed.hint(
                "running, repairing and dropping need write access to the store; `--store DIR` or FLOW_STORE selects another store",
            ),
            _ => failed,
        }
    }
}
