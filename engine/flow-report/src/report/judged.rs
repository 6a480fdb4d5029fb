//! The results of co-run groups in sentences: the verdict, how often it was measured, and which resources had too much
//! demand.

use super::gains::{change_of, share, slowdowns, times_of};
use crate::format::Format;
use crate::safe;
use crate::table::name;
use crate::verdict::{GroupVerdict, Refusal, Resource, ResourceVerdict, Ruling, Verdict};
use crate::words::{Args, Locale, fields};

/// Gains that differ by less than this share read alike.
const READ_ALIKE: f64 = 0.005;

pub(super) fn verdict_key(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Parallel => "verdict-parallel",
        Verdict::OnlyConcurrent => "verdict-only-concurrent",
        Verdict::NoGain => "verdict-no-gain",
        Verdict::SlowerThanOneAfterAnother => "verdict-slower",
        Verdict::TooNoisy | Verdict::ForeignCpu { .. } => "verdict-too-noisy",
        Verdict::NotEnoughOverlap { .. } => "verdict-overlap",
        Verdict::OutOfMemory { .. } => "verdict-out-of-memory",
        Verdict::Refused { .. } => "verdict-refused",
    }
}

/// The result of each group, in sentences.
pub(crate) fn sentences(groups: &[GroupVerdict], words: Locale<'_>) -> Vec<String> {
    let show = slowdowns(groups);
    groups.iter().map(|group| words.sentences(&in_full(group, &show, words))).collect()
}

fn in_full(group: &GroupVerdict, show: &Format, words: Locale<'_>) -> Vec<String> {
    let mut out = vec![judged(group, show, words)];
    out.extend(more_cpus(group, words));
    out.extend(more_than_possible(group, words));
    out.extend(left_out(group, words));
    out.extend(looked(group, words));
    out.extend(RULINGS.iter().filter_map(|(key, ruled)| rulings(group, key, ruled, words)));
    out
}

/// A note for a gain that CPUs limit: a member alone had fewer CPUs than all members used together. It says whether the
/// gain exceeds the effect of these CPUs.
fn more_cpus(group: &GroupVerdict, words: Locale<'_>) -> Option<String> {
    let (gain, times) = group.gain.filter(|_| group.verdict == Verdict::OnlyConcurrent).zip(group.more_cpus)?;
    group.rulings.iter().find(|r| r.resource == Resource::Cpu && r.ruled == ResourceVerdict::In)?;
    // The part of a gain that exceeds these CPUs may be noise.
    let more = gain.0 - gain.1.unwrap_or(0.0) > times;
    Some(words.text("together-more-cpus", &Args::new().flag("more", more)))
}

/// The largest gain that the CPUs allow, if the measured one exceeds it and either the group is decided or not even the
/// interval holds it.
fn possible(group: &GroupVerdict) -> Option<f64> {
    let (most, (gain, half)) = group.possible.zip(group.gain)?;
    let impossible = gain - half.unwrap_or(0.0) > most;
    let decided = !group.verdict.is_undecided() && gain > most * (1.0 + READ_ALIKE);
    (impossible || decided).then_some(most)
}

/// A note if the gain is more than the CPUs allow.
fn more_than_possible(group: &GroupVerdict, words: Locale<'_>) -> Option<String> {
    let most = Format::times().number(possible(group)?);
    Some(words.text("together-possible", &Args::new().with("most", most)))
}

/// A note if some repetitions do not count, with the reasons.
fn left_out(group: &GroupVerdict, words: Locale<'_>) -> Vec<String> {
    if group.left_out.is_empty() || group.looks < 2 {
        return Vec::new();
    }
    let args = Args::new().count("looks", group.looks as usize).count("counted", group.counted() as usize);
    let mut out = vec![words.text("together-left-out", &args)];
    // If no repetition counts, the verdict has already said why.
    let reasons = if group.counted() == 0 { &[][..] } else { &group.left_out[..] };
    let disturbed = reasons.iter().flatten().filter_map(|why| match why {
        Verdict::ForeignCpu { label, used } => Some((label, *used)),
        _ => None,
    });
    out.extend(disturbed.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(label, used)| {
        let used = words.figure(&Format::for_unit("ratio", std::iter::once(used)), used);
        words.text("left-out-foreign", &Args::new().with("label", safe::code(label)).with("used", used))
    }));
    let of_one = |key: &str, label: &str| words.text(key, &Args::new().with("label", safe::code(label)));
    let others = reasons.iter().filter_map(|why| match why {
        None => Some(words.word("left-out-incomplete")),
        Some(Verdict::NotEnoughOverlap { label }) => Some(of_one("left-out-overlap", label)),
        Some(Verdict::OutOfMemory { label }) => Some(of_one("left-out-out-of-memory", label)),
        Some(Verdict::Refused { refusal }) => Some(refused(refusal, words)),
        Some(_) => None,
    });
    // One example shows the kind.
    out.extend(others.take(1));
    out
}

