//! Tables, findings, charts and reports as people read them, from published, made-up and hostile results.

mod common;

mod analysis;
mod best;
mod charts;
mod compared;
mod disturbed;
mod entry;
mod findings;
mod first_screen;
mod head;
mod hostile;
mod labels;
mod load;
mod machines;
mod notes;
mod packed;
mod page;
mod planning;
mod reasons;
mod reference;
mod report;
mod schedules;
mod series;
mod table;
mod verdicts;
