//! `flow completions`.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Cli, CommandResult};
use crate::output::Output;

/// Arguments of `flow completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow completions bash > ~/.local/share/bash-completion/completions/flow
  flow completions zsh > ~/.zfunc/_flow
  flow completions fish > ~/.config/fish/completions/flow.fish")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn execute(self, output: &mut Output) -> CommandResult {
        let mut text = Vec::new();
        generate(self.shell, &mut Cli::command(), "flow", &mut text);
        Ok(output.text(String::from_utf8_lossy(&text).trim_end())?)
    }
}
