//! Fits the surfaces of a step apart from its history, because that takes long and the driver of a run must not wait.
//! Decides nothing.

use std::collections::BTreeSet;

use super::{
    history::{History, OnAxes},
    observation::Observation,
    surface::{Programs, Scale, Surface},
};
use crate::{InstanceId, StepId};

/// The surfaces to fit to the observations of a step, and then the result.
#[derive(Clone, Debug)]
pub struct Refit {
    step: StepId,
    /// The position in the sets of axes of its instances.
    on: usize,
    axes: Vec<String>,
    ended: Vec<Observation>,
    now: Programs,
    /// The number of all observations, and of undisturbed ones.
    there: [usize; 2],
    made: [Option<Surface>; 2],
}

impl Refit {
    pub fn make(mut self) -> Refit {
        let [all, calm] = [false, true].map(|calm| {
            let seen: Vec<&Observation> = self.ended.iter().filter(|seen| !calm || seen.is_calm()).collect();
            Surface::through(&Scale::of(&self.axes, &seen, &self.now), &seen)
        });
        if calm.suffices(&all, &self.now) {
            calm.make();
        } else {
            all.make();
        }
        self.made = [Some(all), Some(calm)];
        self
    }
}

impl OnAxes {
    /// Estimates would make something anew.
    fn is_old(&self) -> bool {
        let [all, calm] = &self.surfaces;
        self.ended.len() > 1 && !(calm.is_made() && all.is_made())
    }
}

impl History<'_> {
    /// The surfaces to fit before waiting instances of the same step can get new estimates.
    pub fn refits(&self, of: InstanceId, waiting: &BTreeSet<InstanceId>) -> Vec<Refit> {
        let step = self.expansion.work_of(self.expansion.instances[of.index()].step);
        let waits = |step: &StepId| {
            let range = self.expansion.steps[step.index()].instances.clone();
            waiting.range(InstanceId(range.start)..InstanceId(range.end.max(range.start))).next().is_some()
        };
        if !self.same_work(step).iter().any(waits) {
            return Vec::new();
        }
        let seen = self.of(step);
        let refit = |(on, axes): (usize, &OnAxes)| Refit {
            step,
            on,
            axes: axes.axes.clone(),
            ended: axes.ended.iter().map(|&n| seen.seen[n].clone()).collect(),
            now: seen.now.clone(),
            there: [0, 1].map(|calm| axes.surfaces[calm].there),
            made: [None, None],
        };
        seen.on.iter().enumerate().filter(|(_, axes)| axes.is_old()).map(refit).collect()
    }

    pub fn apply(&mut self, refit: Refit) {
        let Refit { step, on, there, made, .. } = refit;
        let surfaces = &mut self.of_mut(step).on[on].surfaces;
        for ((surface, there), made) in surfaces.iter_mut().zip(there).zip(made) {
            if let Some(made) = made {
                surface.put(there, made);
            }
        }
    }
}
