//! Finds the columns of a trace: by flow's own names, those of published traces, or the user's names. Knows names only.

use std::collections::BTreeMap;

use flow_core::nearest;
use flow_core::reason::TraceFault;

use super::job::{COLUMNS, TraceError};

/// A column that a trace may have.
const OPTIONAL: &str = "priority";

/// Names in published traces: Tiresias, Philly and PAI (`num_gpu`, `submit_time`, `duration`), Helios (`gpu_num`).
const PUBLISHED: [(&str, &[&str]); 4] = [
    ("job_id", &["jobid"]),
    ("submit_s", &["submit_time", "submitted_time"]),
    ("num_gpus", &["num_gpu", "gpu_num"]),
    ("duration_s", &["duration", "run_time", "runtime"]),
];

/// The names of a trace's columns if they differ from flow's: `submit_s=submit_time,num_gpus=gpus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(BTreeMap<String, String>);

impl Columns {
    /// # Errors
    /// In words: a part is not OURS=THEIRS, or flow has no such column.
    pub fn parse(text: &str) -> Result<Columns, String> {
        let mut columns = BTreeMap::new();
        for part in text.split(',') {
            let Some((own, theirs)) = part.split_once('=').map(|(own, theirs)| (own.trim(), theirs.trim())) else {
                return Err(format!("`{part}` is not NAME=COLUMN, as in submit_s=submit_time"));
            };
            let known = || COLUMNS.into_iter().chain([OPTIONAL]);
            if !known().any(|known| known == own) {
                let near = nearest(own, known()).map(|near| format!("did you mean `{near}`?"));
                let all = || format!("there are {}", known().collect::<Vec<_>>().join(", "));
                return Err(format!("flow reads no column `{own}` of a trace; {}", near.unwrap_or_else(all)));
            }
            if columns.insert(own.to_owned(), theirs.to_owned()).is_some() {
                return Err(format!("`{own}` is given twice"));
            }
        }
        Ok(Columns(columns))
    }

    /// The first name that the user gives.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.values().next().map(String::as_str)
    }
}

/// How many GPUs a job has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gpus {
    pub(super) column: usize,
    /// A job may have a part of one.
    pub(super) parts: bool,
    /// The column of the number of instances; the value counts for each of them.
    pub(super) instances: Option<usize>,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(super) struct ColumnPlaces {
    pub(super) id: usize,
    pub(super) submitted: usize,
    pub(super) gpus: Gpus,
    pub(super) duration: usize,
    pub(super) priority: Option<usize>,
}

/// Finds the columns by the first line of a trace.
///
/// # Errors
/// Every missing column, with the most similar one; every name that occurs twice.
pub(super) fn find(header: &[&str], columns: &Columns) -> Result<ColumnPlaces, Vec<TraceError>> {
    let at = |name: &str| header.iter().position(|known| *known == name);
    let mut errors = Vec::new();
    let mut named = |own: &str| {
        let theirs = columns.0.get(own)?;
        if at(theirs).is_none() {
            errors.push(missing(theirs, header, |near| format!("write {}", option(own, near))));
        }
        Some(at(theirs).unwrap_or(usize::MAX))
    };
    let published = |names: &[&str]| names.iter().find_map(|name| at(name));
    let found = PUBLISHED.map(|(own, names)| named(own).or_else(|| at(own)).or_else(|| published(names)));
    let priority = named(OPTIONAL).or_else(|| at(OPTIONAL));
    let gpus = found[2].map(|column| {
        let name = header.get(column).copied().unwrap_or_default();
        let instances = PUBLISHED[2].1.contains(&name).then(|| at("num_inst")).flatten();
        Gpus { column, parts: name != COLUMNS[2], instances }
    });
    for (own, _) in COLUMNS.into_iter().zip(found).filter(|(_, found)| found.is_none()) {
        errors.push(missing(own, header, |near| format!("rename `{near}` to `{own}`, or write {}", option(own, near))));
    }
    let used = |at: usize| found.contains(&Some(at)) || priority == Some(at);
    for (n, name) in header.iter().enumerate() {
        if at(name).is_some_and(|first| first < n && used(first)) {
            let what = TraceFault::TraceColumnTwice { name: (*name).to_owned() };
            errors.push(TraceError::new(1, what, "rename one of them"));
        }
    }
    match (found, gpus) {
        ([Some(id), Some(submitted), _, Some(duration)], Some(gpus)) if errors.is_empty() => {
            Ok(ColumnPlaces { id, submitted, gpus, duration, priority })
        }
        _ => Err(errors),
    }
}

/// The option as one writes it in a shell.
fn option(own: &str, theirs: &str) -> String {
    let is_word = theirs.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_word { format!("--columns {own}={theirs}") } else { format!("--columns '{own}={theirs}'") }
}

/// The error for a missing column. `near` gives the advice for a column with a similar name.
fn missing(name: &str, header: &[&str], near: impl Fn(&str) -> String) -> TraceError {
    let help = match nearest(name, header.iter().copied()) {
        Some(found) => near(found),
        None => format!("the first line names {}; a trace has {}", header.join(", "), COLUMNS.join(",")),
    };
    TraceError::new(1, TraceFault::TraceWithoutColumn { name: name.to_owned() }, help)
}
