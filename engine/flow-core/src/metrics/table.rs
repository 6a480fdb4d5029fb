//! A table with a header, read incrementally: a record counts once it is complete.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::{
    Key, MetricRow,
    columns::{Columns, Field, Name, key_name},
    number::{self, NumberForm},
};

/// Maximum bytes of a line or a table row, in a file that is read line by line.
pub(super) const LONGEST_RECORD: usize = 64 << 20;

/// A partly read table.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) columns: Columns,
    /// Text before the header is complete, and the number of lines skipped there.
    head: String,
    passed: u64,
    /// The last line that begins with `#`.
    comment: Option<String>,
    records: Option<Records>,
    /// The id and name of each column; `None` before the header.
    header: Option<Vec<(String, String)>>,
    /// Whether the first row has numbers and nothing names them.
    pub(super) nameless: bool,
    /// Whether a record exceeded the limit, for example after an unclosed quote. Nothing after it is read.
    pub(super) too_long: bool,
}

/// The records of a table.
#[derive(Debug)]
struct Records {
    reader: Reader,
    delimiter: char,
    /// The line at which the present record begins, counted from the header.
    line: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The used length of these two.
    filled: (usize, usize),
}

impl Table {
    /// Reads the records that this text completes. It follows the text before.
    pub(super) fn feed(&mut self, text: &str, rows: &mut Vec<MetricRow>) {
        if self.too_long {
            return;
        }
        if self.records.is_some() {
            return self.records(text.as_bytes(), rows);
        }
        self.head.push_str(text);
        let mut from = 0;
        while let Some(end) = self.head[from..].find('\n').map(|end| from + end) {
            let line = self.head[from..end].trim_start_matches('\u{feff}');
            if let Some(comment) = line.trim_start().strip_prefix('#') {
                self.comment = Some(comment.to_owned());
            } else if !line.trim().is_empty() {
                // The comment may hold the names, and then this line may have decimal commas.
                let is_row = line.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                let names = self.comment.as_deref().filter(|_| is_row).unwrap_or(line);
                self.records = Some(Records::new(delimiter(names)));
                let begin = end - line.len();
                let table = std::mem::take(&mut self.head).split_off(begin);
                return self.records(table.as_bytes(), rows);
            }
            self.passed += 1;
            from = end + 1;
        }
        self.head.drain(..from);
    }

    /// Ends the table. If the program `ended` by itself, an unterminated last line is complete.
    pub(super) fn end(&mut self, ended: bool, rows: &mut Vec<MetricRow>) {
        if ended && self.records.is_none() && !self.head.is_empty() {
            self.feed("\n", rows);
        } else if ended {
            self.records(&[], rows);
        }
    }

