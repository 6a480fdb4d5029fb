//! Mistakes in a workflow and their places. Does not know how they are printed.

use std::{fmt, ops::Range, sync::Arc};

use crate::{Source, reason::Lack};

/// One mistake in a workflow file or on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The mistake, in a sentence without a full stop.
    pub message: String,
    /// Its place, in bytes of the file's text; absent if it is not in the file, such as `--set`.
    pub span: Option<Range<usize>>,
    /// The included file that it is in; absent for the workflow's own file.
    pub source: Option<Arc<Source>>,
    /// What was expected at that place; empty if the message says it all.
    pub label: String,
    /// What this machine lacks, if that is the mistake. The catalogues of reports have words for it.
    pub lack: Option<Box<Lack>>,
    /// Advice, the nearest name first.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A diagnostic without a place.
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Diagnostic { message, span: None, source: None, label: String::new(), lack: None, help: Vec::new() }
    }

    /// Adds what was expected.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds the nearest of the valid names, or all of them if none is near and they are few.
    #[must_use]
    pub fn nearest<'a>(mut self, wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        match nearest(wrong, names.iter().copied()) {
            Some(near) => self.help.push(format!("did you mean `{near}`?")),
            None if names.is_empty() => {}
            None => {
                // Leaving out only one or two would help nobody.
                const FEW: usize = 20;
                const SHOWN: usize = 12;
                let shown = if names.len() > FEW { SHOWN } else { names.len() };
                let list: Vec<String> = names.iter().take(shown).map(|n| format!("`{n}`")).collect();
                let more =
                    if names.len() > shown { format!(" and {} more", names.len() - shown) } else { String::new() };
                let verb = if names.len() == 1 { "is" } else { "are" };
                self.help.push(format!("there {verb} {}{more}", list.join(", ")));
            }
        }
        self
    }

    /// The line and column of its start, both counted from 1, the column in characters.
    pub fn line_column(&self, text: &str) -> Option<(usize, usize)> {
        let at = self.span.as_ref()?.start.min(text.len());
        let before = text.get(..at)?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Some((line, column))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.label.is_empty() {
            write!(f, ": {}", self.label)?;
        }
        if let Some(lack) = &self.lack {
            write!(f, ": {lack:?}")?;
        }
        for help in &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

/// Number of edits between two texts; a swap of neighbours is one edit.
pub fn edits(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(one, other)
}

/// The name that was probably meant: near by edits, or equal except for case. Never the wrong name itself.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = wrong.to_lowercase();
    // Every name of one or two letters is near any other.
    let far = (wrong.chars().count() / 3).min(3);
    let length = folded.chars().count();
    names
        .into_iter()
        // Each edit changes the length by at most one.
        .filter(|name| *name != wrong && name.chars().count().abs_diff(length) <= far)
        .map(|name| (edits(&folded, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= far)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["needs", "matrix", "when"];
        assert_eq!(nearest("neds", names), Some("needs"));
        assert_eq!(nearest("martix", names), Some("matrix"));
        assert_eq!(nearest("WHEN", names), Some("when"));
        assert_eq!(nearest("gpus", names), None);
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("needs", names), None, "it is no hint to say the same again");
        assert_eq!(nearest("needs", ["needs", "need"]), Some("need"));
    }

    #[test]
    fn columns_count_characters() {
        let text = "a: 1\n批大小: x\n";
        let mut d = Diagnostic::new("wrong");
        d.span = text.find('x').map(|i| i..i + 1);
        assert_eq!(d.line_column(text), Some((2, 6)));
    }
}
