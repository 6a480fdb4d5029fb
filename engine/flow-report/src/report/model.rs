//! The model of a report: its whole content, without text in any language except the author's.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::BuiltinFault;
use flow_core::{
    BuiltinInput, Outcome, RunId, Series, StepResult, StepView,
    reason::{Cause, Disturbance},
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assumptions::assumed;
use super::chart_data::ChartData;
use super::doubts::{self, Doubts};
use super::guess::{GuessVerdict, judge_guess};
use super::load::Load;
use super::picture::Picture;
use super::schedule::{InstanceSchedule, order, scheduled};
use super::setup::{Setup, setup};
use super::units::Units;
use super::with::{ChartWith, Guess, Language, LoadWith, ReportWith, SectionWith, StepName};
use crate::analysis::Analysis;
use crate::assumptions::Assumptions;
use crate::caveats::Caveats;
use crate::columns::{self, written};
use crate::findings::{
    self, Changes, ComputedFigure, DisturbedFindings, Finding, FindingMatch, PackedRuns, RowFacts, ScopedFinding,
    SectionFigures, common, compare, curves, held, readable, repeated, schedules,
};
use crate::safe;
use crate::table::{Cell, Reference, Row, Table};
use crate::verdict::{GroupVerdict, Member, TOLERANCE, judge};

/// The version of `report.json`.
pub(crate) const REPORT_FORMAT: u32 = 15;

/// Maximum lines of a chart that the author did not request.
const LINES: usize = 8;

/// The content of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Version of `report.json`.
    pub(crate) format: u32,
    pub(crate) workflow: String,
    /// Its languages, in order.
    pub(crate) languages: Vec<Language>,
    /// Its title by language.
    pub(crate) title: BTreeMap<String, String>,
    /// Its date; empty if there is neither a result nor a `date:`.
    pub(crate) date: String,
    /// The hardware of its results. Together with the name, it identifies the report.
    pub(crate) hardware: String,
    /// The set-up: parameters and machines.
    pub(crate) setup: Setup,
    /// Sections with content.
    pub(crate) sections: Vec<Section>,
    /// Steps without content, with the reason.
    pub(crate) left_out: Vec<(String, Cause)>,
    /// The runs that produced the results.
    pub(crate) runs: BTreeSet<RunId>,
    /// Results that were accepted for a changed fingerprint: label and reason.
    pub(crate) accepted: BTreeMap<String, String>,
    /// Disturbed results: label and reasons.
    pub(crate) disturbed: BTreeMap<String, Vec<Disturbance>>,
    /// Results during which other programs used more than a tenth of the host's CPU: label and share.
    pub(crate) foreign_cpu: BTreeMap<String, f64>,
    /// The result of this workflow among them, or the steps of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) to_repeat: Vec<String>,
    /// Results during which flow could not see whether other runs on the machine were active.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) unwatched: BTreeSet<String>,
    /// Results during which foreign processes used their GPUs: label and names.
    pub(crate) foreign_processes: BTreeMap<String, Vec<String>>,
    /// Results during which others used their GPUs in separate time slices, without co-run groups: label and share.
    pub(crate) gpu_shared: BTreeMap<String, f64>,
    /// The same for GPUs that were shared with other steps of flow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) gpu_shared_own: BTreeMap<String, f64>,
    /// Results that are weak evidence.
    pub(crate) doubts: Doubts,
    /// Whether the GPUs were declared instead of real.
    pub(crate) fake_gpus: bool,
    /// The cost of the measurements.
    #[serde(default)]
    pub(crate) cost: Cost,
    /// Whether each language has its own file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) split: bool,
    /// The author's template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
}

/// The cost of the programs whose results are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) results: usize,
    /// The sum of their times from start to end, in s.
    pub(crate) wall: f64,
    /// The same times multiplied by the allocated GPUs, in GPU-s.
    pub(crate) gpu: f64,
}

