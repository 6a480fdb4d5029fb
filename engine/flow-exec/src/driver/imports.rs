//! Results of other machines: taking them in, and finding those of a workflow. What they are good for others decide.

use flow_core::{Bundle, Foreign, RunId};
use flow_store::{Import, Store, StoreDir};

use super::identity::new_run_id;
use crate::{ExecError, clock};

/// Takes in what another machine exported, whole or not at all. `None` where that was done before.
///
/// # Errors
/// The store cannot be written.
pub fn import(store: &Store, bundle: Bundle) -> Result<Option<RunId>, ExecError> {
    Ok(store.dir().import(bundle, clock::unix_millis(), |runs| new_run_id(runs).0)?)
}

/// Of what was taken in that which a name stands for: its id or the end of that, or a machine.
///
/// # Errors
/// The store cannot be read.
pub fn named(dir: &StoreDir, name: &str) -> Result<Vec<Import>, ExecError> {
    /// A shorter end of an id says nothing.
    const SHORTEST: usize = 4;
    let meant = |import: &Import| {
        let end = name.len() >= SHORTEST && import.id.0.ends_with(name);
        end || import.origin.host == name
    };
    Ok(dir.imports()?.into_iter().filter(meant).collect())
}

/// What runs of a workflow came to on other machines.
pub(super) fn of_workflow(dir: &StoreDir, workflow: &str) -> Result<Vec<Foreign>, ExecError> {
    let mut imports = dir.imports()?;
    imports.retain(|import| import.origin.workflow == workflow);
    let mut found = dir.imported(&imports)?;
    found.retain(|foreign| foreign.result.workflow == workflow);
    Ok(found)
}
