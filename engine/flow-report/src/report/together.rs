//! Co-run groups as tables.

use flow_core::CorunGpus;

use super::gains::{change_of, gain_of, share, slowdowns, slower_head};
use super::judged::verdict_key;
use super::model::Section;
use crate::columns::written;
use crate::findings::PackedRuns;
use crate::format::Format;
use crate::safe;
use crate::table::{Grid, GridColumns, Names, Reading, dash, earlier, enough, unit_of};
use crate::verdict::{FOREIGN_CPU, GroupVerdict, Member, Resource, ResourceUse, Ruling, UNREPEATED, USUAL, Verdict};
use crate::words::{Args, Locale, kind};

/// The columns of the axes of members, the same for all groups.
fn axes<'a, R: Copy + 'a>(
    groups: &'a [GroupVerdict],
    names: &Names<'_>,
    cell: impl Fn(R, &str) -> String + Copy + 'a,
) -> GridColumns<'a, R> {
    let members = || groups.iter().flat_map(|group| &group.members);
    let mut columns = GridColumns::new();
    for axis in members().next().into_iter().flat_map(|member| member.axes.keys()) {
        match members().all(|m| m.axes.get(axis).is_some_and(serde_json::Value::is_number)) {
            true => columns.number(names.head(axis), move |row| cell(row, axis)),
            false => columns.text(names.head(axis), move |row| cell(row, axis)),
        }
    }
    columns
}

fn at(member: &Member, axis: &str) -> String {
    member.axes.get(axis).map(|value| safe::text(&written(value))).unwrap_or_default()
}

/// The members of all groups: times alone and together.
pub(crate) fn members(groups: &[GroupVerdict], names: &Names<'_>) -> Grid {
    members_of(groups, &slowdowns(groups), false, names)
}

/// The members with earlier figures, slowdowns in this format. They have no other columns, and no more digits than they
/// were given with.
pub(super) fn earlier_members(groups: &[GroupVerdict], show: &Format, names: &Names<'_>) -> Grid {
    members_of(groups, show, true, names)
}

fn members_of(groups: &[GroupVerdict], show: &Format, earlier: bool, names: &Names<'_>) -> Grid {
    let words = names.words;
    let all = || groups.iter().flat_map(|g| g.members.iter().map(move |m| (g, m)));
    let measured = |of: fn(&Member) -> Option<f64>| all().filter_map(|(_, m)| of(m)).collect::<Vec<_>>();
    let times = [measured(|m| m.alone), measured(|m| m.together)].concat();
    let pairs = all().filter(|(g, m)| g.slowdown(m).is_some()).filter_map(|(_, m)| m.together.zip(m.alone)).collect();
    let slower = Reading { show: show.clone(), pairs, of: |together, alone| together / alone - 1.0 };
    let time = Format::for_unit("s", times.iter().copied());
    let time = if earlier { time.no_finer_than(times.into_iter()) } else { time };
    let time = enough(&time, &[&slower]);
    let measure = groups.first().map_or("epoch_time", |g| g.measure.as_str());
    let head = |key: &str| of_time(key, measure, &time, names);
    let mut columns = axes(groups, names, |(_, m): (&GroupVerdict, &Member), axis| at(m, axis));
    if !earlier && all().any(|(_, m)| m.gpus.is_some_and(|n| n > 0)) {
        columns.number(names.head("gpus"), |(_, m)| m.gpus.map_or_else(dash, |n| n.to_string()));
    }
    columns.figure(head("together-alone"), &time, |(_, m)| m.alone);
    let predicted = !measured(|m| m.predicted).is_empty();
    if predicted {
        columns.figure(head("together-predicted"), &time, |(_, m)| m.predicted);
    }
    columns.figure(head("together-together"), &time, |(_, m)| m.together);
    if predicted {
        columns.figure(words.word("together-off"), &Format::change(), |(_, m)| m.off());
    }
    columns.number(words.word(slower_head(show)), |(g, m)| {
        g.slowdown(m).map_or_else(dash, |slower| change_of(slower, show))
    });
    if !earlier {
        let cpu = Format::for_unit("ratio", measured(|m| m.cpu).into_iter());
        columns.figure(words.word("together-cpu-alone"), &cpu, |(_, m)| m.cpu);
    }
    let mut foreign = [measured(|m| m.foreign.0), measured(|m| m.foreign.1)].concat();
    foreign.retain(|used| *used > FOREIGN_CPU);
    if !foreign.is_empty() {
        let others = Format::for_unit("ratio", foreign.into_iter());
        columns.figure(words.word("together-foreign-alone"), &others, |(_, m)| m.foreign.0);
        columns.figure(words.word("together-foreign-together"), &others, |(_, m)| m.foreign.1);
    }
    columns.grid(all())
}

