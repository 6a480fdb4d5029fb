//! `fit`: in order of arrival, skipping gangs that do not fit; a gang that is passed over for too long is reserved.

use super::{Patience, Policy, Propose, View};

/// In order of arrival, skipping gangs that do not fit.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    patience: Patience,
}

impl Policy for Fit {
    fn name(&self) -> &'static str {
        "fit"
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        self.patience.propose(view)
    }
}
