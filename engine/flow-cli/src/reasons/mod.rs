//! Words reasons for the terminal. Reasons that reports show as well come from the English
//! catalogue, the others from here.

mod environment;
mod estimates;
mod similar;
mod waits;
mod why;

use std::sync::LazyLock;

use flow_core::plan::NotAccepted;
use flow_core::reason::{Cause, Caveat, Disturbance, Lack, ProfileReason, WithheldReason};
use flow_core::verdict::Call;
use flow_core::{Outcome, Remark, Repeat, Span, UnreadDependency};
use flow_report::{Reasons, Words};

use crate::words;

pub(crate) use environment::{difference, differences};
pub(crate) use estimates::{estimate_source, ran_otherwise};
pub(crate) use similar::{InstanceReason, SimilarReasons, alike};
pub(crate) use waits::{queued, queued_alike, slurm_place, waits};
pub(crate) use why::{reason, reason_within, whole_reason, why, why_within};

fn english() -> Reasons<'static> {
    static WORDS: LazyLock<Words> = LazyLock::new(Words::new);
    WORDS.plain_reasons("en")
}

/// Why something ended as it did, or was not run.
pub(crate) fn cause(cause: &Cause) -> String {
    english().cause(cause)
}

/// The same, if the outcome alone may be the reason.
pub(crate) fn settled(outcome: Outcome, because: Option<&Cause>) -> String {
    because.map_or_else(|| words::outcome(outcome).to_owned(), cause)
}

/// The verdict on a co-run group.
pub(crate) fn call(call: Call) -> String {
    english().call(call)
}

/// What a machine has too little of, as the end of a sentence.
pub(crate) fn lack(lack: &Lack) -> String {
    english().lack(lack)
}

/// Why a measurement is not reliable.
pub(crate) fn disturbed(disturbed: &Disturbance) -> String {
    english().disturbed(disturbed)
}

/// Why a result is not kept, and what to do. `writer`: "it", if no other step had the input.
pub(crate) fn not_kept(why: &Disturbance, writer: &str) -> String {
    match why {
        Disturbance::InputWritten { path, folder, .. } => {
            let remedy = folder.as_ref().map(|folder| {
                format!("; `{{path: {folder}, copy: true}}` under `inputs:` gives a step a copy that it may change")
            });
            format!("{writer} wrote into the read-only copy of `{path}`{}", remedy.unwrap_or_default())
        }
        // A copy does not help a program that names the file by its absolute path.
        Disturbance::InputChanged { path, .. } if !path.starts_with('/') => {
            format!("{}; run again, with `copy: true` for this input if the step itself writes there", disturbed(why))
        }
        other => format!("{}; run again", disturbed(other)),
    }
}

/// Why numbers may not cover the whole attempt.
pub(crate) fn caveat(caveat: &Caveat) -> String {
    english().caveat(caveat)
}

/// The profile of a run and why it was selected, and that its GPUs are declared; empty without both.
pub(crate) fn profile_and_gpus(profile: Option<&(String, ProfileReason)>, fake_gpus: bool) -> String {
    let profile = profile.map(|(name, why)| format!(", profile {name} ({})", english().profile(why)));
    profile.unwrap_or_default() + if fake_gpus { ", on GPUs that are declared, not real" } else { "" }
}

/// Why a published file stays unchanged, and what to do.
pub(crate) fn withheld(why: &WithheldReason) -> String {
    let or_none = |what: &str, none: &str| if what.is_empty() { none.to_owned() } else { what.to_owned() };
    let why = match why {
        WithheldReason::Requested => return "--no-publish was given".to_owned(),
        WithheldReason::Set { params } => format!("other values of {} were used", params.join(", ")),
        WithheldReason::Part => "this run covers only a part of the workflow".to_owned(),
        WithheldReason::Profile { published, own } => {
            let none = "no profile";
            format!("it comes from {}, this run from {}", or_none(published, none), or_none(own, none))
        }
        WithheldReason::Gpus { published, own } => {
            let none = "a machine without GPUs";
            format!("it is from {}, this run is from {}", or_none(published, none), or_none(own, none))
        }
        WithheldReason::Edited => "it was edited by hand".to_owned(),
    };
    format!("{why}; --publish replaces it")
}

