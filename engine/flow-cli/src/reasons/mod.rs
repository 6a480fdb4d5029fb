//! Reasons in words, for the terminal: those that reports show as well out of the English catalogue, the others here.

mod alike;
mod estimates;
mod waits;
mod why;

use std::sync::LazyLock;

use flow_core::plan::NotAccepted;
use flow_core::reason::{Cause, Caveat, Lack, ProfileReason, Spoiled, Withheld};
use flow_core::verdict::Call;
use flow_core::{Outcome, Remark, Repeat, Span, Unfollowed};
use flow_report::{Reasons, Words};

use crate::words;

pub(crate) use alike::{Alike, Because, alike};
pub(crate) use estimates::{estimate_source, ran_otherwise};
pub(crate) use waits::{queued, queued_alike, waits};
pub(crate) use why::{reason, why, why_within};

fn english() -> Reasons<'static> {
    static WORDS: LazyLock<Words> = LazyLock::new(Words::new);
    WORDS.plain_reasons("en")
}

/// Why something ended as it did, or was not run.
pub(crate) fn cause(cause: &Cause) -> String {
    english().cause(cause)
}

/// The same where the reason may be that outcome alone.
pub(crate) fn settled(outcome: Outcome, because: Option<&Cause>) -> String {
    because.map_or_else(|| words::outcome(outcome).to_owned(), cause)
}

/// What a co-run group comes to.
pub(crate) fn call(call: Call) -> String {
    english().call(call)
}

/// What a machine has too little of, as the end of a sentence.
pub(crate) fn lack(lack: &Lack) -> String {
    english().lack(lack)
}

/// Why a measurement is not to be trusted.
pub(crate) fn spoiled(spoiled: &Spoiled) -> String {
    english().spoiled(spoiled)
}

/// Why numbers may not be those of the whole attempt.
pub(crate) fn caveat(caveat: &Caveat) -> String {
    english().caveat(caveat)
}

/// Why a profile is in force.
pub(crate) fn profile(why: &ProfileReason) -> String {
    english().profile(why)
}

/// Why a published file stays as it is, and what to do.
pub(crate) fn withheld(why: &Withheld) -> String {
    let or_none = |what: &str, none: &str| if what.is_empty() { none.to_owned() } else { what.to_owned() };
    let why = match why {
        Withheld::Asked => return "--no-publish was given".to_owned(),
        Withheld::Set { params } => format!("this run has other values of {}", params.join(", ")),
        Withheld::Part => "this run is of a part of the workflow".to_owned(),
        Withheld::Profile { published, own } => {
            let none = "no profile";
            format!("it is of {}, this run of {}", or_none(published, none), or_none(own, none))
        }
        Withheld::Gpus { published, own } => {
            let none = "a machine without GPUs";
            format!("it is from {}, this run from {}", or_none(published, none), or_none(own, none))
        }
        Withheld::Edited => "somebody edited it since flow wrote it".to_owned(),
    };
    format!("{why}; --publish replaces it")
}

/// Why an attempt is followed by another one.
pub(crate) fn repeat(because: &Repeat) -> String {
    match because {
        Repeat::Spoiled => "its measurement is not to be trusted; it is measured once more".to_owned(),
        Repeat::Failed { cause: why, goes_on } => {
            let then = match (goes_on, why) {
                (true, Some(Cause::Batch { .. })) => "it goes on in another job, from its checkpoint",
                (true, _) => "it goes on from its checkpoint",
                (false, _) => "it is tried again",
            };
            format!("{}; {then}", why.as_ref().map_or_else(|| "it failed".to_owned(), cause))
        }
    }
}

/// Why the last result of an instance is not accepted.
pub(crate) fn not_accepted(why: &NotAccepted) -> String {
    match why {
        NotAccepted::NeverRan => "it has not run yet".to_owned(),
        NotAccepted::NoResult => "its last attempt left no result to keep".to_owned(),
        NotAccepted::Unfit(unfit) => why::unfit_in_words(unfit),
        NotAccepted::After(needs) => format!("{} must run first", needs.join(", ")),
        NotAccepted::Refused(why) => cause(why),
    }
}

/// Somebody asked the run to end.
pub(crate) fn interrupted(grace: Option<Span>, again: bool) -> String {
    match grace {
        Some(grace) => {
            format!("interrupted: running steps have {} s to end; once more kills them", grace.as_secs_f64())
        }
        None => format!("interrupted{}: running steps are killed", if again { " again" } else { "" }),
    }
}

/// What an instance asks for that this machine does not have.
pub(crate) fn unfit(label: &str, lack: &Lack) -> String {
    format!("`{label}` cannot run on this machine: it {}", self::lack(lack))
}

/// That steps do not follow those that they need, and what makes them: the first few, for all of them are to be mended alike.
pub(crate) fn unfollowed(pairs: &[Unfollowed]) -> Vec<String> {
    const SHOWN: usize = 3;
    let one = |Unfollowed { step, ran, output }: &Unfollowed| {
        let read = match output {
            Some(output) => format!("`${{{{ steps.{ran}.{output} }}}}` in it"),
            None => format!("`outputs:` in `{ran}` and `${{{{ steps.{ran}.out }}}}` in it"),
        };
        format!(
            "`{step}` reads nothing of `{ran}` through flow, so that it is kept where only `{ran}` changes; with {read} it follows"
        )
    };
    let more = pairs.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("the same of {} of steps", words::count(more, "more pair")));
    pairs.iter().take(SHOWN).map(one).chain(more).collect()
}

/// Something about a workflow on this machine.
pub(crate) fn remark(remark: &Remark) -> String {
    match remark {
        Remark::NoProfile { profiles } => {
            let profiles: Vec<String> = profiles.iter().map(|(name, when)| format!("{name} (`{when}`)")).collect();
            format!("no profile holds here: {}", profiles.join(", "))
        }
        Remark::NoInstances { step, because } => format!("`{step}` has no instances: {}", cause(because)),
    }
}
