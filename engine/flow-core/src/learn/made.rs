//! What is made of many observations, and made anew only when they have become noticeably more: with each one, all of them would be
//! looked at again.

use std::cell::OnceCell;

/// It is made anew when one more has come for so many that were there.
const ANEW: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Made<T> {
    /// Observations that there are.
    there: usize,
    /// What was made, and of how many.
    made: OnceCell<(usize, T)>,
}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Made { there: 0, made: OnceCell::new() }
    }
}

impl<T> Made<T> {
    /// What they come to: of a few of all, of many of all but one in [`ANEW`] at least.
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

    pub(super) fn there(&self) -> usize {
        self.there
    }

    /// What was made is of something else.
    pub(super) fn forget(&mut self) {
        self.made.take();
    }

    pub(super) fn one_more(&mut self) {
        self.there += 1;
        if self.made.get().is_some_and(|(of, _)| (self.there - of) * ANEW >= *of) {
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
        let (mut made, looked_at) = (Made::default(), Cell::new(0));
        for there in 1..=MANY {
            made.one_more();
            let of = *made.get(|| {
                looked_at.set(looked_at.get() + there);
                there
            });
            assert!(of == there || there > ANEW && (there - of) * ANEW < of, "{of} of {there}");
        }
        assert!(looked_at.get() < 20 * MANY, "{} observations were looked at for {MANY}", looked_at.get());
    }
}
