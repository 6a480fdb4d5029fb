//! Caveats for findings about times that were measured while other programs used the CPU. The findings stay as they
//! are. A caveat names the result with the most foreign CPU use.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};

use super::{Figure, FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::analysis::Analysis;
use crate::format::Format;
use crate::safe;
use crate::table::{Curve, Table};
use crate::words::{Args, Locale};

/// Columns that depend on speed, in addition to times.
const PACE: [&str; 4] = ["images_per_s", "gpu_power", "gpu_load", "energy"];

/// Foreign CPU use behind the findings of a section, by number, and behind the sentences of its analyses, by the
/// numbers of both.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DisturbedFindings {
    findings: BTreeMap<usize, ForeignCpu>,
    analyses: BTreeMap<usize, BTreeMap<usize, ForeignCpu>>,
}

/// Foreign CPU use during the results behind a finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForeignCpu {
    /// The result with the most foreign CPU use.
    label: String,
    used: Figure,
    /// Whether other results had much foreign CPU use too.
    several: bool,
    /// The number of disturbed results and of all, if each number is a mean and at most a quarter of it was disturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    few: Option<(usize, usize)>,
}

impl ForeignCpu {
    /// Only few of many repetitions were disturbed.
    pub(crate) fn is_minor(&self) -> bool {
        self.few.is_some()
    }

    /// Compares how much it weighs against a finding.
    pub(crate) fn cmp(&self, other: &ForeignCpu) -> Ordering {
        other.is_minor().cmp(&self.is_minor()).then(self.used.value.total_cmp(&other.used.value))
    }

    /// The caveat for one sentence.
    pub(crate) fn worded(&self, words: Locale<'_>) -> String {
        self.sentence("finding-foreign", words)
    }

    /// The caveat for a whole table.
    pub(crate) fn of_table(&self, words: Locale<'_>) -> String {
        self.sentence("finding-foreign-table", words)
    }

    fn sentence(&self, key: &str, words: Locale<'_>) -> String {
        let args = Args::new().with("label", safe::code(&self.label)).with("used", self.used.text(words));
        let args = args.flag("several", self.several);
        match self.few {
            Some((disturbed, all)) => {
                words.text("finding-foreign-few", &args.count("disturbed", disturbed).count("all", all))
            }
            None => words.text(key, &args),
        }
    }
}

impl DisturbedFindings {
    pub(crate) fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.analyses.is_empty()
    }

    pub(crate) fn of_finding(&self, at: usize) -> Option<&ForeignCpu> {
        self.findings.get(&at)
    }

    /// The caveat for a sentence of an analysis.
    pub(crate) fn of_sentence(&self, analysis: usize, at: usize) -> Option<&ForeignCpu> {
        self.analyses.get(&analysis)?.get(&at)
    }

    /// The caveat with the most foreign CPU use.
    pub(crate) fn most(&self) -> Option<&ForeignCpu> {
        let all = self.findings.values().chain(self.analyses.values().flat_map(BTreeMap::values));
        all.max_by(|a, b| a.cmp(b))
    }
}

/// Caveats for findings and analyses. `foreign` maps labels of results to their foreign CPU use.
pub(crate) fn disturbed(
    ledger: &mut SectionFigures<'_>,
    findings: &[ScopedFinding],
    analyses: &[(String, Analysis)],
    foreign: &BTreeMap<&str, f64>,
) -> DisturbedFindings {
    let table = ledger.table;
    let mut beside = |column: &str, scope: Option<&str>| {
        let means: Vec<&[String]> = means(table, column, scope).collect();
        let all: BTreeSet<&str> = means.iter().copied().flatten().map(String::as_str).collect();
        let is_disturbed = |label: &&String| foreign.contains_key(label.as_str());
        let known: BTreeMap<&str, f64> = all.iter().filter_map(|label| Some((*label, *foreign.get(label)?))).collect();
        let is_minor = means.iter().all(|of| 4 * of.iter().filter(is_disturbed).count() <= of.len());
        let (label, used) = known.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let what = FigureMeaning::new("foreign_during", [("label", *label)]);
        let used = ledger.computed(None, what, *used, Format::for_unit("ratio", std::iter::once(*used)));
        Some(ForeignCpu {
            label: (*label).to_owned(),
            used,
            several: known.len() > 1,
            few: is_minor.then_some((known.len(), all.len())),
        })
    };
    let mut out = DisturbedFindings::default();
    for (at, one) in findings.iter().enumerate() {
        let beside = timed(&one.finding).and_then(|column| beside(column, one.scope.as_deref()));
        out.findings.extend(beside.map(|beside| (at, beside)));
    }
    for (at, (_, one)) in analyses.iter().enumerate() {
        let of_each = one.scopes().into_iter().enumerate();
        let said: BTreeMap<usize, ForeignCpu> =
            of_each.filter_map(|(sentence, scope)| Some((sentence, beside(one.column(), scope)?))).collect();
        if !said.is_empty() {
            out.analyses.insert(at, said);
        }
    }
    out
}

/// Labels of the results behind each mean of a time, in the rows and the part of the scope.
fn means<'t>(table: &'t Table, column: &str, scope: Option<&str>) -> impl Iterator<Item = &'t [String]> {
    // The number of GPUs in a scope does not matter here.
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
    places.into_iter().map(|(row, at)| &*table.body[row].cells[at].of)
}

/// The column whose course or change the finding describes.
fn timed(finding: &Finding) -> Option<&str> {
    match finding {
        Finding::Flattens { time, .. }
        | Finding::NoFall { time, .. }
        | Finding::StillFalling { time, .. }
        | Finding::TimeFlat { time, .. }
        | Finding::NoTrend { time, .. }
        | Finding::Uneven { time, .. }
        | Finding::MemoryFaster { time, .. } => Some(time),
        Finding::Linear { column, .. }
        | Finding::Repeated { column, .. }
        | Finding::Unchanged { column, .. }
        | Finding::Undecided { column, .. }
        | Finding::Changed { column, .. }
        | Finding::ChangedAt { column, .. } => Some(column),
        Finding::Estimate { of, .. } => Some(of),
        Finding::LoadTrend { load, .. } => Some(load),
        _ => None,
    }
}
