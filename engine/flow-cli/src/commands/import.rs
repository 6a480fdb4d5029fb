//! `flow import`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use flow_core::{Bundle, LONGEST_BUNDLE, RunId, StepResult};
use flow_runs::StoreDir;
use flow_store::Store;

use super::CommandResult;
use crate::{
    args::{About, Global},
    error::CliError,
    output::{GOOD, NOTE, Output, styled},
    place, words,
};

/// Arguments of `flow import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow import h200.bundle                import a bundle that `flow export` wrote on another machine
  flow import h200.bundle --as anna      the same, and tables call its machine anna
  flow report                            print the report of that run, if no run of your own is here
  flow diff 3f2a 91bc                    compare the imported run 3f2a with your run 91bc
  flow forget lab4                       drop everything that came from the machine lab4

`flow status`, `show`, `results`, `report` and `diff` read an imported run like one of your own. `flow plan --run` and \
`flow predict --run` answer for its machine. flow never reuses imported results for a step and never averages them with \
your own. Tables with `machines: true` show them next to your own, and `flow runs` lists them.")]
pub(crate) struct Import {
    /// The bundle to import
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The name of its machine in your tables [default: the name in the bundle]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    about: About,
}

impl Import {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let shown = self.file.display();
        let mut bundle = read(&self.file)?;
        if let Some(name) = self.name {
            bundle.rename(name).map_err(|why| CliError::usage(format!("`--as`: {why}")))?;
        }
        let workspace = place::workspace(global, self.about.workflow.as_deref())?;
        let store = Store::open(workspace.make_store()?.path(), &place::me(), |_| ControlFlow::Break(()))?;
        place::mended(store.rebuilt(), output)?;
        let all = bundle.results.len();
        let mut foreign = Vec::with_capacity(all);
        for result in bundle.results {
            if !is_own(&result, &store)? {
                foreign.push(result);
            }
        }
        bundle.results = foreign;
        if bundle.results.is_empty() {
            let (run, at) = (words::end(&bundle.origin.run), store.dir().path().display());
            let why = match all {
                0 => "it contains no results".to_owned(),
                _ if !store.dir().run(&bundle.origin.run).path().is_dir() => {
                    "its results are this store's own".to_owned()
                }
                _ => format!("it is run {run} of this store, `{at}`; compare with it directly: `flow diff {run} RUN`"),
            };
            return Ok(output.line(format!("{} from `{shown}`: {why}", styled(NOTE, "nothing imported")))?);
        }
        let count = words::count(bundle.results.len(), "result");
        let what = format!("{count} of {} on {}", bundle.origin.workflow, bundle.origin.host);
        let (run, again) = (bundle.origin.run.clone(), imported_before(&bundle.results, &store)?);
        let own = last_own(store.dir(), &bundle.origin.workflow)?;
        let Some(id) = flow_exec::import(&store, bundle)? else {
            output.line(format!("{} from `{shown}`: {what} are here already", styled(NOTE, "nothing imported")))?;
            return Ok(());
        };
        output.line(format!("{} {what}: {id}", styled(GOOD, "imported")))?;
        output.line(format!("  it was run {run} there; commands take this id too"))?;
        let end = words::end(&id);
        let (with, what) = match &own {
            Some(own) => (words::end(own), "last run"),
            None => ("now", "files"),
        };
        output
            .line(format!("  `flow report {end}` prints it, `flow diff {end} {with}` compares it with your {what}"))?;
        if own.is_some() {
            output.line("  `machines: true` in your table puts both into one report")?;
        }
        let (dir, view) = place::view_of(store.dir(), &id)?;
        let file = view.start.map(|start| start.file).filter(|file| !workspace.root.join(file).is_file());
        if let (Some(file), Some(inside)) = (file, dir.store().path().parent()) {
            let copy = place::near(&inside.join(&file));
            output.line(format!("  its workflow `{file}` is not here: {copy} is a copy"))?;
        }
        for (earlier, n) in again {
            let n = words::thousands(n);
            output.line(format!("  import {earlier} has {n} of them too: tables count them once, under this name"))?;
        }
        Ok(())
    }
}

/// The bundle in a file.
pub(super) fn read(file: &Path) -> Result<Bundle, CliError> {
    let shown = file.display();
    let unread = |e: std::io::Error| CliError::usage(format!("`{shown}` cannot be read: {e}"));
    let bytes = flow_exec::text::read_bytes(file, LONGEST_BUNDLE).map_err(unread)?;
    Bundle::read(&bytes).map_err(|why| CliError::usage(format!("`{shown}`: {why}")))
}

/// The last run of a workflow by this user.
fn last_own(store: &StoreDir, workflow: &str) -> Result<Option<RunId>, CliError> {
    for run in store.runs()?.into_iter().rev() {
        let dir = store.run(&run);
        if dir.others().is_none() && place::start(&dir)?.is_some_and(|start| start.workflow == workflow) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// How many of these results earlier imports have, by the import's id.
fn imported_before(results: &[StepResult], store: &Store) -> Result<Vec<(RunId, usize)>, CliError> {
    let key = |result: &StepResult| (result.run.clone(), result.fingerprint);
    let new: BTreeSet<_> = results.iter().map(key).collect();
    let mut found = Vec::new();
    for import in flow_store::Import::all(store.dir())? {
        let there = flow_store::Import::results(store.dir(), std::slice::from_ref(&import))?;
        let same = there.iter().filter(|foreign| new.contains(&key(&foreign.result))).count();
        found.extend((same > 0).then_some((import.id, same)));
    }
    Ok(found)
}

/// This store has the same result already.
fn is_own(result: &StepResult, store: &Store) -> Result<bool, CliError> {
    let own = store.result(&result.fingerprint)?;
    Ok(own.is_some_and(|own| (own.run, own.ended_at) == (result.run.clone(), result.ended_at)))
}
