//! Files in which a plain program leaves its numbers: opened when it has ended, and followed while it runs, for people who look on.
//! What counts of them is read at the end.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use flow_core::{
    Metrics, MetricsFile, NumberFiles,
    measure::{EndedEpoch, Printed, Reported},
    reason::NoMetrics,
};
use walkdir::WalkDir;

use crate::{attempt::Lines, secrets::Secrets, text};

/// Of a file of numbers.
const LONGEST: u64 = 64 << 20;
/// How many entries of a folder are looked at.
pub(crate) const MOST_ENTRIES: usize = 10_000;

/// The files of a work folder.
pub(crate) struct InWork<'a>(pub(crate) &'a Path);

impl NumberFiles for InWork<'_> {
    fn text(&mut self, file: &str) -> Result<String, NoMetrics> {
        text_in(&self.0.join(file), file)
    }

    fn event_files(&mut self, folder: &str) -> Result<Vec<String>, NoMetrics> {
        let path = self.0.join(folder);
        fs::metadata(&path).map_err(unread(folder))?;
        Ok(event_files_in(&path))
    }

    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, NoMetrics> {
        bytes_in(&self.0.join(file), file)
    }
}

/// The text of a file that goes by this name.
pub(crate) fn text_in(path: &Path, name: &str) -> Result<String, NoMetrics> {
    text::read(path, LONGEST).map_err(unread(name))
}

/// What is in a file that goes by this name.
pub(crate) fn bytes_in(path: &Path, name: &str) -> Result<Vec<u8>, NoMetrics> {
    text::read_bytes(path, LONGEST).map_err(unread(name))
}

pub(crate) fn unread(name: &str) -> impl Fn(io::Error) -> NoMetrics {
    move |e| NoMetrics::Unread { file: name.to_owned(), error: e.to_string() }
}

/// The event files of TensorBoard in a folder and below, by their paths in it.
pub(crate) fn event_files_in(folder: &Path) -> Vec<String> {
    let entries = WalkDir::new(folder).into_iter().take(MOST_ENTRIES).flatten();
    let files = entries.filter(|entry| entry.file_type().is_file() && is_event_file(entry.path()));
    let below = |path: &Path| path.strip_prefix(folder).ok()?.to_str().map(str::to_owned);
    let mut files: Vec<String> = files.filter_map(|entry| below(entry.path())).collect();
    files.sort();
    files
}

/// It has the name that writers of event files give.
pub(crate) fn is_event_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"))
}

/// Follows files of lines while a program writes them.
pub(super) struct Following {
    files: Vec<Followed>,
    printed: Printed,
    reported: Reported,
    /// What it prints tells its epochs.
    told_elsewhere: bool,
}

struct Followed {
    file: MetricsFile,
    path: PathBuf,
    lines: Lines,
    /// The first line of a CSV file.
    header: Option<String>,
}

impl Following {
    pub(super) fn new(metrics: &Metrics, work: &Path) -> Following {
        let of_lines = |file: &&MetricsFile| matches!(file, MetricsFile::Jsonl(_) | MetricsFile::Csv(_));
        let followed = |file: &MetricsFile| Followed::new(file.clone(), work.join(file.path()));
        Following {
            files: metrics.files.iter().filter(of_lines).map(followed).collect(),
            printed: Printed::default(),
            reported: Reported::default(),
            told_elsewhere: metrics.stdout.iter().any(flow_core::Pattern::tells_epochs),
        }
    }

    /// Looks at what is new: the epochs that ended, and how far it is.
    pub(super) fn look(&mut self, now: f64, secrets: &Secrets) -> (Vec<EndedEpoch>, Option<String>) {
        let (mut ended, mut rows) = (Vec::new(), Vec::new());
        self.files.iter_mut().for_each(|file| file.read(&mut rows));
        if rows.is_empty() {
            return (Vec::new(), None);
        }
        rows.iter_mut().for_each(|row| row.name = secrets.hide(std::mem::take(&mut row.name)));
        self.printed.take(rows.into_iter(), now, &mut self.reported, &mut ended);
        if self.told_elsewhere {
            return (Vec::new(), None);
        }
        (ended, how_far(self.printed.epoch(), &self.reported))
    }

