//! Turns results into tables, verdicts, findings, charts and bilingual reports: flow's own steps `flow/table`,
//! `flow/fit`, `flow/jumps`, `flow/best` and `flow/report`, and the files of `publish:`.
//!
//! ```text
//! results ── table ──▶ Table (typed cells) ──┬── markdown, csv, json
//!                                            ├── analyses
//!                                            └── findings, verdict ──▶ report model ── words (Fluent) ──▶ templates ──▶ .md, .html, .svg
//! ```
//!
//! The crate uses no files, processes, threads, environment, clock or randomness: bytes and values in, bytes and values
//! out. Templates and catalogues are part of the binary.
#![forbid(unsafe_code)]

mod analysis;
mod assumptions;
mod bounds;
mod builtins;
mod caveats;
mod chart;
mod columns;
mod entries;
mod findings;
mod format;
mod gantt;
#[cfg(test)]
mod locale_tests;
mod publish;
mod reasons;
mod report;
mod safe;
mod significance;
mod steps;
mod table;
mod verdict;
mod words;

pub use assumptions::{AssumedKind, AssumedLoad, AssumedSlurm, Assumptions};
pub use builtins::Reports;
pub use columns::measured;
pub use format::Format;
pub use gantt::{Bar, Gantt};
pub use reasons::Reasons;
pub use safe::{cell as csv_cell, value_without_folders as without_folders};
pub use words::{LANGUAGES, Words};
