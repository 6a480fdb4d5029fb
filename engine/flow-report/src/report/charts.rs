//! The charts of a section: their selection, names and texts. The drawing is in `chart`.

use std::collections::BTreeSet;

use serde::Serialize;

use super::bars::{self, unit};
use super::chart_data::ChartData;
use super::differences::differences;
use super::load::Load;
use super::model::Section;
use super::picture::Picture;
use super::schedule::InstanceSchedule;
use crate::chart;
use crate::columns::is_usage;
use crate::findings::{Course, Finding};
use crate::format::Format;
use crate::gantt::Frame;
use crate::safe;
use crate::table::{Content, Names, Row, Table, by_gpus, content, earlier, rows_by_others};
use crate::words::{Args, Locale};

/// The content of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ChartContent {
    /// A column over the rows.
    Column(String),
    /// A chart under `charts:`.
    Declared,
    Analysis,
    Together,
    Packed,
    Load,
    Schedule,
    Picture,
}

/// A chart, as templates refer to it.
#[derive(Clone, Serialize)]
pub(super) struct Chart {
    #[serde(skip)]
    pub(super) shows: ChartContent,
    /// Its file, in the folder of charts.
    pub(super) file: String,
    /// Alternative text.
    pub(super) alt: String,
    /// A caption with facts that the chart itself does not show; empty for most charts.
    pub(super) caption: String,
    #[serde(skip)]
    pub(super) svg: String,
    /// The picture of a step, in place of a drawing.
    #[serde(skip)]
    pub(super) picture: Option<Picture>,
}

impl Chart {
    fn new(shows: ChartContent, file: String, alt: String, svg: String) -> Chart {
        Chart { shows, file, alt, caption: String::new(), svg, picture: None }
    }
}

/// Columns that are drawn over the rows.
const CURVES: [&str; 9] = [
    "epoch_time",
    "iteration_time",
    "gpu_memory",
    "time_in_system",
    "time_in_system_p99",
    "waiting",
    "makespan",
    "gpu_use",
    "cpu_use",
];

/// All charts of a section in one language, each with a title and this caption in the picture. If the report has
/// `several` languages, file names include the language.
pub(super) fn charts(section: &Section, words: Locale<'_>, several: bool, caption: &str) -> Vec<Chart> {
    let mut charts = all_charts(section, words);
    for chart in charts.iter_mut().filter(|chart| chart.picture.is_none()) {
        chart.svg = chart::framed(&chart.svg, &safe::plain(&chart.alt), caption);
        if let Some(stem) = chart.file.strip_suffix(".svg").filter(|_| several) {
            chart.file = format!("{stem}.{}.svg", words.lang);
        }
    }
    charts
}

