//! The limits behind the words of reports: the meaning of "the same", "falls", "linear" and "significant". Each is
//! defined here once, used by every sentence, and printed in the set-up of a page.

use std::collections::BTreeSet;

use flow_core::verdict::TOLERANCE;
use serde::Serialize;

use crate::format::Format;
use crate::words::{Args, Locale, kind};

/// A number that changes by at most this share of its smaller value is the same, or flat.
pub(crate) const SAME: f64 = 0.03;
/// A share that changes by less than this is the same: 0.02 is two points.
pub(crate) const SAME_SHARE: f64 = 0.02;
/// A rise or fall may turn back by at most this part of its whole way.
pub(crate) const BACK: f64 = 0.2;
/// A straight line explains at least this much of the variation (R²),
pub(crate) const LINEAR: f64 = 0.98;
/// and no point deviates from it by more than this share of its own value.
pub(crate) const LINEAR_OFF: f64 = 0.1;
/// A fitted curve explains at least this much of the variation (R²),
pub(crate) const FIT: f64 = 0.9;
/// and no point deviates from it by more than this share of its own value.
pub(crate) const FIT_OFF: f64 = 0.5;
/// A difference between neighbours is a jump if its distance from the usual difference is at least this many times the
/// scatter.
pub(crate) const JUMP: f64 = 7.0;
/// A test finds a difference if chance makes one as large at most this often.
pub(crate) const SIGNIFICANT: f64 = 0.05;
/// An effect was found again if neither of the two is more than this many times the other.
pub(crate) const AS_LARGE: f64 = 2.0;
/// A resource limits the speed from this load on.
pub(crate) const FULL: f64 = 0.85;
/// Waiting for data limits the speed from this share of an epoch on.
pub(crate) const WAITING: f64 = 0.25;

/// Whether the larger of two positive numbers is the same as the smaller.
pub(crate) fn is_same(smaller: f64, larger: f64) -> bool {
    larger <= (1.0 + SAME) * smaller
}

/// A word of reports that has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DefinedWord {
    Same,
    Course,
    Linear,
    Fit,
    Jumps,
    Parallel,
    Bound,
    Reproduced,
    Tests,
}

/// The limits of these words in sentences, for the set-up of a page.
pub(crate) fn worded(defined: &BTreeSet<DefinedWord>, words: Locale<'_>) -> String {
    let percent = |value: f64| {
        let show = Format { unit: "%".into(), factor: 100.0, decimals: 0, ..Format::default() };
        words.figure(&show, value)
    };
    let number = |value: f64| value.to_string();
    let args = |word: &DefinedWord| match word {
        DefinedWord::Same => Args::new().with("same", percent(SAME)).with("share", number(SAME_SHARE * 100.0)),
        DefinedWord::Course => {
            let args = Args::new().with("same", percent(SAME)).with("share", number(SAME_SHARE * 100.0));
            args.with("back", percent(BACK))
        }
        DefinedWord::Linear => Args::new().with("linear", number(LINEAR)).with("off", percent(LINEAR_OFF)),
        DefinedWord::Fit => Args::new().with("fit", number(FIT)).with("off", percent(FIT_OFF)),
        DefinedWord::Jumps => Args::new().with("jump", number(JUMP)),
        DefinedWord::Parallel => Args::new().with("parallel", percent(TOLERANCE)),
        DefinedWord::Bound => Args::new().with("full", percent(FULL)).with("waiting", percent(WAITING)),
        DefinedWord::Reproduced => Args::new().with("times", number(AS_LARGE)),
        DefinedWord::Tests => Args::new().with("p", number(SIGNIFICANT)),
    };
    let each = defined.iter().map(|word| words.text(&format!("method-{}", kind(word)), &args(word)));
    words.sentences(&each.collect::<Vec<_>>())
}
