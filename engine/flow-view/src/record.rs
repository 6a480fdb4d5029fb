//! The events and results of the run so far. The page folds the events; it gets those since its last request. Knows no HTTP.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    ArtifactKind, AttemptId, Best, Digest, InstanceId, JournalLine, RemainingTime, RunEvent, RunId, RunTimes,
    RunningProgress, Series, StepResult,
};
use flow_report::{Reports, Words};
use flow_runs::{Forecast, RunningStep};
use serde_json::{Value, json};

use crate::{
    axes::{self, ChartRequest, DrawnChart, Row, TIME},
    catalogue::{phrase, same},
    events, facts,
    graph::Graph,
    sentences,
    source::Source,
};

/// Files are read at most once in this time, for any number of pages: milliseconds.
const EVERY: u64 = 250;
/// Maximum number of events in one answer.
const AT_ONCE: usize = 50_000;
/// Maximum number of points of a line in a chart.
const POINTS: usize = 2_000;

/// The texts of remade reports, by the instance that made each.
pub(crate) type RemadeTexts = BTreeMap<InstanceId, BTreeMap<String, String>>;

pub(crate) struct Record {
    source: Source,
    remade: RemadeTexts,
    words: Words,
    reports: Reports,
    graph: Graph,
    /// The number of events when the last step came.
    steps_until: usize,
    /// As JSON, in order.
    events: Vec<String>,
    /// Results, and when each was known: milliseconds since 1970.
    results: BTreeMap<InstanceId, (StepResult, u64)>,
    /// The best epochs of metrics whose name says what is better.
    bests: BTreeMap<InstanceId, BTreeMap<String, f64>>,
    /// The step of each instance.
    step_of: BTreeMap<InstanceId, String>,
    times: RunTimes,
    /// Seconds until the end, and whether it can only be longer.
    left: Option<RemainingTime>,
    /// The instance of each attempt, and its folder relative to the store.
    attempts: BTreeMap<AttemptId, (InstanceId, String)>,
    metrics: BTreeSet<String>,
    /// `min` or `max`, for metrics whose name says which is better.
    goals: BTreeMap<String, &'static str>,
    /// Name and id.
    pub(crate) title: String,
    ended: bool,
    /// When files were last read: milliseconds since 1970.
    read_at: u64,
    status: Value,
    lives: bool,
    /// Why the journal cannot be read.
    trouble: Option<String>,
}

impl Record {
    /// Reads the run once. `remade` has the reports of which it has no files.
    pub(crate) fn open(source: Source, remade: RemadeTexts) -> Result<Record, String> {
        let mut record = Record {
            source,
            remade,
            words: Words::new(),
            reports: Reports::new(),
            graph: Graph::default(),
            steps_until: 0,
            events: Vec::new(),
            results: BTreeMap::new(),
            bests: BTreeMap::new(),
            step_of: BTreeMap::new(),
            times: RunTimes::default(),
            left: None,
            attempts: BTreeMap::new(),
            metrics: BTreeSet::new(),
            goals: BTreeMap::new(),
            title: String::new(),
            ended: false,
            read_at: 0,
            status: Value::Null,
            lives: false,
            trouble: None,
        };
        record.read()?;
        if record.title.is_empty() {
            let why = "the journal of this run has no beginning: it was killed before it began, or is not a run";
            return Err(why.to_owned());
        }
        Ok(record)
    }

    fn read(&mut self) -> Result<(), String> {
        // Read before the journal: if the run ends in between, the journal has its last line.
        self.lives = self.source.lives();
        let status = self.source.status();
        self.status = status
            .as_ref()
            .map_or(Value::Null, |status| json!({"running": status.running, "updated_at": status.updated_at}));
        let lines = self.source.lines()?;
        let reused = self.reused(&lines);
        for line in &lines {
            self.times.add(line);
            self.add(line, &reused);
        }
        for line in self.source.waits() {
            let of = line.waits.into_iter().map(|(why, labels)| json!([why.map(|why| sentences::waits(&why)), labels]));
            let of: Vec<Value> = of.collect();
            self.events.push(json!({"t": line.at, "e": "waits", "of": of}).to_string());
        }
        for Forecast { at, starts } in self.source.forecasts() {
            self.events.push(json!({"t": at, "e": "forecast", "of": starts}).to_string());
        }
        let now = status.as_ref().map_or(0, |status| status.updated_at);
        let known = status.iter().flat_map(|status| &status.running);
        let known: BTreeMap<AttemptId, &RunningStep> = known.map(|one| (one.attempt, one)).collect();
        let known = |attempt| {
            let known = known.get(&attempt);
            RunningProgress {
                fraction: known.and_then(|one| one.fraction),
                left_s: known.and_then(|one| Some(one.ends_at?.saturating_sub(now) as f64 / 1e3)),
            }
        };
        self.left = self.times.remaining(now, known).filter(|_| self.lives);
        Ok(())
    }

