//! `flow forget`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use clap::Args;
use flow_core::{Digest, RunEvent};
use flow_exec::ForgetResult;
use flow_store::{Import, Store};
use indexmap::IndexSet;

use super::{CommandResult, find};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::Output,
    place::{self, StoreLocation},
    screen::{InstanceView, View, each_result},
    words,
};

/// Arguments of `flow forget`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow forget train                      drop all results of the step
  flow forget 'train[lr=0.1]'            drop those of one instance
  flow forget train --accepted           take back `flow accept`, and keep the results of runs
  flow forget lab4                       drop the results imported from a machine, or by an import's id in `flow runs`

In a shared store, each user can forget their own results; the owner of the store can forget all.

To run a step once more and keep its result until then: flow run -f STEP.")]
pub(crate) struct Forget {
    /// A step, or an instance such as 'train[lr=0.1]'; or a machine whose results were imported, or the id of an import
    #[arg(required = true, value_name = "STEP")]
    steps: Vec<String>,
    /// Only results that `flow accept` kept
    #[arg(long)]
    accepted: bool,
    #[command(flatten)]
    of: OfRun,
}

/// A step or an instance, and the run with its result.
struct NamedInstances<'a> {
    name: &'a String,
    view: View,
}

impl NamedInstances<'_> {
    fn instances(&self) -> impl Iterator<Item = &InstanceView> {
        self.view.instances.values().filter(|shown| flow_core::selects(self.name, &shown.label))
    }
}

impl Forget {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let place = StoreLocation::of_workflow(global, &self.of, output)?;
        let (mut steps, mut imports, mut errors) = (Vec::new(), BTreeMap::new(), Vec::new());
        for name in &self.steps {
            let found = place.view_with(self.of.run.as_deref(), name, |_| true, output);
            match found.and_then(|(_, view)| find(&view, name).map(drop).map(|()| view)) {
                Ok(view) => steps.push(NamedInstances { name, view }),
                Err(unknown) => {
                    let of_machine = flow_exec::named(&place.store, name)?;
                    if of_machine.is_empty() {
                        errors.push(unknown);
                    }
                    imports.extend(of_machine.into_iter().map(|import| (import.id.clone(), import)));
                }
            }
        }
        // Even if one name is unknown, the results of the others are dropped.
        errors.extend(forget_imports(&place, imports.into_values(), output).err());
        errors.extend(forget_steps(&place, &steps, self.accepted, output).err());
        let Some(last) = errors.pop() else { return Ok(()) };
        errors.iter().for_each(|error| _ = error.report(output));
        Err(last)
    }
}

/// Drops the results of these steps.
fn forget_steps(
    place: &StoreLocation,
    steps: &[NamedInstances<'_>],
    only_accepted: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    let Some(start) = steps.iter().find_map(|step| step.view.start.as_ref()) else { return Ok(()) };
    // An active run would record at its end that the result is still there.
    let store = Store::open_alone(place.store.path(), &place::me(), |_| ControlFlow::Break(()))?;
    place::mended(store.rebuilt(), output)?;
    let reuse = steps.iter().flat_map(NamedInstances::instances).filter_map(|shown| shown.fingerprint).collect();
    let names: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
    let ForgetResult { mut labels, fingerprints, others } =
        flow_exec::forget(&store, &start.workflow, &start.file, &names, &reuse, only_accepted)?;
    output.lines(of_others(steps, &start.workflow, &store, place)?)?;
    let results = words::count(labels.len(), "result");
    labels.sort();
    labels.dedup();
    if !labels.is_empty() || others.is_empty() {
        let also = also(steps, &labels, &fingerprints);
        let instances = words::count(labels.len(), "instance");
        output.line(match only_accepted {
            false => format!("forgotten: {results} of {instances}{also}"),
            true => {
                format!("no longer accepted: {results} of {instances}{also}; the earlier results stay in the store")
            }
        })?;
    }
    if others.is_empty() { Ok(()) } else { Err(not_ours(&others)) }
}

/// Other steps that lose these results, because they do the same work or made them under another
/// name.
fn also(steps: &[NamedInstances<'_>], labels: &[String], fingerprints: &BTreeSet<Digest>) -> String {
    let alike =
        |shown: &&InstanceView| shown.fingerprint.is_some_and(|fingerprint| fingerprints.contains(&fingerprint));
    let alike = steps.iter().flat_map(|step| step.view.instances.values()).filter(alike).map(|shown| &*shown.label);
    let named = |label: &&str| steps.iter().any(|step| flow_core::selects(step.name, label));
    let also: IndexSet<&str> = alike.chain(labels.iter().map(String::as_str)).filter(|label| !named(label)).collect();
    let also: Vec<&str> = also.into_iter().collect();
    if also.is_empty() { String::new() } else { format!(", also used by {}", words::named(&also)) }
}

/// Results that the steps reuse from other workflows; they are forgotten there.
fn of_others(
    steps: &[NamedInstances<'_>],
    own: &str,
    store: &Store,
    place: &StoreLocation,
) -> Result<IndexSet<String>, CliError> {
    let mut lines = IndexSet::new();
    each_result(steps.iter().flat_map(NamedInstances::instances), store, &place.store, |shown, result| {
        let Some(result) = result.filter(|result| result.workflow != own) else { return Ok(()) };
        // It may be forgotten already.
        if store.result(&result.fingerprint)?.is_none() {
            return Ok(());
        }
        let (label, of) = (&result.label, &result.workflow);
        let how = match place.store.run(&result.run).first_line()?.map(|line| line.event) {
            Some(RunEvent::RunStarted(start)) => format!(": flow forget '{label}' -w {}", start.file),
            _ => String::new(),
        };
        lines.insert(format!("{} has the result of {label} of workflow `{of}`{how}", shown.label));
        Ok(())
    })?;
    Ok(lines)
}

/// Drops results that were imported from other machines.
fn forget_imports(
    place: &StoreLocation,
    imports: impl ExactSizeIterator<Item = Import>,
    output: &mut Output,
) -> Result<(), CliError> {
    if imports.len() == 0 {
        return Ok(());
    }
    // An active run may show them.
    let store = Store::open_alone(place.store.path(), &place::me(), |_| ControlFlow::Break(()))?;
    for import in imports {
        if let Some(user) = store.dir().run(&import.id).others_results() {
            return Err(not_ours(&BTreeMap::from([(user, BTreeSet::from([import.id.to_string()]))])));
        }
        import.remove(store.dir())?;
        let count = words::count(import.results as usize, "result");
        let origin = &import.origin;
        output.line(format!("forgotten: {count} of {} on {} ({})", origin.workflow, origin.host, import.id))?;
    }
    Ok(())
}

/// Results that others made or imported, by their names.
fn not_ours(others: &BTreeMap<String, BTreeSet<String>>) -> CliError {
    const SHOWN: usize = 3;
    let of = |(user, labels): (&String, &BTreeSet<String>)| {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        format!("{} of {user}", words::first(&labels, SHOWN))
    };
    let all: Vec<String> = others.iter().map(of).collect();
    let only = "only the user who made or imported a result, or the owner of the store, can forget it";
    CliError::failed(format!("not forgotten: {}; {only}", all.join("; ")))
        .hint("ask them, or run `flow run -f STEP`: the new result replaces theirs")
}
