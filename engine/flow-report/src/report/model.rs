//! The model of a report: everything it says, with no word of any language but the author's own.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    BuiltinInput, Outcome, RunId, Series, StepResult, StepView,
    reason::{Cause, Spoiled},
};
use serde::{Deserialize, Serialize};

use super::doubts::Doubts;
use super::schedule::{Scheduled, scheduled};
use super::setup::{Setup, setup};
use super::with::{Guess, ReportWith, SectionWith};
use crate::columns::gpu_shared;
use crate::findings::{Bound, Changes, Computed, Finding, Ledger, Scoped, compare, curves, load, readable, schedules};
use crate::safe;
use crate::table::Table;
use crate::verdict::{FOREIGN_CPU, Resource, Ruled, TOLERANCE, Together, Verdict, judge};

/// The version of `report.json`.
pub(crate) const REPORT_FORMAT: u32 = 5;

/// Everything that a report says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Version of `report.json`.
    pub(crate) format: u32,
    /// The workflow's name.
    pub(crate) workflow: String,
    /// Its title by language.
    pub(crate) title: BTreeMap<String, String>,
    /// Its day; empty where there is neither a result nor a `date:`.
    pub(crate) date: String,
    /// What hardware its results are from: with the name, what makes it the same report again.
    pub(crate) hardware: String,
    /// What was measured, and on what.
    pub(crate) setup: Setup,
    /// Sections that have something to show.
    pub(crate) sections: Vec<Section>,
    /// Those that have not: the step and why.
    pub(crate) left_out: Vec<(String, Cause)>,
    /// The runs that produced the results.
    pub(crate) runs: BTreeSet<RunId>,
    /// Results kept for a changed fingerprint: label and reason.
    pub(crate) accepted: BTreeMap<String, String>,
    /// Results that are not to be trusted: label and reasons.
    pub(crate) spoiled: BTreeMap<String, Vec<Spoiled>>,
    /// Results beside which other programs used more than a tenth of the host's CPU: label and share.
    pub(crate) foreign_cpu: BTreeMap<String, f64>,
    /// Results beside which other programs computed on their GPUs: label and names.
    pub(crate) strangers: BTreeMap<String, Vec<String>>,
    /// Results beside which others used their GPUs in time slices of their own, co-run groups aside: label and share.
    pub(crate) gpu_shared: BTreeMap<String, f64>,
    /// Results that bear little.
    pub(crate) doubts: Doubts,
    /// The GPUs were declared, not real.
    pub(crate) fake_gpus: bool,
    /// The author's own template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Section {
    /// The step whose table it shows.
    pub(crate) name: String,
    /// The author's part.
    pub(crate) with: SectionWith,
    pub(crate) table: Table,
    /// What the table says.
    pub(crate) findings: Vec<Scoped>,
    /// Figures of findings that the table does not show.
    pub(crate) computed: Vec<Computed>,
    /// From one value of the split to the other.
    pub(crate) changes: Option<Changes>,
    /// Co-run groups.
    pub(crate) together: Vec<Together>,
    /// What became of the guess.
    pub(crate) guess: Option<Judged>,
    /// Schedules of simulations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) schedules: Vec<Scheduled>,
    /// The load over time of one result.
    #[serde(skip)]
    pub(crate) load: Option<(String, Series)>,
}

/// What became of a guess.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "guess")]
pub(crate) enum Judged {
    /// The resource is what limits a group; `relieved`: groups where it suffices run in parallel.
    Confirmed { resource: Resource, groups: Vec<String>, relieved: Vec<String> },
    /// The resource is ruled out in every group that is slower than alone.
    Refuted { resource: Resource, groups: Vec<String> },
    /// What limits runs that were alone.
    ConfirmedAlone { resource: Resource },
    /// The figures decide nothing.
    Open { resource: Resource },
}