/// The header of a time, with its unit.
fn of_time(key: &str, measure: &str, show: &Format, names: &Names<'_>) -> String {
    let text = names.words.text(key, &Args::new().with("column", names.head(measure)));
    format!("{text} ({})", show.head().unwrap_or_default())
}

/// Packed runs: times alone and packed.
pub(crate) fn packed(packed: &PackedRuns, names: &Names<'_>) -> Grid {
    let pairs = packed.members.iter().map(|m| (m.packed, m.alone)).collect();
    let slowdown = Reading { show: Format::times(), pairs, of: |packed, alone| packed / alone };
    let time = Format::for_unit("s", packed.members.iter().flat_map(|m| [m.alone, m.packed]));
    let time = enough(&time, &[&slowdown]);
    let mut columns = GridColumns::new();
    for (at, axis) in packed.axes.iter().enumerate() {
        let cell = move |m: &crate::findings::Member| safe::text(&m.point[at]);
        match packed.members.iter().all(|m| m.point[at].parse::<f64>().is_ok()) {
            true => columns.number(names.head(axis), cell),
            false => columns.text(names.head(axis), cell),
        }
    }
    columns.figure(of_time("together-alone", "wall", &time, names), &time, |m| Some(m.alone));
    columns.figure(of_time("packed-packed", "wall", &time, names), &time, |m| Some(m.packed));
    columns.figure(names.words.word("packed-slowdown"), &Format::times(), |m| Some(m.packed / m.alone));
    columns.grid(&packed.members)
}

/// The resources that members used while together, and the sum for each group: CPU and host memory, and GPU memory if
/// the members share it. `None` if nothing was measured.
pub(crate) fn used(groups: &[GroupVerdict], names: &Names<'_>) -> Option<Grid> {
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
    // The row of a group has its name in place of the first axis.
    let first = groups.iter().flat_map(|group| &group.members).next();
    let first = first.and_then(|member| member.axes.keys().next()).map(String::as_str);
    let sum = |group: &GroupVerdict| Args::new().with("group", safe::text(&group.group));
    let mut columns = axes(groups, names, |(g, m): (&GroupVerdict, Option<&Member>), axis| match m {
        Some(member) => at(member, axis),
        None if Some(axis) == first => names.words.text("together-sum", &sum(g)),
        None => String::new(),
    });
    let mut any = false;
    for (name, unit, of) in all {
        let measured = groups.iter().flat_map(|g| &g.members).filter_map(|m| of(&m.used));
        let measured: Vec<f64> = measured.collect();
        if measured.is_empty() {
            continue;
        }
        any = true;
        let show = Format::for_unit(unit, measured.into_iter());
        let read = show.clone();
        columns.figure(names.head(name) + &unit_of(&show, names.words), &show, move |(group, member)| match member {
            Some(member) => of(&member.used),
            None => {
                let shared = name == "gpu_memory" && group.placement == CorunGpus::Shared;
                // The sum of the displayed values, so that it is correct for a reader who adds them up.
                let total: Option<f64> = group.members.iter().map(|m| Some(read.as_read(of(&m.used)?))).sum();
                total.filter(|_| matches!(name, "cpu_util" | "memory") || shared)
            }
        });
    }
    let rows = groups.iter().flat_map(|g| g.members.iter().map(Some).chain([None]).map(move |member| (g, member)));
    any.then(|| columns.grid(rows))
}

/// The interference coefficients behind the predicted times on shared GPUs.
pub(crate) fn interference(groups: &[GroupVerdict], words: Locale<'_>) -> Option<String> {
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
        words.text("together-of-group", &Args::new().with("value", value).with("group", group))
    };
    let which = match (known.is_empty(), unknown.is_empty()) {
        (true, _) => "none",
        (false, true) => "all",
        (false, false) => "some",
    };
    let each: Vec<String> = known.iter().map(with).collect();
    let args = Args::new().with("known", which).with("each", words.list(&each));
    Some(words.text("together-interference", &args))
}

/// The meaning of half an interval of a gain, and its basis if nothing was repeated.
pub(crate) fn intervals(groups: &[GroupVerdict], words: Locale<'_>) -> Option<String> {
    let mut told = groups.iter().filter(|g| matches!(g.gain, Some((_, Some(_))))).peekable();
    told.peek()?;
    let once = told.any(|g| !g.repeated);
    let [assumed, usual] = [UNREPEATED, USUAL].map(|sd| words.figure(&share(), sd));
    let args = Args::new().flag("once", once).with("assumed", assumed).with("usual", usual);
    Some(words.text("note-gain", &args))
}

/// A note if the sum of the members' use exceeds 100%.
pub(crate) fn windows(groups: &[GroupVerdict], words: Locale<'_>) -> Option<String> {
    let all = |group: &GroupVerdict| group.members.iter().map(|m| m.used.cpu).sum::<Option<f64>>();
    groups.iter().any(|group| all(group).is_some_and(|sum| sum > 1.0)).then(|| words.word("note-windows"))
}

