//! Whose programs are to be listened to, so that a turn of the loop does not go through all of a sweep of ten thousand jobs. Decides
//! nothing.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use flow_core::{AttemptId, Span};

/// How often programs are listened to, and those that run on a node: its file system is not this machine's.
pub(super) const LISTEN: Span = Span::from_millis(50);
pub(super) const LISTEN_AFAR: Span = Span::from_millis(500);

/// The attempts of a run, by what there is to do for them.
#[derive(Default)]
pub(super) struct PollSchedule {
    /// Whose programs run as children of this run.
    here: BTreeSet<AttemptId>,
    /// Those that have begun elsewhere, by when they are listened to, microseconds since 1970. One that has ended is found to have.
    afar: BinaryHeap<Reverse<(u64, AttemptId)>>,
}

impl PollSchedule {
    pub(super) fn runs_here(&mut self, attempt: AttemptId) {
        self.here.insert(attempt);
    }

    /// Its program has ended.
    pub(super) fn ended(&mut self, attempt: AttemptId) {
        self.here.remove(&attempt);
    }

    pub(super) fn here(&self) -> &BTreeSet<AttemptId> {
        &self.here
    }

    /// It has begun elsewhere: there is something to hear from then on.
    pub(super) fn began_afar(&mut self, attempt: AttemptId, now: f64) {
        self.afar.push(Reverse((micros(now), attempt)));
    }

    /// Who is to be listened to now; of those elsewhere, who is `there` still.
    pub(super) fn hear_now(&mut self, now: f64, there: impl Fn(AttemptId) -> bool) -> Vec<AttemptId> {
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
        let mut hear = |now| due.hear_now(now, |attempt| attempt != ended);
        assert_eq!(hear(10.0), [here, afar]);
        assert_eq!(hear(10.4), [here]);
        assert_eq!(hear(10.5), [here, afar]);
        due.ended(here);
        assert_eq!(due.hear_now(20.0, |_| true), [afar]);
        assert_eq!(due.afar.len(), 1);
    }
}
