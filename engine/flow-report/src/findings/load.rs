//! Findings about load: the limit of the speed, and the CPU at the ends of epochs.

use flow_core::{Outcome, Series, StepResult};

use super::{Figure, FigureMeaning, Finding, ResultCount, ScopedFinding, SectionFigures};
use crate::bounds::{FULL, WAITING};
use crate::columns::{Datum, datum, gpu_shared};
use crate::format::Format;
use crate::verdict::Resource;

/// A program that uses more than this share of the CPUs that it was given was not confined to them, and they do not
/// limit it.
const HELD: f64 = 1.05;
/// Maximum results whose numbers are listed.
const LISTED: usize = 24;
/// Minimum extra CPU use at the ends of epochs that is a burst: relative, and either this share of the host or this
/// many CPUs.
const BURST: (f64, f64, f64) = (1.25, 0.10, 0.5);
/// Minimum samples at the ends and in the middle of all epochs.
const SAMPLES: usize = 3;

/// Findings about the load of the results that a table shows, with their series.
pub(crate) fn load(ledger: &mut SectionFigures<'_>, results: &[(&StepResult, Option<&Series>)]) -> Vec<ScopedFinding> {
    let table = ledger.table;
    let axis = table.split.as_ref().map(|(axis, _)| axis);
    let mut found = Vec::new();
    for part in table.parts() {
        let of_part = results.iter().filter(|(r, _)| match (axis, part) {
            (Some(axis), Some(part)) => r.axes.get(axis).is_some_and(|v| crate::columns::written(v) == part),
            _ => true,
        });
        let sound: Vec<_> =
            of_part.filter(|(r, _)| r.outcome == Outcome::Ok && r.disturbances.is_empty()).copied().collect();
        let scope = part.and_then(|part| table.point(part));
        let scoped = |finding| ScopedFinding { scope: scope.clone(), finding };
        found.extend(bound(ledger, scope.as_deref(), &sound).map(scoped));
        found.extend(ends(ledger, scope.as_deref(), &sound).map(scoped));
    }
    found
}

fn bound(
    ledger: &mut SectionFigures<'_>,
    scope: Option<&str>,
    results: &[(&StepResult, Option<&Series>)],
) -> Option<Finding> {
    let all = |of: &dyn Fn(&StepResult) -> Option<f64>| {
        let values = results.iter().map(|(r, _)| of(r)).collect::<Option<Vec<f64>>>()?;
        (!values.is_empty()).then_some(values)
    };
    let number = |r: &StepResult, name: &str| match datum(r, name)? {
        Datum::Measured { value, .. } => Some(value),
        _ => None,
    };
    let full = |values: &Vec<f64>| values.iter().all(|v| *v >= FULL);
    // Other processes are part of the load of a shared GPU.
    let own_load = |r: &StepResult| number(r, "gpu_load").filter(|_| gpu_shared(r).is_none());
    let gpu = all(&own_load).filter(full);
    let data =
        all(&|r| Some(number(r, "data_wait")? / number(r, "epoch_time")?)).filter(|v| v.iter().all(|v| *v >= WAITING));
    // Use of the CPUs that the program was given. If it fills them, they limit it, whatever else the host has.
    let own = |r: &StepResult| {
        let cpus = f64::from(r.circumstances.cpus);
        let share = number(r, "cpu_cores")? / cpus;
        (r.circumstances.mode != flow_core::Mode::Plain && cpus > 0.0 && share <= HELD).then_some(share)
    };
    let cpu = all(&own).filter(full);
    // A step has one bottleneck. If it waits for data while the CPUs are full, the CPUs are the limit.
    let (limit, column, values) = [
        (Resource::Gpu, "gpu_load", gpu),
        (Resource::Cpu, "own_cpu_util", cpu),
        (Resource::Data, "waiting_share", data),
    ]
    .into_iter()
    .find_map(|(by, column, values)| Some((by, column, values?)))?;
    let had = |r: &StepResult| (r.circumstances.cpus, r.circumstances.host_cpus);
    let cpus = results.first().map(|(r, _)| had(r)).filter(|(own, host)| own < host);
    let cpus = cpus.filter(|cpus| results.iter().all(|(r, _)| had(r) == *cpus));
    // The CPU and wall clocks differ a little, but use cannot exceed 100%.
    let values: Vec<f64> = values.into_iter().map(|value| value.min(1.0)).collect();
    let show = Format::for_unit("ratio", values.iter().copied());
    // Each result has its number in the table or below the findings, unless there are too many.
    let labels = results.iter().map(|(result, _)| &result.label);
    let mut each: Vec<Figure> = Vec::new();
    if values.len() <= LISTED && ledger.table.columns.iter().all(|shown| shown.name != column) {
        for (label, value) in labels.zip(&values) {
            let what = FigureMeaning::new("of", [("column", column), ("label", &**label)]);
            each.push(ledger.computed(scope, what, *value, show.clone()));
        }
    } else {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        each.push(ledger.computed(scope, FigureMeaning::of("min", column), least, show.clone()));
        each.push(ledger.computed(scope, FigureMeaning::of("max", column), most, show));
    }
    let by = |a: &&Figure, b: &&Figure| a.value.total_cmp(&b.value);
    let (min, max) = (each.iter().min_by(by)?.clone(), each.iter().max_by(by)?.clone());
    Some(Finding::Bound { by: limit, min, max, cpus: cpus.filter(|_| limit == Resource::Cpu) })
}

