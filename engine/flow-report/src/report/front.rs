//! The first screen of a section in one language: its answer, one table, one chart, and a few findings. The rest is in
//! the details.

use super::answer::{Answer, SentencePosition};
use super::charts::{Chart, ChartContent};
use super::judged::{self, limiting, verdict_key, worst};
use super::model::Section;
use super::reproduction::TitledTable;
use super::{brief, gains, together};
use crate::columns::written;
use crate::findings::{ForeignCpu, Reproduction, topic};
use crate::format::Format;
use crate::safe;
use crate::table::{Content, Grid, GridColumns, Names, Note, Row, Table, dash, narrow, plain, unit_of, worded};
use crate::verdict::{GroupVerdict, Resource};
use crate::words::{Args, Locale, kind};

/// Maximum groups that are columns in the table of an answer. With more, each group is a row.
const MAX_COLUMNS: usize = 4;
/// Maximum columns and rows of an analysis table on the first screen. A larger one appears only in the details.
const COLUMNS: usize = 6;
const ROWS: usize = 12;
/// Maximum findings and notes on the first screen.
pub(super) const BULLETS: usize = 5;
/// Maximum groups whose limits are listed.
const LIMITS: usize = 2;
/// Maximum earlier findings that are compared on the first screen.
const COMPARED: usize = 5;

/// The sentence, and other programs that may have disturbed its measurements.
fn sentence<'s>(
    sentence: SentencePosition,
    section: &'s Section,
    words: Locale<'_>,
) -> (String, Option<&'s ForeignCpu>) {
    let names = Names { table: &section.table, words };
    match sentence {
        // For several groups, the limit of each is a separate finding.
        SentencePosition::Group(at) if section.together.len() > 1 => {
            (judged::headline(&section.together[at], words), None)
        }
        SentencePosition::Group(at) => (judged::answer(&section.together[at], words), None),
        SentencePosition::Analysis(at, sentence) => {
            let (_, found) = &section.analyses[at];
            let all = found.in_short(&section.analyses, &names);
            (all.into_iter().nth(sentence).unwrap_or_default(), section.disturbed.of_sentence(at, sentence))
        }
        SentencePosition::Finding(at) => (section.findings[at].worded(&names), section.disturbed.of_finding(at)),
    }
}

/// One caveat for all of these sentences.
fn caveat<'s>(beside: impl Iterator<Item = &'s ForeignCpu>, words: Locale<'_>) -> Option<String> {
    let all: Vec<&ForeignCpu> = beside.collect();
    let most = all.iter().copied().max_by(|a, b| a.cmp(b))?;
    Some(if all.len() > 1 { most.of_table(words) } else { most.worded(words) })
}

/// The findings next to the answer. A caveat that the answer has is not repeated.
pub(super) fn bullets(section: &Section, answer: &Answer, room: usize, words: Locale<'_>) -> Vec<String> {
    let told: Vec<&ForeignCpu> = match section.with.answer {
        Some(_) => Vec::new(),
        None => answer.lead.iter().filter_map(|said| sentence(*said, section, words).1).collect(),
    };
    let is_news =
        |beside: &&ForeignCpu| told.is_empty() || !beside.is_minor() && told.iter().all(|told| told.is_minor());
    let said = answer.findings.iter().take(room).map(|said| sentence(*said, section, words));
    let (mut out, beside): (Vec<String>, Vec<Option<&ForeignCpu>>) =
        said.map(|(said, beside)| (said, beside.filter(is_news))).unzip();
    let first = beside.iter().position(Option::is_some);
    if let Some((at, caveat)) = first.zip(caveat(beside.into_iter().flatten(), words)) {
        out[at] = words.sentences(&[out[at].clone(), caveat]);
    }
    out
}

/// The answer of the section, by the author or else by flow. If no finding stands out, the answer says so.
pub(super) fn lead(section: &Section, answer: &Answer, words: Locale<'_>) -> String {
    if let Some(own) = &section.with.answer {
        return safe::authors(own.of(words.lang));
    }
    let said = answer.lead.iter().map(|said| sentence(*said, section, words));
    group_sentence(said.chain(more_groups(section, &answer.lead, words)), section, words)
}

/// How many groups the answer leaves out.
fn more_groups(
    section: &Section,
    shown: &[SentencePosition],
    words: Locale<'_>,
) -> Option<(String, Option<&'static ForeignCpu>)> {
    let shown = shown.iter().filter(|said| matches!(said, SentencePosition::Group(_))).count();
    let more = section.together.len() - shown;
    (shown > 0 && more > 0).then(|| (words.text("answer-more-groups", &Args::new().count("more", more)), None))
}

