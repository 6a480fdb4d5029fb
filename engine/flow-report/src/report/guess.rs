//! Judges the author's guess at the limit of the speed.

use serde::{Deserialize, Serialize};

use crate::findings::{Bound, Finding, Scoped};
use crate::verdict::{Resource, Ruled, Together, Verdict};

/// The verdict on a guess.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "guess")]
pub(crate) enum Judged {
    /// The resource limits a group. `relieved`: groups that have enough of it run in parallel.
    Confirmed { resource: Resource, groups: Vec<String>, relieved: Vec<String> },
    /// The resource does not limit any of the groups that are slower than alone.
    Refuted { resource: Resource, groups: Vec<String> },
    /// The resource limits runs that were measured alone.
    ConfirmedAlone { resource: Resource },
    /// The measurements do not decide it.
    Open { resource: Resource },
}

pub(super) fn judge_guess(resource: Resource, together: &[Together], findings: &[Scoped]) -> Judged {
    let ruled = |group: &Together| group.rulings.iter().find(|r| r.resource == resource).map(|r| r.ruled);
    let slower: Vec<&Together> = together.iter().filter(|g| g.slower).collect();
    let names = |groups: Vec<&Together>| groups.iter().map(|g| g.group.clone()).collect::<Vec<_>>();
    if slower.is_empty() {
        let bound = findings.iter().any(|f| match &f.finding {
            Finding::Bound { by, .. } => {
                matches!(
                    (by, resource),
                    (Bound::Cpu, Resource::Cpu) | (Bound::Gpu, Resource::Gpu) | (Bound::Data, Resource::Data)
                )
            }
            _ => false,
        });
        return if bound && together.is_empty() {
            Judged::ConfirmedAlone { resource }
        } else {
            Judged::Open { resource }
        };
    }
    let blamed: Vec<&Together> = slower.iter().copied().filter(|g| ruled(g) == Some(Ruled::In)).collect();
    let cleared = slower.iter().filter(|g| ruled(g).is_some_and(Ruled::is_out)).count();
    if cleared == slower.len() {
        return Judged::Refuted { resource, groups: names(slower) };
    }
    if blamed.is_empty() || cleared > 0 {
        return Judged::Open { resource };
    }
    let relieved =
        together.iter().filter(|g| g.verdict == Verdict::Parallel && ruled(g).is_some_and(Ruled::is_out)).collect();
    Judged::Confirmed { resource, groups: names(blamed), relieved: names(relieved) }
}
