//! The line of a log that is most like a pattern, for a user whose pattern matched nothing.

use super::{Pattern, cut};

/// Maximum number of lines that are compared.
const MOST: u32 = 20_000;

/// The line nearest to a pattern so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nearest {
    /// The pattern's literal words in lower case; set at the first line.
    words: Option<Vec<String>>,
    compared: u32,
    /// The number of letters of these words in the line, and the line.
    best: Option<(usize, String)>,
}

impl Nearest {
    /// Compares one more line that the pattern did not match.
    pub(crate) fn compare(&mut self, pattern: &Pattern, line: &str) {
        if self.compared == MOST || line.trim().is_empty() {
            return;
        }
        self.compared += 1;
        let words = self.words.get_or_insert_with(|| words(pattern.text()));
        let line_of_words = line.to_lowercase();
        let shared = words.iter().filter(|word| line_of_words.contains(&**word)).map(String::len).sum();
        if shared > self.best.as_ref().map_or(0, |(best, _)| *best) {
            self.best = Some((shared, cut(line)));
        }
    }

    pub(crate) fn line(&self) -> Option<&str> {
        self.best.as_ref().map(|(_, line)| &**line)
    }
}

/// The words outside braces.
fn words(pattern: &str) -> Vec<String> {
    let mut parts = pattern.split('{');
    let first = parts.next();
    let literals = first.into_iter().chain(parts.map(|part| part.split_once('}').map_or(part, |(_, literal)| literal)));
    let words = literals.flat_map(|literal| literal.split(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_shares_most_with_the_pattern_is_nearest() {
        let nearest = |pattern: &str, lines: &[&str]| {
            let (pattern, mut nearest) = (Pattern::new(pattern).unwrap(), Nearest::default());
            lines.iter().for_each(|line| nearest.compare(&pattern, line));
            nearest.line().map(str::to_owned)
        };
        let log = ["start", "epoch 1", "train loss=0.5", "val loss=0.6 acc=0.9"];
        assert_eq!(nearest("Loss: {loss}", &log).as_deref(), Some("train loss=0.5"));
        assert_eq!(nearest("val loss {val_loss}, acc {acc}", &log).as_deref(), Some("val loss=0.6 acc=0.9"));
        assert_eq!(nearest("f1 {f1}", &log), None);
        assert_eq!(nearest("val }} {loss}", &log).as_deref(), Some("val loss=0.6 acc=0.9"));
    }
}
