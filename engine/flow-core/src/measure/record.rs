//! The stored observations of an attempt: when each part of its log was read, and its usage. The log itself is stored
//! separately. Knows no metrics.

use serde::{Deserialize, Serialize};

use super::{GpuSamples, HostSamples, windows::push_merging};

/// Line ends of a log. A progress bar ends its line with `\r`.
pub const LINE_ENDS: &[u8] = b"\n\r";
/// Longer lines are skipped; no useful line is that long.
pub const LONGEST_LINE: usize = 1 << 20;
/// If a list grows to this, pairs of neighbours are merged.
const MOST: usize = 1 << 19;

/// Observations of an attempt; all times in seconds since 1970.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Time just before its program started.
    pub began: f64,
    /// Time at which its group's barrier was released.
    pub released: Option<f64>,
    /// Start of its process.
    pub started_at: f64,
    pub ended_at: f64,
    /// Which part of its log was read, and when.
    #[serde(default)]
    pub looks: Looks,
    /// The range of the log that was freed while it was written.
    pub cut: Option<(u64, u64)>,
    /// Length of the output of earlier attempts, which is appended to its log.
    pub earlier: Option<u64>,
    /// Its usage of the host.
    #[serde(default)]
    pub host: HostSamples,
    /// Its usage of its GPUs.
    #[serde(default)]
    pub gpus: GpuSamples,
}

/// Rounds a time to the stored precision, so that reading again sees exactly the live times.
pub fn kept_time(at: f64) -> f64 {
    micros(at) as f64 / 1e6
}

fn micros(at: f64) -> i64 {
    (at * 1e6).round() as i64
}

/// A part of a log, and the time of reading.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    /// Where its first line begins.
    from: u64,
    /// Where its last line ends.
    to: u64,
    /// Microseconds since 1970.
    at: i64,
}

/// The parts of a log, in order. Serialized as differences: bytes skipped, length, time since the previous part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64, i64)>", into = "Vec<(u64, u64, i64)>")]
pub struct Looks(Vec<Look>);

impl Looks {
    /// Adds a part with whole lines, and its time.
    pub fn push(&mut self, from: u64, to: u64, at: f64) {
        let look = Look { from, to, at: micros(at) };
        push_merging(&mut self.0, look, MOST, |a, b| Look { from: a.from, ..*b });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of bytes between the parts that were not read, without the range that was `cut` out of the log.
    pub fn unread(&self, cut: Option<(u64, u64)>) -> u64 {
        let (gone, back) = cut.unwrap_or((0, 0));
        let mut at = 0;
        let gap = |look: &Look| {
            let (from, to) = (std::mem::replace(&mut at, look.to), look.from);
            let gone = to.min(back).saturating_sub(from.max(gone));
            to.saturating_sub(from).saturating_sub(gone)
        };
        self.0.iter().map(gap).sum()
    }
}

impl From<Vec<(u64, u64, i64)>> for Looks {
    fn from(kept: Vec<(u64, u64, i64)>) -> Looks {
        let mut last = Look { from: 0, to: 0, at: 0 };
        let look = |(over, length, since): (u64, u64, i64)| {
            let from = last.to.saturating_add(over);
            last = Look { from, to: from.saturating_add(length), at: last.at.saturating_add(since) };
            last
        };
        Looks(kept.into_iter().map(look).collect())
    }
}

impl From<Looks> for Vec<(u64, u64, i64)> {
    fn from(looks: Looks) -> Self {
        let mut last = Look { from: 0, to: 0, at: 0 };
        let kept = |look: Look| {
            let kept = (look.from.saturating_sub(last.to), look.to.saturating_sub(look.from), look.at - last.at);
            last = look;
            kept
        };
        looks.0.into_iter().map(kept).collect()
    }
}

impl Record {
    /// Number of log bytes that were not read, or were read but not kept.
    pub fn unread(&self) -> u64 {
        let cut = self.cut.map_or(0, |(from, to)| to.saturating_sub(from));
        self.looks.unread(self.cut) + cut
    }

    /// The lines of each look and its time, without the range that was freed.
    pub fn lines<'a>(&'a self, log: &'a [u8]) -> impl Iterator<Item = (f64, Vec<&'a [u8]>)> {
        self.looks.0.iter().map(|look| (look.at as f64 / 1e6, self.lines_of(log, *look)))
    }

