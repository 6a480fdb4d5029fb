//! Differences in outcomes and numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use flow_core::{Interval, Metric, StepResult};
use flow_report::Format;
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::{Side, section};
use crate::words::{self, step_of};

/// The measured time of a step.
const WALL: &str = "wall";
/// Measured times, which come after the numbers of programs.
const TIMES: [&str; 2] = ["epoch_time", WALL];

/// Maximum instances of a step with a row each.
const FEW: usize = 8;

/// Outcomes and numbers: of each instance, or in one row for a step with many. Numbers of repetitions are averaged.
pub(super) fn compare(before: &Side, after: &Side, each: bool) -> Vec<String> {
    let labels: IndexSet<&String> = after.settled.keys().chain(before.settled.keys()).collect();
    let mut ends = Vec::new();
    // By point and quantity: the numbers of its repetitions, and whether one of them is from another result.
    let mut points: IndexMap<(String, String, bool), (Vec<BeforeAfter>, bool)> = IndexMap::new();
    let mut pairs: IndexMap<(String, String), Vec<Pair>> = IndexMap::new();
    for label in labels {
        let (was, is) = (before.settled.get(label), after.settled.get(label));
        if was != is {
            let end = |side: Option<&String>| side.cloned().unwrap_or_else(|| "—".to_owned());
            ends.push((label.clone(), (end(was), end(is)), ()));
        }
        let results = (before.results.get(label), after.results.get(label));
        // Also if the step was edited since and `flow accept` kept the result.
        let is_same =
            matches!(results, (Some(was), Some(is)) if (&was.run, was.started_at) == (&is.run, is.started_at));
        let uses = uses(step_of(label), before, after);
        let (mean_point, repetition) = point(label, before, after);
        let point = if each { label.clone() } else { mean_point.clone() };
        let averaged = point != *label;
        for (name, both) in numbers(results.0, results.1, uses) {
            if let (Some(was), Some(is)) = &both
                && !is_same
                && !uses.is_some_and(|uses| uses.starts_with("flow/"))
            {
                let key = (step_of(label).to_owned(), name.clone());
                let (point, repetition) = (mean_point.clone(), repetition.clone());
                pairs.entry(key).or_default().push(Pair { point, repetition, was: was.clone(), is: is.clone() });
            }
            let (all, differs) = points.entry((point.clone(), name, averaged)).or_default();
            all.push(both);
            *differs |= !is_same;
        }
    }
    let mut metrics = Vec::new();
    // By step and metric: the number of points with the same value on both sides, and with a value on both.
    let mut same: IndexMap<(String, String), (usize, usize)> = IndexMap::new();
    for ((point, name, averaged), (all, _)) in points.into_iter().filter(|(_, (_, differs))| *differs) {
        let both =
            (mean(all.iter().filter_map(|both| both.0.as_ref())), mean(all.iter().filter_map(|both| both.1.as_ref())));
        if let (Some(was), Some(is)) = &both {
            let (equal, all) = same.entry((step_of(&point).to_owned(), name.clone())).or_default();
            *all += 1;
            if (was.value, was.sd) == (is.value, is.sd) {
                *equal += 1;
                continue;
            }
        }
        // Points that only one side has are apart from the others.
        let sides = (both.0.is_some(), both.1.is_some());
        // Whether flow knows the time of an epoch is not about the edit.
        if TIMES.contains(&&*name) && sides.0 != sides.1 {
            continue;
        }
        let is_count = name != "value" && uses(step_of(&point), before, after) == Some("flow/best");
        metrics.push((point, Quantity { name, sides, averaged, is_count }, both));
    }
    let mut out = Vec::new();
    let ends = alike(ends, |_, all| !each && all.len() > FEW);
    let row = |(what, (was, is), _): (String, (String, String), Vec<()>)| vec![what, was, is];
    section(&mut out, "instances", ends.into_iter().map(row).collect());
    metrics.sort_by_key(|(_, of, _)| TIMES.contains(&&*of.name));
    let formats = formats(&metrics);
    let numbers = alike(metrics, |of, all| !each && (all.len() > of.most_rows() || change_alike(all)));
    let overall: Vec<String> = pairs.iter().filter_map(|((step, name), pairs)| overall(step, name, pairs)).collect();
    let is_range = numbers.iter().any(|(.., both)| both.len() > 1);
    let first = out.len() + 1;
    section(
        &mut out,
        "results",
        numbers.into_iter().map(|(what, of, both)| row_of(&what, &of, &both, &formats)).collect(),
    );
    // The answer comes before the numbers.
    let first = first.min(out.len());
    out.splice(first..first, overall);
    out.extend(same.into_iter().filter(|(_, (equal, _))| *equal > 0).map(|((step, name), (equal, all))| {
        let at = match (equal, all) {
            (1, 1) => "in both runs".to_owned(),
            (equal, all) if equal == all => format!("at all {} points of both runs", words::thousands(all)),
            _ => format!("at {} of {} points of both runs", words::thousands(equal), words::thousands(all)),
        };
        format!("  {step} {name}: the same {at}")
    }));
    out.extend(is_range.then(|| "  -v shows each instance".to_owned()));
    out
}

