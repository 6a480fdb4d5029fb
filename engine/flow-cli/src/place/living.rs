//! Active runs of a store, and what ended runs left.

use flow_core::RunId;
use flow_exec::OrphanedJobs;
use flow_runs::{Holder, RunDir, StoreDir};

use super::StoreLocation;
use crate::error::CliError;

/// An active run and its owner.
pub(crate) struct LivingRun {
    pub(crate) run: RunId,
    pub(crate) holder: Holder,
    pub(crate) dir: RunDir,
}

impl StoreLocation {
    /// The active runs of the store, oldest first.
    pub(crate) fn living(&self) -> Result<Vec<LivingRun>, CliError> {
        let living = self.store.living()?.into_iter();
        let of = |holder: Holder| Some((holder.run.clone()?, holder));
        Ok(living.filter_map(of).map(|(run, holder)| LivingRun { dir: self.store.run(&run), run, holder }).collect())
    }

    /// The active run that is meant: by its id or the end of it; else the only one, or this user's
    /// only one.
    pub(crate) fn living_run(&self, asked: Option<&str>) -> Result<LivingRun, CliError> {
        let mut living = self.living()?;
        if let Some(asked) = asked {
            let run = self.run(Some(asked))?;
            let found = living.into_iter().find(|one| one.run == run);
            return found.ok_or_else(|| {
                CliError::usage(format!("run {run} has ended")).hint("`flow status` shows the active runs")
            });
        }
        let nothing = || CliError::usage(format!("nothing is running in the store `{}`", self.store.path().display()));
        if living.len() > 1 {
            let names: Vec<String> = living.iter().map(|one| format!("{} (`{}`)", one.run, one.holder.doing)).collect();
            living.retain(|one| one.dir.others().is_none());
            if living.len() != 1 {
                return Err(CliError::usage(format!("several runs are active: {}", names.join(", ")))
                    .hint("name one, by its id or the end of it"));
            }
        }
        match (living.pop(), self.store.holder()?) {
            (Some(one), _) => Ok(one),
            (None, Some(holder)) if holder.run.is_none() => {
                Err(CliError::usage(format!("{holder} uses the store, but is not a run")))
            }
            (None, _) => Err(nothing().hint("`flow status` shows the last run")),
        }
    }
}

/// Runs that may have left something, active or not, oldest first. Old runs are checked only once.
pub(crate) fn runs_with_jobs(store: &StoreDir) -> Result<Vec<(RunId, RunDir)>, CliError> {
    let all = store.runs()?.into_iter().map(|run| (store.run(&run), run));
    Ok(all.filter(|(dir, _)| dir.has_jobs()).map(|(dir, run)| (run, dir)).collect())
}

/// Work that ended runs left running: labels of steps, by run.
pub(crate) fn orphaned_steps(store: &StoreDir, runs: &[(RunId, RunDir)]) -> Vec<(RunId, Vec<String>)> {
    let of = |(run, dir): &(RunId, RunDir)| {
        let steps = flow_exec::running_orphans(store, dir);
        (!steps.is_empty()).then(|| (run.clone(), steps))
    };
    runs.iter().filter_map(of).collect()
}

/// Jobs in Slurm that this user's ended runs left, if Slurm answers.
pub(crate) fn orphaned_in_slurm(runs: &[(RunId, RunDir)]) -> Vec<(RunId, Option<OrphanedJobs>)> {
    let may = |(_, dir): &&(RunId, RunDir)| dir.lives().is_none() && dir.others().is_none();
    let (runs, dirs): (Vec<&RunId>, Vec<&RunDir>) = runs.iter().filter(may).map(|(run, dir)| (run, dir)).unzip();
    let left = runs
        .into_iter()
        .zip(flow_exec::orphaned_jobs(&dirs))
        .filter(|(_, jobs)| *jobs != Some(OrphanedJobs::default()));
    left.map(|(run, jobs)| (run.clone(), jobs)).collect()
}
