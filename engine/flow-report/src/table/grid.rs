//! Tables of finished texts as Markdown that is also aligned in a terminal, where Chinese characters are two columns
//! wide.

use unicode_width::UnicodeWidthStr;

use crate::format::Format;
use crate::words::Locale;

/// A table of finished texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grid {
    /// Headers, and whether the column is numeric.
    pub(crate) heads: Vec<(String, bool)>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without columns that are empty in every row.
    pub(crate) fn without_empty(mut self) -> Self {
        let says =
            |at: usize| self.rows.is_empty() || self.rows.iter().any(|row| row.get(at).is_some_and(|c| c != "—"));
        let kept: Vec<usize> = (0..self.heads.len()).filter(|at| says(*at)).collect();
        self.heads = kept.iter().map(|at| self.heads[*at].clone()).collect();
        for row in &mut self.rows {
            *row = kept.iter().filter_map(|at| row.get(*at).cloned()).collect();
        }
        self
    }

    /// As Markdown, with numbers formatted for this language and aligned right.
    pub(crate) fn markdown(&self, words: Locale<'_>) -> String {
        let escaped = |text: &str| text.replace('|', "\\|").replace(['\r', '\n'], " ");
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| escaped(head)).collect();
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| escaped(&words.typeset(cell))).collect()).collect();
        let widths: Vec<usize> = (0..heads.len())
            .map(|at| {
                let cells = rows.iter().filter_map(|row| row.get(at));
                cells.chain([&heads[at]]).map(|text| text.width()).max().unwrap_or(0).max(3)
            })
            .collect();
        let line = |cells: &[String]| {
            let padded = widths.iter().zip(&self.heads).enumerate().map(|(at, (width, (_, right)))| {
                let text = cells.get(at).map_or("", String::as_str);
                let fill = " ".repeat(width.saturating_sub(text.width()));
                if *right { format!("{fill}{text}") } else { format!("{text}{fill}") }
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule = widths.iter().zip(&self.heads).map(|(width, (_, right))| match right {
            true => format!("{}:", "-".repeat(width + 1)),
            false => "-".repeat(width + 2),
        });
        let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
        let mut out = line(&heads) + &rule;
        out.extend(rows.iter().map(|row| line(row)));
        out
    }
}

/// The columns of a grid that has a row for each `R`.
pub(crate) struct GridColumns<'a, R>(Vec<GridColumn<'a, R>>);

/// A header, whether the column is numeric, and its cell in a row.
type GridColumn<'a, R> = (String, bool, Box<dyn Fn(R) -> String + 'a>);

impl<'a, R: Copy + 'a> GridColumns<'a, R> {
    pub(crate) fn new() -> Self {
        GridColumns(Vec::new())
    }

    pub(crate) fn text(&mut self, head: String, cell: impl Fn(R) -> String + 'a) {
        self.0.push((head, false, Box::new(cell)));
    }

    pub(crate) fn number(&mut self, head: String, cell: impl Fn(R) -> String + 'a) {
        self.0.push((head, true, Box::new(cell)));
    }

    /// A column of numbers, which some rows may lack.
    pub(crate) fn figure(&mut self, head: String, show: &Format, value: impl Fn(R) -> Option<f64> + 'a) {
        let show = show.clone();
        self.number(head, move |row| value(row).map_or_else(dash, |value| show.cell(value)));
    }

    pub(crate) fn grid(self, rows: impl IntoIterator<Item = R>) -> Grid {
        let cells = |row: R| self.0.iter().map(|(.., cell)| cell(row)).collect();
        let rows = rows.into_iter().map(cells).collect();
        Grid { heads: self.0.into_iter().map(|(head, right, _)| (head, right)).collect(), rows }
    }
}

/// The text of an empty cell.
pub(crate) fn dash() -> String {
    "—".into()
}
