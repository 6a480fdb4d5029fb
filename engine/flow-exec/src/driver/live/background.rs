//! Background jobs of a run, on other threads, which answer with events. So the loop waits for no file
//! that may be large. Decides nothing.

use std::{collections::VecDeque, sync::Arc};

use flow_core::{AttemptId, Digest, InstanceId, StepResult, learn::Refit, reason::ClosedBy};
use flow_runs::StoreError;
use flow_supervisor::{clock, intents::Intent};
use tokio::task::{JoinError, JoinSet};

use crate::{
    ExecError,
    driver::{
        attempts::{
            collect::{self, Collect, CollectedAttempt},
            output::{self, AttemptOutput},
        },
        begin::{
            context::RunContext,
            fill::{self, Fill, FilledAttempt},
        },
        decide::decisions::{self, LookedUp},
        executor::composite,
        results::listener::Listener,
    },
};

/// How many jobs may copy files at the same time. They wait for disks as often as for a core, so there may be more of
/// them than cores, but not so many that they slow each other down.
const SLOW_JOBS: usize = 16;
/// Threads for all jobs.
pub(crate) const THREADS: usize = SLOW_JOBS + 8;

type SlowJob = Box<dyn FnOnce(&RunContext) -> JobAnswer + Send>;

/// The answer of a job.
pub(crate) enum JobAnswer {
    LookedUp(LookedUp),
    Filled(Vec<FilledAttempt>),
    /// These attempts do not start, because another run executes the same steps.
    Deferred(Vec<AttemptId>),
    NotClaimed(StoreError),
    /// Their ends are written down for the next run.
    Noted(Vec<Collect>),
    Collected(Box<CollectedAttempt>),
    Output(Vec<AttemptOutput>),
    /// Estimates for the step of an instance were fitted again.
    Learned(InstanceId, Vec<Refit>),
    /// Jobs of earlier runs were told to end. Holds a notice for the user.
    Unjoined(Option<String>),
    /// The earlier result, if any, that stays in place of a disturbed one.
    Earlier(ToRecord, Result<Option<Box<StepResult>>, StoreError>),
}

/// The last attempt of its instance, and the reason if its group's window closed early.
pub(crate) struct ToRecord {
    pub(crate) instance: InstanceId,
    pub(crate) attempt: AttemptId,
    pub(crate) closed_by: Option<ClosedBy>,
}

/// The background jobs of a run.
pub(crate) struct BackgroundJobs {
    context: Arc<RunContext>,
    jobs: JoinSet<JobAnswer>,
    /// Gangs to look up in the next job. Lookups run one at a time because they share the disk.
    to_look_up: Vec<Vec<InstanceId>>,
    looking_up: bool,
    listening: bool,
    /// Ended attempts for the next job that writes down ends. One at a time, because a group has one record.
    to_note: Vec<Collect>,
    noting: bool,
    /// Jobs that copy files and may take minutes. The others do not wait for them.
    slow: usize,
    waiting: VecDeque<SlowJob>,
    /// Number of jobs that are ending Slurm jobs of earlier runs.
    ending: u32,
}

