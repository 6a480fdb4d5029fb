//! The time saved by running things at once, without a barrier, compared with one after another.

use flow_core::{Mode, Outcome, StepResult};
use serde::{Deserialize, Serialize};

use super::{Figure, FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::columns::written;
use crate::format::Format;
use crate::verdict::FOREIGN_CPU;

/// Results of runs at once, each with its run alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedRuns {
    /// The axes that distinguish the members.
    pub(crate) axes: Vec<String>,
    pub(crate) members: Vec<Member>,
}

/// The time for all at once and for one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AllPacked {
    pub(crate) at_once: Figure,
    pub(crate) one_by_one: Figure,
    pub(crate) gain: Figure,
}

/// A member's times from start to end, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Its axis values.
    pub(crate) point: Vec<String>,
    pub(crate) alone: f64,
    pub(crate) packed: f64,
}

/// How many of all can be compared with their runs alone, and the labels of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedPart {
    pub(crate) compared: Figure,
    pub(crate) of: Figure,
    pub(crate) without: Vec<String>,
}

/// Compares a step with the one that it is `like`. The result is `None` unless some instances of the first ran
/// alongside others in plain mode. Only results that ended well without a resume are compared, with sound runs that
/// were measured alone. The time for all is known only if all can be compared and one run has all of them.
pub(crate) fn packed(
    ledger: &mut SectionFigures<'_>,
    together: &[StepResult],
    alone: &[StepResult],
) -> Option<(PackedRuns, ScopedFinding)> {
    // A result that resumed from a checkpoint began more than once.
    let sound = |result: &StepResult| {
        result.outcome == Outcome::Ok && result.disturbances.is_empty() && result.usage.earlier.is_none()
    };
    let first = together.first()?;
    let at_once = together.iter().all(|r| r.circumstances.mode == Mode::Plain)
        && together.iter().any(|r| !r.circumstances.corunners.is_empty());
    if !at_once || together.len() < 2 {
        return None;
    }
    let axes: Vec<String> = first.axes.keys().cloned().collect();
    let member = |result: &StepResult| {
        let was_alone = |solo: &&StepResult| {
            solo.circumstances.mode == Mode::Alone && solo.circumstances.corunners.is_empty() && sound(solo)
        };
        let solo = result.run_alone(alone).filter(was_alone)?;
        let alike = solo.params == result.params && solo.circumstances.gpu_models == result.circumstances.gpu_models;
        let point = axes.iter().map(|axis| result.axes.get(axis).map(written).unwrap_or_default()).collect();
        let (alone, packed) = (solo.usage.wall_s?, result.usage.wall_s?);
        (alike && sound(result) && alone > 0.0).then_some(Member { point, alone, packed })
    };
    let mut members = Vec::new();
    let mut without = Vec::new();
    for result in together {
        match member(result) {
            Some(member) => members.push(member),
            None => without.push(result.label.clone()),
        }
    }
    let foreign =
        together.iter().chain(alone).filter_map(|result| result.circumstances.foreign_cpu).fold(0.0, f64::max);
    if members.is_empty() {
        return None;
    }
    let start = together.iter().map(|r| r.started_at).min()?;
    let end = together.iter().map(|r| r.ended_at).max()?;
    let (at_once, one_by_one) =
        (end.saturating_sub(start) as f64 / 1_000.0, members.iter().map(|m| m.alone).sum::<f64>());
    if at_once <= 0.0 {
        return None;
    }
    let slowdowns = members.iter().map(|m| m.packed / m.alone);
    let (least, most) =
        slowdowns.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), s| (least.min(s), most.max(s)));
    let seconds = Format::for_unit("s", [at_once, one_by_one].into_iter());
    let mut figure = |what, value, show: &Format| -> Figure {
        ledger.computed(None, FigureMeaning::new(what, []), value, show.clone())
    };
    let (compared, of) = (members.len(), together.len());
    let part = (compared < of).then(|| {
        let [compared, of] =
            [("compared", compared), ("packed", of)].map(|(what, n)| figure(what, n as f64, &Format::count()));
        PackedPart { compared, of, without }
    });
    let whole = (part.is_none() && together.iter().all(|result| result.run == first.run)).then(|| {
        let [at_once, one_by_one] =
            [("at_once", at_once), ("one_by_one", one_by_one)].map(|(what, value)| figure(what, value, &seconds));
        let gain = one_by_one.value / at_once.value;
        AllPacked { at_once, one_by_one, gain: figure("gain", gain, &Format::times()) }
    });
    let foreign = (foreign > FOREIGN_CPU)
        .then(|| figure("foreign", foreign, &Format::for_unit("ratio", std::iter::once(foreign))));
    let [min, max] =
        [("min_slowdown", least), ("max_slowdown", most)].map(|(what, value)| figure(what, value, &Format::times()));
    let finding = Finding::Packed { whole, part, min, max, foreign };
    Some((PackedRuns { axes, members }, ScopedFinding { scope: None, finding }))
}
