//! Tables as Markdown: headers, cells and notes in one language.

use flow_core::{Outcome, reason::Cause};

use super::grid::{Grid, dash};
use super::model::{Cell, Column, Content, Note, OutcomeCount, Row, Spread, Table};
use super::reference::interleave_earlier;
use super::with::{ComputedFunction, Text};
use crate::format::Format;
use crate::safe;
use crate::words::{Args, Locale, fields};

/// A table as Markdown, with its notes below.
pub(crate) fn markdown(table: &Table, words: Locale<'_>) -> String {
    if let Some(why) = &table.absent {
        let args = Args::new().with("step", safe::code(&table.from)).with("why", words.reasons().cause(why));
        return words.text("table-absent", &args) + "\n";
    }
    let table = &interleave_earlier(table);
    let numbered: Vec<usize> =
        (0..table.notes.len()).filter(|at| cells(table).any(|cell| cell.notes.contains(at))).collect();
    let grids: Vec<String> = columnwise(table).iter().map(|part| one_grid(part, words, &numbered)).collect();
    let notes = notes(table, words);
    match notes.is_empty() {
        true => grids.join("\n"),
        false => format!("{}\n{}\n", grids.join("\n"), notes.join("\n").trim_end()),
    }
}

/// A table without earlier figures as Markdown, with its own notes but no notes about its columns.
pub(crate) fn plain(table: &Table, words: Locale<'_>) -> String {
    let notes: Vec<String> = table.notes.iter().map(|note| safe::line(&worded(note, words))).collect();
    let grid = one_grid(table, words, &[]);
    if notes.is_empty() { grid } else { format!("{grid}\n{}\n", notes.join("  \n")) }
}

/// Maximum parts of a split that can be read side by side, with several columns each.
const MAX_PARTS: usize = 2;

/// A table with several columns of many parts, as one table per column; any other table unchanged.
fn columnwise(table: &Table) -> Vec<Table> {
    let many = table.split.as_ref().is_some_and(|(_, parts)| parts.len() > MAX_PARTS);
    let all_split = table.columns.iter().all(|column| column.key || column.part.is_some());
    let of = |column: &Column| (column.name.clone(), column.derived, column.label.clone());
    let mut shown = Vec::new();
    // Columns of one part are adjacent, so equal headers are not.
    for what in table.columns.iter().filter(|column| !column.key).map(of) {
        if !shown.contains(&what) {
            shown.push(what);
        }
    }
    if !many || !all_split || shown.is_empty() {
        return vec![table.clone()];
    }
    let only = |what: &(String, Option<ComputedFunction>, Option<Text>)| {
        let at: Vec<usize> =
            (0..table.columns.len()).filter(|at| table.columns[*at].key || of(&table.columns[*at]) == *what).collect();
        let cells = |row: &Row| at.iter().filter_map(|at| row.cells.get(*at).cloned()).collect();
        Table {
            columns: at.iter().map(|at| table.columns[*at].clone()).collect(),
            body: table.body.iter().map(|row| Row { cells: cells(row) }).collect(),
            ..table.clone()
        }
    };
    shown.iter().map(only).collect()
}

fn one_grid(table: &Table, words: Locale<'_>, numbered: &[usize]) -> String {
    let rows = table.body.iter().map(|row| {
        let cells = row.cells.iter().zip(&table.columns);
        cells.map(|(cell, column)| show(cell, column, words, numbered)).collect()
    });
    let heads = heads(table, words).into_iter().enumerate();
    let grid = Grid { heads: heads.map(|(at, head)| (head, right(table, at))).collect(), rows: rows.collect() };
    // A column that fills the table is named once.
    let above = match alike(table) {
        Some(column) => safe::line(&format!("{}{}\n\n", label(column, words, false), unit_of(&column.show, words))),
        None => String::new(),
    };
    above + &grid.markdown(words)
}

/// The column that all measured columns are parts of, if the table shows nothing else.
fn alike(table: &Table) -> Option<&Column> {
    let mut measured = table.columns.iter().filter(|column| !column.key);
    let first = measured.next().filter(|column| column.part.is_some())?;
    let same = |column: &Column| {
        (&column.name, column.derived, &column.label, &column.show)
            == (&first.name, first.derived, &first.label, &first.show)
    };
    (measured.clone().count() > 0 && measured.all(same)).then_some(first)
}

fn cells(table: &Table) -> impl Iterator<Item = &Cell> {
    table.body.iter().flat_map(|row| &row.cells)
}

/// Text columns are aligned left.
fn right(table: &Table, at: usize) -> bool {
    table.columns[at].name != "outcome"
        && table.body.iter().filter_map(|row| row.cells.get(at)).all(|cell| match &cell.content {
            Content::Text { number, .. } => number.is_some(),
            _ => true,
        })
}