/// Builds the model.
pub(crate) fn report(with: &ReportWith, input: &BuiltinInput) -> Result<Report, String> {
    let mut sections = Vec::new();
    let mut left_out = Vec::new();
    let mut used = Used::default();
    for section in &with.sections {
        match self::section(section, input, &mut used, &mut left_out)? {
            Some(section) => sections.push(section),
            None => continue,
        }
    }
    let Used { all: used, measured, .. } = used;
    let newest = used.iter().map(|r| r.ended_at).max();
    let date = match (&with.date, newest) {
        (Some(written), _) => date(written)?,
        (None, Some(at)) => day(at),
        (None, None) => String::new(),
    };
    let fake_gpus = used.iter().any(|r| r.circumstances.fake_gpus) || used.is_empty() && input.machine.fake_gpus;
    let setup = setup(with, input, &used, &measured);
    Ok(Report {
        format: REPORT_FORMAT,
        workflow: input.workflow.clone(),
        title: input.title.clone(),
        date,
        hardware: setup.hardware(),
        setup,
        sections,
        left_out,
        runs: used.iter().map(|r| r.run.clone()).collect(),
        accepted: used.iter().filter_map(|r| Some((r.label.clone(), r.accepted.clone()?))).collect(),
        spoiled: used.iter().filter(|r| !r.spoiled.is_empty()).map(|r| (r.label.clone(), r.spoiled.clone())).collect(),
        foreign_cpu: used
            .iter()
            .filter(|r| r.usage.samples > 0 && r.circumstances.foreign_cpu > FOREIGN_CPU)
            .map(|r| (r.label.clone(), r.circumstances.foreign_cpu))
            .collect(),
        strangers: used
            .iter()
            .filter(|r| !r.circumstances.strangers.is_empty())
            .map(|r| (r.label.clone(), r.circumstances.strangers.iter().map(|s| s.name.clone()).collect()))
            .collect(),
        gpu_shared: used.iter().filter_map(|r| Some((r.label.clone(), gpu_shared(r)?))).collect(),
        doubts: Doubts::of(&measured),
        fake_gpus,
        template: with.template.clone(),
    })
}

/// A day as its author wrote it, in the one form.
pub(super) fn date(written: &str) -> Result<String, String> {
    let day: Result<jiff::civil::Date, _> = written.parse();
    day.map(|day| day.to_string()).map_err(|_| format!("`date: {written}`: a day is written `2026-02-08`"))
}

/// The day of an instant, in UTC: the same wherever the report is made.
fn day(milliseconds: u64) -> String {
    let at = i64::try_from(milliseconds).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()).unwrap_or_default()
}

/// The results that a report rests on.
#[derive(Default)]
struct Used<'a> {
    all: Vec<&'a StepResult>,
    /// Those of programs that ran on a machine. What flow computes itself is the same on every machine.
    measured: Vec<&'a StepResult>,
    /// How many schedules are shown.
    schedules: usize,
}

impl<'a> Used<'a> {
    fn add(&mut self, view: &StepView, results: impl IntoIterator<Item = &'a StepResult> + Clone) {
        self.all.extend(results.clone());
        if !view.uses.as_deref().is_some_and(|uses| uses.starts_with("flow/")) {
            self.measured.extend(results);
        }
    }
}