    /// The results that these lines reuse.
    fn reused(&self, lines: &[JournalLine]) -> BTreeMap<Digest, StepResult> {
        let mut wanted: BTreeMap<&RunId, BTreeSet<Digest>> = BTreeMap::new();
        for line in lines {
            if let RunEvent::Cached { fingerprint, from, .. } = &line.event {
                wanted.entry(from).or_default().insert(*fingerprint);
            }
        }
        wanted.into_iter().flat_map(|(run, wanted)| self.source.results_of(run, &wanted)).collect()
    }

    fn add(&mut self, line: &JournalLine, reused: &BTreeMap<Digest, StepResult>) {
        let mut earlier = None;
        match &line.event {
            RunEvent::RunStarted(start) => {
                self.title =
                    format!("{} run {}", flow_core::visible(&start.workflow), flow_core::visible(&start.run.0));
            }
            RunEvent::Instance { instance, step, written, .. } => {
                self.graph.add(step, written);
                self.step_of.insert(*instance, step.clone());
                self.steps_until = self.events.len() + 1;
            }
            RunEvent::Cached { instance, fingerprint, .. } => {
                earlier = reused.get(fingerprint);
                if let Some(result) = earlier {
                    self.know(*instance, result, true, line.at);
                }
            }
            RunEvent::Recorded { instance, result, read_again, .. } => {
                self.know(*instance, result, *read_again, line.at);
            }
            RunEvent::Started { instance, attempt, folder, .. } => {
                self.attempts.insert(*attempt, (*instance, folder.clone()));
                self.bests.remove(instance);
            }
            RunEvent::Epoch { attempt, metrics, .. } => {
                self.judge(metrics.keys());
                self.best_epoch(*attempt, metrics);
            }
            RunEvent::RunEnded { .. } => self.ended = true,
            _ => {}
        }
        let mut event = events::event(line, &self.words, earlier);
        if let (Some(event), RunEvent::Cached { instance, .. }) = (&mut event, &line.event) {
            for (name, best) in self.bests.get(instance).into_iter().flatten() {
                event["result"]["metrics"][name]["best"] = json!(best);
            }
        }
        if let (Some(event), RunEvent::Cached { instance, .. } | RunEvent::Recorded { instance, .. }) =
            (&mut event, &line.event)
            && self.remade.contains_key(instance)
            && event["result"].is_object()
        {
            event["result"]["folder"] = Value::Bool(true);
        }
        self.events.extend(event.map(|event| event.to_string()));
    }

    /// Notes a result. One of an earlier attempt has no epochs in this journal.
    fn know(&mut self, instance: InstanceId, result: &StepResult, is_earlier: bool, at: u64) {
        self.judge(result.metrics.keys());
        if is_earlier {
            self.bests.insert(instance, self.best(result));
        }
        self.results.insert(instance, (result.clone(), at));
    }

