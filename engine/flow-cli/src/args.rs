//! Arguments that several commands share. All others are in the file of their command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flow_core::Place;

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The store's folder [default: .flow next to the workflow's root]
    #[arg(long, global = true, value_name = "DIR", env = "FLOW_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
    /// Also look for plugins here, before the root's plugins/; may be repeated
    #[arg(long = "plugin-dir", global = true, value_name = "DIR")]
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// When to use colours; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) color: Color,
    /// Print only failures and the first line of the summary
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print every instance, and the whole output of a plugin's set-up
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// The language in which `flow report` prints a report; everything else is English
    #[arg(long, global = true, value_name = "LANGUAGE")]
    pub(crate) lang: Option<String>,
}

/// When output has colours: `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A workflow file and the options that decide how it expands.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Set a parameter: key=value, with a YAML value; key+=value appends to a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Set parameters from a YAML or JSON file, before --set; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Vec<PathBuf>,
    /// Use this profile instead of the first one whose `when` is true
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use only these GPUs, by index: 0,1; plan and check also take GPUs that are not here: '4 x
    /// H200, 140 GiB'
    #[arg(long, value_name = "LIST")]
    pub(crate) gpus: Option<String>,
    /// Where steps without `on:` run: local or slurm [default: the workflow's, else local]
    #[arg(long, value_name = "WHERE", value_parser = place)]
    pub(crate) on: Option<Place>,
}

fn place(text: &str) -> Result<Place, String> {
    let known = || Place::ALL.map(|(name, _)| name).join(" or ");
    Place::named(text).ok_or_else(|| format!("expected {}", known()))
}

/// The workflow that a command reads, if it is named.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkflowArg {
    /// The workflow file [default: the only one in this folder, else the last run's, else the only one in workflows/]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
}

impl WorkflowArg {
    /// Uses the first word that names a YAML file as the workflow, unless one is named already.
    pub(crate) fn or_first_file(mut self, mut words: Vec<String>) -> (WorkflowArg, Vec<String>) {
        if self.workflow.is_none() {
            self.workflow = words.iter().position(|word| is_workflow(word)).map(|at| words.remove(at).into());
        }
        (self, words)
    }
}

/// The workflow whose store and runs a command uses, if it is named.
#[derive(Clone, Debug, Args)]
pub(crate) struct About {
    /// The workflow file whose store and runs to use [default: all runs in this folder's store]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
}

/// Whether a word is a workflow file rather than a step.
pub(crate) fn is_workflow(word: &str) -> bool {
    [".yaml", ".yml"].iter().any(|end| word.ends_with(end))
}

/// The run that a command is about, with a default.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfRun {
    #[command(flatten)]
    pub(crate) about: About,
    /// The run, by its id or the end of it [default: the workflow's last]
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}
