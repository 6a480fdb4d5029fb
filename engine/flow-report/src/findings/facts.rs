//! What is known of a finding without its figures: how much it says, which word of its sentence has a limit, and its
//! topic and claim, by which it is compared with other findings.

use super::{Course, Finding, TrendEvidence};
use crate::bounds::DefinedWord;

pub(crate) struct FindingFacts<'f> {
    /// How much it says, from 0 to 100. A larger effect ranks above a smaller one.
    pub(crate) rank: u32,
    /// The word that the set-up of a page defines.
    pub(crate) word: Option<DefinedWord>,
    /// `None` for findings that earlier figures do not have: loads over time, repetitions and runs at once.
    pub(super) statement: Option<Statement<'f>>,
}

/// What a finding says, without its figures.
#[derive(PartialEq)]
pub(super) struct Statement<'f> {
    topic: &'static str,
    column: &'f str,
    claim: &'static str,
    /// The places and names in the claim.
    names: Vec<&'f str>,
}

/// The topic of a finding and its column.
pub(crate) fn topic(finding: &Finding) -> Option<(&'static str, &str)> {
    facts(finding).statement.map(|said| (said.topic, said.column))
}

pub(crate) fn facts(finding: &Finding) -> FindingFacts<'_> {
    let [same, course, tests] = [DefinedWord::Same, DefinedWord::Course, DefinedWord::Tests].map(Some);
    let size = |value: f64| (value.abs().min(1.0) * 9.0) as u32;
    let way = |rises: bool| if rises { "rises" } else { "falls" };
    let (rank, word, statement) = match finding {
        Finding::Flattens { time, at, rises, .. } => (87, course, says("time", time, "flattens", ends(at, rises))),
        Finding::NoFall { time, at, rises, .. } => (87, course, says("time", time, "never falls", ends(at, rises))),
        Finding::StillFalling { time, at, .. } => (87, course, says("time", time, "still falls", [at])),
        Finding::TimeFlat { time, .. } => (87, same, says("time", time, "flat", [])),
        Finding::NoTrend { time, .. } => (87, course, says("time", time, "no trend", [])),
        Finding::Uneven { time, min, .. } => (87, course, says("time", time, "uneven", [&min.0])),
        Finding::MemoryFaster { memory, from, to, .. } => {
            (60, None, says("memory against time", memory, "faster", [from, to]))
        }
        Finding::MemoryFlat { memory, at, .. } => (34, same, says("memory", memory, "flat", [at])),
        Finding::MemoryNotFlat { memory, .. } => (34, same, says("memory", memory, "not flat", [])),
        Finding::LoadTrend { load, rises, .. } => (48, course, says("load", load, way(*rises), [])),
        Finding::Frontier { axis, at, gpu, .. } => {
            (75, None, says("frontier", axis, if *gpu { "of a GPU" } else { "of the host" }, [at]))
        }
        Finding::Linear { column, .. } => (28, Some(DefinedWord::Linear), says("line", column, "linear", [])),
        Finding::Bound { .. } => (66, Some(DefinedWord::Bound), None),
        Finding::Ends { .. } => (32, None, None),
        Finding::Unchanged { column, opposite, .. } => {
            (42, same, says("change", column, if opposite.is_some() { "mixed" } else { "same" }, []))
        }
        Finding::SameLearned { column, .. } => (62, same, says("change", column, "same", [])),
        Finding::LearnedChange { column, .. } => (80, tests, says("change", column, "on average", [])),
        Finding::Undecided { column, .. } => (50, tests, says("change", column, "undecided", [])),
        Finding::Changed { column, rises, max, borne, .. } => {
            let (rank, word) = match borne {
                // One or two rows are weaker evidence than all of them.
                TrendEvidence::OneRow | TrendEvidence::Two => (76, None),
                TrendEvidence::Few | TrendEvidence::OneRun { .. } => (82, None),
                TrendEvidence::Pair { .. } | TrendEvidence::Tested { .. } | TrendEvidence::Most { .. } => (82, tests),
            };
            (rank + size(max.value), word, says("change", column, way(*rises), []))
        }
        Finding::ChangedAt { column, rises, places, .. } => {
            let claim = if *rises { "rises at" } else { "falls at" };
            (72, tests, says("change", column, claim, places.iter().map(|(at, _)| at)))
        }
        Finding::OneTraining { .. } => (20, None, None),
        Finding::Best { column, best, .. } => (92, tests, says("best", column, "best", [&best.name])),
        Finding::NoneDistinguished { column, .. } => (92, tests, says("best", column, "none told", [])),
        Finding::Order { column, order } => {
            (92, None, says("best", column, "order", order.iter().map(|(name, _)| name)))
        }
        Finding::OrderOf { .. } => (88, None, None),
        Finding::Alike { column, .. } => (92, same, says("best", column, "alike", [])),
        Finding::Turns { column, turns, .. } => {
            let names = turns.iter().flat_map(|turn| [&turn.first, &turn.second, &turn.from, &turn.to]);
            (55, None, says("turns", column, "turns", names))
        }
        Finding::AtMost { column, parts, .. } => (58, None, says("most", column, "most", parts)),
        Finding::Packed { .. } => (98, None, None),
        Finding::Repeated { differs, .. } => (if *differs { 68 } else { 44 }, tests, None),
        Finding::Agrees { .. } => (70, None, None),
        Finding::Estimate { .. } => (57, None, None),
        Finding::Trend { column, course: Course::Constant, .. } => (25, same, says("course", column, "same", [])),
        Finding::Trend { column, course: goes, from: (_, from), to: (_, to), .. } => {
            let claim = if *goes == Course::Varies { "varies" } else { way(*goes == Course::Rises) };
            let rank = 70 + 2 * size((to.value - from.value) / to.value.abs().max(from.value.abs()));
            (rank, course, says("course", column, claim, []))
        }
        Finding::Winner { column, point, test, .. } => {
            (90, tests.filter(|_| test.is_some()), says("winner", column, "winner", [point]))
        }
        Finding::Depends { .. } => (89, None, None),
        Finding::CostFree { accuracy, cheaper, .. } => (93, same, says("cost", accuracy, "free", cheaper)),
    };
    FindingFacts { rank, word, statement }
}

fn says<'f>(
    topic: &'static str,
    column: &'f str,
    claim: &'static str,
    names: impl IntoIterator<Item = &'f String>,
) -> Option<Statement<'f>> {
    Some(Statement { topic, column, claim, names: names.into_iter().map(String::as_str).collect() })
}

/// The place of a claim, and that of a later rise.
fn ends<'f, T>(at: &'f String, rises: &'f Option<(String, T)>) -> impl Iterator<Item = &'f String> {
    [at].into_iter().chain(rises.iter().map(|(at, _)| at))
}
