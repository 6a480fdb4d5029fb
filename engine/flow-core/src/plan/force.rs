//! `--force`: what runs although it need not. Knows no results.

use std::collections::BTreeSet;

use crate::{Diagnostic, Expansion, InstanceId};

/// Instances that are forced to run. A forced member forces its whole co-run group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Force {
    #[default]
    Nothing,
    All,
    Only(BTreeSet<InstanceId>),
}

impl Force {
    /// Whether it is forced by itself.
    pub fn covers(&self, id: InstanceId) -> bool {
        match self {
            Force::Nothing => false,
            Force::All => true,
            Force::Only(ids) => ids.contains(&id),
        }
    }

    /// The instances that `names` refer to, without their needs.
    ///
    /// # Errors
    /// Every unknown name, with the nearest known one.
    pub fn named(expansion: &Expansion, names: &[String]) -> Result<Self, Vec<Diagnostic>> {
        named(expansion, names).map(Force::Only)
    }
}

/// See [`Force::named`].
pub(super) fn named(expansion: &Expansion, names: &[String]) -> Result<BTreeSet<InstanceId>, Vec<Diagnostic>> {
    let mut ids = BTreeSet::new();
    let mut errors = Vec::new();
    for name in names {
        match expansion.named(name) {
            Ok(found) => ids.extend(found),
            Err(what) => errors.push(what),
        }
    }
    if errors.is_empty() { Ok(ids) } else { Err(errors) }
}
