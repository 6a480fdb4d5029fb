//! `sjf`, `sjf-single`, `sjf-fit`: shortest estimated time first. Gangs without an estimate come last, in order of
//! arrival. A gang that has waited too long goes before all others.

use super::{Age, Policy, Propose, View};
use crate::InstanceId;

#[derive(Clone, Debug)]
pub(super) struct Sjf {
    mode: Mode,
    age: Age,
}

/// Rule for the first gang that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing passes a job that does not fit.
    Strict,
    /// Nothing passes it, and no task uses more than one GPU.
    Single,
    /// A job that does not fit is skipped.
    Fit,
}

impl Sjf {
    /// Shortest first, in this mode.
    pub(super) fn new(mode: Mode) -> Self {
        Sjf { mode, age: Age::default() }
    }
}

impl Policy for Sjf {
    fn name(&self) -> &'static str {
        match self.mode {
            Mode::Strict => "sjf",
            Mode::Single => "sjf-single",
            Mode::Fit => "sjf-fit",
        }
    }

    fn one_gpu_only(&self) -> bool {
        self.mode == Mode::Single
    }

    fn rank(&mut self, view: &View<'_>, gang: InstanceId) -> i64 {
        self.age.began(view, gang);
        view.expected_span(gang).map_or(i64::MAX, |span| i64::try_from(span.0).unwrap_or(i64::MAX))
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        let overdue = self.age.overdue(view);
        if let Some(gang) = overdue.or(view.waiting().next()).filter(|&gang| view.fits(gang)) {
            return Propose::Start(gang);
        }
        if self.mode != Mode::Fit {
            return Propose::Stop;
        }
        if let Some(gang) = overdue.filter(|&gang| view.reserved() != Some(gang) && view.fits_once_ours_end(gang)) {
            return Propose::Reserve { gang, at: None };
        }
        view.first_that_fits().map_or(Propose::Stop, Propose::Start)
    }
}
