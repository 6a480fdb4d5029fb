//! Reads the output of a running program: a plugin's messages or a plain program's lines. Keeps the content; decides
//! nothing.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use flow_core::{
    Key, MetricRow, Metrics, TimedEpoch,
    measure::{EpochPosition, LINE_ENDS, Looks, Record, ReportedNumbers, Row, kept_time, read_numbers},
    reason::{NoMetrics, Refusal},
};
use flow_protocol::{Message, Summary};
use flow_store::Activity;
use flow_supervisor::{
    attempt::{Bound, Folder, Follower, Lines, ProgramReport, open_log},
    secrets::Secrets,
};

use super::numbers::{InWork, MetricsFollower, how_far};

/// Changes since the last look.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) ready: bool,
    pub(crate) sufficed: bool,
    pub(crate) progress: Option<(Option<f64>, String)>,
    /// Epochs that ended, with their metrics.
    pub(crate) epochs: Vec<(u32, BTreeMap<String, f64>)>,
    /// The attempt must end, for this reason.
    pub(crate) refused: Option<Refusal>,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
}

/// The listener of one attempt.
pub(crate) struct Listener {
    /// None once its messages could not be read.
    follower: Option<Follower>,
    log: Option<Lines>,
    /// Limits the size of the log.
    bound: Bound,
    metrics: Option<Metrics>,
    /// The log is expected to hold numbers. Otherwise only the arrival times of its lines are noted.
    prints_metrics: bool,
    following: Option<MetricsFollower>,
    /// Secrets are hidden again after parsing, because JSON can escape a letter in more ways than the search covers.
    secrets: Secrets,
    pub(crate) reported: ReportedNumbers,
    pub(crate) report: ProgramReport,
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) refused: Option<Refusal>,
    pub(crate) began: f64,
    /// When the barrier of its group was released.
    pub(crate) released: Option<f64>,
    /// When each part of the log was read.
    pub(crate) looks: Looks,
    /// It sent numbers or epochs as messages.
    pub(crate) sent_numbers: bool,
    printed: EpochPosition,
}

impl Listener {
    /// The listener of a plugin's attempt (`plugin`), or of a plain program whose numbers are where `metrics` says.
    pub(crate) fn new(folder: &Folder, plugin: bool, metrics: Option<&Metrics>) -> Listener {
        let mut listener = Listener {
            // A plain program reports itself with `flow ready`, which is also a message.
            follower: Some(Follower::new(folder)),
            log: (!plugin).then(|| Lines::new(folder.log(), LINE_ENDS)),
            metrics: metrics.cloned(),
            prints_metrics: metrics.is_some_and(|metrics| !metrics.stdout.is_empty()),
            following: metrics.map(|metrics| MetricsFollower::new(metrics, &folder.work())),
            reported: ReportedNumbers::of(metrics),
            report: if plugin { ProgramReport::Nothing } else { ProgramReport::Command },
            ..Listener::deaf(folder.log())
        };
        if let Some(metrics) = metrics.filter(|_| listener.prints_metrics) {
            listener.printed.resume_from(&metrics.stdout, &earlier(folder), &mut listener.reported);
        }
        listener
    }

    /// A listener without input.
    fn deaf(log: PathBuf) -> Listener {
        Listener {
            follower: None,
            log: None,
            bound: Bound::new(log),
            metrics: None,
            prints_metrics: false,
            following: None,
            secrets: Secrets::default(),
            reported: ReportedNumbers::default(),
            report: ProgramReport::Nothing,
            facts: BTreeMap::new(),
            refused: None,
            began: 0.0,
            released: None,
            looks: Looks::default(),
            sent_numbers: false,
            printed: EpochPosition::default(),
        }
    }

    /// Lends itself to a background job. Its stand-in keeps changes made in the meantime.
    pub(crate) fn lend(&mut self) -> Listener {
        std::mem::replace(self, Listener::deaf(PathBuf::new()))
    }

    /// Takes it back from the background job.
    pub(crate) fn take_back(&mut self, listener: Listener) {
        let stand_in = std::mem::replace(self, listener);
        if let Some(at) = stand_in.released {
            self.released(at);
        }
        self.refused = self.refused.take().or(stand_in.refused);
    }

    /// Hides these secrets in all that it reads.
    pub(crate) fn hide(&mut self, secrets: &Secrets) {
        self.secrets = secrets.clone();
    }

    /// Its messages arrive through a pipe.
    ///
    /// # Errors
    /// The file for the messages cannot be created.
    pub(crate) fn read_through_pipe(&mut self, folder: &Folder) -> io::Result<()> {
        self.follower = Some(Follower::of_pipe(folder)?);
        Ok(())
    }