/// A number of an instance that both runs have.
struct Pair {
    /// The instance without its repetition, and the repetition alone.
    point: String,
    repetition: String,
    was: Metric,
    is: Metric,
}

/// Whether a number is higher or lower after the edit: at how many points, and by how much on average. With at least
/// three repetitions there is a 95% confidence interval. Each repetition counts once, because its points may share their
/// data and their start.
fn overall(step: &str, name: &str, pairs: &[Pair]) -> Option<String> {
    const FEWEST: usize = 3;
    let unit = &pairs.first()?.was.unit;
    let difference = |pair: &Pair| pair.is.value - pair.was.value;
    let is_usable = |pair: &&Pair| pair.was.unit == *unit && pair.is.unit == *unit && difference(pair).is_finite();
    let means = |by: fn(&Pair) -> &String| {
        let mut all: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        pairs.iter().filter(is_usable).for_each(|pair| all.entry(by(pair)).or_default().push(difference(pair)));
        all.into_values().map(|all| all.iter().sum::<f64>() / all.len() as f64).collect::<Vec<f64>>()
    };
    let (points, repetitions) = (means(|pair| &pair.point), means(|pair| &pair.repetition));
    if points.len().max(repetitions.len()) < FEWEST || TIMES.contains(&name) || points.iter().all(|by| *by == 0.0) {
        return None;
    }
    let mean = points.iter().sum::<f64>() / points.len() as f64;
    let (word, sign) = if mean < 0.0 { ("lower", -1.0) } else { ("higher", 1.0) };
    let so = points.iter().filter(|by| **by * sign > 0.0).count();
    let at = match points.len() {
        1 => String::new(),
        all => format!("{word} at {so} of {all} points, "),
    };
    let n = repetitions.len();
    // Where all differ by the same, they say nothing about chance.
    let has_spread = repetitions.iter().any(|one| (one - repetitions[0]).abs() > 1e-9 * mean.abs());
    let interval = (repetitions.len() >= FEWEST && has_spread).then(|| {
        let Interval { mean, half } = Interval::over(repetitions.iter().copied());
        let half = half.unwrap_or_default();
        [mean - half, mean + half]
    });
    let format = Format::for_unit(unit, [mean].into_iter().chain(interval.into_iter().flatten())).difference();
    let unit = format.head().map(|unit| format!(" {unit}")).unwrap_or_default();
    let words = |[low, high]: [f64; 2]| {
        let chance = if low < 0.0 && high > 0.0 { ", so it may be chance" } else { "" };
        let [low, high] = [low, high].map(|end| format.number(end));
        format!(" (95% interval from {n} repetitions: {low} to {high}){chance}")
    };
    let interval = interval.map(words).unwrap_or_else(|| match repetitions.len() {
        1 => " (one repetition: no test)".to_owned(),
        few @ ..FEWEST => format!(" ({few} repetitions: too few for an interval)"),
        _ => String::new(),
    });
    Some(format!("  {step} {name}: {at}on average {}{unit}{interval}", format.number(mean)))
}

/// The format of a step's numbers of one name and unit.
type Formats = BTreeMap<(String, String, String), Format>;

fn formats(metrics: &[(String, Quantity, BeforeAfter)]) -> Formats {
    let mut all: BTreeMap<_, Vec<&Metric>> = BTreeMap::new();
    for (label, of, (was, is)) in metrics {
        for metric in [was, is].into_iter().flatten().filter(|metric| metric.value.is_finite()) {
            all.entry((step_of(label).to_owned(), of.name.clone(), metric.unit.clone())).or_default().push(metric);
        }
    }
    let format = |(key, of): ((String, String, String), Vec<&Metric>)| {
        let sd = |metric: &Metric| metric.sd.unwrap_or(0.0);
        // The means decide how many digits, so a standard deviation has no more.
        let values = of.iter().flat_map(|metric| [metric.value, metric.value + sd(metric)]);
        let digits = of.iter().flat_map(|metric| [metric.value, sd(metric)]);
        let format = Format::for_unit(&key.2, values).no_finer_than(digits);
        (key, format)
    };
    all.into_iter().map(format).collect()
}