/// The headers of the columns, with units.
fn heads(table: &Table, words: Locale<'_>) -> Vec<String> {
    let mut heads = Vec::new();
    let alike = alike(table).is_some();
    for (at, column) in table.columns.iter().enumerate() {
        // `growth` right after its own column needs no longer name.
        let follows = at.checked_sub(1).and_then(|before| table.columns.get(before)).is_some_and(|before| {
            (&before.name, &before.part, before.earlier) == (&column.name, &column.part, column.earlier)
                && before.derived.is_none()
        });
        let part = column.part.as_ref().and_then(|part| table.point(part)).map(|part| safe::text(&part));
        let label = label(column, words, follows);
        let unit = unit_of(&column.show, words);
        let comma = words.word("mark-comma");
        let earlier = column.earlier.then(|| earlier(table, words));
        let of: Vec<String> = part.into_iter().chain(earlier).collect();
        heads.push(match of.is_empty() {
            false if alike => of.join(&comma),
            false => format!("{label}{comma}{}{unit}", of.join(&comma)),
            true => format!("{label}{unit}"),
        });
    }
    heads
}

/// The header of earlier figures.
pub(crate) fn earlier(table: &Table, words: Locale<'_>) -> String {
    let own = table.reference.as_ref().and_then(|reference| reference.label.as_ref());
    own.map_or_else(|| words.word("reference-earlier"), |label| safe::text(label.of(words.lang)))
}

/// The unit of a column, for its header.
pub(crate) fn unit_of(show: &Format, words: Locale<'_>) -> String {
    match show.head() {
        Some("points") => format!(" ({})", words.word("unit-points")),
        Some(unit) => format!(" ({})", safe::text(unit)),
        None => String::new(),
    }
}

fn label(column: &Column, words: Locale<'_>, follows: bool) -> String {
    if let Some(label) = &column.label {
        return safe::text(label.of(words.lang));
    }
    let labelled = column.of.as_ref().map(|label| safe::text(label.of(words.lang)));
    let is_labelled = labelled.is_some();
    let name = labelled.unwrap_or_else(|| name(&column.name, words));
    let key = match (column.derived, follows) {
        // A difference is recognisable by its part, `v11 − v7`.
        (None | Some(ComputedFunction::Difference), _) => return name,
        (Some(ComputedFunction::Growth), true) => "growth-short",
        (Some(ComputedFunction::Growth), false) => "growth-of",
        (Some(ComputedFunction::Ratio), _) => "ratio-of",
        (Some(ComputedFunction::Speedup), _) => "speedup-of",
    };
    let inside = match key {
        "growth-short" => String::new(),
        _ if is_labelled => name,
        _ => inline(&name, words),
    };
    words.text(key, &Args::new().with("column", inside))
}

/// The displayed name of a column; an unknown metric keeps its own name.
pub(crate) fn name(name: &str, words: Locale<'_>) -> String {
    known(name, words).unwrap_or_else(|| safe::text(name))
}

fn known(name: &str, words: Locale<'_>) -> Option<String> {
    words.find(&format!("column-{}", name.replace('.', "-")), &Args::new())
}

/// A label inside a sentence: `Epoch time` becomes `epoch time` in an English one, `GPU load` stays.
pub(crate) fn inline(label: &str, words: Locale<'_>) -> String {
    let mut chars = label.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if words.lang == "en" && second.is_lowercase() => {
            first.to_lowercase().collect::<String>() + &label[first.len_utf8()..]
        }
        _ => label.to_owned(),
    }
}

fn show(cell: &Cell, column: &Column, words: Locale<'_>, numbered: &[usize]) -> String {
    let given = cell.number().zip(cell.digits).map(|(value, digits)| column.show.given(value, digits));
    let text = content(&cell.content, given.as_ref().unwrap_or(&column.show), words);
    let notes = cell.notes.iter().filter_map(|note| numbered.iter().position(|n| n == note));
    let marks: String = notes.map(|at| format!(" ({})", mark(at))).collect();
    text + &marks
}

/// Notes have letters, because a number could be read as a value.
fn mark(at: usize) -> char {
    char::from(b'a' + (at % 26) as u8)
}

pub(crate) fn content(content: &Content, show: &Format, words: Locale<'_>) -> String {
    match content {
        Content::Number { value, spread, .. } => with_spread(*value, spread.as_ref(), show),
        Content::Text { text, .. } => safe::text(text),
        Content::Outcome { outcome, gpu } => ended(*outcome, *gpu, words),
        Content::NotFinite { what } => what.symbol().to_owned(),
        Content::Disturbed => words.word("cell-disturbed"),
        Content::Unlike => words.word("cell-unlike"),
        Content::GpusChange { from, to } => {
            words.text("cell-gpus-change", &Args::new().with("from", from.to_string()).with("to", to.to_string()))
        }
        Content::Absent => dash(),
    }
}