    /// Notes these metrics, and finds out whether less or more of each is better.
    fn judge<'n>(&mut self, metrics: impl Iterator<Item = &'n String>) {
        for name in metrics.filter(|name| !self.metrics.contains(*name)).cloned().collect::<Vec<_>>() {
            if let Some(best) = Best::by_name(&name) {
                self.goals.insert(name.clone(), if best == Best::Min { "min" } else { "max" });
            }
            self.metrics.insert(name);
        }
    }

    /// Sorts metrics: the most telling first.
    fn sort(&self, names: &mut Vec<String>) {
        names.sort_by_cached_key(|name| {
            let rank = match (name.as_str(), self.goals.get(name).copied()) {
                (TIME, _) => 4,
                (name, _) if name.contains("per_s") => 2,
                (_, Some("max")) => 0,
                ("epoch_time", _) => 1,
                (_, Some(_)) => 2,
                (_, None) => 3,
            };
            (rank, name.clone())
        });
        names.dedup();
    }

    fn best_epoch(&mut self, attempt: AttemptId, metrics: &BTreeMap<String, f64>) {
        let Some((instance, _)) = self.attempts.get(&attempt) else { return };
        let bests = self.bests.entry(*instance).or_default();
        for (name, value) in metrics.iter().filter(|(_, value)| value.is_finite()) {
            let Some(goal) = self.goals.get(name) else { continue };
            let best = bests.entry(name.clone()).or_insert(*value);
            *best = if *goal == "min" { best.min(*value) } else { best.max(*value) };
        }
    }

    /// The best epochs of a reused result. For other results the page has all epochs.
    fn best(&self, result: &StepResult) -> BTreeMap<String, f64> {
        let Some(series) = result.series.and_then(|digest| self.source.series(&digest)) else {
            return BTreeMap::new();
        };
        let best = |(name, points): (&String, &Vec<flow_core::Point>)| {
            let goal = self.goals.get(name).filter(|_| result.metrics.contains_key(name))?;
            let of_epochs = points.iter().filter(|point| point.key.epoch.is_some() && point.key.step.is_none());
            let values = of_epochs.map(|point| point.value).filter(|value| value.is_finite());
            let best = values.reduce(if *goal == "min" { f64::min } else { f64::max })?;
            Some((name.clone(), best))
        };
        series.metrics.iter().filter_map(best).collect()
    }

    /// The events after the first `from`, and the present state; the page shows this many `runs`.
    pub(crate) fn updates(&mut self, from: usize, runs: usize, now: u64) -> String {
        if !self.ended && now.saturating_sub(self.read_at) >= EVERY {
            self.read_at = now;
            self.trouble = self.read().err();
        }
        let from = from.min(self.events.len());
        let new = &self.events[from..];
        let new = &new[..new.len().min(AT_ONCE)];
        let mut metrics: Vec<String> = self.metrics.iter().cloned().collect();
        self.sort(&mut metrics);
        let unread = self.source.unread();
        let unread = (unread > 0).then(|| phrase("unread", &[&unread.to_string()]));
        let mut head = json!({
            "metrics": metrics,
            "from": from, "next": from + new.len(), "all": self.events.len(), "now": now, "lives": self.lives,
            "ended": self.ended, "logs": !self.source.is_carried(), "host": self.source.host(), "trouble": self.trouble.as_deref().map(same).or(unread), "goals": self.goals,
            "runs": runs,
        });
        if !self.ended {
            head["status"] = self.status.clone();
            head["left"] = json!(self.left);
        }
        if from < self.steps_until {
            head["steps"] = json!(self.graph);
        }
        let mut text = head.to_string();
        text.truncate(text.len() - 1);
        text.push_str(",\"events\":[");
        text.push_str(&new.join(","));
        text.push_str("]}");
        text
    }

    /// The result of an instance, if it has one.
    pub(crate) fn result(&self, instance: InstanceId) -> Option<Value> {
        self.results.get(&instance).map(|(result, _)| events::whole(result, &self.words))
    }

    /// The series of an instance's result, if stored.
    pub(crate) fn series(&self, instance: InstanceId) -> Option<Value> {
        let mut series = self.source.series(&self.results.get(&instance)?.0.series?)?;
        thin(&mut series);
        let charts = facts::charts(&series);
        let mut series = serde_json::to_value(series).ok()?;
        series["charts"] = charts;
        // The charts have them.
        series.as_object_mut()?.remove("samples");
        Some(series)
    }

    /// The results of an instance's step over their axes, as known at a moment.
    pub(crate) fn axes(&self, instance: InstanceId, until: u64, wanted: &ChartRequest) -> Option<Value> {
        // A reused result may be of a step that had another name.
        let step = self.step_of.get(&instance)?;
        let is_known = |of: &InstanceId, at: u64| self.step_of.get(of) == Some(step) && at <= until;
        let known = self.results.iter().filter(|(of, (_, at))| is_known(of, *at));
        let rows: Vec<Row<'_>> = known.map(|(of, (result, _))| self.row(*of, result)).collect();
        let mut names: Vec<String> = rows.iter().flat_map(|row| row.values.keys().cloned()).collect();
        self.sort(&mut names);
        let DrawnChart { axes, values, svg } = axes::draw(&rows, names, wanted)?;
        Some(json!({"step": step, "axes": axes, "values": values, "svg": svg}))
    }

    /// The numbers of a result as the table shows them: of some metrics the best epoch.
    fn row<'r>(&self, instance: InstanceId, result: &'r StepResult) -> Row<'r> {
        let mut values: BTreeMap<String, f64> =
            result.metrics.iter().map(|(name, metric)| (name.clone(), metric.value)).collect();
        values.extend(result.usage.wall_s.map(|wall| (TIME.to_owned(), wall)));
        let mut best = BTreeSet::new();
        for (name, value) in self.bests.get(&instance).into_iter().flatten() {
            if result.metrics.get(name).is_some_and(|metric| metric.epochs.is_none()) {
                values.insert(name.clone(), *value);
                best.insert(name.clone());
            }
        }
        Row { instance, result, values, best }
    }

    /// The report that an instance made, as an HTML page.
    pub(crate) fn report(&self, instance: InstanceId, lang: &str) -> Option<String> {
        let outputs = &self.results.get(&instance)?.0.outputs;
        let folder = outputs.values().find(|artifact| artifact.kind == ArtifactKind::Folder);
        let read = |name: &str| match self.remade.get(&instance) {
            Some(files) => Some(files.get(name)?.clone().into_bytes()),
            None => self.source.file(&folder?.digest, name),
        };
        // A report in one language has no other.
        self.reports.page(read, Some(lang)).or_else(|_| self.reports.page(read, None)).ok()?
    }

    /// The end of an attempt's log.
    pub(crate) fn log(&self, attempt: AttemptId) -> Option<String> {
        self.source.log(&self.attempts.get(&attempt)?.1)
    }
}

/// Keeps as many points as a chart can show.
fn thin(series: &mut Series) {
    fn some<T: Copy>(points: &mut Vec<T>) {
        let step = points.len().div_ceil(POINTS);
        if step > 1 {
            let last = points.last().copied();
            *points = points.iter().copied().step_by(step).chain(last).collect();
        }
    }
    series.metrics.values_mut().for_each(some);
    series.samples.values_mut().for_each(some);
    some(&mut series.epoch_times);
}
