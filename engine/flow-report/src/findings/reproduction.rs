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

/// The result of the comparison; those come first that a reader should know first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reproduction {
    /// An earlier rise is a fall now, or the reverse.
    Opposite,
    /// Another finding, or another place.
    Differs,
    /// The same finding at the same place.
    Yes,
    /// The current measurements do not decide it.
    Open,
    /// There is no finding now.
    Gone,
    /// There was no finding then.
    New,
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
            Some(now) if statement(&then.finding) != statement(&now.finding) => Reproduction::Differs,
            Some(now) if alike(&then.finding, &now.finding) => Reproduction::Yes,
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

/// What a finding says, without its figures.
#[derive(PartialEq)]
struct Statement<'f> {
    topic: &'static str,
    column: &'f str,
    claim: &'static str,
    /// The places and names in the claim.
    names: Vec<&'f str>,
}

/// The topic of a finding and its column.
pub(crate) fn topic(finding: &Finding) -> Option<(&'static str, &str)> {
    statement(finding).map(|said| (said.topic, said.column))
}

/// The statement of a finding. Loads over time, repetitions and runs at once have none, because there are no earlier
/// figures for them.
fn statement(finding: &Finding) -> Option<Statement<'_>> {
    let (topic, column, claim, names) = match finding {
        Finding::Flattens { time, at, rises, .. } | Finding::NoFall { time, at, rises, .. } => {
            let claim = if matches!(finding, Finding::NoFall { .. }) { "never falls" } else { "flattens" };
            ("time", time, claim, listed([at].into_iter().chain(rises.iter().map(|(at, _)| at))))
        }
        Finding::StillFalling { time, at, .. } => ("time", time, "still falls", listed([at])),
        Finding::TimeFlat { time, .. } => ("time", time, "flat", vec![]),
        Finding::NoTrend { time, .. } => ("time", time, "no trend", vec![]),
        Finding::Uneven { time, min, .. } => ("time", time, "uneven", listed([&min.0])),
        Finding::MemoryFaster { memory, from, to, .. } => ("memory against time", memory, "faster", listed([from, to])),
        Finding::MemoryFlat { memory, at, .. } => ("memory", memory, "flat", listed([at])),
        Finding::MemoryNotFlat { memory, .. } => ("memory", memory, "not flat", vec![]),
        Finding::LoadTrend { load, rises, .. } => ("load", load, if *rises { "rises" } else { "falls" }, vec![]),
        Finding::Frontier { axis, at, gpu, .. } => {
            ("frontier", axis, if *gpu { "of a GPU" } else { "of the host" }, listed([at]))
        }
        Finding::Linear { column, .. } => ("line", column, "linear", vec![]),
        Finding::Unchanged { column, opposite: Some(_), .. } => ("change", column, "mixed", vec![]),
        Finding::Unchanged { column, .. } | Finding::SameLearned { column, .. } => ("change", column, "same", vec![]),
        Finding::Undecided { column, .. } => ("change", column, "undecided", vec![]),
        Finding::LearnedChange { column, .. } => ("change", column, "on average", vec![]),
        Finding::Changed { column, rises, .. } => ("change", column, if *rises { "rises" } else { "falls" }, vec![]),
        Finding::ChangedAt { column, rises, places, .. } => {
            let claim = if *rises { "rises at" } else { "falls at" };
            ("change", column, claim, listed(places.iter().map(|(at, _)| at)))
        }
        Finding::CostFree { accuracy, cheaper, .. } => ("cost", accuracy, "free", listed(cheaper)),
        Finding::Best { column, best, .. } => ("best", column, "best", listed([&best.name])),
        Finding::NoneDistinguished { column, .. } => ("best", column, "none told", vec![]),
        Finding::Alike { column, .. } => ("best", column, "alike", vec![]),
        Finding::Order { column, order } => ("best", column, "order", listed(order.iter().map(|(name, _)| name))),
        Finding::AtMost { column, parts, .. } => ("most", column, "most", listed(parts)),
        Finding::Turns { column, turns, .. } => {
            let names = turns.iter().flat_map(|turn| [&turn.first, &turn.second, &turn.from, &turn.to]);
            ("turns", column, "turns", listed(names))
        }
        Finding::Trend { column, course, .. } => {
            let claim = match course {
                Course::Rises => "rises",
                Course::Falls => "falls",
                Course::Varies => "varies",
                Course::Constant => "same",
            };
            ("course", column, claim, vec![])
        }
        Finding::Winner { column, point, .. } => ("winner", column, "winner", listed([point])),
        Finding::Agrees { .. }
        | Finding::Bound { .. }
        | Finding::Depends { .. }
        | Finding::Ends { .. }
        | Finding::Estimate { .. }
        | Finding::OneTraining { .. }
        | Finding::OrderOf { .. }
        | Finding::Repeated { .. }
        | Finding::Packed { .. } => return None,
    };
    Some(Statement { topic, column, claim, names })
}

fn listed<'f>(names: impl IntoIterator<Item = &'f String>) -> Vec<&'f str> {
    names.into_iter().map(String::as_str).collect()
}