/// Why an attempt is followed by another one.
pub(crate) fn repeat(because: &Repeat) -> String {
    match because {
        Repeat::Disturbed => "its measurement is not reliable; it is repeated once".to_owned(),
        Repeat::Failed { cause: why, resumes } => {
            let then = match (resumes, why) {
                (true, Some(Cause::Batch { .. })) => "it continues in another job, from its checkpoint",
                (true, _) => "it resumes from its checkpoint",
                (false, _) => "it is retried",
            };
            format!("{}; {then}", why.as_ref().map_or_else(|| "it failed".to_owned(), cause))
        }
    }
}

/// Why the last result of an instance cannot be accepted.
pub(crate) fn not_accepted(why: &NotAccepted) -> String {
    match why {
        NotAccepted::NeverRan => "it has not run yet".to_owned(),
        NotAccepted::NoResult => "its last attempt left no result to keep".to_owned(),
        NotAccepted::Unfit(unfit) => why::unfit_in_words(unfit),
        NotAccepted::OtherSettings(changed) => {
            format!("{}; --other-settings keeps its result anyway", why::why(&flow_core::why::RunReasons::of(changed)))
        }
        NotAccepted::After(needs) => format!("{} must run first", needs.join(", ")),
        NotAccepted::Refused(why) => cause(why),
    }
}

/// A request to end the run.
pub(crate) fn interrupted(grace: Option<Span>, again: bool) -> String {
    match grace {
        Some(grace) => {
            format!("interrupted: running steps have {} s to end; a second Ctrl-C kills them", grace.as_secs_f64())
        }
        None => format!("interrupted{}: running steps are killed", if again { " again" } else { "" }),
    }
}

/// What an instance needs that this machine lacks.
pub(crate) fn unfit(label: &str, lack: &Lack) -> String {
    format!("`{label}` cannot run on this machine: it {}", self::lack(lack))
}

/// A limit of the comparison with a result that stays: of these folders, the content of files was not compared.
pub(crate) fn by_listing<'a>(folders: impl Iterator<Item = &'a str>) -> Option<String> {
    let folders: Vec<String> = folders.map(|folder| format!("`{folder}`")).collect();
    (!folders.is_empty()).then(|| format!("of {}, only the names and sizes of files were compared", folders.join(", ")))
}

/// Steps that do not depend on the content of what they need, and the fix. The first few are named;
/// the fix is the same for all.
pub(crate) fn unfollowed(pairs: &[UnreadDependency]) -> Vec<String> {
    const SHOWN: usize = 3;
    let one = |UnreadDependency { step, ran, output }: &UnreadDependency| {
        let read = match output {
            Some(output) => format!("`${{{{ steps.{ran}.{output} }}}}` in it"),
            None => format!("`outputs:` in `{ran}` and `${{{{ steps.{ran}.out }}}}` in it"),
        };
        format!(
            "`{step}` reads nothing of `{ran}` through flow, so a change of `{ran}` does not rerun it; with {read} it does"
        )
    };
    let rest = |more| format!("the same is true of {} of steps", words::count(more, "more pair"));
    words::cut(pairs.iter().map(one), SHOWN, rest)
}

/// A message about a workflow on this machine.
pub(crate) fn remark(remark: &Remark) -> String {
    match remark {
        Remark::NoProfile { profiles } => {
            let profiles: Vec<String> = profiles.iter().map(|(name, when)| format!("{name} is for `{when}`")).collect();
            format!("no profile applies here: {}", profiles.join(", "))
        }
        Remark::NoInstances { step, because } => format!("`{step}` has no instances: {}", cause(because)),
    }
}
