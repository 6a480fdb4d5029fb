//! The live list on a terminal: a bar for each running instance, what waits and for what, and the
//! estimated end. Draws the view, and knows nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use flow_core::AttemptId;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::estimate::remaining;
use super::view::{Attempt, View};
use crate::terminal::shown;
use crate::words;

/// At most this many bars; further attempts are counted.
const BARS: usize = 16;
/// Steps of a bar.
const LENGTH: u64 = 1000;

/// Bars on the terminal.
pub(crate) struct Bars {
    bars: MultiProgress,
    attempts: BTreeMap<AttemptId, ProgressBar>,
    waiting: ProgressBar,
    total: ProgressBar,
    /// The active set-ups, by plugin.
    setups: BTreeMap<String, ProgressBar>,
}

impl Bars {
    /// On standard error, so that results can be piped.
    pub(crate) fn new() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let line = || bars.add(ProgressBar::new(0).with_style(template("{wide_msg:.dim}")));
        let (waiting, total) = (line(), line());
        Bars { attempts: BTreeMap::new(), waiting, total, setups: BTreeMap::new(), bars }
    }

    /// Draws the run as it is.
    pub(crate) fn draw(&mut self, view: &View) {
        if view.start.is_none() {
            return;
        }
        // A job in Slurm's queue has nothing to show.
        let (queued, running): (Vec<_>, Vec<_>) = view.running().partition(|(_, attempt)| attempt.queued);
        let running: BTreeMap<AttemptId, &Attempt> =
            running.into_iter().chain(queued).take(BARS).map(|(id, a)| (*id, a)).collect();
        self.attempts.retain(|id, bar| {
            let keep = running.contains_key(id);
            if !keep {
                bar.finish_and_clear();
            }
            keep
        });
        for (id, attempt) in &running {
            let bar = self.attempts.entry(*id).or_insert_with(|| {
                let style = template("{prefix:<32!} {bar:18.green/dim} {wide_msg}").progress_chars("━╸━");
                self.bars.insert_before(&self.waiting, ProgressBar::new(LENGTH).with_style(style))
            });
            bar.set_prefix(words::fit(&view.label(attempt.instance), 32));
            bar.set_position((attempt.fraction.unwrap_or(0.0).clamp(0.0, 1.0) * LENGTH as f64) as u64);
            bar.set_message(shown(&attempt_line(view, attempt)));
        }
        self.waiting.set_message(shown(&waiting_line(view, running.len())));
        self.total.set_message(shown(&total_line(view)));
    }

    /// A line of a set-up: there are thousands, so only the last one is shown.
    pub(crate) fn setup(&mut self, plugin: &str, line: &str) {
        let bar = self.setups.entry(plugin.to_owned()).or_insert_with(|| {
            let bar =
                self.bars.insert(0, ProgressBar::new_spinner().with_style(template("  {spinner} {wide_msg:.dim}")));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(shown(&format!("{plugin}: {}", line.trim_end())));
    }

    /// The set-ups have ended.
    pub(crate) fn setups_done(&self) {
        for bar in self.setups.values() {
            bar.finish_and_clear();
        }
    }

    /// Prints above the bars. If the terminal is gone there are no bars: `MultiProgress::suspend`
    /// panics there.
    pub(crate) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        if self.bars.clear().is_err() {
            self.bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        let printed = print();
        self.total.force_draw();
        printed
    }

    pub(crate) fn clear(self) {
        for bar in self.attempts.values().chain([&self.waiting, &self.total]).chain(self.setups.values()) {
            bar.finish_and_clear();
        }
        // A terminal that cannot be cleared still shows the text.
        self.bars.clear().unwrap_or_default();
    }
}

fn template(text: &str) -> ProgressStyle {
    // The templates above are constants; an invalid one would fall back to a plain bar.
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// `epoch 2/4, loss 0.31, 512 images/s · GPU 0,1, 4 CPUs · 0:41`.
fn attempt_line(view: &View, attempt: &Attempt) -> String {
    let since = words::clock(view.now.saturating_sub(attempt.began) as f64 / 1e3);
    let mut parts = vec![attempt.text.clone(), view.holds(attempt), since];
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
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
    let more = [
        (running.len().saturating_sub(shown), "more running"),
        (queued.len() - shown.saturating_sub(running.len()).min(queued.len()), "more queued"),
    ];
    let running = running.len() + queued.len();
    let waiting = words::thousands(all.saturating_sub(settled + running).max(view.waiting.len()));
    let mut line = if parts.is_empty() { String::new() } else { format!("{waiting} waiting: {}", parts.join(", ")) };
    let more = more.iter().filter(|(hidden, _)| *hidden > 0);
    let more: Vec<String> = more.map(|(hidden, how)| format!("{} {how}", words::thousands(*hidden))).collect();
    if !more.is_empty() {
        line.push_str(&format!("  (and {})", more.join(", ")));
    }
    line
}

/// `6 of 24 done · 1:41 · about 3 min left`.
fn total_line(view: &View) -> String {
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
    line
}

/// The text of all lines, without the bars.
#[cfg(test)]
pub(super) fn words(view: &View) -> Vec<String> {
    let mut lines: Vec<String> = view.running().map(|(_, attempt)| attempt_line(view, attempt)).collect();
    lines.extend([waiting_line(view, lines.len()), total_line(view)]);
    lines
}