/// What a row is about.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Quantity {
    name: String,
    /// Which runs have it.
    sides: (bool, bool),
    /// Whether it is a mean over repetitions.
    averaged: bool,
    /// A count, or a value of an axis, has no change in percent.
    is_count: bool,
}

impl Quantity {
    /// Maximum points with a row each. The wall time is rarely what an edit is about, and an epoch's seldom.
    fn most_rows(&self) -> usize {
        const MEANS: usize = 12;
        const EPOCHS: usize = 4;
        match (self.averaged, &*self.name) {
            (_, WALL) => 1,
            (_, name) if TIMES.contains(&name) => EPOCHS,
            (true, _) => MEANS,
            (false, _) => FEW,
        }
    }
}

fn row_of(what: &str, of: &Quantity, both: &[BeforeAfter], formats: &Formats) -> Vec<String> {
    let step = what.split([' ', '[']).next().unwrap_or(what);
    let word = |value: f64, unit: &str| {
        let format = formats.get(&(step.to_owned(), of.name.clone(), unit.to_owned()));
        match format.filter(|_| value.is_finite()) {
            Some(format) => match format.head() {
                Some(unit) => format!("{} {unit}", format.number(value)),
                None => format.cell(value).replace(" %", "%"),
            },
            None => words::metric(value, unit),
        }
    };
    let side = |of: fn(&BeforeAfter) -> &Option<Metric>| span(both.iter().filter_map(|both| of(both).as_ref()), &word);
    let means = if of.averaged && both.len() > 1 { " (means)" } else { "" };
    let change = if of.is_count { String::new() } else { changed(both) };
    vec![format!("{what} {}{means}", of.name), side(|both| &both.0), side(|both| &both.1), change]
}

/// The built-in step or plugin that a step uses.
fn uses<'s>(step: &str, before: &'s Side, after: &'s Side) -> Option<&'s str> {
    [after, before].into_iter().find_map(|side| side.written.get(step)?.get("uses")?.as_str())
}

/// A label without its repetition and the axes that a table averages, and these: of `train[lr=0.1,seed=2]`,
/// `train[lr=0.1]` and `seed=2`.
fn point(label: &str, before: &Side, after: &Side) -> (String, String) {
    let Some((step, axes)) = label.strip_suffix(']').and_then(|label| label.split_once('[')) else {
        return (label.to_owned(), String::new());
    };
    let over = |side: &Side, axis: &str| {
        side.written.values().filter(|keys| keys.get("uses").is_some_and(|uses| uses == "flow/table")).any(|keys| {
            let with = |key: &str| keys.get("with").and_then(|with| with.get(key));
            let names =
                |over: &Value| *over == axis || over.as_array().is_some_and(|all| all.iter().any(|one| one == axis));
            with("from").is_some_and(|from| from == step) && with("over").is_some_and(names)
        })
    };
    let is_averaged = |axis: &str| axis == "repetition" || over(before, axis) || over(after, axis);
    let (averaged, kept): (Vec<&str>, Vec<&str>) =
        axes.split(',').partition(|pair| is_averaged(pair.split('=').next().unwrap_or(pair)));
    let point = if kept.is_empty() { step.to_owned() } else { format!("{step}[{}]", kept.join(",")) };
    (point, averaged.join(","))
}