fn all_charts(section: &Section, words: Locale<'_>) -> Vec<Chart> {
    let table = &section.table;
    let names = Names { table, words };
    let mut charts = schedule_charts(&section.schedules, words);
    let columns = curves(section);
    for (n, (point, body)) in sweeps(table).into_iter().enumerate() {
        let Some(rows) = table.rows.last() else { break };
        let key = table.rows.len() - 1;
        // Points are in the order of the axis, whatever the order of the table is.
        let mut body = body;
        let along = |row: &Row| row.cells[key].number().unwrap_or(f64::NAN);
        body.sort_by(|a, b| along(a).total_cmp(&along(b)));
        let tick = |row: &&Row| Some((row.cells[key].number()?, row.cells[key].text()?.to_owned()));
        let ticks: Vec<(f64, String)> = body.iter().filter_map(tick).collect();
        let then = table.reference.as_ref().map(|reference| &reference.table);
        let then = then.and_then(|then| Some((then, sweeps(then).into_iter().find(|(of, _)| *of == point)?.1)));
        for column in &columns {
            let (mut shown, mut spreads) = (None, BTreeSet::new());
            let mut lines = Vec::new();
            for (place, part) in table.parts().into_iter().enumerate() {
                let Some(at) = table.find(column, None, part) else { continue };
                let show = shown.get_or_insert_with(|| table.columns[at].show.clone());
                let name = part.and_then(|part| table.point(part)).unwrap_or_default();
                let of_part = by_gpus(&body, at);
                // A part with one line has the same colour in all charts.
                let place = (of_part.len() == 1).then_some(place);
                let of_part = of_part.into_iter().map(|(gpus, rows)| {
                    let placed = |row: &&Row| Some((row.cells[key].number()?, row.cells[at].clone()));
                    let (mut points, mut ends) = (Vec::new(), Vec::new());
                    for (x, cell) in rows.iter().filter_map(placed) {
                        points.extend(cell.number().map(|y| (x, y * show.factor)));
                        if let Some((spread, low, high)) = cell.ends() {
                            ends.push((x, low * show.factor, high * show.factor));
                            spreads.insert(spread.key().to_owned());
                        }
                    }
                    chart::Line { name: on_gpus(&name, gpus, words), points, ends, place, ..chart::Line::default() }
                });
                let mut of_part: Vec<chart::Line> = of_part.collect();
                if let Some((then, rows)) = &then
                    && let Some(at) = then.find(column, None, part)
                {
                    let at = |row: &&Row| Some((row.cells[key].number()?, row.cells[at].number()? * show.factor));
                    let points = rows.iter().filter_map(at).collect();
                    of_part.extend(draw_earlier(&name, place, points, &names));
                }
                if of_part.iter().map(|line| line.points.len()).sum::<usize>() >= 2 {
                    lines.extend(of_part);
                }
            }
            let Some(show) = shown.filter(|_| !lines.is_empty() && ticks.len() == body.len()) else { continue };
            let gaps = gaps(section, &body, column, words);
            let axes = Axes { column, axis: rows, show: &show, ticks: &ticks };
            let (svg, caption) = curve(axes, lines, &gaps, &spreads, &names);
            let of_point = if point.is_some() { format!("-{}", n + 1) } else { String::new() };
            let file = format!("{}-{column}{of_point}.svg", section.name);
            let text = named_over(column, rows, &names);
            let alt = match &point {
                Some(point) => scoped(safe::text(point), text, words),
                None => text,
            };
            charts.push(Chart { caption, ..Chart::new(ChartContent::Column(column.clone()), file, alt, svg) });
        }
    }
    charts.extend(section.drawn.iter().enumerate().filter_map(|(n, drawn)| requested_chart(section, n, drawn, &names)));
    for (step, found) in &section.analyses {
        let Some((clouds, x, y)) = found.clouds().filter(|(clouds, ..)| clouds.iter().any(|c| c.points.len() > 1))
        else {
            continue;
        };
        let shown =
            |name: &str| table.columns.iter().find(|c| c.name == name).map_or_else(String::new, |c| unit(&c.show));
        let (clouds, what) = match differences(&clouds, table) {
            Some((differences, what)) => (differences, Some(what)),
            None => (clouds, None),
        };
        let text = named_over(y, x, &names);
        // A chart of differences says which difference it shows.
        let (alt, before) = match &what {
            Some(what) => (scoped(safe::text(what), text, words), what.clone() + &words.word("mark-colon")),
            None => (text, String::new()),
        };
        let (x, y) = (names.plain(x) + &shown(x), before + &names.plain(y) + &shown(y));
        let labels = chart::Labels { x, y, linear: what.is_some(), ..chart::Labels::default() };
        let (file, svg) = (format!("{}-{step}.svg", section.name), chart::clouds(&clouds, &labels));
        charts.push(Chart::new(ChartContent::Analysis, file, alt, svg));
    }
    charts.extend(together_chart(section, &names));
    charts.extend(packed_chart(section, &names));
    charts.extend(section.loads.iter().enumerate().map(|(n, load)| load_chart(section, n, load, words)));
    charts.extend(section.pictures.iter().enumerate().map(|(n, picture)| made(section, n, picture, words)));
    charts
}

/// A chart that the author asked for; `None` if no line has two points. Beside others, a line with one point is a marker.
/// Its file name has a number, because the name of a metric may not be a valid file name.
fn requested_chart(section: &Section, n: usize, drawn: &ChartData, names: &Names<'_>) -> Option<Chart> {
    if drawn.lines.iter().all(|line| line.points.len() < 2 && line.gpus.is_none() && line.earlier.is_empty()) {
        return None;
    }
    let lines = drawn.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty());
    let lines = lines.map(|(place, line)| chart::Line {
        name: on_gpus(&line.name, line.gpus, names.words),
        points: line.points.clone(),
        ends: line.ends.clone(),
        place: Some(place),
        ..chart::Line::default()
    });
    let mut lines: Vec<chart::Line> = lines.collect();
    for (place, line) in drawn.lines.iter().enumerate().filter(|(_, line)| !line.earlier.is_empty()) {
        lines.extend(draw_earlier(&line.name, Some(place), line.earlier.clone(), names));
    }
    if lines.is_empty() {
        return None;
    }
    let ChartData { column, axis, show, ticks, spreads, .. } = drawn;
    let (svg, caption) = curve(Axes { column, axis, show, ticks }, lines, &[], spreads, names);
    let (file, alt) = (format!("{}-chart-{}.svg", section.name, n + 1), named_over(column, axis, names));
    Some(Chart { caption, ..Chart::new(ChartContent::Declared, file, alt, svg) })
}

