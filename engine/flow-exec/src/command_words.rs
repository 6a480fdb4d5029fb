//! The words of a command, or of a script, that may be programs. Parses no shell: an argument may be among them.

use std::path::Path;

/// What `make` reads.
pub(crate) const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// The part of a file that starts programs: of Python, the line that names its interpreter. A file in an input folder may
/// be data, so it counts only if it looks like a script.
pub(crate) fn commands<'t>(file: &Path, text: &'t str, is_input: bool) -> &'t str {
    let has = |extension: &str| file.extension().is_some_and(|of| of == extension);
    let is_interpreted = text.starts_with("#!");
    match () {
        () if has("py") && is_interpreted => text.lines().next().unwrap_or_default(),
        () if has("py") => "",
        () if is_input || is_interpreted || has("sh") || file.ends_with("Makefile") => text,
        () => "",
    }
}

/// The words of a command that may be programs.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "_./+-".contains(c);
    let words = line.split(move |c: char| !is_part(c));
    words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || "/._".contains(c)))
}
