//! Scales, and the texts in a drawing.

use super::palette::COLOURS;
use super::*;

#[test]
fn long_series_are_thinned_out_to_what_can_be_seen() {
    let points: Vec<(f64, f64)> = (0..6_000).map(|n| (f64::from(n), f64::from(n % 2))).collect();
    let thin = thinned(&points);
    assert_eq!((thin.len(), thin[0], thinned(&points[..600]).len()), (600, (4.5, 0.5), 600));
    assert!(thinned(&[]).is_empty());
}

#[test]
fn the_highest_point_has_room_above_it() {
    for (most, expected) in
        [(1.19, 1.4), (37.4, 40.0), (7.03, 8.0), (9.9, 12.0), (100.0, 120.0), (0.0, 1.0), (7873.0, 9000.0)]
    {
        assert!((top([most, 0.5 * most].into_iter()) - expected).abs() < 1e-9, "{most}: {}", top([most].into_iter()));
    }
}

#[test]
fn numbers_that_zero_would_crowd_stand_by_their_logarithms() {
    let scale = |values: &[f64]| Scale::of(values.iter().copied());
    let doubled = scale(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]).expect("a scale");
    assert_eq!(doubled, Scale { logarithmic: true, from: 0.5, to: 1000.0 });
    assert!((doubled.share(doubled.at(0.3)) - 0.3).abs() < 1e-12);
    assert_eq!(scale(&[0.13, 0.17, 0.2, 15.0, 3059.0]).map(|scale| (scale.from, scale.to)), Some((0.1, 5000.0)));
    let sweep: Vec<f64> = (1..=70).map(f64::from).collect();
    for linear in [&sweep[..], &[16.0, 32.0, 64.0, 128.0, 256.0], &[0.0, 0.1, 0.1, 0.1, 90.0]] {
        let scale = scale(linear).expect("a scale");
        assert!(!scale.logarithmic && scale.from == 0.0, "{linear:?}: {scale:?}");
    }
    assert_eq!(scale(&[-1.0, 2.0]), None);
    let line = |name: &str, at: f64| Line {
        name: name.into(),
        points: vec![(1.0, 0.2), (2.0, at), (3.0, 0.15)],
        ..Line::default()
    };
    let losses = together(vec![line("16", 0.13), line("32", 0.3), line("256", 3059.0), line("64", 0.2)], false);
    assert_eq!(losses.len(), 4, "on a logarithmic axis they do not cover each other");
    let ticks = [1.0, 2.0, 3.0].map(|at| (at, at.to_string()));
    let drawn = curve(&losses, &[], &ticks, &Labels::default());
    assert!([">0.1<", ">10<", ">1000<"].iter().all(|tick| drawn.contains(tick)), "{drawn}");
}

#[test]
fn a_curve_that_leaves_a_logarithmic_axis_is_drawn_as_far_as_it_goes() {
    let points: Vec<(f64, f64)> = (0..10).map(|n| (f64::from(1 << n), 10.0 / f64::from(1 << n) + 0.1)).collect();
    let curve = vec![(1.0, 9.0), (200.0, 0.2), (512.0, -0.4)];
    let drawn = clouds(&[Cloud { name: String::new(), points, of: vec![], curve }], &Labels::default());
    assert!([">0.1<", ">1<", ">10<"].iter().all(|tick| drawn.contains(tick)), "{drawn}");
    // The measured values have the ticks.
    assert!([">2<", ">64<", ">512<"].iter().all(|tick| drawn.contains(tick)) && !drawn.contains(">100<"), "{drawn}");
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
}

#[test]
fn lines_differ_without_colours_and_a_gap_says_why() {
    let line = |name: &str| Line { name: name.into(), points: vec![(16.0, 18.1), (32.0, 16.2)], ..Line::default() };
    let ticks = [16.0, 32.0, 64.0].map(|at| (at, at.to_string()));
    let gap = Gap { at: 64.0, why: "显存不足".into() };
    let drawn = curve(&[line("v7"), line("v11")], &[gap], &ticks, &Labels::default());
    assert!(
        drawn.contains("stroke-dasharray=\"5 3\"") && drawn.contains("<circle") && drawn.contains("<rect"),
        "{drawn}"
    );
    assert!(drawn.contains("显存不足"), "{drawn}");
}

