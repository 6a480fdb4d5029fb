//! The x axis of a curve: the positions of its values, and which of their names have room.

use std::sync::Arc;

use kuva::AxisLabelOverlap;
use kuva::TickFormat;
use kuva::render::layout::{ComputedLayout, Layout};
use kuva::render::render::{Scene, TextAnchor};
use unicode_width::UnicodeWidthStr;

use super::{LETTER, Scale, line, text};
use crate::safe;

/// Up to this many values, each has a tick.
const NAMED: usize = 12;
/// Minimum range for a logarithmic axis. Over a narrower range, it would bend lines and spread values little.
const WIDE: f64 = 4.0;
/// Tolerance for positions that should be whole numbers.
const ROUNDING: f64 = 1e-6;
/// Space between two tick names.
const GAP: f64 = 6.0;

/// Values with their names, at positions from 1 to their count.
pub(super) struct XAxis {
    values: Vec<(f64, String)>,
    scale: Scale,
}

impl XAxis {
    pub(super) fn of(ticks: &[(f64, String)]) -> XAxis {
        let mut values = ticks.to_vec();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values.dedup_by(|a, b| a.0 == b.0);
        let (from, to) = (values.first().map_or(0.0, |first| first.0), values.last().map_or(0.0, |last| last.0));
        let [linear, logarithmic] = [false, true].map(|logarithmic| Scale { logarithmic, from, to });
        // The sum of squared gaps is smallest if all gaps are equal.
        let uneven = |scale: Scale| -> f64 {
            values.windows(2).map(|pair| (scale.share(pair[1].0) - scale.share(pair[0].0)).powi(2)).sum()
        };
        let wide = from > 0.0 && to >= WIDE * from;
        let scale = if wide && uneven(logarithmic) < uneven(linear) { logarithmic } else { linear };
        XAxis { values, scale }
    }

    /// For few whole numbers on a logarithmic axis, such as batch sizes that double.
    pub(super) fn of_few(values: impl Iterator<Item = f64>) -> Option<XAxis> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let whole = values.len() > 2 && values.len() <= NAMED && values.iter().all(|value| value.fract() == 0.0);
        let ticks: Vec<(f64, String)> = values.iter().map(|value| (*value, value.to_string())).collect();
        Some(XAxis::of(&ticks)).filter(|foot| whole && foot.is_logarithmic())
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.scale.logarithmic
    }

    /// Whether each value has a tick; otherwise the library chooses round ones.
    fn named(&self) -> bool {
        self.values.len() <= NAMED || self.scale.logarithmic
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        if !self.named() {
            return value;
        }
        let share = self.scale.share(value);
        let place = if share.is_finite() { 1.0 + share * (self.values.len() - 1) as f64 } else { 1.0 };
        if (place - place.round()).abs() < ROUNDING { place.round() } else { place }
    }

    /// The start and end of the axis.
    pub(super) fn range(&self) -> (f64, f64) {
        if self.named() { (0.5, self.values.len() as f64 + 0.5) } else { (self.scale.from, self.scale.to) }
    }

    /// Whether the values are evenly spaced, so that the library can draw their ticks.
    fn even(&self) -> bool {
        self.values.iter().enumerate().all(|(n, (value, _))| self.place(*value) == n as f64 + 1.0)
    }

    pub(super) fn along(&self, layout: Layout) -> Layout {
        if !self.named() {
            return layout;
        }
        let (from, to) = self.range();
        let names: Vec<String> = self.values.iter().map(|(_, name)| safe::picture(name)).collect();
        let name = move |at: f64| {
            let whole = (at - at.round()).abs() < ROUNDING && at >= 1.0;
            whole.then(|| names.get(at.round() as usize - 1).cloned()).flatten().unwrap_or_default()
        };
        let layout =
            layout.with_x_axis_min(from).with_x_axis_max(to).with_x_tick_format(TickFormat::Custom(Arc::new(name)));
        let layout = layout.with_x_label_overlap(AxisLabelOverlap::Thin);
        layout.with_x_tick_step(if self.even() { 1.0 } else { f64::INFINITY })
    }

    /// Draws the ticks of unevenly spaced values, which the library cannot place.
    pub(super) fn draw(&self, scene: &mut Scene, computed: &ComputedLayout) {
        if !self.named() || self.even() {
            return;
        }
        let (top, foot) = (computed.margin_top, computed.height - computed.margin_bottom);
        let mark = foot + computed.tick_mark_major;
        let mut right = f64::NEG_INFINITY;
        for (value, name) in &self.values {
            let x = computed.map_x(self.place(*value));
            // Grid lines are below everything else.
            let grid = line((x, top), (x, foot), &computed.theme.grid_color, computed.grid_stroke_width);
            scene.elements.insert(0, grid);
            scene.add(line((x, foot), (x, mark), &computed.theme.tick_color, computed.tick_stroke_width));
            let half = 0.5 * LETTER * name.width() as f64;
            if x - half < right {
                continue;
            }
            right = x + half + GAP;
            let size = computed.tick_size;
            scene.add(text((x, mark + f64::from(size)), name, size, TextAnchor::Middle, None));
        }
    }
}