/// The mean and the standard deviation.
fn mean<'a>(all: impl Iterator<Item = &'a Metric>) -> Option<Metric> {
    let all: Vec<&Metric> = all.collect();
    let n = all.len() as f64;
    let value = all.iter().map(|metric| metric.value).sum::<f64>() / n;
    let squares: f64 = all.iter().map(|metric| (metric.value - value).powi(2)).sum();
    let sd = (all.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
    Some(Metric { sd, ..number(value, &all.first()?.unit) })
}

fn number(value: f64, unit: &str) -> Metric {
    Metric { value, unit: unit.to_owned(), epochs: None, sd: None, values: vec![] }
}

/// A number before and after.
type BeforeAfter = (Option<Metric>, Option<Metric>);

/// Rows of instances or points. Those of a step share one if they are too `many`: the instances, what it is about, and
/// the values.
fn alike<K: Eq + Hash + Clone, V>(
    all: Vec<(String, K, V)>,
    many: impl Fn(&K, &[(String, V)]) -> bool,
) -> Vec<(String, K, Vec<V>)> {
    let mut steps: IndexMap<(String, K), Vec<(String, V)>> = IndexMap::new();
    for (label, key, value) in all {
        steps.entry((step_of(&label).to_owned(), key)).or_default().push((label, value));
    }
    let mut out = Vec::new();
    for ((step, key), of) in steps {
        if many(&key, &of) {
            let what = format!("{step} × {}", words::thousands(of.len()));
            out.push((what, key, of.into_iter().map(|(_, value)| value).collect()));
        } else {
            out.extend(of.into_iter().map(|(label, value)| (label, key.clone(), vec![value])));
        }
    }
    out
}

/// One number with its standard deviation if it is a mean, or the minimum and maximum of several.
fn span<'a>(metrics: impl Iterator<Item = &'a Metric>, word: &dyn Fn(f64, &str) -> String) -> String {
    let mut all: Vec<&Metric> = metrics.collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    let value = |metric: &&Metric| word(metric.value, &metric.unit);
    match (all.first().map(value), all.last().map(value)) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(one), _) => match &all[..] {
            [Metric { sd: Some(sd), unit, .. }] => format!("{one} ± {}", word(*sd, unit)),
            _ => one,
        },
        (None, _) => "—".to_owned(),
    }
}

/// True if several points change by the same percentage, so that one row says it.
fn change_alike(all: &[(String, BeforeAfter)]) -> bool {
    let mut changes = all.iter().map(|(_, both)| changed(std::slice::from_ref(both)));
    let first = changes.next().filter(|first| !first.is_empty());
    all.len() > 2 && first.is_some_and(|first| changes.all(|change| change == first))
}

/// The change of some numbers in percent, and of shares in percentage points.
fn changed(both: &[BeforeAfter]) -> String {
    let is_share = both.iter().flat_map(|(was, is)| [was, is]).flatten().all(|metric| metric.unit == "ratio");
    let change = |(was, is): &BeforeAfter| match (was, is) {
        (Some(was), Some(is)) if is_share => Some((is.value - was.value) * 100.0),
        (Some(was), Some(is)) if was.value != 0.0 => Some((is.value - was.value) / was.value.abs() * 100.0),
        _ => None,
    };
    let mut all: Vec<f64> = both.iter().filter_map(change).collect();
    all.sort_by(f64::total_cmp);
    let unit = if is_share { " points" } else { "%" };
    let word = |change: &f64| format!("{change:+.1}{unit}").replace('-', "−");
    match (all.first().map(word), all.last().map(word)) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(one), _) => one,
        (None, _) => String::new(),
    }
}

/// The numbers of one or two results, by name. Those of flow's own steps depend on the results that they read: only the
/// numbers of an analysis count.
fn numbers(was: Option<&StepResult>, is: Option<&StepResult>, uses: Option<&str>) -> Vec<(String, BeforeAfter)> {
    // The time of a short step varies from run to run.
    const SHORT_S: f64 = 1.0;
    if matches!(uses, Some("flow/table" | "flow/report")) {
        return Vec::new();
    }
    let is_own = uses.is_some_and(|uses| uses.starts_with("flow/"));
    let wall = |result: &StepResult| flow_report::measured(result, WALL);
    let both = || [was, is].into_iter().flatten();
    let short = both().filter_map(wall).all(|took| took < SHORT_S);
    // An incomplete time is never compared.
    let whole = !both().any(|result| result.usage.lacks_a_part());
    let all = |result: Option<&StepResult>| -> BTreeMap<String, Metric> {
        let Some(result) = result else { return BTreeMap::new() };
        let mut all = result.metrics.clone();
        // The index of a result means nothing to a reader.
        all.retain(|name, _| !(name == "instance" && uses == Some("flow/best")));
        let took = wall(result).filter(|_| whole && !short && !is_own);
        all.extend(took.map(|value| (WALL.to_owned(), number(value, "s"))));
        all
    };
    let (was, is) = (all(was), all(is));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    names.into_iter().map(|name| (name.clone(), (was.get(name).cloned(), is.get(name).cloned()))).collect()
}

#[cfg(test)]
mod tests {
    use flow_core::Digest;
    use serde_json::json;

    use super::*;
    use crate::output::{FAINT, STRONG, styled};

