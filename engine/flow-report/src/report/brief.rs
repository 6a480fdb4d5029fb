//! A finding in a few words, for a cell of the table that compares it with the earlier one: its topic and its value.

use crate::findings::{Course, Figure, Finding, ScopedFinding};
use crate::safe;
use crate::table::{Names, dash};
use crate::words::Args;

/// The topic of a finding: `v7: epoch time`.
pub(super) fn label(one: &ScopedFinding, names: &Names<'_>) -> Option<String> {
    let (kind, column) = crate::findings::topic(&one.finding)?;
    let args = Args::new().with("column", names.inline(column));
    let key = match kind {
        "time" => "brief-about-time",
        "memory against time" => "brief-about-pays",
        "frontier" => "brief-about-frontier",
        "line" => "brief-about-line",
        "cost" => "brief-about-cost",
        "turns" => "brief-about-turns",
        _ => "brief-about",
    };
    let said = names.capital(names.words.text(key, &args));
    let change = match &one.finding {
        Finding::Changed { a, b, .. }
        | Finding::Unchanged { a, b, .. }
        | Finding::SameLearned { a, b, .. }
        | Finding::LearnedChange { a, b, .. }
        | Finding::Undecided { a, b, .. }
        | Finding::ChangedAt { a, b, .. } => Some(format!("{} → {}", safe::text(a), safe::text(b))),
        _ => None,
    };
    let comma = names.words.word("mark-comma");
    let said = change.map_or_else(|| said.clone(), |change| format!("{said}{comma}{change}"));
    Some(names.scoped(&one.scope, said))
}

/// The value of a finding.
pub(super) fn value(finding: &Finding, names: &Names<'_>) -> String {
    let words = names.words;
    let say = |key: &str, args: Args| words.text(key, &args);
    let at = |at: &str, figure: &Figure| {
        say("side", Args::new().with("name", safe::text(at)).with("value", figure.text(words)))
    };
    let range = |a: &Figure, b: &Figure| {
        let (from, to) = (a.text(words), b.text(words));
        if from == to { from } else { say("range", Args::new().with("from", from).with("to", to)) }
    };
    match finding {
        Finding::Flattens { at: place, value, .. } => say("brief-flattens", Args::new().with("at", at(place, value))),
        Finding::StillFalling { at: place, value, .. } => say("brief-falls", Args::new().with("at", at(place, value))),
        Finding::NoFall { at: place, value, .. } => say("brief-flattens", Args::new().with("at", at(place, value))),
        Finding::TimeFlat { min, max, .. } | Finding::NoTrend { min, max, .. } | Finding::Alike { min, max, .. } => {
            say("brief-flat", Args::new().with("range", range(min, max)))
        }
        Finding::Uneven { min, .. } => say("brief-min", Args::new().with("at", at(&min.0, &min.1))),
        Finding::MemoryFaster { from, .. } => say("brief-pays", Args::new().with("at", safe::text(from))),
        Finding::MemoryFlat { at: place, min, max, .. } => {
            say("brief-flat-to", Args::new().with("at", safe::text(place)).with("range", range(min, max)))
        }
        Finding::MemoryNotFlat { min, max, .. } => range(min, max),
        Finding::LoadTrend { from, to, .. } => range(&from.1, &to.1),
        Finding::Trend { course: Course::Constant, from, to, .. } => {
            say("brief-flat", Args::new().with("range", range(&from.1, &to.1)))
        }
        Finding::Trend { from, to, .. } => range(&from.1, &to.1),
        Finding::Frontier { at, .. } => safe::text(at),
        Finding::Linear { r2, .. } => say("brief-line", Args::new().with("r2", r2.text(words))),
        Finding::Changed { min, max, .. } => range(min, max),
        Finding::Unchanged { opposite: Some(least), most, .. } => range(least, most),
        Finding::Unchanged { .. } | Finding::SameLearned { .. } => say("brief-same", Args::new()),
        Finding::Undecided { .. } => say("brief-undecided", Args::new()),
        Finding::LearnedChange { mean, .. } => mean.text(words),
        Finding::ChangedAt { places, .. } => {
            let each: Vec<String> = places.iter().map(|(place, figure)| at(place, figure)).collect();
            each.join(&words.word("mark-comma"))
        }
        Finding::CostFree { b, .. } => safe::text(b),
        Finding::Best { best, .. } => at(&best.name, &best.value),
        Finding::NoneDistinguished { best, .. } => at(&best.0, &best.1),
        Finding::Order { order, .. } => {
            let each: Vec<String> = order.iter().map(|(name, _)| safe::text(name)).collect();
            each.join(" < ")
        }
        Finding::AtMost { most, .. } => most.text(words),
        Finding::Turns { turns, .. } => {
            let each = turns.iter().map(|turn| format!("{}/{}", safe::text(&turn.first), safe::text(&turn.second)));
            each.collect::<Vec<_>>().join(&words.word("mark-comma"))
        }
        Finding::Winner { point, value, .. } => at(point, value),
        Finding::Bound { .. }
        | Finding::Depends { .. }
        | Finding::Ends { .. }
        | Finding::OneTraining { .. }
        | Finding::OrderOf { .. }
        | Finding::Packed { .. }
        | Finding::Repeated { .. }
        | Finding::Agrees { .. }
        | Finding::Estimate { .. } => dash(),
    }
}
