//! The words of a command, or of a script, that may be programs. Parses no shell: an argument may be among them.

use std::{
    fs::{self, Metadata},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// A larger file is no script.
pub(crate) const LONGEST_SCRIPT: u64 = 1 << 20;
/// The ends of names of shell scripts, which need not be executable. Other data is not read.
const SHELL_SCRIPTS: [&str; 9] = ["sh", "bash", "zsh", "ksh", "dash", "csh", "fish", "slurm", "sbatch"];

/// What `make` reads.
pub(crate) const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// Programs that read a file as commands whatever its name and mode are.
const READERS: [&str; 11] = ["sh", "bash", "zsh", "ksh", "dash", "csh", "fish", "source", ".", "make", "sbatch"];

/// True if a command has a program that may read any file as a script.
pub(crate) fn reads_scripts(line: &str) -> bool {
    words(line).any(|word| READERS.contains(&word.rsplit('/').next().unwrap_or(word)))
}

/// The text of a file that may be a script: an executable, one whose name says so, or, if the command `reads_scripts`,
/// one whose name says nothing.
pub(crate) fn script(file: &Path, reads_scripts: bool) -> Option<String> {
    let is_script = |meta: Metadata| {
        let extension = file.extension().map(|of| of.to_str().unwrap_or_default());
        let is_named = extension.map_or(reads_scripts, |of| SHELL_SCRIPTS.contains(&of));
        meta.is_file() && meta.len() <= LONGEST_SCRIPT && (is_named || meta.permissions().mode() & 0o111 != 0)
    };
    fs::metadata(file).is_ok_and(is_script).then(|| fs::read_to_string(file).ok()).flatten()
}

/// The part of a file that starts programs: of Python, the line that names its interpreter. A file in an input folder may
/// be data, so it counts only if it looks like a script.
pub(crate) fn commands<'t>(file: &Path, text: &'t str, is_input: bool) -> &'t str {
    let has = |extension: &str| file.extension().is_some_and(|of| of == extension);
    let is_interpreted = text.starts_with("#!");
    match () {
        () if has("py") && is_interpreted => text.lines().next().unwrap_or_default(),
        () if has("py") => "",
        () if is_input
            || is_interpreted
            || SHELL_SCRIPTS.iter().any(|shell| has(shell))
            || file.ends_with("Makefile") =>
        {
            text
        }
        () => "",
    }
}

/// The words of a command that may be programs.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "_./+-".contains(c);
    let words = line.split(move |c: char| !is_part(c));
    words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || "/._".contains(c)))
}
