//! Making anew what observations of a step say of all its points, apart from the history that they are in: it takes long, and whoever
//! drives a run has no time. Decides nothing.

use std::collections::BTreeSet;

use super::{
    history::{History, OnAxes},
    observation::Observation,
    surface::{Programs, Scale, Surface},
};
use crate::{InstanceId, StepId};

/// What is to be made of the observations of a step, and then is made.
#[derive(Clone, Debug)]
pub struct Refit {
    step: StepId,
    /// Which of the sets of axes that its instances have.
    on: usize,
    axes: Vec<String>,
    ended: Vec<Observation>,
    now: Programs,
    /// Of all observations and of those that nothing disturbed: how many there are.
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
    /// What would be made anew if those of the same step that wait were told what is known of them.
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
            there: [0, 1].map(|calm| axes.surfaces[calm].there()),
            made: [None, None],
        };
        seen.on.iter().enumerate().filter(|(_, axes)| axes.is_old()).map(refit).collect()
    }

    pub fn take_in(&mut self, refit: Refit) {
        let Refit { step, on, there, made, .. } = refit;
        let surfaces = &mut self.of_mut(step).on[on].surfaces;
        for ((surface, there), made) in surfaces.iter_mut().zip(there).zip(made) {
            if let Some(made) = made {
                surface.put(there, made);
            }
        }
    }
}
