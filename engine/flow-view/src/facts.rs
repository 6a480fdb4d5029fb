//! What a card says about a result beyond its metrics: usage, circumstances, parameters.

use flow_core::{Series, StepResult};
use serde_json::{Value, json};

use crate::catalogue::{BilingualText, bytes, duration, number, percent, phrase, plain, same};

/// A name and a value.
type Fact = (BilingualText, BilingualText);

/// The sections of a card: a title, and the facts that are known.
pub(crate) fn sections(result: &StepResult) -> Value {
    let params = result.params.iter().map(|(name, value)| (same(name), same(&plain(value))));
    let all = [("usage", usage(result)), ("circumstances", circumstances(result)), ("params", params.collect())];
    all.into_iter().map(|(title, facts)| json!({"title": phrase(title, &[]), "facts": facts})).collect()
}

/// The facts that have a value.
fn known<const N: usize>(all: [(&str, Option<String>); N]) -> Vec<Fact> {
    let known = all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    known.map(|(name, value)| (phrase(name, &[]), same(&value))).collect()
}

fn usage(result: &StepResult) -> Vec<Fact> {
    let usage = &result.usage;
    let peaks: Vec<u64> = usage.gpus.iter().filter_map(|gpu| gpu.memory_peak).collect();
    let peak = (!peaks.is_empty()).then(|| bytes(peaks.iter().sum::<u64>() / peaks.len() as u64));
    known([
        ("wall", usage.wall_s.map(duration)),
        ("cores", usage.cores().map(number)),
        ("rss", usage.rss_peak.map(bytes)),
        ("load", load(result).map(percent)),
        ("gpu_memory", peak),
        ("energy", usage.energy_j.map(|joules| format!("{} Wh", number(joules / 3600.0)))),
        ("read", usage.disk_read.map(bytes)),
        ("written", usage.disk_written.map(bytes)),
    ])
}

/// The mean load of its GPUs.
pub(crate) fn load(result: &StepResult) -> Option<f64> {
    let loads: Vec<f64> = result.usage.gpus.iter().filter_map(flow_core::GpuUsage::load).collect();
    (!loads.is_empty()).then(|| loads.iter().sum::<f64>() / loads.len() as f64)
}

fn circumstances(result: &StepResult) -> Vec<Fact> {
    let seen = &result.circumstances;
    let mode = serde_json::to_value(seen.mode).unwrap_or_default();
    let mut all = vec![(phrase("mode", &[]), phrase(mode.as_str().unwrap_or_default(), &[]))];
    let [cpus, fake] = [phrase("cpus-n", &[&seen.host_cpus.to_string()]), phrase("fake", &[])];
    let machine = [0, 1].map(|lang| {
        let cpus = (!seen.cpu_model.is_empty()).then(|| format!("{} {}", cpus[lang], seen.cpu_model));
        let fake = if seen.fake_gpus { format!(" ({})", fake[lang]) } else { String::new() };
        seen.gpu_models.iter().cloned().chain(cpus).collect::<Vec<_>>().join(", ") + &fake
    });
    all.extend((!machine[0].is_empty()).then(|| (phrase("machine", &[]), machine)));
    let process = |one: &flow_core::ForeignProcess| {
        format!("{} ({})", if one.name.is_empty() { "?" } else { &one.name }, bytes(one.memory))
    };
    let worth = |share: Option<f64>| share.filter(|share| *share >= 0.005).map(percent);
    all.extend(known([
        ("driver", seen.driver.clone()),
        ("corunners", Some(seen.corunners.join(", "))),
        ("foreign_processes", Some(seen.foreign_processes.iter().map(process).collect::<Vec<_>>().join(", "))),
        ("foreign_cpu", worth(seen.foreign_cpu)),
        ("cpu_saturated", worth(seen.cpu_saturated)),
    ]));
    all.extend(seen.revision.as_ref().map(|revision| {
        let short = revision.short().to_string();
        (phrase("revision", &[]), if revision.dirty { phrase("dirty", &[&short]) } else { same(&short) })
    }));
    all.extend(seen.facts.iter().map(|(name, value)| (same(name), same(value))));
    all
}

/// The charts of what was measured over time: GPU loads, GPU memory, CPU cores.
pub(crate) fn charts(series: &Series) -> Value {
    let gpu = |name: &str| phrase("gpu", &[&name.chars().filter(char::is_ascii_digit).collect::<String>()]);
    let lines = |is: &dyn Fn(&str) -> bool, factor: f64, named: &dyn Fn(&str) -> BilingualText| -> Vec<Value> {
        let found = series.samples.iter().filter(|(name, points)| is(name) && points.len() > 1);
        let scaled = |points: &[(f64, f64)]| points.iter().map(|(t, v)| (*t, v * factor)).collect::<Vec<_>>();
        found.map(|(name, points)| json!({"name": named(name), "points": scaled(points)})).collect()
    };
    let load = |name: &str| name.ends_with("_load") && !name.ends_with("memory_load");
    let with = |key: &str, unit: &str| phrase(key, &[]).map(|words| format!("{words} ({unit})"));
    let all = [
        (with("load", "%"), lines(&load, 100.0, &gpu)),
        (with("memory-now", "GiB"), lines(&|name| name.ends_with("_memory"), 1.0 / f64::from(1 << 30), &gpu)),
        (phrase("cores", &[]), lines(&|name| name == "cpu_cores", 1.0, &|_| phrase("cores", &[]))),
    ];
    let drawn = all.into_iter().filter(|(_, lines)| !lines.is_empty());
    drawn.map(|(title, lines)| json!({"title": title, "lines": lines})).collect()
}
