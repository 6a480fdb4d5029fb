//! Whether current figures confirm what earlier figures showed: the findings of both, paired by topic.

use serde::{Deserialize, Serialize};

use super::facts::{facts, topic};
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
            Some(now) if facts(&then.finding).statement != facts(&now.finding).statement => Reproduction::Differs,
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