#[test]
fn lines_that_would_cover_each_other_are_one() {
    let line =
        |name: &str, end: f64| Line { name: name.into(), points: vec![(0.5, 1.0), (0.9, end)], ..Line::default() };
    let named = |lines: Vec<Line>| together(lines, false).into_iter().map(|line| line.name).collect::<Vec<_>>();
    assert_eq!(named(vec![line("fifo", 10.0), line("sjf", 3.0), line("easy", 3.1)]), ["fifo", "sjf, easy"]);
    assert_eq!(named(vec![line("fifo", 10.0), line("sjf", 10.0)]), ["fifo, sjf"]);
    assert_eq!(named(vec![line("fifo", 10.0)]), [""]);
    let several = ["a=1, b=2", "c", "d"].map(|name| line(name, 10.0));
    assert_eq!(named(several.into()), ["a=1, b=2; c; d"]);
    let three = ["fifo", "sjf", "easy"].map(|name| line(name, 10.0));
    assert_eq!(named(three.into()), ["fifo, sjf, easy"], "one mark between all of them");
}

#[test]
fn error_bars_go_from_end_to_end_and_have_room() {
    let ticks = [1.0, 2.0].map(|at| (at, at.to_string()));
    let line = |ends: Vec<(f64, f64, f64)>| Line {
        name: "v7".into(),
        points: vec![(1.0, 5.0), (2.0, 9.0)],
        ends,
        ..Line::default()
    };
    let draw = |ends| curve(&together(vec![line(ends)], false), &[], &ticks, &Labels::default());
    let (without, with) = (draw(vec![]), draw(vec![(1.0, 4.0, 6.0), (2.0, -1.0, 19.0)]));
    assert!(with.contains(">20<") && !without.contains(">20<"), "{with}");
    assert_eq!(with.matches("stroke=\"#0072b2\" stroke-width=\"1\"").count(), 6, "{with}");
    let apart = together(vec![line(vec![(1.0, 4.0, 6.0)]), line(vec![(1.0, 1.0, 9.0)])], false);
    assert_eq!(apart.len(), 2, "lines that spread otherwise are not one");
    let drawn =
        bars(&[("v7".to_owned(), vec![bar(10.0, None), bar(12.0, Some((9.0, 18.0)))])], &series(), &Labels::default());
    assert!(drawn.contains(">20<"), "{drawn}");
}

fn bar(value: f64, ends: Option<(f64, f64)>) -> Bar {
    Bar { value: Some(value), ends, text: value.to_string() }
}

fn series() -> [Series; 2] {
    [("alone", Kind::Alone), ("together", Kind::Together)].map(|(name, kind)| Series {
        name: name.into(),
        kind,
        earlier: false,
    })
}

#[test]
fn a_bar_says_its_value_and_one_that_is_missing_why() {
    let none = Bar { value: None, ends: None, text: "out of GPU memory".into() };
    let [alone, together] = series();
    let of = |few: usize| {
        let group = |n: usize| (n.to_string(), vec![bar(12.34, None), bar(11.0, None), none.clone()]);
        let then = Series { name: "alone, 2021".into(), earlier: true, ..alone.clone() };
        let all = [alone.clone(), then, together.clone()];
        bars(&(0..few).map(group).collect::<Vec<_>>(), &all, &Labels::default())
    };
    let turned = |drawn: &str, said: &str| {
        texts(drawn).into_iter().filter(|text| text.0 == said).map(|text| text.3).collect::<Vec<_>>()
    };
    let (few, many) = (of(2), of(8));
    assert_eq!((turned(&few, "12.34"), turned(&few, "out of GPU memory")), (vec![false; 2], vec![true; 2]), "{few}");
    assert_eq!(turned(&many, "12.34"), [true; 8], "{many}");
    // More would overlap; the reasons stay.
    let most = of(20);
    assert_eq!((turned(&most, "12.34").len(), turned(&most, "out of GPU memory").len()), (0, 20), "{most}");
    // Earlier measurements are outlines.
    assert_eq!(few.matches("stroke=\"#9cc3e6\" stroke-width=\"1.5\"").count(), 2, "{few}");
}

