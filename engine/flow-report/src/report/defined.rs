//! The words of a report that its set-up defines: those that its findings, verdicts and analyses can contain.

use std::collections::BTreeSet;

use super::model::Section;
use crate::bounds::DefinedWord;
use crate::findings::{Course, Finding, TrendEvidence};

/// The words that a sentence of these sections can contain.
pub(super) fn defined(sections: &[Section]) -> BTreeSet<DefinedWord> {
    sections.iter().flat_map(of_section).collect()
}

fn of_section(section: &Section) -> Vec<DefinedWord> {
    let mut all: Vec<DefinedWord> = section.findings.iter().filter_map(|one| of_finding(&one.finding)).collect();
    all.extend(section.analyses.iter().flat_map(|(_, analysis)| analysis.defined()));
    if !section.together.is_empty() {
        all.push(DefinedWord::Parallel);
    }
    if section.together.iter().any(|group| group.earlier.is_some()) {
        all.push(DefinedWord::Reproduced);
    }
    // The comparison with earlier figures has findings of both sides, and says `flat` and `same` in short.
    if !section.held.is_empty() {
        let both = section.held.iter().flat_map(|found| [&found.then, &found.now]).flatten();
        all.extend(both.filter_map(|one| of_finding(&one.finding)));
        all.extend([DefinedWord::Reproduced, DefinedWord::Same]);
    }
    all
}

fn of_finding(finding: &Finding) -> Option<DefinedWord> {
    match finding {
        Finding::TimeFlat { .. }
        | Finding::MemoryFlat { .. }
        | Finding::MemoryNotFlat { .. }
        | Finding::Unchanged { .. }
        | Finding::SameLearned { .. }
        | Finding::Alike { .. }
        | Finding::CostFree { .. }
        | Finding::Trend { course: Course::Constant, .. } => Some(DefinedWord::Same),
        Finding::Trend { .. }
        | Finding::LoadTrend { .. }
        | Finding::Flattens { .. }
        | Finding::NoFall { .. }
        | Finding::StillFalling { .. }
        | Finding::NoTrend { .. }
        | Finding::Uneven { .. } => Some(DefinedWord::Course),
        Finding::Linear { .. } => Some(DefinedWord::Linear),
        Finding::Bound { .. } => Some(DefinedWord::Bound),
        Finding::Changed {
            borne: TrendEvidence::Pair { .. } | TrendEvidence::Tested { .. } | TrendEvidence::Most { .. },
            ..
        }
        | Finding::Undecided { .. }
        | Finding::ChangedAt { .. }
        | Finding::LearnedChange { .. }
        | Finding::Repeated { .. }
        | Finding::Winner { test: Some(_), .. }
        | Finding::Best { .. }
        | Finding::NoneDistinguished { .. } => Some(DefinedWord::Tests),
        Finding::Changed { .. }
        | Finding::Winner { test: None, .. }
        | Finding::MemoryFaster { .. }
        | Finding::Frontier { .. }
        | Finding::Ends { .. }
        | Finding::OneTraining { .. }
        | Finding::Order { .. }
        | Finding::OrderOf { .. }
        | Finding::Turns { .. }
        | Finding::AtMost { .. }
        | Finding::Packed { .. }
        | Finding::Agrees { .. }
        | Finding::Estimate { .. }
        | Finding::Depends { .. } => None,
    }
}
