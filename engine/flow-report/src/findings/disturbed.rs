//! What is found of times that were measured while other programs used the CPU. It changes no finding; it names those that may be due
//! to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Figure, Finding, Scoped, SectionFigures, What};
use crate::analysis::Analysis;
use crate::format::Format;
use crate::table::{Curve, Table};
use crate::words::{Args, Words};

/// What goes with how fast something runs, beside times.
const PACE: [&str; 4] = ["images_per_s", "gpu_power", "gpu_load", "energy"];

/// Findings and analyses of a section, by number, and what others used of the CPU beside their results at the most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Disturbed {
    pub(crate) findings: Vec<usize>,
    pub(crate) analyses: Vec<usize>,
    used: Figure,
}

impl Disturbed {
    pub(crate) fn worded(&self, words: &Words, lang: &str) -> String {
        words.text(lang, "finding-foreign", &Args::new().with("used", self.used.text(words, lang)))
    }
}

/// Those that rest on one of the results of `foreign`, which are labels with what others used of the CPU beside them.
pub(crate) fn disturbed(
    ledger: &mut SectionFigures<'_>,
    findings: &[Scoped],
    analyses: &[(String, Analysis)],
    foreign: &BTreeMap<&str, f64>,
) -> Option<Disturbed> {
    let table = ledger.table;
    let beside = |column: &str, scope: &Option<String>| {
        labels(table, column, scope.as_deref()).filter_map(|label| foreign.get(label).copied()).reduce(f64::max)
    };
    let of_finding = |(at, one): (usize, &Scoped)| Some((at, beside(timed(&one.finding)?, &one.scope)?));
    let of_analysis = |(at, (_, one)): (usize, &(String, Analysis))| Some((at, beside(one.column(), &None)?));
    let (findings, used): (Vec<usize>, Vec<f64>) = findings.iter().enumerate().filter_map(of_finding).unzip();
    let (analyses, more): (Vec<usize>, Vec<f64>) = analyses.iter().enumerate().filter_map(of_analysis).unzip();
    let most = used.into_iter().chain(more).reduce(f64::max)?;
    let used = ledger.computed(None, What::Foreign, most, Format::for_unit("ratio", std::iter::once(most)));
    Some(Disturbed { findings, analyses, used })
}

/// The results that a time rests on, in the rows and the part that are meant.
fn labels<'t>(table: &'t Table, column: &str, scope: Option<&str>) -> impl Iterator<Item = &'t str> {
    let curves = Curve::all(table).into_iter().filter(move |curve| scope.is_none() || curve.scope.as_deref() == scope);
    let places = curves.filter_map(|curve| {
        let at = table.find(column, None, curve.part.as_deref())?;
        let time = ["ms", "s", "min", "h"].contains(&&*table.columns[at].show.unit) && column != "cpu_time";
        (time || PACE.contains(&column)).then_some((curve.rows, at))
    });
    let places: Vec<(usize, usize)> =
        places.flat_map(|(rows, at)| rows.into_iter().map(move |row| (row, at))).collect();
    places.into_iter().flat_map(|(row, at)| &table.body[row].cells[at].of).map(String::as_str)
}

/// The column whose course or change it tells.
fn timed(finding: &Finding) -> Option<&str> {
    match finding {
        Finding::Flattens { time, .. }
        | Finding::NeverFalls { time, .. }
        | Finding::StillFalling { time, .. }
        | Finding::TimeFlat { time, .. }
        | Finding::NoTrend { time, .. }
        | Finding::Uneven { time, .. }
        | Finding::MemoryFaster { time, .. } => Some(time),
        Finding::Linear { column, .. }
        | Finding::Jumps { column, .. }
        | Finding::Repeated { column, .. }
        | Finding::Unchanged { column, .. }
        | Finding::WithinRepetitions { column, .. }
        | Finding::Changed { column, .. }
        | Finding::ChangedAt { column, .. } => Some(column),
        Finding::Estimate { of, .. } => Some(of),
        Finding::LoadGoes { load, .. } => Some(load),
        _ => None,
    }
}
