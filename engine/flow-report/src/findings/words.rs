//! Findings as text. The catalogues hold the sentences; here each finding chooses one and its arguments.

use flow_core::Outcome;
use serde_json::Value;

use super::compare::is_significant;
use super::phrases::{Lead, few, named, ratios, sides, span, texts};
use super::{
    AllPacked, Course, Figure, Finding, PackedPart, ResultCount, ScopedFinding, Side, TiedPart, TrendEvidence,
};
use crate::bounds::SAME;
use crate::format::term;
use crate::safe;
use crate::significance::MOST_RUNS;
use crate::significance::{more_in_words, tied_with};
use crate::table::Names;
use crate::words::{Args, Locale, fields, kind};

impl ScopedFinding {
    pub(crate) fn worded(&self, names: &Names<'_>) -> String {
        names.scoped(&self.scope, self.finding.worded(names))
    }
}

impl Finding {
    fn worded(&self, names: &Names<'_>) -> String {
        let words = names.words;
        let inline = |name: &str| names.inline(name);
        // A sentence that begins with a column's name begins with a capital letter.
        let say = |key: &str, args: Args| names.capital(words.text(key, &args));
        let text = |figure: &Figure| figure.text(words);
        let range = |least: &Figure, most: &Figure| span(least, most, true, words);
        // A place and its figure, as two variables.
        let pair = |args: Args, place: &'static str, figure: &'static str, of: &(String, Figure)| {
            args.with(place, safe::text(&of.0)).with(figure, text(&of.1))
        };
        let (of, args) = fields(self, "finding", |name, value| match (name, value) {
            ("column" | "time" | "axis" | "memory" | "load" | "accuracy" | "of" | "split", Value::String(name)) => {
                Some(inline(name))
            }
            ("label" | "table", Value::String(name)) => Some(safe::code(name)),
            (_, Value::String(name)) => Some(safe::text(name)),
            (_, figure) => serde_json::from_value(figure.clone()).ok().map(|figure: Figure| text(&figure)),
        });
        let key = &*format!("finding-{of}");
        match self {
            Finding::Flattens { rises: Some(later), .. } | Finding::NoFall { rises: Some(later), .. } => {
                say(&format!("{key}-rises"), pair(args, "later", "to", later))
            }
            Finding::Flattens { stops: true, .. } => say("finding-flattens-stops", args),
            Finding::TimeFlat { min, max, .. } => {
                let one = min.show.as_read(min.value) == max.show.as_read(max.value);
                say(if one { "finding-time-same" } else { key }, args.with("range", range(min, max)))
            }
            Finding::NoTrend { min, max, .. } | Finding::MemoryFlat { min, max, .. } => {
                say(key, args.with("range", range(min, max)))
            }
            Finding::Uneven { min, max, .. } => say(key, pair(pair(args, "low", "min", min), "high", "max", max)),
            Finding::MemoryFaster { grows, falls, .. } => {
                say(key, args.with("grows", grows.size(words)).with("falls", falls.size(words)))
            }
            Finding::LoadTrend { from, to, .. } => say(key, pair(pair(args, "from", "first", from), "to", "last", to)),
            Finding::Frontier { outcome, gpu, fits, .. } => {
                let memory = match (outcome, gpu) {
                    (Outcome::DoesNotFit, _) => "machine",
                    (_, true) => "gpu",
                    (_, false) => "host",
                };
                let args = args.with("memory", memory);
                match fits {
                    None => say("finding-frontier-none", args),
                    Some((fits, None)) => say(key, args.with("fits", safe::text(fits))),
                    Some((fits, Some(used))) => {
                        say("finding-frontier-used", args.with("fits", safe::text(fits)).with("used", text(used)))
                    }
                }
            }
            Finding::Linear { slope, .. } => {
                let (sign, slope) = term(text(slope));
                say(key, args.with("sign", sign).with("slope", slope))
            }
            Finding::Bound { by, min, max, cpus } => {
                let args = args.with("range", range(min, max));
                match cpus {
                    None => say(&format!("finding-bound-{}", by.key()), args),
                    Some((own, host)) => {
                        let args = args.count("own", *own as usize).count("host", *host as usize);
                        say("finding-bound-cpu-of", args)
                    }
                }
            }
            Finding::Ends { bursts: false, .. } => say("finding-no-bursts", args),
            Finding::Ends { among, .. } => {
                let which = match among {
                    ResultCount::All => "every",
                    ResultCount::Some => "some",
                    ResultCount::One => "one",
                };
                say("finding-bursts", args.with("which", which))
            }
            Finding::Unchanged { most, opposite: Some(least), .. } => {
                let (from, to) = if least.value < most.value { (least, most) } else { (most, least) };
                say("finding-mixed", args.with("range", range(from, to)))
            }
            Finding::Unchanged { most, one_way, .. } => {
                let args = args.with("most", most.bound(words));
                let how = match one_way {
                    false => "both",
                    true if most.value > 0.0 => "rises",
                    true => "falls",
                };
                match most.show.reads_zero(most.value) {
                    true => say(key, args),
                    false => say("finding-hardly-changed", args.with("how", how)),
                }
            }
            Finding::Agrees { most, as_given, .. } => {
                say(key, args.with("most", most.size(words)).with("same", text(as_given)))
            }
            Finding::Estimate { more: None, .. } => say("finding-estimate-one", args),
            Finding::Estimate { most, more: Some((least, typical)), .. } => {
                say(key, args.with("range", range(least, most)).with("typical", text(typical)))
            }
            Finding::SameLearned { low, high, .. } => {
                let args = args.flag("told", is_significant(low, high));
                say(key, args.with("interval", range(low, high)))
            }
            Finding::Undecided { low, high, more, .. } => {
                let runs = match more {
                    Some(more) => say("finding-undecided-more", Args::new().count("more", *more as usize)),
                    None => say("finding-undecided-most", Args::new().count("most", MOST_RUNS as usize)),
                };
                words.sentences(&[say(key, args.with("interval", range(low, high))), runs])
            }
            Finding::LearnedChange { mean, low, high, .. } => {
                let args = args.flag("told", is_significant(low, high));
                let (how, mean) = match mean.show.ratio {
                    true => ("times", ratios([mean, mean], false, words)),
                    false => ("change", text(mean)),
                };
                say(key, args.with("how", how).with("mean", mean).with("interval", range(low, high)))
            }
            Finding::Changed { column, rises, min, max, borne, .. } => {
                let (how, range) = match min.show.ratio {
                    true => ("times", ratios([min, max], names.is_time(column), words)),
                    false => (if *rises { "rises" } else { "falls" }, span(min, max, false, words)),
                };
                let args = args.with("range", range).with("how", how);
                let every = |rows: &str| {
                    let args = Args::new().with("rows", rows);
                    match names.table.rows.as_slice() {
                        [axis] => words.text("where-axis", &args.with("axis", inline(axis))),
                        _ => words.text("where-rows", &args),
                    }
                };
                let some = |some: &Figure, rows: &Figure| match some.value == rows.value {
                    true if rows.value == 1.0 => every("one"),
                    true => every(if rows.value == 2.0 { "two" } else { "every" }),
                    false => words.text("where-some", &Args::new().with("some", text(some)).with("rows", text(rows))),
                };
                match borne {
                    TrendEvidence::OneRow => say("finding-changed", args),
                    TrendEvidence::Pair { paired, p, ends, speed } => {
                        let (low, high) = ends;
                        let interval = match min.show.ratio {
                            true => ratios([low, high], names.is_time(column), words),
                            false => span(low, high, true, words),
                        };
                        let speed =
                            speed.as_ref().map_or_else(|| "none".to_owned(), |speed| speed.show.number(speed.value));
                        let args = args.flag("paired", *paired).with("interval", interval);
                        let args = args.with("speed", speed);
                        say("finding-changed-pair", args.with("p", p.relation()))
                    }
                    TrendEvidence::Two => say("finding-changed-few", args.with("where", every("two"))),
                    TrendEvidence::Few => say("finding-changed-few", args.with("where", every("every"))),
                    TrendEvidence::Tested { pairs, p } => {
                        let args = args.with("where", every("every")).with("pairs", text(pairs));
                        say("finding-changed-tested", args.with("p", p.relation()))
                    }
                    TrendEvidence::OneRun { some: n, rows, median } => {
                        let args = args.with("where", some(n, rows)).with("median", text(median));
                        say("finding-changed-once", args.flag("all", n.value == rows.value))
                    }
                    TrendEvidence::Most { some: n, rows, median, p } => {
                        let args = args.with("where", some(n, rows)).with("median", text(median));
                        say("finding-changed-most", args.with("p", p.relation()))
                    }
                }
            }
            Finding::ChangedAt { places, .. } => say(key, args.with("places", sides(places, words))),
            Finding::Order { order, .. } => say(key, args.with("order", sides(order, words))),
            Finding::OrderOf { place, names: policies, held, turned, .. } => {
                let at = |(axis, value): &(String, String)| {
                    let args = Args::new().with("axis", inline(axis)).with("value", safe::text(value));
                    words.text("order-place", &args)
                };
                let pair = |(first, second): &(String, String)| {
                    let args = Args::new().with("first", safe::text(first)).with("second", safe::text(second));
                    words.text("order-pair", &args)
                };
                let place: Vec<String> = place.iter().map(at).collect();
                let turned: Vec<String> = turned.iter().map(pair).collect();
                let args = args.with("place", words.list(&place)).with("names", words.list(&texts(policies)));
                let key = match (turned.is_empty(), held) {
                    (true, true) => "finding-order-holds",
                    (true, false) => "finding-order-open",
                    (false, true) => "finding-order-holds-in-part",
                    (false, false) => "finding-order-turned",
                };
                say(key, args.with("turned", words.list(&turned)))
            }
            Finding::OneTraining { columns, identical, .. } => {
                let columns: Vec<String> = columns.iter().map(|name| inline(name)).collect();
                let args = args.with("columns", words.list(&columns));
                if *identical {
                    let told = [say("finding-identical", args), say("spread-identical", Args::new())];
                    return words.sentences(&told);
                }
                say(key, args)
            }
            Finding::Best { best, worst, .. } => {
                let side = |side: &Side| named(&side.name, &side.value, words);
                let told = say(key, args.with("best", side(best)).with("worst", side(worst)));
                let rivals = [best, worst].into_iter().filter_map(|side| side.ties(words));
                words.sentences(&std::iter::once(told).chain(rivals).collect::<Vec<_>>())
            }
            Finding::NoneDistinguished { best, worst, .. } => {
                let args = args.with("best", named(&best.0, &best.1, words));
                let args = args.with("worst", named(&worst.name, &worst.value, words));
                let args = args.with("by", worst.by.size(words));
                say(key, args.with("range", range(&worst.low, &worst.high)))
            }
            Finding::Alike { min, max, .. } => say(key, args.with("range", range(min, max))),
            Finding::Turns { turns, .. } => {
                let each: Vec<String> = turns
                    .iter()
                    .map(|turn| {
                        let args = Args::new().with("first", safe::text(&turn.first));
                        let args = args.with("second", safe::text(&turn.second));
                        let args = args.with("from", safe::text(&turn.from)).with("to", safe::text(&turn.to));
                        let two = |(a, b): &(Figure, Figure)| (a.show.number(a.value), b.text(words));
                        let ((a, b), (c, d)) = (two(&turn.before), two(&turn.after));
                        words.text("turn", &args.with("a", a).with("b", b).with("c", c).with("d", d))
                    })
                    .collect();
                let each = each.join(&words.word("mark-semicolon"));
                say("finding-turns", args.with("turns", each))
            }
            Finding::AtMost { parts, .. } => say(key, args.with("parts", words.list(&texts(parts)))),
            Finding::Packed { whole, part, min, max, foreign } => {
                let [from, to] = [min, max].map(|figure| figure.show.number(figure.value));
                let args = args.with("range", words.text("range", &Args::new().with("from", from).with("to", to)));
                let told = match (part, whole) {
                    (Some(PackedPart { compared, of, without }), _) => {
                        let [compared, of] = [compared, of].map(|count| count.text(words));
                        let args = args.with("compared", compared).with("of", of).count("n", without.len());
                        say("finding-packed-in-part", args.with("without", few(without, words)))
                    }
                    (None, Some(AllPacked { at_once, one_by_one, gain })) => {
                        let [packed, alone] = [at_once, one_by_one].map(|figure| figure.text(words));
                        let args = args.with("packed", packed).with("alone", alone);
                        let args = args.flag("pays", gain.value > 1.0 + SAME);
                        say("finding-packed", args.with("gain", gain.show.number(gain.value)))
                    }
                    (None, None) => say("finding-packed-in-runs", args),
                };
                let spoilt = foreign
                    .as_ref()
                    .map(|used| words.text("finding-packed-foreign", &Args::new().with("used", used.text(words))));
                words.sentences(&[told].into_iter().chain(spoilt).collect::<Vec<_>>())
            }
            Finding::Repeated { differs, min, max, p, .. } => {
                let key = if *differs { "finding-repeated-differs" } else { "finding-repeated-alike" };
                say(key, args.with("range", range(min, max)).with("p", p.relation()))
            }
            Finding::Trend { column, course, from, to, .. } => {
                let first = text(&from.1);
                if *course == Course::Constant && first == text(&to.1) {
                    return say("finding-time-same", args.with("time", inline(column)).with("range", first));
                }
                let key = match course {
                    Course::Rises => "finding-trend-up",
                    Course::Falls => "finding-trend-down",
                    Course::Varies => "finding-varies",
                    Course::Constant => "finding-constant",
                };
                say(key, pair(pair(args, "from", "first", from), "to", "last", to))
            }
            Finding::Winner {
                column,
                lower_is_better,
                point,
                value,
                next,
                worst,
                tied,
                test,
                identical,
                command,
                center,
                worse: others,
            } => {
                let lead = Lead::of(&value.show, value.value, next.1.value);
                let [best, second, by] = lead.texts(value.value, next.1.value, words);
                let order = match (next.1.value == value.value, second == best) {
                    (true, _) => "same",
                    (false, true) => "rounded",
                    (false, false) if *lower_is_better => "below",
                    (false, false) => "above",
                };
                let args = || Args::new().with("column", inline(column)).with("point", safe::text(point));
                let args = || args().with("value", &*best).with("next", safe::text(&next.0)).with("by", &*by);
                let args = || args().with("second", &*second).with("order", order).with("center", kind(center));
                let args = || args().count("tied", tied.len());
                let mut told = vec![match worst {
                    Some((worst, value)) => {
                        let args = args().with("worst", safe::text(worst)).with("last", value.text(words));
                        say("finding-winner-worst", args)
                    }
                    None => say("finding-winner", args()),
                }];
                let Some(test) = test else {
                    let key = match (tied.is_empty(), identical) {
                        (_, true) => "spread-identical",
                        (true, false) => "finding-winner-once",
                        (false, false) => "finding-winner-same",
                    };
                    // The first sentence has named a single point with the same value.
                    if key != "finding-winner-same" || tied.len() > 1 {
                        told.push(say(key, args().flag("command", *command)));
                    }
                    return words.sentences(&told);
                };
                let tested = || {
                    let of = args().flag("paired", test.paired).with("p", test.p.relation());
                    let tied = tied_with(tied, others, words);
                    of.count("runs", test.runs as usize).with("tied_with", tied)
                };
                told.push(say(if tied.is_empty() { "finding-winner-clear" } else { "finding-winner-tied" }, tested()));
                if tied.contains(&next.0) {
                    told.push(more_in_words(&next.0, test.more, words));
                }
                words.sentences(&told)
            }
            Finding::Depends { best, worst, next, .. } => {
                let args = pair(pair(args, "best", "value", best), "worst", "other", worst);
                say(key, args.with("second", inline(&next.0)).with("by", next.1.size(words)))
            }
            Finding::CostFree { cheaper, .. } => {
                let cheaper: Vec<String> = cheaper.iter().map(|name| inline(name)).collect();
                say(key, args.with("cheaper", words.list(&cheaper)))
            }
            Finding::Flattens { .. }
            | Finding::NoFall { .. }
            | Finding::StillFalling { .. }
            | Finding::MemoryNotFlat { .. } => say(key, args),
        }
    }
}

impl Side {
    /// The parts that cannot be distinguished from it, with how much more they have.
    fn ties(&self, words: Locale<'_>) -> Option<String> {
        let rival = |rival: &TiedPart| {
            if [&rival.by, &rival.low, &rival.high].into_iter().all(|figure| figure.show.reads_zero(figure.value)) {
                return words.text("rival-alike", &Args::new().with("name", safe::text(&rival.name)));
            }
            let args = Args::new().with("name", safe::text(&rival.name)).with("by", rival.by.text(words));
            words.text("rival", &args.with("range", span(&rival.low, &rival.high, true, words)))
        };
        let rivals: Vec<String> = self.peers.iter().map(rival).collect();
        let args = Args::new().with("name", safe::text(&self.name)).with("peers", words.list(&rivals));
        (!rivals.is_empty()).then(|| words.text("peers", &args))
    }
}
