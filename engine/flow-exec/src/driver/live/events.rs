//! Applies what happened to the state of the loop: events of the executor, ended jobs, interrupts.

use flow_core::{RunEvent, Span, sched::Event};
use flow_runs::EndRequest;

use super::{EventLoop, GRACE, LAST, background::JobAnswer};
use crate::{
    ExecError,
    driver::executor::{self, Executor},
};

impl<X: Executor> EventLoop<'_, X> {
    pub(super) fn on_event(&mut self, event: executor::Event) {
        if matches!(event, executor::Event::Ended { .. }) {
            self.watch(true);
        }
        let (attempts, outcomes, out) = (&mut self.attempts, &mut self.outcomes, &mut self.out);
        match event {
            executor::Event::Started { attempt, node } => attempts.on_started(attempt, node, out),
            executor::Event::SpawnFailed { attempt, reason } => {
                attempts.on_spawn_failed(attempt, reason, outcomes, out);
            }
            executor::Event::Waits { attempt, queued } => attempts.waits(attempt, queued),
            executor::Event::Notice(text) => out.notice(None, text),
            executor::Event::Ended { attempt, end } => {
                attempts.closes(attempt, &end, &mut self.gpus, out);
                if end.exit.code != Some(0) {
                    self.gpus.doubt(attempt, &attempts.gpus_of(attempt));
                }
                self.ended.push((attempt, end));
            }
        }
    }

    /// Starts to collect ended attempts.
    pub(super) fn see_to_ends(&mut self) {
        if self.background.is_listening() {
            return;
        }
        for (attempt, end) in std::mem::take(&mut self.ended) {
            if !self.gpus.is_sure(attempt) {
                self.ended.push((attempt, end));
                continue;
            }
            let (outcomes, gpus, out) = (&self.outcomes, &mut self.gpus, &mut self.out);
            if let Some(ended) = self.attempts.on_exited(attempt, *end, outcomes, gpus, out) {
                self.report_gpus();
                self.background.note_and_collect(ended);
            }
        }
    }

    pub(super) fn on_done(&mut self, done: JobAnswer) -> Result<(), ExecError> {
        let given_up = self.context.activity.is_ended();
        match done {
            // The scheduler does not wait for it any more.
            JobAnswer::LookedUp(_) | JobAnswer::Deferred(_) | JobAnswer::NotClaimed(_) if given_up => {}
            JobAnswer::LookedUp(mut answers) => {
                self.deferred.wait_for(std::mem::take(&mut answers.deferred), &mut self.out);
                self.outcomes.looked_up(answers, &mut self.recorder, &mut self.out)?;
            }
            JobAnswer::Filled(filled) => {
                let (outcomes, history) = (&mut self.outcomes, &self.history);
                let builtins = self.attempts.start(filled, outcomes, &mut self.gpus, history, &mut self.out)?;
                builtins.into_iter().for_each(|builtin| self.background.run_builtin(builtin));
            }
            JobAnswer::Deferred(attempts) => {
                let instances = attempts.iter().filter_map(|attempt| self.attempts.take_back(*attempt));
                instances.for_each(|instance| self.deferred.taken_back(instance));
                // The first attempt represents its gang.
                self.out.events.extend(attempts.first().map(|&attempt| Event::Deferred { attempt }));
            }
            JobAnswer::NotClaimed(error) => return Err(error.into()),
            JobAnswer::Noted(_) if given_up => {}
            JobAnswer::Noted(all) => all.into_iter().for_each(|ended| self.background.collect(ended)),
            JobAnswer::Collected(collected) => {
                // The scheduler decides what happens to it next.
                let (attempt, ending) = (collected.attempt, self.scheduler.is_ending());
                if let Some((result, continues)) =
                    self.attempts.collected(*collected, ending, &mut self.history, &mut self.out)
                {
                    self.outcomes.ended(attempt, result, continues);
                }
            }
            JobAnswer::Output(output) => self.attempts.apply_output(output, &mut self.out),
            JobAnswer::Learned(of, refits) => {
                refits.into_iter().for_each(|refit| self.history.apply(refit));
                self.out.events.extend(self.history.update(of, self.outcomes.want_gpus()));
            }
            JobAnswer::Unjoined(text) => text.into_iter().for_each(|text| self.out.notice(None, text)),
            JobAnswer::Earlier(to_record, earlier) => self.record(to_record, earlier?)?,
        }
        Ok(())
    }

    /// The first Ctrl-C or `flow cancel`: no new starts, and running steps get the grace period. The second one kills
    /// them.
    pub(super) fn interrupt(&mut self, end: EndRequest) {
        let again = std::mem::replace(&mut self.interrupted, true);
        let grace = if again || end == EndRequest::Now { Span(0) } else { GRACE };
        self.attempts.executor.hurry();
        if !again && self.context.orphans.has_jobs() {
            self.background.end_jobs(None);
        }
        self.out.report(RunEvent::Interrupted { grace: Some(grace).filter(|grace| grace.0 > 0), again });
        self.out.push(Event::Cancel { grace });
        let up = self.clock.now() + grace + LAST;
        self.gives_up_at = Some(self.gives_up_at.map_or(up, |at| at.min(up)));
    }
}