    /// A run whose results have these labels and numbers.
    fn side(run: &str, results: &[(&str, &[(&str, f64)])]) -> Side {
        let result = |(label, numbers): &(&str, &[(&str, f64)])| -> (String, StepResult) {
            let metrics: BTreeMap<&str, Value> =
                numbers.iter().map(|(name, value)| (*name, json!({"value": value}))).collect();
            let json = json!({"fingerprint": Digest::of(run.as_bytes()), "workflow": "w", "step": step_of(label),
                "label": label, "axes": {}, "outcome": "ok", "run": run, "started_at": 0, "ended_at": 0,
                "metrics": metrics});
            ((*label).to_owned(), serde_json::from_value(json).unwrap())
        };
        let results: BTreeMap<String, StepResult> = results.iter().map(result).collect();
        let written = json!({
            "table": {"uses": "flow/table", "with": {"from": "train", "over": ["seed"], "columns": ["loss"]}},
            "best": {"uses": "flow/best", "with": {"table": "table", "column": "loss"}},
        });
        let start = json!({
            "format": 1, "run": "r", "flow": "", "file": "w.yaml", "workflow": "w", "params": {}, "policy": "fit",
            "machine": flow_core::Machine::default(), "instances": 0, "pid": 0,
        });
        Side {
            start: serde_json::from_value(start).unwrap(),
            settled: results.keys().map(|label| (label.clone(), "ok".to_owned())).collect(),
            results,
            recorded: Vec::new(),
            parts: BTreeMap::new(),
            inputs: BTreeMap::new(),
            texts: BTreeMap::new(),
            written: serde_json::from_value(written).unwrap(),
            origin: None,
        }
    }

    fn compared(before: &Side, after: &Side, each: bool) -> Vec<String> {
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let heads = [styled(STRONG, "results"), styled(FAINT, "before")];
        let lines = compare(before, after, each);
        lines.iter().map(words).filter(|line| !heads.iter().any(|head| line.contains(head))).collect()
    }

    #[test]
    fn repetitions_and_averaged_axes_are_one_row_with_a_standard_deviation() {
        let run = |run, by: f64| {
            let loss = |value: f64| [("loss", value * by)];
            let [a, b, c, d, e] = [1.0, 2.0, 3.0, 4.0, 5.0].map(loss);
            let all: [(&str, &[(&str, f64)]); 6] = [
                ("train[lr=1,seed=0]", &a),
                ("train[lr=1,seed=1]", &b),
                ("train[lr=1,seed=2]", &c),
                ("eval[lr=2,repetition=0]", &d),
                ("eval[lr=2,repetition=1]", &e),
                ("eval[lr=3,repetition=0]", &[("loss", 7.0)]),
            ];
            side(run, &all)
        };
        let (before, after) = (run("a", 1.0), run("b", 2.0));
        let rows = [
            "train loss: on average +2.0000 (95% interval from 3 repetitions: −0.4841 to +4.4841), so it may be chance",
            "eval[lr=2] loss 4.500 ± 0.707 9.000 ± 1.414 +100.0%",
            "train[lr=1] loss 2 ± 1 4 ± 2 +100.0%",
            "eval loss: the same at 1 of 2 points of both runs",
        ];
        assert_eq!(compared(&before, &after, false), rows);
        let shifted = |run, by: f64| {
            let of = |n: f64| [("loss", n + by)];
            let [a, b, c] = [0.1, 0.7, 0.3].map(of);
            side(run, &[("train[seed=0]", &a), ("train[seed=1]", &b), ("train[seed=2]", &c)])
        };
        let rows = compared(&shifted("a", 0.0), &shifted("b", 0.2), false);
        assert_eq!(
            rows[0], "train loss: on average +0.2000",
            "where all differ by the same, there is no spread to judge by"
        );
        let each = compared(&before, &after, true);
        assert!(each.contains(&"train[lr=1,seed=2] loss 3 6 +100.0%".to_owned()), "{each:?}");
    }

    #[test]
    fn a_point_that_one_run_has_is_a_row_and_equal_numbers_are_one() {
        let all: [(&str, &[(&str, f64)]); 4] = [
            ("t[n=1]", &[("loss", 1.0)]),
            ("t[n=2]", &[("loss", 2.0)]),
            ("t[n=3]", &[("loss", 3.0)]),
            ("t[n=4]", &[("loss", 4.0)]),
        ];
        let rows = compared(&side("a", &all[..3]), &side("b", &all[1..]), false);
        for row in ["t[n=4] loss — 4", "t[n=1] loss 1 —", "t loss: the same at all 2 points of both runs"] {
            assert!(rows.iter().any(|shown| shown == row), "{row}: {rows:?}");
        }
    }

