//! Whether current figures confirm what earlier figures showed: the findings of both, paired by topic.

use serde::{Deserialize, Serialize};

use super::{Course, Finding, ScopedFinding};
use crate::bounds::AS_LARGE;

/// An earlier finding and the current one on the same topic. At least one of them exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FindingMatch {
    pub(crate) then: Option<ScopedFinding>,
    pub(crate) now: Option<ScopedFinding>,
    pub(crate) holds: Reproduction,
}

/// The result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reproduction {
    /// The same finding at the same place.
    Yes,
    /// Another finding, or another place.
    Differs,
    /// An earlier rise is a fall now, or the reverse.
    Opposite,
    /// There is no finding now.
    Gone,
    /// There was no finding then.
    New,
    /// The current measurements do not decide it.
    Open,
}

/// Pairs earlier and current findings. If a limit forced memory to run out (`forced`), that end decides nothing.
pub(crate) fn held(then: Vec<ScopedFinding>, now: &[ScopedFinding], forced: bool) -> Vec<FindingMatch> {
    let same = |a: &ScopedFinding, b: &ScopedFinding| {
        a.scope == b.scope && topic(&a.finding).is_some_and(|t| Some(t) == topic(&b.finding))
    };
    let mut left: Vec<&ScopedFinding> = now.iter().filter(|found| topic(&found.finding).is_some()).collect();
    let mut all = Vec::new();
    for then in then.into_iter().filter(|found| topic(&found.finding).is_some()) {
        let at = left.iter().position(|now| same(&then, now));
        let now = at.map(|at| left.remove(at).clone());
        let holds = match &now {
            None => Reproduction::Gone,
            Some(now) if forced && matches!(now.finding, Finding::Frontier { .. }) => Reproduction::Open,
            Some(now) if matches!(now.finding, Finding::Undecided { .. }) => Reproduction::Open,
            Some(now) if opposite(&then.finding, &now.finding) => Reproduction::Opposite,
            Some(now) if claim(&then.finding) == claim(&now.finding) && alike(&then.finding, &now.finding) => {
                Reproduction::Yes
            }
            Some(_) => Reproduction::Differs,
        };
        all.push(FindingMatch { then: Some(then), now, holds });
    }
    all.extend(left.into_iter().map(|now| FindingMatch {
        then: None,
        now: Some(now.clone()),
        holds: Reproduction::New,
    }));
    all
}

/// Whether one finding is a rise and the other a fall.
fn opposite(a: &Finding, b: &Finding) -> bool {
    let sign = |finding: &Finding| match finding {
        Finding::Changed { rises, .. } | Finding::ChangedAt { rises, .. } | Finding::LoadTrend { rises, .. } => {
            Some(*rises)
        }
        Finding::LearnedChange { mean, .. } => Some(mean.value > 0.0),
        Finding::Trend { course: Course::Rises, .. } => Some(true),
        Finding::Trend { course: Course::Falls, .. } => Some(false),
        _ => None,
    };
    sign(a).zip(sign(b)).is_some_and(|(a, b)| a != b)
}

/// Whether the two effects have a similar size.
fn alike(a: &Finding, b: &Finding) -> bool {
    let size = |finding: &Finding| match finding {
        Finding::Changed { min, max, .. } => Some((min.value + max.value).abs() / 2.0),
        Finding::LearnedChange { mean, .. } => Some(mean.value.abs()),
        Finding::Trend { course: Course::Rises | Course::Falls, from, to, .. } => {
            Some((to.1.value - from.1.value).abs() / from.1.value.abs().max(to.1.value.abs()))
        }
        _ => None,
    };
    size(a).zip(size(b)).is_none_or(|(a, b)| a.max(b) <= AS_LARGE * a.min(b))
}

