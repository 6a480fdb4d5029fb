//! Earlier figures of a section in Markdown: the earlier measurements of its co-run groups, and earlier findings next
//! to the current ones.

use serde::Serialize;

use super::gains::slowdowns;
use super::judged::judged;
use super::model::Section;
use super::together::{self, head_then};
use crate::findings::{FindingMatch, Reproduction, ScopedFinding};
use crate::safe;
use crate::table::{Grid, Names, dash};
use crate::verdict::GroupVerdict;
use crate::words::{Args, Locale, kind};

/// A table with a line above it.
#[derive(Serialize)]
pub(crate) struct TitledTable {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// Earlier findings, current findings, and whether they agree.
pub(crate) fn held(section: &Section, words: Locale<'_>) -> Option<TitledTable> {
    let reference = section.table.reference.as_ref()?;
    let names = Names { table: &section.table, words };
    let of_file = |key: &str| words.text(key, &Args::new().with("file", safe::code(&reference.file)));
    let heads = [of_file("held-then"), words.word("held-now"), words.word("held-holds")];
    let mut grid = Grid { heads: heads.map(|head| (head, false)).into(), rows: Vec::new() };
    let holds = |holds: Reproduction| words.word(&format!("held-{}", kind(&holds)));
    for FindingMatch { then, now, holds: so } in &section.held {
        let said = |found: &Option<ScopedFinding>| found.as_ref().map_or_else(dash, |found| found.worded(&names));
        grid.rows.push(vec![said(then), said(now), holds(*so)]);
    }
    let show = slowdowns(&section.together);
    for (then, now) in section.together.iter().filter_map(|now| Some((now.earlier.as_deref()?, now))) {
        let said = |group: &GroupVerdict| judged(group, &show, words);
        grid.rows.push(vec![said(then), said(now), holds(compare_verdicts(then, now))]);
    }
    if grid.rows.is_empty() {
        return None;
    }
    let mut notes = vec![words.word("held-note")];
    notes.extend(section.disturbed.most().map(|beside| beside.of_table(words)));
    let text = grid.markdown(words) + &format!("\n{}\n", words.sentences(&notes));
    Some(TitledTable { title: safe::line(&of_file("held-title")), text })
}

/// Whether the current verdict is the earlier one.
pub(super) fn compare_verdicts(then: &GroupVerdict, now: &GroupVerdict) -> Reproduction {
    match now.verdict.call().filter(|_| !now.verdict.is_undecided()) {
        None => Reproduction::Open,
        call if call == then.verdict.call() => Reproduction::Yes,
        Some(_) => Reproduction::Differs,
    }
}

/// The earlier measurements of group members: alone against together.
pub(crate) fn members(section: &Section, words: Locale<'_>) -> Option<TitledTable> {
    let groups: Vec<GroupVerdict> = section.together.iter().filter_map(|group| Some(*group.earlier.clone()?)).collect();
    let names = Names { table: &section.table, words };
    groups.first()?;
    let text = together::earlier_members(&groups, &slowdowns(&section.together), &names).markdown(words);
    let title = safe::line(&head_then(section, words, "together-members"));
    Some(TitledTable { title, text })
}
