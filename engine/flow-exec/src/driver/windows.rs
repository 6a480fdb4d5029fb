//! The windows in which members of co-run groups are measured: from the release of the barrier to the first end. Decides nothing.

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
pub(super) struct CorunWindows(BTreeMap<GroupId, Window>);

impl CorunWindows {
    /// The members of a group are to start, for the first time or anew.
    pub(super) fn begin(&mut self, group: GroupId) {
        self.0.insert(group, Window::default());
    }

    pub(super) fn released(&mut self, group: GroupId, at: f64) {
        self.0.entry(group).or_default().released = Some(at);
    }

    /// It ends, unless it has ended before.
    pub(super) fn close(&mut self, group: GroupId, at: f64, closer: Option<AttemptId>) {
        if let Some(window) = self.0.get_mut(&group)
            && window.released.is_some()
            && window.closed.is_none()
        {
            (window.closed, window.closer) = (Some(at), closer);
        }
    }

    /// When that of a group was closed, seconds since 1970.
    pub(super) fn closed(&self, group: GroupId) -> Option<f64> {
        self.0.get(&group)?.closed
    }

    /// As a member of so many has it that started then.
    pub(super) fn of(&self, corun: &CorunMember, members: usize, started_at: f64) -> Option<CorunWindow> {
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

    /// A member did not end well: if it closed the window, that is what did.
    pub(super) fn blame(&mut self, group: GroupId, attempt: AttemptId, label: &str, outcome: Outcome) {
        if let Some(window) = self.0.get_mut(&group).filter(|window| window.closer == Some(attempt)) {
            window.closed_by = Some(ClosedBy { label: label.to_owned(), outcome });
        }
    }

    /// What closed it, where that was not the first member's ordinary end.
    pub(super) fn closed_by(&self, group: GroupId) -> Option<ClosedBy> {
        self.0.get(&group)?.closed_by.clone()
    }
}
