//! Describes the basis of an estimate.

use flow_core::sched::{Distance, Estimate, EstimateSource, OtherParameter};
use serde_json::Value;

use crate::words;

/// `3 runs of its step at other points of \`batch\``.
pub(crate) fn estimate_source(estimate: &Estimate) -> String {
    let runs = words::count(estimate.samples as usize, "run");
    let quoted = |names: &[String], between: &str| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(between)
    };
    match &estimate.source {
        EstimateSource::NeverRan => "never ran".to_owned(),
        EstimateSource::Otherwise(parameter) => ran_otherwise(parameter),
        EstimateSource::Instance { own, steps, changed } => {
            let changed = if *changed { ", of another version of it" } else { "" };
            let whose = match (own, &**steps) {
                (_, []) => "this instance".to_owned(),
                (true, steps) => format!("this instance and of {}, the same work", quoted(steps, " and ")),
                (false, steps) => format!("{}, the same work", quoted(steps, " and ")),
            };
            format!("{runs} of {whose}{changed}")
        }
        EstimateSource::Points { axes, distance, changed, outdated, disturbed } => {
            let along = if axes.is_empty() { String::new() } else { format!(" of {}", quoted(axes, ", ")) };
            let distance = match distance {
                Distance::Among => "",
                Distance::Beyond => ", beyond them",
                Distance::FarBeyond => ", far beyond them",
            };
            let changed = match (outdated, changed) {
                (true, _) => ", all of another version of it",
                (false, true) => ", some of another version of it",
                (false, false) => "",
            };
            let disturbed = match disturbed {
                0 => String::new(),
                n => format!("; {n} more do not count, because they were disturbed"),
            };
            format!("{runs} of its step at other points{along}{distance}{changed}{disturbed}")
        }
        EstimateSource::Step { interval, unseen } => {
            let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let unseen = unseen.as_ref().map(|(axis, value)| format!(", none with {axis}={}", word(value)));
            let few = if *interval { "" } else { ", too few for an interval" };
            format!("{runs} of its step{}{few}", unseen.unwrap_or_default())
        }
        EstimateSource::Given => "given".to_owned(),
    }
}

/// A step that ran with another value of a parameter, which says nothing about this one.
pub(crate) fn ran_otherwise(OtherParameter { name, was, is }: &OtherParameter) -> String {
    format!("it ran with {name}={was}, not {is}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_estimate_says_what_it_rests_on() {
        let words = |samples, source| estimate_source(&Estimate { samples, source, ..Estimate::default() });
        let steps = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let images = OtherParameter { name: "images".to_owned(), was: json!(8_000), is: json!(100_000) };
        let points = |distance| EstimateSource::Points {
            axes: steps(&["batch", "lr"]),
            distance,
            changed: false,
            outdated: false,
            disturbed: 0,
        };
        let versions = |outdated, disturbed| EstimateSource::Points {
            axes: Vec::new(),
            distance: Distance::Beyond,
            changed: true,
            outdated,
            disturbed,
        };
        let said = [
            words(0, EstimateSource::NeverRan),
            words(0, EstimateSource::Otherwise(images)),
            words(3, EstimateSource::Instance { own: true, steps: Vec::new(), changed: true }),
            words(2, EstimateSource::Instance { own: true, steps: steps(&["alone"]), changed: false }),
            words(1, EstimateSource::Instance { own: false, steps: steps(&["alone", "late"]), changed: false }),
            words(4, points(Distance::Among)),
            words(4, points(Distance::FarBeyond)),
            words(1, versions(false, 12)),
            words(1, versions(true, 0)),
            words(3, EstimateSource::Step { interval: true, unseen: None }),
            words(1, EstimateSource::Step { interval: false, unseen: Some(("model".to_owned(), json!("vgg16"))) }),
        ];
        insta::assert_snapshot!(said.join("\n"), @r"
        never ran
        it ran with images=8000, not 100000
        3 runs of this instance, of another version of it
        2 runs of this instance and of `alone`, the same work
        1 run of `alone` and `late`, the same work
        4 runs of its step at other points of `batch`, `lr`
        4 runs of its step at other points of `batch`, `lr`, far beyond them
        1 run of its step at other points, beyond them, some of another version of it; 12 more do not count, because they were disturbed
        1 run of its step at other points, beyond them, all of another version of it
        3 runs of its step
        1 run of its step, none with model=vgg16, too few for an interval
        ");
    }
}
