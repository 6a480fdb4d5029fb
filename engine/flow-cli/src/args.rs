//! Arguments that several commands share. All others are in the file of their command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Args, Command, ValueEnum};
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
    /// The workflow file, also without -w [default: the only one in this folder, else the last run's, else the only one in workflows/]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
}

/// The workflow that selects a store, for a command about the store.
#[derive(Clone, Debug, Args)]
pub(crate) struct About {
    /// The workflow file whose store and runs to use, also without -w [default: all runs in this folder's store]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) workflow: Option<PathBuf>,
}

/// Whether a word is a workflow file rather than a step.
pub(crate) fn is_workflow(word: &str) -> bool {
    [".yaml", ".yml"].iter().any(|end| word.ends_with(end))
}

/// Inserts `-w` before the first argument that names a workflow file, for commands that have `-w` and take no files.
pub(crate) fn with_workflow(flow: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let mut command: Option<&Command> = None;
    let mut at = 1;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        let names_workflow = word.starts_with("-w") || word.starts_with("--workflow");
        match command {
            _ if word == "--" || names_workflow => return words,
            _ if word.starts_with('-') => {
                let mut known = flow.get_arguments().chain(command.into_iter().flat_map(Command::get_arguments));
                at += usize::from(known.any(|arg| takes_next(arg, word)));
            }
            None => {
                command = flow.find_subcommand(word).filter(|command| has_workflow_option(command));
                if command.is_none() {
                    return words;
                }
            }
            Some(_) if is_workflow(word) => {
                words.insert(at, "-w".into());
                return words;
            }
            Some(_) => {}
        }
        at += 1;
    }
    words
}

/// Whether the command has `-w`, and no argument is a file.
fn has_workflow_option(command: &Command) -> bool {
    let is_file = |arg: &Arg| arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "FILE"));
    command.get_arguments().any(|arg| arg.get_short() == Some('w')) && !command.get_positionals().any(is_file)
}

/// Whether this option, as written, has its value in the next argument.
fn takes_next(arg: &Arg, word: &str) -> bool {
    let is_named = match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| word.ends_with(short)),
    };
    let is_optional = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    is_named && arg.get_action().takes_values() && !is_optional
}

/// The run that a command is about, with a default.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfRun {
    #[command(flatten)]
    pub(crate) about: WorkflowArg,
    /// The run, by its id or the end of it [default: the workflow's last]
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Cli;

    #[test]
    fn a_workflow_file_needs_no_option() {
        let cases = [
            ("report a.yaml", "report -w a.yaml"),
            ("results train a.yml --all", "results train -w a.yml --all"),
            ("--store x diff a.yaml 3f2a", "--store x diff -w a.yaml 3f2a"),
            ("plan a.yaml train", "plan -w a.yaml train"),
            ("plan --params p.yaml a.yaml", "plan --params p.yaml -w a.yaml"),
            ("plan --params=p.yaml a.yaml", "plan --params=p.yaml -w a.yaml"),
            ("get train --to x.yaml", "get train --to x.yaml"),
            ("report -po x.yaml", "report -po x.yaml"),
            ("show -w a.yaml b.yaml", "show -w a.yaml b.yaml"),
            ("logs -- a.yaml", "logs -- a.yaml"),
            ("run a.yaml", "run a.yaml"),
            ("check a.yaml b.yaml", "check a.yaml b.yaml"),
        ];
        let flow = Cli::command();
        for (given, expected) in cases {
            let words = std::iter::once("flow").chain(given.split(' ')).map(OsString::from);
            let words: Vec<_> = with_workflow(&flow, words.collect()).into_iter().skip(1).collect();
            assert_eq!(words.join(" ".as_ref()), *expected, "{given}");
        }
    }
}