    /// The program is about to start, at this time in seconds since 1970.
    pub(crate) fn begins(&mut self, at: f64) {
        self.began = kept_time(at);
        self.printed.begins(self.began);
        self.comes_after(self.began);
    }

    /// The barrier was released: the first epoch of a plain program begins here.
    pub(crate) fn released(&mut self, at: f64) {
        let at = kept_time(at);
        self.released = Some(at);
        self.printed.is_released(at);
        self.comes_after(at);
    }

    /// Output from now on was printed after this time.
    fn comes_after(&mut self, at: f64) {
        self.log.iter_mut().for_each(|log| log.comes_after(at));
    }

    /// Reads new output; `now` in seconds since 1970.
    pub(crate) fn listen(&mut self, now: f64) -> Changes {
        let mut changes = Changes::default();
        self.look(now, &mut changes);
        changes
    }

    /// Reads the rest after the program has ended, at `ended` in seconds since 1970. A last line without a line end
    /// counts only if the program ended by itself: if it was killed, the line may hold half a number.
    pub(crate) fn listen_to_the_end(&mut self, ended: f64, by_itself: bool) -> Changes {
        let mut changes = Changes::default();
        let mut passed_over = |what: &str, hastened: Option<io::Result<u64>>| {
            if let Some(Ok(bytes @ 1..)) = hastened {
                let much = if bytes < 1 << 20 {
                    format!("{} KiB", bytes.div_ceil(1 << 10))
                } else {
                    format!("{} MiB", bytes >> 20)
                };
                changes.notices.push(format!("it wrote its {what} too fast: {much} were skipped"));
            }
        };
        passed_over("messages", self.follower.as_mut().map(Follower::hasten));
        let log = self.log.as_mut().map(Lines::hasten);
        passed_over("log", log.filter(|_| self.prints_metrics));
        while self.look(ended, &mut changes) {}
        if let Some(line) = self.log.as_mut().and_then(Lines::unfinished).filter(|_| by_itself) {
            self.apply_lines(&[line], ended, &mut changes);
        }
        changes.epochs.extend(self.printed.end(&self.reported));
        changes.epochs.extend(self.following.as_mut().and_then(MetricsFollower::end));
        let ignored = self.follower.as_ref().map_or(0, Follower::ignored);
        if self.metrics.is_some() && self.prints_metrics {
            self.reported.skipped = self.looks.unread(None);
        }
        if ignored > 0 {
            let lines = if ignored == 1 { "1 line".to_owned() } else { format!("{ignored} lines") };
            changes.notices.push(format!("ignored {lines} of its messages, which do not follow the protocol"));
        }
        changes
    }

    /// Looks at all inputs once. Returns whether there may be more to read.
    fn look(&mut self, now: f64, changes: &mut Changes) -> bool {
        let mut more = false;
        match self.follower.as_mut().map(|follower| follower.poll(now)) {
            Some(Ok(polled)) => {
                more = polled.more;
                polled.lines.into_iter().for_each(|line| self.apply(line.message, now, changes));
                if let Some(refused) = polled.refused {
                    self.refuse(refused, changes);
                }
            }
            Some(Err(e)) => self.refuse(Refusal::MessagesUnread { error: e.into() }, changes),
            None => {}
        }
        let polled = self.log.as_mut().map(|log| (log.poll(), log.came(now)));
        match polled {
            Some((Ok(Some(lines)), at)) => {
                more = true;
                self.apply_lines(&lines, at, changes);
            }
            Some((Err(e), _)) => {
                self.log = None;
                if self.prints_metrics {
                    self.refuse(Refusal::LogUnread { error: e.into() }, changes);
                }
            }
            Some((Ok(None), _)) | None => {}
        }
        if let Some(following) = &mut self.following {
            let (epochs, how_far) = following.look(now, &self.secrets);
            changes.epochs.extend(epochs);
            changes.progress = how_far.map(|text| (None, text)).or(changes.progress.take());
        }
        if let Some(why) = self.bound.keep().filter(|_| self.refused.is_none()) {
            self.refuse(why, changes);
        }
        more
    }

    /// Stops reading its messages.
    fn refuse(&mut self, why: Refusal, changes: &mut Changes) {
        self.follower = None;
        self.refused = Some(why.clone());
        changes.refused = Some(why);
    }