/// The answer in short, for a list of several sections.
pub(super) fn headline(section: &Section, answer: &Answer, words: Locale<'_>) -> String {
    if section.with.answer.is_some() || answer.lead.is_empty() {
        return lead(section, answer, words);
    }
    let short = |said: &SentencePosition| match said {
        SentencePosition::Group(at) => (judged::headline(&section.together[*at], words), None),
        said => sentence(*said, section, words),
    };
    let most = match (section.together.is_empty(), section.with.compare.is_some()) {
        (true, _) => 1,
        (false, false) => 2,
        (false, true) => 3,
    };
    let said = &answer.lead[..answer.lead.len().min(most)];
    group_sentence(said.iter().map(short).chain(more_groups(section, said, words)), section, words)
}

/// That results come from different environments or programs, and the limits of each of several groups.
pub(super) fn limits(section: &Section, answer: &Answer, words: Locale<'_>) -> Vec<String> {
    let several = section.together.len() > 1;
    let groups = section.together.iter().filter(|_| several);
    let said = groups.filter_map(|group| {
        let args = Args::new().with("scope", safe::text(&group.group)).with("text", judged::limits(group, words)?);
        Some(words.text("scoped", &args))
    });
    let is_mixed = |note: &&Note| {
        let is_said = answers_with_programs(section) && !answer.lead.is_empty();
        matches!(note, Note::Environments { .. }) || note.is_other_program() && !is_said
    };
    let mixed = section.table.notes.iter().filter(is_mixed).take(LIMITS).map(|note| worded(note, words));
    mixed.chain(said.take(LIMITS)).collect()
}

/// Whether the answer itself says that the other machine ran another program: if it compares the two.
fn answers_with_programs(section: &Section) -> bool {
    section.with.answer.is_none() && section.with.compares_machines() && section.changes.is_some()
}

fn group_sentence<'s>(
    said: impl Iterator<Item = (String, Option<&'s ForeignCpu>)>,
    section: &Section,
    words: Locale<'_>,
) -> String {
    let (said, beside): (Vec<String>, Vec<Option<&ForeignCpu>>) = said.unzip();
    let caveat = caveat(beside.into_iter().flatten(), words);
    // The whole answer is bold.
    let other = section.table.notes.iter().filter(|note| note.is_other_program() && answers_with_programs(section));
    let other = other.take(LIMITS).map(|note| worded(note, words)).filter(|_| !said.is_empty());
    let other: Vec<String> = other.collect();
    let said = said.into_iter().chain(other).chain(caveat).map(|text| text.replace("**", "").trim().to_owned());
    let said: Vec<String> = said.filter(|text| !text.is_empty()).collect();
    if !said.is_empty() {
        return words.sentences(&said);
    }
    let nothing = words.word(nothing(&section.table));
    match only_row(section, words) {
        Some(values) => format!("{values}{}{nothing}", words.word("mark-stop")),
        None => nothing,
    }
}

/// Maximum values of a single row in an answer.
const VALUES: usize = 4;

/// The first values of a table with one row, as text.
fn only_row(section: &Section, words: Locale<'_>) -> Option<String> {
    let table = &section.table;
    let [row] = table.body.as_slice() else { return None };
    let names = Names { table, words };
    let colon = words.word("mark-colon");
    let values = row.cells.iter().zip(&table.columns).filter(|(_, column)| !column.key && !column.earlier);
    let values = values.filter_map(|(cell, column)| {
        let value = words.figure(&column.show, cell.number()?);
        Some(format!("{}{colon}{value}", names.head(&column.name)))
    });
    let values: Vec<String> = values.take(VALUES).collect();
    (!values.is_empty()).then(|| values.join(&words.word("mark-semicolon")))
}

/// The message that says why a table has no answer.
fn nothing(table: &Table) -> &'static str {
    let measured = |row: &Row| row.cells.iter().any(|cell| matches!(cell.content, Content::Number { .. }));
    match table.body.len() {
        _ if !table.body.iter().any(measured) => "answer-no-number",
        1 if table.parts().len() == 1 => "answer-one-row",
        _ => "answer-none",
    }
}

