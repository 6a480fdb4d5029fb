//! If the curves of the two values of a split would cover each other in a chart, the chart shows their difference
//! instead.

use crate::chart::{COVERED, Cloud};
use crate::table::Table;

/// Curves cover each other if at least this share of their points is close together.
const MOST: f64 = 0.8;

/// For each curve, the points of the second value minus those of the first. Also the name of the difference, such as
/// `link − device`. `None` unless the table is split in two and some of the curves cover each other.
pub(super) fn differences(clouds: &[Cloud], table: &Table) -> Option<(Vec<Cloud>, String)> {
    let Some((_, values)) = &table.split else { return None };
    let [first, second] = values.as_slice() else { return None };
    let (first, second) = (table.point(first)?, table.point(second)?);
    let of = |part: &str| -> Vec<(&str, &Cloud)> {
        let own = clouds.iter().filter_map(|cloud| Some((cloud.name.strip_suffix(part)?, cloud)));
        own.map(|(curve, cloud)| (curve.trim_end_matches(", "), cloud)).collect()
    };
    let seconds = of(&second);
    let pair = |(curve, one): (&str, &Cloud)| {
        let (_, other) = seconds.iter().find(|(name, _)| *name == curve)?;
        Some((curve.to_owned(), less(&one.points, &other.points)))
    };
    let pairs: Vec<_> = of(&first).into_iter().map(pair).collect::<Option<_>>()?;
    let high = clouds.iter().flat_map(|cloud| &cloud.points).map(|(_, y)| y.abs()).fold(0.0, f64::max);
    let covers = |points: &[(f64, f64)]| {
        let near = points.iter().filter(|(_, apart)| apart.abs() <= COVERED * high).count();
        !points.is_empty() && near as f64 >= MOST * points.len() as f64
    };
    if 2 * pairs.len() != clouds.len() || !pairs.iter().any(|(_, points)| covers(points)) {
        return None;
    }
    let cloud = |(name, points)| Cloud { name, points, of: Vec::new(), curve: Vec::new() };
    Some((pairs.into_iter().map(cloud).collect(), format!("{second} − {first}")))
}

/// The second curve minus the first, at the places that both have.
fn less(one: &[(f64, f64)], other: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let at = |(x, y): &(f64, f64)| other.iter().find(|(also, _)| also == x).map(|(_, more)| (*x, more - y));
    one.iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_that_cover_each_other_are_shown_by_their_difference() {
        let cloud = |name: &str, more: f64| {
            let points: Vec<(f64, f64)> = (1..11).map(|n| (f64::from(n), 10.0 * f64::from(n) + more)).collect();
            Cloud { name: name.into(), of: Vec::new(), curve: points.clone(), points }
        };
        let table = |values: &[&str]| Table {
            split: Some(("images".into(), values.iter().map(|value| (*value).to_owned()).collect())),
            ..Table::default()
        };
        let both = |name: &str, more: f64| [cloud(&format!("{name}device"), 0.0), cloud(&format!("{name}link"), more)];
        let split = table(&["device", "link"]);
        let (drawn, what) = differences(&both("", 1.0), &split).expect("they cover each other");
        assert_eq!((what.as_str(), drawn.len(), drawn[0].name.as_str()), ("link − device", 1, ""));
        assert!(drawn[0].points.len() == 10 && drawn[0].points.iter().all(|(_, y)| *y == 1.0));
        let models = [both("vgg16, ", 1.0), both("vgg19, ", 30.0)].concat();
        let (drawn, _) = differences(&models, &split).expect("those of vgg16 cover each other");
        assert_eq!(drawn.iter().map(|cloud| cloud.name.as_str()).collect::<Vec<_>>(), ["vgg16", "vgg19"]);
        assert!(differences(&both("", 30.0), &split).is_none(), "both are seen");
        assert!(differences(&models[..3], &split).is_none(), "one has no other");
        assert!(differences(&both("", 1.0), &table(&["device", "link", "x"])).is_none());
        assert!(differences(&both("", 1.0), &Table::default()).is_none());
    }
}
