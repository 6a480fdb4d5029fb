//! The commands, one per file. This file has their list, the dispatch from arguments to command,
//! and the exit codes.

pub(crate) mod accept;
pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod cancel;
pub(crate) mod check;
mod cluster;
pub(crate) mod completions;
pub(crate) mod detach;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod gc;
pub(crate) mod get;
pub(crate) mod hw;
pub(crate) mod import;
mod imported;
pub(crate) mod init;
pub(crate) mod logs;
mod orphans;
mod past_runs;
pub(crate) mod plan;
pub(crate) mod plugins;
pub(crate) mod predict;
pub(crate) mod queue;
pub(crate) mod ready;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod view;
pub(crate) mod why;
mod why_live;
mod why_then;

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand, builder::styling};

use crate::args::{Global, with_workflow};
use crate::error::CliError;
use crate::output::{BAD, Output, styled};
use crate::screen::{InstanceView, View};

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
  flow init                              write a small workflow to start from
  flow run workflows/feb08.yaml          run what is not cached, write the report
  flow plan workflows/feb08.yaml         show what would run, and why
  flow why solo                          show what changed since the last result of a step

Exit codes: 0 done; 1 a step failed; 2 usage or an invalid workflow; 3 `plan --exit-code` and there is work;
130 interrupted.",
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow: everything that is not cached, then publish its reports
    Run(run::Run),
    /// Show what a run would do, and why; runs nothing
    Plan(plan::Plan),
    /// Check workflow files and show every error; runs nothing
    Check(check::Check),
    /// Show why a step would run, or which run made its result
    Why(why::Why),
    /// Run a step once under strace, and list what it reads beyond its inputs
    Audit(audit::Audit),
    /// Show what is running and what waits
    Status(status::Status),
    /// Show a run in a browser: live, afterwards, or from a bundle
    View(view::View),
    /// Print the output of a step
    Logs(logs::Logs),
    /// Show a step's results: metrics, usage, circumstances, files
    Show(show::Show),
    /// Open a shell in the work folder that a failed step left
    Shell(shell::Shell),
    /// Copy the output files of a step to another place
    Get(get::Get),
    /// Print results as CSV or JSON, one row per instance
    Results(results::Results),
    /// Write a run into one file, for another machine
    Export(export::Export),
    /// Import a run from another machine
    Import(import::Import),
    /// List the runs
    Runs(runs::Runs),
    /// Compare two runs: changed lines of files, settings, and results
    Diff(diff::Diff),
    /// Print a report, or show where the reports are
    Report(report::Report),
    /// Predict the time and memory of a step, also at a point that has not run
    Predict(predict::Predict),
    /// Simulate scheduling policies on any cluster
    Simulate(simulate::Simulate),
    /// Keep a step's last results although its fingerprint changed
    Accept(accept::Accept),
    /// Drop a step's results, so that the next run makes them again
    Forget(forget::Forget),
    /// Cancel an active run
    Cancel(cancel::Cancel),
    /// Watch an active run
    Attach(attach::Attach),
    /// Show all runs of this machine: what each holds, what waits, and in which order
    Queue(queue::Queue),
    /// Show the hardware for steps
    Hw(hw::Hw),
    /// Remove files that only old runs need
    Gc(gc::Gc),
    /// Check the store and repair it
    Doctor(doctor::Doctor),
    /// Create a store that several people share
    Store(store::Store),
    /// Write a small workflow to start from
    Init(init::Init),
    /// Print the JSON Schema of workflow files
    Schema(schema::Schema),
    /// List the plugins and their steps
    Plugins(plugins::Plugins),
    /// Print shell completions
    Completions(completions::Completions),
    /// Report that this script is set up, and wait for its co-run group
    ///
    /// The barrier of a co-run group, for scripts: call it after loading data and before the
    /// measured work. Outside of a co-run group it returns at once.
    Ready(ready::Ready),
    /// Supervises the processes of an engine
    #[command(name = "__keeper", hide = true)]
    Keeper {
        /// Where the identity of the engine's process is recorded
        record: PathBuf,
    },
    /// Supervises the steps of a detached run
    #[command(name = "__supervisor", hide = true)]
    Supervisor {
        /// The run's folder
        run: PathBuf,
    },
    /// Runs a job of a batch system on its node
    #[command(name = "__node", hide = true)]
    Node {
        /// The job's folder
        folder: PathBuf,
    },
}

