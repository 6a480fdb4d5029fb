//! Grouped bars, each with its value, or with the reason if there is none.

use kuva::plot::BarPlot;
use kuva::plot::legend::{LegendEntry, LegendShape};
use kuva::render::layout::ComputedLayout;
use kuva::render::plots::Plot;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use unicode_width::UnicodeWidthStr;

use super::labels::SMALL_LETTER;
use super::palette::{DARK, LIGHT, LIGHTEST};
use super::{HEIGHT, LETTER, Labels, SMALL, WIDTH, drawn, layout, text, top};
use crate::safe;

/// Share of a group's width that its bars take.
const SHARE: f64 = 0.8;
/// On narrower bars, values would overlap.
const NARROWEST: f64 = 9.0;
/// Factor of free height above bars with vertical values.
const HEADROOM: f64 = 1.2;

/// The kind of a bar, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Alone,
    Predicted,
    Together,
}

impl Kind {
    fn colour(self) -> &'static str {
        match self {
            Kind::Alone => LIGHT,
            Kind::Predicted => LIGHTEST,
            Kind::Together => DARK,
        }
    }
}

/// All bars with one name; one entry of the legend.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// From earlier figures: drawn as an outline.
    pub(crate) earlier: bool,
}

/// A bar: its value with the ends of its error bar, or the reason for its absence.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) value: Option<f64>,
    pub(crate) ends: Option<(f64, f64)>,
    /// The formatted value, or the reason.
    pub(crate) text: String,
}

impl Bar {
    fn highest(&self) -> f64 {
        self.ends.map_or(0.0, |(_, high)| high).max(self.value.unwrap_or(0.0))
    }

    /// The length of its error bar, down and up. The library draws one on every bar. For a bar without one, it is so far
    /// below the axis that it is invisible.
    fn error(&self, below: f64) -> (f64, f64) {
        let value = self.value.unwrap_or(0.0);
        let (low, high) = self.ends.unwrap_or((-below, -below));
        (value - low, high - value)
    }
}

/// Draws the bars of each series for each name.
pub(crate) fn bars(groups: &[(String, Vec<Bar>)], series: &[Series], labels: &Labels) -> String {
    let colour = |of: &Series| if of.earlier { "none" } else { of.kind.colour() };
    let plot = groups.iter().fold(BarPlot::new().with_width(SHARE), |plot, (name, bars)| {
        let values = bars.iter().zip(series).map(|(bar, of)| (bar.value.unwrap_or(0.0), colour(of)));
        plot.with_group(safe::picture(name), values)
    });
    let bars = || groups.iter().flat_map(|(_, bars)| bars);
    let most = top(bars().map(Bar::highest));
    let plot = match bars().any(|bar| bar.ends.is_some()) {
        true => plot.with_asymmetric_error(bars().map(|bar| bar.error(most))),
        false => plot,
    };
    let plots: Vec<Plot> = vec![plot.into()];
    let legend = series.iter().map(|of| LegendEntry {
        label: safe::picture(&of.name),
        color: of.kind.colour().to_owned(),
        shape: if of.earlier { LegendShape::Line } else { LegendShape::Rect },
        dasharray: None,
    });
    let mut layout = layout(&plots, labels, legend.collect()).with_y_axis_min(0.0);
    // Names without enough room are rotated, and the picture becomes higher by the space that they need.
    let longest = groups.iter().map(|(name, _)| name.width()).max().unwrap_or(0) as f64 * LETTER;
    if longest > 0.9 * WIDTH / groups.len().max(1) as f64 {
        layout = layout.with_x_tick_rotate(-40.0).with_height(HEIGHT + 0.64 * longest);
    }
    let wide = 0.85 * WIDTH * SHARE / (groups.len() * series.len()).max(1) as f64;
    let widest = bars().filter(|bar| bar.value.is_some()).map(|bar| bar.text.width()).max().unwrap_or(0);
    let vertical = (widest + 1) as f64 * SMALL_LETTER > wide;
    let highest = bars().map(Bar::highest).fold(0.0, f64::max);
    let layout = layout.with_y_axis_max(if vertical { top([HEADROOM * highest].into_iter()) } else { most });
    drawn(plots, layout, |scene, computed| {
        for (group, (_, bars)) in groups.iter().enumerate() {
            let one = SHARE / bars.len().max(1) as f64;
            for (n, (bar, of)) in bars.iter().zip(series).enumerate() {
                let middle = group as f64 + 1.0 - SHARE / 2.0 + one * (n as f64 + 0.5);
                let (left, right) = (computed.map_x(middle - one / 2.0), computed.map_x(middle + one / 2.0));
                if let (Some(value), true) = (bar.value, of.earlier) {
                    outline(scene, (left, right), (computed.map_y(value), computed.map_y(0.0)), of.kind.colour());
                }
                if bar.value.is_none() || wide >= NARROWEST {
                    written(scene, bar, computed.map_x(middle), vertical, computed);
                }
            }
        }
    })
}

fn outline(scene: &mut Scene, (left, right): (f64, f64), (top, foot): (f64, f64), colour: &str) {
    scene.add(Primitive::Rect {
        x: left + 1.0,
        y: top,
        width: (right - left - 2.0).max(1.0),
        height: foot - top,
        fill: "none".into(),
        stroke: Some(colour.into()),
        stroke_width: Some(1.5),
        opacity: None,
    });
}

/// The value above a bar, or the reason in its place.
fn written(scene: &mut Scene, bar: &Bar, middle: f64, vertical: bool, computed: &ComputedLayout) {
    let vertical = vertical || bar.value.is_none();
    let x = if vertical { middle + 0.35 * f64::from(SMALL) } else { middle };
    let (anchor, rotate) = if vertical { (TextAnchor::Start, Some(-90.0)) } else { (TextAnchor::Middle, None) };
    scene.add(text((x, computed.map_y(bar.highest()) - 4.0), &bar.text, SMALL, anchor, rotate));
}
