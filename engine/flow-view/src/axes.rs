//! The instances of a step over their axes, as a picture: a heat map of a value over two axes, or parallel coordinates of axes
//! and values. The page's style sheet has the colours. Knows no files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use flow_core::{InstanceId, StepResult};
use serde_json::Value;

use crate::catalogue::{duration, number, phrase, plain, quantity};

/// Maximum values of an axis in a heat map.
const MOST: usize = 40;
/// Maximum columns of each kind in parallel coordinates.
const COLUMNS: usize = 4;
/// Maximum lines there: a browser draws more slowly.
const LINES: usize = 1_000;
/// Maximum characters of a mark there.
const MARK: usize = 14;

/// An instance with a result, and its values by name.
pub(crate) struct Row<'r> {
    pub(crate) instance: InstanceId,
    pub(crate) result: &'r StepResult,
    pub(crate) values: BTreeMap<String, f64>,
    /// The names of the values that are of the best epoch.
    pub(crate) best: BTreeSet<String>,
}

/// What to draw.
pub(crate) struct ChartRequest {
    pub(crate) parallel: bool,
    /// The value, and the axes of a heat map, by number.
    pub(crate) value: usize,
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) width: f64,
    /// 0 is English, 1 is Chinese.
    pub(crate) lang: usize,
}

/// The picture, with the axes and values that can be chosen.
pub(crate) struct DrawnChart {
    pub(crate) axes: Vec<String>,
    /// Their headings.
    pub(crate) values: Vec<String>,
    pub(crate) svg: String,
}

/// An axis with more than one value.
struct Axis {
    name: String,
    values: Vec<String>,
    /// The place of each value.
    places: BTreeMap<String, usize>,
}

/// The picture of these rows, if they have an axis and a value. `values` are sorted, the most important first.
pub(crate) fn draw(rows: &[Row<'_>], values: Vec<String>, wanted: &ChartRequest) -> Option<DrawnChart> {
    let axes = axes(rows);
    let value = values.get(wanted.value).or(values.first())?;
    let first = axes.first()?;
    let picture = Picture { rows, unit: unit(rows, value), value, wanted };
    let svg = if wanted.parallel {
        picture.parallel(&axes, &values)
    } else {
        let x = axes.get(wanted.x).unwrap_or(first);
        picture.heat(x, axes.get(wanted.y).filter(|y| y.name != x.name))
    };
    let values = values.iter().map(|name| heading(rows, name, wanted.lang)).collect();
    Some(DrawnChart { axes: axes.into_iter().map(|axis| axis.name).collect(), values, svg })
}

/// The heading of a value, as in the table.
fn heading(rows: &[Row<'_>], name: &str, lang: usize) -> String {
    match name {
        TIME => phrase("time", &[])[lang].clone(),
        name if rows.iter().any(|row| row.best.contains(name)) => phrase("best", &[name])[lang].clone(),
        name => name.to_owned(),
    }
}

fn unit(rows: &[Row<'_>], value: &str) -> String {
    rows.iter().find_map(|row| Some(row.result.metrics.get(value)?.unit.clone())).unwrap_or_default()
}

/// Axes with more than one value, the longest first.
fn axes(rows: &[Row<'_>]) -> Vec<Axis> {
    let mut all: Vec<(String, Vec<&Value>)> = Vec::new();
    let mut known_values = BTreeSet::new();
    for (name, value) in rows.iter().flat_map(|row| &row.result.axes) {
        let at = all.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            all.push((name.clone(), Vec::new()));
            all.len() - 1
        });
        if known_values.insert((at, value.to_string())) {
            all[at].1.push(value);
        }
    }
    let mut axes: Vec<Axis> = Vec::new();
    for (name, mut values) in all.into_iter().filter(|(_, values)| values.len() > 1) {
        // Numbers in their order, then texts as they come.
        values.sort_by(|a, b| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        let values: Vec<String> = values.into_iter().map(plain).collect();
        // Of equal texts the first counts.
        let places = values.iter().enumerate().rev().map(|(at, value)| (value.clone(), at)).collect();
        axes.push(Axis { name, values, places });
    }
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.values.len()));
    axes
}

impl Axis {
    /// The place of a row's value.
    fn place(&self, row: &Row<'_>) -> Option<usize> {
        self.places.get(&plain(row.result.axes.get(&self.name)?)).copied()
    }
}

/// The smallest and the largest of some values.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        values.filter(|value| value.is_finite()).fold(None, |range: Option<Range>, value| {
            let Range { low, high } = range.unwrap_or(Range { low: value, high: value });
            Some(Range { low: low.min(value), high: high.max(value) })
        })
    }

    /// Between 0 and 1.
    fn share(self, value: f64) -> f64 {
        if self.high > self.low { (value - self.low) / (self.high - self.low) } else { 0.5 }
    }
}

