//! A CSV file as text: a header, and lines of cells with their line numbers. It does not know their meaning.

use crate::reason::{Fault, FileFault};

/// A CSV file with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub heads: Vec<String>,
    /// The number of each line, from 1, and as many cells as the header has.
    pub lines: Vec<(u64, Vec<String>)>,
}

impl Sheet {
    /// Reads it; blanks around cells are dropped.
    ///
    /// # Errors
    /// The bad line, and what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Sheet, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|_| FileFault::NoText)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
        let heads: Vec<String> = reader.headers().map_err(|e| e.to_string())?.iter().map(str::to_owned).collect();
        if heads.iter().all(String::is_empty) {
            return Err(FileFault::SheetEmpty.into());
        }
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|e| e.to_string())?;
            // The reader skips empty lines, but reports a record's position before them.
            let line = record.position().map_or(0, |at| {
                let rest = text.get(at.byte() as usize..).unwrap_or_default();
                let empty = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
                at.line() + rest[..empty].matches('\n').count() as u64
            });
            if record.len() != heads.len() {
                let (found, expected) = (record.len() as u64, heads.len() as u64);
                return Err(FileFault::SheetLine { line, found, expected }.into());
            }
            lines.push((line, record.iter().map(str::to_owned).collect()));
        }
        Ok(Sheet { heads, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let sheet = Sheet::read("\u{feff}batch, epoch_s\n16,37.40\n\n32,\"19.6\"\n".as_bytes()).expect("a sheet");
        assert_eq!(sheet.heads, ["batch", "epoch_s"]);
        let cells = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(sheet.lines, [(2, cells("16", "37.40")), (4, cells("32", "19.6"))]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let said = |text: &[u8]| Sheet::read(text).expect_err("wrong").to_string();
        assert_eq!(said(b"a,b\n1,2\n3\n"), "line 3 has 1 cells, but the first line names 2 columns");
        assert!(said(b"").contains("empty") && said(b"\xff").contains("UTF-8"));
    }
}
