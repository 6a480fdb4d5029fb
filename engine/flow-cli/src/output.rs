//! Where words go: results to standard output, everything else to standard error. The only file that prints: nothing gets out
//! that is not safe for a terminal, but what a program printed, into a pipe. Knows no command.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Read, Write};

use anstream::{AutoStream, ColorChoice};

use crate::args::{Color, Global};
use crate::{terminal, words};

pub(crate) use crate::terminal::{BAD, FAINT, GOOD, NOTE, STRONG, styled};

/// Both streams, with colours where they belong.
pub(crate) struct Output {
    out: AutoStream<io::Stdout>,
    err: AutoStream<io::Stderr>,
    /// Of `-q`: only what went wrong is said.
    pub(crate) quiet: bool,
    /// Of `-v`: every instance has its line.
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

    /// Before the arguments are known.
    pub(crate) fn plain() -> Self {
        let (out, err) = (AutoStream::auto(io::stdout()), AutoStream::auto(io::stderr()));
        Output { out, err, quiet: false, verbose: false, color: Color::Auto }
    }

    /// Standard output is a terminal: live lists make sense there.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.as_inner().is_terminal() && self.err.as_inner().is_terminal()
    }

    /// Columns of the terminal that standard output is.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = terminal_size::terminal_size_of(self.out.as_inner());
        size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0)
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
        writeln!(self.out, "{}", terminal::painted(line.as_ref()))
    }

    /// A sentence of the result: on a terminal too narrow for it its further lines begin in this column.
    pub(crate) fn sentence(&mut self, line: &str, further: usize) -> io::Result<()> {
        match self.columns() {
            Some(columns) => words::wrap(line, columns, further).iter().try_for_each(|line| self.line(line)),
            None => self.line(line),
        }
    }

    /// Lines of the result that are flow's own: a report, a schema.
    pub(crate) fn text(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        text.as_ref().split('\n').try_for_each(|line| self.line(line.trim_end_matches('\r')))
    }

    /// What another flow said, colours and all.
    pub(crate) fn said(&mut self, text: &str, well: bool) -> io::Result<()> {
        let text = terminal::coloured(text);
        if well { writeln!(self.out, "{text}") } else { writeln!(self.err, "{text}") }
    }

    /// A value as one line of JSON, in which control characters that JSON leaves are written out too.
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

    /// What a program printed, behind some words of ours: as it is into a pipe or a file, safe on a terminal.
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

    /// Everything that was printed is on its way.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Lines about what went wrong.
    pub(crate) fn error(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.err, "{}", terminal::message(text.as_ref()))
    }

    /// What is wrong with the arguments, in the words of the library that reads them, which begin lines at the margin.
    pub(crate) fn usage(&mut self, text: &str) -> io::Result<()> {
        text.split('\n').try_for_each(|line| writeln!(self.err, "{}", terminal::painted(line)))
    }

    /// A line that is no result; dropped with `-q`.
    pub(crate) fn note(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        if self.quiet { Ok(()) } else { writeln!(self.err, "{}", terminal::painted(line.as_ref())) }
    }
}

/// A panic is a fault of flow's, and may quote what others wrote. One that is caught is said in words of who catches it.
pub(crate) fn say_panics() {
    std::panic::set_hook(Box::new(|info| {
        if flow_core::is_guarded() {
            return;
        }
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        // Where nothing can be said, nothing is.
        let _ = writeln!(
            io::stderr(),
            "{}",
            terminal::message(&format!("flow panicked, which it never should: {info}{trace}"))
        );
    }));
}
