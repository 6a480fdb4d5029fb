//! Typed tables: turns the results of a step into rows and columns of cells with units, and writes them as Markdown and
//! CSV.

mod build;
mod check;
mod csv;
mod curve;
mod derive;
mod digits;
mod environments;
mod epochs;
mod grid;
mod groups;
mod labels;
mod machines;
mod markdown;
mod model;
mod narrow;
mod reference;
mod with;

pub(crate) use build::build;
pub(crate) use check::{check, is_wrong, no_point, not_a_table};
pub(crate) use csv::csv;
pub(crate) use curve::{Curve, by_gpus, rows_by_others};
pub(crate) use digits::{Reading, enough, refine};
pub(crate) use epochs::{EPOCH, PART, SeriesUnit};
pub(crate) use grid::{Grid, GridColumns, dash};
pub(crate) use labels::{everywhere, named, number_columns};
pub(crate) use machines::MACHINE;
pub(crate) use markdown::{Names, content, earlier, inline, markdown, name, plain, unit_of, with_spread, worded};
pub(crate) use model::{
    Cell, Center, Column, Content, Note, Reference, Row, Spread, Table, unknown_column, unknown_columns,
};
pub(crate) use narrow::narrow;
pub(crate) use with::{ByLanguage, ComputedFunction, TableWith, Text};
