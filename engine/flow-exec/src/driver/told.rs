//! Listening to a running program: messages of a plugin, lines of a plain program's output. Keeps what was said; decides nothing.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use flow_core::{MetricRow, MetricsFrom, extract};
use flow_protocol::{Message, Summary};

use super::gather::{Row, Told};
use crate::attempt::{Folder, Follower, Said};

/// What changed since the last look.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct News {
    pub(crate) ready: bool,
    pub(crate) sufficed: bool,
    pub(crate) progress: Option<(Option<f64>, String)>,
    /// Epochs that ended, with their metrics.
    pub(crate) epochs: Vec<(u32, BTreeMap<String, f64>)>,
    /// It must not go on, and why.
    pub(crate) refused: Option<String>,
}

/// The ear at one attempt.
pub(crate) struct Listener {
    follower: Option<Follower>,
    log: Option<LogLines>,
    metrics: Option<MetricsFrom>,
    pub(crate) told: Told,
    pub(crate) said: Said,
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) refused: Option<String>,
    /// When the epoch at hand of a plain program began.
    epoch_began: f64,
}

impl Listener {
    /// At a plugin's attempt (`plugin`), or at a plain program's, whose numbers are where `metrics` says.
    pub(crate) fn new(folder: &Folder, plugin: bool, metrics: Option<&MetricsFrom>, began: f64) -> Listener {
        let log = matches!(metrics, Some(MetricsFrom::Stdout(_))).then(|| LogLines::new(folder.log()));
        Listener {
            // A plain program announces itself with `flow ready`, which is a message as well.
            follower: Some(Follower::new(folder)),
            log,
            metrics: metrics.cloned(),
            told: Told::default(),
            said: if plugin { Said::Nothing } else { Said::Command },
            facts: BTreeMap::new(),
            refused: None,
            epoch_began: began,
        }
    }

    /// The barrier was released: the first epoch of a plain program begins here.
    pub(crate) fn released(&mut self, at: f64) {
        self.epoch_began = at;
    }

    /// Reads what is new; `now` in seconds since 1970.
    pub(crate) fn listen(&mut self, now: f64) -> News {
        let mut news = News::default();
        if let Some(follower) = &mut self.follower {
            match follower.poll(now) {
                Ok(polled) => {
                    for line in polled.lines {
                        self.hear(line.at.unwrap_or(now), line.message, &mut news);
                    }
                    if let Some(refused) = polled.refused {
                        self.refused = Some(refused.clone());
                        news.refused = Some(refused);
                    }
                }
                Err(e) => news.refused = Some(format!("its messages cannot be read: {e}")),
            }
        }
        if let (Some(log), Some(metrics)) = (&mut self.log, &self.metrics) {
            let rows = log.lines().iter().flat_map(|line| extract(metrics, line)).collect();
            self.hear_rows(rows, now, &mut news);
        }
        news
    }

    /// Reads the file that holds a plain program's numbers, when it has ended.
    pub(crate) fn read_file(&mut self, work: &std::path::Path) -> Result<(), String> {
        let Some(metrics) = self.metrics.clone() else { return Ok(()) };
        let Some(file) = metrics.file() else { return Ok(()) };
        let text = std::fs::read_to_string(work.join(file))
            .map_err(|e| format!("its metrics were expected in `{file}`: {e}"))?;
        for row in extract(&metrics, &text) {
            self.told.rows.push(plain(row));
        }
        Ok(())
    }

    fn hear(&mut self, at: f64, message: Message, news: &mut News) {
        match message {
            Message::Hello { plugin, version, facts, .. } => {
                self.facts = facts;
                self.facts.insert(format!("{plugin} plugin"), version);
            }
            Message::Progress { fraction, text } => news.progress = Some((Some(fraction), text.unwrap_or_default())),
            Message::Epoch { epoch, started_at, ended_at } => {
                self.told.epochs.push((epoch, started_at, ended_at.min(at.max(ended_at))));
                let of_epoch = self.told.rows.iter().filter(|row| row.epoch == Some(epoch));
                news.epochs.push((epoch, of_epoch.map(|row| (row.name.clone(), row.value)).collect()));
            }
            Message::Metric { name, value, unit, epoch, summary } => {
                self.told.rows.push(Row { name, value, unit, epoch, mean: summary == Summary::Mean });
            }
            Message::Ready => news.ready = true,
            Message::Sufficed => news.sufficed = true,
            Message::Outcome { outcome, message } => self.said = Said::Outcome(outcome, message),
        }
    }

    fn hear_rows(&mut self, rows: Vec<MetricRow>, now: f64, news: &mut News) {
        for row in rows {
            if let Some(epoch) = row.epoch {
                if self.told.epochs.last().is_none_or(|(last, ..)| *last != epoch) {
                    self.told.epochs.push((epoch, self.epoch_began, now));
                    self.epoch_began = now;
                    news.epochs.push((epoch, BTreeMap::new()));
                }
                if let Some((_, metrics)) = news.epochs.last_mut() {
                    metrics.insert(row.name.clone(), row.value);
                }
            }
            self.told.rows.push(plain(row));
        }
        if let Some((epoch, metrics)) = news.epochs.last().filter(|_| self.log.is_some()) {
            let numbers: Vec<String> = metrics.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
            news.progress = Some((None, format!("epoch {epoch}: {}", numbers.join(", "))));
        }
    }
}

/// A plain program says no summary: times and rates come to their mean, everything else to its last value.
fn plain(row: MetricRow) -> Row {
    let mean = row.name.ends_with("_time") || row.name.ends_with("_per_s") || row.unit == "s";
    Row { name: row.name, value: row.value, unit: row.unit, epoch: row.epoch, mean }
}

/// Whole lines of a log as they come.
struct LogLines {
    path: PathBuf,
    offset: u64,
    rest: Vec<u8>,
}

impl LogLines {
    fn new(path: PathBuf) -> Self {
        LogLines { path, offset: 0, rest: Vec::new() }
    }

    fn lines(&mut self) -> Vec<String> {
        let Ok(mut file) = File::open(&self.path) else { return Vec::new() };
        let mut new = Vec::new();
        if file.seek(SeekFrom::Start(self.offset)).is_err() || file.read_to_end(&mut new).is_err() {
            return Vec::new();
        }
        self.offset += new.len() as u64;
        self.rest.extend(new);
        let Some(end) = self.rest.iter().rposition(|b| *b == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}
