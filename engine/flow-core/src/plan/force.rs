//! `--force`: what runs although it need not. Knows no results.

use std::collections::BTreeSet;

use crate::{Diagnostic, Expansion, InstanceId};

/// What is forced to run. A co-run group of which one member is forced is forced as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// Nothing.
    #[default]
    Nothing,
    /// Everything.
    All,
    /// These.
    Only(BTreeSet<InstanceId>),
}

impl Force {
    /// Is this instance named?
    pub fn covers(&self, id: InstanceId) -> bool {
        match self {
            Force::Nothing => false,
            Force::All => true,
            Force::Only(ids) => ids.contains(&id),
        }
    }

    /// The instances that names stand for, without what they need: a step stands for all of its instances, a label for
    /// one.
    ///
    /// # Errors
    /// Every name that is neither, with the nearest one.
    pub fn named(expansion: &Expansion, names: &[String]) -> Result<Self, Vec<Diagnostic>> {
        named(expansion, names).map(Force::Only)
    }
}

/// See [`Force::named`].
pub(super) fn named(expansion: &Expansion, names: &[String]) -> Result<BTreeSet<InstanceId>, Vec<Diagnostic>> {
    let mut ids = BTreeSet::new();
    let mut errors = Vec::new();
    for name in names {
        if let Some(step) = expansion.steps.iter().find(|step| step.name == *name) {
            ids.extend(step.ids());
        } else if let Some(instance) = expansion.instances.iter().find(|instance| *instance.label == **name) {
            ids.insert(instance.id);
        } else {
            let steps = expansion.steps.iter().map(|step| step.name.as_str());
            let step = name.split('[').next().unwrap_or(name);
            let labels = expansion.instances.iter().filter(|i| i.label.starts_with(step)).map(|i| &*i.label);
            let error = Diagnostic::new(format!("there is no step or instance `{name}`"));
            errors.push(if name.contains('[') {
                error.nearest(name, labels.chain(steps))
            } else {
                error.nearest(name, steps)
            });
        }
    }
    if errors.is_empty() { Ok(ids) } else { Err(errors) }
}
