//! Jobs of a batch system that runs of other people left which do not live any more, in a store that several share. What they come to
//! only their owners can read, and take in with their next run: here the queue tells whether they go on, so that nothing is done
//! twice. Starts and ends nothing.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use flow_core::{
    Digest,
    reason::{BatchEnd, Cause, Waits},
};
use flow_slurm::{End, Fate, Row, fate};
use flow_store::StoreDir;

use super::{
    intents::Intent,
    left,
    slurm::{self, NoAnswer},
};
use crate::{clock, node::CLAIMED};

/// What the queue said is news no more after so long.
const RECENT: Duration = Duration::from_secs(3);

pub(crate) struct TheirJobs {
    dir: StoreDir,
    found: Mutex<LastLook>,
}

#[derive(Default)]
struct LastLook {
    /// `None` where it is to be looked for them.
    jobs: Option<Jobs>,
    /// What Slurm said of them, and when.
    said: Option<(Instant, Result<Rows, NoAnswer>)>,
}

/// Jobs with their owners.
#[derive(Default)]
struct Jobs {
    all: Vec<(String, Intent)>,
    /// Which of them comes to a result, by its fingerprint.
    by_result: BTreeMap<Digest, usize>,
}

/// What Slurm said, by a job's name and its task.
type Rows = BTreeMap<(String, Option<u32>), Vec<Row>>;

/// What somebody else's job means for who is about to do the same.
pub(crate) enum Theirs {
    /// It goes on, or may do so.
    GoesOn(Waits),
    /// It may have come to something that nobody else can read.
    Hidden(Cause),
}

impl TheirJobs {
    /// Nothing is looked at before somebody asks.
    pub(crate) fn new(dir: StoreDir) -> TheirJobs {
        TheirJobs { dir, found: Mutex::default() }
    }

    /// Another run has ended, or was killed: there may be more.
    pub(crate) fn look_again(&self) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).jobs = None;
    }

    /// The job of somebody else that does one of these, by the fingerprints of their results. One that came to nothing is none. Asks
    /// Slurm, which takes as long as it takes.
    pub(crate) fn of(&self, fingerprints: &[Digest]) -> Option<Theirs> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let LastLook { jobs, said } = &mut *found;
        let jobs = jobs.get_or_insert_with(|| Jobs::of(left::of_others(&self.dir)));
        let (user, intent) = jobs.that_does(fingerprints)?;
        if said.as_ref().is_none_or(|(at, _)| clock::since(*at) >= RECENT) {
            let keys = jobs.all.iter().map(|(_, intent)| &*intent.key).collect();
            *said = Some((clock::steady(), slurm::rows_of(&keys).map(by_job)));
        }
        match said {
            Some((_, Ok(rows))) => told(user, intent, rows),
            // An answer that cannot be had says nothing about any job.
            _ => Some(goes_on(user, intent)),
        }
    }
}

impl Jobs {
    fn of(all: Vec<(String, Intent)>) -> Jobs {
        let mut by_result = BTreeMap::new();
        for (number, (_, intent)) in all.iter().enumerate() {
            intent.members.iter().for_each(|member| _ = by_result.entry(member.fingerprint).or_insert(number));
        }
        Jobs { all, by_result }
    }

    fn that_does(&self, fingerprints: &[Digest]) -> Option<&(String, Intent)> {
        let number = fingerprints.iter().filter_map(|of| self.by_result.get(of)).min()?;
        self.all.get(*number)
    }
}

fn by_job(rows: Vec<Row>) -> Rows {
    let mut by_job = Rows::new();
    rows.into_iter().for_each(|row| by_job.entry((row.key.clone(), row.id.task)).or_default().push(row));
    by_job
}

fn goes_on(user: &str, intent: &Intent) -> Theirs {
    Theirs::GoesOn(Waits::Job { run: intent.run.clone(), user: user.to_owned() })
}

