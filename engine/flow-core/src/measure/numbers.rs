//! The values of one metric, by epoch, and which of them it comes to.

use std::{borrow::Cow, collections::BTreeMap};

use crate::metrics::{Best, Summary};

/// What was said of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) epochs: BTreeMap<u32, f64>,
    /// As told last, of whatever epoch.
    pub(super) last: f64,
    /// The least and the most of all that were told; what is not a number is none.
    pub(super) range: (f64, f64),
    pub(super) unit: String,
    pub(super) mean: bool,
}

impl Numbers {
    /// These were told after them: an epoch that is told again counts as it was told last.
    fn go_on(&mut self, next: &Numbers) {
        self.epochs.extend(&next.epochs);
        self.range = (self.range.0.min(next.range.0), self.range.1.max(next.range.1));
        (self.last, self.mean) = (next.last, next.mean);
        self.unit.clone_from(&next.unit);
    }

    /// The best with its epoch; of a metric without epochs, the best of all that were told.
    fn best(&self, best: Best) -> Option<(Option<u32>, f64)> {
        if !self.epochs.is_empty() {
            return best.of(self.epochs.iter().map(|(epoch, value)| (Some(*epoch), *value)));
        }
        let (least, most) = self.range;
        best.of([(None, least), (None, most)].into_iter())
    }
}

/// What a metric comes to where that is said, if it has such a value.
pub(super) fn summed(all: &BTreeMap<String, Numbers>, numbers: &Numbers, summary: &Summary) -> Option<f64> {
    match summary {
        Summary::Last => Some(numbers.last),
        Summary::Best(best) => Some(numbers.best(*best).map_or(numbers.last, |(_, value)| value)),
        Summary::At { best, of } => {
            let (epoch, _) = all.get(of)?.best(*best)?;
            numbers.epochs.get(&epoch?).copied()
        }
    }
}

/// The metrics of a training in parts: the `earlier` ones, and what its `last` part told.
pub(super) fn all_parts<'a>(
    earlier: &BTreeMap<String, Numbers>,
    last: &'a BTreeMap<String, Numbers>,
) -> Cow<'a, BTreeMap<String, Numbers>> {
    if earlier.is_empty() {
        return Cow::Borrowed(last);
    }
    let mut all = earlier.clone();
    for (name, numbers) in last {
        match all.get_mut(name).filter(|_| !numbers.mean) {
            Some(before) => before.go_on(numbers),
            None => _ = all.insert(name.clone(), numbers.clone()),
        }
    }
    Cow::Owned(all)
}
