//! Names of lines at their ends, instead of a legend.

use kuva::render::layout::ComputedLayout;
use kuva::render::render::{Scene, TextAnchor};
use unicode_width::UnicodeWidthStr;

use super::labels::SMALL_LETTER;
use super::{HEIGHT, Line, SMALL, WIDTH, line, text};

/// Maximum lines of a legend.
const LEGEND: usize = 3;
/// The widest name, in terminal columns.
const WIDEST: usize = 34;
/// Distance between two names.
const APART: f64 = 12.0;
/// Distance from the end of a line to its name.
const LEADER: f64 = 18.0;
/// Approximate height of the drawing.
const DRAWING: f64 = HEIGHT - 100.0;

/// The end of each line, with its name and colour.
pub(super) struct LineEnds<'a> {
    ends: Vec<(&'a str, &'static str, (f64, f64))>,
    width: f64,
}

impl<'a> LineEnds<'a> {
    /// `None` if a legend is better: for few lines, long names, or lines that end in the middle.
    pub(super) fn of(lines: &'a [Line], place: impl Fn(f64) -> f64) -> Option<LineEnds<'a>> {
        let end = |(n, line): (usize, &'a Line)| {
            let (x, y) = line.points.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
            Some((line.name.as_str(), line.style(n).colour, (place(x), y)))
        };
        let ends: Vec<_> = lines.iter().enumerate().map(end).collect::<Option<_>>()?;
        let widest = ends.iter().map(|(name, ..)| name.width()).max()?;
        let last = ends.iter().map(|(.., (x, _))| *x).fold(f64::NEG_INFINITY, f64::max);
        let fits = ends.len() > LEGEND && ends.len() as f64 * APART <= DRAWING && widest <= WIDEST;
        let named = ends.iter().all(|(name, _, (x, _))| !name.is_empty() && *x == last);
        (fits && named).then_some(LineEnds { ends, width: LEADER + widest as f64 * SMALL_LETTER + 6.0 })
    }

    /// The remaining width of the drawing.
    pub(super) fn left(&self) -> f64 {
        WIDTH - self.width
    }

    pub(super) fn draw(mut self, scene: &mut Scene, computed: &ComputedLayout) {
        scene.width = WIDTH;
        self.ends.sort_by(|a, b| b.2.1.total_cmp(&a.2.1));
        let heights: Vec<f64> = self.ends.iter().map(|(.., (_, y))| computed.map_y(*y)).collect();
        let foot = computed.height - computed.margin_bottom;
        let right = computed.width - computed.margin_right;
        for ((name, colour, (x, y)), at) in self.ends.iter().zip(apart(&heights, computed.margin_top, foot)) {
            let end = (computed.map_x(*x) + 5.0, computed.map_y(*y));
            scene.add(line(end, (right + LEADER - 4.0, at), colour, 1.0));
            let place = (right + LEADER, at + 0.35 * f64::from(SMALL));
            scene.add(text(place, name, SMALL, TextAnchor::Start, None));
        }
    }
}

/// Positions from the top down, as close to the wanted ones as the names' height allows.
fn apart(wanted: &[f64], top: f64, foot: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::new();
    for at in wanted {
        let above = places.last().map_or(top, |above| above + APART);
        places.push(at.max(above));
    }
    let mut below = foot;
    for place in places.iter_mut().rev() {
        *place = place.min(below);
        below = *place - APART;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_room_and_stay_inside() {
        assert_eq!(apart(&[10.0, 100.0], 0.0, 200.0), [10.0, 100.0]);
        assert_eq!(apart(&[50.0, 51.0, 52.0], 0.0, 200.0), [50.0, 62.0, 74.0]);
        assert_eq!(apart(&[198.0, 199.0, 200.0], 0.0, 200.0), [176.0, 188.0, 200.0]);
        assert_eq!(apart(&[-5.0], 0.0, 200.0), [0.0]);
    }

    #[test]
    fn a_few_lines_long_names_and_lines_that_end_early_have_a_legend() {
        let line = |name: &str, last: f64| Line {
            name: name.into(),
            points: vec![(1.0, 5.0), (last, 9.0)],
            ..Line::default()
        };
        let of = |lines: Vec<Line>| LineEnds::of(&lines, |x| x).is_some();
        let four =
            |name: &str, last: f64| ["a", "b", "c", name].map(|one| line(one, if one == name { last } else { 2.0 }));
        assert!(of(four("d", 2.0).into()));
        assert!(!of(four("d", 1.5).into()) && !of(four(&"long ".repeat(10), 2.0).into()));
        assert!(!of(["a", "b", "c"].map(|name| line(name, 2.0)).into()));
        assert!(!of((0..40).map(|n| line(&n.to_string(), 2.0)).collect()));
    }
}
