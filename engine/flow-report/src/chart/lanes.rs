//! Lanes over one time axis: bars on some, amounts in use on others. The library has no such plot, so this module lays
//! it out and the library writes it. It knows no scheduler.

use std::fmt::Write;

use kuva::backend::svg::SvgBackend;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};
use unicode_width::UnicodeWidthStr;

use super::palette::{ALONG, JOBS, along};
use super::{FONTS, scalable};
use crate::safe;

/// Number of separate colours; the last one is for the rest.
pub(crate) const OWN: usize = JOBS.len() - 1;
/// An idle lane, and an amount in use.
const IDLE: &str = "#e9ebee";
const IN_USE: &str = "#8d99a6";
const GRID: &str = "#cdd2d8";
const WIDTH: f64 = 640.0;
const PAD: f64 = 14.0;
/// Text size, and the approximate width of a terminal column.
const TEXT: (u32, f64) = (12, 6.5);
/// Maximum height of all lanes of bars together, and of one.
const BARS: (f64, f64) = (640.0, 28.0);
/// Height of a lane that shows an amount.
const STEPS: f64 = 48.0;
const GAP: f64 = 4.0;
/// Wide enough for one period of any line along a bar.
const SWATCH: f64 = 28.0;

/// The whole drawing.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) title: String,
    /// Colours with their meaning.
    pub(crate) legend: Vec<(usize, String)>,
    /// From the top down.
    pub(crate) lanes: Vec<Lane>,
    /// The end of the axis, which starts at 0.
    pub(crate) end: f64,
    /// Positions along the axis, with their names.
    pub(crate) ticks: Vec<(f64, String)>,
    /// Name of the axis.
    pub(crate) axis: String,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) track: Track,
}

/// Content of a lane.
#[derive(Debug)]
pub(crate) enum Track {
    /// Bars, in this many rows.
    Bars { rows: usize, bars: Vec<Bar> },
    /// Amounts from their start times on, from 0 to `most`; `limit`: no more than that exists.
    Steps { points: Vec<(f64, f64)>, most: f64, limit: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) row: usize,
    pub(crate) colour: usize,
}

impl Lanes {
    pub(crate) fn svg(&self) -> String {
        let wide = |text: &str| text.width() as f64 * TEXT.1;
        let scale = |lane: &Lane| match lane.track {
            Track::Bars { .. } => 0.0,
            Track::Steps { most, .. } => wide(&format!("{most:.0}")) + 10.0,
        };
        let named = |lane: &Lane| wide(&lane.name) + scale(lane);
        let names = self.lanes.iter().map(named).fold(0.0, f64::max);
        let (left, right) = (PAD + names + 6.0, WIDTH - PAD - 6.0);
        let x = |at: f64| left + (right - left) * (at / self.end).clamp(0.0, 1.0);
        let count = self.lanes.iter().filter(|lane| matches!(lane.track, Track::Bars { .. })).count();
        let bar = (BARS.0 / count.max(1) as f64 - GAP).clamp(4.0, BARS.1);
        let mut scene = Scene::new(WIDTH, 0.0);
        scene.font_family = Some(FONTS.to_owned());
        let mut y = PAD;
        if !self.title.is_empty() {
            y += 10.0;
            scene.add(text(PAD, y, &self.title, TextAnchor::Start, true));
            y += 10.0;
        }
        y = self.legend(&mut scene, left, right, y);
        let top = y;
        let mut drawn = Vec::new();
        let mut above = f64::NEG_INFINITY;
        for lane in &self.lanes {
            let height = match &lane.track {
                Track::Bars { rows, bars } => {
                    scene.add(rect((left, y), (right - left, bar), IDLE));
                    let row = bar / (*rows).max(1) as f64;
                    drawn.extend(bars.iter().flat_map(|b| {
                        // A hairline between neighbours makes each job visible.
                        let (from, to) = (x(b.from), x(b.to));
                        let size = ((to - from - 0.6).max(0.5), row - if *rows > 1 { 0.6 } else { 0.0 });
                        filled((from, y + row * b.row as f64), size, b.colour)
                    }));
                    bar
                }
                Track::Steps { points, most, limit } => {
                    y += GAP;
                    scene.add(rect((left, y), (right - left, STEPS), IDLE));
                    let at = |value: f64| y + STEPS * (1.0 - (value / most).clamp(0.0, 1.0));
                    drawn.push(steps(points, x, at, right));
                    if *limit {
                        drawn.push(line((left, y), (right, y), "#000000", Some("5 3")));
                    }
                    for (value, base) in [(*most, y + 9.0), (0.0, y + STEPS)] {
                        scene.add(text(left - 6.0, base, &format!("{value:.0}"), TextAnchor::End, false));
                    }
                    STEPS
                }
            };
            let middle = y + height / 2.0 + 4.0;
            // On very low lanes, not every name has room.
            if middle - above >= f64::from(TEXT.0) {
                scene.add(text(left - 6.0 - scale(lane), middle, &lane.name, TextAnchor::End, false));
                above = middle;
            }
            y += height + if height < BARS.1 / 2.0 { 1.0 } else { GAP };
        }
        for (at, name) in &self.ticks {
            scene.add(line((x(*at), top), (x(*at), y + 4.0), GRID, None));
            scene.add(text(x(*at), y + 18.0, name, TextAnchor::Middle, false));
        }
        drawn.into_iter().for_each(|primitive| scene.add(primitive));
        scene.add(line((left, y), (right, y), "#000000", None));
        scene.add(text((left + right) / 2.0, y + 38.0, &self.axis, TextAnchor::Middle, false));
        scene.height = y + 38.0 + PAD;
        scalable(&SvgBackend::new().render_scene(&scene)) + "\n"
    }

