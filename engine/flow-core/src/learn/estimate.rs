//! Estimates of an instance before it runs, with the number of attempts that they use. Arithmetic over observations;
//! decides nothing.

use std::collections::BTreeSet;

use super::{
    history::{History, OfStep},
    observation::{Observation, quietest},
    surface::{NOTICED, PointPrediction, common},
};
use crate::{
    Instance, Outcome, Span, StepId,
    predict::{PredictedValue, repeated},
    sched::{Estimate, EstimateSource, OtherParameter},
    stats::{median, t_quantile},
};

/// The prediction for a point, as `flow predict` shows it.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The instance that it would be.
    pub label: String,
    /// The estimate for the scheduler.
    pub estimate: Estimate,
    /// The same in its parts, with intervals.
    pub expected: PointPrediction,
    /// Core-seconds an epoch of its dataset, and attempts that this is pooled over.
    pub cpu_work: Option<(f64, u32)>,
}

impl History<'_> {
    /// The estimate for an instance before it runs.
    pub fn estimate(&self, instance: &Instance) -> Estimate {
        self.predict(instance).estimate
    }

    /// The same, with what it rests on.
    pub fn predict(&self, instance: &Instance) -> Prediction {
        let own = self.own(instance);
        let ended: Vec<&Observation> = own.iter().copied().filter(|seen| seen.outcome == Outcome::Ok).collect();
        let of = self.of(instance.step);
        let whole: Vec<&Observation> = ended.iter().copied().filter(|seen| seen.whole_s().is_some()).collect();
        let now: Vec<&Observation> = whole.iter().copied().filter(|seen| of.is_of_now(seen)).collect();
        let (mut estimate, expected) = match (now.is_empty(), whole.is_empty(), ended.is_empty()) {
            (false, ..) => self.of_own(instance, &now),
            // What it took before its step was changed, and what the change did to others.
            (_, false, _) => self.of_points(instance).unwrap_or_else(|| self.of_own(instance, &whole)),
            (_, _, false) => self.timed_by_others(instance, self.of_own(instance, &ended)),
            _ => self.of_others(instance),
        };
        // Peaks, not medians: memory that does not suffice costs the attempt. However it ended, that is what it held.
        let peak = own.iter().map(|seen| seen.gpu_memory).max().filter(|peak| *peak > 0);
        estimate.gpu_memory = if now.is_empty() { estimate.gpu_memory.max(peak) } else { peak };
        let gpus = &self.expansion.machine_of(instance).gpus;
        let here = |seen: &Observation| gpus.iter().any(|gpu| seen.gpu_model.as_ref() == Some(&gpu.name));
        let alone = |seen: &&Observation| seen.is_calm() && seen.epoch_s.is_some() && here(seen) && of.is_of_now(seen);
        estimate.timed_alone = ended.iter().any(alone);
        let cpu_work = self.cpu_work(instance);
        if let (Some((work, _)), Some(epoch)) = (cpu_work, expected.epoch.filter(|epoch| epoch.value > 0.0)) {
            estimate.cpu_milli = Some((work / epoch.value * 1e3).round() as u32);
        }
        Prediction { label: instance.label.to_string(), estimate, expected, cpu_work }
    }

    /// An attempt of the instance itself ended well.
    pub(super) fn ran_itself(&self, instance: &Instance) -> bool {
        self.own(instance).iter().any(|seen| seen.outcome == Outcome::Ok)
    }

    /// From other points of its step.
    fn of_points(&self, instance: &Instance) -> Option<(Estimate, PointPrediction)> {
        let model = self.expansion.machine_of(instance).gpus.first().map(|gpu| gpu.name.as_str());
        let (surface, disturbed) = self.others(instance)?;
        let expected = surface.expect(&surface.locate(model, |axis| instance.axes.get(axis))?);
        expected.wall.map(|_| {
            let mut estimate = surface.estimate(&expected, disturbed);
            if let EstimateSource::Points { outdated, .. } = &mut estimate.source {
                *outdated = self.of(instance.step).is_new;
            }
            (estimate, expected)
        })
    }

    /// From other points of its step, else from all of its step, whatever they are.
    fn of_others(&self, instance: &Instance) -> (Estimate, PointPrediction) {
        self.of_points(instance).unwrap_or_else(|| {
            let of = self.of(instance.step);
            let mut estimate = of.whole.get(|| of_step(of)).clone();
            match (&mut estimate.source, self.otherwise(instance.step)) {
                (EstimateSource::Step { unseen, .. }, _) => *unseen = self.unseen(instance),
                (source, Some(otherwise)) => *source = EstimateSource::Otherwise(otherwise),
                _ => {}
            }
            (estimate, PointPrediction::default())
        })
    }

    /// The estimate for an instance whose own wall times all lack a part. Other points provide the whole time, if they
    /// can.
    fn timed_by_others(&self, instance: &Instance, own: (Estimate, PointPrediction)) -> (Estimate, PointPrediction) {
        let (others, at_point) = self.of_others(instance);
        let (estimate, expected) = own;
        if others.duration.is_none() {
            return (estimate, expected);
        }
        let Estimate { duration, range, startup, samples, source, .. } = others;
        let PointPrediction { wall, startup: before, epochs, end, .. } = at_point;
        let estimate = Estimate { duration, range, startup, samples, source, ..estimate };
        (estimate, PointPrediction { wall, startup: before, epochs, end, ..expected })
    }

    /// With which other parameters a step ran, where it did: such attempts tell nothing.
    pub fn otherwise(&self, step: StepId) -> Option<OtherParameter> {
        let (name, was) = self.of(step).otherwise.as_ref()?;
        Some(OtherParameter { name: name.clone(), was: was.clone(), is: self.expansion.params[name].clone() })
    }

    /// From attempts of the instance itself, or of those that do the same, that ended well: best from those that nothing disturbed.
    fn of_own(&self, instance: &Instance, own: &[&Observation]) -> (Estimate, PointPrediction) {
        let best = quietest(own);
        let again = |value: &dyn Fn(&Observation) -> Option<f64>| -> Option<PredictedValue> {
            repeated(&best.iter().filter_map(|seen| value(seen)).collect::<Vec<_>>())
        };
        let expected = PointPrediction {
            wall: again(&Observation::whole_s),
            startup: again(&|seen| Some(seen.phases?.before_s)),
            epochs: best.iter().rev().find_map(|seen| Some(seen.phases?.epochs)),
            epoch: again(&|seen| seen.epoch_s),
            end: again(&|seen| Some(seen.phases?.after_s)),
            gpu_memory: again(&|seen| Some(seen.gpu_memory as f64)),
            gpu_busy: again(&Observation::busy_in_epochs).map(|busy| busy.at_most(1.0)),
            gpu_busy_whole: again(&|seen| Some(seen.busy())).map(|busy| busy.at_most(1.0)),
        };
        let walls: Vec<f64> = best.iter().filter_map(|seen| seen.whole_s()).collect();
        let mut estimate = common(&best);
        let spans = walls.iter().map(|wall| Span::from_secs_f64(*wall));
        estimate.range = spans.clone().min().zip(spans.max()).filter(|_| walls.len() > 1);
        estimate.duration = median(walls).map(Span::from_secs_f64);
        let startups = best.iter().filter_map(|seen| seen.phases.map(|phases| phases.before_s + phases.after_s));
        estimate.startup = median(startups.collect()).map(Span::from_secs_f64);
        estimate.samples = own.len() as u32;
        estimate.source = self.whose(instance, own);
        (estimate, expected)
    }

    /// The owner of these attempts: the instance, or steps that do the same.
    fn whose(&self, instance: &Instance, seen: &[&Observation]) -> EstimateSource {
        let step = &*self.expansion.steps[instance.step.index()].name;
        let mut steps: BTreeSet<&str> = seen.iter().filter_map(|seen| seen.label.split('[').next()).collect();
        let of = self.of(instance.step);
        let changed = of.is_new || !seen.iter().any(|seen| of.is_of_now(seen));
        let own = steps.remove(step);
        EstimateSource::Instance { own, steps: steps.into_iter().map(str::to_owned).collect(), changed }
    }
}

