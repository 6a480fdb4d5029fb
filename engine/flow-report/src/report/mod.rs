//! Reports: what the steps that a report names come to, as one model, worded in each language and laid out by templates.

mod charts;
mod check;
mod doubts;
mod entry;
mod model;
mod prose;
mod render;
mod schedule;
mod setup;
mod together;
mod with;

pub(crate) use check::check;
pub(crate) use model::report;
pub(crate) use render::{in_language, render};
pub(crate) use with::ReportWith;
