//! Series with fewer points, for a bundle.

use std::collections::BTreeSet;

use crate::Series;

/// Maximum points of each series in a bundle.
pub const MOST_POINTS: usize = 300;

/// A series with at most [`MOST_POINTS`] points of each kind: the first, the last, the min and the max, and others at
/// equal distances. A metric also keeps the last of each epoch, if these are few enough. Means over time stay about the
/// same.
#[must_use]
pub fn thin(series: &Series) -> Series {
    let metrics = series.metrics.iter().map(|(name, points)| {
        let ends = points.windows(2).enumerate().filter(|(_, two)| {
            let of = |at: usize| (two[at].part, two[at].key.epoch.map(f64::to_bits));
            of(0) != of(1)
        });
        let ends: Vec<usize> = ends.map(|(at, _)| at).collect();
        (name.clone(), thinned(points, |point| point.value, ends))
    });
    let samples =
        series.samples.iter().map(|(name, points)| (name.clone(), thinned(points, |point| point.1, Vec::new())));
    Series {
        metrics: metrics.collect(),
        epoch_times: thinned(&series.epoch_times, |epoch| epoch.ended - epoch.began, Vec::new()),
        samples: samples.collect(),
    }
}

fn thinned<T: Clone>(points: &[T], value: impl Fn(&T) -> f64, wanted: Vec<usize>) -> Vec<T> {
    let count = points.len();
    if count <= MOST_POINTS {
        return points.to_vec();
    }
    let by_value = |a: &usize, b: &usize| value(&points[*a]).total_cmp(&value(&points[*b]));
    let finite = || (0..count).filter(|at| value(&points[*at]).is_finite());
    let mut kept: BTreeSet<usize> = [0, count - 1].into_iter().collect();
    kept.extend(finite().min_by(by_value));
    kept.extend(finite().max_by(by_value));
    if wanted.len() <= MOST_POINTS / 2 {
        kept.extend(wanted);
    }
    let room = MOST_POINTS - kept.len();
    kept.extend((1..=room).map(|n| n * (count - 1) / (room + 1)));
    kept.into_iter().map(|at| points[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Point, TimedEpoch};

    fn sampled(count: usize) -> Series {
        let value = |at: usize| if at == 777 { -9.0 } else { (at % 7) as f64 };
        let points = (0..count).map(|at| (at as f64, value(at))).collect();
        Series { samples: [("cpu".to_owned(), points)].into(), ..Series::default() }
    }

    #[test]
    fn a_short_series_stays_and_a_long_one_keeps_its_ends_and_extremes() {
        for count in [0, 1, 300] {
            assert_eq!(thin(&sampled(count)), sampled(count), "{count}");
        }
        for count in [301, 1_000, 100_000] {
            let points = &thin(&sampled(count)).samples["cpu"];
            let has = |at: usize| points.iter().any(|(t, _)| *t == at as f64);
            assert!(points.len() <= MOST_POINTS && points.len() >= MOST_POINTS - 5, "{count}: {}", points.len());
            assert!(has(0) && has(count - 1) && (count < 778 || has(777)), "{count}");
            assert!(points.is_sorted_by(|a, b| a.0 < b.0) && points.iter().any(|(_, v)| *v == 6.0), "{count}");
            let mean = points.iter().map(|(_, v)| v).sum::<f64>() / points.len() as f64;
            assert!((mean - 3.0).abs() < 0.1, "{count}: {mean}");
        }
    }

    #[test]
    fn the_last_point_of_each_epoch_stays_and_numbers_that_are_none_do_not_matter() {
        let key = |epoch: u32, step: u32| crate::Key { epoch: Some(f64::from(epoch)), step: Some(f64::from(step)) };
        let of = |epoch: u32, step: u32| {
            let value = if step == 3 { f64::NAN } else { f64::from(epoch * 100 + step) };
            Point { part: 0, key: key(epoch, step), value }
        };
        let points: Vec<Point> = (1..=20).flat_map(|epoch| (0..100).map(move |step| of(epoch, step))).collect();
        let epoch_times =
            (0..2_000).map(|n| TimedEpoch { part: 0, epoch: n, began: f64::from(n), ended: f64::from(n) + 1.0 });
        let series = Series {
            metrics: [("loss".to_owned(), points)].into(),
            epoch_times: epoch_times.collect(),
            ..Series::default()
        };
        let thinned = thin(&series);
        let loss = &thinned.metrics["loss"];
        assert!(loss.len() <= MOST_POINTS && thinned.epoch_times.len() <= MOST_POINTS);
        for epoch in 1..=20 {
            assert!(loss.iter().any(|point| point.key == key(epoch, 99)), "{epoch}");
        }
    }
}