    /// Draws the legend, in as many lines as it needs. Returns its lower end.
    fn legend(&self, scene: &mut Scene, left: f64, right: f64, top: f64) -> f64 {
        let (mut x, mut y) = (left, top);
        for (colour, name) in &self.legend {
            let wide = SWATCH + 5.0 + name.width() as f64 * TEXT.1 + 18.0;
            if x > left && x + wide > right {
                (x, y) = (left, y + 18.0);
            }
            filled((x, y), (SWATCH, 11.0), *colour).for_each(|primitive| scene.add(primitive));
            scene.add(text(x + SWATCH + 5.0, y + 10.0, name, TextAnchor::Start, false));
            x += wide;
        }
        if self.legend.is_empty() { y } else { y + 22.0 }
    }
}

fn text(x: f64, y: f64, content: &str, anchor: TextAnchor, bold: bool) -> Primitive {
    Primitive::Text { x, y, content: safe::picture(content), size: TEXT.0, anchor, rotate: None, bold, color: None }
}

fn rect((x, y): (f64, f64), (width, height): (f64, f64), colour: &str) -> Primitive {
    Primitive::Rect { x, y, width, height, fill: colour.into(), stroke: None, stroke_width: None, opacity: None }
}

/// A bar in the colour of its kind, with a line along its middle that distinguishes it without colours.
fn filled((x, y): (f64, f64), (width, height): (f64, f64), kind: usize) -> impl Iterator<Item = Primitive> {
    let kind = kind.min(OWN);
    let middle = y + height / 2.0;
    let colour = along(JOBS[kind]);
    let stroke = |dashes: &str| line((x, middle), (x + width, middle), colour, Some(dashes).filter(|d| !d.is_empty()));
    let stroke = ALONG[kind].map(stroke);
    [rect((x, y), (width, height), JOBS[kind])].into_iter().chain(stroke)
}

fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, dashes: Option<&str>) -> Primitive {
    let stroke_dasharray = dashes.map(str::to_owned);
    Primitive::Line { x1, y1, x2, y2, stroke: colour.into(), stroke_width: 1.0, stroke_dasharray }
}

/// The area under a step function, whose last step reaches to the right.
fn steps(points: &[(f64, f64)], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64, right: f64) -> Primitive {
    let begin = points.first().map_or(right, |(at, _)| x(*at));
    let mut d = format!("M{begin:.1} {:.1}", y(0.0));
    for (at, value) in points {
        // Writing to a string cannot fail.
        let _ = write!(d, "H{:.1}V{:.1}", x(*at), y(*value));
    }
    let _ = write!(d, "H{right:.1}V{:.1}Z", y(0.0));
    let stroke_dasharray = None;
    let area = PathData {
        d,
        fill: Some(IN_USE.into()),
        stroke: "none".into(),
        stroke_width: 0.0,
        opacity: None,
        stroke_dasharray,
    };
    Primitive::Path(Box::new(area))
}
