//! Texts that should have been numbers but could not be read, for messages: the first one of each place.

use std::collections::BTreeMap;

use super::{cut, number::NotRead};

/// Maximum number of places kept.
const MOST: usize = 100;
/// Maximum number of places shown.
const SHOWN: usize = 8;

/// The unread texts, by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UnreadTexts {
    places: BTreeMap<String, First>,
}

#[derive(Clone, Debug, PartialEq)]
struct First {
    text: String,
    why: NotRead,
    times: usize,
}

impl UnreadTexts {
    /// Notes one more unread text.
    pub(crate) fn note(&mut self, place: &str, text: &str, why: &NotRead) {
        if let Some(first) = self.places.get_mut(place) {
            first.times += 1;
        } else if self.places.len() < MOST {
            self.places.insert(place.to_owned(), First { text: cut(text), why: why.clone(), times: 1 });
        }
    }

    /// Adds the unread texts of another list.
    pub(crate) fn join(&mut self, others: UnreadTexts) {
        for (place, other) in others.places {
            match self.places.get_mut(&place) {
                Some(first) => first.times += other.times,
                None => _ = self.places.insert(place, other),
            }
        }
    }

    /// The warning for the user.
    pub(crate) fn remarks(&self) -> Option<String> {
        let one = |(place, First { text, why, times }): (&String, &First)| not_read(place, text, why, *times, "time");
        several(self.places.iter().map(one), "; ")
    }
}

/// "`acc`: `abc` is not a number (2 rows)".
pub(super) fn not_read(place: &str, text: &str, why: &NotRead, times: usize, what: &str) -> String {
    let end = if times == 1 { "" } else { "s" };
    format!("{place}: {} ({times} {what}{end})", why.words(&cut(text)))
}

/// The first of many messages as one text, if there are any.
pub(super) fn several(mut all: impl ExactSizeIterator<Item = String>, between: &str) -> Option<String> {
    let shown: Vec<String> = all.by_ref().take(SHOWN).collect();
    let more = if all.len() > 0 { format!("{between}and {} more", all.len()) } else { String::new() };
    (!shown.is_empty()).then(|| shown.join(between) + &more)
}
