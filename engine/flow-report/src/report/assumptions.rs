//! The assumptions of the simulations behind a section, as text and as a table of job kinds. A report lists each
//! assumption once; a later section lists only differences.

use std::collections::BTreeSet;

use flow_core::StepView;

use crate::assumptions::{AssumedKind, AssumedLoad, Assumptions};
use crate::format::Format;
use crate::safe;
use crate::table::{Grid, GridColumns};
use crate::words::{Args, Locale, fields};

/// The file with the assumptions.
const FILE: &str = "assumed.json";

/// The assumptions of a step's simulations; none for other steps.
pub(super) fn assumed(view: &StepView) -> Vec<Assumptions> {
    if view.uses.as_deref() != Some("flow/simulate") {
        return Vec::new();
    }
    let mut all: Vec<Assumptions> = Vec::new();
    for assumed in view.files.iter().filter_map(|files| serde_json::from_slice(files.get(FILE)?).ok()) {
        if !all.contains(&assumed) {
            all.push(assumed);
        }
    }
    all
}

/// The assumptions as Markdown lines. `said` holds the lines of earlier sections, which are not repeated.
pub(super) fn worded(all: &[Assumptions], words: Locale<'_>, said: &mut BTreeSet<String>) -> Option<String> {
    let mut out = Vec::new();
    for grid in kinds(all, words) {
        let text = grid.markdown(words);
        if said.insert(text.clone()) {
            out.push(text);
        }
    }
    let mut lines = String::new();
    for line in self::lines(all, words) {
        if said.insert(line.clone()) {
            lines += &format!("- {}\n", safe::line(&line));
        }
    }
    out.extend((!lines.is_empty()).then_some(lines));
    (!out.is_empty()).then(|| out.join("\n"))
}

/// One table per mix.
fn kinds(all: &[Assumptions], words: Locale<'_>) -> Vec<Grid> {
    let mut mixes: Vec<&[AssumedKind]> = Vec::new();
    for assumed in all {
        match &assumed.load {
            AssumedLoad::Mix(kinds) if !mixes.contains(&&**kinds) => mixes.push(kinds),
            _ => {}
        }
    }
    mixes.into_iter().map(|kinds| grid(kinds, words)).collect()
}

fn grid(kinds: &[AssumedKind], words: Locale<'_>) -> Grid {
    let head = |key: &str| words.word(&format!("assumed-{key}"));
    let share = Format { decimals: 0, ..Format::for_unit("ratio", [1.0].into_iter()) };
    let minutes = Format { unit: "min".into(), factor: 1.0 / 60.0, decimals: 0, ..Format::default() };
    let of = |value: fn(&AssumedKind) -> f64| {
        let values = kinds.iter().map(value);
        Format::for_unit("", values.clone()).no_finer_than(values)
    };
    let mut columns = GridColumns::<&AssumedKind>::new();
    columns.text(head("kind"), |kind| safe::text(&kind.name));
    columns.figure(head("share"), &share, |kind| Some(kind.share));
    columns.number(head("gpus"), |kind| kind.gpus.to_string());
    columns.figure(head("duration"), &minutes, |kind| Some(kind.duration_s));
    columns.figure(head("spread"), &of(|kind| kind.spread), |kind| Some(kind.spread));
    columns.figure(head("cores"), &of(|kind| kind.cores), |kind| Some(kind.cores));
    columns.figure(head("busy"), &share, |kind| Some(kind.gpu_busy));
    columns.figure(head("memory"), &of(|kind| kind.gpu_memory_gib), |kind| Some(kind.gpu_memory_gib));
    columns.grid(kinds)
}

fn lines(all: &[Assumptions], words: Locale<'_>) -> Vec<String> {
    let Some(first) = all.first() else { return Vec::new() };
    let say = |key: &str, args: Args| words.text(key, &args);
    let list = |values: Vec<String>| {
        let mut values = values;
        values.dedup();
        values.sort_by(|a, b| a.parse::<f64>().unwrap_or(0.0).total_cmp(&b.parse().unwrap_or(0.0)));
        values.dedup();
        values.join(", ")
    };
    let each = |value: &dyn Fn(&Assumptions) -> Option<String>| list(all.iter().filter_map(value).collect());
    let mut out = Vec::new();
    let cores = first.cores.map_or(String::new(), |cores| Format::count().number(cores));
    let args = Args::new().with("cluster", safe::text(&first.cluster)).with("cores", cores);
    out.push(say("assumed-cluster", args.flag("counts", first.cores.is_some())));
    let jobs = Args::new().with("jobs", first.jobs.to_string());
    out.push(match &first.load {
        AssumedLoad::Mix(_) => say("assumed-arrivals", jobs),
        AssumedLoad::Trace(file) => say("assumed-trace", jobs.with("file", safe::code(file))),
    });
    out.push(match first.seeds {
        1 => say("assumed-once", Args::new()),
        n => say("assumed-seeds", Args::new().with("seeds", n.to_string()).with("last", (n - 1).to_string())),
    });
    if all.iter().any(|assumed| assumed.estimate_error > 0.0) {
        let errors = each(&|assumed| Some(assumed.estimate_error.to_string()));
        out.push(say("assumed-errors", Args::new().with("errors", errors)));
    } else {
        out.push(say("assumed-known", Args::new()));
    }
    if all.iter().any(|assumed| assumed.one_gpu) {
        out.push(say("assumed-one-gpu", Args::new()));
    }
    let levels = each(&|assumed| assumed.priorities.filter(|_| assumed.policy == "priority").map(|n| n.to_string()));
    if !levels.is_empty() {
        out.push(say("assumed-priorities", Args::new().with("levels", levels)));
    }
    let v = each(&|assumed| assumed.v.map(|v| v.to_string()));
    if !v.is_empty() {
        out.push(say("assumed-v", Args::new().with("v", v)));
    }
    for slurm in all.iter().filter_map(|assumed| assumed.slurm.as_ref()) {
        let line = words.text("assumed-slurm", &fields(slurm, "", |_, _| None).1);
        if !out.contains(&line) {
            out.push(line);
        }
    }
    if all.iter().any(|assumed| assumed.share) {
        out.push(say("assumed-sharing", Args::new()));
    }
    out
}