struct Picture<'p> {
    rows: &'p [Row<'p>],
    value: &'p str,
    unit: String,
    wanted: &'p ChartRequest,
}

impl Picture<'_> {
    fn value(&self, row: &Row<'_>) -> Option<f64> {
        row.values.get(self.value).copied().filter(|value| value.is_finite())
    }

    fn show(&self, value: f64) -> String {
        show(self.value, value, &self.unit)
    }

    /// A cell per pair of values; several instances in a cell are averaged.
    fn heat(&self, x: &Axis, y: Option<&Axis>) -> String {
        let mut cells: BTreeMap<(usize, usize), Vec<&Row<'_>>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| self.value(row).is_some()) {
            let line = y.map_or(Some(0), |y| y.place(row));
            if let (Some(column), Some(line)) = (x.place(row).filter(|at| *at < MOST), line.filter(|at| *at < MOST)) {
                cells.entry((column, line)).or_default().push(row);
            }
        }
        let mean = |of: &[&Row<'_>]| of.iter().filter_map(|row| self.value(row)).sum::<f64>() / of.len() as f64;
        let Some(range) = Range::of(cells.values().map(|of| mean(of))) else { return svg(self.wanted.width, 20.0, "") };
        let lines: Vec<&str> = y.map_or(vec![""], |y| y.values.iter().take(MOST).map(String::as_str).collect());
        let columns = x.values.len().min(MOST);
        let each = if lines.len() > 12 { 20.0 } else { 30.0 };
        let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let left = (12.0 + 7.0 * longest as f64).min(self.wanted.width / 3.0);
        let wide = ((self.wanted.width - left) / columns as f64).min(110.0);
        let room = (wide / 6.5) as usize;
        let mut out = String::new();
        for ((column, line), of) in &cells {
            let (px, py, value) = (left + *column as f64 * wide, *line as f64 * each, mean(of));
            let share = range.share(value);
            let mut tip = format!("{}: {}", of[0].result.label, self.show(value));
            if of.len() > 1 {
                let _ = write!(tip, " ({})", phrase("mean-of", &[&of.len().to_string()])[self.wanted.lang]);
            }
            let is_short = self.value == TIME || ["ratio", "bytes"].contains(&&*self.unit);
            let shown = if is_short { self.show(value) } else { number(value) };
            let shown = if shown.len() <= room { shown } else { String::new() };
            let _ = write!(
                out,
                "<g class=\"cell{}\" data-i=\"{}\"><title>{}</title><rect x=\"{px:.1}\" y=\"{py:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\" fill-opacity=\"{:.2}\"/><text x=\"{:.1}\" y=\"{:.1}\">{shown}</text></g>",
                if share > 0.55 { " dark" } else { "" },
                of[0].instance.0,
                xml(&tip),
                wide - 2.0,
                each - 2.0,
                0.12 + 0.88 * share,
                px + wide / 2.0 - 1.0,
                py + each / 2.0 + 3.0,
            );
        }
        for (at, line) in lines.iter().enumerate() {
            label(&mut out, "end", left - 8.0, (at as f64 + 0.5) * each + 3.0, &cut(line, (left / 7.0) as usize));
        }
        let below = lines.len() as f64 * each;
        for (at, value) in x.values.iter().take(columns).enumerate() {
            label(&mut out, "middle", left + (at as f64 + 0.5) * wide - 1.0, below + 12.0, &cut(value, room));
        }
        let down = y.map(|y| format!(" · {} ↓", y.name)).unwrap_or_default();
        let legend = format!("{} →{down} · {} … {}", x.name, self.show(range.low), self.show(range.high));
        label(&mut out, "start", left, below + 32.0, &legend);
        svg(self.wanted.width, below + 40.0, &out)
    }

    /// A line per instance over axes and values.
    fn parallel(&self, axes: &[Axis], values: &[String]) -> String {
        let others = values.iter().filter(|value| *value != self.value).take(COLUMNS - 1);
        let shown = others.map(String::as_str).chain([self.value]).filter_map(|name| {
            let (value, unit) = (move |row: &Row<'_>| row.values.get(name).copied(), unit(self.rows, name));
            let range = Range::of(self.rows.iter().filter_map(value))?;
            Some(Column {
                heading: heading(self.rows, name, self.wanted.lang),
                marks: [range.low, range.high].map(|value| (show(name, value, &unit), range.share(value))).into(),
                share: Box::new(move |row| {
                    value(row).filter(|value| value.is_finite()).map(|value| range.share(value))
                }),
            })
        });
        let columns: Vec<Column<'_>> = axes.iter().take(COLUMNS).map(Column::axis).chain(shown).collect();
        let last = columns.len() - 1;
        let longest = |column: &Column<'_>| {
            column.marks.iter().map(|(mark, _)| mark.chars().count().min(MARK)).max().unwrap_or(0) as f64
        };
        let (top, high) = (28.0, 250.0);
        let (left, right) = (10.0 + 6.5 * longest(&columns[0]), 10.0 + 6.5 * longest(&columns[last]));
        let px = |at: usize| left + at as f64 * (self.wanted.width - left - right) / last.max(1) as f64;
        let py = |share: f64| top + (1.0 - share) * high;
        let mut out = String::new();
        let step = self.rows.len().div_ceil(LINES).max(1);
        for row in self.rows.iter().step_by(step) {
            let points = columns.iter().enumerate().filter_map(|(at, column)| Some((px(at), py((column.share)(row)?))));
            let points: String = points.map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
            let shade = (columns[last].share)(row).map_or(0.15, |share| 0.2 + 0.8 * share);
            let value = self.value(row).map(|value| self.show(value)).unwrap_or_default();
            let _ = write!(
                out,
                "<g class=\"row\" data-i=\"{}\"><title>{}: {value}</title><polyline class=\"wide\" points=\"{points}\"/>\
                 <polyline stroke-opacity=\"{shade:.2}\" points=\"{points}\"/></g>",
                row.instance.0,
                xml(&row.result.label),
                value = xml(&value),
            );
        }
        let room = (self.wanted.width / columns.len() as f64 / 7.0) as usize;
        for (at, column) in columns.iter().enumerate() {
            let x = px(at);
            let _ = write!(out, "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{}\"/>", top + high);
            let (anchor, edge) = match at {
                0 => ("start", 0.0),
                at if at == last => ("end", self.wanted.width),
                _ => ("middle", x),
            };
            label(&mut out, anchor, edge, 12.0, &cut(&column.heading, room));
            for (mark, share) in &column.marks {
                let (anchor, x) = if at == last { ("start", x + 5.0) } else { ("end", x - 5.0) };
                label(&mut out, anchor, x, py(*share) + 4.0, &cut(mark, MARK));
            }
        }
        if step > 1 {
            let [drawn, all] = [self.rows.len().div_ceil(step), self.rows.len()].map(|n| n.to_string());
            let some = &phrase("some-of", &[&drawn, &all])[self.wanted.lang];
            label(&mut out, "middle", self.wanted.width / 2.0, top + high + 20.0, some);
        }
        svg(self.wanted.width, top + high + 26.0, &out)
    }
}

