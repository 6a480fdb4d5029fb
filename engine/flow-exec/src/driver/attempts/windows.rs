//! The measurement windows of co-run groups: from the release of the barrier to the first end. Decides nothing.

use std::collections::BTreeMap;

use flow_core::{AttemptId, CorunMember, CorunWindow, GroupId, Outcome, reason::ClosedBy};

/// Seconds since 1970.
#[derive(Default)]
struct Window {
    released: Option<f64>,
    closed: Option<f64>,
    /// The member that closed it.
    closer: Option<AttemptId>,
    closed_by: Option<ClosedBy>,
}

#[derive(Default)]
pub(crate) struct CorunWindows(BTreeMap<GroupId, Window>);

impl CorunWindows {
    /// The members of a group are about to start, for the first time or again.
    pub(crate) fn begin(&mut self, group: GroupId) {
        self.0.insert(group, Window::default());
    }

    pub(crate) fn released(&mut self, group: GroupId, at: f64) {
        self.0.entry(group).or_default().released = Some(at);
    }

    /// Closes the window, unless it is closed already.
    pub(crate) fn close(&mut self, group: GroupId, at: f64, closer: Option<AttemptId>) {
        if let Some(window) = self.0.get_mut(&group)
            && window.released.is_some()
            && window.closed.is_none()
        {
            (window.closed, window.closer) = (Some(at), closer);
        }
    }

    /// When a group's window closed, seconds since 1970.
    pub(crate) fn closed(&self, group: GroupId) -> Option<f64> {
        self.0.get(&group)?.closed
    }

    /// The window as seen by a member that started at this time, in a group with this many members.
    pub(crate) fn of(&self, corun: &CorunMember, members: usize, started_at: f64) -> Option<CorunWindow> {
        let window = self.0.get(&corun.group)?;
        Some(CorunWindow {
            group: corun.name.to_string(),
            gpus: corun.gpus,
            members: members as u32,
            released_at: window.released? - started_at,
            closed_at: window.closed? - started_at,
            epochs: 0,
            closed_by: None,
            interference: None,
        })
    }

    /// A member did not end well: if it closed the window, notes it as the reason.
    pub(crate) fn attribute(&mut self, group: GroupId, attempt: AttemptId, label: &str, outcome: Outcome) {
        if let Some(window) = self.0.get_mut(&group).filter(|window| window.closer == Some(attempt)) {
            window.closed_by = Some(ClosedBy { label: label.to_owned(), outcome });
        }
    }

    /// The reason why it closed, unless it was the normal end of the first member.
    pub(crate) fn closed_by(&self, group: GroupId) -> Option<ClosedBy> {
        self.0.get(&group)?.closed_by.clone()
    }
}