/// The estimate from attempts of other instances of the step, if nothing better is known. It uses attempts of the
/// current program, or of all programs if these are too few for an interval.
fn of_step(of: &OfStep) -> Estimate {
    let is_whole = |seen: &&Observation| seen.outcome == Outcome::Ok && seen.whole_s().is_some();
    let mut ended: Vec<&Observation> = of.seen.iter().filter(is_whole).collect();
    let now: Vec<&Observation> = ended.iter().copied().filter(|seen| of.is_of_now(seen)).collect();
    if now.len() > 2 {
        ended = now;
    }
    if ended.is_empty() {
        return Estimate::default();
    }
    let walls: Vec<f64> = ended.iter().map(|seen| seen.wall_s).collect();
    let range = around(&walls);
    Estimate {
        range,
        duration: median(walls).map(Span::from_secs_f64),
        // Another instance's memory says nothing of this one's.
        samples: ended.len() as u32,
        source: EstimateSource::Step { interval: range.is_some(), unseen: None },
        ..common(&ended)
    }
}

/// The interval that covers nine of ten further attempts that are unlike the measured ones: around their median, with a
/// normally distributed logarithm (Student's t). `None` for two attempts, because they do not show how far off a third
/// may be.
fn around(walls: &[f64]) -> Option<(Span, Span)> {
    let n = walls.len() as f64;
    let logarithms: Vec<f64> = walls.iter().map(|wall| wall.max(NOTICED).ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / n;
    let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let factor = (walls.len() > 2).then(|| (t_quantile(0.1, n - 1.0) * (variance * (1.0 + 1.0 / n)).sqrt()).exp())?;
    let middle = median(walls.to_vec())?;
    Some((Span::from_secs_f64(middle / factor), Span::from_secs_f64(middle * factor)))
}
