//! Where words go: results to standard output, everything else to standard error. Knows colours, not what they are for.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use crate::args::{Color, Global};

/// Bold.
pub(crate) const STRONG: Style = Style::new().bold();
/// For what went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For what did not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// For what is worth a look.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// For what matters less.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Both streams, with colours where they belong.
pub(crate) struct Output {
    /// Results.
    pub(crate) out: AutoStream<io::Stdout>,
    /// Everything else.
    pub(crate) err: AutoStream<io::Stderr>,
    /// `-q`.
    pub(crate) quiet: bool,
    /// `-v`.
    pub(crate) verbose: bool,
    color: Color,
}

impl Output {
    /// As the arguments say.
    pub(crate) fn new(global: &Global) -> Self {
        let choice = match global.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        Output {
            out: AutoStream::new(io::stdout(), choice),
            err: AutoStream::new(io::stderr(), choice),
            quiet: global.quiet,
            verbose: global.verbose,
            color: global.color,
        }
    }

    /// Standard output is a terminal: live lists make sense there.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.as_inner().is_terminal() && self.err.as_inner().is_terminal()
    }

    /// Colours are wanted on standard error.
    pub(crate) fn color_on_err(&self) -> bool {
        match self.color {
            Color::Auto => self.err.current_choice() != ColorChoice::Never,
            Color::Always => true,
            Color::Never => false,
        }
    }

    /// A line of the result.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", line.as_ref())
    }

    /// A value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let line = serde_json::to_string(value)?;
        writeln!(self.out, "{line}")
    }

    /// A line about what went wrong.
    pub(crate) fn error(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.err, "{}", line.as_ref())
    }

    /// A line that is no result; dropped with `-q`.
    pub(crate) fn note(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        if self.quiet { Ok(()) } else { writeln!(self.err, "{}", line.as_ref()) }
    }
}

/// A word in a style.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}
