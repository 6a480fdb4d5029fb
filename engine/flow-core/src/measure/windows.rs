//! Means over the time spans that count.

/// Begin and end of a counted span, such as an epoch, in seconds since 1970.
pub type Window = (f64, f64);

/// The mean of `(end, length, value)`, weighted by the overlap with the windows. Windows do not overlap each other.
pub(super) fn mean_over(windows: &[Window], values: impl Iterator<Item = (f64, f64, f64)>) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for (at, span, value) in values {
        for (begin, end) in windows {
            let overlap = end.min(at) - begin.max(at - span);
            if overlap > 0.0 {
                sum += value * overlap;
                weight += overlap;
            }
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// The same, or the mean of all values if there are no windows. Without a value in the windows the result is unknown;
/// the overall mean would be a different quantity.
pub(super) fn mean_over_or_whole(windows: &[Window], values: impl Iterator<Item = (f64, f64, f64)>) -> Option<f64> {
    match windows {
        [] => mean_over(&[(f64::NEG_INFINITY, f64::INFINITY)], values),
        windows => mean_over(windows, values),
    }
}

/// Adds to a list. If it has then grown to `most`, pairs of neighbours are merged.
pub(super) fn push_merging<T: Copy>(list: &mut Vec<T>, new: T, most: usize, merge: impl Fn(&T, &T) -> T) {
    list.push(new);
    if list.len() >= most {
        *list = list.chunks(2).map(|pair| if let [a, b] = pair { merge(a, b) } else { pair[0] }).collect();
    }
}

pub(super) fn round(value: f64, digits: f64) -> f64 {
    (value * digits).round() / digits
}
