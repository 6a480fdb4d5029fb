//! `fit`: in order of arrival, skipping what does not fit; what is passed over for too long is reserved.

use super::{Patience, Policy, Propose, View};

/// In order of arrival, skipping what does not fit.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    patience: Patience,
}

impl Policy for Fit {
    fn name(&self) -> &'static str {
        "fit"
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        if let Some(unit) = self.patience.overdue(view) {
            return Propose::Reserve { unit, at: None };
        }
        view.first_that_fits().map_or(Propose::Stop, Propose::Start)
    }
}
