//! Scatter plots, with the curves through their points.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use kuva::plot::legend::LegendShape;
use kuva::plot::line::LineStyle;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::plots::Plot;

use super::palette::Style;
use super::x_axis::XAxis;
use super::{Labels, Scale, drawn, layout, legend, plain, rises};
use crate::safe;

/// Factor by which a logarithmic axis extends beyond its points on either side.
const MARGIN: f64 = 1.4;
/// Maximum number of kinds of points with separate markers.
const MAX_MARKERS: usize = 8;
/// Maximum number of points with individual labels, if each has its own name.
const NAMED: usize = 12;

/// Points with the curve through them.
#[derive(Clone, Debug)]
pub(crate) struct Cloud {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// The name of each point; empty if its position says it.
    pub(crate) of: Vec<String>,
    pub(crate) curve: Vec<(f64, f64)>,
}

impl Cloud {
    fn rises(&self) -> bool {
        let mut points = self.points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        rises(&points)
    }

    /// Whether each point has a different name, and there is room for all names.
    fn is_named(&self) -> bool {
        let names: BTreeSet<&String> = self.of.iter().collect();
        let all = names.len() == self.points.len() && names.iter().all(|name| !name.is_empty());
        all && (2..=NAMED).contains(&names.len())
    }

    /// Its points grouped by name, if there are enough markers.
    fn by_what(&self) -> Vec<Cloud> {
        let mut parts: IndexMap<&String, Vec<(f64, f64)>> = IndexMap::new();
        for (point, of) in self.points.iter().zip(&self.of) {
            parts.entry(of).or_default().push(*point);
        }
        let part =
            |(name, points): (&String, _)| Cloud { name: name.clone(), points, of: Vec::new(), curve: Vec::new() };
        let parts: Vec<Cloud> = parts.into_iter().map(part).collect();
        let told = parts.len() > 1 && parts.len() <= MAX_MARKERS && parts.iter().all(|part| !part.name.is_empty());
        if told { parts } else { Vec::new() }
    }
}

/// Draws points, with the curves through them.
pub(crate) fn clouds(clouds: &[Cloud], labels: &Labels) -> String {
    // With a single curve, markers show the names of points; the curve belongs to none of them.
    let (parts, through) = match clouds {
        [one] if !one.is_named() && !one.by_what().is_empty() => (one.by_what(), one.curve.as_slice()),
        _ => (Vec::new(), &[][..]),
    };
    let curves: Vec<(f64, f64)> = clouds.iter().flat_map(|cloud| cloud.curve.iter().copied()).collect();
    let clouds = if parts.is_empty() { clouds } else { &parts };
    let points = clouds.iter().flat_map(|cloud| &cloud.points);
    let along = points.clone().map(|(x, _)| *x);
    // A curve may go below zero between points, where a logarithmic axis cannot show it.
    let foot = XAxis::of_few(along.clone());
    let logarithmic = foot.is_some() || Scale::of(along.clone()).is_some_and(|along| along.logarithmic);
    let placed = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let place = |x: f64| foot.as_ref().map_or(x, |foot| foot.place(x));
        points.iter().map(|(x, y)| (place(*x), *y)).collect()
    };
    let growth = Some(points.clone().map(|(_, y)| *y)).filter(|_| logarithmic && clouds.iter().all(Cloud::rises));
    let y_scale = growth.and_then(Scale::logarithmic);
    let y_scale = y_scale.or_else(|| Scale::of(points.clone().map(|(_, y)| *y)).filter(|y_scale| y_scale.logarithmic));
    let y_scale = y_scale.filter(|_| !labels.linear);
    let lowest = y_scale.map_or(f64::NEG_INFINITY, |y_scale| y_scale.from);
    let y_scale = y_scale.or_else(|| Scale::from_zero(points.chain(&curves).map(|(_, y)| *y)));
    let line = |curve: &[(f64, f64)], colour: &str, dashes: LineStyle| -> Option<Plot> {
        let curve: Vec<(f64, f64)> = placed(curve).into_iter().filter(|(_, y)| *y >= lowest).collect();
        let drawn = LinePlot::new().with_data(curve.clone()).with_color(colour).with_stroke_width(1.5);
        (curve.len() > 1).then(|| drawn.with_line_style(dashes).into())
    };
    let mut plots: Vec<Plot> = Vec::new();
    let styles = Style::of_names(&clouds.iter().map(|cloud| cloud.name.as_str()).collect::<Vec<_>>());
    for (cloud, Style { colour, marker, dashes }) in clouds.iter().zip(&styles) {
        let drawn = ScatterPlot::new().with_data(placed(&cloud.points)).with_color(*colour).with_marker(*marker);
        let drawn = match cloud.is_named() {
            true => drawn.with_labels(cloud.of.iter().map(|name| safe::picture(name))).with_repel_labels(),
            false => drawn,
        };
        plots.push(drawn.with_size(if parts.is_empty() { 3.0 } else { 5.0 }).into());
        plots.extend(line(&cloud.curve, colour, dashes.clone()));
    }
    plots.extend(line(through, "#5c5c5c", LineStyle::Solid));
    let names = clouds.iter().filter(|_| clouds.len() > 1).map(|cloud| cloud.name.as_str()).zip(styles);
    let mut layout = layout(&plots, labels, legend(names, |style| LegendShape::Marker(style.marker)));
    if let Some(foot) = &foot {
        layout = foot.along(layout);
    } else if logarithmic {
        let (least, most) = (along.clone().fold(f64::INFINITY, f64::min), along.fold(0.0, f64::max));
        layout = layout.with_x_axis_min(least / MARGIN).with_x_axis_max(MARGIN * most);
        layout = layout.with_log_x().with_x_tick_format(plain());
    }
    if let Some(y_scale) = y_scale {
        layout = y_scale.set_y_axis(layout);
    }
    drawn(plots, layout, |scene, computed| {
        if let Some(foot) = &foot {
            foot.draw(scene, computed);
        }
    })
}
