//! What commands share of what can be typed. The rest of it is in each command's own file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flow_core::Place;

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

/// When what is printed has colours: `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Where it is printed on a terminal, and `NO_COLOR` is not set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A workflow file and what decides what it expands to.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Set a parameter: key=value, with a YAML value; key+=value appends to a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Set parameters from a YAML or JSON file, before --set; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Vec<PathBuf>,
    /// Use this profile instead of the first whose `when` holds
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use only these GPUs, by index: 0,1; in a plan or a check also GPUs that are not here: '4 x H200, 140 GiB'
    #[arg(long, value_name = "LIST")]
    pub(crate) gpus: Option<String>,
    /// Where steps run that do not say it themselves: local or slurm [default: as the workflow says, else local]
    #[arg(long, value_name = "WHERE", value_parser = place)]
    pub(crate) on: Option<Place>,
}

fn place(text: &str) -> Result<Place, String> {
    let known = || Place::ALL.map(|(name, _)| name).join(" or ");
    Place::named(text).ok_or_else(|| format!("expected {}", known()))
}

/// The workflow that a command reads, if one is named.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkflowArg {
    /// The workflow file [default: the only one in this folder, else the last run's, else the only one in workflows/]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
}

impl WorkflowArg {
    /// Takes the first of the words that names a YAML file for the workflow, unless one is named already.
    pub(crate) fn or_first_file(mut self, mut words: Vec<String>) -> (WorkflowArg, Vec<String>) {
        if self.workflow.is_none() {
            self.workflow = words.iter().position(|word| is_workflow(word)).map(|at| words.remove(at).into());
        }
        (self, words)
    }
}

/// The workflow whose store and runs a command is about, if one is named.
#[derive(Clone, Debug, Args)]
pub(crate) struct About {
    /// The workflow file whose store and runs are meant [default: all runs in this folder's store]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
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
