//! Charts as SVG: curves over the rows of a table, alone against together, load over time, lanes over time. The only
//! module that knows the chart library. Its input is plain numbers and finished labels.

mod bars;
mod clouds;
mod frame;
mod labels;
pub(crate) mod lanes;
mod line_ends;
mod palette;
mod panels;
mod x_axis;

use std::sync::Arc;

use indexmap::IndexSet;
use kuva::TickFormat;
use kuva::backend::svg::SvgBackend;
use kuva::plot::annotations::TextAnnotation;
use kuva::plot::legend::{LegendEntry, LegendPosition, LegendShape};
use kuva::plot::scatter::MarkerShape;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::{ComputedLayout, Layout};
use kuva::render::plots::Plot;
use kuva::render::render::{Primitive, Scene, TextAnchor, render_multiple};

use crate::safe;
pub(crate) use bars::{Bar, Kind, Series, bars};
pub(crate) use clouds::{Cloud, clouds};
pub(crate) use frame::framed;
pub(crate) use labels::Gap;
use labels::{PlacedText, broken, place_texts};
use line_ends::LineEnds;
use palette::{Style, by_two};
pub(crate) use panels::{Panel, panels};
use x_axis::XAxis;

/// Size of text in place of numbers.
const SMALL: u32 = 10;
/// Fonts for both languages.
const FONTS: &str = "Helvetica, Arial, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif";
/// The size of a chart with a legend, and the approximate width of a terminal column in tick names.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 384.0;
const LETTER: f64 = 6.5;
/// Maximum error bars of a line; more become a band. Many points have small markers, above `MARKED` none.
pub(crate) const BARS: usize = 12;
const MARKED: usize = 100;
const SMALLER: f64 = 3.0;
/// Thickness of a hollow marker's edge.
const HOLLOW: f64 = 1.6;
/// Maximum number of points that the chart's width can show.
const DENSE: usize = 600;
/// Labels of the y axis and the x axis with more terminal columns take a second line.
const LABEL: usize = 40;
const AXIS_LABEL: usize = 72;
/// Height of a one-line legend, besides its line.
const AROUND_LEGEND: f64 = 30.0;
/// Lines that are nowhere further apart than this share of the y axis would cover each other.
pub(crate) const COVERED: f64 = 0.015;

#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Error bars: position, lower and upper end.
    pub(crate) ends: Vec<(f64, f64, f64)>,
    /// Index of the line with the same quantity, whose colour it shares.
    pub(crate) like: Option<usize>,
    /// From earlier figures: its markers are hollow.
    pub(crate) earlier: bool,
    /// Its index among all lines of its kind, which determines its colour and marker, so that several charts agree.
    pub(crate) place: Option<usize>,
    /// The index of its colour and that of its marker, if two axes distinguish more lines than there are colours.
    pub(crate) by_two: Option<(usize, usize)>,
}

impl Line {
    /// The style of the nth line.
    fn style(&self, n: usize) -> Style {
        Style::of_line(self.place.unwrap_or(n), self.by_two)
    }
}

/// Labels of a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    pub(crate) x: String,
    pub(crate) y: String,
    /// The y axis need not begin at zero: it shows neither time, size nor count.
    pub(crate) free: bool,
    /// All lines rise: if the x axis is logarithmic the y axis is too, so that proportional growth is a straight line.
    pub(crate) rises: bool,
    /// The y axis shows differences, to be compared with zero.
    pub(crate) linear: bool,
}

