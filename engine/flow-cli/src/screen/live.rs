//! The live list on a terminal: a bar for each running instance, what waits and for what, and the estimated end. Makes lines
//! from the view, and knows nothing else.

use std::collections::BTreeMap;

use flow_core::AttemptId;

use super::estimate::{left, remaining, share};
use super::frame::Frame;
use super::view::{Attempt, View};
use crate::output::{FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::words;

/// At most this many bars; further attempts are counted.
const BARS: usize = 16;
/// Lines of the terminal that are not bars: what waits, the total, and the cursor's.
const OTHERS: usize = 3;
/// Maximum width of a label.
const LABEL: usize = 32;
/// Minimum milliseconds between two frames.
const EVERY: u64 = 500;

/// The list as drawn.
pub(crate) struct Bars {
    pub(super) frame: Frame,
    /// When it was last drawn, in milliseconds.
    drawn: Option<u64>,
    /// The last line of each active set-up, by plugin.
    pub(super) setups: BTreeMap<String, String>,
}

impl Bars {
    pub(crate) fn new(output: &Output) -> Self {
        Bars { frame: Frame::new(output.paint()), drawn: None, setups: BTreeMap::new() }
    }

    /// The text that shows the run as it is; empty if nothing changed, or if the last frame is too recent.
    pub(crate) fn draw(&mut self, view: &View, now: u64, (columns, rows): (usize, usize)) -> String {
        if self.drawn.is_some_and(|drawn| now.saturating_sub(drawn) < EVERY) {
            return String::new();
        }
        self.drawn = Some(now);
        let setups = self.setups.iter().map(|(plugin, line)| {
            styled(FAINT, words::fit_whole(&format!("  {plugin}: {}", line.trim_end()), columns - 1))
        });
        let mut all: Vec<String> = setups.collect();
        let room = rows.saturating_sub(OTHERS + all.len()).clamp(1, BARS);
        if view.start.is_some() {
            all.extend(lines(view, columns - 1, room));
        }
        self.frame.draw(all, columns)
    }
}

/// The list in this width, with at most this many bars.
pub(super) fn lines(view: &View, columns: usize, bars: usize) -> Vec<String> {
    // A job in Slurm's queue has nothing to show.
    let (queued, running): (Vec<_>, Vec<_>) = view.running().partition(|(_, attempt)| attempt.queued);
    let shown: BTreeMap<AttemptId, &Attempt> =
        running.into_iter().chain(queued).take(bars).map(|(id, attempt)| (*id, attempt)).collect();
    let labels: Vec<String> = shown.values().map(|attempt| view.label(attempt.instance)).collect();
    let label = labels.iter().map(|label| words::wide(label)).max().unwrap_or(0).min(LABEL.min(columns * 2 / 5));
    let rows = shown.values().zip(&labels).map(|(attempt, name)| {
        let name = words::fit_whole(name, label);
        let padding = " ".repeat(label.saturating_sub(words::wide(&name)));
        attempt_line(view, attempt, &format!("{name}{padding}"), columns)
    });
    let mut out: Vec<String> = rows.collect();
    let waiting = waiting_line(view, shown.len());
    if !waiting.is_empty() {
        out.push(styled(FAINT, words::fit_whole(&waiting, columns)));
    }
    out.push(total_line(view, columns));
    out
}

/// A bar of this width.
fn bar(fraction: f64, width: usize) -> String {
    let full = (fraction.clamp(0.0, 1.0) * width as f64) as usize;
    format!("{}{}", styled(GOOD, "━".repeat(full)), styled(FAINT, "─".repeat(width - full)))
}

fn bar_width(columns: usize) -> usize {
    if columns < 100 { 10 } else { 18 }
}

/// `solo[batch=16] ━━━━━─────  50%   0:41  ≈ 41 s left · epoch 2/4, loss 0.31 · GPU 0, 4 CPUs`. Without progress the bar shows
/// the estimate, as `≈50%`. What does not fit is left out as a whole.
fn attempt_line(view: &View, attempt: &Attempt, label: &str, columns: usize) -> String {
    let since = words::clock(view.now.saturating_sub(attempt.began) as f64 / 1e3);
    let width = bar_width(columns);
    let percent = |done: f64| format!("{:.0}%", done.clamp(0.0, 1.0) * 100.0);
    let (bar, percent) = match (attempt.queued, attempt.fraction, share(attempt.began, attempt.ends_at, view.now)) {
        (true, ..) => (styled(NOTE, format_args!("{:<width$}", "queued")), String::new()),
        (_, Some(done), _) => (bar(done, width), percent(done)),
        (_, None, Some(done)) => (bar(done, width), format!("≈{}", percent(done))),
        (_, None, None) => (bar(0.0, width), String::new()),
    };
    let head = format!("{label} {bar} {percent:>4} {since:>6}");
    let room = columns.saturating_sub(words::wide(&head) + 2);
    // The bar already says it.
    let text = attempt.text.strip_prefix("queued ").filter(|_| attempt.queued).unwrap_or(&attempt.text);
    let mut rest = String::new();
    let parts = text.split(", ").enumerate().map(|(n, part)| (if n == 0 { " · " } else { ", " }, part.to_owned()));
    let first = [("", left(attempt.ends_at.filter(|_| !attempt.queued), view.now))];
    let place = attempt.place.iter().map(|place| (" · ", place.clone()));
    let all = first.into_iter().chain(parts).chain(place).chain([(" · ", view.holds(attempt))]);
    for (between, part) in all.filter(|(_, part)| !part.is_empty()) {
        let added = if rest.is_empty() { part } else { format!("{rest}{between}{part}") };
        if words::wide(&added) > room {
            break;
        }
        rest = added;
    }
    // Not even the first part fits.
    if rest.is_empty() && room > 3 {
        rest = words::fit_whole(text, room);
    }
    format!("{head}  {rest}").trim_end().to_owned()
}

/// `12 waiting: 9 (a GPU with room for it), solo[batch=16] (room is kept for table)  (and 2 more
/// running)`. Of thousands that wait, the first are read.
fn waiting_line(view: &View, shown: usize) -> String {
    let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (label, reason) in &view.waiting {
        reasons.entry(reason).or_insert((0, label)).0 += 1;
    }
    let mut groups: Vec<(usize, &str, &str)> =
        reasons.into_iter().map(|(reason, (count, label))| (count, label, reason)).collect();
    groups.sort_by(|a, b| b.0.cmp(&a.0).then(a.2.cmp(b.2)));
    let part = |(count, label, reason): &(usize, &str, &str)| {
        if *count == 1 { format!("{label} ({reason})") } else { format!("{} ({reason})", words::thousands(*count)) }
    };
    let parts: Vec<String> = groups.iter().take(3).map(part).collect();
    let (settled, all) = view.settled();
    let (queued, running): (Vec<_>, Vec<_>) = view.running().partition(|(_, attempt)| attempt.queued);
    let more = words::counts([
        (running.len().saturating_sub(shown), "more running"),
        (queued.len() - shown.saturating_sub(running.len()).min(queued.len()), "more queued"),
    ]);
    let running = running.len() + queued.len();
    let waiting = words::thousands(all.saturating_sub(settled + running).max(view.waiting.len()));
    let mut line = if parts.is_empty() { String::new() } else { format!("{waiting} waiting: {}", parts.join(", ")) };
    if !more.is_empty() {
        line.push_str(&format!("  (and {more})"));
    }
    line
}

/// `━━────── 6 of 24 instances · 1:41 · about 3 min left`.
fn total_line(view: &View, columns: usize) -> String {
    let (settled, all) = view.settled();
    let mut line = format!(
        "{} of {} · {}",
        words::thousands(settled),
        words::count(all, "instance"),
        words::clock(view.elapsed(view.now))
    );
    if let Some((left, at_least)) = remaining(view) {
        let how = if at_least { "at least" } else { "about" };
        line.push_str(&format!(" · {how} {} left", words::duration(left)));
    }
    let width = bar_width(columns);
    let done = bar(settled as f64 / all.max(1) as f64, width);
    format!("{done} {}", styled(STRONG, words::fit_whole(&line, columns.saturating_sub(width + 1))))
}
