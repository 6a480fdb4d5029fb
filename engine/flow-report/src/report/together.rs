//! Co-run groups as tables.

use flow_core::CorunGpus;

use super::gains::{change_of, share, slowdowns, slower_head, times_of};
use super::judged::verdict_key;
use super::model::Section;
use crate::columns::written;
use crate::findings::PackedRuns;
use crate::format::Format;
use crate::safe;
use crate::table::{Grid, Names, Reading, earlier, enough, unit_of};
use crate::verdict::{FOREIGN_CPU, GroupVerdict, Member, Resource, ResourceUse, Ruling, UNREPEATED, USUAL, Verdict};
use crate::words::{Args, Words, kind};

/// The members of all groups: times alone and together.
pub(crate) fn members(groups: &[GroupVerdict], words: &Words, lang: &str, names: &Names<'_>) -> Grid {
    let measured = |of: fn(&crate::verdict::Member) -> Option<f64>| {
        groups.iter().flat_map(move |g| &g.members).filter_map(of).collect::<Vec<_>>()
    };
    let times: Vec<f64> = measured(|m| m.alone).into_iter().chain(measured(|m| m.together)).collect();
    let pairs = groups.iter().flat_map(|g| g.members.iter().filter(|m| g.slowdown(m).is_some()));
    let pairs = pairs.filter_map(|m| m.together.zip(m.alone)).collect();
    let show = slowdowns(groups);
    let slower = Reading { show: show.clone(), pairs, of: |together, alone| together / alone - 1.0 };
    let time = enough(&Format::for_unit("s", times.iter().copied()), &[&slower]);
    let cpu = Format::for_unit("ratio", measured(|m| m.cpu).into_iter());
    let axes: Vec<&String> =
        groups.iter().flat_map(|g| &g.members).next().map(|m| m.axes.keys().collect()).unwrap_or_default();
    let measure = groups.first().map_or("epoch_time", |g| g.measure.as_str());
    let head = |key: &str| {
        let unit = time.head().unwrap_or_default();
        let text = words.text(lang, key, &Args::new().with("column", names.head(measure, lang)));
        format!("{text} ({unit})")
    };
    let mut heads: Vec<(String, bool)> =
        axes.iter().map(|axis| (names.head(axis, lang), numeric(groups, axis))).collect();
    let on_gpus = groups.iter().flat_map(|g| &g.members).any(|m| m.gpus.is_some_and(|n| n > 0));
    if on_gpus {
        heads.push((names.head("gpus", lang), true));
    }
    heads.push((head("together-alone"), true));
    let predicted = !measured(|m| m.predicted).is_empty();
    if predicted {
        heads.push((head("together-predicted"), true));
    }
    heads.push((head("together-together"), true));
    if predicted {
        heads.push((words.word(lang, "together-off"), true));
    }
    heads.push((words.word(lang, slower_head(&show)), true));
    heads.push((words.word(lang, "together-cpu-alone"), true));
    let foreign: Vec<f64> =
        measured(|m| m.foreign.0).into_iter().chain(measured(|m| m.foreign.1)).filter(|v| *v > FOREIGN_CPU).collect();
    let others = Format::for_unit("ratio", foreign.iter().copied());
    if !foreign.is_empty() {
        heads.push((words.word(lang, "together-foreign-alone"), true));
        heads.push((words.word(lang, "together-foreign-together"), true));
    }
    let rows = groups.iter().flat_map(|g| g.members.iter().map(move |m| (g, m))).map(|(g, m)| {
        let mut cells: Vec<String> =
            axes.iter().map(|axis| m.axes.get(*axis).map(|v| safe::text(&written(v))).unwrap_or_default()).collect();
        if on_gpus {
            cells.push(m.gpus.map_or_else(dash, |n| n.to_string()));
        }
        cells.push(m.alone.map_or_else(dash, |v| time.cell(v)));
        if predicted {
            cells.push(m.predicted.map_or_else(dash, |v| time.cell(v)));
        }
        cells.push(m.together.map_or_else(dash, |v| time.cell(v)));
        if predicted {
            cells.push(m.off().map_or_else(dash, |v| Format::change().cell(v)));
        }
        cells.push(g.slowdown(m).map_or_else(dash, |slower| change_of(slower, &show)));
        cells.push(m.cpu.map_or_else(dash, |v| cpu.cell(v)));
        if !foreign.is_empty() {
            cells.extend([m.foreign.0, m.foreign.1].map(|v| v.map_or_else(dash, |v| others.cell(v))));
        }
        cells
    });
    Grid { rows: rows.collect(), heads }
}