/// The table that supports the answer.
pub(super) fn table(section: &Section, answer: &Answer, names: &Names<'_>) -> String {
    let words = names.words;
    if !section.together.is_empty() {
        return groups(section, names);
    }
    if let Some(packed) = &section.packed {
        return together::packed(packed, names).without_empty().markdown(words);
    }
    // The places of jumps say more than the shape of a curve.
    let (first, others): (Vec<_>, Vec<_>) = section.analyses.iter().partition(|(_, found)| found.searches().is_some());
    let mut shown = first
        .into_iter()
        .chain(others)
        .flat_map(|(_, found)| found.tables(&section.analyses, names).into_iter().map(move |of| (found, of)));
    let fits = |grid: &Grid| grid.heads.len() <= COLUMNS && grid.rows.len() <= ROWS;
    let shown = shown.next().map(|(found, of)| (found, of.grid.without_empty(), of.notes));
    if let Some((found, grid, of_tests)) = shown.filter(|(_, grid, _)| fits(grid)) {
        let grid = grid.markdown(words);
        if found.best_column().is_none() {
            return grid;
        }
        // What ± and p are.
        let spreads = section.table.notes.iter().find(|note| note.is_of_spreads()).map(|note| worded(note, words));
        let notes: Vec<String> = spreads.into_iter().chain(of_tests).collect();
        return match notes.is_empty() {
            true => grid,
            false => format!("{grid}\n{}\n", safe::line(&words.sentences(&notes))),
        };
    }
    let findings = answer.lead.iter().chain(&answer.findings).filter_map(|said| match said {
        SentencePosition::Finding(at) => Some(&section.findings[*at].finding),
        _ => None,
    });
    let about: Vec<&str> = findings.filter_map(|one| topic(one).map(|(_, column)| column)).collect();
    let ranked = section.findings.iter().find_map(|one| one.finding.ranks());
    plain(&narrow(&section.table, &about, ranked), words)
}

/// Co-run groups side by side: the times alone and together, and the results.
fn groups(section: &Section, names: &Names<'_>) -> String {
    let (groups, words) = (&section.together, names.words);
    if groups.len() > MAX_COLUMNS {
        return rows_of_groups(groups, words);
    }
    let measure = groups.first().map_or("", |group| group.measure.as_str());
    let members = || groups.iter().flat_map(|group| &group.members);
    let times = members().flat_map(|m| [m.alone, m.together]).flatten().collect::<Vec<f64>>();
    let time = Format::for_unit("s", times.iter().copied());
    let mut grid = Grid { heads: vec![(String::new(), false)], rows: Vec::new() };
    // The number of members is in each header only if the groups differ in it.
    let members: Vec<usize> = groups.iter().map(|group| group.members.len()).collect();
    let all_alike = members.iter().all(|n| *n == members[0]);
    grid.heads.extend(
        groups.iter().map(|group| (if all_alike { safe::text(&group.group) } else { sized(group, words) }, true)),
    );
    let mut row = |label: String, cell: &dyn Fn(&GroupVerdict) -> String| {
        grid.rows.push([label].into_iter().chain(groups.iter().map(cell)).collect());
    };
    // Axes that all groups share appear once, next to the label.
    let same: Vec<_> = groups.iter().map(|group| points(group, groups, names)).collect();
    let of = match same[0].clone().filter(|of| same.iter().all(|other| other.as_ref() == Some(of))) {
        Some(of) => format!("{}{of}", words.word("mark-comma")),
        None => String::new(),
    };
    let joined = |group: &GroupVerdict, of: fn(&crate::verdict::Member) -> Option<f64>| {
        let cells = group.members.iter().map(|m| of(m).map_or_else(dash, |v| time.cell(v)));
        cells.collect::<Vec<_>>().join(" / ")
    };
    let unit = unit_of(&time, words);
    let label = |key: &str| words.text(key, &Args::new().with("column", names.head(measure)));
    row(format!("{}{of}{unit}", label("together-alone")), &|group| joined(group, |m| m.alone));
    let all = match all_alike {
        true => {
            let args = Args::new().with("column", names.head(measure)).with("n", members[0].to_string());
            words.text("front-together", &args)
        }
        false => label("together-together"),
    };
    row(format!("{all}{unit}"), &|group| joined(group, |m| m.together));
    let text = |key: &str| words.word(key);
    row(text("front-worst"), &|group| worst(group, words).unwrap_or_else(dash));
    row(text("together-gain"), &gains::gain_of);
    for kind in [Resource::Cpu, Resource::Gpu] {
        if groups.iter().any(|group| demand(group, kind).is_some()) {
            let key = format!("front-demand-{}", kind.key());
            row(text(&key), &|group| demand(group, kind).unwrap_or_else(dash));
        }
    }
    row(format!("**{}**", text("together-verdict")), &|group| format!("**{}**", text(verdict_key(&group.verdict))));
    grid.markdown(words)
}

/// `v7 (3 at once)`.
fn sized(group: &GroupVerdict, words: Locale<'_>) -> String {
    let args = Args::new().with("group", safe::text(&group.group)).with("n", group.members.len().to_string());
    words.text("front-group", &args)
}

