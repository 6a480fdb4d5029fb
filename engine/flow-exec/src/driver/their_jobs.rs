//! Jobs of a batch system that runs of other people left which do not live any more, in a store that several share. What they come to
//! only their owners can read, and take in with their next run: here the queue tells whether they go on, so that nothing is done
//! twice. Starts and ends nothing.

use std::{
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
    intents::{self, Intent},
    slurm::{self, NoAnswer},
};
use crate::{clock, node::CLAIMED};

/// What the queue said is news no more after so long.
const RECENT: Duration = Duration::from_secs(3);

/// All of them.
pub(crate) struct TheirJobs {
    dir: StoreDir,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// With their owners; `None` where it is to be looked for them.
    jobs: Option<Vec<(String, Intent)>>,
    /// What Slurm said of them, and when.
    said: Option<(Instant, Result<Vec<Row>, NoAnswer>)>,
}

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
        let Found { jobs, said } = &mut *found;
        let jobs = jobs.get_or_insert_with(|| intents::of_others(&self.dir));
        let does = |intent: &Intent| intent.members.iter().any(|member| fingerprints.contains(&member.fingerprint));
        let (user, intent) = jobs.iter().find(|(_, intent)| does(intent))?;
        if said.as_ref().is_none_or(|(at, _)| clock::since(*at) >= RECENT) {
            let keys = jobs.iter().map(|(_, intent)| &*intent.key).collect();
            *said = Some((clock::steady(), slurm::rows_of(&keys)));
        }
        let goes_on = || Some(Theirs::GoesOn(Waits::Job { run: intent.run.clone(), user: user.clone() }));
        let rows = match said {
            Some((_, Ok(rows))) => rows,
            // An answer that cannot be had says nothing about any job.
            _ => return goes_on(),
        };
        let task = intent.task.map(|task| task.number);
        let own: Vec<&Row> = rows.iter().filter(|row| row.key == intent.key && row.id.task == task).collect();
        let hidden = |state: &str| {
            let (run, user) = (intent.run.to_string(), user.clone());
            let end = BatchEnd::Theirs { run, user, state: state.to_owned() };
            let job = own.first().map(|row| row.id).or(intent.job).map(|id| id.to_string());
            Some(Theirs::Hidden(Cause::Batch { job, end }))
        };
        // A second job for a folder says nothing about the first.
        let fates = own.iter().map(|row| fate(row)).filter(|fate| *fate != Fate::Ended(End::Failed(CLAIMED)));
        let fates: Vec<Fate> = fates.collect();
        match fates.as_slice() {
            [] => hidden(""),
            fates if fates.iter().any(|fate| !matches!(fate, Fate::Ended(_) | Fate::Never(_))) => goes_on(),
            fates if fates.contains(&Fate::Ended(End::Completed)) => hidden("COMPLETED"),
            _ => None,
        }
    }
}
