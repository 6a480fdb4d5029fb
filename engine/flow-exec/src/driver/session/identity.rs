//! The identity of this process for others that want the store, and the ids of new runs.

use flow_core::RunId;
use flow_runs::{Holder, ProcessIdentity};
use flow_supervisor::clock;

/// This process, as shown to others that find the store locked.
pub(crate) fn holder(doing: &str) -> Holder {
    Holder { process: ProcessIdentity::own(), doing: doing.to_owned(), run: None, since: clock::local_time() }
}

/// A run id greater than all ids of the store: the current time. If the clock is behind the newest run, the id just
/// after that run's, which is then returned too. The greatest id counts as the last run.
pub(crate) fn new_run_id(runs: &[RunId]) -> (RunId, Option<&RunId>) {
    let now = clock::compact_time();
    // The folder may hold other things than runs.
    let newest = runs.iter().rev().find_map(|run| Some((run, clock::just_after(&run.0)?)));
    match newest {
        Some((newest, next)) if newest.0 >= now => (RunId(next), Some(newest)),
        _ => (RunId(now), None),
    }
}