    /// The program ran on another machine, which noted when parts of the log were there. The log is read again with
    /// these times, as if the listener had been there.
    pub(crate) fn apply_record(&mut self, folder: &Folder, began: f64, released: Option<f64>, looks: Looks) {
        self.began = kept_time(began);
        self.released = released.map(kept_time);
        let record = Record { looks, ..Record::default() };
        let metrics = self.metrics.as_ref().filter(|_| self.prints_metrics && !self.sent_numbers);
        if let (Some(metrics), Ok(log)) = (metrics, fs::read(folder.log())) {
            self.reported = ReportedNumbers::of(Some(metrics));
            self.printed = EpochPosition::default();
            self.printed.resume_from(&metrics.stdout, &earlier(folder), &mut self.reported);
            self.printed.begins(self.began);
            let mut released = self.released;
            for (at, lines) in record.lines(&log) {
                // Lines that are read at the moment of the release were printed before it.
                if let Some(release) = released.take_if(|release| *release < at) {
                    self.printed.is_released(release);
                }
                self.printed.read_lines(&metrics.stdout, lines.into_iter(), at, &mut self.reported);
            }
            self.printed.end(&self.reported);
        }
        self.looks = record.looks;
    }

    /// Reads the number files of a plain program after its end and after its log. Returns an error if a file is missing
    /// or malformed, or if one of the places has no numbers.
    pub(crate) fn read_files(&mut self, work: &Path, by_itself: bool, activity: &Activity) -> Option<NoMetrics> {
        let hide = |name| self.secrets.hide(name);
        let files = &mut InWork { work, activity };
        read_numbers(self.metrics.as_ref()?, &self.printed, files, by_itself, hide, &mut self.reported)
    }

    fn apply(&mut self, message: Message, now: f64, changes: &mut Changes) {
        match message {
            Message::Hello { plugin, version, facts, .. } => {
                let plugin = format!("{plugin} plugin");
                let facts = facts.into_iter().chain([(plugin, version)]);
                self.facts.extend(facts.map(|(name, value)| (self.secrets.hide(name), self.secrets.hide(value))));
            }
            Message::Progress { fraction, text } => {
                changes.progress = Some((Some(fraction), self.secrets.hide(text.unwrap_or_default())));
            }
            Message::Epoch { epoch, started_at, ended_at } => {
                // Times from its own clock are limited to the attempt's start and now.
                let within = |time: f64| time.min(now).max(self.began);
                self.sent_numbers = true;
                let (began, ended) = (within(started_at), within(ended_at));
                if self.reported.epoch(TimedEpoch { part: 0, epoch, began, ended }) {
                    changes.epochs.push((epoch, self.reported.of_epoch(0, epoch)));
                }
            }
            Message::Metric { name, value, unit, epoch, summary } => {
                let (name, unit) = (self.secrets.hide(name), self.secrets.hide(unit));
                self.sent_numbers = true;
                let key = epoch.map(Key::of_epoch).unwrap_or_default();
                let of = MetricRow { key, name, value, unit };
                self.reported.number(Row { of, part: 0, mean: summary == Summary::Mean });
            }
            Message::Ready => changes.ready = true,
            Message::Sufficed => changes.sufficed = true,
            Message::Outcome { outcome, message } => self.report = ProgramReport::Outcome(outcome, message),
        }
    }

    /// Handles lines written since the last look, read at this time.
    fn apply_lines(&mut self, lines: &[Vec<u8>], at: f64, changes: &mut Changes) {
        let (false, Some(log)) = (lines.is_empty(), &self.log) else { return };
        let (at, (from, to)) = (kept_time(at), log.found());
        self.looks.push(from, to, at);
        self.comes_after(at);
        let Some(metrics) = self.metrics.as_ref().filter(|_| self.prints_metrics) else { return };
        let texts = lines.iter().map(Vec::as_slice);
        changes.epochs.extend(self.printed.read_lines(&metrics.stdout, texts, at, &mut self.reported));
        changes.progress = how_far(&self.printed, &self.reported).map(|text| (None, text)).or(changes.progress.take());
    }
}