/// The range and kind of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// For lengths: the axis begins at zero. `None` if some values are below zero.
    fn from_zero(values: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
        let all = values.clone().all(|value| value >= 0.0);
        all.then(|| Scale { logarithmic: false, from: 0.0, to: top(values) })
    }

    /// The same, but logarithmic if more than half of the numbers would be in the first tenth, as with batch sizes that
    /// double again and again.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
        let mut sorted: Vec<f64> = values.clone().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, middle, most) = (*sorted.first()?, sorted[sorted.len() / 2], *sorted.last()?);
        let crowded = sorted.len() > 3 && least > 0.0 && most.is_finite() && middle < 0.1 * most;
        if crowded { Scale::logarithmic(values) } else { Scale::from_zero(values) }
    }

    /// A logarithmic axis. `None` if some values are not above zero.
    fn logarithmic(values: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        let all = least > 0.0 && most.is_finite();
        all.then(|| Scale { logarithmic: true, from: round_below(least), to: round_above(most) })
    }

    /// The same if zero may be missing: if all values are in the upper half of such an axis, it begins below the min.
    fn follows(values: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
        let (least, most) = values.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let room = 0.08 * (most - least);
        match least > 0.5 * most && room > 0.0 {
            true => Some(Scale { logarithmic: false, from: least - room, to: most + room }),
            false => Scale::of(values),
        }
    }

    /// The value with this share of the axis below it.
    fn at(self, share: f64) -> f64 {
        if self.logarithmic {
            self.from * (self.to / self.from).powf(share)
        } else {
            self.from + share * (self.to - self.from)
        }
    }

    /// The share of the axis below a value.
    fn share(self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }

    fn set_y_axis(self, layout: Layout) -> Layout {
        let layout = layout.with_y_axis_min(self.from).with_y_axis_max(self.to);
        if self.logarithmic { layout.with_log_y().with_y_tick_format(plain()) } else { layout }
    }
}

