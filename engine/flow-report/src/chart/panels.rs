//! Shares over time: one panel for each resource, stacked vertically.

use kuva::plot::LinePlot;
use kuva::plot::annotations::ShadedRegion;
use kuva::plot::legend::{LegendEntry, LegendShape};
use kuva::render::plots::Plot;

use super::palette::{COLOURS, SHADE, SHADED, Style, dashes};
use super::{HEIGHT, Labels, Line, drawn, frame, layout, legend};
use crate::safe;

/// Height of a panel among others.
const PANEL: f64 = 0.62 * HEIGHT;

/// Content of a panel.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) lines: Vec<Line>,
    /// Label of its y axis.
    pub(crate) y: String,
}

/// Panels over a common time axis, with shaded epochs and their name.
pub(crate) fn panels(panels: &[Panel], epochs: &[(f64, f64)], shaded: &str, x: &str) -> String {
    let points = panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points).map(|(x, _)| *x);
    let (from, to) = points.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), x| (from.min(x), to.max(x)));
    let last = panels.len().saturating_sub(1);
    let all = panels.iter().enumerate().map(|(n, panel)| {
        let x = if n == last { x } else { "" };
        let labels = Labels { x: x.to_owned(), y: panel.y.clone(), ..Labels::default() };
        let high = if panels.len() > 1 { PANEL } else { HEIGHT };
        // Only one panel names the shading.
        let shaded = if n == last { shaded } else { "" };
        load(&panel.lines, epochs, shaded, &labels, high, (from, to))
    });
    frame::stacked(&all.collect::<Vec<String>>())
}

fn load(
    lines: &[Line],
    epochs: &[(f64, f64)],
    shaded: &str,
    labels: &Labels,
    high: f64,
    (from, to): (f64, f64),
) -> String {
    let colour = |n: usize, line: &Line| COLOURS[line.like.unwrap_or(n) % COLOURS.len()];
    let plot = |(n, line): (usize, &Line)| -> Plot {
        let drawn = LinePlot::new().with_data(line.points.clone()).with_color(colour(n, line));
        drawn.with_stroke_width(1.5).with_line_style(dashes(n)).into()
    };
    let plots: Vec<Plot> = lines.iter().enumerate().map(plot).collect();
    let style = |n: usize, line: &Line| Style { colour: colour(n, line), ..Style::of(n) };
    let named = lines.iter().enumerate().map(|(n, line)| (line.name.as_str(), style(n, line)));
    let mut legend = legend(named, |_| LegendShape::Line);
    legend.extend((!epochs.is_empty() && !shaded.is_empty()).then(|| LegendEntry {
        label: safe::picture(shaded),
        color: SHADED.to_owned(),
        shape: LegendShape::Rect,
        dasharray: None,
    }));
    let mut layout = layout(&plots, labels, legend).with_height(high);
    layout = layout.with_y_axis_min(0.0).with_y_axis_max(105.0);
    if from < to {
        layout = layout.with_x_axis_min(from).with_x_axis_max(to);
    }
    for (begin, end) in epochs {
        let region = ShadedRegion::vertical(*begin, *end).with_color(SHADE.0).with_opacity(SHADE.1);
        layout = layout.with_shaded_region(region);
    }
    drawn(plots, layout, |_, _| ())
}