/// The end of a command; some have exit codes of their own.
pub(crate) type CommandResult<T = ()> = Result<T, CliError>;

/// The whole of `flow`.
pub(crate) fn main() -> ExitCode {
    let words = with_workflow(&Cli::command(), std::env::args_os().collect());
    let Cli { global, command } = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let mut output = Output::new(&global);
    execute(command, &global, &mut output).unwrap_or_else(|error| error.report(&mut output))
}

/// Prints help or a mistake in the arguments, which may quote foreign text.
fn misused(error: &clap::Error) -> ExitCode {
    let said = match error.use_stderr() {
        false => error.print(),
        true => {
            let text = error.render().to_string();
            let text = text.trim_end();
            let text = text.strip_prefix("error:").map_or(text.to_owned(), |rest| styled(BAD, "error:") + rest);
            Output::plain().usage(&text)
        }
    };
    // An error while printing an error cannot be reported.
    drop(said);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn execute(command: Command, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
    let done = match command {
        Command::Run(run) => return run.execute(global, output),
        Command::Plan(plan) => return plan.execute(global, output),
        Command::Check(check) => return check.execute(global, output),
        Command::Audit(audit) => return audit.execute(global, output),
        Command::Status(status) => return status.execute(global, output),
        Command::Accept(accept) => return accept.execute(global, output),
        Command::Attach(attach) => return attach.execute(global, output),
        Command::Keeper { record } => return Ok(flow_supervisor::keeper::serve(&record)),
        Command::Supervisor { .. } => return flow_supervisor::node::supervise().map_err(CliError::failed),
        Command::Node { folder } => return flow_exec::serve_node(&folder).map_err(CliError::failed),
        Command::Why(why) => why.execute(global, output),
        Command::View(view) => view.execute(global, output),
        Command::Logs(logs) => logs.execute(global, output),
        Command::Show(show) => show.execute(global, output),
        Command::Shell(shell) => shell.execute(global, output),
        Command::Get(get) => get.execute(global, output),
        Command::Results(results) => results.execute(global, output),
        Command::Export(export) => export.execute(global, output),
        Command::Import(import) => import.execute(global, output),
        Command::Runs(runs) => runs.execute(global, output),
        Command::Diff(diff) => diff.execute(global, output),
        Command::Report(report) => report.execute(global, output),
        Command::Predict(predict) => predict.execute(global, output),
        Command::Simulate(simulate) => simulate.execute(global, output),
        Command::Forget(forget) => forget.execute(global, output),
        Command::Cancel(cancel) => cancel.execute(global, output),
        Command::Queue(queue) => queue.execute(output),
        Command::Hw(hw) => hw.execute(output),
        Command::Store(store) => store.execute(global, output),
        Command::Gc(gc) => gc.execute(global, output),
        Command::Doctor(doctor) => doctor.execute(global, output),
        Command::Init(init) => init.execute(output),
        Command::Schema(schema) => schema.execute(global, output),
        Command::Plugins(plugins) => plugins.execute(global, output),
        Command::Completions(completions) => completions.execute(output),
        Command::Ready(ready) => ready.execute(),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The instances of a run with this name: a step, or a label.
pub(crate) fn find<'a>(view: &'a View, name: &str) -> Result<Vec<&'a InstanceView>, CliError> {
    let found: Vec<&InstanceView> =
        view.instances.values().filter(|shown| flow_core::selects(name, &shown.label)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    if view.instances.is_empty() {
        return Err(CliError::usage(format!("the run ended before it had a plan, so it has no step `{name}`"))
            .hint("`flow runs` lists the others: --run ID"));
    }
    let names = view.instances.values().flat_map(|shown| [&*shown.step, &*shown.label]);
    let error = CliError::usage(format!("the run has no step or instance `{name}`"));
    Err(match flow_core::nearest(name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => {
            let steps: std::collections::BTreeSet<&str> = view.instances.values().map(|shown| &*shown.step).collect();
            error.hint(format!("it has {}", steps.into_iter().collect::<Vec<_>>().join(", ")))
        }
    })
}

#[cfg(test)]
mod tests {
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