/// The axes of a chart of lines: the column up, with its format, and the axis across, with its ticks.
struct Axes<'a> {
    column: &'a str,
    axis: &'a str,
    show: &'a Format,
    ticks: &'a [(f64, String)],
}

/// The drawing of lines, and its caption.
fn curve(
    Axes { column, axis, show, ticks }: Axes<'_>,
    lines: Vec<chart::Line>,
    gaps: &[chart::Gap],
    spreads: &BTreeSet<String>,
    names: &Names<'_>,
) -> (String, String) {
    let free = is_free(show, lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y));
    let rises = rise(&lines);
    let labels =
        chart::Labels { x: names.plain(axis), y: names.plain(column) + &unit(show), free, rises, linear: false };
    let all = lines.len();
    let lines = chart::together(now_named(lines, names.words), free);
    let svg = chart::curve(&lines, gaps, ticks, &labels);
    (svg, caption(spreads, &lines, lines.len() < all, names.words))
}

/// `Epoch time over batch size`.
fn named_over(column: &str, axis: &str, names: &Names<'_>) -> String {
    names.words.text("chart-over", &Args::new().with("column", names.head(column)).with("axis", names.inline(axis)))
}

/// Earlier figures next to a current line, in its colour.
fn draw_earlier(name: &str, place: Option<usize>, points: Vec<(f64, f64)>, names: &Names<'_>) -> Option<chart::Line> {
    let then = safe::plain(&earlier(names.table, names.words));
    let name = if name.is_empty() { then } else { format!("{name}{}{then}", names.words.word("mark-comma")) };
    let line = chart::Line { name, points, place, earlier: true, ..chart::Line::default() };
    (!line.points.is_empty()).then_some(line)
}

/// Names the current line if it has no name and there are earlier lines.
fn now_named(mut lines: Vec<chart::Line>, words: Locale<'_>) -> Vec<chart::Line> {
    if lines.iter().any(|line| line.earlier) {
        let now = |line: &&mut chart::Line| line.name.is_empty();
        lines.iter_mut().filter(now).for_each(|line| line.name = words.word("chart-now"));
    }
    lines
}

/// Whether all current lines rise, so that the chart should show how fast they grow.
fn rise(lines: &[chart::Line]) -> bool {
    let mut now = lines.iter().filter(|line| !line.earlier && line.points.len() > 1).peekable();
    now.peek().is_some() && now.all(|line| chart::rises(&line.points))
}

/// Columns that are drawn by default: those of `CURVES`, and the first column of the program that has a best point or a
/// course.
fn curves(section: &Section) -> Vec<String> {
    let mut columns: Vec<String> = CURVES.map(str::to_owned).into();
    let reported = |name: &&str| !is_usage(name) && !CURVES.contains(name);
    let of = |pick: fn(&Finding) -> Option<&str>| {
        section.findings.iter().filter_map(|one| pick(&one.finding)).find(reported).map(str::to_owned)
    };
    let goes = || {
        of(|finding| match finding {
            Finding::Trend { column, course, .. } if *course != Course::Constant => Some(column),
            _ => None,
        })
    };
    columns.extend(of(Finding::ranks).or_else(goes));
    columns
}

/// Whether the axis of these values need not begin at zero. Axes of times, sizes and counts must. Whole percentages are
/// not counts.
fn is_free(show: &Format, mut values: impl Iterator<Item = f64>) -> bool {
    let length = ["ns", "µs", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "TiB"];
    !length.contains(&show.unit.as_str()) && (show.unit == "%" || values.any(|value| value.fract() != 0.0))
}

/// The caption: the meaning of error bars, and the rule by which lines were merged.
fn caption(spreads: &BTreeSet<String>, lines: &[chart::Line], merged: bool, words: Locale<'_>) -> String {
    let bands = lines.iter().any(|line| line.ends.len() > chart::BARS);
    let rule = || {
        let share = words.figure(&Format::for_unit("ratio", [chart::COVERED].into_iter()), chart::COVERED);
        words.text("chart-merged", &Args::new().with("share", share))
    };
    let said = spreading(spreads, bands, words).into_iter().chain(merged.then(rule));
    said.collect::<Vec<_>>().join("\\\n")
}