/// How often the group was measured, and how many more times are needed if that is not enough.
fn looked(group: &GroupVerdict, words: Locale<'_>) -> Option<String> {
    let args = Args::new().count("looks", group.counted() as usize);
    match (group.verdict.is_undecided(), group.more) {
        (true, Some(more)) => {
            let most = (group.looks + more).to_string();
            Some(words.text("together-more", &args.count("more", more as usize).with("most", most)))
        }
        (true, None) if group.gain.is_some() => Some(words.text("together-undecidable", &args)),
        (false, _) if group.looks > 1 && group.left_out.is_empty() && group.gain.is_some() => {
            Some(words.text("together-looks", &args))
        }
        _ => None,
    }
}

/// The verdict of a group as an answer: the recommendation, the verdict, its cost, and the limit.
pub(super) fn answer(group: &GroupVerdict, words: Locale<'_>) -> String {
    let said: Vec<String> = [headline(group, words)].into_iter().chain(limits(group, words)).collect();
    words.sentences(&said)
}

/// The limit of a group that is slower than alone, if it is known.
pub(super) fn limits(group: &GroupVerdict, words: Locale<'_>) -> Option<String> {
    let mut out = Vec::from_iter(more_cpus(group, words));
    out.extend(more_than_possible(group, words));
    let limit = limiting(group, words).filter(|_| group.slower);
    out.extend(limit.map(|limit| words.text("answer-limit", &Args::new().with("limit", limit))));
    (!out.is_empty()).then(|| words.sentences(&out))
}

/// The answer without the limit.
pub(super) fn headline(group: &GroupVerdict, words: Locale<'_>) -> String {
    let name = || Args::new().with("group", safe::text(&group.group)).count("members", group.members.len());
    let gain = group.gain.map(|gain| times_of(gain, Format::number)).unwrap_or_default();
    let worst = worst(group, words).unwrap_or_default();
    let longest = slowest(group).map(|slower| Format::times().number(1.0 + slower)).unwrap_or_default();
    let args = || name().with("gain", gain.clone()).with("worst", worst.clone()).with("longest", longest.clone());
    let say = |key: &str| words.text(key, &args());
    let none_slower = group.members.iter().filter_map(|m| group.slowdown(m)).all(|(slower, _)| slower <= 0.0);
    match &group.verdict {
        Verdict::Parallel if none_slower => say("answer-none-slower"),
        Verdict::Parallel => say("answer-parallel"),
        Verdict::OnlyConcurrent => say("answer-only-concurrent"),
        Verdict::NoGain => say("answer-no-gain"),
        Verdict::SlowerThanOneAfterAnother => say("answer-slower"),
        Verdict::TooNoisy => {
            let looks = args().count("looks", group.counted() as usize);
            match group.more {
                Some(more) => words.text("answer-undecided-more", &looks.count("more", more as usize)),
                None => words.text("answer-undecided", &looks),
            }
        }
        // The whole answer is bold.
        _ => judged(group, &slowdowns(std::slice::from_ref(group)), words).replace("**", ""),
    }
}

/// The verdict with the throughput, for a cell.
pub(super) fn brief(group: &GroupVerdict, words: Locale<'_>) -> String {
    let verdict = words.word(verdict_key(&group.verdict));
    match group.gain {
        Some((gain, _)) => format!("{verdict}{}{}", words.word("mark-comma"), Format::times().cell(gain)),
        None => verdict,
    }
}

/// The slowdown of the slowest member: `2%`, `2.2×`.
pub(super) fn worst(group: &GroupVerdict, words: Locale<'_>) -> Option<String> {
    let worst = slowest(group)?;
    let show = Format { signed: false, ..Format::changes(std::iter::once(worst)) };
    Some(match show.ratio {
        true => words.text("unit-times", &Args::new().with("n", Format::times().number(1.0 + worst))),
        false => words.figure(&show, worst),
    })
}