    /// Reads records; with empty input, the unterminated last one.
    fn records(&mut self, mut input: &[u8], rows: &mut Vec<MetricRow>) {
        let Some(mut records) = self.records.take() else { return };
        let is_end = input.is_empty();
        while is_end || !input.is_empty() {
            let (text, ends) = (&mut records.text[records.filled.0..], &mut records.ends[records.filled.1..]);
            let (result, read, written, ended) = records.reader.read_record(input, text, ends);
            input = &input[read..];
            records.filled = (records.filled.0 + written, records.filled.1 + ended);
            match result {
                ReadRecordResult::OutputFull if records.text.len() >= LONGEST_RECORD => {
                    self.too_long = true;
                    return;
                }
                ReadRecordResult::OutputFull => records.text.resize(records.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => records.ends.resize(records.ends.len() * 2, 0),
                ReadRecordResult::Record => {
                    let text = String::from_utf8_lossy(&records.text[..records.filled.0]);
                    let mut from = 0;
                    let ends = records.ends[..records.filled.1].iter();
                    let fields: Vec<&str> = ends
                        .map(|end| text.get(std::mem::replace(&mut from, *end)..*end).unwrap_or_default().trim())
                        .collect();
                    self.record(&fields, self.passed + records.line, records.delimiter, rows);
                    records.filled = (0, 0);
                    records.line = records.reader.line();
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::End => break,
            }
            if self.nameless {
                break;
            }
        }
        self.records = Some(records);
    }

    fn record(&mut self, fields: &[&str], line: u64, delimiter: char, rows: &mut Vec<MetricRow>) {
        if fields.iter().all(|field| field.is_empty()) {
            return;
        }
        let Some(header) = &self.header else {
            let is_number =
                |field: &&&str| number::read(field, NumberForm::Any).is_ok() || number::is_like_number(field);
            if fields.iter().filter(|field| !field.is_empty()).all(|field| is_number(&field)) {
                // `numpy.savetxt` writes the names after a `#`.
                let comment = self.comment.take().unwrap_or_default();
                let names: Vec<&str> = comment.split(delimiter).map(str::trim).collect();
                self.nameless = names.len() != fields.len() || comment.trim().is_empty();
                if !self.nameless {
                    self.names(&names);
                    self.record(fields, line, delimiter, rows);
                }
            } else {
                self.names(fields);
            }
            return;
        };
        if fields.len() != header.len() {
            return self.columns.ragged(line, header.len(), fields.len());
        }
        let mut key = Key::default();
        for ((_, name), field) in header.iter().zip(fields).filter(|((id, _), _)| id.is_empty()) {
            self.columns.take_key(name, Field::Text(field, ""), &mut key);
        }
        for ((id, _), field) in header.iter().zip(fields).filter(|((id, _), _)| !id.is_empty()) {
            // Between semicolons, a comma may be a decimal comma or a thousands separator.
            let field =
                if delimiter == ';' && field.contains(',') { Field::Unclear(field) } else { Field::Text(field, "") };
            self.columns.take(id, field, key, rows);
        }
    }

    /// Takes the names of a header. An epoch and a step have an empty `id`.
    fn names(&mut self, fields: &[&str]) {
        let mut keys = [false; 2];
        let mut one = |(n, name): (usize, &&str)| {
            let is_key = key_name(name).is_some_and(|epoch| !std::mem::replace(&mut keys[usize::from(epoch)], true));
            (if is_key { String::new() } else { n.to_string() }, (*name).to_owned())
        };
        let header: Vec<(String, String)> = fields.iter().enumerate().map(&mut one).collect();
        let name = |(id, name): &(String, String)| Name { id: id.clone(), metric: name.clone(), shown: name.clone() };
        self.columns.name(header.iter().filter(|(id, _)| !id.is_empty()).map(name), true);
        self.header = Some(header);
    }
}

impl Records {
    fn new(delimiter: char) -> Records {
        let reader = ReaderBuilder::new().delimiter(delimiter as u8).build();
        Records { reader, delimiter, line: 1, text: vec![0; 4096], ends: vec![0; 64], filled: (0, 0) }
    }
}

/// The delimiter of a header: a comma if it has one, else a tab or a semicolon.
fn delimiter(header: &str) -> char {
    let mut quoted = false;
    let outside: Vec<char> = header
        .chars()
        .filter(|c| {
            quoted ^= *c == '"';
            !quoted
        })
        .collect();
    [',', '\t', ';'].into_iter().find(|c| outside.contains(c)).unwrap_or(',')
}

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    /// Reads a text in pieces of this length.
    fn read_in_pieces(text: &str, length: usize) -> (Vec<String>, Vec<String>) {
        let (mut table, mut rows) = (Table::default(), Vec::new());
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(length).for_each(|piece| table.feed(&piece.iter().collect::<String>(), &mut rows));
        table.end(true, &mut rows);
        (shown(rows), table.columns.remarks("m.csv"))
    }

    fn read_text(text: &str) -> (Vec<String>, Vec<String>) {
        let whole = read_in_pieces(text, text.len().max(1));
        for length in [1, 3, 7] {
            assert_eq!(read_in_pieces(text, length), whole, "{text} in pieces of {length}");
        }
        whole
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn columns_that_have_other_names_as_metrics_are_told() {
        let text = "epoch,Loss,\"bytes written\",run name,temp °C,Größe,1st,\n1,2,3,a,,5,6,7\n2,2,3,b,4,5,6,7\n";
        let expected = "names in `m.csv` become metrics with other names: `bytes written` as `bytes_written`, `temp °C` as `temp__c`, `1st` as `n_1st`";
        assert_eq!(read_text(text).1, [expected]);
    }

    #[test]
    fn numbers_are_read_as_in_patterns_and_what_is_none_is_told() {
        for (text, numbers, remarks) in [
            ("epoch,n\n\"1,000\",\"12,345.5\"\n", &["1000:n=12345.5"][..], &[][..]),
            ("n,loss\n1_000,inf\n", &["n=1000", "loss=inf"], &[]),
            ("acc,run\n50%,a\n60%,b\n70%,c\n", &["acc=50 %", "acc=60 %", "acc=70 %"], &[]),
            (
                "acc,loss,2\n0.5,\"1,00\",3\nabc,\"0,85\",x\n,,\n",
                &["acc=0.5", "n_2=3"],
                &[
                    "names in `m.csv` become metrics with other names: `2` as `n_2`",
                    "`acc` of `m.csv`: `abc` is not a number (1 value); `loss`: `1,00` is not a number (2 values); `2`: `x` is not a number (1 value)",
                ],
            ),
            ("epoch,mem\n1,12G\n", &[], &["`mem` of `m.csv`: the unit of `12G` is ambiguous (1 value)"]),
            ("run,day\n3layers,2026-11-26\nbig,2026-11-27 10:00\n", &[], &[]),
            ("Epoch,STEP,loss\n0.5,10,2\n1/2,20,1\n", &["0.5:10@loss=2", "1:20@loss=1"], &[]),
        ] {
            assert_eq!(read_text(text), (owned(numbers), owned(remarks)), "{text}");
        }
        let head: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        let wide = read_text(&format!("{}\n{}\n", head.join(","), ["1kg"; 10].join(",")));
        assert!(wide.1[0].ends_with("`c7`: `1kg` is not a number (1 value); and 2 more"), "{wide:?}");
    }

    #[test]
    fn a_row_that_has_not_the_fields_of_the_header_gives_no_numbers() {
        for (text, numbers, remark) in [
            (
                "epoch,images,acc\n1,12,345,0.5\n2,12,345,0.6\n",
                &[][..],
                "`m.csv`, line 2 is not read: expected 3 fields, found 4 (2 such rows)",
            ),
            (
                "epoch,images,acc\n1,100,0.5\n2,0.6\n",
                &["1:images=100", "1:acc=0.5"],
                "`m.csv`, line 3 is not read: expected 3 fields, found 2",
            ),
            ("# a\n\nepoch,t\n1,\"x\ny\"\n2,3,\n", &[], "`m.csv`, line 6 is not read: expected 2 fields, found 3"),
        ] {
            assert_eq!(read_text(text), (owned(numbers), owned(&[remark])), "{text}");
        }
    }

    #[test]
    fn no_two_columns_are_one() {
        let text = "epoch,loss,Loss,val/loss,val_loss,loss,Epoch\n0,0.5,9,1,2,7,3\n";
        let numbers = ["0:loss=0.5", "0:loss_3=9", "0:val_loss_2=1", "0:val_loss=2", "0:loss_2=7", "0:epoch_2=3"];
        let remark = "names in `m.csv` become metrics with other names: `Loss` as `loss_3`, `val/loss` as `val_loss_2`, `loss` as `loss_2`, `Epoch` as `epoch_2`";
        assert_eq!(read_text(text), (owned(&numbers), owned(&[remark])));
    }

    #[test]
    fn comments_and_other_signs_between_fields_are_known() {
        for (text, numbers) in [
            ("# torch 2.1, host gpu7\nepoch,loss\n1,0.5\n2,0.25\n", &["1:loss=0.5", "2:loss=0.25"][..]),
            ("#a\n# epoch,loss\n1,0.5\n2,0.25", &["1:loss=0.5", "2:loss=0.25"]),
            ("# epoch;loss\n1;0,5\n2;0.25\n", &["2:loss=0.25"]),
            ("epoch\tloss\n1\t1,000\n", &["1:loss=1000"]),
            ("epoch;loss\n1;0.5\n2;0,25\n3;1,234\n", &["1:loss=0.5"]),
            ("\u{feff}epoch,a;b\r\n1,2\r\n", &["1:a_b=2"]),
            ("\n\nepoch,loss\n\n1,2\n", &["1:loss=2"]),
        ] {
            assert_eq!(read_text(text).0, owned(numbers), "{text}");
        }
        for (text, nameless) in [("1,0.5\n2,0.25\n", true), ("# a,b,c\n1,0.5\n", true), ("a,1\n2,3\n", false)] {
            let mut table = Table::default();
            table.feed(text, &mut Vec::new());
            assert_eq!(table.nameless, nameless, "{text}");
        }
    }

    #[test]
    fn a_quoted_field_may_have_lines_and_one_without_end_costs_no_more() {
        let text = "epoch,note,loss\n1,\"multi\n7,x,0.001\nend\",0.4\n2,\"a, b\",0.2\n";
        assert_eq!(read_text(text), (owned(&["1:loss=0.4", "2:loss=0.2"]), vec![]));
        let (mut table, mut rows) = (Table::default(), Vec::new());
        table.feed("epoch,loss\n1,0.5\n2,\"", &mut rows);
        for _ in 0..1_000_000 {
            table.feed("x\n", &mut rows);
        }
        table.end(true, &mut rows);
        assert_eq!(shown(rows), ["1:loss=0.5"]);
    }
}
