//! All printing: results to standard output, everything else to standard error. Everything is made
//! safe for a terminal, except a program's own output into a pipe.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Read, Write};

use anstream::{AutoStream, ColorChoice};

use crate::args::{Color, Global};
use crate::{terminal, words};

pub(crate) use crate::terminal::{BAD, FAINT, GOOD, NOTE, STRONG, noted, styled};

/// Both streams, with colours where they belong.
pub(crate) struct Output {
    out: AutoStream<io::Stdout>,
    err: AutoStream<io::Stderr>,
    /// `-q`: only failures are printed.
    pub(crate) quiet: bool,
    /// `-v`: every instance has its line.
    pub(crate) verbose: bool,
}

impl Output {
    /// As the arguments ask.
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
        }
    }

    /// Before the arguments are known.
    pub(crate) fn plain() -> Self {
        let (out, err) = (AutoStream::auto(io::stdout()), AutoStream::auto(io::stderr()));
        Output { out, err, quiet: false, verbose: false }
    }

    /// Whether standard output is a terminal, so that live lists make sense.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.as_inner().is_terminal() && self.err.as_inner().is_terminal()
    }

    /// Width in columns of the terminal of standard output.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = terminal_size::terminal_size_of(self.out.as_inner());
        size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0)
    }

    /// Columns and lines of the terminal; as many as most have if they are unknown.
    pub(crate) fn size(&self) -> (usize, usize) {
        let size = terminal_size::terminal_size_of(self.out.as_inner());
        let (columns, lines) = size.map_or((0, 0), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        (if columns < 2 { 80 } else { columns }, if lines == 0 { 24 } else { lines })
    }

    /// How standard output shows a line with marked styles.
    pub(crate) fn paint(&self) -> fn(&str) -> String {
        match self.out.current_choice() {
            ColorChoice::Never => |line| terminal::plain(&terminal::shown(line)),
            _ => terminal::painted,
        }
    }

    /// A text for the terminal that moves its cursor, in one write.
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<()> {
        let mut out = self.out.as_inner();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Whether standard error has colours.
    pub(crate) fn color_on_err(&self) -> bool {
        self.err.current_choice() != ColorChoice::Never
    }

    /// A line of the result.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", terminal::painted(line.as_ref()))
    }

    /// Lines of the result.
    pub(crate) fn lines(&mut self, lines: impl IntoIterator<Item = impl AsRef<str>>) -> io::Result<()> {
        lines.into_iter().try_for_each(|line| self.line(line))
    }

    /// A sentence of the result. On a narrow terminal it wraps, with further lines indented to this
    /// column.
    pub(crate) fn sentence(&mut self, line: &str, further: usize) -> io::Result<()> {
        match self.columns() {
            Some(columns) => self.lines(words::wrap(line, columns, further)),
            None => self.line(line),
        }
    }

    /// Sentences of the result.
    pub(crate) fn sentences(&mut self, lines: impl IntoIterator<Item = String>, further: usize) -> io::Result<()> {
        lines.into_iter().try_for_each(|line| self.sentence(&line, further))
    }

    /// Lines of the result that flow itself wrote: a report, a schema.
    pub(crate) fn text(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.lines(text.as_ref().split('\n').map(|line| line.trim_end_matches('\r')))
    }

    /// Output of another flow process, with its colours.
    pub(crate) fn forward(&mut self, text: &str, well: bool) -> io::Result<()> {
        let text = terminal::coloured(text);
        if well { writeln!(self.out, "{text}") } else { writeln!(self.err, "{text}") }
    }

    /// A value as one line of JSON. Control characters that JSON allows are escaped too.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let line = serde_json::to_string(value)?;
        let mut out = String::with_capacity(line.len());
        for c in line.chars() {
            match flow_core::is_hidden(c) {
                true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
                false => out.push(c),
            }
        }
        writeln!(self.out, "{out}")
    }

    /// A program's output after a prefix: unchanged into a pipe or a file, made safe on a terminal.
    pub(crate) fn program(&mut self, begin: &str, from: &mut dyn Read) -> io::Result<()> {
        write!(self.out, "{}", terminal::painted(begin))?;
        if !self.out.as_inner().is_terminal() {
            return io::copy(from, &mut self.out.as_inner()).map(drop);
        }
        let (mut program, mut buffer) = (flow_core::Program::with_colours(), [0; 1 << 16]);
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return write!(self.out, "{}", program.end()),
                Ok(n) => write!(self.out, "{}", program.text(&buffer[..n]))?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Flushes everything.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Lines about an error.
    pub(crate) fn error(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.err, "{}", terminal::message(text.as_ref()))
    }

    /// A mistake in the arguments as clap words it; clap's own lines start at the margin.
    pub(crate) fn usage(&mut self, text: &str) -> io::Result<()> {
        text.split('\n').try_for_each(|line| writeln!(self.err, "{}", terminal::painted(line)))
    }

    /// A line that is not a result; dropped with `-q`.
    pub(crate) fn note(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        if self.quiet { Ok(()) } else { writeln!(self.err, "{}", terminal::painted(line.as_ref())) }
    }
}

/// Writes a line to standard error from a thread that has no [`Output`].
pub(crate) fn progress(line: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal::painted(line));
}

/// A panic is a bug in flow, and its message may quote foreign text. A caught panic is reported by
/// its catcher.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        if flow_core::is_guarded() {
            return;
        }
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        // If standard error is closed, nothing is printed.
        let _ = writeln!(
            io::stderr(),
            "{}",
            terminal::message(&format!("flow panicked, which it never should: {info}{trace}"))
        );
    }));
}
