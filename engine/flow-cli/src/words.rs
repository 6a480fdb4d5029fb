//! Formats numbers, times and lists for people.

use std::{borrow::Borrow, fmt::Display};

use flow_core::{Outcome, Revision, RunId};
use jiff::{Timestamp, tz::TimeZone};

use crate::terminal;

/// `40 ms`, `9.8 s`, `41 s`, `3 min 12 s`, `2 h 05 min`, `3 d 4 h`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 0.995 => format!("{:.0} ms", seconds.max(0.0) * 1e3),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// Time on a clock face: `0:41`, `12:05`, `1:02:05`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole % 3600 / 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// A result that is reused although it was read differently before.
pub(crate) const READ_AGAIN: &str = "read again from the stored output";

/// `512 B`, `1.5 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

/// A local date and time, to the second: `2026-02-08 15:30:12`.
pub(crate) fn date(unix_millis: u64, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(unix_millis as i64).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime("%F %T").to_string()
}

/// A local time of day: `15:30`.
pub(crate) fn time_of_day(unix_millis: u64, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(unix_millis as i64).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime("%H:%M").to_string()
}

/// `1 step`, `3 steps`.
pub(crate) fn count(n: usize, singular: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{} {singular}s", thousands(n)) }
}

/// The end of a run's id, which commands take too: `3f2a`.
pub(crate) fn end(run: &RunId) -> &str {
    run.0.rsplit('-').next().unwrap_or(&run.0)
}

/// `1a2b3c4, with changes not committed`.
pub(crate) fn revision(revision: &Revision) -> String {
    let changes = if revision.dirty { ", with changes not committed" } else { "" };
    let outside = if revision.outside { ", with inputs that are not in Git" } else { "" };
    format!("{}{changes}{outside}", revision.short())
}

/// `100,000`.
pub(crate) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The step of an instance, by its label.
pub(crate) fn step_of(label: &str) -> &str {
    label.split('[').next().unwrap_or(label)
}

/// Instances of a step: `train × 12`, or the only one by its label.
pub(crate) fn instances(count: usize, only: &str, step: &str) -> String {
    if count == 1 { only.to_owned() } else { format!("{step} × {}", thousands(count)) }
}

/// The numbers that are not 0: `3 cached, 1 failed`.
pub(crate) fn counts<T: Display>(parts: impl IntoIterator<Item = (usize, T)>) -> String {
    let some = parts.into_iter().filter(|(n, _)| *n > 0);
    some.map(|(n, what)| format!("{} {what}", thousands(n))).collect::<Vec<_>>().join(", ")
}

/// Some of these by name, and how many more there are.
pub(crate) fn named(of: &[impl Borrow<str>]) -> String {
    first(of, 6)
}

/// At most this many by name, and how many more there are.
pub(crate) fn first(of: &[impl Borrow<str>], most: usize) -> String {
    let names = of[..of.len().min(most)].join(", ");
    match of.len().saturating_sub(most) {
        0 => names,
        more => format!("{names} and {} more", thousands(more)),
    }
}

/// The first of these lines, and a line about how many more there are.
pub(crate) fn cut(
    lines: impl ExactSizeIterator<Item = String>,
    most: usize,
    rest: impl FnOnce(usize) -> String,
) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    lines.take(most).chain((more > 0).then(|| rest(more))).collect()
}

/// A number with about four significant digits: `0.9312`, `28.5`, `1,204`.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if (1000.0..1e15).contains(&v) => {
            return format!("{}{}", if value < 0.0 { "-" } else { "" }, thousands(v.round() as usize));
        }
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 0.1 || v == 0.0 => 4,
        v if v >= 0.01 => 5,
        v if v >= 0.001 => 6,
        _ => return format!("{value:.3e}"),
    };
    without_zeros(format!("{value:.digits$}"))
}

