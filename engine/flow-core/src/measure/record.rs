//! What was seen of an attempt, as it is kept: which part of its log was read when, and what it used meanwhile. The log itself
//! stands beside it. Knows no metrics.

use serde::{Deserialize, Serialize};

use super::{GpuSamples, HostSamples, news::go_on};

/// What ends a line of a log: a progress bar writes over its own.
pub const LINE_ENDS: &[u8] = b"\n\r";
/// More than any line that means something; a longer one is passed over.
pub const LONGEST_LINE: usize = 1 << 20;
/// More looks are thinned out: two neighbours become one.
const MOST: usize = 1 << 19;

/// What was seen of an attempt; all times in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When its program was about to start.
    pub began: f64,
    /// When the barrier of its group was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<f64>,
    /// When its process began.
    pub started_at: f64,
    pub ended_at: f64,
    /// When which part of its log was read.
    #[serde(default)]
    pub looks: Looks,
    /// From where to where the log was given back while it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<(u64, u64)>,
    /// So many bytes behind its log were printed by the attempts from whose checkpoint it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<u64>,
    /// What it used of the host.
    #[serde(default)]
    pub host: HostSamples,
    /// What it used of its GPUs.
    #[serde(default)]
    pub gpus: GpuSamples,
}

/// A time as it is kept: what is read again has the very times that were read live.
pub fn kept_time(at: f64) -> f64 {
    micros(at) as f64 / 1e6
}

fn micros(at: f64) -> i64 {
    (at * 1e6).round() as i64
}

/// A part of a log, and when it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    /// Where its first line begins.
    from: u64,
    /// Where its last line ends.
    to: u64,
    /// Microseconds since 1970.
    at: i64,
}

/// The parts of a log, in order. Kept as differences: what was passed over before it, its length, the time since the one before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64, i64)>", into = "Vec<(u64, u64, i64)>")]
pub struct Looks(Vec<Look>);

impl Looks {
    /// Whole lines from here to there were read at this time.
    pub fn push(&mut self, from: u64, to: u64, at: f64) {
        self.0.push(Look { from, to, at: micros(at) });
        if self.0.len() >= MOST {
            let both = |pair: &[Look]| match pair {
                [a, b] => Look { from: a.from, ..*b },
                _ => pair[0],
            };
            self.0 = self.0.chunks(2).map(both).collect();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How far it was read, and when that was.
    pub fn last(&self) -> Option<(u64, f64)> {
        self.0.last().map(|look| (look.to, look.at as f64 / 1e6))
    }

    /// So many bytes between its parts were not read, the ones from and to which the log was `cut` aside.
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

    /// What was read since so many parts were known, and after how many it comes: after none where neighbours became one since.
    pub fn news(&self, known: &mut usize) -> Option<(usize, Looks)> {
        let before = std::mem::replace(known, self.0.len());
        let from = if before <= self.0.len() { before } else { 0 };
        (self.0.len() > from).then(|| (from, Looks(self.0[from..].to_vec())))
    }

    /// Takes in such news; says whether the parts before them are there.
    pub fn take_in(&mut self, (from, news): (usize, Looks)) -> bool {
        go_on(&mut self.0, from, news.0)
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
    /// So many bytes of the log were not read, or were read and are not kept.
    pub fn unread(&self) -> u64 {
        let cut = self.cut.map_or(0, |(from, to)| to.saturating_sub(from));
        self.looks.unread(self.cut) + cut
    }

    /// The lines of each look with its time, out of the log, less what was given back of it.
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
        // A line of which a part is gone is none.
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
        before
            .split_inclusive(ends)
            .chain(after.split_inclusive(ends))
            .map(without_end)
            .filter(|l| is_read(l))
            .collect()
    }
}

fn ends(byte: &u8) -> bool {
    LINE_ENDS.contains(byte)
}

/// Without the end of the line. A `\r` stays, because a progress bar draws over what is before it.
fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// A line that is too long means nothing; in one with a zero, a part was given back while it was read.
pub fn is_read(line: &[u8]) -> bool {
    line.len() <= LONGEST_LINE && !line.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(record: &Record, log: &str) -> Vec<(f64, String)> {
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
        assert_eq!(lines(&back, log), expected.map(|(at, text)| (at, text.to_owned())));
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
            let texts: Vec<String> = lines(&record, &kept).into_iter().map(|(_, text)| text).collect();
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
        assert_eq!(lines(&Record { looks: damaged, ..Record::default() }, "one\n").len(), 2);
    }
}