/// The topic of a finding. Loads over time, repetitions and runs at once have no topic, because there are no earlier
/// figures for them.
pub(crate) fn topic(finding: &Finding) -> Option<(&'static str, &str)> {
    Some(match finding {
        Finding::Flattens { time, .. }
        | Finding::NoFall { time, .. }
        | Finding::StillFalling { time, .. }
        | Finding::NoTrend { time, .. }
        | Finding::Uneven { time, .. }
        | Finding::TimeFlat { time, .. } => ("time", time),
        Finding::MemoryFaster { memory, .. } => ("memory against time", memory),
        Finding::MemoryFlat { memory, .. } | Finding::MemoryNotFlat { memory, .. } => ("memory", memory),
        Finding::LoadTrend { load, .. } => ("load", load),
        Finding::Frontier { axis, .. } => ("frontier", axis),
        Finding::Linear { column, .. } => ("line", column),
        Finding::Unchanged { column, .. }
        | Finding::SameLearned { column, .. }
        | Finding::LearnedChange { column, .. }
        | Finding::Undecided { column, .. }
        | Finding::Changed { column, .. }
        | Finding::ChangedAt { column, .. } => ("change", column),
        Finding::CostFree { accuracy, .. } => ("cost", accuracy),
        Finding::Best { column, .. }
        | Finding::NoneDistinguished { column, .. }
        | Finding::Alike { column, .. }
        | Finding::Order { column, .. } => ("best", column),
        Finding::AtMost { column, .. } => ("most", column),
        Finding::Turns { column, .. } => ("turns", column),
        Finding::Trend { column, .. } => ("course", column),
        Finding::Winner { column, .. } => ("winner", column),
        Finding::Agrees { .. }
        | Finding::Bound { .. }
        | Finding::Depends { .. }
        | Finding::Ends { .. }
        | Finding::Estimate { .. }
        | Finding::OneTraining { .. }
        | Finding::OrderOf { .. }
        | Finding::Repeated { .. }
        | Finding::Packed { .. } => {
            return None;
        }
    })
}

/// The claim of a finding, without its figures.
fn claim(finding: &Finding) -> (&'static str, Vec<&str>) {
    match finding {
        Finding::Flattens { at, rises, .. } => {
            ("flattens", [Some(at.as_str()), rises.as_ref().map(|(at, _)| at.as_str())].into_iter().flatten().collect())
        }
        Finding::NoFall { at, rises, .. } => (
            "never falls",
            [Some(at.as_str()), rises.as_ref().map(|(at, _)| at.as_str())].into_iter().flatten().collect(),
        ),
        Finding::StillFalling { at, .. } => ("still falls", vec![at]),
        Finding::TimeFlat { .. } => ("flat", vec![]),
        Finding::NoTrend { .. } => ("no trend", vec![]),
        Finding::Uneven { min, .. } => ("uneven", vec![&min.0]),
        Finding::MemoryFaster { from, to, .. } => ("faster", vec![from, to]),
        Finding::MemoryFlat { at, .. } => ("flat", vec![at]),
        Finding::MemoryNotFlat { .. } => ("not flat", vec![]),
        Finding::LoadTrend { rises, .. } => (if *rises { "rises" } else { "falls" }, vec![]),
        Finding::Frontier { at, gpu, .. } => (if *gpu { "of a GPU" } else { "of the host" }, vec![at]),
        Finding::Linear { .. } => ("linear", vec![]),
        Finding::Unchanged { opposite: Some(_), .. } => ("mixed", vec![]),
        Finding::Unchanged { .. } | Finding::SameLearned { .. } => ("same", vec![]),
        Finding::Undecided { .. } => ("undecided", vec![]),
        Finding::LearnedChange { .. } => ("on average", vec![]),
        Finding::Changed { rises: true, .. } => ("rises", vec![]),
        Finding::Changed { .. } => ("falls", vec![]),
        Finding::ChangedAt { rises, places, .. } => {
            (if *rises { "rises at" } else { "falls at" }, places.iter().map(|(at, _)| at.as_str()).collect())
        }
        Finding::Order { order, .. } => ("order", order.iter().map(|(name, _)| name.as_str()).collect()),
        Finding::CostFree { cheaper, .. } => ("free", cheaper.iter().map(String::as_str).collect()),
        Finding::Best { best, .. } => ("best", vec![&best.name]),
        Finding::Alike { .. } => ("alike", vec![]),
        Finding::NoneDistinguished { .. } => ("none told", vec![]),
        Finding::AtMost { parts, .. } => ("most", parts.iter().map(String::as_str).collect()),
        Finding::Turns { turns, .. } => {
            ("turns", turns.iter().flat_map(|turn| [&*turn.first, &*turn.second, &*turn.from, &*turn.to]).collect())
        }
        Finding::Trend { course, .. } => match course {
            Course::Rises => ("rises", vec![]),
            Course::Falls => ("falls", vec![]),
            Course::Varies => ("varies", vec![]),
            Course::Constant => ("same", vec![]),
        },
        Finding::Winner { point, .. } => ("winner", vec![point]),
        Finding::Agrees { .. }
        | Finding::Bound { .. }
        | Finding::Depends { .. }
        | Finding::Ends { .. }
        | Finding::Estimate { .. }
        | Finding::OneTraining { .. }
        | Finding::Repeated { .. }
        | Finding::OrderOf { .. }
        | Finding::Packed { .. } => ("", vec![]),
    }
}
