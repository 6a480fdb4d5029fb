//! Earlier figures of a section in Markdown: the earlier measurements of its co-run groups, and earlier findings next
//! to the current ones.

use serde::Serialize;

use super::gains::{change_of, slowdowns, slower_head};
use super::judged::judged;
use super::model::Section;
use super::together::{head_then, numeric};
use crate::columns::written;
use crate::findings::{FindingMatch, Reproduction, ScopedFinding};
use crate::format::Format;
use crate::safe;
use crate::table::{Grid, Names, Reading, enough};
use crate::verdict::GroupVerdict;
use crate::words::{Args, Words, kind};

/// A table with a line above it.
#[derive(Serialize)]
pub(crate) struct TitledTable {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// Earlier findings, current findings, and whether they agree.
pub(crate) fn held(section: &Section, words: &Words, lang: &str) -> Option<TitledTable> {
    let reference = section.table.reference.as_ref()?;
    let names = Names { table: &section.table, words };
    let of_file = |key: &str| words.text(lang, key, &Args::new().with("file", safe::code(&reference.file)));
    let heads = [of_file("held-then"), words.word(lang, "held-now"), words.word(lang, "held-holds")];
    let mut grid = Grid { heads: heads.map(|head| (head, false)).into(), rows: Vec::new() };
    let holds = |holds: Reproduction| words.word(lang, &format!("held-{}", kind(&holds)));
    for FindingMatch { then, now, holds: so } in &section.held {
        let said = |found: &Option<ScopedFinding>| match found {
            Some(found) => found.worded(words, lang, &names),
            None => "—".into(),
        };
        grid.rows.push(vec![said(then), said(now), holds(*so)]);
    }
    let show = slowdowns(&section.together);
    for (then, now) in section.together.iter().filter_map(|now| Some((now.earlier.as_deref()?, now))) {
        let said = |group: &GroupVerdict| judged(group, &show, words, lang);
        grid.rows.push(vec![said(then), said(now), holds(compare_verdicts(then, now))]);
    }
    if grid.rows.is_empty() {
        return None;
    }
    let mut notes = vec![words.word(lang, "held-note")];
    notes.extend(section.disturbed.most().map(|beside| beside.of_table(words, lang)));
    let text = grid.markdown(words, lang) + &format!("\n{}\n", words.sentences(lang, &notes));
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
pub(crate) fn members(section: &Section, words: &Words, lang: &str) -> Option<TitledTable> {
    let groups: Vec<GroupVerdict> = section.together.iter().filter_map(|group| Some(*group.earlier.clone()?)).collect();
    let names = Names { table: &section.table, words };
    let members = || groups.iter().flat_map(|group| &group.members);
    let measure = groups.first()?.measure.as_str();
    let times = members().flat_map(|m| [m.alone, m.together]).flatten().collect::<Vec<f64>>();
    let pairs = members().filter_map(|m| m.together.zip(m.alone)).collect();
    let show = slowdowns(&section.together);
    let slower = Reading { show: show.clone(), pairs, of: |together, alone| together / alone - 1.0 };
    let time = enough(&Format::for_unit("s", times.iter().copied()).no_finer_than(times.iter().copied()), &[&slower]);
    let axes: Vec<&String> = members().next()?.axes.keys().collect();
    let name = |axis: &str| names.head(axis, lang);
    let of = |key: &str| {
        let text = words.text(lang, key, &Args::new().with("column", names.head(measure, lang)));
        format!("{text} ({})", time.head().unwrap_or_default())
    };
    let mut heads: Vec<(String, bool)> = axes.iter().map(|axis| (name(axis), numeric(&groups, axis))).collect();
    heads.extend(["together-alone", "together-together"].map(|key| (of(key), true)));
    heads.push((words.word(lang, slower_head(&show)), true));
    let rows = groups.iter().flat_map(|group| group.members.iter().map(move |m| (group, m))).map(|(group, m)| {
        let cell = |value: Option<f64>, show: &Format| value.map_or_else(|| "—".into(), |v| show.cell(v));
        let point = axes.iter().map(|axis| m.axes.get(*axis).map(|v| safe::text(&written(v))).unwrap_or_default());
        let slower = group.slowdown(m).map_or_else(|| "—".into(), |slower| change_of(slower, &show));
        point.chain([cell(m.alone, &time), cell(m.together, &time), slower]).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let title = head_then(section, words, lang, "together-members");
    Some(TitledTable { title: safe::line(&title), text: Grid { heads, rows }.markdown(words, lang) })
}
