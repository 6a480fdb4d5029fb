//! Charts as SVG: curves over the rows of a table, alone against together, load over time, lanes over time. The only module that
//! knows the chart library; what it is asked to draw is plain numbers and finished labels.

pub(crate) mod lanes;

use std::sync::Arc;

use kuva::TickFormat;
use kuva::plot::annotations::ShadedRegion;
use kuva::plot::legend::{LegendEntry, LegendPosition, LegendShape};
use kuva::plot::{BarPlot, LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use crate::safe;

/// Told apart in print and by the colour-blind.
const COLOURS: [&str; 6] = ["#1f6fb2", "#d1691e", "#2f8f5b", "#8a5aa8", "#5c5c5c", "#b03060"];
/// Fonts for both languages.
const FONTS: &str = "Helvetica, Arial, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif";
/// More points than this are closer together than the chart's width can show.
const DENSE: usize = 600;
/// A longer label along the upright axis takes a second line.
const LABEL: usize = 40;
/// Up to this many points an axis shows each by its name.
const NAMED: usize = 12;

/// A named line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Labels of a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    pub(crate) x: String,
    pub(crate) y: String,
}

/// Lines with a point at each measurement; `ticks` names the positions along the axis, the same for all lines.
pub(crate) fn curve(lines: &[Line], ticks: &[(f64, String)], labels: &Labels) -> String {
    let named = ticks.len() <= NAMED;
    // Doubled batch sizes stand at equal distances, as in the table; a fine sweep keeps its scale.
    let place = |x: f64| match named {
        true => ticks.iter().position(|(at, _)| *at == x).map_or(x, |at| at as f64 + 1.0),
        false => x,
    };
    let mut plots: Vec<Plot> = Vec::new();
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (place(*x), *y)).collect();
        let drawn = LinePlot::new().with_data(points.clone()).with_color(*colour).with_stroke_width(2.0);
        plots.push(drawn.into());
        plots.push(ScatterPlot::new().with_data(points).with_color(*colour).with_size(4.0).into());
    }
    // One line needs no name.
    let names = lines.iter().filter(|_| lines.len() > 1).map(|line| line.name.as_str());
    let mut layout = layout(&plots, labels, legend(names, LegendShape::Line)).with_y_axis_min(0.0);
    if named {
        let names: Vec<String> = ticks.iter().map(|(_, name)| safe::picture(name)).collect();
        let name = move |at: f64| {
            let whole = (at - at.round()).abs() < 1e-6 && at >= 1.0;
            whole.then(|| names.get(at.round() as usize - 1).cloned()).flatten().unwrap_or_default()
        };
        layout = layout
            .with_x_tick_step(1.0)
            .with_x_axis_min(0.5)
            .with_x_axis_max(ticks.len() as f64 + 0.5)
            .with_x_tick_format(TickFormat::Custom(Arc::new(name)));
    }
    render(plots, layout)
}

/// Two bars for each name.
pub(crate) fn bars(groups: &[(String, f64, f64)], names: (&str, &str), labels: &Labels) -> String {
    let plot = groups.iter().fold(BarPlot::new(), |plot, (name, a, b)| {
        plot.with_group(safe::picture(name), vec![(*a, COLOURS[0]), (*b, COLOURS[1])])
    });
    let plots: Vec<Plot> = vec![plot.into()];
    let layout = layout(&plots, labels, self::legend([names.0, names.1], LegendShape::Rect)).with_y_axis_min(0.0);
    render(plots, layout)
}

/// Shares over time, with the epochs shaded.
pub(crate) fn load(lines: &[Line], epochs: &[(f64, f64)], labels: &Labels) -> String {
    let plots: Vec<Plot> = lines
        .iter()
        .zip(COLOURS.iter().cycle())
        .map(|(line, colour)| {
            LinePlot::new().with_data(thinned(&line.points)).with_color(*colour).with_stroke_width(1.5).into()
        })
        .collect();
    let legend = legend(lines.iter().map(|line| line.name.as_str()), LegendShape::Line);
    let mut layout = layout(&plots, labels, legend).with_y_axis_min(0.0).with_y_axis_max(100.0);
    for (begin, end) in epochs {
        layout =
            layout.with_shaded_region(ShadedRegion::vertical(*begin, *end).with_color("#1f6fb2").with_opacity(0.10));
    }
    render(plots, layout)
}

/// Means of neighbours, where there are more points than can be shown.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |points: &[(f64, f64)]| {
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x, sum.1 + y));
        (x / points.len() as f64, y / points.len() as f64)
    };
    points.chunks(points.len().div_ceil(DENSE).max(1)).map(mean).collect()
}

/// Names beside the colours in their order.
fn legend<'a>(names: impl IntoIterator<Item = &'a str>, shape: LegendShape) -> Vec<LegendEntry> {
    let of = |(name, colour): (&str, &&str)| LegendEntry {
        label: safe::picture(name),
        color: (*colour).to_owned(),
        shape,
        dasharray: None,
    };
    names.into_iter().zip(COLOURS.iter().cycle()).map(of).collect()
}

fn layout(plots: &[Plot], labels: &Labels, legend: Vec<LegendEntry>) -> Layout {
    let layout = Layout::auto_from_plots(plots)
        .with_x_label(safe::picture(&labels.x))
        .with_y_label(safe::picture(&labels.y))
        .with_y_label_wrap(LABEL)
        .with_width(640.0)
        .with_height(if legend.is_empty() { 360.0 } else { 384.0 })
        .with_legend_position(LegendPosition::OutsideBottomColumns)
        .with_legend_box(false)
        .with_font_family(FONTS);
    if legend.is_empty() { layout } else { layout.with_legend_entries(legend) }
}

fn render(plots: Vec<Plot>, layout: Layout) -> String {
    let mut svg = renumbered(&kuva::render_to_svg(plots, layout));
    svg.push('\n');
    svg
}

/// The library numbers its clip paths by a counter of the process; the same chart must be the same file.
fn renumbered(svg: &str) -> String {
    const MARK: &str = "kuva-clip-";
    let mut seen: Vec<&str> = Vec::new();
    let mut parts = svg.split(MARK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let at = seen.iter().position(|n| *n == number).unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        out.push_str("clip-");
        out.push_str(&at.to_string());
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_series_are_thinned_out_to_what_can_be_seen() {
        let points: Vec<(f64, f64)> = (0..6_000).map(|n| (f64::from(n), f64::from(n % 2))).collect();
        let thin = thinned(&points);
        assert_eq!((thin.len(), thin[0], thinned(&points[..600]).len()), (600, (4.5, 0.5), 600));
        assert!(thinned(&[]).is_empty());
    }

    #[test]
    fn the_same_chart_is_the_same_file() {
        let line = Line { name: "v7".into(), points: vec![(16.0, 18.1), (32.0, 16.2)] };
        let ticks = [(16.0, "16".to_owned()), (32.0, "32".to_owned())];
        let draw = || curve(&[line.clone(), line.clone()], &ticks, &Labels::default());
        assert_eq!(draw(), draw());
        assert!(draw().starts_with("<svg") || draw().starts_with("<?xml"), "{}", &draw()[..80]);
    }
}
