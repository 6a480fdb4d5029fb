//! `flow run`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use flow_core::sched::policy;
use flow_core::{JournalLine, RunEvent};
use flow_exec::{ForceRequest, PublishRequest, RunEnd, RunOptions, Workspace};
use flow_supervisor::{attempt, hardware};

use super::{CommandResult, detach, plan, report};
use crate::args::{Global, Selection, is_workflow};
use crate::error::CliError;
use crate::output::Output;
use crate::place;
use crate::reasons;
use crate::screen::{FURTHER, Length, RunEndDetails, Screen, View, summary};
use crate::terminal;

/// Lines of a log that are printed with a failure.
const LOG_LINES: usize = 12;
/// So many differences of the environment are shown.
const DIFFERENCES: usize = 4;

/// Arguments of `flow run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "flow run [OPTIONS] [FILE] [STEP]...",
    after_help = "\
Examples:
  flow run workflows/feb08.yaml                    everything that is not cached
  flow run workflows/feb08.yaml solo_table         one step and the steps that it needs
  flow run workflows/feb08.yaml --set model=resnet34 --set 'batches=[16, 32]'
  flow run workflows/feb08.yaml -n                 only show what would run, and why
  flow run workflows/feb08.yaml -f solo            run a step again although it is cached
  flow run workflows/feb08.yaml --detach           continue without the terminal; `flow attach` follows it

With --json each line is one object: `at` (milliseconds since 1970), `event`, and the event's fields. The events \
are run_started, instance, remarked, cached, started, ready, released, epoch, ended, again, recorded, observed, tried, \
settled, interrupted, notice, published, withheld and run_ended. The store keeps the same lines in \
runs/<id>/journal.jsonl."
)]
pub(crate) struct Run {
    /// The workflow file [default: the only one in this folder, else the last run's, else the only one in workflows/]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Run only these steps, or instances such as 'solo[batch=16]', and the steps that they need
    #[arg(value_name = "STEP")]
    targets: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// Only show what would run, and why
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Run everything again, or only this step; may be repeated
    #[arg(short, long, value_name = "STEP", num_args = 0..=1, default_missing_value = "")]
    force: Vec<String>,
    /// After a failure, continue with all steps that do not need the failed one
    #[arg(short, long)]
    keep_going: bool,
    /// Run at most this many steps at once
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// The order of steps: critical-path, fifo, fit, easy, sjf, … [default: the workflow's, else critical-path]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Replace published files even if this run is partial or has other parameters, profile or
    /// GPUs; without a GPU, also publish into the README
    #[arg(long, conflicts_with = "no_publish")]
    publish: bool,
    /// Publish nothing; write reports into the run's folder
    #[arg(long)]
    no_publish: bool,
    /// A note on the run, for `flow runs`
    #[arg(short, long = "message", value_name = "TEXT")]
    message: Option<String>,
    /// Fail at once if a command such as `flow gc` has exclusive use of the store
    #[arg(long)]
    no_wait: bool,
    /// Run in the background; if flow itself is killed, its steps continue and the next run follows
    /// them
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// This process is the background one
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        let (file, targets, force) = sort_out(self.file, self.targets, self.force);
        let file = match file {
            Some(file) => file,
            None => place::default_workflow(global, output)?,
        };
        let mut session = place::request(global, file, &self.selection);
        place::follow_jobs(&mut session, output)?;
        if let Some(name) = self.policy.as_deref().filter(|name| policy::named(name).is_none()) {
            return Err(CliError::usage(policy::unknown(name).to_string()));
        }
        if self.dry_run {
            return plan::show(&session, &targets, &force, false, self.json, output);
        }
        if let Some(gpus) = session.gpus.as_deref().filter(|gpus| hardware::declares(gpus)) {
            let why = format!("--gpus '{gpus}' declares GPUs that may not exist, and nothing can run on them");
            return Err(
                CliError::usage(why).hint("--gpus 0,1 selects real ones; `flow plan` and `flow check` take both")
            );
        }
        let workspace = place::workspace(global, Some(&session.file))?;
        if self.detach {
            return detach::start(&workspace, output);
        }
        if self.detached {
            detach::leave_terminal();
        }
        let options = RunOptions {
            session,
            targets,
            force,
            keep_going: self.keep_going,
            jobs: self.jobs,
            policy: self.policy,
            publish: match (self.publish, self.no_publish) {
                (true, _) => PublishRequest::Always,
                (_, true) => PublishRequest::Never,
                _ => PublishRequest::Whole,
            },
            note: self.message,
            wait: !self.no_wait,
            doing: place::doing(),
            detached: self.detached,
        };
        let mut screen = Screen::new(output, self.json);
        // Work continues even if the reader of the output has gone.
        let end = flow_exec::run(&options, Arc::new(crate::builtins::Steps::default()), &mut |update| {
            drop(screen.update(update))
        });
        let view = screen.close();
        let end = end?;
        if self.json {
            if end.unchanged {
                output.json(&unchanged_line(&end))?;
            }
        } else {
            let length = Length::of(output);
            let answers =
                if end.unchanged { Vec::new() } else { report::answers(&workspace, &view, &end.made, global, output) };
            // The exit code says how the run ended, even if nobody reads the output.
            let mut lines = words(view, &end, answers, &workspace, length);
            if output.verbose {
                let unfollowed = reasons::unfollowed(&end.unfollowed);
                lines.extend(unfollowed.iter().map(|line| format!("  {:<9} {line}", "kept")));
            }
            if !length.short && !end.environments.is_empty() {
                let said =
                    reasons::differences(&end.environments, if output.verbose { usize::MAX } else { DIFFERENCES });
                let said = said.join(", ");
                lines.push(format!("  {:<9} {said} since some of these results; `flow plan` shows which", "note"));
            }
            let _ = lines.iter().try_for_each(|line| output.sentence(line, FURTHER));
        }
        Ok(ExitCode::from(u8::try_from(end.exit).unwrap_or(1)))
    }
}

