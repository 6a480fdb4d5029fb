//! Bars of co-run groups and of packed runs. The drawing is in `chart`.

use super::model::Section;
use crate::chart;
use crate::findings::Member;
use crate::format::Format;
use crate::safe;
use crate::table::{Content, Names, content, earlier};
use crate::verdict::GroupVerdict;
use crate::words::Locale;

/// A time as a bar, in the unit of its chart.
fn bar(time: f64, ends: Option<(f64, f64)>, show: &Format) -> chart::Bar {
    let ends = ends.map(|(low, high)| (low * show.factor, high * show.factor));
    chart::Bar { value: Some(time * show.factor), ends, text: show.cell(time) }
}

/// Each member of the groups alone, as predicted and together, with earlier figures. Also whether any member ran
/// several times.
pub(super) fn together(section: &Section, names: &Names<'_>) -> Option<(String, bool)> {
    let words = names.words;
    let members = || section.together.iter().flat_map(|g| &g.members);
    let first = members().next()?;
    let measured = members().flat_map(|m| [m.alone, m.predicted, m.together]).flatten();
    let show = Format::for_unit("s", measured);
    if members().all(|m| m.alone.is_none() || m.together.is_none()) {
        return None;
    }
    // Axes with the same value for all members are left out of the names.
    let differs = |axis: &&String| members().any(|m| m.axes.get(*axis) != first.axes.get(*axis));
    let differing: Vec<&String> = first.axes.keys().filter(differs).collect();
    let then = |group: &GroupVerdict, member: &crate::verdict::Member| {
        let earlier = group.earlier.as_deref()?;
        earlier.members.iter().find(|then| then.axes == member.axes).cloned()
    };
    let missing = |label: &str| chart::Bar { value: None, ends: None, text: why_none(section, label, words) };
    let mut rows = Vec::new();
    for (group, member) in section.together.iter().flat_map(|g| g.members.iter().map(move |m| (g, m))) {
        let values = differing.iter().filter_map(|axis| member.axes.get(*axis));
        let point: Vec<String> = values.map(crate::columns::written).collect();
        let then = then(group, member);
        let of_then = |time: Option<f64>| time.map(|time| bar(time, None, &show));
        let times = [
            Some(member.alone.map_or_else(|| missing(&member.label), |time| bar(time, member.alone_ends, &show))),
            of_then(then.as_ref().and_then(|then| then.alone)),
            member.predicted.map(|time| bar(time, None, &show)),
            Some(member.together.map_or_else(|| missing(&member.label), |time| bar(time, member.together_ends, &show))),
            of_then(then.as_ref().and_then(|then| then.together)),
        ];
        rows.push((point.join(" "), times));
    }
    let earlier = |key: &str| {
        let then = safe::plain(&earlier(&section.table, words));
        words.word(key) + &words.word("mark-comma") + &then
    };
    let series = [
        (chart::Kind::Alone, false, words.word("chart-alone")),
        (chart::Kind::Alone, true, earlier("chart-alone")),
        (chart::Kind::Predicted, false, words.word("chart-predicted")),
        (chart::Kind::Together, false, words.word("chart-together")),
        (chart::Kind::Together, true, earlier("chart-together")),
    ];
    // Predictions and earlier figures are shown only if all members have them.
    let known: Vec<bool> = (0..series.len()).map(|at| rows.iter().all(|(_, times)| times[at].is_some())).collect();
    let series = series.into_iter().zip(&known).filter(|(_, known)| **known);
    let series: Vec<chart::Series> =
        series.map(|((kind, earlier, name), _)| chart::Series { name, kind, earlier }).collect();
    let shown = |times: [Option<chart::Bar>; 5]| {
        times.into_iter().zip(&known).filter(|(_, known)| **known).filter_map(|(bar, _)| bar).collect::<Vec<_>>()
    };
    let bars: Vec<(String, Vec<chart::Bar>)> = rows.into_iter().map(|(name, times)| (name, shown(times))).collect();
    let repeated = bars.iter().flat_map(|(_, times)| times).any(|bar| bar.ends.is_some());
    let measure = section.together.first()?.measure.clone();
    let x = axes(&differing, names);
    let y = names.plain(&measure) + &unit(&show);
    let labels = chart::Labels { x, y, ..chart::Labels::default() };
    Some((chart::bars(&bars, &series, &labels), repeated))
}

/// The reason why a member has no time: its outcome, if the table shows it.
fn why_none(section: &Section, label: &str, words: Locale<'_>) -> String {
    let cells =
        section.table.body.iter().flat_map(|row| &row.cells).filter(|cell| cell.of.iter().any(|of| of == label));
    let mut ended = cells.filter(|cell| matches!(cell.content, Content::Outcome { .. }));
    let why = ended.next().map(|cell| content(&cell.content, &Format::default(), words));
    why.map_or_else(|| words.word("chart-no-result"), |why| safe::plain(&why))
}

/// Packed runs: each member alone and packed.
pub(super) fn packed(section: &Section, names: &Names<'_>) -> Option<String> {
    let words = names.words;
    let packed = section.packed.as_ref()?;
    let show = Format::for_unit("s", packed.members.iter().flat_map(|m| [m.alone, m.packed]));
    let times = |m: &Member| [m.alone, m.packed].map(|time| bar(time, None, &show)).to_vec();
    // The longest member comes first.
    let mut members: Vec<&Member> = packed.members.iter().collect();
    members.sort_by(|a, b| b.packed.total_cmp(&a.packed));
    let bars: Vec<(String, Vec<chart::Bar>)> = members.into_iter().map(|m| (m.point.join(" "), times(m))).collect();
    let (x, y) = (axes(&packed.axes, names), names.plain("wall") + &unit(&show));
    let labels = chart::Labels { x, y, ..chart::Labels::default() };
    let series = |kind: chart::Kind, key: &str| chart::Series { name: words.word(key), kind, earlier: false };
    let series = [series(chart::Kind::Alone, "chart-alone"), series(chart::Kind::Together, "chart-packed")];
    Some(chart::bars(&bars, &series, &labels))
}

/// The label of the x axis for several axes.
fn axes<S: AsRef<str>>(axes: &[S], names: &Names<'_>) -> String {
    let name = |axis: &S| names.plain(axis.as_ref());
    axes.iter().map(name).collect::<Vec<_>>().join(&names.words.word("mark-comma"))
}

/// The unit as part of an axis label.
pub(super) fn unit(show: &Format) -> String {
    match show.unit.as_str() {
        "" => String::new(),
        unit => format!(" ({unit})"),
    }
}
