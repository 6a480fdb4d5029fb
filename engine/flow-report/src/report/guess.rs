//! Judges the author's guess at the limit of the speed.

use serde::{Deserialize, Serialize};

use crate::findings::{Finding, ScopedFinding};
use crate::verdict::{GroupVerdict, Resource, ResourceVerdict, Verdict};

/// The verdict on a guess.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "guess")]
pub(crate) enum GuessVerdict {
    /// The resource limits a group. `relieved`: groups that have enough of it run in parallel.
    Confirmed { resource: Resource, groups: Vec<String>, relieved: Vec<String> },
    /// The resource does not limit any of the groups that are slower than alone.
    Refuted { resource: Resource, groups: Vec<String> },
    /// The resource limits runs that were measured alone.
    ConfirmedAlone { resource: Resource },
    /// The measurements do not decide it.
    Open { resource: Resource },
}

pub(super) fn judge_guess(resource: Resource, together: &[GroupVerdict], findings: &[ScopedFinding]) -> GuessVerdict {
    let ruled = |group: &GroupVerdict| group.rulings.iter().find(|r| r.resource == resource).map(|r| r.ruled);
    let slower: Vec<&GroupVerdict> = together.iter().filter(|g| g.slower).collect();
    let names = |groups: Vec<&GroupVerdict>| groups.iter().map(|g| g.group.clone()).collect::<Vec<_>>();
    if slower.is_empty() {
        let bound = findings.iter().any(|f| matches!(&f.finding, Finding::Bound { by, .. } if *by == resource));
        return if bound && together.is_empty() {
            GuessVerdict::ConfirmedAlone { resource }
        } else {
            GuessVerdict::Open { resource }
        };
    }
    let attributed: Vec<&GroupVerdict> =
        slower.iter().copied().filter(|g| ruled(g) == Some(ResourceVerdict::In)).collect();
    let cleared = slower.iter().filter(|g| ruled(g).is_some_and(ResourceVerdict::is_out)).count();
    if cleared == slower.len() {
        return GuessVerdict::Refuted { resource, groups: names(slower) };
    }
    if attributed.is_empty() || cleared > 0 {
        return GuessVerdict::Open { resource };
    }
    let relieved = together
        .iter()
        .filter(|g| g.verdict == Verdict::Parallel && ruled(g).is_some_and(ResourceVerdict::is_out))
        .collect();
    GuessVerdict::Confirmed { resource, groups: names(attributed), relieved: names(relieved) }
}