/// Packed runs: times alone and packed.
pub(crate) fn packed(packed: &PackedRuns, words: &Words, lang: &str, names: &Names<'_>) -> Grid {
    let pairs = packed.members.iter().map(|m| (m.packed, m.alone)).collect();
    let slowdown = Reading { show: Format::times(), pairs, of: |packed, alone| packed / alone };
    let time = Format::for_unit("s", packed.members.iter().flat_map(|m| [m.alone, m.packed]));
    let time = enough(&time, &[&slowdown]);
    let wall = |key: &str| {
        let of = words.text(lang, key, &Args::new().with("column", names.head("wall", lang)));
        format!("{of} ({})", time.head().unwrap_or_default())
    };
    let number = |at: usize| packed.members.iter().all(|m| m.point[at].parse::<f64>().is_ok());
    let axis = |(at, axis): (usize, &String)| (names.head(axis, lang), number(at));
    let mut heads: Vec<(String, bool)> = packed.axes.iter().enumerate().map(axis).collect();
    heads.extend(["together-alone", "packed-packed"].map(|key| (wall(key), true)));
    heads.push((words.word(lang, "packed-slowdown"), true));
    let row = |m: &crate::findings::Member| {
        let figures = [time.cell(m.alone), time.cell(m.packed), Format::times().cell(m.packed / m.alone)];
        m.point.iter().map(|value| safe::text(value)).chain(figures).collect()
    };
    Grid { heads, rows: packed.members.iter().map(row).collect() }
}

/// The resources that members used while together, and the sum for each group: CPU and host memory, and GPU memory if
/// the members share it. `None` if nothing was measured.
pub(crate) fn used(groups: &[GroupVerdict], words: &Words, lang: &str, names: &Names<'_>) -> Option<Grid> {
    type UseColumn = fn(&ResourceUse) -> Option<f64>;
    let all: [(&str, &str, UseColumn); 7] = [
        ("cpu_util", "ratio", |used| used.cpu),
        ("cpu_util_peak", "ratio", |used| used.cpu_peak),
        ("memory", "bytes", |used| used.memory),
        ("gpu_load", "ratio", |used| used.gpu_load),
        ("gpu_load_peak", "ratio", |used| used.gpu_load_peak),
        ("gpu_memory_load", "ratio", |used| used.gpu_memory_load),
        ("gpu_memory", "bytes", |used| used.gpu_memory),
    ];
    let members = || groups.iter().flat_map(|g| &g.members);
    let measured = |of: UseColumn| members().filter_map(|m| of(&m.used)).collect::<Vec<f64>>();
    let columns: Vec<(&str, Format, UseColumn)> = all
        .into_iter()
        .filter(|(.., of)| !measured(*of).is_empty())
        .map(|(name, unit, of)| (name, Format::for_unit(unit, measured(of).into_iter()), of))
        .collect();
    if columns.is_empty() {
        return None;
    }
    let axes: Vec<&String> = members().next().map(|m| m.axes.keys().collect()).unwrap_or_default();
    let head = |name: &str| names.head(name, lang);
    let mut heads: Vec<(String, bool)> = axes.iter().map(|axis| (head(axis), numeric(groups, axis))).collect();
    heads.extend(columns.iter().map(|(name, show, _)| (head(name) + &unit_of(show, words, lang), true)));
    let mut rows = Vec::new();
    for group in groups {
        for member in &group.members {
            let point =
                axes.iter().map(|axis| member.axes.get(*axis).map(|v| safe::text(&written(v))).unwrap_or_default());
            let figures = columns.iter().map(|(_, show, of)| of(&member.used).map_or_else(dash, |v| show.cell(v)));
            rows.push(point.chain(figures).collect());
        }
        let name = words.text(lang, "together-sum", &Args::new().with("group", safe::text(&group.group)));
        let mut sum: Vec<String> = vec![name];
        sum.resize(axes.len().max(1), String::new());
        sum.extend(columns.iter().map(|(name, show, of)| {
            let of_host = matches!(*name, "cpu_util" | "memory");
            let sums = of_host || *name == "gpu_memory" && group.placement == CorunGpus::Shared;
            // The sum of the displayed values, so that it is correct for a reader who adds them up.
            let total: Option<f64> = group.members.iter().map(|m| Some(show.as_read(of(&m.used)?))).sum();
            total.filter(|_| sums).map_or_else(dash, |v| show.cell(v))
        }));
        rows.push(sum);
    }
    Some(Grid { heads, rows })
}