    #[test]
    fn many_means_share_a_row() {
        let run = |run, by: f64, points: usize| {
            let labels: Vec<String> =
                (0..2 * points).map(|n| format!("train[lr={},seed={}]", n / 2 + 1, n % 2)).collect();
            let numbers: Vec<[(&str, f64); 1]> =
                (0..labels.len()).map(|n| [("loss", by + (n / 2 + 1) as f64)]).collect();
            let all: Vec<(&str, &[(&str, f64)])> =
                labels.iter().zip(&numbers).map(|(label, numbers)| (&**label, &numbers[..])).collect();
            side(run, &all)
        };
        let of = |points| compared(&run("a", 1.0, points), &run("b", 2.0, points), false);
        assert_eq!(of(12).len(), 13);
        let rows = [
            "train loss: higher at 13 of 13 points, on average +1 (2 repetitions: too few for an interval)",
            "train × 13 loss (means) 2 to 14 3 to 15 +7.1% to +50.0%",
            "-v shows each instance",
        ];
        assert_eq!(of(13), rows);
    }

    #[test]
    fn few_instances_have_a_row_each_in_one_format_and_measured_times_are_last() {
        let run = |run, by: f64, n: usize| {
            let labels: Vec<String> = (0..n).map(|n| format!("train[n={n}]")).collect();
            let numbers: Vec<[(&str, f64); 2]> =
                (0..n).map(|n| [("epoch_time", 1.0 + by + n as f64), ("loss", by * [7e-5, 0.01034][n % 2])]).collect();
            let all: Vec<(&str, &[(&str, f64)])> =
                labels.iter().zip(&numbers).map(|(label, numbers)| (&**label, &numbers[..])).collect();
            side(run, &all)
        };
        let of = |n| compared(&run("a", 1.0, n), &run("b", 2.0, n), false);
        let rows = [
            "train[n=0] loss 0.00007 0.00014 +100.0%",
            "train[n=1] loss 0.01034 0.02068 +100.0%",
            "train[n=0] epoch_time 2 3 +50.0%",
            "train[n=1] epoch_time 3 4 +33.3%",
        ];
        assert_eq!(of(2), rows);
        // The losses change by the same percentage.
        assert_eq!(of(8)[1], "train × 8 loss 0.00007 to 0.01034 0.00014 to 0.02068 +100.0%");
        assert_eq!((of(4).len(), of(8).len()), (7, 4), "times of many points share a row");
        let loss = "train × 9 loss 0.00007 to 0.01034 0.00014 to 0.02068 +100.0%";
        let time = "train × 9 epoch_time 2 to 10 3 to 11 +10.0% to +50.0%";
        let overall = "train loss: higher at 9 of 9 points, on average +0.004634 (one repetition: no test)";
        assert_eq!(of(9), [overall, loss, time, "-v shows each instance"]);
    }

    #[test]
    fn shares_change_by_points_and_an_unknown_time_is_no_difference() {
        let run = |run, by: f64| {
            let mut side =
                side(run, &[("t[n=1]", &[("acc", 0.7 * by), ("epoch_time", 2.0)]), ("t[n=2]", &[("acc", 0.8)])]);
            for result in side.results.values_mut() {
                result.metrics.get_mut("acc").unwrap().unit = "ratio".to_owned();
                if by == 1.0 {
                    result.metrics.remove("epoch_time");
                }
            }
            side
        };
        let rows = compared(&run("a", 1.0), &run("b", 1.1), false);
        assert_eq!(rows, ["t[n=1] acc 70.0% 77.0% +7.0 points", "t acc: the same at 1 of 2 points of both runs"]);
    }

    #[test]
    fn own_steps_show_only_what_they_find() {
        let before: &[(&str, &[(&str, f64)])] =
            &[("table", &[("rows", 3.0)]), ("best", &[("lr", 0.1), ("tied", 7.0), ("instance", 0.0)])];
        let after: &[(&str, &[(&str, f64)])] =
            &[("table", &[("rows", 4.0)]), ("best", &[("lr", 0.1), ("tied", 8.0), ("instance", 3.0)])];
        let rows = compared(&side("a", before), &side("b", after), false);
        assert_eq!(rows, ["best tied 7 8", "best lr: the same in both runs"]);
    }
}
