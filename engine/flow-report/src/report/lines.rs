//! The set-up of a page, line by line: parameters, hardware, versions, runs, and the meaning of words on the page.

use std::collections::BTreeSet;

use serde::Serialize;

use super::model::{Report, Section};
use super::setup::Setup;
use super::with::Value;
use crate::bounds::{self, DefinedWord};
use crate::findings::facts;
use crate::safe;
use crate::table::name;
use crate::words::{Args, Locale};

/// A line of the set-up: label, colon and value.
#[derive(Clone, Serialize)]
pub(super) struct LabelledValue {
    label: String,
    colon: String,
    value: String,
}

/// `16 CPUs`, or `8 of 32 CPUs`.
pub(super) fn cpu_count(setup: &Setup, model: &str, count: u32, words: Locale<'_>) -> String {
    let counts = Args::new().count("n", count as usize);
    match setup.host_cpus.get(model) {
        Some(of) => words.text("cpu-count-of", &counts.count("of", *of as usize)),
        None => words.text("cpu-count", &counts),
    }
}

pub(super) fn setup(report: &Report, words: Locale<'_>) -> Vec<LabelledValue> {
    let setup = &report.setup;
    let colon = words.word("mark-colon");
    let said = |key: &str| words.word(key);
    let line = |label: String, value: String| LabelledValue { label, colon: colon.clone(), value };
    let mut lines = Vec::new();
    for (parameter, value) in &setup.parameters {
        let value = match parameter.as_str() {
            "input_size" if value.parse::<u32>().is_ok() => format!("{value}×{value}"),
            _ => safe::text(value),
        };
        // A line by the author with the same label replaces this one.
        let name = name(parameter, words);
        if !setup.more.iter().any(|own| own.label.of(words.lang) == name) {
            lines.push(line(name, value));
        }
    }
    let listed = |all: &[(String, String)]| {
        all.iter().map(|(name, value)| safe::code(&format!("{name}={value}"))).collect::<Vec<_>>().join(", ")
    };
    if !setup.set.is_empty() {
        lines.push(line(said("setup-set"), listed(&setup.set)));
    }
    if !setup.others.is_empty() {
        let short: Vec<_> = setup.others.iter().map(|(name, value)| (name.clone(), shortened(value))).collect();
        lines.push(line(said("setup-others"), listed(&short)));
    }
    for own in &setup.more {
        let value = match &own.value {
            Value::Number(n) => n.to_string(),
            Value::Text(text) => safe::authors(text.of(words.lang)),
        };
        lines.push(line(safe::authors(own.label.of(words.lang)), value));
    }
    let mib = |bytes: u64| bytes / (1 << 20);
    let gpus = setup.gpus.iter().map(|(model, count, memory)| {
        let mut text = format!("{count} × {}", safe::text(model));
        if *memory > 0 {
            text += &format!(", {} MiB", mib(*memory));
        }
        if let Some(there) = setup.machine_gpus.get(model) {
            let there = words.text("setup-gpus-there", &Args::new().with("there", there.to_string()));
            text += &format!(" ({there})");
        }
        text
    });
    let gpus: Vec<String> = gpus.collect();
    let cpus = setup.cpus.iter().map(|(model, count)| {
        let count = cpu_count(setup, model, *count, words);
        format!("{} ({count})", safe::text(model))
    });
    let cpus: Vec<String> = cpus.collect();
    // If no CPU is known, nothing ran on a machine. The report then shows computed results, which are the same
    // everywhere.
    if !cpus.is_empty() {
        lines.push(line("GPU".into(), if gpus.is_empty() { said("setup-no-gpu") } else { gpus.join("; ") }));
        lines.push(line("CPU".into(), cpus.join("; ")));
    }
    if let Some(slurm) = setup.slurm {
        let args = Args::new().count("jobs", slurm.jobs).count("nodes", slurm.nodes);
        lines.push(line("Slurm".into(), words.text("setup-slurm", &args)));
    }
    if !setup.versions.is_empty() {
        let versions = setup.versions.iter().map(|(name, version)| (name.as_str(), safe::text(version)));
        let versions = versions.map(|(name, version)| match name {
            "torch" => format!("PyTorch {version}"),
            "cuda" => format!("CUDA {version}"),
            "cudnn" => format!("cuDNN {version}"),
            "driver" => format!("NVIDIA {version}"),
            other => format!("{} {version}", safe::text(other)),
        });
        lines.push(line(said("setup-versions"), versions.collect::<Vec<_>>().join(", ")));
    }
    if let Some((profile, why)) = &setup.profile {
        let args = Args::new().with("profile", safe::code(profile)).with("why", words.reasons().profile(why));
        lines.push(line(said("setup-profile"), words.text("setup-profile-value", &args)));
    }
    if !report.runs.is_empty() {
        let runs: Vec<String> = report.runs.iter().map(|run| safe::code(&run.0)).collect();
        lines.push(line(said("setup-runs"), runs.join(", ")));
    }
    if !setup.revisions.is_empty() {
        let each = setup.revisions.iter().map(|revision| {
            let args = Args::new().with("commit", safe::code(revision.short()));
            let state = if revision.dirty { "setup-commit-dirty" } else { "setup-commit-clean" };
            let outside = revision.outside.then(|| words.word("setup-commit-outside"));
            words.text(state, &args) + &outside.unwrap_or_default()
        });
        lines.push(line(said("setup-commit"), each.collect::<Vec<_>>().join("; ")));
    }
    let defined: BTreeSet<DefinedWord> = report.sections.iter().flat_map(defined).collect();
    if !defined.is_empty() {
        lines.push(line(said("setup-method"), bounds::worded(&defined, words)));
    }
    lines
}

/// The words that the set-up defines: those that the findings, verdicts and analyses of a section can contain.
fn defined(section: &Section) -> Vec<DefinedWord> {
    let mut all: Vec<DefinedWord> = section.findings.iter().filter_map(|one| facts(&one.finding).word).collect();
    all.extend(section.analyses.iter().flat_map(|(_, analysis)| analysis.defined()));
    if !section.together.is_empty() {
        all.push(DefinedWord::Parallel);
    }
    if section.together.iter().any(|group| group.earlier.is_some()) {
        all.push(DefinedWord::Reproduced);
    }
    // The comparison with earlier figures has findings of both sides, and says `flat` and `same` in short.
    if !section.held.is_empty() {
        let both = section.held.iter().flat_map(|found| [&found.then, &found.now]).flatten();
        all.extend(both.filter_map(|one| facts(&one.finding).word));
        all.extend([DefinedWord::Reproduced, DefinedWord::Same]);
    }
    all
}

/// A value in at most 40 characters.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 40;
    match value.char_indices().nth(LONGEST - 1) {
        Some((end, _)) if value.chars().count() > LONGEST => format!("{}…", &value[..end]),
        _ => value.to_owned(),
    }
}