/// The interference coefficients behind the predicted times on shared GPUs.
pub(crate) fn interference(groups: &[GroupVerdict], words: &Words, lang: &str) -> Option<String> {
    let on_gpu = |m: &Member| m.predicted.is_some() && m.gpus.is_some_and(|n| n > 0);
    let shared = |g: &&GroupVerdict| g.placement == CorunGpus::Shared && g.members.iter().any(on_gpu);
    let shown = Format { decimals: 2, factor: 1.0, ..Format::default() };
    let (known, unknown): (Vec<&GroupVerdict>, Vec<&GroupVerdict>) =
        groups.iter().filter(shared).partition(|g| g.interference.is_some());
    if known.is_empty() && unknown.is_empty() {
        return None;
    }
    let with = |g: &&GroupVerdict| {
        let (value, group) = (shown.number(g.interference.unwrap_or_default()), safe::text(&g.group));
        words.text(lang, "together-of-group", &Args::new().with("value", value).with("group", group))
    };
    let which = match (known.is_empty(), unknown.is_empty()) {
        (true, _) => "none",
        (false, true) => "all",
        (false, false) => "some",
    };
    let each: Vec<String> = known.iter().map(with).collect();
    let args = Args::new().with("known", which).with("each", words.list(lang, &each));
    Some(words.text(lang, "together-interference", &args))
}

/// The meaning of half an interval of a gain, and its basis if nothing was repeated.
pub(crate) fn intervals(groups: &[GroupVerdict], words: &Words, lang: &str) -> Option<String> {
    let mut told = groups.iter().filter(|g| matches!(g.gain, Some((_, Some(_))))).peekable();
    told.peek()?;
    let once = told.any(|g| !g.repeated);
    let [assumed, usual] = [UNREPEATED, USUAL].map(|sd| words.figure(lang, &share(), sd));
    let args = Args::new().flag("once", once).with("assumed", assumed).with("usual", usual);
    Some(words.text(lang, "note-gain", &args))
}

/// A note if the sum of the members' use exceeds 100%.
pub(crate) fn windows(groups: &[GroupVerdict], words: &Words, lang: &str) -> Option<String> {
    let all = |group: &GroupVerdict| group.members.iter().map(|m| m.used.cpu).sum::<Option<f64>>();
    groups.iter().any(|group| all(group).is_some_and(|sum| sum > 1.0)).then(|| words.word(lang, "note-windows"))
}

/// A note on the runs behind the times, if groups ran several times.
pub(crate) fn repeated(groups: &[GroupVerdict], words: &Words, lang: &str) -> Option<String> {
    let any = groups.iter().any(|group| group.looks > 1);
    any.then(|| words.word(lang, "note-all-runs"))
}

/// The notes that explain GPU figures.
pub(crate) fn explained(groups: &[GroupVerdict]) -> Vec<&'static str> {
    let figures = |kind: Resource| {
        groups.iter().flat_map(|g| &g.rulings).any(|ruling| ruling.resource == kind && ruling.demand.is_some())
    };
    let notes = [(Resource::Gpu, "note-gpu-load"), (Resource::GpuMemoryTraffic, "note-gpu-memory-load")];
    notes.into_iter().filter(|(kind, _)| figures(*kind)).map(|(_, note)| note).collect()
}

pub(super) fn numeric(groups: &[GroupVerdict], axis: &str) -> bool {
    groups.iter().flat_map(|g| &g.members).all(|m| m.axes.get(axis).is_some_and(serde_json::Value::is_number))
}

fn dash() -> String {
    "—".into()
}

