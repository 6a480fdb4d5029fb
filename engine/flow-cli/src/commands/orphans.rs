//! Work that killed runs left, as `flow plan` shows it.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    InstanceId, RunId,
    plan::{Plan, State},
};
use flow_exec::{Knowledge, Session, UnwantedWork};
use flow_runs::RunDir;

use crate::{
    output::{GOOD, NOTE, styled},
    words,
};

/// The state of an instance that the next run does not start again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    Running,
    /// Its job waits in Slurm's queue.
    Queued,
    Ended,
    /// Slurm does not answer.
    Unknown,
}

/// What is known of work that killed runs left.
#[derive(Default)]
pub(super) struct OrphanStates(BTreeMap<InstanceId, Progress>);

impl OrphanStates {
    pub(super) fn of(session: &Session, knowledge: &Knowledge, plan: &Plan) -> OrphanStates {
        let Some(dir) = knowledge.dir() else { return OrphanStates::default() };
        let followed = plan.items.iter().filter_map(|item| match &item.state {
            State::Orphaned { since, .. } => Some((item.id, since)),
            _ => None,
        });
        let followed: Vec<_> = followed.collect();
        let runs: BTreeSet<&RunId> = followed.iter().map(|(_, since)| *since).collect();
        let labels = |of: &dyn Fn(&RunDir) -> Vec<String>| -> BTreeSet<(&RunId, String)> {
            runs.iter().flat_map(|run| of(&dir.run(run)).into_iter().map(|label| (*run, label))).collect()
        };
        let (ended, queued) = (labels(&|run| flow_exec::ended_since(dir, run)), labels(&flow_exec::jobs_waiting));
        let progress = |(id, since): (InstanceId, &RunId)| {
            let instance = &session.expansion.instances[id.index()];
            let is_in = |all: &BTreeSet<(&RunId, String)>| all.contains(&(since, instance.label.to_string()));
            let progress = match () {
                () if is_in(&ended) => Progress::Ended,
                () if session.cluster_unavailable.is_some() && instance.is_batch() => Progress::Unknown,
                () if is_in(&queued) => Progress::Queued,
                () => Progress::Running,
            };
            (id, progress)
        };
        OrphanStates(followed.into_iter().map(progress).collect())
    }

    pub(super) fn progress(&self, id: InstanceId) -> Progress {
        // Of an instance that no killed run left, nothing is shown.
        self.0.get(&id).copied().unwrap_or(Progress::Running)
    }
}

/// The message about an instance that a killed run left.
pub(super) fn followed(since: &RunId, progress: Progress) -> String {
    let follows = "the next run follows it and does not start it again";
    match progress {
        Progress::Running => format!("{} since run {since}; {follows}", styled(GOOD, "running")),
        Progress::Queued => format!("{} in Slurm since run {since}; {follows}", styled(NOTE, "queued")),
        Progress::Ended => {
            format!("{} since run {since} was killed; the next run collects its result", styled(GOOD, "ended"))
        }
        Progress::Unknown => format!("{}: Slurm does not answer about the job of run {since}", styled(NOTE, "unknown")),
    }
}

/// Warns that the next run ends work that still runs. `set` are the settings of the plan.
pub(super) fn ends(of: &UnwantedWork, set: &[String]) -> String {
    let UnwantedWork { run, labels, are_jobs, .. } = of;
    let one = labels.len() == 1;
    let what = words::count(labels.len(), if *are_jobs { "job" } else { "step" });
    let (continues, them) = if one { ("continues", "it") } else { ("continue", "them") };
    let why = match of.set.as_slice() {
        same if same == set => "which this plan does not need".to_owned(),
        [] => "without these settings".to_owned(),
        other => {
            let options: Vec<String> = other.iter().map(|one| format!("--set {one}")).collect();
            format!("with other settings (`{}`)", options.join(" "))
        }
    };
    let comma = if of.set == set { "," } else { "" };
    format!("{what} of run {run} {continues}{comma} {why}; `flow run` cancels {them}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_work_that_would_end_are_named() {
        let of = |set: &[&str], n: usize, are_jobs| UnwantedWork {
            run: RunId("r1".into()),
            set: set.iter().map(|one| (*one).to_owned()).collect(),
            are_jobs,
            labels: vec!["a".to_owned(); n],
        };
        let cases = [
            (
                of(&["n=2", "m=1"], 6, true),
                "6 jobs of run r1 continue with other settings (`--set n=2 --set m=1`); `flow run` cancels them",
            ),
            (
                of(&["n=1"], 1, false),
                "1 step of run r1 continues, which this plan does not need; `flow run` cancels it",
            ),
            (of(&[], 2, true), "2 jobs of run r1 continue without these settings; `flow run` cancels them"),
        ];
        for (unwanted, expected) in cases {
            assert_eq!(ends(&unwanted, &["n=1".to_owned()]), expected);
        }
    }
}
