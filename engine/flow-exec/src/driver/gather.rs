//! From what a program said to the numbers of its result: which epochs count, and what a series comes to. Pure; knows
//! neither processes nor files.

use std::collections::BTreeMap;

use flow_core::{Metric, Series};

/// One number, as a message or a line of output told it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Metric.
    pub(crate) name: String,
    /// Value.
    pub(crate) value: f64,
    /// Unit.
    pub(crate) unit: String,
    /// Epoch it belongs to.
    pub(crate) epoch: Option<u32>,
    /// The series comes to its mean over the epochs that count, else to its last value.
    pub(crate) mean: bool,
}

/// Everything that a program said, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// Numbers.
    pub(crate) rows: Vec<Row>,
    /// Epochs with begin and end, seconds since 1970.
    pub(crate) epochs: Vec<(u32, f64, f64)>,
}

/// What counts of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gathered {
    /// Numbers by name.
    pub(crate) metrics: BTreeMap<String, Metric>,
    /// Series of epochs, times in seconds since the attempt began.
    pub(crate) series: Series,
    /// The spans that count, seconds since 1970: the counted epochs, else the window; empty for the whole attempt.
    pub(crate) spans: Vec<(f64, f64)>,
    /// Epochs that lie wholly inside the window of the co-run group.
    pub(crate) in_window: u32,
}

/// Sums up an attempt that began and ended at these seconds since 1970. `window` is release and close of its co-run group.
///
/// The first epoch warms up and does not count, unless it is the only one. In a group, an epoch counts that lies wholly
/// inside the window; if none does, times and rates are absent rather than wrong.
pub(crate) fn gather(told: &Told, began: f64, ended: f64, window: Option<(f64, f64)>) -> Gathered {
    let inside: Vec<_> = told
        .epochs
        .iter()
        .filter(|(_, start, end)| window.is_none_or(|(release, close)| *start >= release && *end <= close))
        .collect();
    let without_first: Vec<_> = inside.iter().copied().filter(|(epoch, ..)| *epoch > 1).collect();
    let counted = if without_first.is_empty() { inside.clone() } else { without_first };
    let counts = |epoch: u32| counted.iter().any(|(e, ..)| *e == epoch);

    let mut metrics = BTreeMap::new();
    let mut series = Series {
        epoch_times: told.epochs.iter().map(|(e, start, end)| (*e, start - began, end - began)).collect(),
        ..Series::default()
    };
    let mut by_name: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &told.rows {
        by_name.entry(&row.name).or_default().push(row);
    }
    for (name, rows) in by_name {
        let Some(last) = rows.last() else { continue };
        let with_epoch: Vec<(u32, f64)> = rows.iter().filter_map(|r| Some((r.epoch?, r.value))).collect();
        let metric = if with_epoch.is_empty() || !last.mean {
            Some(Metric { value: last.value, unit: last.unit.clone(), epochs: None, sd: None })
        } else {
            // A program that tells no epochs' times has no window to be inside of: all but the first count.
            let timed = !told.epochs.is_empty() || window.is_some();
            let several = with_epoch.iter().any(|(e, _)| *e > 1);
            let used = |e: u32| if timed { counts(e) } else { e > 1 || !several };
            mean(with_epoch.iter().filter(|(e, _)| used(*e)).map(|(_, v)| *v), &last.unit)
        };
        if let Some(metric) = metric {
            metrics.insert(name.to_owned(), metric);
        }
        if !with_epoch.is_empty() {
            series.epochs.insert(name.to_owned(), with_epoch);
        }
    }
    // Measured from outside where the program does not say: the time between the lines that end its epochs.
    if !told.epochs.is_empty() && !told.rows.iter().any(|r| r.name == "epoch_time") {
        let times = told.epochs.iter().map(|(e, start, end)| (*e, end - start));
        series.epochs.insert("epoch_time".to_owned(), times.collect());
        if let Some(metric) = mean(counted.iter().map(|(_, start, end)| end - start), "s") {
            metrics.insert("epoch_time".to_owned(), metric);
        }
    }
    let spans = if counted.is_empty() {
        window.map(|(release, close)| (release.max(began), close.min(ended))).into_iter().collect()
    } else {
        counted.iter().map(|(_, start, end)| (*start, *end)).collect()
    };
    Gathered { metrics, series, spans, in_window: inside.len() as u32 }
}