impl Cost {
    fn of(results: &[&StepResult]) -> Cost {
        let mut cost = Cost::default();
        let mut seen = BTreeSet::new();
        for result in results.iter().filter(|result| seen.insert((&result.fingerprint, result.repetition))) {
            let wall = result.ended_at.saturating_sub(result.started_at) as f64 / 1000.0;
            cost.results += 1;
            cost.wall += wall;
            cost.gpu += wall * result.circumstances.gpu_models.len() as f64;
        }
        cost
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Section {
    /// The name of the section, from the step of its table.
    pub(crate) name: String,
    pub(crate) with: SectionWith,
    pub(crate) table: Table,
    /// The findings of the table.
    pub(crate) findings: Vec<ScopedFinding>,
    /// Caveats for findings and analyses that other programs may have disturbed.
    #[serde(default, skip_serializing_if = "DisturbedFindings::is_empty")]
    pub(crate) disturbed: DisturbedFindings,
    /// Figures of findings that the table does not show.
    pub(crate) computed: Vec<ComputedFigure>,
    /// Changes from one value of the split to the other.
    pub(crate) changes: Option<Changes>,
    pub(crate) together: Vec<GroupVerdict>,
    /// Results of runs at once, each with its run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packed: Option<PackedRuns>,
    /// Earlier findings, and whether they still hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) held: Vec<FindingMatch>,
    /// The verdict on the author's guess.
    pub(crate) guess: Option<GuessVerdict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) schedules: Vec<InstanceSchedule>,
    /// Analyses of the table, by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) analyses: Vec<(String, Analysis)>,
    /// Assumptions of simulations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) assumed: Vec<Assumptions>,
    /// Charts that the author asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) drawn: Vec<ChartData>,
    /// Pictures that steps drew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pictures: Vec<Picture>,
    /// Load and memory of results over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) loads: Vec<Load>,
}

pub(crate) fn report(with: &ReportWith, input: &BuiltinInput) -> Result<Report, BuiltinFault> {
    let mut sections = Vec::new();
    let mut left_out = Vec::new();
    let mut used = ReportResults::default();
    let units = Units::of(&with.sections, input);
    for section in &with.sections {
        sections.extend(self::section(section, input, &units, &mut used, &mut left_out)?);
    }
    let ReportResults { all: used, measured, otherwise, .. } = used;
    let newest = used.iter().map(|r| r.ended_at).max();
    let date = match (&with.date, newest) {
        (Some(written), _) => date(written)?,
        (None, Some(at)) => day(at),
        (None, None) => String::new(),
    };
    let fake_gpus = used.iter().any(|r| r.circumstances.fake_gpus) || used.is_empty() && input.machine.fake_gpus;
    let tables: Vec<&Table> = sections.iter().map(|section| &section.table).collect();
    let setup = setup(with, input, &tables, &used, &measured);
    let mut seen: Vec<(String, Caveats)> = used.iter().map(|r| (r.label.clone(), Caveats::of(r))).collect();
    for section in &sections {
        seen.extend(foreign_caveats(&section.table).map(|(label, seen)| (label.clone(), seen.clone())));
    }
    // Other programs change times, but not what a training learns.
    let is_timed = sections.iter().any(|section| {
        !section.together.is_empty()
            || section.table.columns.iter().any(|column| !column.key && column.depends_on_load())
    });
    let gpu_shared = |own: bool| {
        let of = seen.iter().filter(|(_, seen)| seen.own_corunners == own);
        of.filter_map(|(label, seen)| Some((label.clone(), seen.gpu_shared?))).collect()
    };
    Ok(Report {
        format: REPORT_FORMAT,
        workflow: input.workflow.clone(),
        languages: with.languages.clone(),
        title: input.title.clone(),
        date,
        hardware: setup.hardware(),
        setup,
        sections,
        left_out,
        runs: used.iter().map(|r| r.run.clone()).collect(),
        accepted: used.iter().filter_map(|r| Some((r.label.clone(), r.accepted.clone()?))).collect(),
        disturbed: used
            .iter()
            .filter(|r| !r.disturbances.is_empty())
            .map(|r| (r.label.clone(), r.disturbances.clone()))
            .collect(),
        foreign_cpu: seen
            .iter()
            .filter_map(|(label, seen)| Some((label.clone(), seen.foreign_cpu.filter(|_| is_timed)?)))
            .collect(),
        to_repeat: if is_timed { Caveats::to_repeat(&used) } else { Vec::new() },
        unwatched: seen.iter().filter(|(_, seen)| seen.unwatched).map(|(label, _)| label.clone()).collect(),
        foreign_processes: seen
            .iter()
            .filter(|(_, seen)| !seen.foreign_processes.is_empty())
            .map(|(label, seen)| (label.clone(), seen.foreign_processes.clone()))
            .collect(),
        gpu_shared: gpu_shared(false),
        gpu_shared_own: gpu_shared(true),
        doubts: Doubts::of(&measured, is_timed, &otherwise),
        fake_gpus,
        cost: Cost::of(&measured),
        split: with.split,
        template: with.template.clone(),
    })
}

/// The author's date in standard form.
pub(super) fn date(written: &str) -> Result<String, BuiltinFault> {
    let day: Result<jiff::civil::Date, _> = written.parse();
    day.map(|day| day.to_string()).map_err(|_| BuiltinFault::BadDate { date: written.to_owned() })
}

/// The UTC day of an instant, so that it does not depend on where the report is made.
fn day(milliseconds: u64) -> String {
    let at = i64::try_from(milliseconds).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()).unwrap_or_default()
}

