//! From YAML to `metrics:` of one step.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Value;
use serde_yaml::Value as Yaml;

use super::{at::YamlPath, files, read::Reader, typed_value};
use crate::{
    Diagnostic,
    metrics::{Metrics, MetricsFile, MetricsForm, Pattern, Summary, SummaryError, metric_name},
};

impl Reader<'_> {
    pub(super) fn metrics(&mut self, yaml: &Yaml, at: &YamlPath) -> Option<Metrics> {
        const KEYS: [&str; 7] = ["json", "jsonl", "csv", "tensorboard", "stdout", "summary", "required"];
        const PLACES: &str = "a text, or a list of texts";
        let what = "places of numbers, `{stdout: PATTERN}`, `{json: FILE}`, `{jsonl: FILE}`, `{csv: FILE}`, \
                    `{tensorboard: FOLDER}`";
        let value = self.plain(yaml, at, "metrics")?;
        let before = self.problems.0.len();
        let mut metrics = Metrics::default();
        for (key, value) in self.typed(at, typed_value::mapping(&value, what))? {
            let below = at.key(&key);
            match &*key {
                "required" => metrics.required = self.typed(&below, typed_value::boolean(&value)).unwrap_or_default(),
                "summary" => metrics.summary = self.summary(&value, &below),
                "stdout" => {
                    for (text, at) in self.one_or_several(&value, &below, PLACES).unwrap_or_default() {
                        let pattern = Pattern::new(&text).map_err(|m| self.problems.value(&at, Diagnostic::new(m)));
                        metrics.stdout.extend(pattern);
                    }
                }
                form => {
                    let Some((_, form)) = MetricsForm::KEYS.into_iter().find(|(known, _)| *known == form) else {
                        let what = Diagnostic::new(format!("`metrics` cannot be read from `{form}`"));
                        self.problems.key(&below, what.nearest(form, KEYS));
                        continue;
                    };
                    for (path, at) in self.one_or_several(&value, &below, PLACES).unwrap_or_default() {
                        if path.starts_with('/') || path.split('/').any(|part| part == "..") || path.is_empty() {
                            let what = Diagnostic::new(format!("`{path}` is not in the step's work folder"));
                            self.problems.value(&at, what.label("expected a relative path without `..`"));
                        }
                        if files::is_pattern(&path) {
                            let what = Diagnostic::new(format!("`{path}` is a pattern"));
                            self.problems
                                .value(&at, what.help(format!("`{key}` takes no patterns: name each file, as a list")));
                        }
                        metrics.files.push(MetricsFile { form, path });
                    }
                }
            }
        }
        if self.problems.0.len() > before {
            return None;
        }
        // In whatever order they are written.
        metrics.files.sort();
        if metrics.files.is_empty() && metrics.stdout.is_empty() {
            let none = Diagnostic::new("`metrics` names no source of numbers");
            self.problems.value(at, none.label(format!("expected {what}")));
        } else if !metrics.stdout.is_empty() && metrics.stdout.iter().all(Pattern::is_heading) {
            let what = Diagnostic::new("the pattern names no number").help("`{loss}` stands for one");
            self.problems.value(&at.key("stdout"), what);
        } else if let Some(known) = metrics.names() {
            self.known(&metrics.summary, &known, &at.key("summary"));
        }
        (self.problems.0.len() == before).then_some(metrics)
    }

    fn summary(&mut self, value: &Value, at: &YamlPath) -> BTreeMap<String, Summary> {
        const WHAT: &str = "`last`, `min`, `max`, `best`, `at min NAME`, `at max NAME` or `at best NAME`";
        let mut all = BTreeMap::new();
        for (name, value) in
            self.typed(at, typed_value::mapping(value, "metrics, each with its value")).unwrap_or_default()
        {
            let below = at.key(&name);
            let Some(name) = metric_name(&name) else {
                self.problems.key(&below, Diagnostic::new(format!("`{name}` is not a metric name")));
                continue;
            };
            match value.as_str().map_or(Err(SummaryError::Unknown), |text| Summary::parse(&name, text)) {
                Ok(summary) => drop(all.insert(name, summary)),
                Err(SummaryError::NoDirection { metric: of }) => {
                    let what = format!("flow cannot tell whether a low or a high `{of}` is better");
                    self.problems.value(&below, Diagnostic::new(what).help("write `min` or `max` instead of `best`"));
                }
                Err(SummaryError::Unknown) => drop(self.typed(&below, typed_value::expected::<()>(&value, WHAT))),
            }
        }
        all
    }

    /// Metrics that `summary` names and no pattern does.
    fn known(&mut self, summary: &BTreeMap<String, Summary>, known: &[String], at: &YamlPath) {
        let names: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        for (name, summary) in summary {
            let of = match summary {
                Summary::At { of, .. } => Some(&**of),
                Summary::Last | Summary::Best(_) => None,
            };
            for wrong in [Some(&**name), of].into_iter().flatten().filter(|name| !names.contains(name)) {
                let what = Diagnostic::new(format!("no pattern names the metric `{wrong}`"));
                self.problems.value(&at.key(name), what.nearest(wrong, names.iter().copied()));
            }
        }
    }
}