/// The output of the attempts whose checkpoint it continues from.
fn earlier(folder: &Folder) -> Vec<u8> {
    let mut text = Vec::new();
    let read = open_log(&folder.earlier()).and_then(|mut earlier| earlier.read_to_end(&mut text));
    if read.is_ok() { text } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flow_core::{
        Pattern,
        reason::{Fault, FileFault, FileKind},
    };

    use super::*;

    fn listener(dir: &tempfile::TempDir, pattern: &str) -> (Folder, Listener) {
        let folder = Folder::create(dir.path().join("0")).unwrap();
        let metrics = Metrics { stdout: vec![Pattern::new(pattern).unwrap()], ..Metrics::default() };
        let mut listener = Listener::new(&folder, false, Some(&metrics));
        listener.begins(10.0);
        (folder, listener)
    }

    fn times(listener: &Listener) -> Vec<(u32, f64, f64)> {
        listener.reported.epochs.iter().map(|of| (of.epoch, of.began, of.ended)).collect()
    }

    fn numbers(epochs: &[(u32, BTreeMap<String, f64>)]) -> Vec<(u32, f64)> {
        epochs.iter().map(|(epoch, metrics)| (*epoch, metrics["loss"])).collect()
    }

    #[test]
    fn an_epoch_of_a_plain_program_ends_with_its_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, mut listener) = listener(&dir, "epoch {epoch} loss {loss}");
        fs::write(folder.log(), "epoch 1 loss 9\nepoch 2 loss 5\n").unwrap();
        assert_eq!(numbers(&listener.listen(12.0).epochs), [(1, 9.0)]);
        fs::write(folder.log(), "epoch 1 loss 9\nepoch 2 loss 5\nepoch 2 loss 4\n").unwrap();
        let changes = listener.listen(15.0);
        assert_eq!((changes.epochs, changes.progress), (vec![], Some((None, "epoch 2: loss 4".to_owned()))));
        // Shares are read as percentages, here as everywhere.
        let other = tempfile::tempdir().unwrap();
        let (folder_of_other, mut shares) =
            self::listener(&other, "epoch {epoch} acc {top1:%} loss {loss} in {wall:s}");
        fs::write(folder_of_other.log(), "epoch 1 acc 51.5% loss nan in 2.5\n").unwrap();
        let text = "epoch 1: loss NaN, top1 51.50%, wall 2.5 s".to_owned();
        assert_eq!(shares.listen(12.0).progress, Some((None, text)));
        // Its last line has no line end.
        fs::write(folder.log(), "epoch 1 loss 9\nepoch 2 loss 5\nepoch 2 loss 4\nepoch 3 loss 2").unwrap();
        assert_eq!(numbers(&listener.listen(16.0).epochs), []);
        assert_eq!(numbers(&listener.listen_to_the_end(17.0, true).epochs), [(2, 4.0), (3, 2.0)]);
        assert_eq!(times(&listener), [(1, 10.0, 12.0), (2, 12.0, 15.0), (3, 15.0, 17.0)]);
    }

    #[test]
    fn what_it_is_told_while_it_listens_aside_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, mut listener) = listener(&dir, "epoch {epoch} loss {loss}");
        fs::write(folder.log(), "warming up\n").unwrap();
        let mut aside = listener.lend();
        aside.listen(11.0);
        listener.released(12.0);
        listener.take_back(aside);
        fs::write(folder.log(), "warming up\nepoch 1 loss 9\n").unwrap();
        listener.listen_to_the_end(15.0, true);
        assert_eq!(listener.released, Some(12.0));
        assert_eq!(times(&listener), [(1, 12.0, 15.0)]);
    }

    #[test]
    fn what_a_plugin_says_is_taken_within_reason() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().join("0")).unwrap();
        let mut listener = Listener::new(&folder, true, None);
        listener.begins(10.0);
        let hello = |facts: &str| {
            format!(r#"{{"type":"hello","protocol":1,"plugin":"torch","version":"0.1.0","facts":{{{facts}}}}}"#)
        };
        let (first, second) = (hello(r#""torch":"2.11""#), hello(r#""device":"cuda""#));
        let epoch = r#"{"type":"epoch","epoch":1,"started_at":3,"ended_at":99}"#;
        fs::write(folder.path().join("messages.jsonl"), format!("{first}\nnoise\n{second}\n{epoch}\n")).unwrap();
        let changes = listener.listen_to_the_end(20.0, true);
        let facts: Vec<(&str, &str)> = listener.facts.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(facts, [("device", "cuda"), ("torch", "2.11"), ("torch plugin", "0.1.0")]);
        assert_eq!(times(&listener), [(1, 10.0, 20.0)]);
        assert_eq!(changes.notices, ["ignored 1 line of its messages, which do not follow the protocol"]);
    }

    #[test]
    fn a_pipe_in_place_of_messages_is_refused_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().join("0")).unwrap();
        nix::unistd::mkfifo(&folder.path().join("messages.jsonl"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut listener = Listener::new(&folder, true, None);
        listener.begins(10.0);
        let refused =
            Some(Refusal::MessagesUnread { error: Fault::from(FileFault::NotRegular { found: FileKind::Pipe }) });
        assert_eq!(listener.listen(11.0).refused, refused);
        assert_eq!((listener.listen(12.0).refused, &listener.refused), (None, &refused));
        let mut listener = Listener::new(&folder, true, None);
        listener.begins(10.0);
        assert_eq!(listener.listen_to_the_end(11.0, true).refused, refused, "the first look is the last");
    }
}
