//! Selects the sentences that answer a section and those that come next: it ranks everything that was found by what the
//! section asks.

use super::model::Section;
use crate::findings::{Finding, facts, topic};
use crate::verdict::{GroupVerdict, Verdict};

/// A sentence of a section, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentencePosition {
    /// The verdict of a co-run group.
    Group(usize),
    /// A sentence of an analysis.
    Analysis(usize, usize),
    Finding(usize),
}

/// The first sentences of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) lead: Vec<SentencePosition>,
    pub(super) findings: Vec<SentencePosition>,
}

/// Maximum sentences in an answer, and maximum findings next to it.
const LEAD: usize = 3;
const FINDINGS: usize = 5;
/// The minimum rank of a second sentence in the answer, and of a finding on the first screen. Findings with a lower
/// rank appear only in the details.
const SECOND: u32 = 85;
const MIN: u32 = 30;
/// The extra rank of the comparison that a section asks for.
const FIRST: u32 = 100;
/// After this many parts, the same statement about another part goes to the details.
const PARTS: usize = 3;

/// Columns that are durations.
const TIMES: [&str; 4] = ["epoch_time", "iteration_time", "step_time", "wall"];

/// The question of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionQuestion {
    Together,
    Analysis,
    Compare,
    Sweep,
}

pub(super) fn answer(section: &Section) -> Answer {
    let asks = match section {
        _ if !section.together.is_empty() => SectionQuestion::Together,
        _ if !section.analyses.is_empty() => SectionQuestion::Analysis,
        _ if section.with.compare.is_some() => SectionQuestion::Compare,
        _ => SectionQuestion::Sweep,
    };
    let mut groups: Vec<usize> = (0..section.together.len()).collect();
    groups.sort_by_key(|at| order(&section.together[*at]));
    let groups = groups.into_iter().map(|at| (100, SentencePosition::Group(at)));
    let analyses = section.analyses.iter().enumerate().flat_map(|(at, (_, found))| {
        // The places of jumps say more than the shape of a curve.
        let rank_of_analysis = match asks {
            SectionQuestion::Analysis if found.searches().is_some() => 96,
            SectionQuestion::Analysis => 95,
            _ => 84,
        };
        (0..found.sentences_in_short()).map(move |curve| (rank_of_analysis, SentencePosition::Analysis(at, curve)))
    });
    let findings = section.findings.iter().enumerate().map(|(at, one)| {
        let rank = facts(&one.finding).rank + extra(&one.finding, asks);
        // In a comparison of parts, findings about a single part come second.
        let scoped = one.scope.is_some() && matches!(asks, SectionQuestion::Compare | SectionQuestion::Together);
        (if scoped { rank.saturating_sub(40) } else { rank }, SentencePosition::Finding(at))
    });
    let mut all: Vec<(u32, SentencePosition)> = groups.chain(analyses).chain(findings).collect();
    // A comparison of two versions comes before the verdicts about co-runs.
    let compared = section.with.compare.is_some() && !section.together.is_empty();
    if compared
        && let Some((rank, _)) =
            all.iter_mut().filter(|(_, said)| is_change(*said, section)).max_by_key(|(rank, _)| *rank)
    {
        *rank += FIRST;
    }
    // A section that compares two versions asks for the change of each column.
    if asks == SectionQuestion::Compare {
        all.iter_mut().filter(|(_, said)| is_change(*said, section)).for_each(|(rank, _)| *rank += FIRST);
    }
    all.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    let about = |said: &SentencePosition| match said {
        SentencePosition::Finding(at) => {
            let one = &section.findings[*at];
            let repeated = match &one.finding {
                Finding::Repeated { column, .. } => Some(column.as_str()),
                _ => None,
            };
            let column = topic(&one.finding).map(|(_, column)| column).or(repeated);
            column.map(|column| (one.scope.as_deref(), column))
        }
        _ => None,
    };
    let mut out = Answer::default();
    let mut told: Vec<(Option<&str>, &str)> = Vec::new();
    for (rank, said) in all {
        let about = about(&said);
        // The same statement about many parts goes to the details.
        let again = |(scope, column): (Option<&str>, &str)| {
            let parts = told.iter().filter(|(_, told)| *told == column).count();
            told.contains(&(scope, column)) || scope.is_some() && parts >= PARTS
        };
        if about.is_some_and(again) {
            continue;
        }
        let joins = match out.lead.last() {
            None => true,
            Some(last) => out.lead.len() < LEAD && rank >= SECOND && same_kind(*last, said, section),
        };
        if joins && out.findings.is_empty() {
            out.lead.push(said);
        } else if out.findings.len() < FINDINGS && rank >= MIN {
            out.findings.push(said);
        } else {
            continue;
        }
        told.extend(about);
    }
    out
}

/// Whether the sentence says how one version differs from the other.
fn is_change(said: SentencePosition, section: &Section) -> bool {
    let SentencePosition::Finding(at) = said else { return false };
    let one = &section.findings[at];
    one.scope.is_none() && matches!(topic(&one.finding), Some(("change" | "cost", _)))
}

/// Whether two sentences form one answer. Verdicts of several groups do, and so do two effects. A verdict joins an
/// effect of the axis by which the groups are compared.
fn same_kind(first: SentencePosition, next: SentencePosition, section: &Section) -> bool {
    match (first, next) {
        (SentencePosition::Group(_), SentencePosition::Group(_))
        | (SentencePosition::Analysis(..), SentencePosition::Analysis(..)) => true,
        (first, SentencePosition::Group(_)) => is_change(first, section),
        (SentencePosition::Finding(a), SentencePosition::Finding(b)) => {
            section.findings[a].scope == section.findings[b].scope || section.findings[b].scope.is_none()
        }
        _ => false,
    }
}

/// The order of groups: better verdicts first.
fn order(group: &GroupVerdict) -> u8 {
    match group.verdict {
        Verdict::Parallel => 0,
        Verdict::OnlyConcurrent => 1,
        Verdict::NoGain => 2,
        Verdict::SlowerThanOneAfterAnother => 3,
        _ => 4,
    }
}

/// The extra rank that a finding has because of the question.
fn extra(finding: &Finding, asks: SectionQuestion) -> u32 {
    match finding {
        // A comparison asks for durations first.
        Finding::Changed { column, .. } if TIMES.contains(&column.as_str()) => 10,
        // That a time does not change answers the question too, before what was learned.
        Finding::Undecided { column, .. } | Finding::SameLearned { column, .. } | Finding::Unchanged { column, .. }
            if TIMES.contains(&column.as_str()) =>
        {
            25
        }
        Finding::MemoryFaster { .. } if asks == SectionQuestion::Sweep => 26,
        Finding::Linear { .. } if asks == SectionQuestion::Sweep => 18,
        _ => 0,
    }
}
