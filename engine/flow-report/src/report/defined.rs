//! The words of a report that its set-up defines: those that its findings, verdicts and analyses can contain.

use std::collections::BTreeSet;

use super::model::Section;
use crate::bounds::DefinedWord;
use crate::findings::facts;

/// The words that a sentence of these sections can contain.
pub(super) fn defined(sections: &[Section]) -> BTreeSet<DefinedWord> {
    sections.iter().flat_map(of_section).collect()
}

fn of_section(section: &Section) -> Vec<DefinedWord> {
    let mut all: Vec<DefinedWord> = section.findings.iter().filter_map(|one| facts(&one.finding).word).collect();
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
        all.extend(both.filter_map(|one| facts(&one.finding).word));
        all.extend([DefinedWord::Reproduced, DefinedWord::Same]);
    }
    all
}
