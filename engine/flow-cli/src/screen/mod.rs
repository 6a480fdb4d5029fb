//! The display of a run: one fold over its updates ([`View`]) with three forms. On a terminal it is
//! a live list, into a pipe one line per event, with `--json` the journal's own lines. Knows no
//! store and no processes.

mod estimate;
mod frame;
mod idle;
mod lines;
mod live;
mod step_progress;
mod summary;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;

use flow_core::{JournalLine, RunEvent};
use flow_exec::Update;
use flow_supervisor::clock;

use crate::output::{FAINT, Output, styled};
use crate::terminal::printed;
use crate::words;

pub(crate) use estimate::{left, share};
pub(crate) use lines::{came_to, event_line};
pub(crate) use summary::{FURTHER, Length, RunEndDetails, summary};
pub(crate) use view::{Attempt, InstanceState, InstanceView, View, each_result, is_failure};

/// The display of a run.
pub(crate) struct Screen<'a> {
    output: &'a mut Output,
    face: ScreenForm,
    /// The state so far.
    pub(crate) view: View,
    planned: bool,
    crowds: step_progress::StepProgress,
    still: idle::IdleNotice,
    /// Plugins whose set-up was announced.
    setting_up: BTreeSet<String>,
    /// Earlier events are applied and not printed: milliseconds since 1970.
    since: u64,
}

enum ScreenForm {
    Lines,
    Bars(Box<live::Bars>),
    Json,
}

impl<'a> Screen<'a> {
    /// The form that fits the output.
    pub(crate) fn new(output: &'a mut Output, json: bool) -> Self {
        let face = if json {
            ScreenForm::Json
        } else if output.is_terminal() && !output.quiet {
            ScreenForm::Bars(Box::new(live::Bars::new(output)))
        } else {
            ScreenForm::Lines
        };
        Screen {
            output,
            face,
            view: View::default(),
            planned: false,
            crowds: step_progress::StepProgress::default(),
            still: idle::IdleNotice::default(),
            setting_up: BTreeSet::new(),
            since: 0,
        }
    }

    /// The display of a run that began before; it prints only what happens from now on.
    pub(crate) fn from_now(output: &'a mut Output) -> Self {
        Screen { since: clock::unix_millis(), planned: true, ..Screen::new(output, false) }
    }

    /// Shows an update.
    pub(crate) fn update(&mut self, update: Update) -> io::Result<()> {
        // The status comes several times a second, events by the thousand.
        let draws = matches!(update, Update::Status(_));
        match update {
            Update::Event(line) => self.event(&line)?,
            Update::Progress { attempt, fraction, text } => self.view.progress(attempt, fraction, text),
            Update::Status(status) => self.view.status(*status),
            Update::Setup { kind, name, line } => self.setup_line(kind, &name, &line)?,
            Update::Doing(what) => self.note(what)?,
            Update::Held(holder) => self.held(&holder)?,
        }
        match &mut self.face {
            ScreenForm::Bars(live) if draws => {
                let text = live.draw(&self.view, clock::unix_millis(), self.output.size());
                self.output.raw(&text)?;
            }
            ScreenForm::Lines if draws && !self.output.quiet => {
                if let Some(words) = self.still.line(&self.view) {
                    self.plan()?;
                    self.output.sentence(&words, lines::FURTHER)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, line: &JournalLine) -> io::Result<()> {
        if let (ScreenForm::Bars(live), false) = (&mut self.face, self.setting_up.is_empty()) {
            live.setups.clear();
            self.setting_up.clear();
        }
        self.view.event(line);
        if matches!(self.face, ScreenForm::Json) {
            return self.output.json(line);
        }
        // The plan is complete when an event of another kind comes.
        let beginning = matches!(line.event, RunEvent::RunStarted(_) | RunEvent::Instance { .. });
        if !beginning {
            self.plan()?;
        }
        // Bars show running instances; only ends stay on a terminal.
        let shown = matches!(self.face, ScreenForm::Bars(_)) && matches!(line.event, RunEvent::Started { .. });
        let tells = self.crowds.shows(&self.view, line) && !shown || self.output.verbose;
        let whole = self.crowds.whole(&self.view, line).filter(|_| !self.output.verbose && !self.output.quiet);
        let tells = tells && (!self.output.quiet || lines::is_trouble(line));
        if line.at < self.since {
            return Ok(());
        }
        let own = if tells { event_line(&self.view, line) } else { None };
        if own.is_some() {
            self.crowds.note_shown(line.at);
        }
        own.into_iter().chain(whole).try_for_each(|words| self.say(&words))
    }

    /// The totals of the plan, once.
    fn plan(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.planned, true) {
            return Ok(());
        }
        lines::plan_line(&self.view).iter().try_for_each(|words| self.say(words))
    }

    fn setup_line(&mut self, kind: &str, plugin: &str, line: &str) -> io::Result<()> {
        let line = &*printed(line);
        let first = self.setting_up.insert(plugin.to_owned());
        if first && !matches!(self.face, ScreenForm::Json) {
            self.say(&format!("setting up {kind} {plugin}, once"))?;
        }
        match &mut self.face {
            ScreenForm::Json => self.output.note(format!("{plugin}: {line}")),
            ScreenForm::Bars(live) if !self.output.verbose => {
                live.setups.insert(plugin.to_owned(), line.to_owned());
                let text = live.draw(&self.view, clock::unix_millis(), self.output.size());
                self.output.raw(&text)
            }
            _ => self.say(&styled(FAINT, format_args!("  {plugin} | {line}"))),
        }
    }

    fn held(&mut self, holder: &str) -> io::Result<()> {
        if self.view.held.as_deref() == Some(holder) {
            return Ok(());
        }
        self.view.held = Some(holder.to_owned());
        self.note(format!("waiting: the store is in use by {holder}"))
    }

    /// A line that is not a result.
    fn note(&mut self, line: String) -> io::Result<()> {
        if matches!(self.face, ScreenForm::Bars(_)) { self.say(&line) } else { self.output.note(line) }
    }

    fn say(&mut self, sentence: &str) -> io::Result<()> {
        match &mut self.face {
            ScreenForm::Bars(live) => {
                let columns = self.output.size().0;
                let text = live.frame.above(&words::wrap(sentence, columns, lines::FURTHER), columns);
                self.output.raw(&text)
            }
            _ => self.output.sentence(sentence, lines::FURTHER),
        }
    }

    /// Removes the bars; the state stays.
    pub(crate) fn close(self) -> View {
        if let ScreenForm::Bars(mut live) = self.face {
            let text = live.frame.clear(self.output.size().0);
            // A terminal that has gone shows nothing.
            drop(self.output.raw(&text));
        }
        self.view
    }
}
