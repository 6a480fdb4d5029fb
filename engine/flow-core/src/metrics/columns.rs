//! The names in a file of numbers (columns of a table, keys of JSON) and their values. Two names never become one
//! metric.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Key, MetricRow, cut, metric_letters,
    number::{self, NotRead, Number, NumberForm},
    readable_name,
    unread::{not_read, several},
};

/// The value under a name.
#[derive(Clone, Debug)]
pub(super) enum Field<'a> {
    /// With its unit, or empty.
    Number(f64, &'a str),
    /// With the unit that the file declares, or empty.
    Text(&'a str, &'a str),
    /// It begins like a number but could mean two numbers.
    Unclear(&'a str),
    /// A list of this length in place of one value.
    List(usize),
}

/// A name in a file.
#[derive(Clone, Debug)]
pub(super) struct Name {
    /// Unique in the file.
    pub(super) id: String,
    /// Becomes the metric's name.
    pub(super) metric: String,
    /// For messages.
    pub(super) shown: String,
}

/// The values under a name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Column {
    name: String,
    /// Its name as a metric; `None` for an epoch, a step, or a name without letters and digits.
    metric: Option<String>,
    /// Whether the metric's name differs from it.
    renamed: bool,
    numbers: usize,
    /// Count of texts that are neither numbers nor empty, and the first of them.
    others: usize,
    other: (String, NotRead),
    /// One of these does not begin like a number.
    has_words: bool,
}

/// A row with more or fewer fields than the header.
#[derive(Clone, Debug, PartialEq)]
struct RaggedRow {
    line: u64,
    expected: usize,
    found: usize,
    rows: usize,
}

/// All names of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Columns {
    all: Vec<Column>,
    /// By id.
    index: BTreeMap<String, usize>,
    taken: BTreeSet<String>,
    ragged: Option<RaggedRow>,
}

/// Whether this is the name of an epoch (`Some(true)`) or of a step (`Some(false)`).
pub(super) fn key_name(name: &str) -> Option<bool> {
    let is = |key: &str| name.eq_ignore_ascii_case(key);
    if is("epoch") { Some(true) } else { is("step").then_some(false) }
}

impl Columns {
    /// Names the metrics of new columns. Names that need no change go first; on a collision the later metric is
    /// `NAME_2`. With `remarked`, a change of letters also counts as a renaming.
    pub(super) fn name(&mut self, names: impl Iterator<Item = Name>, remarked: bool) {
        let mut ids = BTreeSet::new();
        let is_new = |name: &Name| !self.knows(&name.id) && ids.insert(name.id.clone());
        let new: Vec<Name> = names.filter(is_new).collect();
        let metrics: Vec<Option<String>> = new.iter().map(|name| readable_name(&name.metric)).collect();
        let mut given: Vec<Option<String>> = vec![None; new.len()];
        for exact in [true, false] {
            for ((name, metric), given) in new.iter().zip(&metrics).zip(&mut given) {
                let Some(metric) = metric.as_ref().filter(|metric| (**metric == name.metric) == exact) else {
                    continue;
                };
                let free = |name: &String| key_name(name).is_none() && !self.taken.contains(name);
                let mut names = std::iter::once(metric.clone()).chain((2..).map(|n: u32| format!("{metric}_{n}")));
                *given = names.find(free);
                self.taken.extend(given.clone());
            }
        }
        for (Name { id, metric: written, shown }, metric) in new.into_iter().zip(given) {
            let plain =
                if remarked { written.to_lowercase() } else { metric_letters(&written).trim_matches('_').to_owned() };
            let renamed = !written.is_empty() && metric.as_ref() != Some(&plain);
            self.index.insert(id, self.all.len());
            self.all.push(Column { name: shown, metric, renamed, ..Column::default() });
        }
    }