#[test]
fn earlier_figures_are_hollow_in_the_colour_of_those_of_now() {
    let line = |name: &str, earlier: bool, at: f64| Line {
        name: name.into(),
        points: vec![(16.0, at), (32.0, 2.0 * at)],
        place: Some(1),
        earlier,
        ..Line::default()
    };
    let lines = together(vec![line("v11", false, 18.1), line("v11, 2021", true, 18.1)], false);
    assert_eq!(lines.len(), 2, "they are no one line, whatever they say");
    let ticks = [16.0, 32.0].map(|at| (at, at.to_string()));
    let drawn = curve(&lines, &[], &ticks, &Labels::default());
    assert_eq!(drawn.matches("height=\"4.8\" fill=\"#ffffff\"").count(), 2, "{drawn}");
    assert!(!drawn.contains(&COLOURS[0].to_lowercase()), "{drawn}");
}

#[test]
fn growth_along_a_logarithmic_axis_is_a_straight_line() {
    let line = |factor: f64| Line {
        points: (4..9).map(|n| (f64::from(1 << n), factor * f64::from(1 << n))).collect(),
        ..Line::default()
    };
    let ticks: Vec<(f64, String)> = (4..9).map(|n| (f64::from(1 << n), (1 << n).to_string())).collect();
    let labels = Labels { rises: true, ..Labels::default() };
    let drawn = curve(&[line(10.0)], &[], &ticks, &labels);
    let [low, middle, high] = ["200", "500", "1000"]
        .map(|tick| texts(&drawn).into_iter().find(|text| text.0 == tick).map_or(f64::NAN, |text| text.2));
    assert!((low - high) / (middle - high) > 2.0 && low > middle && middle > high, "{low} {middle} {high}: {drawn}");
    // Over evenly spaced values, growth is straight by itself.
    let even: Vec<(f64, String)> = (1..6).map(|n| (f64::from(n), n.to_string())).collect();
    let drawn = curve(&[Line { points: vec![(1.0, 10.0), (5.0, 50.0)], ..Line::default() }], &[], &even, &labels);
    assert!(texts(&drawn).iter().any(|text| text.0 == "0"), "{drawn}");
    assert!(
        rises(&[(1.0, 5.0), (2.0, 10.0)]) && !rises(&[(1.0, 5.0), (2.0, 9.0)]) && !rises(&[(1.0, 0.0), (2.0, 9.0)])
    );
}

/// The texts in a drawing, each with its x, y and whether it is rotated.
fn texts(drawn: &str) -> Vec<(String, f64, f64, bool)> {
    let number = |head: &str, name: &str| {
        let at = head.split_once(&format!(" {name}=\""))?.1;
        at.split_once('"')?.0.parse().ok()
    };
    let text = |part: &str| {
        let (head, rest) = part.split_once('>')?;
        let said = rest.split_once("</text")?.0.to_owned();
        Some((said, number(head, "x")?, number(head, "y")?, head.contains("rotate(-90")))
    };
    drawn.split("<text").skip(1).filter_map(text).collect()
}

#[test]
fn panels_stand_one_above_the_other_over_one_time() {
    let line = |name: &str, to: f64| Line { name: name.into(), points: vec![(0.0, 5.0), (to, 9.0)], ..Line::default() };
    let [gpu, host] =
        [("GPU (%)", 100.0), ("Host (%)", 50.0)].map(|(y, to)| Panel { lines: vec![line(y, to)], y: y.into() });
    let drawn = panels(&[gpu, host], &[(0.0, 5.0)], "odd", "Time (s)");
    let named = |name: &str| texts(&drawn).into_iter().filter(|text| text.0 == name).count();
    assert_eq!(
        (named("Time (s)"), named("odd"), named("GPU (%)"), named("Host (%)"), named("100")),
        (1, 1, 2, 2, 4),
        "{drawn}"
    );
}

/// The names of ticks and their positions along the x axis.
fn named_ticks(drawn: &str, names: &[&str]) -> Vec<(String, f64)> {
    let named = || texts(drawn).into_iter().filter(|text| names.contains(&text.0.as_str()));
    let foot = named().map(|text| text.2).fold(0.0, f64::max);
    named().filter(|text| text.2 == foot).map(|(name, x, ..)| (name, x)).collect()
}

/// A chart over these values.
fn over(values: &[f64]) -> String {
    let line = Line { points: values.iter().map(|x| (*x, 700.0)).collect(), ..Line::default() };
    let ticks: Vec<(f64, String)> = values.iter().map(|at| (*at, at.to_string())).collect();
    curve(&[line], &[], &ticks, &Labels { x: "n".into(), ..Labels::default() })
}

