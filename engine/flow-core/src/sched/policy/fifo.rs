//! `fifo` and `fifo-single`: in order of arrival. They stop at the first gang that does not fit, so nothing ever
//! passes.

use super::{Policy, Propose, View};

/// In order of arrival, stopping at the first gang that does not fit.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    /// Only tasks with at most one GPU.
    pub single: bool,
}

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        if self.single { "fifo-single" } else { "fifo" }
    }

    fn one_gpu_only(&self) -> bool {
        self.single
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        view.waiting().next().filter(|&head| view.fits(head)).map_or(Propose::Stop, Propose::Start)
    }
}