impl BackgroundJobs {
    pub(crate) fn new(context: Arc<RunContext>) -> BackgroundJobs {
        BackgroundJobs {
            context,
            jobs: JoinSet::new(),
            to_look_up: Vec::new(),
            looking_up: false,
            listening: false,
            to_note: Vec::new(),
            noting: false,
            slow: 0,
            waiting: VecDeque::new(),
            ending: 0,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// True while a job reads what programs print.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening
    }

    /// The next answer. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// A job ended without one.
    pub(crate) async fn next(&mut self) -> Result<JobAnswer, ExecError> {
        match self.jobs.join_next().await {
            Some(done) => self.answered(done),
            None => std::future::pending().await,
        }
    }

    /// The next answer, if one is available without waiting.
    ///
    /// # Errors
    /// As [`BackgroundJobs::next`].
    pub(crate) fn next_now(&mut self) -> Option<Result<JobAnswer, ExecError>> {
        let done = self.jobs.try_join_next()?;
        Some(self.answered(done))
    }

    fn answered(&mut self, done: Result<JobAnswer, JoinError>) -> Result<JobAnswer, ExecError> {
        let done = done.map_err(|e| ExecError::Fault(format!("a job ended without an answer: {e}")))?;
        match &done {
            JobAnswer::LookedUp(_) => self.looking_up = false,
            JobAnswer::Output(_) => self.listening = false,
            JobAnswer::Unjoined(_) => self.ending -= 1,
            JobAnswer::Noted(_) => {
                self.noting = false;
                self.begin_note();
            }
            JobAnswer::Filled(_) | JobAnswer::Deferred(_) | JobAnswer::NotClaimed(_) | JobAnswer::Collected(_) => {
                self.slow -= 1;
                if let Some(job) = self.waiting.pop_front() {
                    self.spawn_slow(job);
                }
            }
            _ => {}
        }
        Ok(done)
    }

    fn spawn(&mut self, job: impl FnOnce(&RunContext) -> JobAnswer + Send + 'static) {
        let context = Arc::clone(&self.context);
        self.jobs.spawn_blocking(move || job(&context));
    }

    /// The answer of the job is one that ends a slow job.
    fn spawn_slow(&mut self, job: SlowJob) {
        if self.slow < SLOW_JOBS {
            self.slow += 1;
            self.spawn(job);
        } else {
            self.waiting.push_back(job);
        }
    }

    /// Queues gangs for the next lookup job.
    pub(crate) fn look_up(&mut self, gangs: impl IntoIterator<Item = Vec<InstanceId>>) {
        self.to_look_up.extend(gangs);
    }

    /// Starts a lookup job for the queued gangs, unless one is running.
    pub(crate) fn begin_look_up(&mut self) {
        if !self.looking_up && !self.to_look_up.is_empty() {
            self.looking_up = true;
            let gangs = std::mem::take(&mut self.to_look_up);
            self.spawn(move |context| JobAnswer::LookedUp(decisions::look_up(context, gangs)));
        }
    }

    /// Fills the folders of a gang, and claims the gang first if `to_claim`.
    pub(crate) fn fill(&mut self, gang: Vec<Fill>, to_claim: bool) {
        self.spawn_slow(Box::new(move |context| {
            let intents: Vec<_> = gang.iter().map(|fill| fill.intent(&context.force)).collect();
            let attempts: Vec<_> = intents.iter().map(|intent| intent.attempt).collect();
            // Claim first: the previous holder of the claim may have just died.
            let claim = || {
                let with = (&context.store, &context.orphans);
                if to_claim && !context.claimed.claim(with, &context.run, &intents)? {
                    return Ok(None);
                }
                let joined = fill::joins(context, &gang);
                // An attempt of a dead run still runs and cannot be joined as it is.
                if to_claim && joined.is_none() && context.claimed.supervisor(&attempts)?.is_some() {
                    context.claimed.give_back(&attempts)?;
                    return Ok(None);
                }
                Ok(Some(joined))
            };
            match claim() {
                Ok(Some(joined)) => JobAnswer::Filled(fill::fill(context, gang, joined)),
                Ok(None) => JobAnswer::Deferred(gang.iter().map(|fill| fill.attempt).collect()),
                Err(error) => JobAnswer::NotClaimed(error),
            }
        }));
    }

    /// True while jobs of earlier runs are being ended.
    pub(crate) fn is_ending_jobs(&self) -> bool {
        self.ending > 0
    }

    /// Ends jobs of earlier runs: the `joined` ones that this run was about to join, or all others it would join.
    pub(crate) fn end_jobs(&mut self, joined: Option<Vec<Intent>>) {
        self.ending += 1;
        self.spawn(move |context| {
            let wanted =
                || context.wanted.iter().map(|id| context.secrets.hide(context.instance(*id).label.to_string()));
            JobAnswer::Unjoined(match joined {
                Some(joined) => composite::end_unjoined(context.store.dir(), joined),
                None => context.orphans.end_unjoined(&context.file(), &wanted().collect()),
            })
        });
    }

    pub(crate) fn run_builtin(&mut self, builtin: Collect) {
        self.spawn_slow(Box::new(move |context| {
            JobAnswer::Collected(Box::new(collect::run_builtin(context, builtin)))
        }));
    }

    /// Writes down the end of an attempt, if the next run needs that, and then collects it.
    pub(crate) fn note_and_collect(&mut self, ended: Collect) {
        if ended.is_noted() {
            self.to_note.push(ended);
            self.begin_note();
        } else {
            self.collect(ended);
        }
    }

    fn begin_note(&mut self) {
        if !self.noting && !self.to_note.is_empty() {
            self.noting = true;
            let mut ended = std::mem::take(&mut self.to_note);
            self.spawn(move |context| {
                ended.iter_mut().for_each(|ended| ended.note(context.store.dir()));
                JobAnswer::Noted(ended)
            });
        }
    }

    /// Writes down the ends that wait for it, at once.
    pub(crate) fn note_now(&mut self) {
        let mut waiting = std::mem::take(&mut self.to_note);
        waiting.iter_mut().for_each(|ended| ended.note(self.context.store.dir()));
    }

    pub(crate) fn collect(&mut self, ended: Collect) {
        self.spawn_slow(Box::new(move |context| JobAnswer::Collected(Box::new(collect::collect(context, ended)))));
    }

    pub(crate) fn listen(&mut self, listeners: Vec<(AttemptId, Listener)>) {
        if !listeners.is_empty() {
            self.listening = true;
            let now = clock::unix_seconds();
            self.spawn(move |_| JobAnswer::Output(output::listen(listeners, now)));
        }
    }

    pub(crate) fn learn(&mut self, of: InstanceId, refits: Vec<Refit>) {
        self.spawn(move |_| JobAnswer::Learned(of, refits.into_iter().map(Refit::make).collect()));
    }

    /// Looks for the earlier results of a gang that has a disturbed result.
    pub(crate) fn look_for_earlier(&mut self, gang: Vec<(InstanceId, Digest)>, to_record: ToRecord) {
        self.spawn(move |context| {
            let earlier = decisions::earlier(context, &gang, to_record.instance);
            JobAnswer::Earlier(to_record, earlier)
        });
    }
}