#[test]
fn values_stand_where_they_are_on_the_scale_that_spaces_them_more_evenly() {
    let shares = |values: &[f64]| {
        let names: Vec<String> = values.iter().map(f64::to_string).collect();
        let ticks = named_ticks(&over(values), &names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ticks.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
        let (first, last) = (ticks[0].1, ticks[ticks.len() - 1].1);
        ticks.iter().map(|(_, x)| (100.0 * (x - first) / (last - first)).round()).collect::<Vec<f64>>()
    };
    assert_eq!(shares(&[1.0, 2.0, 3.0, 10.0, 100.0]), [0.0, 15.0, 24.0, 50.0, 100.0]);
    assert_eq!(shares(&[16.0, 32.0, 64.0, 128.0, 256.0]), [0.0, 25.0, 50.0, 75.0, 100.0]);
    assert_eq!(shares(&[1.0, 2.0, 4.0, 6.0]), [0.0, 39.0, 77.0, 100.0], "workers");
    assert_eq!(shares(&[1.0, 2.0, 3.0, 4.0, 5.0]), [0.0, 25.0, 50.0, 75.0, 100.0]);
    assert_eq!(shares(&[50.0, 60.0, 80.0, 100.0]), [0.0, 20.0, 60.0, 100.0], "no wide range");
    assert_eq!(shares(&[0.0, 10.0, 40.0, 160.0]), [0.0, 6.0, 25.0, 100.0], "zero has no logarithm");
    assert_eq!(shares(&[-4.0, 0.0, 12.0]), [0.0, 25.0, 100.0]);
}

#[test]
fn names_of_ticks_that_have_no_room_are_left_out_and_their_ticks_are_not() {
    let values = [0.0, 1.0, 2.0, 3.0, 500.0, 1000.0];
    let drawn = over(&values);
    let ticks = named_ticks(&drawn, &["0", "1", "2", "3", "500", "1000"]);
    assert_eq!(ticks.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["0", "500", "1000"]);
    let marks = |drawn: &str| drawn.matches("<line ").count();
    assert_eq!(marks(&drawn) - marks(&over(&values[..5])), 2, "a tick and its line of the grid");
    let wide: Vec<f64> = (0..12).map(|n| 1e9 + f64::from(n)).collect();
    let drawn = over(&wide);
    let named = wide.iter().filter(|at| drawn.contains(&format!(">{at}<"))).count();
    assert!((4..=8).contains(&named), "{named} names of ten digits: {drawn}");
}

#[test]
fn an_axis_follows_accuracies_and_not_times() {
    let of = |values: [f64; 3], free: bool| {
        let scale = if free { Scale::follows(values.into_iter()) } else { Scale::of(values.into_iter()) };
        scale.map(|scale| (scale.from, scale.to))
    };
    let (from, to) = of([97.1, 98.4, 97.9], true).expect("an axis");
    assert!((96.9..97.1).contains(&from) && (98.4..98.6).contains(&to), "{from} to {to}");
    assert_eq!(of([97.1, 98.4, 97.9], false).expect("an axis").0, 0.0);
    assert_eq!(of([0.1, 0.9, 0.5], true).expect("an axis").0, 0.0, "most of it is used");
}

/// With more lines than colours, the first axis has the colour and the second one the dashes. No two are merged.
#[test]
fn of_many_lines_each_axis_has_its_own_sign() {
    let names = [0.02, 0.05, 0.1].iter().flat_map(|lr| [16, 32, 64].map(|batch| format!("lr={lr}, batch={batch}")));
    let line = |name: String| Line { name, points: vec![(1.0, 0.5), (2.0, 0.4)], ..Line::default() };
    let drawn = together(names.map(line).collect(), true);
    assert_eq!(drawn.len(), 9);
    let styles: Vec<_> = drawn.iter().enumerate().map(|(n, line)| line.style(n)).collect();
    assert!(styles.chunks(3).all(|of_lr| of_lr.iter().all(|style| style.colour == of_lr[0].colour)));
    let colours: std::collections::BTreeSet<&str> = styles.iter().map(|style| style.colour).collect();
    assert_eq!(colours.len(), 3);
    let dashes = |n: usize| styles[n].dashes.dasharray();
    assert!(dashes(0) == dashes(3) && dashes(0) != dashes(1) && dashes(1) != dashes(2));
}
