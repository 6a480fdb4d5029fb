//! `flow gc`.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use flow_runs::{StoreDir, StoreError};
use flow_store::{FreedSpace, Retention, Store};
use flow_supervisor::clock;

use super::CommandResult;
use crate::{
    args::{About, Global},
    error::CliError,
    output::Output,
    place::{self, StoreLocation},
    words,
};

/// The runs of each workflow, and the days, that stay by default.
const RUNS: usize = 10;
const DAYS: u64 = 30;

/// Arguments of `flow gc`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow gc -n                             show what would be removed
  flow gc --runs 3 --days 0              keep everything that the last three runs of each workflow use

flow also keeps the last results of each step, even if many runs of other steps followed; --runs 0 removes them too. \
Environments that uv made stay while runs of any store use them, and for the days of --days; --days 0 keeps them all. \
Imported results stay, because this machine cannot make them again: `flow forget MACHINE` drops them.")]
pub(crate) struct Gc {
    /// Keep everything that the last N runs of each workflow use
    #[arg(long, value_name = "N", default_value_t = RUNS)]
    runs: usize,
    /// Also keep everything that the runs of the last N days use
    #[arg(long, value_name = "D", default_value_t = DAYS)]
    days: u64,
    /// Only show what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    about: About,
}

impl Gc {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let keep = kept(self.runs, self.days);
        let since = keep.since;
        // After a run is removed, nobody could find the steps that it left running. Errors of
        // opening the store are reported below.
        if !self.dry_run
            && let Ok(store) = Store::open(place.store.path(), &place::me(), |_| ControlFlow::Break(()))
        {
            place::mended(store.rebuilt(), output)?;
            if let Some(strays) = flow_exec::end_strays(store.dir()) {
                output.line(strays)?;
            }
        }
        let freed = flow_store::gc(place.store.path(), &place::me(), keep, self.dry_run)
            .map_err(|error| refused(error, &place.store))?;
        place::mended(freed.rebuilt.as_ref(), output)?;
        output.line(render(&freed, self.dry_run))?;
        if let Some(since) = since {
            let cache = place.store.path().join("cache");
            let cleared = flow_exec::clear_environments(&cache, since, self.dry_run).map_err(CliError::from)?;
            let bytes = cleared.iter().map(|environment| environment.bytes).sum();
            if !cleared.is_empty() {
                let environments = words::count(cleared.len(), "environment");
                let freed = if self.dry_run { "would free" } else { "freed" };
                let days = words::count(self.days as usize, "day");
                output
                    .line(format!("{freed} {}: {environments} that no run has used for {days}", words::bytes(bytes)))?;
            }
        }
        Ok(())
    }
}

/// What stays if `flow gc` has no options.
pub(super) fn kept_by_default() -> Retention {
    kept(RUNS, DAYS)
}

fn kept(runs: usize, days: u64) -> Retention {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let since = (days > 0).then(|| clock::unix_millis().saturating_sub(days.saturating_mul(DAY)));
    Retention { runs, since }
}

/// On a full disk, the hint to call `flow gc` is useless here.
fn refused(error: StoreError, store: &StoreDir) -> CliError {
    let is_full = error.is_disk_full();
    let refused = CliError::from(error);
    if !is_full {
        return refused;
    }
    let work = match newest_work(store) {
        Some(outside) => outside.join("*/*/work"),
        None => store.path().join("runs/*/attempts/*/work"),
    };
    refused.hint(format!(
        "the rest belongs to runs that stay: `flow gc --runs 1 --days 0` keeps fewer; files of failed attempts, which nothing uses, are in {}",
        work.display()
    ))
}

/// The folder outside the store in which the newest such run has its work folders.
fn newest_work(store: &StoreDir) -> Option<PathBuf> {
    let runs = store.runs().ok()?;
    let work = runs.iter().rev().find_map(|run| fs::read_link(store.run(run).work()).ok())?;
    work.parent().map(Path::to_owned)
}

fn render(freed: &FreedSpace, dry: bool) -> String {
    let kept = words::count(freed.kept, "run");
    let stay = |n| if n == 1 { "stays" } else { "stay" };
    let others = match freed.others {
        (0, 0) => String::new(),
        (runs, objects) => {
            let what = [(runs, "run"), (objects, "object")].into_iter().filter(|(n, _)| *n > 0);
            let what: Vec<String> = what.map(|(n, what)| words::count(n, what)).collect();
            format!("; left to the users who made them: {}", what.join(" and "))
        }
    };
    let imports = match freed.imports {
        0 => String::new(),
        n => format!("; {} {} until `flow forget MACHINE`", words::count(n, "import"), stay(n)),
    };
    let others = others + &imports;
    if freed.runs + freed.results + freed.objects == 0 && freed.bytes == 0 {
        return format!("nothing to remove; {kept} {}{others}", stay(freed.kept));
    }
    let checkpoints = match freed.checkpoints {
        0 => String::new(),
        checkpoints => format!(", {} of interrupted writes", words::count(checkpoints, "checkpoint")),
    };
    format!(
        "{} {}: {}, {}, {}{checkpoints}; {kept} {}{others}",
        if dry { "would free" } else { "freed" },
        words::bytes(freed.bytes),
        words::count(freed.runs, "run"),
        words::count(freed.results, "result"),
        words::count(freed.objects, "object"),
        if dry { "would stay" } else { stay(freed.kept) },
    )
}
