//! Parts of sentences: figures, ranges, and lists of names with their figures.

use super::Figure;
use crate::format::Format;
use crate::safe;
use crate::words::{Args, Locale};

/// Maximum labels in a sentence.
const FEW: usize = 3;
/// Further digits of values that otherwise read the same.
const CLOSE: u8 = 2;

/// A list of labels. A long list has the first ones and the number of the others.
pub(super) fn few(labels: &[String], words: Locale<'_>) -> String {
    let named = if labels.len() > FEW { FEW - 1 } else { labels.len() };
    let more = labels.len() - named;
    let more = (more > 0).then(|| words.text("list-more", &Args::new().with("n", more.to_string())));
    words.list(&labels[..named].iter().map(|label| safe::code(label)).chain(more).collect::<Vec<_>>())
}

impl Figure {
    /// The figure as prose writes it.
    pub(crate) fn text(&self, words: Locale<'_>) -> String {
        words.figure(&self.show, self.value)
    }

    /// The value with its relation sign, to follow its name.
    pub(super) fn relation(&self) -> String {
        self.show.relation(self.value)
    }

    /// An upper bound of its size: rounded up to the next readable figure.
    pub(super) fn bound(&self, words: Locale<'_>) -> String {
        let step = 10_f64.powi(-i32::from(self.show.decimals)) / self.show.factor;
        let size = self.value.abs();
        words.figure(&Format { signed: false, ..self.show.clone() }, ((size / step).floor() + 1.0) * step)
    }

    /// The figure without its sign, for a sentence whose verb shows the direction.
    pub(crate) fn size(&self, words: Locale<'_>) -> String {
        words.figure(&Format { signed: false, ..self.show.clone() }, self.value.abs())
    }
}

/// `2.61 to 2.94 times as long`, for changes that are shown as ratios.
pub(super) fn ratios(mut ends: [&Figure; 2], time: bool, words: Locale<'_>) -> String {
    ends.sort_by(|a, b| a.value.total_cmp(&b.value));
    let [from, to] = ends.map(|figure| figure.show.number(figure.value));
    let range = if from == to { to } else { words.text("range", &Args::new().with("from", from).with("to", to)) };
    words.text(if time { "ratio-of-time" } else { "ratio" }, &Args::new().with("range", range))
}

/// How far the best value is ahead of the next one.
pub(crate) struct Lead {
    /// The format of the two values, with more digits if they otherwise read the same.
    pub(crate) values: Format,
    /// The distance, in per cent of the next value. Shares, and values without a ratio, differ by their difference.
    pub(crate) by: f64,
    pub(crate) show: Format,
}

impl Lead {
    pub(crate) fn of(show: &Format, best: f64, next: f64) -> Lead {
        let finer = |show: &Format, more| Format { signed: false, decimals: show.decimals + more, ..show.clone() };
        let values = finer(show, if show.number(best) == show.number(next) { CLOSE } else { 0 });
        let (show, by) = match show.unit != "%" && best > 0.0 && next > 0.0 {
            true => (Format::change(), best / next - 1.0),
            // The difference of the values that the sentence shows.
            false => (values.difference(), values.as_read(best) - values.as_read(next)),
        };
        let is_seen = |more: &u8| !finer(&show, *more).reads_zero(by);
        let show = finer(&show, (0..CLOSE).find(is_seen).unwrap_or(CLOSE));
        Lead { values, by: by.abs(), show }
    }

    /// The best value, the next one, and the distance: `0.053`, `0.057`, `6%`.
    pub(crate) fn texts(&self, best: f64, next: f64, words: Locale<'_>) -> [String; 3] {
        let [best, next] = [best, next].map(|value| words.figure(&self.values, value));
        [best, next, words.figure(&self.show, self.by)]
    }
}

/// `9% to 23%`, `38.5 to 51.6 points`. One figure if both ends read the same.
pub(super) fn span(least: &Figure, most: &Figure, signed: bool, words: Locale<'_>) -> String {
    let text = |f: &Figure| if signed { f.text(words) } else { f.size(words) };
    let (from, to) = (text(least), text(most));
    if from == to {
        return to;
    }
    // A unit that is a separate word appears once.
    let from = match least.show.head() {
        None if least.show.ratio => least.show.number(least.value),
        Some(_) if signed => least.show.number(least.value),
        Some(_) => Format { signed: false, ..least.show.clone() }.number(least.value.abs()),
        None => from,
    };
    words.text("range", &Args::new().with("from", from).with("to", to))
}

/// `sjf (2.69 h)`.
pub(super) fn named(name: &str, value: &Figure, words: Locale<'_>) -> String {
    let args = Args::new().with("name", safe::text(name)).with("value", value.text(words));
    words.text("side", &args)
}

/// `0.9 (−4%) and 1.1 (−14%)`.
pub(super) fn sides(all: &[(String, Figure)], words: Locale<'_>) -> String {
    words.list(&all.iter().map(|(name, value)| named(name, value, words)).collect::<Vec<_>>())
}

pub(super) fn texts(all: &[String]) -> Vec<String> {
    all.iter().map(|one| safe::text(one)).collect()
}