fn without_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A mean number of cores. A sleeping process has hardly any: `0.0005`.
pub(crate) fn cores(value: f64) -> String {
    let hardly = format!("{:.4}", value.max(0.0));
    if value < 0.001 { hardly.trim_end_matches('0').trim_end_matches('.').to_owned() } else { number(value) }
}

/// A metric with its unit: bytes and ratios in readable form.
pub(crate) fn metric(value: f64, unit: &str) -> String {
    match unit {
        _ if value.is_nan() => "NaN".to_owned(),
        _ if value.is_infinite() => if value > 0.0 { "∞" } else { "−∞" }.to_owned(),
        "bytes" => bytes(value.max(0.0) as u64),
        // Shares that flow measures are not known to more digits.
        "ratio" if value.abs() >= 0.001 => without_zeros(format!("{:.2}", value * 100.0)) + "%",
        "ratio" => format!("{}%", number(value * 100.0)),
        // Formatted as durations: an epoch may take milliseconds, and differences are smaller
        // still.
        "s" if value != 0.0 && value.abs() < 1.0 => format!("{} ms", number(value * 1e3)),
        "" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

/// A standard deviation with its unit. Two digits of it are enough: few repetitions do not tell more.
pub(crate) fn deviation(sd: f64, unit: &str) -> String {
    metric(format!("{sd:.1e}").parse().unwrap_or(sd), unit)
}

/// An outcome in words.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::OutOfMemory => "out of memory",
        Outcome::TimedOut => "timed out",
        Outcome::DoesNotFit => "does not fit",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Skipped => "skipped",
    }
}