    /// Whether this id is known, with or without a metric.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.index.contains_key(id)
    }

    /// Reads a value under a known id.
    pub(super) fn take(&mut self, id: &str, field: Field<'_>, key: Key, rows: &mut Vec<MetricRow>) {
        let Some(column) = self.index.get(id).and_then(|at| self.all.get_mut(*at)) else { return };
        if let (Some(Number { value, unit }), Some(name)) = (column.read(field, NumberForm::Any), &column.metric) {
            rows.push(MetricRow { key, name: name.clone(), value, unit });
        }
    }

    /// Reads an epoch or a step into a key.
    pub(super) fn take_key(&mut self, name: &str, field: Field<'_>, key: &mut Key) {
        let at = *self.index.entry(format!("\0{name}")).or_insert_with(|| {
            self.all.push(Column { name: name.to_owned(), ..Column::default() });
            self.all.len() - 1
        });
        let Some(column) = self.all.get_mut(at) else { return };
        if let Some(Number { value, .. }) = column.read(field.clone(), NumberForm::Key)
            && !key.set(key_name(name) == Some(true), value)
        {
            column.note(&value.to_string(), NotRead::NotANumber);
        }
    }

    /// Notes a row whose fields do not match the header. Its numbers are ignored.
    pub(super) fn ragged(&mut self, line: u64, expected: usize, found: usize) {
        self.ragged.get_or_insert(RaggedRow { line, expected, found, rows: 0 }).rows += 1;
    }

    /// With `hide` applied to all its texts.
    pub(crate) fn hidden(self, hide: impl Fn(String) -> String) -> Columns {
        let column = |of: Column| Column {
            name: hide(of.name),
            metric: of.metric.map(&hide),
            other: (hide(of.other.0), of.other.1),
            ..of
        };
        Columns {
            all: self.all.into_iter().map(column).collect(),
            index: BTreeMap::new(),
            taken: BTreeSet::new(),
            ..self
        }
    }

    /// Warnings about the file of this name.
    pub(crate) fn remarks(&self, file: &str) -> Vec<String> {
        let renamed: Vec<String> =
            self.all.iter().filter(|c| c.renamed && c.numbers > 0).map(Column::renaming).collect();
        let renamed = several(renamed.into_iter(), ", ")
            .map(|all| format!("names in `{file}` become metrics with other names: {all}"));
        let unread: Vec<&Column> = self.all.iter().filter(|column| column.is_unread()).collect();
        let unread = unread.iter().enumerate().map(|(n, column)| {
            let of = if n == 0 { format!(" of `{file}`") } else { String::new() };
            not_read(&format!("`{}`{of}", column.name), &column.other.0, &column.other.1, column.others, "value")
        });
        let ragged = self.ragged.as_ref().map(|RaggedRow { line, expected, found, rows }| {
            let more = if *rows == 1 { String::new() } else { format!(" ({rows} such rows)") };
            format!("`{file}`, line {line} is not read: expected {expected} fields, found {found}{more}")
        });
        renamed.into_iter().chain(several(unread, "; ")).chain(ragged).collect()
    }
}

impl Column {
    fn read(&mut self, field: Field<'_>, form: NumberForm<'_>) -> Option<Number> {
        let read = match &field {
            Field::Number(value, unit) => Ok(Number { value: *value, unit: (*unit).to_owned() }),
            Field::Text(text, _) if text.trim().is_empty() => return None,
            Field::Text(text, "") => number::read(text, form),
            Field::Text(text, unit) => number::read(text, NumberForm::In(unit)),
            Field::Unclear(_) => Err(NotRead::NotANumber),
            Field::List(_) => Err(NotRead::List),
        };
        match (read, field) {
            (Ok(number), _) => {
                self.numbers += 1;
                Some(number)
            }
            (Err(why), Field::Text(text, _) | Field::Unclear(text)) => {
                self.has_words |= !number::is_like_number(text.trim());
                self.note(text, why);
                None
            }
            (Err(why), Field::List(length)) => {
                self.note(&format!("[{length} values]"), why);
                None
            }
            (Err(_), Field::Number(..)) => None,
        }
    }

    fn note(&mut self, text: &str, why: NotRead) {
        self.others += 1;
        if self.others == 1 {
            self.other = (cut(text), why);
        }
    }

    /// A column of plain text is not meant to hold numbers.
    fn is_unread(&self) -> bool {
        self.others > 0 && !self.name.is_empty() && (self.numbers > 0 || !self.has_words)
    }

    fn renaming(&self) -> String {
        match &self.metric {
            Some(metric) => format!("`{}` as `{metric}`", self.name),
            None => format!("`{}` as no metric, because it has neither letters nor digits", self.name),
        }
    }
}