/// The file, if it is named, the targets, and the forced steps. `-f` takes a step or nothing, so
/// clap may take the file for its value: `flow run -f w.yaml`. A word in the file's place that is
/// a folder, or nothing, is a target of the default workflow.
fn sort_out(
    file: Option<PathBuf>,
    mut targets: Vec<String>,
    mut force: Vec<String>,
) -> (Option<PathBuf>, Vec<String>, ForceRequest) {
    let taken = force.iter().position(|name| is_workflow(name));
    let taken = taken.map(|taken| PathBuf::from(std::mem::take(&mut force[taken])));
    let file = match file {
        Some(file) if !is_workflow(&file.to_string_lossy()) && (!file.exists() || file.is_dir()) => {
            targets.insert(0, file.to_string_lossy().into_owned());
            taken
        }
        Some(file) => Some(file),
        None => taken,
    };
    let force = match force.as_slice() {
        [] => ForceRequest::Nothing,
        names if names.iter().any(String::is_empty) => ForceRequest::All,
        _ => ForceRequest::Only(force),
    };
    (file, targets, force)
}

/// The summary of a run that has ended.
fn words(mut view: View, end: &RunEnd, answers: Vec<String>, workspace: &Workspace, length: Length) -> Vec<String> {
    // Paths relative to the current folder. A run with nothing to do has no events.
    let withheld = end.withheld.iter();
    let withheld =
        withheld.map(|file| (place::near(&file.path), place::near(&file.written), reasons::withheld(&file.why)));
    view.withheld = withheld.collect();
    view.published = end.published.iter().map(|file| (place::near(&file.path), file.changed)).collect();
    view.exit = Some(end.exit);
    let ended = RunEndDetails {
        run: end.run.to_string(),
        answers,
        made: end.made.clone(),
        unchanged: end.unchanged.then(|| end.counts.values().sum()),
        ..RunEndDetails::default()
    };
    summary(&view, &ended, length, &|folder| log_tail(workspace, folder))
}

/// The last lines of an attempt's log, by its folder in the store.
pub(crate) fn log_tail(workspace: &Workspace, folder: &str) -> Vec<String> {
    let folder = attempt::Folder::at(workspace.store.join(folder));
    folder.log_tail(LOG_LINES).unwrap_or_default().iter().map(|line| terminal::printed(line)).collect()
}

/// A run with nothing to do writes no journal, but readers of lines expect an end event.
fn unchanged_line(end: &RunEnd) -> JournalLine {
    let (counts, run) = (end.counts.clone(), Some(end.run.clone()));
    let event = RunEvent::RunEnded { exit: end.exit, counts, run, not_published: Vec::new() };
    JournalLine { at: flow_supervisor::clock::unix_millis(), event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_all_events() {
        // Other journals have these events too.
        let others = ["accepted", "imported", "foreign", "forgotten", "dropped"];
        let error = serde_json::from_str::<RunEvent>(r#"{"event": "?"}"#).unwrap_err().to_string();
        let known = error.split('`').skip(3).step_by(2).filter(|name| !others.contains(name));
        let help = <Run as clap::Args>::augment_args(clap::Command::new("run")).get_after_help().unwrap().to_string();
        let (_, list) = help.split_once("The events are ").unwrap();
        let (list, _) = list.split_once('.').unwrap();
        let names = list.split([' ', ',', '\n']).filter(|word| !matches!(*word, "" | "and"));
        assert_eq!(names.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    }

    #[test]
    fn force_takes_a_step_or_nothing() {
        let sort = |file: Option<&str>, targets: &[&str], force: &[&str]| {
            let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
            sort_out(file.map(PathBuf::from), own(targets), own(force))
        };
        let only = |name: &str| ForceRequest::Only(vec![name.to_owned()]);
        let w = || Some(PathBuf::from("w.yaml"));
        assert_eq!(sort(Some("w.yaml"), &[], &[]), (w(), vec![], ForceRequest::Nothing));
        assert_eq!(sort(Some("w.yaml"), &[], &["solo"]), (w(), vec![], only("solo")));
        assert_eq!(sort(Some("w.yaml"), &[], &[""]), (w(), vec![], ForceRequest::All));
        assert_eq!(sort(None, &[], &["w.yaml"]), (w(), vec![], ForceRequest::All));
        assert_eq!(sort(Some("solo"), &["b"], &["w.yaml"]), (w(), vec!["solo".into(), "b".into()], ForceRequest::All));
        // `src` is a folder here.
        assert_eq!(sort(Some("src"), &[], &[]), (None, vec!["src".into()], ForceRequest::Nothing));
        assert_eq!(sort(Some("solo"), &[], &[]), (None, vec!["solo".into()], ForceRequest::Nothing));
        assert_eq!(sort(None, &[], &[]), (None, vec![], ForceRequest::Nothing));
    }
}