/// `0.053 ± 0.012`, `16.2 (15.8–17.0)`.
pub(crate) fn with_spread(value: f64, spread: Option<&Spread>, show: &Format) -> String {
    match spread {
        None => show.cell(value),
        Some(Spread::Sd(half, _) | Spread::Interval(half, _)) => {
            let plain = Format { signed: false, ..show.clone() };
            format!("{} ± {}", show.number(value), plain.cell(*half))
        }
        Some(Spread::Range(least, most, _)) => {
            format!("{} ({}–{})", show.cell(value), show.number(*least), show.cell(*most))
        }
    }
}

fn ended(outcome: Outcome, gpu: bool, words: Locale<'_>) -> String {
    words.text(&format!("outcome-{outcome}"), &Args::new().flag("gpu", gpu))
}

/// The notes below a table, one per line.
pub(crate) fn notes(table: &Table, words: Locale<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut lettered = 0;
    for (at, note) in table.notes.iter().enumerate() {
        let text = worded(note, words);
        if cells(table).any(|cell| cell.notes.contains(&at)) {
            lines.push(format!("({}) {text}", mark(lettered)));
            lettered += 1;
        } else {
            lines.push(safe::line(&text));
        }
    }
    for (column, key) in [("gpu_load", "note-gpu-load"), ("gpu_memory_load", "note-gpu-memory-load")] {
        let shown = table.columns.iter().enumerate().filter(|(_, shown)| shown.name.starts_with(column));
        let told =
            shown.flat_map(|(at, _)| table.body.iter().map(move |row| &row.cells[at])).any(|c| c.number().is_some());
        if told {
            lines.push(words.word(key));
        }
    }
    if loads_left_out(table) {
        lines.push(words.word("note-short-load"));
    }
    // Two blanks make each a separate line in Markdown too.
    let last = lines.len().saturating_sub(1);
    lines.iter().enumerate().map(|(at, line)| if at < last { format!("{line}  ") } else { line.clone() }).collect()
}

/// Whether some results with other numbers have no load.
fn loads_left_out(table: &Table) -> bool {
    let number = |cell: &Cell| matches!(cell.content, Content::Number { .. });
    let load = |(_, column): &(usize, &Column)| {
        !column.earlier && matches!(column.name.as_str(), "gpu_load" | "gpu_memory_load")
    };
    let mut loads = table.columns.iter().enumerate().filter(load);
    loads.any(|(at, _)| {
        let missing = |row: &Row| matches!(row.cells[at].content, Content::Absent) && row.cells.iter().any(number);
        table.body.iter().any(|row| number(&row.cells[at])) && table.body.iter().any(missing)
    })
}

/// Maximum values of an axis in a note.
const VALUES: usize = 6;

/// The values of an axis. Of many, the first ones and the last.
fn few(values: &[String], words: Locale<'_>) -> String {
    let text = |value: &String| safe::text(value);
    let shown: Vec<String> = match values {
        [first @ .., last] if values.len() > VALUES => {
            first.iter().take(VALUES - 3).map(text).chain(["…".to_owned(), text(last)]).collect()
        }
        all => all.iter().map(text).collect(),
    };
    shown.join(&words.word("list-comma"))
}

