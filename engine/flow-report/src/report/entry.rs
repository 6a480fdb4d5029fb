//! The prose of an entry of What's New, as short as notes are: what was found, without what it is computed from, a bullet for what
//! belongs together. All else is in the report.

use super::model::{Report, Section};
use super::{judged, prose, together};
use crate::findings::Finding;
use crate::safe;
use crate::table::Names;
use crate::words::Words;

/// What was found, in one language.
pub(super) fn bullets(report: &Report, words: &Words, lang: &str) -> Vec<String> {
    let mut out = Vec::new();
    for section in &report.sections {
        let mut found = paragraphs(section, words, lang);
        // Where there are several tables, it is said of which it is.
        if let (Some(first), true) = (found.first_mut(), report.sections.len() > 1) {
            let title = prose::title(section, words, lang);
            *first = format!("**{title}**{}{first}", words.mark(&[lang], "mark-colon"));
        }
        out.extend(found);
    }
    let groups = report.sections.iter().flat_map(|section| &section.together);
    let sure = together::intervals_in_short(groups, words, lang);
    let caveats: Vec<String> = sure.into_iter().chain(prose::caveats(report, words, lang)).collect();
    out.extend((!caveats.is_empty()).then(|| words.sentences(lang, &caveats)));
    out
}

fn paragraphs(section: &Section, words: &Words, lang: &str) -> Vec<String> {
    let names = Names { table: &section.table, words };
    let compared = section.changes.is_some();
    let mut kinds = [Vec::new(), Vec::new(), Vec::new()];
    // A note is short: with the first sentence that may be due to others it is said for all.
    let mut disturbed = section.disturbed.most();
    for (at, scoped) in section.findings.iter().enumerate() {
        let kind = match &scoped.finding {
            // What explains, and what each of two versions does by itself where they are compared.
            Finding::Linear { .. }
            | Finding::MemoryFlat { .. }
            | Finding::MemoryNotFlat { .. }
            | Finding::Ends { .. }
            | Finding::Turns { .. } => {
                continue;
            }
            Finding::Flattens { .. }
            | Finding::NeverFalls { .. }
            | Finding::StillFalling { .. }
            | Finding::NoTrend { .. }
            | Finding::Uneven { .. }
            | Finding::TimeFlat { .. }
            | Finding::MemoryFaster { .. }
            | Finding::LoadGoes { .. }
                if compared =>
            {
                continue;
            }
            Finding::Bound { .. } => 1,
            Finding::Unchanged { .. }
            | Finding::Changed { .. }
            | Finding::SameLearned { .. }
            | Finding::LearnedChange { .. }
            | Finding::WithinRepetitions { .. }
            | Finding::OneTraining { .. }
            | Finding::CostFree { .. } => 2,
            _ => 0,
        };
        kinds[kind].push(scoped.worded(words, lang, &names));
        let caveat = disturbed.take_if(|_| section.disturbed.of_finding(at).is_some());
        kinds[kind].extend(caveat.map(|beside| beside.of_table(words, lang)));
    }
    let mut out: Vec<String> =
        kinds.iter().filter(|found| !found.is_empty()).map(|found| words.sentences(lang, found)).collect();
    for (at, (_, analysis)) in section.analyses.iter().enumerate() {
        let mut found = analysis.in_short(&section.analyses, &section.table, words, lang);
        let caveat = disturbed.take_if(|_| section.disturbed.of_analysis(at));
        found.extend(caveat.map(|beside| beside.of_table(words, lang)));
        out.extend((!found.is_empty()).then(|| words.sentences(lang, &found)));
    }
    out.extend(judged::in_short(&section.together, words, lang));
    out.extend(prose::notes(section, words, lang).iter().map(|note| safe::line(note)));
    out
}
