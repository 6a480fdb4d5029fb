//! A file of the language as it was read: its text, and what people call it.

/// The text of a workflow, or of a file that it includes, and the name it has for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file as the user named it, for messages.
    pub path: String,
    pub text: String,
}

impl Source {
    /// What is read of it, and how many bytes stand before that: a byte order mark.
    pub(crate) fn body(&self) -> (&str, usize) {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        (text, self.text.len() - text.len())
    }
}
