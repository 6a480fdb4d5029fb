//! What programs say, on its way from those who listen aside to the journal and the screen. Decides nothing.

use flow_core::{AttemptId, InstanceId, RunEvent};

use super::{
    Update,
    listener::{Listener, News},
    outbox::Outbox,
};

/// What a program has said since the last time, and who listened to it.
pub(super) struct Heard {
    pub(super) attempt: AttemptId,
    pub(super) listener: Listener,
    pub(super) news: News,
    /// When, seconds since 1970.
    pub(super) at: f64,
}

/// Listens to programs, which takes as long as they have written much.
pub(super) fn listen(listeners: Vec<(AttemptId, Listener)>, now: f64) -> Vec<Heard> {
    let hear = |(attempt, mut listener): (AttemptId, Listener)| {
        let news = listener.listen(now);
        Heard { attempt, listener, news, at: now }
    };
    listeners.into_iter().map(hear).collect()
}

/// What a program said, for journal and screen.
pub(super) fn tell(attempt: AttemptId, instance: InstanceId, news: News, listener: &Listener, out: &mut Outbox) {
    if let Some((fraction, text)) = news.progress {
        out.updates.push(Update::Progress { attempt, fraction, text });
    }
    for (epoch, metrics) in news.epochs {
        let units = listener.reported.units(metrics.keys());
        out.say(RunEvent::Epoch { attempt, epoch, metrics, units });
    }
    for text in news.notices {
        out.notice(Some(instance), text);
    }
}