/// Ticks of a logarithmic axis in plain notation: 0.05, not 5e-2.
fn plain() -> TickFormat {
    TickFormat::Custom(Arc::new(|value: f64| {
        let decimals = (-value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{value:.decimals$}")
    }))
}

/// The largest of 1, 2, 5, 10, 20 … that is not above the value, with a little room.
fn round_below(value: f64) -> f64 {
    let power = 10_f64.powf((value / 1.04).log10().floor());
    [5.0, 2.0].into_iter().map(|step| step * power).find(|round| *round <= value / 1.04).unwrap_or(power)
}

/// The smallest of 1, 2, 5, 10, 20 … that is not below the value, with a little room.
fn round_above(value: f64) -> f64 {
    let power = 10_f64.powf((1.04 * value).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|round| *round >= 1.04 * value).unwrap_or(10.0 * power)
}

/// The ratio of last to first from which values grow.
const GROWTH: f64 = 2.0;

/// Whether points in order are above zero and rise enough for growth to matter.
pub(crate) fn rises(points: &[(f64, f64)]) -> bool {
    match (points.first(), points.last()) {
        (Some((_, first)), Some((_, last))) => *first > 0.0 && *last >= GROWTH * first,
        _ => false,
    }
}

/// Merges lines that would cover each other, with all their names. A single line needs no name. Lines that two axes
/// distinguish stay apart, because a merged line would have the colour of only one.
pub(crate) fn together(mut lines: Vec<Line>, free: bool) -> Vec<Line> {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let is_now = lines.iter().all(|line| !line.earlier);
    if let Some(styles) = by_two(&names).filter(|_| is_now) {
        lines.iter_mut().zip(styles).for_each(|(line, style)| line.by_two = Some(style));
        return lines;
    }
    let single = lines.len() == 1;
    // If only some have a place, it may collide with an index.
    if lines.iter().any(|line| line.place.is_none()) {
        lines.iter_mut().enumerate().for_each(|(n, line)| line.place = Some(n));
    }
    let all = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
    let scale = if free { Scale::follows(all.clone()) } else { Scale::of(all.clone()) };
    let scale = scale.unwrap_or(Scale { logarithmic: false, from: 0.0, to: top(all) });
    let near = |a: f64, b: f64| (scale.share(a) - scale.share(b)).abs() <= COVERED;
    // A name of several parts contains commas.
    let apart = if lines.iter().any(|line| line.name.contains(", ")) { "; " } else { ", " };
    let mut drawn: Vec<Line> = Vec::new();
    for line in lines {
        let covers = |other: &&mut Line| {
            let points = other.points.iter().zip(&line.points);
            let mut ends = other.ends.iter().zip(&line.ends);
            other.earlier == line.earlier
                && (other.points.len(), other.ends.len()) == (line.points.len(), line.ends.len())
                && points.into_iter().all(|(a, b)| a.0 == b.0 && near(a.1, b.1))
                && ends.all(|(a, b)| a.0 == b.0 && near(a.1, b.1) && near(a.2, b.2))
        };
        match drawn.iter_mut().find(covers) {
            Some(other) => other.name += &format!("{apart}{}", line.name),
            None => drawn.push(line),
        }
    }
    if single {
        drawn.iter_mut().for_each(|line| line.name.clear());
    }
    drawn
}

/// Draws lines with a point at each measurement, and a cross at each gap; `ticks` names the values along the axis, the
/// same for all lines.
pub(crate) fn curve(lines: &[Line], gaps: &[Gap], ticks: &[(f64, String)], labels: &Labels) -> String {
    let axis = XAxis::of(ticks);
    let place = |x: f64| axis.place(x);
    let mut plots: Vec<Plot> = Vec::new();
    let values = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
    // An error bar below zero, where no number can be, ends at the axis.
    let ends = lines.iter().flat_map(|line| &line.ends).flat_map(|(_, low, high)| [low.max(0.0), *high]);
    let ends = ends.filter(|end| *end > 0.0);
    let values = values.chain(ends);
    let growth = Some(values.clone()).filter(|_| labels.rises && axis.is_logarithmic()).and_then(Scale::logarithmic);
    let scale = growth.or_else(|| if labels.free { Scale::follows(values) } else { Scale::of(values) });
    let lowest = scale.map_or(f64::NEG_INFINITY, |scale| scale.from);
    for (n, line) in lines.iter().enumerate() {
        let Style { colour, marker, dashes } = line.style(n);
        let points: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (place(*x), *y)).collect();
        let drawn = LinePlot::new().with_data(points.clone()).with_color(colour).with_line_style(dashes);
        let wide = if line.earlier { 1.2 } else { 2.0 };
        // The first markers are the largest, so that later ones do not hide them.
        let above = lines.len() - 1 - n;
        let size = if line.points.len() > BARS { SMALLER } else { 4.0 + 0.8 * above.min(5) as f64 };
        let marks = |colour: &str, size: f64| -> Plot {
            let marks = ScatterPlot::new().with_data(points.clone()).with_color(colour);
            marks.with_marker(marker).with_size(size).into()
        };
        let value = |at: f64| line.points.iter().find(|(x, _)| *x == at).map(|(_, y)| *y);
        let ends = line.ends.iter().filter_map(|(x, low, high)| Some((place(*x), value(*x)?, low.max(lowest), *high)));
        let ends: Vec<(f64, f64, f64, f64)> = ends.filter(|(_, y, low, high)| low <= y && y <= high).collect();
        // Many error bars become a band.
        let band = ends.len() > BARS && ends.len() == line.points.len();
        let drawn = match band {
            true => drawn.with_band(ends.iter().map(|end| end.2), ends.iter().map(|end| end.3)),
            false => drawn,
        };
        plots.push(drawn.with_stroke_width(wide).into());
        if line.points.len() <= MARKED {
            plots.push(marks(colour, size));
            plots.extend(line.earlier.then(|| marks("white", size - HOLLOW)));
        }
        if !ends.is_empty() && !band {
            let drawn = ScatterPlot::new().with_data(ends.iter().map(|(x, y, ..)| (*x, *y)));
            let drawn = drawn.with_y_err_asymmetric(ends.iter().map(|(_, y, low, high)| (y - low, high - y)));
            plots.push(drawn.with_color(colour).with_marker(marker).with_size(size).into());
        }
    }
    let low = |share: f64| scale.map_or(0.0, |scale| scale.at(share));
    let crosses: Vec<(f64, f64)> = gaps.iter().map(|gap| (place(gap.at), low(0.04))).collect();
    if !crosses.is_empty() {
        let cross = ScatterPlot::new().with_data(crosses).with_color("#5c5c5c").with_marker(MarkerShape::Cross);
        plots.push(cross.with_size(5.0).with_marker_stroke_width(1.5).into());
    }
    let names = lines.iter().enumerate().filter(|(_, line)| !line.name.is_empty());
    let names = names.map(|(n, line)| (line.name.as_str(), line.style(n)));
    let at_ends = LineEnds::of(lines, place);
    let mut entries = legend(names, |style| LegendShape::Marker(style.marker));
    let named = lines.iter().filter(|line| !line.name.is_empty());
    // The legend has no hollow markers, so it shows a line instead.
    if entries.iter().all(|entry| entry.color != "none") {
        for (entry, _) in entries.iter_mut().zip(named).filter(|(_, line)| line.earlier) {
            entry.shape = LegendShape::Line;
        }
    }
    if at_ends.is_some() {
        entries.clear();
    }
    let mut layout = layout(&plots, labels, entries);
    if let Some(ends) = &at_ends {
        layout = layout.with_width(ends.left());
    }
    if let Some(scale) = scale {
        layout = scale.set_y_axis(layout);
    }
    let (from, to) = axis.range();
    let said = place_texts(gaps, place, from, to);
    let share = |y: f64| scale.map_or(0.0, |scale| scale.share(y));
    let points = || lines.iter().flat_map(|line| &line.points).map(|(x, y)| (place(*x), share(*y)));
    let foot = |level: usize| 0.08 + 0.045 * level as f64;
    let levels = said.iter().map(|text| text.level + 1).max().unwrap_or(0);
    let head = |level: usize| 0.92 - 0.045 * (levels - 1 - level) as f64;
    let covers = |height: &dyn Fn(usize) -> f64| {
        let over = |text: &PlacedText<'_>, (x, y): (f64, f64)| {
            (x - text.middle).abs() <= text.half + 0.02 * (to - from) && (height(text.level) + 0.02 - y).abs() < 0.06
        };
        said.iter().any(|text| points().any(|point| over(text, point)))
    };
    // Texts that would cover points at the bottom move to the top, if that is free.
    let at_head = covers(&foot) && !covers(&head);
    for text in &said {
        let at = low(if at_head { head(text.level) } else { foot(text.level) });
        let text = TextAnnotation::new(safe::picture(text.line), text.middle, at);
        layout = layout.with_annotation(text.with_font_size(SMALL).with_color("#5c5c5c"));
    }
    drawn(plots, axis.along(layout), |scene, computed| {
        axis.draw(scene, computed);
        if let Some(ends) = at_ends {
            ends.draw(scene, computed);
        }
    })
}