/// The results behind a report.
#[derive(Default)]
struct ReportResults<'a> {
    all: Vec<&'a StepResult>,
    /// The results of programs that ran on a machine. Results that flow computes are the same on every machine.
    measured: Vec<&'a StepResult>,
    /// Labels of results to whose epochs the author gave another name, for example the batch sizes that one program
    /// goes through.
    otherwise: BTreeSet<&'a str>,
    /// The number of schedules so far.
    schedules: usize,
    /// Steps whose load is already reported.
    loads: BTreeSet<String>,
    /// Names of sections.
    names: BTreeSet<String>,
}

impl<'a> ReportResults<'a> {
    /// A unique name for a section of this table, which its files and links use.
    fn name(&mut self, table: &str) -> String {
        let numbered = (2..).map(|n| format!("{table}-{n}"));
        let mut names = std::iter::once(table.to_owned()).chain(numbered);
        names.find(|name| self.names.insert(name.clone())).unwrap_or_default()
    }

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
    units: &Units,
    used: &mut ReportResults<'a>,
    left_out: &mut Vec<(String, Cause)>,
) -> Result<Option<Section>, BuiltinFault> {
    let no_step = |step: &str| BuiltinFault::NoSuchStep { step: step.to_owned() };
    let step = |name: &str| input.steps.get(name).ok_or_else(|| no_step(name));
    let view = step(&with.table)?;
    if view.uses.as_deref() != Some("flow/table") {
        return Err(BuiltinFault::NotATable { step: with.table.clone() });
    }
    for to in &with.see {
        safe::link(to).map_err(|why| BuiltinFault::BadLink { error: Box::new(why) })?;
    }
    let Some(mut table) = Table::of(&with.table, view)? else {
        left_out.push((with.table.clone(), missing(view)));
        return Ok(None);
    };
    units.apply(&mut table);
    if let Some(why) = &table.absent {
        left_out.push((with.table.clone(), why.clone()));
        return Ok(None);
    }
    let by_machine = with.by_machine(&table);
    let with = by_machine.as_ref().unwrap_or(with);
    if with.compare.is_some() {
        readable(&mut table);
    }
    let source = step(&table.from)?;
    used.add(source, &source.results);
    if table.columns.iter().any(|column| column.key && column.name == "epoch" && column.label.is_some()) {
        used.otherwise.extend(source.results.iter().map(|result| result.label.as_str()));
    }

    let with_series: Vec<(&StepResult, Option<&Series>)> =
        source.results.iter().enumerate().map(|(at, r)| (r, source.series.get(at).and_then(Option::as_ref))).collect();
    let mut analyses = Vec::new();
    for StepName(name) in &with.analyses {
        match Analysis::of(name, step(name)?)? {
            Some(analysis) if analysis.table == with.table => analyses.push((name.clone(), analysis)),
            Some(analysis) => {
                let (table, other) = (analysis.table, with.table.clone());
                return Err(BuiltinFault::AnalysisOfOther { step: name.clone(), table, other });
            }
            None => left_out.push((name.clone(), missing(step(name)?))),
        }
    }
    let mut shared: BTreeSet<&str> =
        source.results.iter().filter(|r| columns::gpu_shared(r).is_some()).map(|r| r.label.as_str()).collect();
    shared.extend(foreign_caveats(&table).filter(|(_, seen)| seen.gpu_shared.is_some()).map(|(label, _)| &**label));
    let axis = table.rows.last().map_or("", String::as_str);
    let fitted = analyses.iter().filter_map(|(_, found)| found.fits(axis)).collect();
    let searched = analyses.iter().filter_map(|(_, found)| found.searches()).collect();
    let mut ledger = SectionFigures::new(&table);
    let besides = RowFacts { shared: shared.clone(), fitted, searched };
    let mut findings = curves(&mut ledger, &besides);
    // The load of a step is reported where the step first appears.
    let first = used.loads.insert(table.from.clone()) || with.notes.guess.is_some();
    let mut of_load = if first { findings::load(&mut ledger, &with_series) } else { Vec::new() };
    // CPU use over an epoch is reported only if a chart shows the load.
    let shows_load = with.charts.iter().any(|chart| matches!(chart, ChartWith::Load(_)));
    of_load.retain(|one| shows_load || !matches!(one.finding, Finding::Ends { .. }));
    let mut of_rows = schedules(&mut ledger, with.compare.is_some());
    of_rows.extend(order(with, &table, input)?);
    let repeated = repeated(&mut ledger);
    findings.retain(|one| !findings::is_noise(one, &repeated));
    of_rows.extend(repeated);
    if with.compare.is_none() || by_machine.is_some() {
        let all = [&*findings, &*of_rows].concat();
        findings.extend(findings::trends(&ledger, &besides, &all));
        // Points of another program are not points of this sweep.
        let alone = analyses.is_empty() && with.corun.is_none() && !table.mixes_programs();
        if let Some(winner) = alone.then(|| findings::winner(&mut ledger, source.uses.is_none(), &all)).flatten() {
            if let Finding::Winner { column, lower_is_better, worse, .. } = &winner.finding
                && !worse.is_empty()
            {
                of_rows.extend(findings::depends(&mut ledger, column, *lower_is_better));
            }
            of_rows.push(winner);
        }
    }
    // Naming the best point is enough for a column. A test of whether all points differ adds nothing.
    let ranked: BTreeSet<String> = (of_rows.iter())
        .filter_map(|one| match &one.finding {
            Finding::Winner { column, .. } => Some(column.clone()),
            _ => None,
        })
        .chain(analyses.iter().filter_map(|(_, found)| found.best_column().map(str::to_owned)))
        .collect();
    of_rows.retain(|one| !matches!(&one.finding, Finding::Repeated { column, .. } if ranked.contains(column)));
    let alone = source.like.as_ref().and_then(|like| input.steps.get(like));
    let packed = alone.and_then(|alone| findings::packed(&mut ledger, &source.results, &alone.results));
    let (packed, answer) = packed.unzip();
    let mut changes = None;
    let corun = with.corun.as_ref().and_then(|name| input.steps.get(name));
    let trainings = findings::Trainings::of([Some(source), corun]);
    if let Some(axis) = &with.compare
        && let Some((of_columns, found)) = compare(&mut ledger, axis, &trainings)?
    {
        changes = Some(of_columns);
        of_rows.extend(found);
    }
    let held = match &table.reference {
        Some(reference) => {
            let (now, then) = common(&table, &reference.table);
            let trainings = trainings.once();
            let forced = doubts::limit(source.results.iter()).is_some();
            held(
                comparable(&then, with, BTreeSet::new(), &trainings)?,
                &comparable(&now, with, shared, &trainings)?,
                forced,
            )
        }
        None => Vec::new(),
    };
    if let Some(reference) = &table.reference {
        of_rows.extend(findings::agrees(&mut ledger, &table, reference));
    }
    of_rows.extend(findings::estimates(&mut ledger, &with.estimates));
    findings.append(&mut of_load);
    findings.append(&mut of_rows);
    // The finding about packed runs comes first.
    findings.splice(..0, answer);
    let foreign = source.results.iter().filter_map(|r| Some((r.label.as_str(), Caveats::of(r).foreign_cpu?)));
    let of_theirs = foreign_caveats(&table).filter_map(|(label, seen)| Some((&**label, seen.foreign_cpu?)));
    let foreign = foreign.chain(of_theirs).collect();
    let disturbed = findings::disturbed(&mut ledger, &findings, &analyses, &foreign);
    let computed = ledger.computed;

    let mut together = Vec::new();
    if let Some(name) = &with.corun {
        let corun = step(name)?;
        let like = corun.like.as_ref().ok_or_else(|| BuiltinFault::CorunLikeNothing { step: name.clone() })?;
        let solo = step(like)?;
        together = judge(corun, solo, with.tolerance.unwrap_or(TOLERANCE));
        if let Some(reference) = &table.reference {
            for group in &mut together {
                group.earlier = group.by(|member| in_group(&table, reference, &group.measure, member)).map(Box::new);
            }
        }
        match together.is_empty() {
            true => left_out.push((name.clone(), missing(corun))),
            false => {
                used.add(corun, corun.results.iter().chain(&corun.again));
                if *like != table.from {
                    used.add(solo, &solo.results);
                }
                used.add(solo, &solo.again);
            }
        }
    }
    let asked = with.charts.iter().filter_map(|chart| match chart {
        ChartWith::Load(load) => Some(load),
        ChartWith::Column(_) | ChartWith::Over(_) => None,
    });
    let asked: Vec<&LoadWith> = asked.collect();
    // Results that the table leaves out do not appear in charts.
    let shown: BTreeSet<&str> =
        table.body.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.of).map(String::as_str).collect();
    let with_series: Vec<_> = with_series.into_iter().filter(|(result, _)| shown.contains(&*result.label)).collect();
    let loads = Load::all(&asked, &table, &with_series)?;
    let guess = match &with.notes.guess {
        Some(Guess::Attributed(attribution)) => Some(judge_guess(attribution.resource, &together, &findings)),
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
    let mut pictures = Vec::new();
    for one in &with.pictures {
        pictures.extend(Picture::of(one, step(&one.from)?, left_out, missing)?);
    }
    let drawn = with.charts.iter().filter_map(|chart| ChartData::of(chart, &table, &with_series).transpose());
    let mut drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    // A sweep over several axes gets a line for each point of the other axes.
    if with.charts.is_empty() && table.rows.len() > 1 && table.split.is_none() {
        let best = findings.iter().find_map(|one| match &one.finding {
            Finding::Winner { column, .. } => Some(ChartWith::Column(column.clone())),
            _ => None,
        });
        let of_best = best.and_then(|chart| ChartData::of(&chart, &table, &with_series).ok().flatten());
        drawn.extend(of_best.filter(|drawn| drawn.lines.len() <= LINES));
    }
    let name = used.name(&with.table);
    let with = with.clone();
    let assumed = assumed(source);
    Ok(Some(Section {
        name,
        with,
        table,
        findings,
        disturbed,
        computed,
        changes,
        together,
        packed,
        held,
        guess,
        schedules,
        analyses,
        assumed,
        drawn,
        pictures,
        loads,
    }))
}

