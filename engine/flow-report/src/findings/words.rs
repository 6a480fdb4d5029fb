//! Findings as text. The catalogues hold the sentences; here each finding chooses one and its arguments.

use flow_core::Outcome;

use super::compare::is_told;
use super::phrases::{few, named, ratios, sides, span, texts};
use super::{AllPacked, Among, Borne, Bound, Course, Figure, Finding, PackedPart, Scoped, Side, TiedPart};
use crate::bounds::SAME;
use crate::format::term;
use crate::safe;
use crate::significance::MOST_RUNS;
use crate::table::Names;
use crate::words::{Args, Words};

impl Scoped {
    pub(crate) fn worded(&self, words: &Words, lang: &str, names: &Names<'_>) -> String {
        names.scoped(&self.scope, self.finding.worded(words, lang, names), lang)
    }
}

impl Finding {
    fn worded(&self, words: &Words, lang: &str, names: &Names<'_>) -> String {
        let inline = |name: &str| names.inline(name, lang);
        // A sentence that begins with a column's name begins with a capital letter.
        let say = |key: &str, args: Args| names.capital(words.text(lang, key, &args), lang);
        let args = Args::new();
        match self {
            Finding::Flattens { time, axis, at, value, rises, stops } => {
                let args = args
                    .with("time", inline(time))
                    .with("axis", inline(axis))
                    .with("at", safe::text(at))
                    .with("value", value.text(words, lang));
                match rises {
                    None => say(if *stops { "finding-flattens-stops" } else { "finding-flattens" }, args),
                    Some((later, to)) => say(
                        "finding-flattens-rises",
                        args.with("later", safe::text(later)).with("to", to.text(words, lang)),
                    ),
                }
            }
            Finding::NeverFalls { time, axis, at, value, rises } => {
                let args = args.with("time", inline(time)).with("axis", inline(axis)).with("at", safe::text(at));
                let args = args.with("value", value.text(words, lang));
                match rises {
                    None => say("finding-never-falls", args),
                    Some((later, to)) => say(
                        "finding-never-falls-rises",
                        args.with("later", safe::text(later)).with("to", to.text(words, lang)),
                    ),
                }
            }
            Finding::StillFalling { time, axis, at, value } => {
                let args = args.with("time", inline(time)).with("axis", inline(axis)).with("at", safe::text(at));
                say("finding-still-falling", args.with("value", value.text(words, lang)))
            }
            Finding::TimeFlat { time, axis, least, most } => {
                let range = span(least, most, true, words, lang);
                let one = least.show.as_read(least.value) == most.show.as_read(most.value);
                say(
                    if one { "finding-time-same" } else { "finding-time-flat" },
                    args.with("time", inline(time)).with("axis", inline(axis)).with("range", range),
                )
            }
            Finding::NoTrend { time, axis, least, most } => {
                let args = args.with("time", inline(time)).with("axis", inline(axis));
                say("finding-no-trend", args.with("range", span(least, most, true, words, lang)))
            }
            Finding::Uneven { time, axis, least, most } => {
                let args = args.with("time", inline(time)).with("axis", inline(axis));
                let args = args.with("low", safe::text(&least.0)).with("least", least.1.text(words, lang));
                let args = args.with("high", safe::text(&most.0)).with("most", most.1.text(words, lang));
                say("finding-uneven", args)
            }
            Finding::MemoryFaster { memory, time, axis, from, to, grows, falls } => {
                let args = args.with("memory", inline(memory)).with("time", inline(time)).with("axis", inline(axis));
                let args = args.with("from", safe::text(from)).with("to", safe::text(to));
                say(
                    "finding-memory-faster",
                    args.with("grows", grows.size(words, lang)).with("falls", falls.size(words, lang)),
                )
            }
            Finding::MemoryNotFlat { memory, axis, from, to, least, most } => {
                let args = args.with("memory", inline(memory)).with("axis", inline(axis));
                let args = args.with("from", safe::text(from)).with("to", safe::text(to));
                say(
                    "finding-memory-not-flat",
                    args.with("least", least.text(words, lang)).with("most", most.text(words, lang)),
                )
            }
            Finding::LoadGoes { load, axis, rises, from, to } => {
                let args = args.with("load", inline(load)).with("axis", inline(axis));
                let args = args.with("rises", if *rises { "yes" } else { "no" });
                let args = args.with("from", safe::text(&from.0)).with("first", from.1.text(words, lang));
                let args = args.with("to", safe::text(&to.0)).with("last", to.1.text(words, lang));
                say("finding-load-goes", args)
            }
            Finding::MemoryFlat { memory, axis, at, least, most } => {
                let args = args.with("memory", inline(memory)).with("axis", inline(axis)).with("at", safe::text(at));
                say("finding-memory-flat", args.with("range", span(least, most, true, words, lang)))
            }
            Finding::Frontier { axis, at, outcome, gpu, fits } => {
                let args = args.with("axis", inline(axis)).with("at", safe::text(at));
                let args = args.with(
                    "memory",
                    match (outcome, gpu) {
                        (Outcome::DoesNotFit, _) => "machine",
                        (_, true) => "gpu",
                        (_, false) => "host",
                    },
                );
                match fits {
                    None => say("finding-frontier-none", args),
                    Some((fits, None)) => say("finding-frontier", args.with("fits", safe::text(fits))),
                    Some((fits, Some(used))) => say(
                        "finding-frontier-used",
                        args.with("fits", safe::text(fits)).with("used", used.text(words, lang)),
                    ),
                }
            }
            Finding::Linear { column, axis, intercept, slope, r2 } => {
                let args = args.with("column", inline(column)).with("axis", inline(axis));
                let (sign, slope) = term(slope.text(words, lang));
                let args = args.with("intercept", intercept.text(words, lang)).with("sign", sign).with("slope", slope);
                say("finding-linear", args.with("r2", r2.text(words, lang)))
            }
            Finding::Jumps { column, axis, jumps, multiple } => {
                let each: Vec<String> = jumps
                    .iter()
                    .map(|(from, to, height)| {
                        let args = Args::new().with("from", safe::text(from)).with("to", safe::text(to));
                        words.text(lang, "jump", &args.with("height", height.text(words, lang)))
                    })
                    .collect();
                let args = args.with("column", inline(column)).with("axis", inline(axis));
                let args = args.with("jumps", words.list(lang, &each));
                match multiple {
                    Some(multiple) => say("finding-jumps-multiple", args.with("multiple", multiple.to_string())),
                    None => say("finding-jumps", args),
                }
            }
            Finding::Bound { by, least, most, cpus } => {
                let args = args.with("range", span(least, most, true, words, lang));
                match (by, cpus) {
                    (Bound::Gpu, _) => say("finding-bound-gpu", args),
                    (Bound::Cpu, None) => say("finding-bound-cpu", args),
                    (Bound::Cpu, Some((own, host))) => {
                        let args = args.count("own", *own as usize).count("host", *host as usize);
                        say("finding-bound-cpu-of", args)
                    }
                    (Bound::Data, _) => say("finding-bound-data", args),
                }
            }
            Finding::Ends { label, bursts, among, middle, ends } => {
                let args = args.with("label", safe::code(label)).with("middle", middle.text(words, lang));
                let args = args.with("ends", ends.text(words, lang));
                match (bursts, among) {
                    (false, _) => say("finding-no-bursts", args),
                    (true, Among::All) => say("finding-bursts", args.with("which", "every")),
                    (true, Among::Some) => say("finding-bursts", args.with("which", "some")),
                    (true, Among::One) => say("finding-bursts", args.with("which", "one")),
                }
            }
            Finding::Unchanged { column, a, b, most, one_way, least } => {
                let args = args.with("column", inline(column)).with("a", safe::text(a)).with("b", safe::text(b));
                if let Some(least) = least {
                    let (from, to) = if least.value < most.value { (least, most) } else { (most, least) };
                    return say("finding-mixed", args.with("range", span(from, to, true, words, lang)));
                }
                let args = args.with("most", most.bound(words, lang));
                let how = if !one_way {
                    "both"
                } else if most.value > 0.0 {
                    "rises"
                } else {
                    "falls"
                };
                match most.show.reads_zero(most.value) {
                    true => say("finding-unchanged", args),
                    false => say("finding-hardly-changed", args.with("how", how)),
                }
            }
            Finding::Agrees { column, most, as_given, of } => {
                let args = args.with("column", inline(column)).with("most", most.size(words, lang));
                let [as_given, of] = [as_given, of].map(|count| count.text(words, lang));
                say("finding-agrees", args.with("same", as_given).with("of", of))
            }
            Finding::Estimate { column, of, most, more } => {
                let args = args.with("column", inline(column)).with("of", inline(of));
                match more {
                    None => say("finding-estimate-one", args.with("most", most.text(words, lang))),
                    Some((least, typical)) => {
                        let range = span(least, most, true, words, lang);
                        say("finding-estimate", args.with("range", range).with("typical", typical.text(words, lang)))
                    }
                }
            }
            Finding::SameLearned { column, a, b, low, high } => {
                let args = args.with("column", inline(column)).with("a", safe::text(a)).with("b", safe::text(b));
                let args = args.with("told", if is_told(low, high) { "yes" } else { "no" });
                say("finding-same-learned", args.with("interval", span(low, high, true, words, lang)))
            }
            Finding::Undecided { column, a, b, mean, low, high, more } => {
                let args = args.with("column", inline(column)).with("a", safe::text(a)).with("b", safe::text(b));
                let args = args.with("mean", mean.text(words, lang));
                let args = args.with("interval", span(low, high, true, words, lang));
                let runs = match more {
                    Some(more) => say("finding-undecided-more", Args::new().count("more", *more as usize)),
                    None => say("finding-undecided-most", Args::new().count("most", MOST_RUNS as usize)),
                };
                words.sentences(lang, &[say("finding-undecided", args), runs])
            }
            Finding::LearnedChange { column, a, b, mean, low, high } => {
                let args = args.with("column", inline(column)).with("a", safe::text(a)).with("b", safe::text(b));
                let args = args.with("told", if is_told(low, high) { "yes" } else { "no" });
                let times = mean.show.ratio;
                let args = args.with("how", if times { "times" } else { "change" });
                let args = args.with(
                    "mean",
                    if times { ratios([mean, mean], false, words, lang) } else { mean.text(words, lang) },
                );
                say("finding-learned-change", args.with("interval", span(low, high, true, words, lang)))
            }
            Finding::Changed { column, a, b, rises, least, most, borne } => {
                let args = args.with("column", inline(column)).with("a", safe::text(a)).with("b", safe::text(b));
                let times = least.show.ratio;
                let range = match times {
                    true => ratios([least, most], names.is_time(column), words, lang),
                    false => span(least, most, false, words, lang),
                };
                let args = args.with("range", range);
                let args = args.with(
                    "how",
                    if times {
                        "times"
                    } else if *rises {
                        "rises"
                    } else {
                        "falls"
                    },
                );
                let text = |figure: &Figure| figure.text(words, lang);
                let every = |rows: &str| {
                    let args = Args::new().with("rows", rows);
                    match names.table.rows.as_slice() {
                        [axis] => words.text(lang, "where-axis", &args.with("axis", inline(axis))),
                        _ => words.text(lang, "where-rows", &args),
                    }
                };
                let some = |some: &Figure, rows: &Figure| match some.value == rows.value {
                    true if rows.value == 1.0 => every("one"),
                    true => every(if rows.value == 2.0 { "two" } else { "every" }),
                    false => {
                        words.text(lang, "where-some", &Args::new().with("some", text(some)).with("rows", text(rows)))
                    }
                };
                match borne {
                    Borne::OneRow => say("finding-changed", args),
                    Borne::Pair { paired, p } => {
                        let args = args.with("paired", if *paired { "yes" } else { "no" });
                        say("finding-changed-pair", args.with("p", p.relation()))
                    }
                    Borne::Two => say("finding-changed-few", args.with("where", every("two"))),
                    Borne::Few => say("finding-changed-few", args.with("where", every("every"))),
                    Borne::Tested { pairs, p } => {
                        let args = args.with("where", every("every")).with("pairs", text(pairs));
                        say("finding-changed-tested", args.with("p", p.relation()))
                    }
                    Borne::OneRun { some: n, rows, median } => {
                        let all = if n.value == rows.value { "yes" } else { "no" };
                        let args = args.with("where", some(n, rows)).with("median", text(median)).with("all", all);
                        say("finding-changed-once", args)
                    }
                    Borne::Most { some: n, rows, median, p } => {
                        let args = args.with("where", some(n, rows)).with("median", text(median));
                        say("finding-changed-most", args.with("p", p.relation()))
                    }
                }
            }
            Finding::ChangedAt { column, a, b, rises, axis, places } => {
                let args = args.with("column", inline(column)).with("a", safe::text(a)).with("b", safe::text(b));
                let args = args.with("rises", if *rises { "yes" } else { "no" }).with("axis", inline(axis));
                say("finding-changed-at", args.with("places", sides(places, words, lang)))
            }
            Finding::Order { column, order } => {
                say("finding-order", args.with("column", inline(column)).with("order", sides(order, words, lang)))
            }
            Finding::OrderOf { column, table, place, names: policies, held, turned } => {
                let at = |(axis, value): &(String, String)| {
                    let args = Args::new().with("axis", inline(axis)).with("value", safe::text(value));
                    words.text(lang, "order-place", &args)
                };
                let pair = |(first, second): &(String, String)| {
                    let args = Args::new().with("first", safe::text(first)).with("second", safe::text(second));
                    words.text(lang, "order-pair", &args)
                };
                let place: Vec<String> = place.iter().map(at).collect();
                let turned: Vec<String> = turned.iter().map(pair).collect();
                let policies: Vec<String> = policies.iter().map(|name| safe::text(name)).collect();
                let args = args.with("column", inline(column)).with("table", safe::code(table));
                let args = args.with("place", words.list(lang, &place)).with("names", words.list(lang, &policies));
                let key = match (turned.is_empty(), held) {
                    (true, true) => "finding-order-holds",
                    (true, false) => "finding-order-open",
                    (false, true) => "finding-order-holds-in-part",
                    (false, false) => "finding-order-turned",
                };
                say(key, args.with("turned", words.list(lang, &turned)))
            }
            Finding::OneTraining { columns, a, b, identical } => {
                let columns: Vec<String> = columns.iter().map(|name| inline(name)).collect();
                let args = args.with("columns", words.list(lang, &columns));
                let args = args.with("a", safe::text(a)).with("b", safe::text(b));
                if *identical {
                    let told = [say("finding-identical", args), say("spread-identical", Args::new())];
                    return words.sentences(lang, &told);
                }
                say("finding-one-training", args)
            }
            Finding::Best { column, axis, at, best, worst } => {
                let args = args.with("column", inline(column)).with("axis", inline(axis)).with("at", safe::text(at));
                let side = |side: &Side| named(&side.name, &side.value, words, lang);
                let told = say("finding-best", args.with("best", side(best)).with("worst", side(worst)));
                let rivals = [best, worst].into_iter().filter_map(|side| side.rivals(words, lang));
                words.sentences(lang, &std::iter::once(told).chain(rivals).collect::<Vec<_>>())
            }
            Finding::NoneTold { column, split, axis, at, best, worst } => {
                let args = args.with("column", inline(column)).with("axis", inline(axis)).with("at", safe::text(at));
                let args = args.with("split", inline(split)).with("best", named(&best.0, &best.1, words, lang));
                let args = args.with("worst", named(&worst.name, &worst.value, words, lang));
                let args = args.with("by", worst.by.size(words, lang));
                say("finding-none-told", args.with("range", span(&worst.low, &worst.high, true, words, lang)))
            }
            Finding::Alike { column, split, axis, at, apart, least, most } => {
                let range = span(least, most, true, words, lang);
                let args = args.with("column", inline(column)).with("axis", inline(axis)).with("at", safe::text(at));
                let args = args.with("split", inline(split)).with("range", range);
                say("finding-alike", args.with("apart", apart.text(words, lang)))
            }
            Finding::Turns { column, axis, turns } => {
                let each: Vec<String> = turns
                    .iter()
                    .map(|turn| {
                        let args = Args::new().with("first", safe::text(&turn.first));
                        let args = args.with("second", safe::text(&turn.second));
                        let args = args.with("from", safe::text(&turn.from)).with("to", safe::text(&turn.to));
                        let two = |(a, b): &(Figure, Figure)| (a.show.number(a.value), b.text(words, lang));
                        let ((a, b), (c, d)) = (two(&turn.before), two(&turn.after));
                        words.text(lang, "turn", &args.with("a", a).with("b", b).with("c", c).with("d", d))
                    })
                    .collect();
                let each = each.join(&words.word(lang, "mark-semicolon"));
                say("finding-turns", args.with("column", inline(column)).with("axis", inline(axis)).with("turns", each))
            }
            Finding::AtMost { column, axis, at, parts, most } => {
                let args = args.with("column", inline(column)).with("parts", words.list(lang, &texts(parts)));
                let args = args.with("axis", inline(axis)).with("at", safe::text(at));
                say("finding-at-most", args.with("most", most.text(words, lang)))
            }
            Finding::Packed { whole, part, least, most, foreign } => {
                let [from, to] = [least, most].map(|figure| figure.show.number(figure.value));
                let args =
                    args.with("range", words.text(lang, "range", &Args::new().with("from", from).with("to", to)));
                let told = match (part, whole) {
                    (Some(PackedPart { compared, of, without }), _) => {
                        let [compared, of] = [compared, of].map(|count| count.text(words, lang));
                        let args = args.with("compared", compared).with("of", of).count("n", without.len());
                        say("finding-packed-in-part", args.with("without", few(without, words, lang)))
                    }
                    (None, Some(AllPacked { at_once, one_by_one, gain })) => {
                        let [packed, alone] = [at_once, one_by_one].map(|figure| figure.text(words, lang));
                        let pays = if gain.value > 1.0 + SAME { "yes" } else { "no" };
                        let args = args.with("packed", packed).with("alone", alone).with("pays", pays);
                        say("finding-packed", args.with("gain", gain.show.number(gain.value)))
                    }
                    (None, None) => say("finding-packed-in-runs", args),
                };
                let spoilt = foreign.as_ref().map(|used| {
                    words.text(lang, "finding-packed-foreign", &Args::new().with("used", used.text(words, lang)))
                });
                words.sentences(lang, &[told].into_iter().chain(spoilt).collect::<Vec<_>>())
            }
            Finding::Repeated { column, axis, differs, least, most, p, paired } => {
                let key = if *differs { "finding-repeated-differs" } else { "finding-repeated-alike" };
                let args = args.with("column", inline(column)).with("axis", inline(axis));
                let range = span(least, most, true, words, lang);
                let args = args.with("paired", if *paired { "yes" } else { "no" });
                say(key, args.with("range", range).with("p", p.relation()))
            }
            Finding::Goes { column, axis, course, from, to } => {
                let args = args.with("column", inline(column)).with("axis", inline(axis));
                let end = |(at, figure): &(String, Figure)| (safe::text(at), figure.text(words, lang));
                let ((from, first), (to, last)) = (end(from), end(to));
                if *course == Course::Stays && first == last {
                    return say("finding-time-same", args.with("time", inline(column)).with("range", first));
                }
                let key = match course {
                    Course::Rises => "finding-goes-up",
                    Course::Falls => "finding-goes-down",
                    Course::Varies => "finding-varies",
                    Course::Stays => "finding-stays",
                };
                say(key, args.with("from", from).with("first", first).with("to", to).with("last", last))
            }
            Finding::Winner { column, point, value, next, worst, tied, test, identical, command, center, .. } => {
                let args = || Args::new().with("column", inline(column)).with("point", safe::text(point));
                let args = || args().with("value", value.text(words, lang)).with("next", safe::text(&next.0));
                let (best, second) = (value.text(words, lang), next.1.text(words, lang));
                let same = match (next.1.value == value.value, second == best) {
                    (true, _) => "yes",
                    (false, true) => "rounded",
                    (false, false) => "no",
                };
                let args = || args().with("second", &*second).with("same", same).with("center", center.key());
                let args = || args().count("tied", tied.len());
                let mut told = vec![match worst {
                    Some((worst, value)) => {
                        let args = args().with("worst", safe::text(worst)).with("last", value.text(words, lang));
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
                        told.push(say(key, args().with("command", if *command { "yes" } else { "no" })));
                    }
                    return words.sentences(lang, &told);
                };
                let tested = || {
                    let of = args().with("paired", if test.paired { "yes" } else { "no" }).with("p", test.p.relation());
                    let furthest = test.furthest.as_ref().map(|by| by.text(words, lang)).unwrap_or_default();
                    of.count("runs", test.runs as usize).with("furthest", furthest)
                };
                told.push(say(if tied.is_empty() { "finding-winner-clear" } else { "finding-winner-tied" }, tested()));
                if let Some(more) = test.more {
                    told.push(say("finding-winner-more", args().count("more", more as usize)));
                }
                words.sentences(lang, &told)
            }
            Finding::Depends { column, axis, best, worst, next } => {
                let args = args.with("column", inline(column)).with("axis", inline(axis));
                let args = args.with("best", safe::text(&best.0)).with("value", best.1.text(words, lang));
                let args = args.with("worst", safe::text(&worst.0)).with("other", worst.1.text(words, lang));
                let args = args.with("second", inline(&next.0)).with("by", next.1.size(words, lang));
                say("finding-depends", args)
            }
            Finding::CostFree { accuracy, a, b, cheaper, better } => {
                let cheaper: Vec<String> = cheaper.iter().map(|name| inline(name)).collect();
                let args = args.with("accuracy", inline(accuracy)).with("a", safe::text(a)).with("b", safe::text(b));
                let args = args.with("better", if *better { "yes" } else { "no" });
                say("finding-cost-free", args.with("cheaper", words.list(lang, &cheaper)))
            }
        }
    }
}

impl Side {
    /// The parts that cannot be distinguished from it, with how much more they have.
    fn rivals(&self, words: &Words, lang: &str) -> Option<String> {
        let rival = |rival: &TiedPart| {
            if [&rival.by, &rival.low, &rival.high].into_iter().all(|figure| figure.show.reads_zero(figure.value)) {
                return words.text(lang, "rival-alike", &Args::new().with("name", safe::text(&rival.name)));
            }
            let args = Args::new().with("name", safe::text(&rival.name)).with("by", rival.by.text(words, lang));
            words.text(lang, "rival", &args.with("range", span(&rival.low, &rival.high, true, words, lang)))
        };
        let rivals: Vec<String> = self.rivals.iter().map(rival).collect();
        let args = Args::new().with("name", safe::text(&self.name)).with("rivals", words.list(lang, &rivals));
        (!rivals.is_empty()).then(|| words.text(lang, "rivals", &args))
    }
}
