//! Passes the output of programs from the background listeners to journal and screen. Decides nothing.

use flow_core::{AttemptId, InstanceId, RunEvent};

use crate::driver::{
    results::listener::{Changes, Listener},
    updates::{Update, outbox::Outbox},
};

/// New output of a program, and its listener.
pub(crate) struct AttemptOutput {
    pub(crate) attempt: AttemptId,
    pub(crate) listener: Listener,
    pub(crate) output: Changes,
}

/// Reads new output of programs. Slow if they have written much.
pub(crate) fn listen(listeners: Vec<(AttemptId, Listener)>, now: f64) -> Vec<AttemptOutput> {
    let hear = |(attempt, mut listener): (AttemptId, Listener)| {
        let changes = listener.listen(now);
        AttemptOutput { attempt, listener, output: changes }
    };
    listeners.into_iter().map(hear).collect()
}

/// Passes the output to journal and screen.
pub(crate) fn forward(
    attempt: AttemptId,
    instance: InstanceId,
    changes: Changes,
    listener: &Listener,
    out: &mut Outbox,
) {
    if let Some((fraction, text)) = changes.progress {
        out.updates.push(Update::Progress { attempt, fraction, text });
    }
    for (epoch, metrics) in changes.epochs {
        let units = listener.reported.units(metrics.keys());
        out.report(RunEvent::Epoch { attempt, epoch, metrics, units });
    }
    for text in changes.notices {
        out.notice(Some(instance), text);
    }
}
