//! A file of the language as it was read: its text, and its name in messages.

/// The text of a workflow, or of an included file, and its name in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file as the user named it, for messages.
    pub path: String,
    pub text: String,
}

impl Source {
    /// The text without a byte order mark, and the mark's length in bytes.
    pub(crate) fn body(&self) -> (&str, usize) {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        (text, self.text.len() - text.len())
    }
}
