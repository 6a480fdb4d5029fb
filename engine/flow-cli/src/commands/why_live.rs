//! What active runs say about instances: they run, or wait for something.

use flow_core::{Expansion, JournalLine, RunEvent};
use flow_exec::Knowledge;
use flow_runs::{RunDir, Status};
use indexmap::{IndexMap, IndexSet};

use crate::{
    error::CliError,
    output::{GOOD, NOTE, STRONG, styled},
    reasons,
    screen::View,
    words,
};

/// The present state of an active run.
pub(super) struct LiveRun {
    pub(super) status: Status,
    dir: RunDir,
    /// Its owner, if that is another user.
    owner: Option<String>,
}

impl LiveRun {
    pub(super) fn named(&self) -> String {
        match &self.owner {
            Some(owner) => format!("run {} of {owner}", self.status.run),
            None => format!("run {}", self.status.run),
        }
    }

    /// Labels of its unsettled instances. Its status holds the reasons of the first waiting ones.
    pub(super) fn open(&self) -> Result<Vec<String>, CliError> {
        let mut view = View::default();
        self.dir.read_journal(|line| view.event(&line))?;
        Ok(view.instances.into_values().filter(|shown| shown.state.is_open()).map(|shown| shown.label).collect())
    }
}

/// The active runs of a workflow with the same parameters: with others, its steps would be others.
pub(super) fn live_runs(knowledge: &Knowledge, of: &Expansion) -> Result<Vec<LiveRun>, CliError> {
    let Some(dir) = knowledge.dir() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for run in dir.living()?.into_iter().filter_map(|holder| holder.run) {
        let dir = dir.run(&run);
        let is_of = |line: JournalLine| match line.event {
            RunEvent::RunStarted(start) => (start.workflow, start.params) == (of.workflow.clone(), of.params.clone()),
            _ => false,
        };
        if !dir.first_line()?.is_some_and(is_of) {
            continue;
        }
        let status = dir.status()?;
        found.extend(status.map(|status| LiveRun { status, owner: dir.others(), dir }));
    }
    Ok(found)
}

/// What an active run says of an instance.
pub(super) struct LiveLine<'a> {
    pub(super) label: &'a str,
    /// That it runs, or the reason of its wait.
    text: String,
    /// The same for many.
    alike: String,
}

pub(super) fn live<'a>(status: &Status, run: &str, labels: &IndexSet<&'a str>, now: u64) -> Vec<LiveLine<'a>> {
    let waiting = status.waiting.iter().filter_map(|waiting| {
        let text = format!("{} in {run}: {}", styled(NOTE, "waits"), reasons::waits(&waiting.reason, now));
        Some(LiveLine { label: labels.get(&*waiting.label)?, alike: text.clone(), text })
    });
    let running = status.running.iter().filter_map(|running| {
        let label = labels.get(&*running.label)?;
        let since = words::duration(now.saturating_sub(running.started_at) as f64 / 1e3);
        let (text, alike) = match &running.queued {
            Some(queued) => {
                let by = format!("{} by {run}", styled(NOTE, "queued"));
                (format!("{by}: {}", reasons::queued(queued)), format!("{by}: {}", reasons::queued_alike(queued)))
            }
            None => {
                let how = format!("{} in {run}", styled(GOOD, "runs"));
                let place = reasons::slurm_place(running).map(|place| format!(", {place}")).unwrap_or_default();
                (format!("{how}{place}, for {since}"), how)
            }
        };
        Some(LiveLine { label, text, alike })
    });
    waiting.chain(running).collect()
}

/// Its turn has not come.
pub(super) fn later<'a>(living: &LiveRun, label: &'a str) -> LiveLine<'a> {
    let text = format!("{} in {}: queued, or waiting for a dependency", styled(NOTE, "waits"), living.named());
    LiveLine { label, alike: text.clone(), text }
}

/// Each by itself; many with the same message as one.
pub(super) fn lines(told: &[LiveLine<'_>], each: bool) -> Vec<String> {
    const SHOWN: usize = 24;
    let mut alike: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for one in told {
        let text = if each || told.len() <= SHOWN { &one.text } else { &one.alike };
        alike.entry(text).or_default().push(one.label);
    }
    let lines = alike.into_iter().map(|(text, of)| format!("{}: {text}", styled(STRONG, words::named(&of))));
    lines.collect()
}
