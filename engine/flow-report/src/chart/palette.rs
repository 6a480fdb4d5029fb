//! The colours of charts, and how series are distinguished without colours.

use std::collections::BTreeSet;

use kuva::plot::line::LineStyle;
use kuva::plot::scatter::MarkerShape;

/// From Okabe and Ito's "Color Universal Design" (2008), without yellow and purple, with dark grey instead of black,
/// plus a brown and a violet that are far from all others. A test measures their distances for colour-blind readers.
pub(super) const COLOURS: [&str; 8] =
    ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#4d4d4d", "#782d00", "#2d00b4"];
/// The same without colours: dashed lines do not hide those below them, and have different markers. A legend shows one
/// period.
const DASHES: [Option<&str>; 8] = [
    None,
    Some("5 3"),
    Some("2 4"),
    Some("8 4 2 4"),
    Some("7 2 2 2 2 2"),
    Some("3 1.5 3 5"),
    Some("10 2"),
    Some("1 1.5"),
];
const MARKERS: [MarkerShape; 8] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::TriangleDown,
    MarkerShape::Star,
    MarkerShape::Pentagon,
    MarkerShape::Hexagon,
];
/// For grouped bars: the first is light and the last dark, in print too; one between them is lighter still.
pub(super) const LIGHT: &str = "#9cc3e6";
pub(super) const LIGHTEST: &str = "#e3dfd6";
pub(super) const DARK: &str = "#b8500f";

/// Background behind lines, and its opacity. In a legend it is the equal opaque colour on white.
pub(super) const SHADE: (&str, f64) = (COLOURS[0], 0.16);
pub(super) const SHADED: &str = "#d6e8f3";
/// For jobs; the last one is for all others.
pub(super) const JOBS: [&str; 6] = [COLOURS[0], COLOURS[3], COLOURS[2], COLOURS[4], COLOURS[1], COLOURS[5]];
/// Dashes of the line along a bar, which distinguishes bars without colours; the first has none.
pub(super) const ALONG: [Option<&str>; 6] = [None, Some(""), Some("6 4"), Some("2 2"), Some("9 3 2 3"), Some("1 4")];

/// The colour of a line along a bar of this colour.
pub(super) fn along(colour: &str) -> &'static str {
    if [JOBS[1], JOBS[3]].contains(&colour) { "#1a1a1a" } else { "#ffffff" }
}

/// The style of a series.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) colour: &'static str,
    pub(super) marker: MarkerShape,
    pub(super) dashes: LineStyle,
}

impl Style {
    /// For the nth series.
    pub(super) fn of(n: usize) -> Style {
        Style { colour: COLOURS[n % COLOURS.len()], marker: marker_of(n), dashes: dashes(n) }
    }

    /// For the nth series, or for a colour and a marker of `by_two`.
    pub(super) fn of_line(n: usize, by_two: Option<(usize, usize)>) -> Style {
        match by_two {
            Some((first, last)) => Style { colour: COLOURS[first], marker: MARKERS[last], dashes: dashes(last) },
            None => Style::of(n),
        }
    }

    pub(super) fn of_names(names: &[&str]) -> Vec<Style> {
        match by_two(names) {
            Some(all) => all.into_iter().map(|one| Style::of_line(0, Some(one))).collect(),
            None => (0..names.len()).map(Style::of).collect(),
        }
    }
}

/// The colours and the markers of more series than colours, with names such as `vgg16, link`: the first part determines
/// the colour, the last one the marker and dashes, if these suffice.
pub(super) fn by_two(names: &[&str]) -> Option<Vec<(usize, usize)>> {
    if names.len() <= COLOURS.len() {
        return None;
    }
    let parts: Vec<(&str, &str)> = names.iter().map(|name| name.rsplit_once(", ")).collect::<Option<_>>()?;
    let [first, last]: [BTreeSet<&str>; 2] =
        [parts.iter().map(|part| part.0).collect(), parts.iter().map(|part| part.1).collect()];
    let place = |all: &BTreeSet<&str>, name: &str| all.iter().position(|known| *known == name).unwrap_or_default();
    let fit = first.len() <= COLOURS.len() && last.len() <= MARKERS.len();
    fit.then(|| parts.iter().map(|(a, b)| (place(&first, a), place(&last, b))).collect())
}

/// The marker of the nth series. It differs when a colour repeats.
fn marker_of(n: usize) -> MarkerShape {
    MARKERS[(n + n / COLOURS.len()) % MARKERS.len()]
}