/// The meaning of error bars or bands.
fn spreading(spreads: &BTreeSet<String>, bands: bool, words: Locale<'_>) -> Option<String> {
    let kinds: Vec<String> = spreads.iter().map(|key| words.word(&format!("chart-bars-{key}"))).collect();
    let key = if bands { "chart-bands" } else { "chart-bars" };
    (!kinds.is_empty()).then(|| words.text(key, &Args::new().with("kinds", words.list(&kinds))))
}

/// The name of a line with its number of GPUs, if other lines have another number.
fn on_gpus(name: &str, gpus: Option<u32>, words: Locale<'_>) -> String {
    let Some(gpus) = gpus else { return name.to_owned() };
    let gpus = words.text("chart-gpus", &Args::new().count("gpus", gpus as usize));
    if name.is_empty() { gpus } else { format!("{name}, {gpus}") }
}

/// A picture that a step drew.
fn made(section: &Section, n: usize, picture: &Picture, words: Locale<'_>) -> Chart {
    let alt = safe::text(picture.title.as_ref().map_or(&picture.label, |title| title.of(words.lang)));
    let file = format!("{}-picture-{}.{}", section.name, n + 1, picture.kind.name());
    Chart { picture: Some(picture.clone()), ..Chart::new(ChartContent::Picture, file, alt, String::new()) }
}

/// Maximum points of the other axes that get their own charts.
const POINTS: usize = 4;

/// Rows along the last axis, one group for each point of the other axes if these are few. Without other axes, all rows.
fn sweeps(table: &Table) -> Vec<(Option<String>, Vec<&Row>)> {
    let others = table.rows.len().saturating_sub(1);
    if others > 0 && table.split.is_none() {
        return Vec::new();
    }
    let sweep = |(of, rows): (Vec<String>, Vec<usize>)| {
        ((others > 0).then(|| of.join(", ")), rows.into_iter().map(|row| &table.body[row]).collect())
    };
    let sweeps: Vec<(Option<String>, Vec<&Row>)> = rows_by_others(table).into_iter().map(sweep).collect();
    if sweeps.len() > POINTS { Vec::new() } else { sweeps }
}

fn scoped(scope: String, text: String, words: Locale<'_>) -> String {
    words.text("scoped", &Args::new().with("scope", scope).with("text", text))
}

/// The rows in which some part of the table has an outcome instead of a number, with the outcome of the first such
/// part.
fn gaps(section: &Section, body: &[&Row], column: &str, words: Locale<'_>) -> Vec<chart::Gap> {
    let table = &section.table;
    let key = table.rows.len().saturating_sub(1);
    let parts = table.parts();
    let columns: Vec<(Option<&str>, usize)> =
        parts.into_iter().filter_map(|part| Some((part, table.find(column, None, part)?))).collect();
    let gap = |row: &&Row| {
        let ended = columns.iter().filter(|(_, at)| matches!(row.cells[*at].content, Content::Outcome { .. }));
        let ended: Vec<&(Option<&str>, usize)> = ended.collect();
        let (_, first) = ended.first()?;
        let some = ended.len() < columns.len();
        let whose = ended.iter().filter(|_| some).filter_map(|(part, _)| table.point((*part)?));
        let whose: Vec<String> = whose.collect();
        let mut why = content(&row.cells[*first].content, &Format::default(), words);
        if !whose.is_empty() {
            why = scoped(words.list(&whose), why, words);
        }
        Some(chart::Gap { at: row.cells[key].number()?, why })
    };
    body.iter().filter_map(gap).collect()
}

fn together_chart(section: &Section, names: &Names<'_>) -> Option<Chart> {
    let (svg, repeated) = bars::together(section, names)?;
    let (file, alt) = (format!("{}-together.svg", section.name), names.words.word("chart-together-alt"));
    let spreads = repeated.then(|| "runs".to_owned()).into_iter().collect();
    let caption = spreading(&spreads, false, names.words).unwrap_or_default();
    Some(Chart { caption, ..Chart::new(ChartContent::Together, file, alt, svg) })
}

fn packed_chart(section: &Section, names: &Names<'_>) -> Option<Chart> {
    let (file, alt) = (format!("{}-packed.svg", section.name), names.words.word("chart-packed-alt"));
    Some(Chart::new(ChartContent::Packed, file, alt, bars::packed(section, names)?))
}

