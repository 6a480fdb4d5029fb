//! The files in which a plain program leaves its numbers: read when it has ended, and followed during the run for the
//! screen. Only the final reading counts.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Seek, SeekFrom},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use flow_core::{
    EventFile, LineReader, MetricRow, Metrics, MetricsFile, MetricsForm, NumberFiles,
    measure::{EndedEpoch, EpochPosition, ReportedNumbers},
    reason::NoMetrics,
};
use flow_store::Activity;
use flow_supervisor::{attempt::Lines, secrets::Secrets};
use walkdir::WalkDir;

use crate::text;

/// Size limit of a number file that is read at once.
const LONGEST: u64 = 64 << 20;
/// Limit of folder entries that are looked at.
pub(crate) const MOST_ENTRIES: usize = 10_000;

/// The files of a work folder.
pub(crate) struct InWork<'a> {
    pub(crate) work: &'a Path,
    pub(crate) activity: &'a Activity,
}

impl NumberFiles for InWork<'_> {
    fn text(&mut self, file: &str) -> Result<String, NoMetrics> {
        text_in(&self.work.join(file), file)
    }

    fn pieces(&mut self, file: &str, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), NoMetrics> {
        text::pieces(&self.work.join(file), self.activity, take).map_err(unread(file))
    }

    fn event_files(&mut self, folder: &str) -> Result<Vec<String>, NoMetrics> {
        let path = self.work.join(folder);
        if fs::metadata(&path).map_err(unread(folder))?.is_dir() {
            fs::read_dir(&path).map_err(unread(folder))?;
        }
        Ok(event_files_in(&path))
    }

    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, NoMetrics> {
        self.activity.check().map_err(unread(file))?;
        bytes_in(&self.work.join(file), file)
    }
}

/// The text of a file, which errors call by this name.
pub(crate) fn text_in(path: &Path, name: &str) -> Result<String, NoMetrics> {
    text::read(path, LONGEST).map_err(unread(name))
}

/// The bytes of a file, which errors call by this name.
pub(crate) fn bytes_in(path: &Path, name: &str) -> Result<Vec<u8>, NoMetrics> {
    text::read_bytes(path, LONGEST).map_err(unread(name))
}

pub(crate) fn unread(name: &str) -> impl Fn(io::Error) -> NoMetrics {
    move |e| NoMetrics::Unread { file: name.to_owned(), error: e.into() }
}

/// The TensorBoard event files in a folder and below, as paths relative to it.
pub(crate) fn event_files_in(folder: &Path) -> Vec<String> {
    let entries = WalkDir::new(folder).into_iter().take(MOST_ENTRIES).flatten();
    let files = entries.filter(|entry| entry.file_type().is_file() && is_event_file(entry.path()));
    let below = |path: &Path| path.strip_prefix(folder).ok()?.to_str().map(str::to_owned);
    let mut files: Vec<String> = files.filter_map(|entry| below(entry.path())).collect();
    files.sort();
    files
}

/// Its name is the name of an event file.
pub(crate) fn is_event_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"))
}

/// Seconds between searches of a folder for event files.
const SEARCH: f64 = 2.0;

/// Follows line files and event files while a program writes them.
pub(crate) struct MetricsFollower {
    files: Vec<FollowedFile>,
    folders: Vec<EventFolder>,
    printed: EpochPosition,
    reported: ReportedNumbers,
    /// Its log has its epochs.
    has_log_epochs: bool,
}

struct FollowedFile {
    file: MetricsFile,
    path: PathBuf,
    lines: Lines,
    reader: LineReader,
}

impl MetricsFollower {
    pub(crate) fn new(metrics: &Metrics, work: &Path) -> MetricsFollower {
        let followed = |file: &MetricsFile| FollowedFile::new(file.clone(), work.join(&file.path));
        let folders = metrics.files.iter().filter(|file| file.form == MetricsForm::TensorBoard);
        MetricsFollower {
            files: metrics.files.iter().filter_map(followed).collect(),
            folders: folders.map(|folder| EventFolder::new(work.join(&folder.path))).collect(),
            printed: EpochPosition::default(),
            reported: ReportedNumbers::default(),
            has_log_epochs: metrics.stdout.iter().any(flow_core::Pattern::has_epochs),
        }
    }