/// What becomes of a job, by what Slurm said of all.
fn told(user: &str, intent: &Intent, rows: &Rows) -> Option<Theirs> {
    let own = rows.get(&(intent.key.clone(), intent.task.map(|task| task.number))).map_or(&[][..], Vec::as_slice);
    let hidden = |state: &str| {
        let (run, user) = (intent.run.to_string(), user.to_owned());
        let end = BatchEnd::Theirs { run, user, state: state.to_owned() };
        let job = own.first().map(|row| row.id).or(intent.job).map(|id| id.to_string());
        Some(Theirs::Hidden(Cause::Batch { job, end }))
    };
    // A second job for a folder says nothing about the first.
    let fates: Vec<Fate> = own.iter().map(fate).filter(|fate| *fate != Fate::Ended(End::Failed(CLAIMED))).collect();
    match fates.as_slice() {
        [] => hidden(""),
        fates if fates.iter().any(|fate| !matches!(fate, Fate::Ended(_) | Fate::Never(_))) => {
            Some(goes_on(user, intent))
        }
        fates if fates.contains(&Fate::Ended(End::Completed)) => hidden("COMPLETED"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Instant};

    use flow_core::{AttemptId, RunId};
    use flow_slurm::{Exit, JobId};

    use super::super::intents::{Member, Task};
    use super::*;

    fn result(number: u32) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    /// A task of an array of so many, and what Slurm says of it.
    fn job(number: u32, of: u32) -> ((String, Intent), Row) {
        let member = Member {
            given: None,
            attempt: AttemptId(number),
            fingerprint: result(number),
            label: format!("train[n={number}]"),
            folder: PathBuf::from(format!("/store/{number}")),
            began: 1.0,
            announces: false,
            piped: false,
            is_watched: false,
            linked: Vec::new(),
            outputs: Vec::new(),
        };
        let (key, id) = ("flow-a".to_owned(), JobId { job: 7, task: Some(number) });
        let state = ["RUNNING", "PENDING", "COMPLETED", "CANCELLED"][number as usize % 4].to_owned();
        let exit = Exit::default();
        let row = Row { id, key: key.clone(), state, reason: String::new(), exit, node: String::new() };
        let task = Some(Task { number, of });
        let run = RunId("r".to_owned());
        (
            (
                "ada".to_owned(),
                Intent { key, here: None, is_over: false, task, job: Some(id), run, members: vec![member] },
            ),
            row,
        )
    }

    /// Looks up each of so many jobs, and as many results that no job comes to: what each means, and the time of one.
    fn looked_up(count: u32) -> (Vec<Option<&'static str>>, f64) {
        let (all, rows): (Vec<_>, Vec<_>) = (0..count).map(|number| job(number, count)).unzip();
        let (jobs, rows) = (Jobs::of(all), by_job(rows));
        let begun = Instant::now();
        let look = |number: u32| {
            let (user, intent) = jobs.that_does(&[result(number + count), result(number)])?;
            told(user, intent, &rows).map(|theirs| match theirs {
                Theirs::GoesOn(_) => "goes on",
                Theirs::Hidden(_) => "hidden",
            })
        };
        let all = (0..count).map(look).collect();
        assert!((count..2 * count).all(|number| jobs.that_does(&[result(number)]).is_none()));
        (all, begun.elapsed().as_secs_f64() / f64::from(count))
    }

    #[test]
    fn a_look_up_takes_as_long_among_one_as_among_twenty_thousand() {
        let seconds = [1, 1_000, 20_000].map(|count| {
            let (all, seconds) = looked_up(count);
            for (number, theirs) in all.iter().enumerate() {
                assert_eq!(*theirs, [Some("goes on"), Some("goes on"), Some("hidden"), None][number % 4]);
            }
            seconds
        });
        // To go through all of them would take milliseconds.
        assert!(seconds[2] < 200e-6, "{seconds:?} s");
    }

    #[test]
    fn what_slurm_has_forgotten_may_have_come_to_something() {
        let ((user, intent), _) = job(0, 1);
        assert!(matches!(told(&user, &intent, &Rows::new()), Some(Theirs::Hidden(_))));
    }
}