/// The dashes of the nth line.
pub(super) fn dashes(n: usize) -> LineStyle {
    DASHES[n % DASHES.len()].map_or(LineStyle::Solid, |dashes| LineStyle::Custom(dashes.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How the colour-blind see linear RGB: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
    /// Vision Deficiency", 2009, at severity 1.0.
    const SEEN: [(&str, [[f64; 3]; 3]); 4] = [
        ("by most", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "with protanopia",
            [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        ),
        (
            "with deuteranopia",
            [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        ),
        (
            "with tritanopia",
            [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
        ),
    ];

    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(rows: &[[f64; 3]; 3], of: [f64; 3]) -> [f64; 3] {
        rows.map(|row| row.iter().zip(of).map(|(a, b)| a * b).sum())
    }

    /// CIELAB of linear sRGB, white being D65.
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let rows = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
        let xyz = times(&rows, rgb.map(|value| value.clamp(0.0, 1.0)));
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let [x, y, z] = [f(xyz[0] / 0.9505), f(xyz[1]), f(xyz[2] / 1.089)];
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The CIEDE2000 colour difference, named as in Sharma, Wu and Dalal, 2005.
    fn difference([l1, a1, b1]: [f64; 3], [l2, a2, b2]: [f64; 3]) -> f64 {
        let steep = |c: f64| (c.powi(7) / (c.powi(7) + 25_f64.powi(7))).sqrt();
        let g = 0.5 * (1.0 - steep((a1.hypot(b1) + a2.hypot(b2)) / 2.0));
        let (a1, a2) = (a1 * (1.0 + g), a2 * (1.0 + g));
        let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
        let hue = |a: f64, b: f64| b.atan2(a).to_degrees().rem_euclid(360.0);
        let (h1, h2) = (hue(a1, b1), hue(a2, b2));
        let turn = if c1 * c2 == 0.0 { 0.0 } else { (h2 - h1 + 180.0).rem_euclid(360.0) - 180.0 };
        let dh = 2.0 * (c1 * c2).sqrt() * (turn / 2.0).to_radians().sin();
        let (l, c) = ((l1 + l2) / 2.0, (c1 + c2) / 2.0);
        let h = if (h1 - h2).abs() <= 180.0 { (h1 + h2) / 2.0 } else { (h1 + h2 + 360.0) / 2.0 };
        let cos = |degrees: f64| degrees.to_radians().cos();
        let t =
            1.0 - 0.17 * cos(h - 30.0) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0) - 0.2 * cos(4.0 * h - 63.0);
        let sl = 1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt();
        let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
        let rt = -2.0 * steep(c) * (60.0 * (-((h - 275.0) / 25.0).powi(2)).exp()).to_radians().sin();
        let (dl, dc, dh) = ((l2 - l1) / sl, (c2 - c1) / sc, dh / sh);
        (dl * dl + dc * dc + dh * dh + rt * dc * dh).sqrt()
    }

    #[test]
    fn the_difference_of_colours_is_the_published_one() {
        // From the test data of Sharma, Wu and Dalal.
        let pairs = [
            ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
            ([50.0, 2.5, 0.0], [58.0, 24.0, 15.0], 19.4535),
            ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
        ];
        for (a, b, expected) in pairs {
            assert!((difference(a, b) - expected).abs() < 1e-4, "{}", difference(a, b));
        }
    }

    #[test]
    fn the_colour_blind_tell_any_two_series_apart() {
        for palette in [&COLOURS[..], &[LIGHT, LIGHTEST, DARK]] {
            for (how, matrix) in &SEEN {
                for (n, one) in palette.iter().enumerate() {
                    for other in &palette[n + 1..] {
                        let [one_seen, other_seen] = [one, other].map(|colour| lab(times(matrix, linear(colour))));
                        let apart = difference(one_seen, other_seen);
                        assert!(apart >= 12.0, "{one} and {other} seen {how}: {apart:.1}");
                    }
                }
            }
        }
    }

    #[test]
    fn kinds_of_jobs_differ_without_colours() {
        let different: std::collections::BTreeSet<_> = ALONG.into_iter().collect();
        assert_eq!((different.len(), ALONG.len()), (JOBS.len(), JOBS.len()));
        for colour in JOBS {
            let apart = (lab(linear(colour))[0] - lab(linear(along(colour)))[0]).abs();
            assert!(apart >= 25.0, "the line along {colour} is seen: {apart:.1}");
        }
    }

    #[test]
    fn two_series_of_many_differ_in_colour_or_marker() {
        let models = ["vgg16", "mobilenet_v1", "resnet18", "resnet34", "alexnet"];
        let names: Vec<String> =
            models.iter().flat_map(|model| ["device", "link"].map(|place| format!("{model}, {place}"))).collect();
        let styles = Style::of_names(&names.iter().map(String::as_str).collect::<Vec<_>>());
        for pair in styles.chunks(2) {
            assert_eq!(pair[0].colour, pair[1].colour, "of one model");
            assert_ne!(pair[0].dashes.dasharray(), pair[1].dashes.dasharray());
        }
        let colours: std::collections::BTreeSet<_> = styles.iter().map(|style| style.colour).collect();
        assert_eq!(colours.len(), models.len());
    }

    #[test]
    fn as_many_series_as_have_colours_differ_without_them() {
        let lines: std::collections::BTreeSet<Option<String>> =
            (0..DASHES.len()).map(|n| dashes(n).dasharray()).collect();
        assert!(lines.len() == DASHES.len() && lines.len() >= COLOURS.len() && MARKERS.len() == COLOURS.len());
    }

    #[test]
    fn every_series_stands_out_from_white() {
        for colour in COLOURS {
            let [red, green, blue] = linear(colour);
            let contrast = 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05);
            assert!(contrast >= 2.2, "{colour}: {contrast:.2}");
        }
    }
}