/// Caveats of results of other machines that the table shows, by label.
fn foreign_caveats(table: &Table) -> impl Iterator<Item = (&String, &Caveats)> {
    let shown: BTreeSet<&String> = table.body.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.of).collect();
    table.foreign_caveats.iter().filter(move |(label, _)| shown.contains(label))
}

/// Findings that can be compared with earlier ones, found by the same rules for both.
fn comparable(
    table: &Table,
    with: &SectionWith,
    shared: BTreeSet<&str>,
    trainings: &findings::Trainings<'_>,
) -> Result<Vec<ScopedFinding>, BuiltinFault> {
    let mut ledger = SectionFigures::new(table);
    let mut findings = curves(&mut ledger, &RowFacts { shared, ..RowFacts::default() });
    findings.extend(schedules(&mut ledger, with.compare.is_some()));
    if let Some(axis) = &with.compare
        && let Some((_, found)) = compare(&mut ledger, axis, trainings)?
    {
        findings.extend(found);
    }
    Ok(findings)
}

/// The earlier times of a member: alone, from the row of its point, and in the group.
fn in_group(table: &Table, reference: &Reference, measure: &str, member: &Member) -> Option<(f64, f64)> {
    let has = |axes: &IndexMap<String, Value>| axes.iter().all(|(axis, value)| member.axes.get(axis) == Some(value));
    let together = reference.together.iter().find(|of| of.name == measure && has(&of.axes))?;
    let part = table.split.as_ref().and_then(|(axis, _)| member.axes.get(axis)).map(written);
    let column = reference.table.find(measure, None, part.as_deref())?;
    let is = |cell: &Cell, axis: &String| {
        cell.text().zip(member.axes.get(axis)).is_some_and(|(text, value)| text == written(value))
    };
    let at = |row: &&Row| reference.table.rows.iter().zip(&row.cells).all(|(axis, cell)| is(cell, axis));
    let alone = reference.table.body.iter().find(at)?.cells[column].number()?;
    Some((alone, together.value))
}

/// The reason why a step has nothing to show.
fn missing(view: &StepView) -> Cause {
    let ended = view.results.iter().find(|r| r.outcome != Outcome::Ok);
    match (&view.absent, ended) {
        (Some(why), _) => why.clone(),
        (None, Some(result)) => result.cause.clone().unwrap_or(Cause::Ended { outcome: result.outcome }),
        (None, None) => Cause::NoInstances { step: None, because: None },
    }
}
