//! A value derived from many observations. It is derived again only when there are noticeably more of them, because
//! that reads all of them.

use std::cell::OnceCell;

/// The value is derived again when the number of observations has grown by one in this many.
const REFIT_SHARE: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct LazyValue<T> {
    /// Observations that there are.
    pub(super) there: usize,
    /// The derived value, and the number of observations that it used.
    made: OnceCell<(usize, T)>,
}

impl<T> Default for LazyValue<T> {
    fn default() -> Self {
        LazyValue { there: 0, made: OnceCell::new() }
    }
}

impl<T> LazyValue<T> {
    /// The value. It used all of a few observations, and all of many except at most one in [`REFIT_SHARE`].
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> &T {
        &self.made.get_or_init(|| (self.there, make())).1
    }

    pub(super) fn is_made(&self) -> bool {
        self.made.get().is_some()
    }

    /// It was made elsewhere, of so many.
    pub(super) fn put(&mut self, of: usize, made: T) {
        self.made = OnceCell::from((of, made));
    }

    /// Discards the value, because it no longer applies.
    pub(super) fn forget(&mut self) {
        self.made.take();
    }

    pub(super) fn one_more(&mut self) {
        self.there += 1;
        if self.made.get().is_some_and(|(of, _)| (self.there - of) * REFIT_SHARE >= *of) {
            self.made.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn making_anew_costs_as_much_as_there_is_and_not_its_square() {
        const MANY: usize = 20_000;
        let (mut made, looked_at) = (LazyValue::default(), Cell::new(0));
        for there in 1..=MANY {
            made.one_more();
            let of = *made.get(|| {
                looked_at.set(looked_at.get() + there);
                there
            });
            assert!(of == there || there > REFIT_SHARE && (there - of) * REFIT_SHARE < of, "{of} of {there}");
        }
        assert!(looked_at.get() < 20 * MANY, "{} observations were looked at for {MANY}", looked_at.get());
    }
}