    /// Reads new numbers. Returns the epochs that ended, and a progress text.
    pub(crate) fn look(&mut self, now: f64, secrets: &Secrets) -> (Vec<EndedEpoch>, Option<String>) {
        let (mut ended, mut rows) = (Vec::new(), Vec::new());
        self.files.iter_mut().for_each(|file| file.read(&mut rows));
        let of_lines = rows.len();
        let mut tells = true;
        self.folders.iter_mut().for_each(|folder| tells &= folder.read(now, &mut rows));
        if rows.is_empty() {
            return (Vec::new(), None);
        }
        rows.iter_mut().for_each(|row| row.name = secrets.hide(std::mem::take(&mut row.name)));
        let logged = rows.split_off(of_lines);
        self.printed.take(rows.into_iter(), now, &mut self.reported, &mut ended);
        // A step may be a batch, and there are too many batches to show each.
        let mut steps = Vec::new();
        let of_events = if tells { &mut ended } else { &mut steps };
        self.printed.take(logged.into_iter(), now, &mut self.reported, of_events);
        if self.has_log_epochs {
            return (Vec::new(), None);
        }
        (ended, how_far(&self.printed, &self.reported))
    }

    /// The last epoch, after the program has ended.
    pub(crate) fn end(&mut self) -> Option<EndedEpoch> {
        self.printed.end(&self.reported).filter(|_| !self.has_log_epochs)
    }
}

impl FollowedFile {
    /// `None` unless the file consists of lines.
    fn new(file: MetricsFile, path: PathBuf) -> Option<FollowedFile> {
        let reader = file.lines()?;
        Some(FollowedFile { file, lines: Lines::new(path.clone(), b"\n"), path, reader })
    }

    /// The numbers of new, complete records. Errors are reported at the end, when all records are read.
    fn read(&mut self, rows: &mut Vec<MetricRow>) {
        if self.lines.is_another()
            && let Some(anew) = FollowedFile::new(self.file.clone(), self.path.clone())
        {
            *self = anew;
        }
        for line in self.lines.poll().ok().flatten().unwrap_or_default() {
            self.reader.feed(&String::from_utf8_lossy(&line), rows);
            self.reader.feed("\n", rows);
        }
    }
}

/// A folder with event files of TensorBoard.
struct EventFolder {
    path: PathBuf,
    searched: f64,
    files: BTreeMap<String, FollowedEventFile>,
}

/// An event file, with the offset up to which it was read, and its length then.
struct FollowedEventFile {
    file: EventFile,
    read: u64,
    length: u64,
}

impl EventFolder {
    fn new(path: PathBuf) -> EventFolder {
        EventFolder { path, searched: f64::MIN, files: BTreeMap::new() }
    }

    /// The numbers of new, complete records. Returns whether the program reports epochs. Damage is reported at the end.
    fn read(&mut self, now: f64, rows: &mut Vec<MetricRow>) -> bool {
        if now - self.searched >= SEARCH {
            self.searched = now;
            for path in event_files_in(&self.path) {
                let new = || FollowedEventFile { file: EventFile::new(&path), read: 0, length: 0 };
                self.files.entry(path.clone()).or_insert_with(new);
            }
        }
        self.files.iter_mut().for_each(|(path, logged)| _ = logged.read_on(&self.path.join(path), rows));
        self.files.values().all(|logged| logged.file.has_epochs())
    }
}

impl FollowedEventFile {
    fn read_on(&mut self, path: &Path, rows: &mut Vec<MetricRow>) -> io::Result<()> {
        let length = fs::metadata(path)?.len();
        if length == self.length {
            return Ok(());
        }
        self.length = length;
        let mut file = text::open_regular(path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes)?;
        self.read += self.file.take(&bytes, rows).unwrap_or(0) as u64;
        Ok(())
    }
}

/// A progress text from the latest numbers, `epoch 3: loss 0.5, top1 91.50%`; none without numbers.
pub(crate) fn how_far(printed: &EpochPosition, reported: &ReportedNumbers) -> Option<String> {
    let (head, numbers) = match (printed.epoch(), printed.place()) {
        (Some((part, epoch)), _) => (format!("epoch {epoch}: "), reported.of_epoch(part, epoch)),
        (None, Some(place)) => (format!("{place}: "), reported.latest()),
        // Between two epochs the text about the last one stays.
        (None, None) if !reported.epochs.is_empty() => return None,
        (None, None) => (String::new(), reported.latest()),
    };
    let units = reported.units(numbers.keys());
    let shown = |(name, value): (&String, &f64)| match units.get(name).map(String::as_str) {
        _ if !value.is_finite() => format!("{name} {value}"),
        Some("ratio") => format!("{name} {:.2}%", value * 100.0),
        Some(unit) => format!("{name} {} {unit}", brief(*value)),
        None => format!("{name} {}", brief(*value)),
    };
    let numbers: Vec<String> = numbers.iter().map(shown).collect();
    (!numbers.is_empty()).then(|| head + &numbers.join(", "))
}

