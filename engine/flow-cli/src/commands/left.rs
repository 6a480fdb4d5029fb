//! Work that killed runs left, as `flow plan` shows it.

use std::collections::BTreeSet;

use flow_core::plan::{Plan, State};
use flow_core::{Expansion, InstanceId};
use flow_exec::{Knowledge, Session, Unwanted};

use crate::words;

/// The state of an instance that the next run does not start again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    Running,
    Ended,
    /// Slurm does not answer.
    Unknown,
}

/// What is known of work that killed runs left.
#[derive(Default)]
pub(super) struct Left {
    ended: BTreeSet<InstanceId>,
    no_slurm: bool,
}

impl Left {
    pub(super) fn of(session: &Session, knowledge: &Knowledge, plan: &Plan) -> Left {
        let Some(dir) = knowledge.dir() else { return Left::default() };
        let followed = plan.items.iter().filter_map(|item| match &item.state {
            State::GoesOn { since, .. } => Some((item.id, since)),
            _ => None,
        });
        let followed: Vec<_> = followed.collect();
        let runs: BTreeSet<_> = followed.iter().map(|(_, since)| *since).collect();
        let ended = runs.into_iter().flat_map(|run| {
            let labels = flow_exec::ended_since(dir, &dir.run(run));
            labels.into_iter().map(move |label| (run, label))
        });
        let ended: BTreeSet<_> = ended.collect();
        let label = |id: InstanceId| session.expansion.instances[id.index()].label.to_string();
        let has_ended = |(id, since): &(InstanceId, _)| ended.contains(&(*since, label(*id)));
        let ended = followed.into_iter().filter(has_ended).map(|(id, _)| id).collect();
        Left { ended, no_slurm: session.unasked.is_some() }
    }

    pub(super) fn progress(&self, expansion: &Expansion, id: InstanceId) -> Progress {
        match self.ended.contains(&id) {
            true => Progress::Ended,
            false if self.no_slurm && expansion.instances[id.index()].slurm.is_some() => Progress::Unknown,
            false => Progress::Running,
        }
    }
}

/// Warns that the next run ends work that still runs. `set` are the settings of the plan.
pub(super) fn ends(of: &Unwanted, set: &[String]) -> String {
    let Unwanted { run, labels, are_jobs, .. } = of;
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
    use flow_core::RunId;

    use super::*;

    #[test]
    fn the_settings_of_work_that_would_end_are_named() {
        let of = |set: &[&str], n: usize, are_jobs| Unwanted {
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