/// A column of parallel coordinates.
struct Column<'p> {
    heading: String,
    /// Texts and their places: of a long axis only its ends.
    marks: Vec<(String, f64)>,
    share: Share<'p>,
}

/// The place of a row between 0 and 1.
type Share<'p> = Box<dyn Fn(&Row<'_>) -> Option<f64> + 'p>;

impl Column<'_> {
    fn axis(axis: &Axis) -> Column<'_> {
        let last = axis.values.len() - 1;
        let some = (0..=last).filter(|at| last <= 12 || *at == 0 || *at == last);
        let share = move |at: usize| at as f64 / last as f64;
        Column {
            heading: axis.name.clone(),
            marks: some.map(|at| (axis.values[at].clone(), share(at))).collect(),
            share: Box::new(move |row| axis.place(row).map(share)),
        }
    }
}

/// A value as the table shows it.
fn show(name: &str, value: f64, unit: &str) -> String {
    if name == TIME { duration(value) } else { quantity(value, unit) }
}

/// The name of the wall time among the values.
pub(crate) const TIME: &str = "\u{0}time";

fn label(out: &mut String, anchor: &str, x: f64, y: f64, text: &str) {
    let _ = write!(out, "<text class=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", xml(text));
}

fn svg(width: f64, height: f64, inside: &str) -> String {
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\">{inside}</svg>")
}

/// At most this many characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
    }
}