/// The number as it was printed, if that is short; otherwise four decimals, or four significant digits below 0.001.
fn brief(value: f64) -> String {
    let whole = value.to_string();
    match value.abs() {
        _ if whole.len() <= 8 => whole,
        size if size < 0.001 => format!("{value:.3e}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_followed_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let files = vec![
            MetricsFile { form: MetricsForm::Jsonl, path: "m.jsonl".into() },
            MetricsFile { form: MetricsForm::Csv, path: "log.csv".into() },
        ];
        let mut following = MetricsFollower::new(&Metrics { files, ..Metrics::default() }, dir.path());
        let mut look = |text: &str, now| {
            fs::write(dir.path().join("log.csv"), text).unwrap();
            let (ended, how_far) = following.look(now, &Secrets::default());
            (ended.into_iter().map(|(epoch, _)| epoch).collect::<Vec<_>>(), how_far.unwrap_or_default())
        };
        let seen = |ended: &[u32], how_far: &str| (ended.to_vec(), how_far.to_owned());
        assert_eq!(look("epoch,loss", 1.0), seen(&[], ""));
        assert_eq!(look("epoch,loss\n0,0.5\n1,0.2", 2.0), seen(&[], "epoch 0: loss 0.5"));
        assert_eq!(look("epoch,loss\n0,0.5\n1,0.25\n", 3.0), seen(&[0], "epoch 1: loss 0.25"));
        assert_eq!(look("epoch,loss\n0,0.5\n1,0.25\n", 4.0), seen(&[], ""), "nothing is new");
        // A logger that meets a new metric writes its file again.
        let rewritten = "epoch,loss,acc\n2,1,9\n";
        assert_eq!(look(rewritten, 5.0), seen(&[1], "epoch 2: acc 9, loss 1"));
        fs::write(dir.path().join("m.jsonl"), "{\"lr\": 3}\nnoise\n").unwrap();
        assert_eq!(look(rewritten, 6.0), seen(&[], "epoch 2: acc 9, loss 1"));
        assert_eq!(following.end().map(|(epoch, _)| epoch), Some(2));
    }

    #[test]
    fn numbers_are_shown_as_they_were_printed_if_they_are_short() {
        for (value, text) in
            [(800.0, "800"), (0.00007, "0.00007"), (1.0 / 3.0, "0.3333"), (1.0 / 30000.0, "3.333e-5"), (-0.5, "-0.5")]
        {
            assert_eq!(brief(value), text);
        }
    }

    #[test]
    fn a_field_of_several_lines_is_one_field_while_it_is_written_too() {
        let dir = tempfile::tempdir().unwrap();
        let files = vec![MetricsFile { form: MetricsForm::Csv, path: "log.csv".into() }];
        let mut following = MetricsFollower::new(&Metrics { files, ..Metrics::default() }, dir.path());
        let mut look = |text: &str, now| {
            fs::write(dir.path().join("log.csv"), text).unwrap();
            following.look(now, &Secrets::default()).1
        };
        assert_eq!(look("epoch,note,loss\n1,\"multi\n7,x,0.001\nend", 1.0), None, "the record is not whole");
        let now = look("epoch,note,loss\n1,\"multi\n7,x,0.001\nend\",0.4\n", 2.0);
        assert_eq!(now.as_deref(), Some("epoch 1: loss 0.4"));
    }

    #[test]
    fn an_event_file_is_followed_while_it_is_written() {
        const LOGGED: &[u8] = include_bytes!("../../../../flow-core/tests/loggers/keras-validation.tfevents");
        let dir = tempfile::tempdir().unwrap();
        let files = vec![MetricsFile { form: MetricsForm::TensorBoard, path: "logs".into() }];
        let mut following = MetricsFollower::new(&Metrics { files, ..Metrics::default() }, dir.path());
        let mut look = |now| following.look(now, &Secrets::default());
        assert_eq!(look(1.0), (vec![], None), "there is no folder yet");
        fs::create_dir(dir.path().join("logs")).unwrap();
        let write = |bytes: usize| fs::write(dir.path().join("logs/events.out.tfevents.1"), &LOGGED[..bytes]).unwrap();
        write(LOGGED.len() / 2);
        assert_eq!(look(2.0), (vec![], None), "it was not searched for again");
        insta::assert_snapshot!(look(3.0).1.unwrap_or_default(), @"epoch 0: epoch_accuracy 0.4875, epoch_loss 0.7474");
        assert_eq!(look(3.5), (vec![], None), "nothing is new");
        write(LOGGED.len());
        insta::assert_snapshot!(look(4.0).1.unwrap_or_default(), @"epoch 2: epoch_accuracy 0.6875, epoch_loss 0.5234");
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
