//! `fifo`: in order of arrival; stops at the first that does not fit, so that nothing ever passes.

use super::{Policy, Propose, View};

/// In order of arrival, stopping at the first that does not fit.
#[derive(Clone, Debug)]
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        view.waiting().next().filter(|&head| view.fits(head)).map_or(Propose::Stop, Propose::Start)
    }
}
