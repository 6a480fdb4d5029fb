//! Reports: the results of the steps that a report names become one model, which is worded in each language and laid
//! out by templates.

mod answer;
mod assumptions;
mod bars;
mod brief;
mod chart_data;
mod charts;
mod check;
mod differences;
mod doubts;
mod front;
mod gains;
mod guess;
mod html;
mod judged;
mod labels;
mod lines;
mod load;
mod model;
mod picture;
mod prose;
mod render;
mod reproduction;
mod schedule;
mod setup;
mod together;
mod units;
mod with;

pub(crate) use check::{check, verdicts};
#[cfg(test)]
pub(crate) use model::REPORT_FORMAT;
pub(crate) use model::report;
pub(crate) use render::{answers, in_language, in_short, page, render};
pub(crate) use with::ReportWith;
