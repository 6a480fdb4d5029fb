//! What is said of many at once: of a sweep whose command changed each instance has another reason, and all have one form.

use indexmap::IndexMap;

/// Reasons of one form: the one that most have, the first whose it is, how many have one, and whether they differ in it.
pub(crate) struct Alike<T> {
    pub(crate) of: T,
    said: String,
    pub(crate) count: usize,
    differ: bool,
}

impl<T> Alike<T> {
    /// The reason, and that others have it with values of their own.
    pub(crate) fn words(&self) -> String {
        if self.differ { format!("{}; the others alike", self.said) } else { self.said.clone() }
    }
}

/// The forms of some reasons, in the order of their first.
pub(crate) fn alike<T>(reasons: impl Iterator<Item = (T, String)>) -> Vec<Alike<T>> {
    let mut forms: IndexMap<String, IndexMap<String, (T, usize)>> = IndexMap::new();
    for (of, reason) in reasons {
        forms.entry(form(&reason)).or_default().entry(reason).or_insert((of, 0)).1 += 1;
    }
    let alike = forms.into_values().filter_map(|reasons| {
        let (count, differ) = (reasons.values().map(|(_, count)| count).sum(), reasons.len() > 1);
        // Of several that are as common, the first.
        let (said, (of, _)) = reasons.into_iter().rev().max_by_key(|(_, (_, count))| *count)?;
        Some(Alike { of, said, count, differ })
    });
    alike.collect()
}

/// A reason without its numbers, and without what it quotes or names in brackets.
fn form(reason: &str) -> String {
    let (mut quoted, mut depth) = (false, 0_u32);
    let kept = |c: &char| {
        match c {
            '`' => quoted = !quoted,
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => return !quoted && depth == 0 && !c.is_numeric(),
        }
        false
    };
    reason.chars().filter(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(reasons: &[&str]) -> Vec<(String, usize)> {
        alike(reasons.iter().map(|reason| ((), (*reason).to_owned())))
            .iter()
            .map(|one| (one.words(), one.count))
            .collect()
    }

    #[test]
    fn reasons_of_one_form_are_told_as_one() {
        let command = |n: u32| format!("the command was `sh work.sh {n} 613`, is `sh work.sh {n} -1`");
        let commands = [command(0), command(1), command(2)];
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        assert_eq!(said(&commands), [(format!("{}; the others alike", commands[0]), 3)]);
        let verdict = "the verdict on together is undecided after 2 runs of each";
        let mixed = ["its first run", verdict, "its first run", &verdict.replace('2', "1")];
        assert_eq!(said(&mixed), [("its first run".to_owned(), 2), (format!("{verdict}; the others alike"), 2)]);
        assert_eq!(said(&["a[n=1] failed", "a[n=1] failed"]), [("a[n=1] failed".to_owned(), 2)]);
    }
}
