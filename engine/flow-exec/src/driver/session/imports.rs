//! Results of other machines: imports them, and finds those of a workflow. Does not decide their use.

use flow_core::{Bundle, Foreign, RunId};
use flow_runs::StoreDir;
use flow_store::{Import, Store};
use flow_supervisor::clock;

use super::identity::new_run_id;
use crate::ExecError;

/// Imports a bundle completely or not at all. `None` if it was imported before.
///
/// # Errors
/// The store cannot be written.
pub fn import(store: &Store, bundle: Bundle) -> Result<Option<RunId>, ExecError> {
    Ok(Import::add(store.dir(), bundle, clock::unix_millis(), |runs| new_run_id(runs).0)?)
}

/// The imports that a name means: an id, the end of an id, or a host.
///
/// # Errors
/// The store cannot be read.
pub fn named(dir: &StoreDir, name: &str) -> Result<Vec<Import>, ExecError> {
    /// A shorter end of an id is ignored.
    const SHORTEST: usize = 4;
    let meant = |import: &Import| {
        let end = name.len() >= SHORTEST && import.id.0.ends_with(name);
        end || import.origin.host == name
    };
    Ok(Import::all(dir)?.into_iter().filter(meant).collect())
}

/// Results of a workflow that were imported from machines other than this host.
///
/// # Errors
/// The store cannot be read.
pub fn foreign_results(dir: &StoreDir, workflow: &str, host: &str) -> Result<Vec<Foreign>, ExecError> {
    let mut found = of_workflow(dir, workflow)?;
    found.retain(|foreign| foreign.host != host);
    Ok(found)
}

/// Results of a workflow from other machines.
pub(crate) fn of_workflow(dir: &StoreDir, workflow: &str) -> Result<Vec<Foreign>, ExecError> {
    let mut imports = Import::all(dir)?;
    imports.retain(|import| import.origin.workflow == workflow);
    let mut found = Import::results(dir, &imports)?;
    found.retain(|foreign| foreign.result.workflow == workflow);
    Ok(found)
}
