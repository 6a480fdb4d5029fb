//! A table with a header, as text: from its fields to rows, and what is to be told of its columns.

use super::{Key, MetricRow, metric_name, pattern::whole_number, push, whole};

/// What people are told of the columns of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Columns {
    /// Those of numbers whose names are not those of their metrics, capital letters aside, with the metrics; of a name without a letter at
    /// its beginning there is none.
    renamed: Vec<(String, Option<String>)>,
    /// Those in which there is something else than numbers.
    unread: Vec<Unread>,
}

/// What is no number in a column that is to have numbers.
#[derive(Clone, Debug, PartialEq)]
struct Unread {
    column: String,
    /// The first of it.
    field: String,
    rows: usize,
}

/// So many columns of a file are told.
const TOLD: usize = 8;

impl Columns {
    /// With all texts of others changed.
    pub(crate) fn hidden(self, hide: impl Fn(String) -> String) -> Columns {
        let unread = |of: Unread| Unread { column: hide(of.column), field: hide(of.field), ..of };
        Columns {
            renamed: self.renamed.into_iter().map(|(column, metric)| (hide(column), metric.map(&hide))).collect(),
            unread: self.unread.into_iter().map(unread).collect(),
        }
    }

    /// What is told, of a table in this file.
    pub(crate) fn remarks(&self, file: &str) -> Vec<String> {
        let renamed = self.renamed.iter().map(|(column, metric)| match metric {
            Some(metric) => format!("`{column}` as `{metric}`"),
            None => format!("`{column}` as none, for a name begins with a letter"),
        });
        let unread = self.unread.iter().enumerate().map(|(n, Unread { column, field, rows })| {
            let of = if n == 0 { format!(" of `{file}`") } else { String::new() };
            let rows = if *rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
            format!("`{column}`{of}: `{}` is no number ({rows})", super::cut(field))
        });
        let renamed = first(renamed, ", ").map(|all| format!("columns of `{file}` are metrics by other names: {all}"));
        renamed.into_iter().chain(first(unread, "; ")).collect()
    }
}

/// The first of many as one text, if there are any.
fn first(mut all: impl ExactSizeIterator<Item = String>, between: &str) -> Option<String> {
    let told: Vec<String> = all.by_ref().take(TOLD).collect();
    let more = if all.len() > 0 { format!("{between}and {} more", all.len()) } else { String::new() };
    (!told.is_empty()).then(|| told.join(between) + &more)
}

/// A column as far as it was read.
struct Column<'a> {
    name: &'a str,
    metric: Option<String>,
    numbers: usize,
    /// Fields that are neither numbers nor empty, and the first of them.
    others: usize,
    other: String,
    /// All of these begin as numbers do.
    like_numbers: bool,
}

impl<'a> Column<'a> {
    fn new(name: &'a str) -> Self {
        let (metric, other) = (metric_name(name), String::new());
        Column { name, metric, numbers: 0, others: 0, other, like_numbers: true }
    }

    fn take(&mut self, field: &str, is_number: bool) {
        self.numbers += usize::from(is_number);
        if !is_number && !field.is_empty() {
            self.others += 1;
            self.like_numbers &= like_number(field);
            if self.others == 1 {
                self.other = field.to_owned();
            }
        }
    }

    fn is_renamed(&self) -> bool {
        self.numbers > 0 && !self.name.is_empty() && self.metric.as_ref() != Some(&self.name.to_lowercase())
    }

    /// A column of plain text is to have no numbers.
    fn is_unread(&self) -> bool {
        self.metric.is_some() && self.others > 0 && (self.numbers > 0 || self.like_numbers)
    }
}

/// It begins as a number does, and is no date.
fn like_number(field: &str) -> bool {
    let digits = field.trim_start_matches(['+', '-', '.']);
    digits.starts_with(|c: char| c.is_ascii_digit()) && !super::pattern::is_date(digits)
}

/// Reads the rows of a table.
pub(super) fn read(text: &str, rows: &mut Vec<MetricRow>) -> Columns {
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let Ok(header) = reader.headers().cloned() else { return Columns::default() };
    let epoch_at = header.iter().position(|name| name.eq_ignore_ascii_case("epoch"));
    let mut columns: Vec<Column<'_>> = header.iter().map(Column::new).collect();
    for record in reader.records().flatten() {
        let epoch = epoch_at.and_then(|i| whole_number(record.get(i)?)).and_then(whole);
        let key = epoch.map_or(Key::default(), Key::of_epoch);
        for (i, (column, field)) in columns.iter_mut().zip(&record).enumerate() {
            let value = whole_number(field);
            column.take(field, value.is_some());
            if Some(i) != epoch_at {
                push(column.name, value, "", key, rows);
            }
        }
    }
    let renamed = columns.iter().filter(|column| column.is_renamed());
    let unread = columns.iter().filter(|column| column.is_unread());
    Columns {
        renamed: renamed.map(|column| (column.name.to_owned(), column.metric.clone())).collect(),
        unread: unread
            .map(|column| Unread { column: column.name.to_owned(), field: column.other.clone(), rows: column.others })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    fn told(text: &str) -> (Vec<String>, Vec<String>) {
        let mut rows = Vec::new();
        let columns = read(text, &mut rows);
        (shown(rows), columns.remarks("m.csv"))
    }

    #[test]
    fn columns_that_have_other_names_as_metrics_are_told() {
        let text = "epoch,Loss,\"bytes written\",run name,temp °C,Größe,1st,\n1,2,3,a,,5,6,7\n2,2,3,b,4,5,6,7\n";
        let expected = "columns of `m.csv` are metrics by other names: `bytes written` as `bytes_written`, `temp °C` as `temp__c`, `1st` as none, for a name begins with a letter";
        assert_eq!(told(text).1, [expected]);
    }

    #[test]
    fn numbers_are_read_as_in_patterns_and_what_is_none_is_told() {
        let none: [&str; 0] = [];
        for (text, numbers, remarks) in [
            ("epoch,n\n\"1,000\",\"12,345.5\"\n", &["1000:n=12345.5"][..], &[][..]),
            ("n,loss\n1_000,inf\n", &["n=1000", "loss=NaN"], &[]),
            ("acc,run\n50%,a\n60%,b\n70%,c\n", &none, &["`acc` of `m.csv`: `50%` is no number (3 rows)"]),
            (
                "acc,loss,1st\n0.5,\"1,00\",3\nabc,\"0,85\",x\n,,\n",
                &["acc=0.5"],
                &[
                    "columns of `m.csv` are metrics by other names: `1st` as none, for a name begins with a letter",
                    "`acc` of `m.csv`: `abc` is no number (1 row); `loss`: `1,00` is no number (2 rows)",
                ],
            ),
            // Only below `epoch` there are numbers.
            ("epoch,acc\n1,50%\n", &none, &["`acc` of `m.csv`: `50%` is no number (1 row)"]),
            ("run,day\n3layers,2026-11-26\nbig,2026-11-27 10:00\n", &none, &[]),
        ] {
            let told = told(text);
            assert_eq!(
                (told.0, told.1),
                (numbers.iter().map(|n| (*n).to_owned()).collect(), remarks.iter().map(|r| (*r).to_owned()).collect()),
                "{text}"
            );
        }
        let wide = told(&format!(
            "{}\n{}\n",
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].join(","),
            ["1%"; 10].join(",")
        ));
        assert!(wide.1[0].ends_with("`h`: `1%` is no number (1 row); and 2 more"), "{wide:?}");
    }
}
