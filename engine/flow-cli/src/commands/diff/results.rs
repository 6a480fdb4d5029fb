//! Differences in outcomes and numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use flow_core::{Metric, StepResult};
use indexmap::{IndexMap, IndexSet};

use super::{Side, section};
use crate::words;

/// Outcomes and numbers: of each instance, or in one row for a step with many.
pub(super) fn compare(before: &Side, after: &Side, each: bool) -> Vec<String> {
    let labels: IndexSet<&String> = after.settled.keys().chain(before.settled.keys()).collect();
    let (mut ends, mut metrics) = (Vec::new(), Vec::new());
    // By step and metric: the number of instances with the same value on both sides, and with a value on both.
    let mut same: IndexMap<(&str, String), (usize, usize)> = IndexMap::new();
    for label in labels {
        let (was, is) = (before.settled.get(label), after.settled.get(label));
        if was != is {
            let end = |side: Option<&String>| side.cloned().unwrap_or_else(|| "—".to_owned());
            ends.push((label, end(was), end(is)));
        }
        let results = (before.results.get(label), after.results.get(label));
        if let (Some(was), Some(is)) = results
            && (was.fingerprint, &was.run) == (is.fingerprint, &is.run)
        {
            continue;
        }
        for (name, both) in numbers(results.0, results.1) {
            if let ((Some(_), Some(_)), (Some(was), Some(is))) = (results, &both) {
                let step = label.split('[').next().unwrap_or(label);
                let (equal, all) = same.entry((step, name.clone())).or_default();
                *all += 1;
                if was.value == is.value {
                    *equal += 1;
                    continue;
                }
            }
            // Instances that only one side has are apart from the others.
            let sides = (both.0.is_some(), both.1.is_some());
            metrics.push((label, (name, sides), both));
        }
    }
    let mut out = Vec::new();
    let ends = alike(ends.into_iter().map(|(label, was, is)| (label, (was, is), ())), each);
    let row = |(what, (was, is), _): (String, (String, String), Vec<()>)| vec![what, was, is];
    section(&mut out, "instances", ends.into_iter().map(row).collect());
    let numbers = alike(metrics.into_iter(), each);
    let row = |(what, (name, _), both): (String, (String, (bool, bool)), Vec<Both>)| {
        let side = |of: fn(&Both) -> &Option<Metric>| span(both.iter().filter_map(|both| of(both).as_ref()));
        vec![format!("{what} {name}"), side(|both| &both.0), side(|both| &both.1), changed(&both)]
    };
    let equal =
        same.into_iter().filter(|(_, (equal, _))| *equal > 0).map(|((step, name), (equal, all))| match (equal, all) {
            (1, 1) => format!("  {step} {name}: the same in the common point"),
            (equal, all) if equal == all => format!("  {step} {name}: the same in the {all} common points"),
            (equal, all) => format!("  {step} {name}: the same in {equal} of the {all} common points"),
        });
    section(&mut out, "results", numbers.into_iter().map(row).collect());
    out.extend(equal);
    out
}

/// A number before and after.
type Both = (Option<Metric>, Option<Metric>);

/// Rows that many instances of a step share, unless each is requested: the instances, what it is
/// about, and the values.
fn alike<'a, K: Eq + Hash + Clone, V>(
    all: impl Iterator<Item = (&'a String, K, V)>,
    each: bool,
) -> Vec<(String, K, Vec<V>)> {
    const MANY: usize = 4;
    let mut steps: IndexMap<(&str, K), Vec<(&String, V)>> = IndexMap::new();
    for (label, key, value) in all {
        let step = label.split('[').next().unwrap_or(label);
        steps.entry((step, key)).or_default().push((label, value));
    }
    let mut out = Vec::new();
    for ((step, key), of) in steps {
        if of.len() >= MANY && !each {
            let what = format!("{step} × {}", words::thousands(of.len()));
            out.push((what, key, of.into_iter().map(|(_, value)| value).collect()));
        } else {
            out.extend(of.into_iter().map(|(label, value)| (label.clone(), key.clone(), vec![value])));
        }
    }
    out
}

/// The minimum and maximum of some numbers, which may be one.
fn span<'a>(metrics: impl Iterator<Item = &'a Metric>) -> String {
    let mut all: Vec<&Metric> = metrics.collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    let word = |metric: &Metric| words::metric(metric.value, &metric.unit);
    match (all.first().map(|metric| word(metric)), all.last().map(|metric| word(metric))) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(one), _) => one,
        (None, _) => "—".to_owned(),
    }
}

/// The change of some numbers in percent.
fn changed(both: &[Both]) -> String {
    let change = |(was, is): &Both| match (was, is) {
        (Some(was), Some(is)) if was.value != 0.0 => Some((is.value - was.value) / was.value.abs() * 100.0),
        _ => None,
    };
    let mut all: Vec<f64> = both.iter().filter_map(change).collect();
    all.sort_by(f64::total_cmp);
    let word = |change: &f64| format!("{change:+.1}%").replace('-', "−");
    match (all.first().map(word), all.last().map(word)) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(one), _) => one,
        (None, _) => String::new(),
    }
}

/// The numbers of one or two results, by name.
fn numbers(was: Option<&StepResult>, is: Option<&StepResult>) -> Vec<(String, Both)> {
    // The time of a very short step, such as flow's own, varies from run to run.
    const SHORT_S: f64 = 0.01;
    let wall = |result: &StepResult| flow_report::measured(result, "wall");
    let both = || [was, is].into_iter().flatten();
    let short = both().filter_map(wall).all(|took| took < SHORT_S);
    // An incomplete time is never compared.
    let whole = !both().any(|result| result.usage.lacks_a_part());
    let all = |result: Option<&StepResult>| -> BTreeMap<String, Metric> {
        let Some(result) = result else { return BTreeMap::new() };
        let mut all = result.metrics.clone();
        let took = wall(result).filter(|_| whole && !short);
        let metric = |value| Metric { value, unit: "s".into(), epochs: None, sd: None, values: vec![] };
        all.extend(took.map(|value| ("wall".to_owned(), metric(value))));
        all
    };
    let (was, is) = (all(was), all(is));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    names.into_iter().map(|name| (name.clone(), (was.get(name).cloned(), is.get(name).cloned()))).collect()
}
