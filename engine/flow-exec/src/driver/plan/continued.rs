//! Opens a workflow whose killed runs may have left attempts running. An attempt that the next run follows stays where
//! it runs, whatever `--on` says now, so that no step runs twice.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    Builtins, Instance, Place,
    plan::{Force, State},
};
use flow_supervisor::hardware;

use super::Knowledge;
use crate::{
    ExecError,
    driver::{
        plan,
        recover::follow,
        session::{Basis, Session, SessionRequest},
    },
};

/// Opens a workflow as the next run would.
///
/// # Errors
/// As [`Session::open`]; the store cannot be read.
pub fn open(request: &SessionRequest, builtins: &dyn Builtins) -> Result<Session, ExecError> {
    let machine = hardware::machine(request.gpus.as_deref()).map_err(ExecError::Usage)?;
    let basis = Basis::read(request, machine)?;
    continued(&basis, find_orphan_places(&basis)?, builtins, true)
}

/// The places of attempts of killed runs that the next run follows, by label.
pub(crate) fn find_orphan_places(basis: &Basis) -> Result<BTreeMap<String, Place>, ExecError> {
    let workspace = &basis.workspace;
    let existing = workspace.existing_store()?;
    Ok(existing.map(|dir| follow::places(&dir, &workspace.name(&workspace.file))).unwrap_or_default())
}

/// The same, from data that was read already. Opens the store only if one of `orphan_places` is not the place of its instance.
pub(crate) fn continued(
    basis: &Basis,
    orphan_places: BTreeMap<String, Place>,
    builtins: &dyn Builtins,
    informs: bool,
) -> Result<Session, ExecError> {
    let session = basis.open(builtins, informs, BTreeMap::new())?;
    let is_elsewhere =
        |instance: &Instance| orphan_places.get(&*instance.label).is_some_and(|place| *place != instance.place);
    if !session.expansion.instances.iter().any(is_elsewhere) {
        return Ok(session);
    }
    let session = basis.open(builtins, informs, orphan_places)?;
    // An attempt that an edit made useless does not decide where a step runs.
    let followed = followed(&session)?;
    let orphan_places: BTreeMap<String, Place> = session
        .orphan_places
        .iter()
        .filter(|(label, _)| followed.contains(*label))
        .map(|(label, at)| (label.clone(), *at))
        .collect();
    if orphan_places == session.orphan_places { Ok(session) } else { basis.open(builtins, informs, orphan_places) }
}

/// The labels of the instances that the next run would follow.
fn followed(session: &Session) -> Result<BTreeSet<String>, ExecError> {
    let knowledge = Knowledge::open(session, "flow plan")?;
    let plan = plan(session, &knowledge, &session.wanted(&[])?, &Force::Nothing)?;
    let orphaned = plan.items.iter().filter(|item| matches!(item.state, State::Orphaned { .. }));
    Ok(orphaned.map(|item| session.expansion.instances[item.id.index()].label.to_string()).collect())
}