/// Cuts a line to a width in columns, with an ellipsis; CJK characters take two.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    let text = terminal::shown(text);
    if text.width() <= columns {
        return text;
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Cuts a line as [`fit`] does, but never inside a number: of `loss 0.3142` stays `loss…`.
pub(crate) fn fit_whole(text: &str, columns: usize) -> String {
    let whole = terminal::shown(text);
    let cut = fit(&whole, columns);
    let of_number = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
    let Some(kept) = cut.strip_suffix('…').filter(|_| cut != whole) else { return cut };
    let word = kept.rfind(|c| !of_number(c)).map_or(0, |at| at + kept[at..].chars().next().map_or(1, char::len_utf8));
    let is_cut = whole[kept.len()..].starts_with(of_number) && kept[word..].contains(|c: char| c.is_ascii_digit());
    format!("{}…", kept[..if is_cut { word } else { kept.len() }].trim_end())
}

/// A line that is at most as wide as the terminal, broken at blanks; further lines begin in a given
/// column. Styles continue.
pub(crate) fn wrap(line: &str, columns: usize, further: usize) -> Vec<String> {
    let line = terminal::shown(line);
    let further = if further + further < columns { further } else { 0 };
    let (mut out, mut last) = (Vec::new(), String::new());
    for word in line.split_inclusive(' ') {
        // A word that is too wide stays whole, so that it can be copied.
        if !last.trim().is_empty() && wide(&last) + wide(word.trim_end()) > columns {
            out.push(std::mem::replace(&mut last, " ".repeat(further)).trim_end().to_owned());
        }
        last.push_str(word);
    }
    out.push(last);
    out
}

/// Columns that a line takes: styles take none, wide characters two.
pub(crate) fn wide(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(&*terminal::plain(line))
}

/// Lines of cells, each column as wide as its widest cell; the last is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    // Invisible characters have the width of their escapes.
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| terminal::shown(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| wide(cell)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if i + 1 < row.len() {
                    line.push_str(&" ".repeat(widths[i] - wide(cell) + 2));
                }
            }
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let words: Vec<String> = [0.04, 9.94, 9.96, 41.2, 192.0, 7500.0, 273_600.0].map(duration).into();
        assert_eq!(words, ["40 ms", "9.9 s", "10 s", "41 s", "3 min 12 s", "2 h 05 min", "3 d 4 h"]);
        assert_eq!([41.9, 725.0, 3725.0].map(clock), ["0:41", "12:05", "1:02:05"]);
        assert_eq!(date(1_770_564_612_000, &TimeZone::UTC), "2026-02-08 15:30:12");
    }

    #[test]
    fn numbers() {
        assert_eq!([0.010_85, 0.001_234_56, 0.05].map(number), ["0.01085", "0.001235", "0.05"]);
        let words = [0.0, 0.93125, 28.456, 512.04, 1204.4, 100_000.0, 0.000_012, -3.5].map(number);
        assert_eq!(words, ["0", "0.9313", "28.46", "512", "1,204", "100,000", "1.200e-5", "-3.5"]);
        assert_eq!([4.622e-4, 1e-6, 0.0, 0.0312, 1.5].map(cores), ["0.0005", "0", "0", "0.0312", "1.5"]);
        let shares = [0.7825, 0.059977, 0.001907, 0.5, 0.0, 0.000_012_34].map(|share| metric(share, "ratio"));
        assert_eq!(shares, ["78.25%", "6%", "0.19%", "50%", "0%", "0.001234%"]);
        assert_eq!([0.002_828_4, 0.0613, 12.34].map(|sd| deviation(sd, "s")), ["2.8 ms", "61 ms", "12 s"]);
        assert_eq!([0.012_34, f64::NAN].map(|sd| deviation(sd, "ratio")), ["1.2%", "NaN"]);
        assert_eq!(metric(1_610_612_736.0, "bytes"), "1.5 GiB");
        assert_eq!([0.0, 4.406e-4, 0.0613, 9.8].map(|s| metric(s, "s")), ["0 s", "0.4406 ms", "61.3 ms", "9.8 s"]);
        assert_eq!(["ratio", "bytes", "s", ""].map(|unit| metric(f64::NAN, unit)), ["NaN"; 4]);
        assert_eq!(count(1, "step"), "1 step");
        assert_eq!(count(1234, "step"), "1,234 steps");
    }

    #[test]
    fn columns_line_up_under_wide_characters() {
        let rows = [["批大小", "x"], ["batch", "y"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), ["批大小  x", "batch   y"]);
        assert_eq!(fit("批大小与数据集", 8), "批大小…");
        assert_eq!(fit("short", 8), "short");
    }

    #[test]
    fn no_number_is_cut() {
        let text = "epoch 2/4, loss 0.3142 on 批";
        let cut: Vec<String> = (15..29).map(|columns| fit_whole(text, columns)).collect();
        assert_eq!(cut[..2], ["epoch 2/4, los…", "epoch 2/4, loss…"]);
        assert!(cut[2..8].iter().all(|cut| cut == "epoch 2/4, loss…"), "{cut:?}");
        assert_eq!(cut[8..10], ["epoch 2/4, loss 0.3142…", "epoch 2/4, loss 0.3142…"]);
        assert_eq!(
            cut[10..],
            ["epoch 2/4, loss 0.3142 o…", "epoch 2/4, loss 0.3142 on…", "epoch 2/4, loss 0.3142 on…", text]
        );
        assert_eq!(fit_whole("a[lr=0.0316,batch=64]", 10), "a[lr=…");
        assert_eq!(fit_whole("1234567", 4), "…");
        assert_eq!(fit_whole("12 % of it", 6), "12 %…");
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        let line = format!("  {}  train × 2: `a` was 1, is 2", terminal::styled(terminal::GOOD, "ran"));
        let told = |columns| wrap(&line, columns, 7).iter().map(|line| terminal::plain(line)).collect::<Vec<_>>();
        assert_eq!(told(80), ["  ran  train × 2: `a` was 1, is 2"]);
        assert_eq!(told(24), ["  ran  train × 2: `a`", "       was 1, is 2"]);
        assert_eq!(told(9), ["  ran", "train ×", "2: `a`", "was 1, is", "2"]);
        assert_eq!(wrap("/a/long/path/without/blanks", 9, 2), ["/a/long/path/without/blanks"]);
    }
}