/// The groups: verdict, gain, and the demand for each resource.
pub(crate) fn groups(section: &Section, words: &Words, lang: &str) -> Grid {
    let groups = &section.together;
    let then = groups.iter().any(|g| g.earlier.is_some());
    let ruling = |kind: Resource| groups.iter().flat_map(|g| &g.rulings).filter(move |r| r.resource == kind);
    let mut kinds = Resource::ALL.to_vec();
    kinds.retain(|kind| ruling(*kind).any(|r| r.demand.is_some()));
    let on_gpus = groups.iter().flat_map(|g| &g.members).any(|m| m.gpus.is_some_and(|n| n > 0));
    let mut heads = vec![(words.word(lang, "together-group"), false)];
    if on_gpus {
        heads.push((words.word(lang, "together-placement"), false));
    }
    heads.push((words.word(lang, "together-verdict"), false));
    heads.push((words.word(lang, "together-gain"), true));
    if then {
        heads.push((head_then(section, words, lang, "together-verdict"), false));
        heads.push((head_then(section, words, lang, "together-gain"), true));
    }
    let repeated = groups.iter().any(|g| g.looks > 1 || g.verdict.is_undecided());
    if repeated {
        heads.push((words.word(lang, "together-runs"), true));
    }
    let disturbed: Vec<f64> = groups.iter().filter_map(GroupVerdict::left_out_for).collect();
    let others = Format::for_unit("ratio", disturbed.iter().copied());
    if !disturbed.is_empty() {
        heads.push((words.word(lang, "together-foreign-left-out"), true));
    }
    heads.extend(kinds.iter().map(|kind| {
        let asked = format!("demand-{}", kind.key());
        let of = match ruling(*kind).any(|r| r.used.is_some()) {
            true => words.text(lang, "demand-used", &Args::new().with("demand", words.word(lang, &asked))),
            false => words.word(lang, &asked),
        };
        (of, true)
    }));
    let rows = groups.iter().map(|g| {
        let mut cells = vec![safe::text(&g.group)];
        if on_gpus {
            cells.push(words.word(lang, &format!("placement-{}", kind(&g.placement))));
        }
        cells.push(match g.verdict {
            Verdict::Parallel => {
                let args = Args::new().with("tolerance", words.figure(lang, &share(), g.tolerance));
                words.text(lang, "verdict-parallel-within", &args)
            }
            _ => words.word(lang, verdict_key(&g.verdict)),
        });
        let times = Format::times();
        cells.push(g.gain.map_or_else(dash, |gain| times_of(gain, Format::cell)));
        if then {
            let of = g.earlier.as_deref();
            cells.push(of.map_or_else(dash, |of| words.word(lang, verdict_key(&of.verdict))));
            cells.push(of.and_then(|of| of.gain).map_or_else(dash, |(gain, _)| times.cell(gain)));
        }
        if repeated {
            let args = || Args::new().with("counted", g.counted().to_string()).with("looks", g.looks.to_string());
            let runs = match g.left_out.is_empty() || g.looks < 2 {
                true => g.looks.to_string(),
                false => words.text(lang, "together-counted", &args()),
            };
            cells.push(match (g.verdict.is_undecided(), g.more) {
                (true, Some(more)) => format!("{runs} + {more}"),
                (true, None) if g.gain.is_some() => format!("{runs} + > 100"),
                // For a group without a gain, nothing says whether more runs would help.
                _ => runs,
            });
        }
        if !disturbed.is_empty() {
            cells.push(g.left_out_for().map_or_else(dash, |used| others.cell(used)));
        }
        cells.extend(kinds.iter().map(|kind| match g.rulings.iter().find(|r| r.resource == *kind) {
            Some(Ruling { demand: Some(asked), alone: Some(alone), .. }) => {
                format!("{} → {}", share().cell(*alone), share().cell(*asked))
            }
            Some(Ruling { demand: Some(asked), used: Some(used), .. }) => {
                format!("{} → {}", share().cell(*asked), share().cell(*used))
            }
            Some(Ruling { demand: Some(asked), .. }) => share().cell(*asked),
            _ => dash(),
        }));
        cells
    });
    Grid { rows: rows.collect(), heads }
}

/// The header of earlier figures of groups: `Verdict, published`.
pub(super) fn head_then(section: &Section, words: &Words, lang: &str, key: &str) -> String {
    let comma = words.word(lang, "mark-comma");
    let then = earlier(&section.table, words, lang);
    format!("{}{comma}{then}", words.word(lang, key))
}
