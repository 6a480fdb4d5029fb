//! What can be typed. One struct a command, in the command's own file; here is what they share.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, builder::styling};

use crate::commands;

/// Experiment workflows on GPUs: declared in YAML, cached, measured, reported.
#[derive(Debug, Parser)]
#[command(
    name = "flow",
    version,
    styles = styling::Styles::styled().header(styling::AnsiColor::Green.on_default().bold()),
    propagate_version = true,
    max_term_width = 110,
    after_help = "\
Examples:
  flow init                              write a small workflow to begin with
  flow run workflows/feb08.yaml          run what is not cached, write the report
  flow plan workflows/feb08.yaml         say what would run, and why
  flow why solo                          say what changed since the last result of a step

Exit codes: 0 done; 1 a step failed; 2 usage or an invalid workflow; 3 `plan --exit-code` and there is work;
130 interrupted.",
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The store's folder [default: .flow beside the workflow's root]
    #[arg(long, global = true, value_name = "DIR", env = "FLOW_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
    /// Look for plugins here too, before the root's plugins/; may be repeated
    #[arg(long = "plugin-dir", global = true, value_name = "DIR")]
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// When to use colours; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) color: Color,
    /// Say less: only failures and the summary's first line
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more: every instance, and all that a plugin's set-up prints
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// The language in which `flow report` shows a report; everything else is English
    #[arg(long, global = true, value_name = "LANGUAGE")]
    pub(crate) lang: Option<String>,
}

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A workflow file and what decides what it expands to.
#[derive(Clone, Debug, Args)]
pub(crate) struct Selection {
    /// Set a parameter: key=value, with a YAML value; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Use this profile instead of the first whose `when` holds
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use only these GPUs, by index: 0,1
    #[arg(long, value_name = "LIST")]
    pub(crate) gpus: Option<String>,
}

/// The workflow that a command is about, where that need not be said.
#[derive(Clone, Debug, Args)]
pub(crate) struct About {
    /// The workflow file [default: the last run's]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
}

impl About {
    /// Takes the first of the words that names a YAML file for the workflow, unless one is named already.
    pub(crate) fn or_first_file(mut self, mut words: Vec<String>) -> (About, Vec<String>) {
        if self.workflow.is_none() {
            self.workflow = words.iter().position(|word| is_workflow(word)).map(|at| words.remove(at).into());
        }
        (self, words)
    }
}

/// Whether a word is a workflow file, and no step.
pub(crate) fn is_workflow(word: &str) -> bool {
    [".yaml", ".yml"].iter().any(|end| word.ends_with(end))
}

/// The run that a command is about, where that need not be said.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfRun {
    #[command(flatten)]
    pub(crate) about: About,
    /// The run, by its id or the end of it [default: the workflow's last]
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow: what is not cached, then publish its reports
    Run(commands::run::Run),
    /// Say what a run would do, and why; runs nothing
    Plan(commands::plan::Plan),
    /// Check workflow files and show every error; runs nothing
    Check(commands::check::Check),
    /// Say why a step would run, or from where it is cached
    Why(commands::why::Why),
    /// Show what runs and what waits
    Status(commands::status::Status),
    /// Print what a step printed
    Logs(commands::logs::Logs),
    /// Show a step's results: metrics, usage, circumstances, files
    Show(commands::show::Show),
    /// List the runs
    Runs(commands::runs::Runs),
    /// Compare two runs: settings, and every result that differs
    Diff(commands::diff::Diff),
    /// Draw the steps of a workflow and what they need
    Graph(commands::graph::Graph),
    /// Print a report, or say where the reports are
    Report(commands::report::Report),
    /// Say what a step will take, also at a point that has not run
    Predict(commands::predict::Predict),
    /// Simulate scheduling policies on clusters that need not be there
    Simulate(commands::simulate::Simulate),
    /// Keep a step's last results although its fingerprint changed
    Accept(commands::accept::Accept),
    /// Cancel the run that goes on
    Cancel(commands::cancel::Cancel),
    /// Watch the run that goes on
    Attach(commands::attach::Attach),
    /// Show the hardware that steps would run on
    Hw(commands::hw::Hw),
    /// Remove what only old runs need
    Gc(commands::gc::Gc),
    /// Check the store and repair what can be
    Doctor(commands::doctor::Doctor),
    /// Write a small workflow to begin with
    Init(commands::init::Init),
    /// Print the JSON Schema of workflow files
    Schema(commands::schema::Schema),
    /// List the plugins and the steps that they provide
    Plugins(commands::plugins::Plugins),
    /// Print completions for a shell
    Completions(commands::completions::Completions),
    /// Tell the engine that this script is set up, and wait for its co-run group
    ///
    /// The barrier of a co-run group, for scripts: call it after loading data and before the work that is measured. Outside
    /// of a co-run group it returns at once.
    Ready(commands::ready::Ready),
    /// Holds the processes of an engine
    #[command(name = "__keeper", hide = true)]
    Keeper {
        /// Where it stands whose the processes are
        record: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_line_of_help() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
