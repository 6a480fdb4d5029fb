//! The reports of a run's parts: lines for the journal, events for the scheduler, progress for the screen. Collects
//! them in order; the loop sends them on.

use std::collections::VecDeque;

use flow_core::{JournalLine, RunEvent, sched::Event};
use flow_supervisor::{clock, secrets::Secrets};

use super::Update;

pub(crate) struct Outbox {
    secrets: Secrets,
    /// For the journal, which comes before the screen.
    pub(crate) lines: Vec<JournalLine>,
    pub(crate) events: VecDeque<Event>,
    /// For the screen alone.
    pub(crate) updates: Vec<Update>,
}

impl Outbox {
    pub(crate) fn new(secrets: Secrets) -> Outbox {
        Outbox { secrets, lines: Vec::new(), events: VecDeque::new(), updates: Vec::new() }
    }

    /// Reports an event, on the screen and in the journal.
    pub(crate) fn report(&mut self, mut event: RunEvent) {
        self.secrets.hide_in(&mut event);
        self.lines.push(JournalLine { at: clock::unix_millis(), event });
    }

    pub(crate) fn notice(&mut self, instance: Option<flow_core::InstanceId>, text: String) {
        self.report(RunEvent::Notice { instance, text });
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }
}