/// The end of the y axis: a round number with room above the highest point.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    let most = 1.04 * values.fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    let step = [0.2, 0.5, 1.0].into_iter().map(|step| step * power).find(|step| most / step <= 8.0).unwrap_or(power);
    (most / step).ceil() * step
}

/// Means of neighbours, if there are more points than can be shown.
pub(crate) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |points: &[(f64, f64)]| {
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x, sum.1 + y));
        (x / points.len() as f64, y / points.len() as f64)
    };
    points.chunks(points.len().div_ceil(DENSE).max(1)).map(mean).collect()
}

/// Names with their colours. A name longer than a line of the legend continues in the next one.
fn legend<'a>(names: impl IntoIterator<Item = (&'a str, Style)>, shape: fn(&Style) -> LegendShape) -> Vec<LegendEntry> {
    let of = |(name, style): (&str, Style)| {
        let entry = |(at, label): (usize, String)| match at {
            0 => {
                let (color, dasharray) = (style.colour.to_owned(), style.dashes.dasharray());
                LegendEntry { label: safe::picture(&label), color, shape: shape(&style), dasharray }
            }
            _ => LegendEntry {
                label: safe::picture(&label),
                color: "none".to_owned(),
                shape: LegendShape::Rect,
                dasharray: None,
            },
        };
        broken(name, (0.8 * WIDTH / LETTER) as usize).into_iter().enumerate().map(entry).collect::<Vec<_>>()
    };
    names.into_iter().flat_map(of).collect()
}