/// A note on the runs behind the times, if groups ran several times.
pub(crate) fn repeated(groups: &[GroupVerdict], words: Locale<'_>) -> Option<String> {
    let any = groups.iter().any(|group| group.looks > 1);
    any.then(|| words.word("note-all-runs"))
}

/// The notes that explain GPU figures.
pub(crate) fn explained(groups: &[GroupVerdict]) -> Vec<&'static str> {
    let figures = |kind: Resource| {
        groups.iter().flat_map(|g| &g.rulings).any(|ruling| ruling.resource == kind && ruling.demand.is_some())
    };
    let notes = [(Resource::Gpu, "note-gpu-load"), (Resource::GpuMemoryTraffic, "note-gpu-memory-load")];
    notes.into_iter().filter(|(kind, _)| figures(*kind)).map(|(_, note)| note).collect()
}

/// The groups: verdict, gain, and the demand for each resource.
pub(crate) fn groups(section: &Section, words: Locale<'_>) -> Grid {
    let groups = &section.together;
    let ruling = |kind: Resource| groups.iter().flat_map(|g| &g.rulings).filter(move |r| r.resource == kind);
    let mut columns = GridColumns::<&GroupVerdict>::new();
    columns.text(words.word("together-group"), |g| safe::text(&g.group));
    if groups.iter().flat_map(|g| &g.members).any(|m| m.gpus.is_some_and(|n| n > 0)) {
        let placed = |g: &GroupVerdict| words.word(&format!("placement-{}", kind(&g.placement)));
        columns.text(words.word("together-placement"), placed);
    }
    columns.text(words.word("together-verdict"), |g| match g.verdict {
        Verdict::Parallel => {
            let args = Args::new().with("tolerance", words.figure(&share(), g.tolerance));
            words.text("verdict-parallel-within", &args)
        }
        _ => words.word(verdict_key(&g.verdict)),
    });
    columns.number(words.word("together-gain"), gain_of);
    if groups.iter().any(|g| g.earlier.is_some()) {
        let verdict = |g: &GroupVerdict| words.word(verdict_key(&g.verdict));
        columns.text(head_then(section, words, "together-verdict"), move |g| {
            g.earlier.as_deref().map_or_else(dash, verdict)
        });
        let gain = |g: &GroupVerdict| Some(g.earlier.as_ref()?.gain?.0);
        columns.figure(head_then(section, words, "together-gain"), &Format::times(), gain);
    }
    if groups.iter().any(|g| g.looks > 1 || g.verdict.is_undecided()) {
        columns.number(words.word("together-runs"), |g| {
            let args = || Args::new().with("counted", g.counted().to_string()).with("looks", g.looks.to_string());
            let runs = match g.left_out.is_empty() || g.looks < 2 {
                true => g.looks.to_string(),
                false => words.text("together-counted", &args()),
            };
            match (g.verdict.is_undecided(), g.more) {
                (true, Some(more)) => format!("{runs} + {more}"),
                (true, None) if g.gain.is_some() => format!("{runs} + > 100"),
                // For a group without a gain, nothing says whether more runs would help.
                _ => runs,
            }
        });
    }
    let disturbed: Vec<f64> = groups.iter().filter_map(GroupVerdict::left_out_for).collect();
    if !disturbed.is_empty() {
        let others = Format::for_unit("ratio", disturbed.into_iter());
        columns.figure(words.word("together-foreign-left-out"), &others, GroupVerdict::left_out_for);
    }
    for kind in Resource::ALL.into_iter().filter(|kind| ruling(*kind).any(|r| r.demand.is_some())) {
        let asked = words.word(&format!("demand-{}", kind.key()));
        let head = match ruling(kind).any(|r| r.used.is_some()) {
            true => words.text("demand-used", &Args::new().with("demand", asked)),
            false => asked,
        };
        columns.number(head, move |g| match g.rulings.iter().find(|r| r.resource == kind) {
            Some(Ruling { demand: Some(asked), alone: Some(alone), .. }) => {
                format!("{} → {}", share().cell(*alone), share().cell(*asked))
            }
            Some(Ruling { demand: Some(asked), used: Some(used), .. }) => {
                format!("{} → {}", share().cell(*asked), share().cell(*used))
            }
            Some(Ruling { demand: Some(asked), .. }) => share().cell(*asked),
            _ => dash(),
        });
    }
    columns.grid(groups)
}

/// The header of earlier figures of groups: `Verdict, published`.
pub(super) fn head_then(section: &Section, words: Locale<'_>, key: &str) -> String {
    let comma = words.word("mark-comma");
    let then = earlier(&section.table, words);
    format!("{}{comma}{then}", words.word(key))
}