fn ends(
    ledger: &mut SectionFigures<'_>,
    scope: Option<&str>,
    results: &[(&StepResult, Option<&Series>)],
) -> Option<Finding> {
    let known = results.iter().filter_map(|(result, series)| Some((*result, middle_and_ends((*series)?)?)));
    let known: Vec<(&StepResult, (f64, f64))> = known.collect();
    let bursting = |(result, (middle, ends)): &&(&StepResult, (f64, f64))| {
        let more = ends - middle;
        *ends >= BURST.0 * middle && (more >= BURST.1 || more * f64::from(result.circumstances.host_cpus) >= BURST.2)
    };
    let count = known.iter().filter(bursting).count();
    let (bursts, among) = match count {
        0 | 1 => (count == 1, ResultCount::One),
        all if all == known.len() => (true, ResultCount::All),
        _ => (true, ResultCount::Some),
    };
    let told = known.iter().filter(|one| !bursts || bursting(one));
    let (result, (middle, ends)) = told.max_by(|(_, a), (_, b)| (a.1 - a.0).total_cmp(&(b.1 - b.0))).copied()?;
    // The absence of bursts is reported only for trainings on a GPU, if the table has CPU use and compares no versions.
    let table = ledger.table;
    let is_asked = table.split.is_none() && table.columns.iter().any(|column| column.name == "cpu_util");
    if !bursts && (!is_asked || result.usage.gpus.is_empty()) {
        return None;
    }
    let label = result.label.clone();
    let show = Format::for_unit("ratio", [middle, ends].into_iter());
    let middle = ledger.computed(scope, FigureMeaning::new("middle", [("label", &*label)]), middle, show.clone());
    let ends = ledger.computed(scope, FigureMeaning::new("ends", [("label", &*label)]), ends, show);
    Some(Finding::Ends { label, bursts, among, middle, ends })
}

/// The mean CPU use in the middle half of epochs, and from their last tenth until the next epoch begins.
fn middle_and_ends(series: &Series) -> Option<(f64, f64)> {
    let epochs = &series.epoch_times;
    let until = |n: usize| epochs.get(n + 1).map_or(epochs[n].ended, |next| next.began);
    let part = |n: usize, t: f64| {
        let (begin, end) = epochs[n].span();
        let at = (t - begin) / (end - begin);
        (at, t <= until(n))
    };
    let (mut middle, mut ends) = (Vec::new(), Vec::new());
    for (t, load) in series.samples.get("cpu")? {
        let Some(n) = epochs.iter().rposition(|of| *t >= of.began) else { continue };
        match part(n, *t) {
            (at, _) if (0.25..=0.75).contains(&at) => middle.push(*load),
            (at, true) if at >= 0.9 => ends.push(*load),
            _ => {}
        }
    }
    let mean = |loads: &[f64]| loads.iter().sum::<f64>() / loads.len() as f64;
    (middle.len() >= SAMPLES && ends.len() >= SAMPLES).then(|| (mean(&middle), mean(&ends)))
}