fn layout(plots: &[Plot], labels: &Labels, legend: Vec<LegendEntry>) -> Layout {
    let lines = |label: &str, room: usize| {
        let lines: Vec<String> = broken(label, room).iter().map(|line| safe::picture(line)).collect();
        lines.join("\n")
    };
    let layout = Layout::auto_from_plots(plots)
        .with_x_label(lines(&labels.x, AXIS_LABEL))
        .with_x_label_wrap(2 * AXIS_LABEL)
        .with_y_label(lines(&labels.y, LABEL))
        .with_y_label_wrap(2 * LABEL)
        .with_width(WIDTH)
        .with_height(if legend.is_empty() { HEIGHT - 24.0 } else { HEIGHT })
        .with_legend_position(LegendPosition::OutsideBottomColumns)
        .with_legend_box(false)
        .with_font_family(FONTS);
    // A name that continues in a second line needs the full width.
    let layout =
        if legend.iter().any(|entry| entry.color == "none") { layout.with_legend_col_limit(1) } else { layout };
    if legend.is_empty() { layout } else { layout.with_legend_entries(legend) }
}

/// Text that flow adds to a drawing of the library.
fn text((x, y): (f64, f64), content: &str, size: u32, anchor: TextAnchor, rotate: Option<f64>) -> Primitive {
    Primitive::Text { x, y, content: safe::picture(content), size, anchor, rotate, bold: false, color: None }
}

/// A line that flow adds to it.
fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, stroke_width: f64) -> Primitive {
    Primitive::Line { x1, y1, x2, y2, stroke: colour.into(), stroke_width, stroke_dasharray: None }
}

/// Draws a chart high enough that the legend takes no room from the drawing. `add` draws what the library cannot.
fn drawn(plots: Vec<Plot>, layout: Layout, add: impl FnOnce(&mut Scene, &ComputedLayout)) -> String {
    let computed = ComputedLayout::from_layout(&layout);
    let more = computed.legend_bottom_extra - computed.legend_line_height - AROUND_LEGEND;
    let layout = if more > 0.0 { layout.with_height(computed.height + more) } else { layout };
    let computed = ComputedLayout::from_layout(&layout);
    let mut scene = render_multiple(plots, layout);
    add(&mut scene, &computed);
    scalable(&renumbered(&SvgBackend::new().render_scene(&scene))) + "\n"
}

/// Adds its size as a view box, so that a page can scale it without cutting it off.
fn scalable(svg: &str) -> String {
    let head = svg.split('>').next().unwrap_or_default();
    let size = |name: &str| Some(head.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0);
    match (size("width"), size("height")) {
        (Some(width), Some(height)) => svg.replacen("<svg ", &format!("<svg viewBox=\"0 0 {width} {height}\" "), 1),
        _ => svg.to_owned(),
    }
}

/// The library numbers its clip paths with a process-wide counter; the same chart must give the same file.
fn renumbered(svg: &str) -> String {
    const MARK: &str = "kuva-clip-";
    let mut seen: IndexSet<&str> = IndexSet::new();
    let mut parts = svg.split(MARK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let (at, _) = seen.insert_full(number);
        out.push_str("clip-");
        out.push_str(&at.to_string());
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests;