/// The slowdown of the slowest member as a share; 0 if none is slower.
fn slowest(group: &GroupVerdict) -> Option<f64> {
    let slower = group.members.iter().filter_map(|m| Some(group.slowdown(m)?.0));
    Some(slower.max_by(f64::total_cmp)?.max(0.0))
}

/// `GPU (demand 297%, used 100%)`: the resources that limit a group.
pub(super) fn limiting(group: &GroupVerdict, words: Locale<'_>) -> Option<String> {
    let mut limits = group.rulings.iter().filter(|ruling| ruling.ruled == ResourceVerdict::In);
    // Waiting for data is the effect of too few CPUs.
    let cpu =
        group.rulings.iter().any(|ruling| ruling.ruled == ResourceVerdict::In && ruling.resource == Resource::Cpu);
    limits.find(|ruling| !(cpu && ruling.resource == Resource::Data)).map(|of| ruling(of, words))
}

/// The messages that list resources, each with the rulings that it covers.
const RULINGS: [(&str, &[ResourceVerdict]); 4] = [
    ("rulings-in", &[ResourceVerdict::In]),
    ("rulings-out", &[ResourceVerdict::Out, ResourceVerdict::OutOwn]),
    ("rulings-unclear", &[ResourceVerdict::Unclear]),
    ("rulings-unmeasured", &[ResourceVerdict::NotMeasured]),
];

pub(super) fn judged(group: &GroupVerdict, show: &Format, words: Locale<'_>) -> String {
    let verdict = words.word(verdict_key(&group.verdict));
    let args = || Args::new().with("group", safe::text(&group.group)).with("verdict", verdict.clone());
    // Without repetitions, the interval of a slowdown is too uncertain to appear next to that of a gain.
    let by_gain = match &group.verdict {
        Verdict::OnlyConcurrent | Verdict::NoGain | Verdict::SlowerThanOneAfterAnother => true,
        Verdict::TooNoisy => group.slower,
        _ => false,
    };
    let sure = group.repeated || !by_gain;
    let mut slow: Vec<(f64, Option<f64>)> = group.members.iter().filter_map(|m| group.slowdown(m)).collect();
    slow.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, most) = (slow.first().copied().unwrap_or_default(), slow.last().copied().unwrap_or_default());
    let unsigned = Format { signed: false, ..show.clone() };
    let figure = |show: &Format, slower: (f64, Option<f64>)| {
        let whole = match show.ratio {
            true => times_of((1.0 + slower.0, slower.1), Format::number),
            false => words.typeset(&change_of(slower, show)),
        };
        // The digits are the same as in the table.
        if sure { whole } else { whole.split(" ±").next().unwrap_or_default().to_owned() }
    };
    // Some members may be faster.
    let faster = least.0 < 0.0 && !show.reads_zero(least.0) && !show.ratio;
    let of_both = |show: &Format| {
        // If both ends read the same, they have the larger uncertainty of the two.
        if figure(show, (least.0, None)) == figure(show, (most.0, None)) {
            return figure(show, (most.0, slow.iter().filter_map(|(_, half)| *half).reduce(f64::max)));
        }
        let (from, to) = (figure(show, least), figure(show, most));
        let key = if sure && least.1.or(most.1).is_some() { "range-sure" } else { "range" };
        words.text(key, &Args::new().with("from", from).with("to", to))
    };
    let range = of_both(if faster { show } else { &unsigned });
    let longer = match faster {
        true => {
            let args = Args::new().with("less", figure(&unsigned, (least.0.abs(), least.1)));
            words.text("longer-or-less", &args.with("longer", figure(&unsigned, most)))
        }
        false => {
            let key = if show.ratio { "longer-in-times" } else { "longer" };
            words.text(key, &Args::new().with("range", range.clone()))
        }
    };
    let none_slower = !slow.is_empty() && (most.0 <= 0.0 || figure(show, most) == figure(show, (0.0, most.1)));
    let most = figure(&unsigned, most);
    let gain = group.gain.map(|gain| times_of(gain, Format::number)).unwrap_or_default();
    let args = args().with("longer", longer).with("gain", gain).with("range", range).flag("times", show.ratio);
    let (key, args) = match &group.verdict {
        Verdict::Parallel if none_slower => ("no-slower", args),
        Verdict::Parallel => {
            ("parallel", args.with("most", most).with("tolerance", words.figure(&share(), group.tolerance)))
        }
        Verdict::OnlyConcurrent => ("only-concurrent", args),
        Verdict::NoGain => ("no-gain", args),
        Verdict::SlowerThanOneAfterAnother => ("slower-than", args),
        Verdict::TooNoisy if group.slower => {
            ("noisy-gain", args.with("why", if possible(group).is_some() { "impossible" } else { "noise" }))
        }
        Verdict::TooNoisy => ("noisy", args),
        Verdict::ForeignCpu { label, used } => {
            let used = words.figure(&Format::for_unit("ratio", [*used].into_iter()), *used);
            ("foreign", args.with("label", safe::code(label)).with("used", used))
        }
        Verdict::NotEnoughOverlap { label } => ("overlap", args.with("label", safe::code(label))),
        Verdict::OutOfMemory { label } => ("out-of-memory", args.with("label", safe::code(label))),
        Verdict::Refused { refusal } => ("refused", args.with("why", refused(refusal, words))),
    };
    words.text(&format!("together-{key}"), &args)
}

