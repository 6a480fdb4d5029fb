//! What is found of times that were measured while other programs used the CPU. It changes no finding; it says with each that may be
//! due to them beside which result they did, and how much.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Figure, Finding, Scoped, SectionFigures, What};
use crate::analysis::Analysis;
use crate::format::Format;
use crate::safe;
use crate::table::{Curve, Table};
use crate::words::{Args, Words};

/// What goes with how fast something runs, beside times.
const PACE: [&str; 4] = ["images_per_s", "gpu_power", "gpu_load", "energy"];

/// Findings of a section by number, and sentences of its analyses by the numbers of both, with what others used of the CPU beside what
/// each rests on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Disturbed {
    findings: BTreeMap<usize, Beside>,
    analyses: BTreeMap<usize, BTreeMap<usize, Beside>>,
}

/// What others used of the CPU beside the results that something rests on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// The one beside which they used the most.
    label: String,
    used: Figure,
    /// They used much beside others of them too.
    several: bool,
}

impl Beside {
    /// What is to be said with one sentence.
    pub(crate) fn worded(&self, words: &Words, lang: &str) -> String {
        self.said("finding-foreign", words, lang)
    }

    /// What is to be said once of a table.
    pub(crate) fn of_table(&self, words: &Words, lang: &str) -> String {
        self.said("finding-foreign-table", words, lang)
    }

    fn said(&self, key: &str, words: &Words, lang: &str) -> String {
        let args = Args::new().with("label", safe::code(&self.label)).with("used", self.used.text(words, lang));
        words.text(lang, key, &args.with("several", if self.several { "yes" } else { "no" }))
    }
}

impl Disturbed {
    pub(crate) fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.analyses.is_empty()
    }

    pub(crate) fn of_finding(&self, at: usize) -> Option<&Beside> {
        self.findings.get(&at)
    }

    /// What is to be said with a sentence of an analysis.
    pub(crate) fn of_sentence(&self, analysis: usize, at: usize) -> Option<&Beside> {
        self.analyses.get(&analysis)?.get(&at)
    }

    /// The most of all.
    pub(crate) fn most(&self) -> Option<&Beside> {
        let all = self.findings.values().chain(self.analyses.values().flat_map(BTreeMap::values));
        all.max_by(|a, b| a.used.value.total_cmp(&b.used.value))
    }
}

/// Those that rest on one of the results of `foreign`, which are labels with what others used of the CPU beside them.
pub(crate) fn disturbed(
    ledger: &mut SectionFigures<'_>,
    findings: &[Scoped],
    analyses: &[(String, Analysis)],
    foreign: &BTreeMap<&str, f64>,
) -> Disturbed {
    let table = ledger.table;
    let mut beside = |column: &str, scope: Option<&str>| {
        let known: BTreeMap<&str, f64> = labels(table, column, scope)
            .filter_map(|label| foreign.get_key_value(label))
            .map(|(label, used)| (*label, *used))
            .collect();
        let (label, used) = known.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let what = What::ForeignBeside { label: (*label).to_owned() };
        let used = ledger.computed(None, what, *used, Format::for_unit("ratio", std::iter::once(*used)));
        Some(Beside { label: (*label).to_owned(), used, several: known.len() > 1 })
    };
    let mut out = Disturbed::default();
    for (at, one) in findings.iter().enumerate() {
        let beside = timed(&one.finding).and_then(|column| beside(column, one.scope.as_deref()));
        out.findings.extend(beside.map(|beside| (at, beside)));
    }
    for (at, (_, one)) in analyses.iter().enumerate() {
        let of_each = one.scopes().into_iter().enumerate();
        let said: BTreeMap<usize, Beside> =
            of_each.filter_map(|(sentence, scope)| Some((sentence, beside(one.column(), scope)?))).collect();
        if !said.is_empty() {
            out.analyses.insert(at, said);
        }
    }
    out
}

/// The results that a time rests on, in the rows and the part that are meant.
fn labels<'t>(table: &'t Table, column: &str, scope: Option<&str>) -> impl Iterator<Item = &'t str> {
    // Of which GPUs' points a curve is says nothing here.
    let scope = scope.map(|scope| match scope.rsplit_once("gpus=") {
        Some((rest, _)) => rest.trim_end_matches(", "),
        None => scope,
    });
    let is = |curve: &Curve| scope.is_none_or(|scope| curve.scope.as_deref().unwrap_or_default() == scope);
    let curves = Curve::all(table).into_iter().chain(Curve::whole(table)).filter(is);
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
