//! From errors to words, hints and exit codes. The only such place.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flow_core::{Diagnostic, Source};
use flow_exec::{ExecError, NoAnswer};
use flow_store::StoreError;

use crate::diagnostics;
use crate::output::{BAD, NOTE, Output, styled};

/// Why a command ended without doing what it was asked.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The workflow, or what was asked of it, is wrong.
    Invalid {
        source: Box<Source>,
        /// What is wrong with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// Something on the command line is wrong, or what it asks for is not there.
    Usage { message: String, hint: Option<String> },
    /// It could not be done.
    Failed { message: String, hint: Option<String> },
    /// Words could not be written.
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

    /// With what to do.
    pub(crate) fn hint(mut self, text: impl Into<String>) -> Self {
        if let CliError::Usage { hint, .. } | CliError::Failed { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Says it, and gives the exit code.
    pub(crate) fn report(&self, output: &mut Output) -> ExitCode {
        let said = match self {
            // Whoever read our output has gone; there is nobody to tell.
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            CliError::Output(error) => self.say(output, &format!("cannot write: {error}"), None),
            CliError::Invalid { source, diagnostics } => {
                let color = output.color_on_err();
                output.said(&diagnostics::render(source, diagnostics, color), false)
            }
            CliError::Usage { message, hint } | CliError::Failed { message, hint } => {
                self.say(output, message, hint.as_deref())
            }
        };
        // An error about telling an error has nowhere to go.
        drop(said);
        self.exit_code()
    }

    fn say(&self, output: &mut Output, message: &str, hint: Option<&str>) -> io::Result<()> {
        output.error(format!("{} {message}", styled(BAD, "error:")))?;
        match hint {
            Some(hint) => output.error(format!("{} {hint}", styled(NOTE, "hint:"))),
            None => Ok(()),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            CliError::Output(_) | CliError::Failed { .. } => ExitCode::FAILURE,
            CliError::Invalid { .. } | CliError::Usage { .. } => ExitCode::from(2),
        }
    }
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
                    None => "`flow init` writes a small workflow to begin with".to_owned(),
                };
                CliError::usage(error.to_string()).hint(hint)
            }
            error => CliError::failed(error.to_string()),
        }
    }
}

/// The file beside one that is not there whose name is nearest.
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
                    "run flow where Slurm's own commands work, on the cluster's login node as a rule; docs/slurm.md starts a \
                     throw-away Slurm to try it",
                )
            }
            NoAnswer::Unread(_) => CliError::failed(error.to_string())
                .hint("this release of Slurm prints another form than flow knows: please report it"),
            error => CliError::failed(format!("Slurm does not answer: {error}"))
                .hint("`scontrol ping` says whether its controller is up; SLURM_CONF names another configuration"),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let failed = CliError::failed(error.to_string());
        match error {
            StoreError::Held { .. } => failed.hint("`flow status` shows what it does, `flow attach` watches it"),
            StoreError::Io { source, .. } if is_closed(&source) => failed.hint(
                "who runs, mends or drops something has to be able to write the store; \
                `--store DIR` or FLOW_STORE names another place for what flow keeps",
            ),
            _ => failed,
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
