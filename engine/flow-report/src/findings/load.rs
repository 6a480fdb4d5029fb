//! Findings about load: what limits the speed, and the CPU between epochs.

use flow_core::{Outcome, Series, StepResult};

use super::{Bound, Finding, Scoped, SectionFigures, What};
use crate::columns::{Datum, datum, gpu_shared};
use crate::format::Format;

/// From this load on a resource is what limits.
const FULL: f64 = 0.85;
/// From this share of an epoch on, waiting for data is what limits.
const WAITING: f64 = 0.25;
/// How much more the CPU must do between epochs to be a burst: relative, and as a share of the host.
const BURST: (f64, f64) = (1.25, 0.10);

/// Findings about the load of the results that a table shows, with their series.
pub(crate) fn load(ledger: &mut SectionFigures<'_>, results: &[(&StepResult, Option<&Series>)]) -> Vec<Scoped> {
    let parts: Vec<Option<String>> = ledger.table.parts().into_iter().map(|p| p.map(str::to_owned)).collect();
    let axis = ledger.table.split.as_ref().map(|(axis, _)| axis.clone());
    let mut found = Vec::new();
    for part in parts {
        let of_part = results.iter().filter(|(r, _)| match (&axis, &part) {
            (Some(axis), Some(part)) => r.axes.get(axis).is_some_and(|v| crate::columns::written(v) == *part),
            _ => true,
        });
        let sound: Vec<_> =
            of_part.filter(|(r, _)| r.outcome == Outcome::Ok && r.spoiled.is_empty()).copied().collect();
        let scope = part.as_ref().and_then(|part| ledger.table.point(part));
        let scoped = |finding| Scoped { scope: scope.clone(), finding };
        found.extend(bound(ledger, scope.as_deref(), &sound).map(scoped));
        found.extend(sound.iter().find_map(|(r, series)| bursts(ledger, scope.as_deref(), r, (*series)?)).map(scoped));
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
    // What others computed on the GPU is part of its load.
    let own_load = |r: &StepResult| number(r, "gpu_load").filter(|_| gpu_shared(r).is_none());
    let gpu = all(&own_load).filter(full);
    let data =
        all(&|r| Some(number(r, "data_wait")? / number(r, "epoch_time")?)).filter(|v| v.iter().all(|v| *v >= WAITING));
    // Of the CPUs that it was given: a program that fills its own share is bound by it, whatever the host has besides.
    let own = |r: &StepResult| {
        let cpus = f64::from(r.circumstances.cpus);
        (r.circumstances.mode != flow_core::Mode::Plain && cpus > 0.0).then_some(number(r, "cpu_cores")? / cpus)
    };
    let cpu = all(&own).filter(full);
    let (by, column, values) = match (gpu, data, cpu) {
        (Some(values), _, _) => (Bound::Gpu, "gpu_load", values),
        (None, Some(values), _) => (Bound::Data, "waiting_share", values),
        (None, None, Some(values)) => (Bound::Cpu, "own_cpu_util", values),
        (None, None, None) => return None,
    };
    let show = Format::for_unit("ratio", values.iter().copied());
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = ledger.computed(scope, What::Least { column: column.into() }, least, show.clone());
    let most = ledger.computed(scope, What::Most { column: column.into() }, most, show);
    Some(Finding::Bound { by, least, most })
}

fn bursts(
    ledger: &mut SectionFigures<'_>,
    scope: Option<&str>,
    result: &StepResult,
    series: &Series,
) -> Option<Finding> {
    let cpu = series.samples.get("cpu")?;
    let (first, last) = (series.epoch_times.first()?, series.epoch_times.last()?);
    let inside = |t: f64| series.epoch_times.iter().any(|(_, begin, end)| t >= *begin && t <= *end);
    let (within, between): (Vec<_>, Vec<_>) =
        cpu.iter().filter(|(t, _)| *t >= first.1 && *t <= last.2).partition(|(t, _)| inside(*t));
    // Too few samples between epochs say nothing.
    if between.len() < 3 || within.len() < 3 {
        return None;
    }
    let mean = |samples: &[(f64, f64)]| samples.iter().map(|s| s.1).sum::<f64>() / samples.len() as f64;
    let (within, between) = (mean(&within), mean(&between));
    if between < BURST.0 * within || between - within < BURST.1 {
        return None;
    }
    let label = result.label.clone();
    let show = Format::for_unit("ratio", [within, between].into_iter());
    let inside = ledger.computed(scope, What::Inside { label: label.clone() }, within, show.clone());
    let between = ledger.computed(scope, What::Between { label: label.clone() }, between, show);
    Some(Finding::Bursts { label, inside, between })
}