    /// The last epoch, when the program has ended.
    pub(super) fn end(&mut self) -> Option<EndedEpoch> {
        self.printed.end(&self.reported).filter(|_| !self.told_elsewhere)
    }
}

impl Followed {
    fn new(file: MetricsFile, path: PathBuf) -> Followed {
        Followed { file, lines: Lines::new(path.clone(), b"\n"), path, header: None }
    }

    /// The numbers of whole lines that are new. What is wrong with a line is told at the end, when all of them are read.
    fn read(&mut self, rows: &mut Vec<flow_core::MetricRow>) {
        if self.lines.is_another() {
            *self = Followed::new(self.file.clone(), self.path.clone());
        }
        for line in self.lines.poll().ok().flatten().unwrap_or_default() {
            let line = String::from_utf8_lossy(&line);
            let _ = match (&self.file, &self.header) {
                (MetricsFile::Csv(_), None) => {
                    self.header = Some(line.into_owned());
                    continue;
                }
                (MetricsFile::Csv(_), Some(header)) => self.file.read_lines(&format!("{header}\n{line}\n"), rows),
                _ => self.file.read_lines(&format!("{line}\n"), rows),
            };
        }
    }
}

/// `epoch 3: loss 0.5000, top1 91.50 %`: what the numbers that came last say of a program; nothing while there is none.
pub(super) fn how_far(epoch: Option<u32>, reported: &Reported) -> Option<String> {
    let (head, numbers) = match epoch {
        Some(epoch) => (format!("epoch {epoch}: "), reported.of_epoch(epoch)),
        // Between two epochs what was said of the last one still stands.
        None if !reported.epochs.is_empty() => return None,
        None => (String::new(), reported.latest()),
    };
    let units = reported.units(numbers.keys());
    let shown = |(name, value): (&String, &f64)| match units.get(name).map(String::as_str) {
        _ if !value.is_finite() => format!("{name} NaN"),
        Some("ratio") => format!("{name} {:.2} %", value * 100.0),
        Some(unit) => format!("{name} {value:.4} {unit}"),
        None => format!("{name} {value:.4}"),
    };
    let numbers: Vec<String> = numbers.iter().map(shown).collect();
    (!numbers.is_empty()).then(|| head + &numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_followed_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let files = vec![MetricsFile::Jsonl("m.jsonl".into()), MetricsFile::Csv("log.csv".into())];
        let mut following = Following::new(&Metrics { files, ..Metrics::default() }, dir.path());
        let mut look = |text: &str, now| {
            fs::write(dir.path().join("log.csv"), text).unwrap();
            let (ended, how_far) = following.look(now, &Secrets::default());
            (ended.into_iter().map(|(epoch, _)| epoch).collect::<Vec<_>>(), how_far.unwrap_or_default())
        };
        let seen = |ended: &[u32], how_far: &str| (ended.to_vec(), how_far.to_owned());
        assert_eq!(look("epoch,loss", 1.0), seen(&[], ""));
        assert_eq!(look("epoch,loss\n0,0.5\n1,0.2", 2.0), seen(&[], "epoch 0: loss 0.5000"));
        assert_eq!(look("epoch,loss\n0,0.5\n1,0.25\n", 3.0), seen(&[0], "epoch 1: loss 0.2500"));
        assert_eq!(look("epoch,loss\n0,0.5\n1,0.25\n", 4.0), seen(&[], ""), "nothing is new");
        // A logger that meets another metric writes its file anew.
        let rewritten = "epoch,loss,acc\n2,1,9\n";
        assert_eq!(look(rewritten, 5.0), seen(&[1], "epoch 2: acc 9.0000, loss 1.0000"));
        fs::write(dir.path().join("m.jsonl"), "{\"step\": 3}\nnoise\n").unwrap();
        assert_eq!(look(rewritten, 6.0), seen(&[], "epoch 2: acc 9.0000, loss 1.0000"));
        assert_eq!(following.end().map(|(epoch, _)| epoch), Some(2));
    }

    #[test]
    fn event_files_are_found_by_their_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("val")).unwrap();
        for file in ["val/events.out.tfevents.2", "events.out.tfevents.9.host", "hparams.yaml"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        assert_eq!(event_files_in(dir.path()), ["events.out.tfevents.9.host", "val/events.out.tfevents.2"]);
    }
}