    fn lines_of<'a>(&self, log: &'a [u8], look: Look) -> Vec<&'a [u8]> {
        let Look { from, to, .. } = look;
        let (gone, back) = self.cut.unwrap_or((u64::MAX, u64::MAX));
        let part = |from: u64, to: u64| {
            let end = usize::try_from(to).unwrap_or(usize::MAX).min(log.len());
            &log[usize::try_from(from).unwrap_or(usize::MAX).min(end)..end]
        };
        let shift = back.saturating_sub(gone);
        // A line that is partly gone is dropped.
        let (mut before, mut after): (&[u8], &[u8]) = (&[], &[]);
        if from < gone {
            before = part(from, to.min(gone));
            if to > gone {
                before = &before[..before.iter().rposition(ends).map_or(0, |end| end + 1)];
            }
        }
        if to > back {
            after = part(from.max(back).saturating_sub(shift), to.saturating_sub(shift));
            if from < back {
                after = after.iter().position(ends).map_or(&[][..], |end| &after[end + 1..]);
            }
        }
        lines(before).chain(lines(after)).collect()
    }
}

fn ends(byte: &u8) -> bool {
    LINE_ENDS.contains(byte)
}

/// The usable lines without a final `\n`. A `\r` stays, because it marks a line that a progress bar may redraw.
pub(super) fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    log.split_inclusive(ends).map(|line| line.strip_suffix(b"\n").unwrap_or(line)).filter(|line| is_read(line))
}

/// Whether a line is usable. Too long a line is not; a zero byte means that a part was freed while it was read.
pub fn is_read(line: &[u8]) -> bool {
    line.len() <= LONGEST_LINE && !line.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(record: &Record, log: &str) -> Vec<(f64, String)> {
        let text = |lines: Vec<&[u8]>| lines.into_iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join("|");
        record.lines(log.as_bytes()).map(|(at, lines)| (at, text(lines))).collect()
    }

    #[test]
    fn each_look_has_the_lines_that_were_read_at_it() {
        let mut record = Record::default();
        for (from, to, at) in [(0, 4, 10.0), (4, 12, 10.25), (16, 19, 1_800_000_000.123_457)] {
            record.looks.push(from, to, at);
        }
        let stored = serde_json::to_vec(&record).unwrap();
        let back: Record = serde_json::from_slice(&stored).unwrap();
        assert_eq!(back, record);
        let log = "one\ntwo\r\n10%overend";
        let expected = [(10.0, "one"), (10.25, "two\r||10%"), (1_800_000_000.123_457, "end")];
        assert_eq!(lines_of(&back, log), expected.map(|(at, text)| (at, text.to_owned())));
    }

    #[test]
    fn a_line_of_which_a_part_is_gone_is_none() {
        let whole = "one\ntwo\nthree\nfour\nfive\n";
        let mut record = Record::default();
        record.looks.push(0, 14, 1.0);
        record.looks.push(14, 24, 2.0);
        for (gone, back, first, second) in
            [(6, 9, "one", "four|five"), (4, 14, "one", "four|five"), (9, 16, "one|two", "five"), (2, 22, "", "")]
        {
            record.cut = Some((gone, back));
            let kept = whole[..gone as usize].to_owned() + &whole[back as usize..];
            let texts: Vec<String> = lines_of(&record, &kept).into_iter().map(|(_, text)| text).collect();
            assert_eq!(texts, [first, second], "{gone}..{back}");
        }
    }

    #[test]
    fn what_was_not_read_is_counted_once() {
        let mut record = Record::default();
        for (from, to) in [(0, 10), (10, 20), (50, 60)] {
            record.looks.push(from, to, 1.0);
        }
        assert_eq!(record.unread(), 30);
        record.cut = Some((15, 40));
        assert_eq!(record.unread(), 35, "10 bytes of the 30 are among the 25 that are gone");
    }

    #[test]
    fn looks_without_end_are_thinned_out_and_a_damaged_record_reads_nothing() {
        let mut record = Record::default();
        for n in 0..MOST as u64 * 2 {
            record.looks.push(n * 2, n * 2 + 2, n as f64);
        }
        assert!(record.looks.0.len() < MOST);
        assert_eq!(record.looks.0.last().map(|look| look.to), Some(MOST as u64 * 4));
        let damaged = Looks::from(vec![(u64::MAX, u64::MAX, i64::MAX), (5, 5, 5)]);
        assert_eq!(lines_of(&Record { looks: damaged, ..Record::default() }, "one\n").len(), 2);
    }
}