/// Text of a step only ever becomes text.
fn xml(text: &str) -> String {
    let visible = flow_core::visible(text);
    visible.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(label: &str, axes: &Value, loss: f64) -> StepResult {
        serde_json::from_value(json!({
            "fingerprint": "0".repeat(64), "workflow": "w", "step": "s", "label": label, "axes": axes, "outcome": "ok",
            "run": "r", "started_at": 0, "ended_at": 1, "metrics": {"loss": {"value": loss}},
        }))
        .unwrap()
    }

    fn drawn(results: &[StepResult], parallel: bool) -> Option<DrawnChart> {
        drawn_of(results, &[], &ChartRequest { parallel, value: 0, x: 0, y: 1, width: 800.0, lang: 0 })
    }

    /// Of `best`, the first result has the best epoch.
    fn drawn_of(results: &[StepResult], best: &[&str], wanted: &ChartRequest) -> Option<DrawnChart> {
        let row = |(n, result): (usize, &'_ StepResult)| Row {
            instance: InstanceId(n as u32),
            values: result.metrics.iter().map(|(name, metric)| (name.clone(), metric.value)).collect(),
            best: best.iter().filter(|_| n == 0).map(|name| (*name).to_owned()).collect(),
            // The rows live as long as the results.
            result: Box::leak(Box::new(result.clone())),
        };
        let rows: Vec<Row<'_>> = results.iter().enumerate().map(row).collect();
        draw(&rows, vec!["loss".to_owned()], wanted)
    }

    #[test]
    fn headings_name_the_best_epoch() {
        let all = [0.5, 2.0].map(|loss| result("a", &json!({"lr": loss}), loss));
        for (lang, heading) in ["loss, best epoch", "loss，最佳轮次"].into_iter().enumerate() {
            for parallel in [false, true] {
                let wanted = ChartRequest { parallel, value: 0, x: 0, y: 1, width: 800.0, lang };
                let best = drawn_of(&all, &["loss"], &wanted).unwrap();
                assert_eq!((best.values, best.svg.contains(heading)), (vec![heading.to_owned()], parallel));
                let last = drawn_of(&all, &[], &wanted).unwrap();
                assert_eq!((last.values, last.svg.contains(heading)), (vec!["loss".to_owned()], false));
            }
        }
    }

    #[test]
    fn a_cell_per_pair_of_values() {
        let cell = |lr: f64, batch: u32, loss: f64| result("a", &json!({"lr": lr, "batch": batch}), loss);
        let all =
            [cell(0.1, 8, 1.0), cell(0.01, 8, 2.0), cell(0.3, 8, 3.0), cell(0.1, 16, f64::NAN), cell(0.1, 8, 2.0)];
        let heat = drawn(&all, false).unwrap();
        assert_eq!(heat.axes, ["lr", "batch"], "the longest axis is first");
        assert_eq!(heat.svg.matches("class=\"cell").count(), 3, "no cell without a number: {}", heat.svg);
        assert!(
            heat.svg.contains("a: 1.500 (mean of 2)") && heat.svg.contains("lr → · batch ↓ · 1.500 … 3"),
            "{}",
            heat.svg
        );
        let order = ["0.01<", "0.1<", "0.3<"].map(|value| heat.svg.find(&format!(">{value}")).unwrap());
        assert!(order.is_sorted());
        let parallel = drawn(&all, true).unwrap();
        assert_eq!(parallel.svg.matches("class=\"row\"").count(), 5);
        assert!(!parallel.svg.contains("NaN"), "{}", parallel.svg);
        assert!(drawn(&all[..1], false).is_none(), "no axis has two values");
        let many: Vec<StepResult> = (0..2_500).map(|n| cell(f64::from(n), 8, 1.0)).collect();
        let some = drawn(&many, true).unwrap().svg;
        assert_eq!(some.matches("class=\"row\"").count(), 834);
        assert!(some.contains("834 of 2500 instances"), "it says so");
    }

    #[test]
    fn no_markup_of_a_step_is_markup() {
        let evil = "<script>alert(1)</script>\"\u{1b}\u{0}";
        let all = [0.0, 1.0].map(|n| result(evil, &json!({"n": n, evil: format!("{evil}{n}")}), n));
        for parallel in [false, true] {
            let svg = drawn(&all, parallel).unwrap().svg;
            assert!(
                !svg.contains("<script") && !svg.contains(['\u{1b}', '\u{0}']) && svg.contains("&lt;script&gt;"),
                "{svg}"
            );
        }
    }
}