pub(crate) fn worded(note: &Note, words: Locale<'_>) -> String {
    let named = |of: &str| inline(&name(of, words), words);
    let (kind, args) = fields(note, "note", |name, value| {
        let text = value.as_str()?;
        Some(match name {
            "label" | "name" | "file" | "head" | "nearest" => safe::code(text),
            "axis" => text.to_owned(),
            "what" => named(text),
            _ => safe::text(text),
        })
    });
    let semicolon = words.word("mark-semicolon");
    let (key, args) = match note {
        Note::Mean { of, most, over, values } => {
            let values = values.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
            let over = over.iter().zip(values).map(|(axis, values)| match values {
                [] => named(axis),
                values => {
                    let args = Args::new().with("axis", named(axis)).with("values", few(values, words));
                    words.text("note-axis-values", &args)
                }
            });
            let over: Vec<String> = over.collect();
            let key = if over.is_empty() { "" } else { "-over" };
            (key, args.with("over", words.list(&over)).flag("all", of == most))
        }
        Note::Median { of, most } => ("", args.flag("all", of == most)),
        Note::Disturbed { reasons, .. } => ("", args.with("why", words.reasons().all_disturbed(reasons))),
        Note::Caveats { caveats, .. } => {
            let all: Vec<String> = caveats.iter().map(|caveat| words.reasons().caveat(caveat)).collect();
            ("", args.with("why", all.join(&semicolon)))
        }
        Note::NoMetrics { more, problem, .. } => {
            let why = words.reasons().cause(&Cause::NoMetrics { problem: problem.clone() });
            (if *more == 0 { "" } else { "-several" }, args.with("why", why))
        }
        Note::Partial { used, of, ended: others } => {
            let each = others.iter().map(|OutcomeCount { outcome, gpu, n }| {
                let args = Args::new().with("n", n.to_string()).with("outcome", ended(*outcome, *gpu, words));
                words.text("partial-ended", &args)
            });
            let told = u64::from(*used) + others.iter().map(|ended| u64::from(ended.n)).sum::<u64>();
            let rest = (u64::from(*of) > told).then(|| words.word("partial-rest"));
            let others = each.chain(rest).collect::<Vec<_>>().join(&words.word("mark-comma"));
            ("", args.with("others", others))
        }
        Note::Baseline { of } if of.is_empty() => ("-first", args),
        Note::NoColumn { nearest: Some(_), .. } => ("-near", args),
        Note::Resumed { more, whole: true, .. } => {
            return words
                .text(if *more == 0 { "note-wall-of-attempts" } else { "note-wall-of-attempts-several" }, &args);
        }
        Note::Accepted { more, .. } | Note::Resumed { more, .. } if *more > 0 => ("-several", args),
        Note::Environments { varying, more } => {
            let each = varying.iter().map(|one| match &*one.values {
                [] => safe::code(&one.name),
                values => format!("{} {}", safe::text(&one.name), safe::text(&values.join(" / "))),
            });
            let list = each.collect::<Vec<_>>().join(&semicolon);
            (if *more == 0 { "" } else { "-more" }, args.with("list", list))
        }
        _ => ("", args),
    };
    words.text(&format!("note-{kind}{key}"), &args)
}

/// Displayed names of a table's columns and axes: the author's labels, then the catalogue's.
pub(crate) struct Names<'a> {
    pub(crate) table: &'a Table,
    pub(crate) words: Locale<'a>,
}

impl Names<'_> {
    /// For the header of a column, or the start of a line, as Markdown.
    pub(crate) fn head(&self, of: &str) -> String {
        self.own(of).map_or_else(|| name(of, self.words), |label| safe::text(label.of(self.words.lang)))
    }

    /// The same for a picture.
    pub(crate) fn plain(&self, of: &str) -> String {
        let plain = || known(of, self.words).unwrap_or_else(|| of.to_owned());
        self.own(of).map_or_else(plain, |label| label.of(self.words.lang).to_owned())
    }

    /// The author's label.
    fn own(&self, of: &str) -> Option<&Text> {
        self.table.columns.iter().filter(|c| c.name == of && c.derived.is_none()).find_map(|c| c.label.as_ref())
    }

    /// Whether it is a time: more is longer.
    pub(crate) fn is_time(&self, of: &str) -> bool {
        let time = |unit: &str| ["ms", "s", "min", "h"].contains(&unit);
        self.table.columns.iter().any(|c| c.name == of && c.derived.is_none() && time(&c.show.unit))
    }

    /// Whether it begins with the author's spelling of a name, `lr_decay`.
    pub(crate) fn begins(&self, text: &str) -> bool {
        let own = |name: &str| self.plain(name) == name && text.starts_with(&safe::text(name));
        self.table.columns.iter().any(|c| own(&c.name))
    }

    pub(crate) fn inline(&self, of: &str) -> String {
        inline(&self.head(of), self.words)
    }

    /// A column and its axis, as the variables of a message.
    pub(crate) fn over(&self, column: &str, axis: &str) -> Args {
        Args::new().with("column", self.inline(column)).with("axis", self.inline(axis))
    }

    /// With a capital first letter, unless it begins a name as written by the author.
    pub(crate) fn capital(&self, text: String) -> String {
        let mut chars = text.chars();
        match chars.next() {
            Some(first) if !self.begins(&text) => first.to_uppercase().collect::<String>() + chars.as_str(),
            _ => text,
        }
    }

    /// A sentence, with its scope unless that is the whole table.
    pub(crate) fn scoped(&self, scope: &Option<String>, text: String) -> String {
        let Some(scope) = scope else { return text };
        // A label in words, such as `the GPU`, begins the sentence. Any other name stays as it is written.
        let mut letters = scope.chars();
        let first = letters.next().filter(|first| first.is_lowercase() && is_words(scope));
        let (key, scope) = match first {
            Some(first) => ("scoped-words", first.to_uppercase().collect::<String>() + letters.as_str()),
            None => ("scoped", scope.clone()),
        };
        self.words.text(key, &Args::new().with("scope", safe::text(&scope)).with("text", text))
    }
}

/// Whether a scope consists of words and is not the name or value of an axis.
fn is_words(scope: &str) -> bool {
    scope.contains(' ') && scope.chars().all(|c| c.is_alphabetic() || c == ' ')
}