fn load_chart(section: &Section, n: usize, load: &Load, words: Locale<'_>) -> Chart {
    let line = |(column, points): &(String, Vec<(f64, f64)>)| chart::Line {
        name: words.word(&format!("column-{column}")),
        points: points.clone(),
        ..chart::Line::default()
    };
    // The earlier figure is one number for the whole time.
    let ends = load.lines.iter().flat_map(|(_, points)| [points.first(), points.last()]).flatten();
    let (from, to) = ends.fold((f64::INFINITY, 0.0_f64), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
    let earlier = |(column, share): &(String, f64)| {
        let name = words.word(&format!("column-{column}"));
        let name = name + &words.word("mark-comma") + &earlier(&section.table, words);
        chart::Line { name, points: vec![(from, *share), (to, *share)], earlier: true, ..chart::Line::default() }
    };
    let lines = load.lines.iter().map(|of| (of.0.as_str(), line(of)));
    let of_then = load.earlier.iter().filter(|_| from < to).map(|of| (of.0.as_str(), earlier(of)));
    let (gpu, host): (Vec<_>, Vec<_>) = lines.chain(of_then).partition(|(column, _)| column.starts_with("gpu_"));
    let panel = |key: &str, lines: Vec<(&str, chart::Line)>| {
        // Each quantity has the colour of its first line in the panel.
        let first = |column: &str| lines.iter().position(|(of, _)| *of == column);
        let like = |(n, (column, line)): (usize, &(&str, chart::Line))| chart::Line {
            like: first(column).filter(|first| *first < n),
            ..line.clone()
        };
        let y = format!("{} (%)", words.word(key));
        chart::Panel { lines: lines.iter().enumerate().map(like).collect(), y }
    };
    let panels =
        [("chart-load-gpu", gpu), ("chart-load-host", host)].into_iter().filter(|(_, lines)| !lines.is_empty());
    let panels: Vec<chart::Panel> = panels.map(|(key, lines)| panel(key, lines)).collect();
    let x = format!("{} (s)", words.word(if load.of_epochs { "chart-time-epochs" } else { "chart-time" }));
    let args = Args::new().with("label", safe::text(&load.label)).flag("shaded", !load.odd_epochs.is_empty());
    let number = if n == 0 { String::new() } else { format!("-{}", n + 1) };
    let (file, alt) = (format!("{}-load{number}.svg", section.name), words.text("chart-load-alt", &args));
    let svg = chart::panels(&panels, &load.odd_epochs, &words.word("chart-odd-epochs"), &x);
    Chart::new(ChartContent::Load, file, alt, svg)
}

/// Schedules with one common time axis and one scale for waiting jobs, so that they can be compared.
fn schedule_charts(schedules: &[InstanceSchedule], words: Locale<'_>) -> Vec<Chart> {
    let frame = Frame::around(schedules.iter().map(|scheduled| &scheduled.gantt));
    let chart = |(n, InstanceSchedule { file, label, of, gantt }): (usize, &InstanceSchedule)| {
        let args = |label: String| {
            let part = gantt.part(words, frame);
            let args = Args::new().with("label", label).flag("whole", part.is_empty());
            args.with("part", part).count("of", *of as usize)
        };
        let what = words.text("chart-schedule-caption", &args(safe::code(label)));
        // The explanation of the chart appears once.
        let how = (n == 0).then(|| words.word("chart-schedule-how"));
        let told: Vec<String> = [what].into_iter().chain(how).collect();
        let alt = words.text("chart-schedule-alt", &args(safe::text(label)));
        let chart = Chart::new(ChartContent::Schedule, file.clone(), alt, gantt.drawn(words, label, frame));
        Chart { caption: safe::line(&words.sentences(&told)), ..chart }
    };
    schedules.iter().enumerate().map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_sizes_and_counts_begin_at_zero() {
        for (unit, values, free) in [
            ("ratio", [0.96, 0.99], true),
            ("ratio", [0.973, 0.983], true),
            ("points", [0.5, 2.0], true),
            ("", [3.0, 4.0], false),
            ("s", [1.5, 2.5], false),
            ("bytes", [4e9, 5e9], false),
        ] {
            let show = Format::for_unit(unit, values.into_iter());
            assert_eq!(is_free(&show, values.into_iter().map(|value| value * show.factor)), free, "{unit} {values:?}");
        }
    }
}