/// The values that distinguish the members of a group, if they differ in one axis: `batch size 32 / 64 / 128`.
fn points(group: &GroupVerdict, all: &[GroupVerdict], names: &Names<'_>) -> Option<String> {
    let first = group.members.first()?;
    let differs = |axis: &&String| {
        all.iter().any(|group| group.members.iter().any(|m| m.axes.get(*axis) != group.members[0].axes.get(*axis)))
    };
    let mut axes = first.axes.keys().filter(differs);
    let (axis, None) = (axes.next()?, axes.next()) else { return None };
    let values: Option<Vec<String>> =
        group.members.iter().map(|m| Some(safe::text(&written(m.axes.get(axis)?)))).collect();
    Some(format!("{} {}", names.inline(axis), values?.join(" / ")))
}

/// `171% / 99%`: the demand for a resource, and its use.
fn demand(group: &GroupVerdict, kind: Resource) -> Option<String> {
    let ruling = group.rulings.iter().find(|ruling| ruling.resource == kind)?;
    let share = gains::share();
    let asked = share.cell(ruling.demand?);
    Some(ruling.used.map_or_else(|| asked.clone(), |used| format!("{asked} / {}", share.cell(used.min(1.0)))))
}

fn rows_of_groups(groups: &[GroupVerdict], words: Locale<'_>) -> String {
    let mut columns = GridColumns::<&GroupVerdict>::new();
    columns.text(words.word("together-group"), |group| sized(group, words));
    columns.text(words.word("together-verdict"), |group| words.word(verdict_key(&group.verdict)));
    columns.number(words.word("together-gain"), gains::gain_of);
    columns.number(words.word("front-worst"), |group| worst(group, words).unwrap_or_else(dash));
    columns.text(words.word("front-limit"), |group| limiting(group, words).unwrap_or_else(dash));
    columns.grid(groups.iter().take(ROWS)).without_empty().markdown(words)
}

/// The position of the chart that supports the answer. Charts of co-runs come first, then those under `charts:`,
/// analyses, and the column of the answer.
pub(super) fn chart(section: &Section, answer: &Answer, charts: &[Chart]) -> Option<usize> {
    let about = answer.lead.iter().find_map(|said| match said {
        SentencePosition::Finding(at) => topic(&section.findings[*at].finding).map(|(_, column)| column),
        _ => None,
    });
    let rank = |chart: &Chart| match &chart.shows {
        ChartContent::Together | ChartContent::Packed => 0,
        ChartContent::Declared => 1,
        ChartContent::Analysis => 2,
        ChartContent::Column(column) if about == Some(column.as_str()) => 3,
        ChartContent::Column(_) => 4,
        ChartContent::Schedule | ChartContent::Picture => 5,
        ChartContent::Load => 6,
    };
    (0..charts.len()).min_by_key(|at| rank(&charts[*at]))
}

/// Earlier and current findings, with those that disagree first.
pub(super) fn compared(section: &Section, names: &Names<'_>) -> Option<TitledTable> {
    let (reference, words) = (names.table.reference.as_ref()?, names.words);
    let mut rows: Vec<(Reproduction, Vec<String>)> = Vec::new();
    for now in &section.together {
        let Some(then) = now.earlier.as_deref() else { continue };
        let says = |group: &GroupVerdict| judged::brief(group, words);
        let holds = super::reproduction::compare_verdicts(then, now);
        rows.push((holds, vec![safe::text(&now.group), says(then), says(now)]));
    }
    for found in &section.held {
        let either = found.now.as_ref().or(found.then.as_ref())?;
        let Some(label) = brief::label(either, names) else { continue };
        let says = |one: &Option<crate::findings::ScopedFinding>| {
            one.as_ref().map_or_else(dash, |one| brief::value(&one.finding, names))
        };
        rows.push((found.holds, vec![label, says(&found.then), says(&found.now)]));
    }
    rows.retain(|(holds, _)| *holds != Reproduction::New);
    let groups = section.together.iter().filter(|group| group.earlier.is_some()).count();
    rows[groups..].sort_by_key(|(holds, _)| *holds);
    rows.truncate(COMPARED);
    if rows.is_empty() {
        return None;
    }
    let heads = ["front-finding", "front-then", "front-now", "held-holds"];
    let heads = heads.map(|key| (words.word(key), false)).into();
    let cells = |(holds, mut cells): (Reproduction, Vec<String>)| {
        cells.push(words.word(&format!("held-{}", kind(&holds))));
        cells
    };
    let grid = Grid { heads, rows: rows.into_iter().map(cells).collect() };
    let title = words.text("front-compared", &Args::new().with("file", safe::code(&reference.file)));
    Some(TitledTable { title, text: grid.markdown(words) })
}
