//! Selects the programs to listen to, so that a turn of the loop does not visit all jobs of a sweep of ten thousand.
//! Decides nothing.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use flow_core::{AttemptId, Span};

/// Interval between looks at programs here, and at those on a node, which use another file system.
pub(crate) const LISTEN: Span = Span::from_millis(50);
pub(crate) const LISTEN_AFAR: Span = Span::from_millis(500);

/// The attempts of a run, by where they are polled.
#[derive(Default)]
pub(crate) struct PollSchedule {
    /// Attempts whose programs are children of this run.
    here: BTreeSet<AttemptId>,
    /// Attempts running elsewhere, by their next look in microseconds since 1970. Ended ones are dropped at that look.
    afar: BinaryHeap<Reverse<(u64, AttemptId)>>,
}

impl PollSchedule {
    pub(crate) fn runs_here(&mut self, attempt: AttemptId) {
        self.here.insert(attempt);
    }

    /// Its program has ended.
    pub(crate) fn ended(&mut self, attempt: AttemptId) {
        self.here.remove(&attempt);
    }

    pub(crate) fn here(&self) -> &BTreeSet<AttemptId> {
        &self.here
    }

    /// It has started elsewhere: it may print from now on.
    pub(crate) fn began_afar(&mut self, attempt: AttemptId, now: f64) {
        self.afar.push(Reverse((micros(now), attempt)));
    }

    /// The attempts to listen to now. `there` tells whether one elsewhere still runs.
    pub(crate) fn due(&mut self, now: f64, there: impl Fn(AttemptId) -> bool) -> Vec<AttemptId> {
        let now = micros(now);
        let mut due: Vec<AttemptId> = self.here.iter().copied().collect();
        let ours = due.len();
        while let Some(&Reverse((_, attempt))) = self.afar.peek().filter(|Reverse((at, _))| *at <= now) {
            self.afar.pop();
            due.extend(there(attempt).then_some(attempt));
        }
        self.afar.extend(due[ours..].iter().map(|attempt| Reverse((now + LISTEN_AFAR.0, *attempt))));
        due
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_elsewhere_is_listened_to_less_often_and_only_while_it_runs() {
        let mut due = PollSchedule::default();
        let [here, afar, ended] = [AttemptId(3), AttemptId(1), AttemptId(2)];
        due.runs_here(here);
        due.began_afar(afar, 10.0);
        due.began_afar(ended, 10.0);
        let mut hear = |now| due.due(now, |attempt| attempt != ended);
        assert_eq!(hear(10.0), [here, afar]);
        assert_eq!(hear(10.4), [here]);
        assert_eq!(hear(10.5), [here, afar]);
        due.ended(here);
        assert_eq!(due.due(20.0, |_| true), [afar]);
        assert_eq!(due.afar.len(), 1);
    }
}