fn mean(values: impl Iterator<Item = f64>, unit: &str) -> Option<Metric> {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let sd = (values.len() > 1).then(|| (values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1.0)).sqrt());
    Some(Metric { value, unit: unit.to_owned(), epochs: Some(values.len() as u32), sd })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(times: &[(u32, f64, f64)]) -> Told {
        let row = |name: &str, value, epoch, mean| Row {
            name: name.to_owned(),
            value,
            unit: "s".to_owned(),
            epoch: Some(epoch),
            mean,
        };
        let rows = times.iter().flat_map(|(e, start, end)| {
            [row("epoch_time", end - start, *e, true), row("loss", 1.0 / f64::from(*e), *e, false)]
        });
        Told { rows: rows.collect(), epochs: times.to_vec() }
    }

    #[test]
    fn the_first_epoch_warms_up() {
        let g = gather(&told(&[(1, 0.0, 5.0), (2, 5.0, 7.0), (3, 7.0, 11.0)]), 0.0, 12.0, None);
        assert_eq!(g.metrics["epoch_time"].value, 3.0);
        assert_eq!(g.metrics["epoch_time"].epochs, Some(2));
        assert_eq!(g.metrics["loss"].value, 1.0 / 3.0);
        assert_eq!(g.spans, [(5.0, 7.0), (7.0, 11.0)]);
    }

    #[test]
    fn an_only_epoch_counts() {
        let g = gather(&told(&[(1, 0.0, 5.0)]), 0.0, 6.0, None);
        assert_eq!((g.metrics["epoch_time"].value, g.metrics["epoch_time"].sd), (5.0, None));
    }

    #[test]
    fn only_epochs_wholly_inside_the_window_count() {
        let times = [(1, 0.0, 5.0), (2, 5.0, 7.0), (3, 7.0, 11.0), (4, 11.0, 12.0)];
        let g = gather(&told(&times), 0.0, 12.0, Some((4.0, 11.5)));
        assert_eq!((g.metrics["epoch_time"].value, g.in_window), (3.0, 2));
        let g = gather(&told(&times), 0.0, 12.0, Some((8.0, 10.0)));
        assert_eq!((g.metrics.get("epoch_time"), g.in_window), (None, 0));
        assert_eq!(g.metrics["loss"].value, 0.25, "what the model learned does not depend on the window");
        assert_eq!(g.spans, [(8.0, 10.0)]);
    }

    #[test]
    fn epochs_are_timed_from_outside_where_the_program_is_silent() {
        let told = Told { rows: vec![], epochs: vec![(1, 0.0, 3.0), (2, 3.0, 4.0), (3, 4.0, 6.0)] };
        let g = gather(&told, 0.0, 6.0, None);
        assert_eq!((g.metrics["epoch_time"].value, &*g.metrics["epoch_time"].unit), (1.5, "s"));
        assert_eq!(g.series.epochs["epoch_time"], [(1, 3.0), (2, 1.0), (3, 2.0)]);
    }

    #[test]
    fn a_program_without_times_of_its_epochs_still_has_means() {
        let row = |value, epoch| Row { name: "images_per_s".into(), value, unit: "images/s".into(), epoch, mean: true };
        let rows = vec![row(10.0, Some(1)), row(20.0, Some(2)), row(40.0, Some(3))];
        let g = gather(&Told { rows, epochs: vec![] }, 0.0, 9.0, None);
        assert_eq!(g.metrics["images_per_s"].value, 30.0);
        let g = gather(&Told { rows: vec![row(7.0, None)], epochs: vec![] }, 0.0, 9.0, None);
        assert_eq!(g.metrics["images_per_s"].value, 7.0);
    }
}