fn section<'a>(
    with: &SectionWith,
    input: &'a BuiltinInput,
    used: &mut Used<'a>,
    left_out: &mut Vec<(String, Cause)>,
) -> Result<Option<Section>, String> {
    let step = |name: &str| input.steps.get(name).ok_or_else(|| format!("there is no step `{name}`"));
    let view = step(&with.table)?;
    if view.uses.as_deref() != Some("flow/table") {
        return Err(format!("`table: {}`: that step is not a flow/table", with.table));
    }
    for to in &with.see {
        safe::link(to).map_err(|why| format!("`see`: {why}"))?;
    }
    let Some(json) = view.files.iter().find_map(|files| files.get("table.json")) else {
        left_out.push((with.table.clone(), missing(view)));
        return Ok(None);
    };
    let mut table: Table = serde_json::from_slice(json)
        .map_err(|e| format!("the table of `{}` cannot be read ({e}); run the step again", with.table))?;
    if let Some(why) = &table.absent {
        left_out.push((with.table.clone(), why.clone()));
        return Ok(None);
    }
    if with.compare.is_some() {
        readable(&mut table);
    }
    let source = step(&table.from)?;
    used.add(source, &source.results);

    let with_series: Vec<(&StepResult, Option<&Series>)> =
        source.results.iter().enumerate().map(|(at, r)| (r, source.series.get(at).and_then(Option::as_ref))).collect();
    let mut ledger = Ledger::new(&table);
    let shared = source.results.iter().filter(|r| gpu_shared(r).is_some()).map(|r| r.label.as_str()).collect();
    let mut findings = curves(&mut ledger, &shared);
    findings.extend(load(&mut ledger, &with_series));
    findings.extend(schedules(&ledger));
    let mut changes = None;
    if let Some(axis) = &with.compare
        && let Some((of_columns, found)) = compare(&mut ledger, axis)?
    {
        changes = Some(of_columns);
        findings.extend(found);
    }
    let computed = ledger.computed;

    let mut together = Vec::new();
    if let Some(name) = &with.corun {
        let corun = step(name)?;
        let like = corun.like.as_ref().ok_or_else(|| {
            format!("`corun: {name}`: it is not `like` another step, so there are no runs alone to compare with")
        })?;
        let solo = step(like)?;
        together = judge(&corun.results, &solo.results, with.tolerance.unwrap_or(TOLERANCE));
        match together.is_empty() {
            true => left_out.push((name.clone(), missing(corun))),
            false => {
                used.add(corun, &corun.results);
                if *like != table.from {
                    used.add(solo, &solo.results);
                }
            }
        }
    }
    let load = with_series.iter().rev().find_map(|(r, series)| {
        let series = series.filter(|s| s.samples.get("cpu").is_some_and(|samples| samples.len() >= 4))?;
        (r.outcome == Outcome::Ok).then(|| (r.label.clone(), series.clone()))
    });
    let guess = match &with.notes.guess {
        Some(Guess::Blames(blames)) => Some(judge_guess(blames.resource, &together, &findings)),
        _ => None,
    };
    let mut schedules = Vec::new();
    for one in &with.schedules {
        let view = step(&one.from)?;
        if let Some((drawn, result)) = scheduled(one, view, used.schedules + 1, left_out)? {
            used.schedules += 1;
            used.add(view, [result]);
            schedules.push(drawn);
        }
    }
    let name = with.table.clone();
    let with = with.clone();
    Ok(Some(Section { name, with, table, findings, computed, changes, together, guess, schedules, load }))
}

/// Why a step has nothing to show.
fn missing(view: &StepView) -> Cause {
    let ended = view.results.iter().find(|r| r.outcome != Outcome::Ok);
    match (&view.absent, ended) {
        (Some(why), _) => why.clone(),
        (None, Some(result)) => result.cause.clone().unwrap_or(Cause::Ended { outcome: result.outcome }),
        (None, None) => Cause::NoInstances { step: None, because: None },
    }
}

fn judge_guess(resource: Resource, together: &[Together], findings: &[Scoped]) -> Judged {
    let ruled = |group: &Together| group.rulings.iter().find(|r| r.resource == resource).map(|r| r.ruled);
    let slower: Vec<&Together> = together.iter().filter(|g| g.slower).collect();
    let names = |groups: Vec<&Together>| groups.iter().map(|g| g.group.clone()).collect::<Vec<_>>();
    if slower.is_empty() {
        let bound = findings.iter().any(|f| match &f.finding {
            Finding::Bound { by, .. } => {
                matches!(
                    (by, resource),
                    (Bound::Cpu, Resource::Cpu) | (Bound::Gpu, Resource::Gpu) | (Bound::Data, Resource::Data)
                )
            }
            _ => false,
        });
        return if bound && together.is_empty() {
            Judged::ConfirmedAlone { resource }
        } else {
            Judged::Open { resource }
        };
    }
    let blamed: Vec<&Together> = slower.iter().copied().filter(|g| ruled(g) == Some(Ruled::In)).collect();
    let cleared = slower.iter().filter(|g| ruled(g).is_some_and(Ruled::is_out)).count();
    if cleared == slower.len() {
        return Judged::Refuted { resource, groups: names(slower) };
    }
    if blamed.is_empty() || cleared > 0 {
        return Judged::Open { resource };
    }
    let relieved =
        together.iter().filter(|g| g.verdict == Verdict::Parallel && ruled(g).is_some_and(Ruled::is_out)).collect();
    Judged::Confirmed { resource, groups: names(blamed), relieved: names(relieved) }
}