/// The resources with one of these rulings.
fn rulings(group: &GroupVerdict, key: &str, ruled: &[ResourceVerdict], words: Locale<'_>) -> Option<String> {
    // If nothing is slower, there is nothing to explain, and the note lists only free resources.
    let free = group.verdict == Verdict::Parallel && key == "rulings-out";
    if !group.slower && !free {
        return None;
    }
    // Waiting for data is not a resource that can be free.
    let of = |r: &&Ruling| ruled.contains(&r.ruled) && (group.slower || r.resource != Resource::Data);
    let (own, others): (Vec<&Ruling>, Vec<&Ruling>) =
        group.rulings.iter().filter(of).partition(|r| r.ruled == ResourceVerdict::OutOwn);
    let others: Vec<String> = others.iter().map(|r| ruling(r, words)).collect();
    let mut list = Vec::from_iter((!others.is_empty()).then(|| words.list(&others)));
    // Resources that each member has for itself are listed together.
    if !own.is_empty() {
        let own: Vec<String> = own.iter().map(|r| resource(r, words)).collect();
        list.push(words.text("ruling-own", &Args::new().with("what", words.list(&own))));
    }
    let list = list.join(&words.word("mark-semicolon"));
    let key = if group.slower { key } else { "rulings-free" };
    (!list.is_empty()).then(|| words.text(key, &Args::new().with("list", list)))
}

fn resource(ruling: &Ruling, words: Locale<'_>) -> String {
    words.word(&format!("resource-{}", ruling.resource.key()))
}

fn ruling(ruling: &Ruling, words: Locale<'_>) -> String {
    let what = resource(ruling, words);
    let args = Args::new().with("what", what.clone());
    let figure = |v: f64| words.figure(&share(), v);
    match (ruling.demand, ruling.alone, ruling.used) {
        (Some(asked), Some(alone), _) => {
            words.text("ruling-change", &args.with("alone", figure(alone)).with("together", figure(asked)))
        }
        // The sum of means over slightly different windows can exceed 100%, but use cannot.
        (Some(asked), None, Some(used)) => {
            let used = figure(used.min(1.0));
            words.text("ruling-used", &args.with("demand", figure(asked)).with("used", used))
        }
        (Some(asked), None, None) => words.text("ruling-demand", &args.with("demand", figure(asked))),
        (None, ..) => what,
    }
}

fn refused(refusal: &Refusal, words: Locale<'_>) -> String {
    let (kind, args) = fields(refusal, "why", |field, value| {
        let text = value.as_str()?;
        Some(match field {
            "label" => safe::code(text),
            "what" => crate::table::inline(&name(text, words), words),
            _ => safe::text(text),
        })
    });
    let args = match refusal {
        Refusal::NotAlone { beside, .. } => {
            // A few examples show the kind, and the exact number does not matter.
            let some: Vec<String> = beside.iter().take(3).map(|label| safe::code(label)).collect();
            let list = if beside.len() > some.len() { some.join(", ") + ", …" } else { words.list(&some) };
            args.with("others", list)
        }
        Refusal::Ended { outcome, .. } => {
            args.with("how", words.text(&format!("outcome-{outcome}"), &Args::new().with("gpu", "no")))
        }
        Refusal::Disturbed { reasons, .. } => args.with("why", words.reasons().all_disturbed(reasons)),
        _ => args,
    };
    words.text(&format!("refused-{kind}"), &args)
}
