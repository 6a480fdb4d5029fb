//! Observations of a running attempt, written look by look by its observer. If the observer is killed, the next run
//! that imports the result has all but the last moment. Each look appends a line of new data to a file in the attempt's
//! folder. The file is rewritten from time to time, so that it stays as small as its content. It is not synced, because
//! it only has to survive the death of a process, not of the machine.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use flow_core::{
    AttemptId,
    measure::{GpuSamples, HostSamples, Known, LINE_ENDS, Looks},
};
use flow_protocol::Exit;
use serde::{Deserialize, Serialize};

use super::{Record, programs::read_log};
use crate::attempt::{Folder, Lines, create_atomically, open_log};

const FILE: &str = "observations.jsonl";
/// If the last look is longer before the end, in seconds, the end was not observed: five looks are missing.
const UNSEEN: f64 = 0.25;
/// The file is rewritten when it has grown by this many bytes plus twice its first size.
const GROWN: usize = 64 << 10;
/// Seconds until a failed write is tried again.
const AGAIN: f64 = 5.0;

/// The path of an attempt's observations.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// New data since the previous look.
#[derive(Default, Serialize, Deserialize)]
struct Look {
    /// Seconds since 1970.
    at: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<(usize, HostSamples)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpus: Option<(Vec<usize>, GpuSamples)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<(usize, Looks)>,
    /// Attempts that started beside it, and whether on its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<(AttemptId, bool)>,
    /// Share of one CPU core that sampling takes.
    cost: f64,
    around: Surroundings,
}

/// Facts about the surroundings of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Surroundings {
    /// The largest number of attempts of other runs seen at once; `unwatched` if some could not be seen.
    pub(crate) elsewhere: u32,
    pub(crate) unwatched: bool,
    /// When the window of its group closed.
    pub(crate) closed: Option<f64>,
}

/// How many samples are written already.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) host: Known,
    pub(crate) gpus: Vec<Known>,
    log: usize,
    beside: usize,
}

/// Samples that are not written yet.
#[derive(Default)]
pub(crate) struct NewSamples {
    pub(crate) host: Option<(usize, HostSamples)>,
    pub(crate) gpus: Option<(Vec<usize>, GpuSamples)>,
    pub(crate) cost: f64,
}

/// The writer of an attempt's observations.
pub(crate) struct Observations {
    path: PathBuf,
    /// None if the file must be rewritten, after `retry_at`.
    file: Option<File>,
    retry_at: f64,
    length: usize,
    first: usize,
    written: Written,
    beside: Vec<(AttemptId, bool)>,
}

impl Observations {
    pub(crate) fn of(folder: &Path) -> Observations {
        let (written, beside) = (Written::default(), Vec::new());
        Observations { path: path(folder), file: None, retry_at: 0.0, length: 0, first: 0, written, beside }
    }

    /// Notes an attempt that started beside it, on its GPUs or not.
    pub(crate) fn is_beside(&mut self, other: AttemptId, near: bool) {
        self.beside.push((other, near));
    }

    /// Writes new data; `log`: how far the log was read.
    pub(crate) fn look(
        &mut self,
        at: f64,
        log: &Looks,
        around: Surroundings,
        news: impl FnOnce(&mut Written) -> NewSamples,
    ) {
        if at < self.retry_at {
            return;
        }
        if self.length > 3 * self.first + GROWN {
            self.file = None;
        }
        if self.file.is_none() {
            self.written = Written::default();
        }
        let NewSamples { host, gpus, cost } = news(&mut self.written);
        let log = log.news(&mut self.written.log);
        let beside = self.beside[self.written.beside..].to_vec();
        self.written.beside = self.beside.len();
        let mut line = serde_json::to_vec(&Look { at, host, gpus, log, beside, cost, around }).unwrap_or_default();
        line.push(b'\n');
        // After a failed write, a later look rewrites the file, because half a line would hide what follows. On a full
        // disk this is not tried again at once.
        self.file = self.append(&line).ok();
        self.retry_at = if self.file.is_some() { 0.0 } else { at + AGAIN };
    }

    fn append(&mut self, line: &[u8]) -> io::Result<File> {
        if let Some(mut file) = self.file.take() {
            file.write_all(line)?;
            self.length += line.len();
            return Ok(file);
        }
        (self.length, self.first) = (line.len(), line.len());
        create_atomically(&self.path, line)
    }
}

/// The record of an attempt that ended well, from its observations; none if the end was not observed.
pub(super) fn record(folder: &Path, exit: &Exit) -> Option<Record> {
    let mut seen = read(&path(folder))?;
    if exit.ended_at - seen.at > UNSEEN {
        return None;
    }
    seen.gpus.close(exit.ended_at);
    let folder = Folder::at(folder.to_owned());
    let from = seen.log.last().map_or(0, |(to, _)| to);
    let mut log = Some(Lines::after(folder.log(), LINE_ENDS, from, seen.at));
    read_log(&mut log, &mut seen.log, exit.ended_at, Some(true));
    let Surroundings { elsewhere, unwatched, closed } = seen.around;
    let near = seen.beside.iter().filter(|(_, near)| *near);
    Some(Record {
        host: seen.host,
        gpus: seen.gpus,
        cost: seen.cost,
        looks: seen.log,
        released: folder.released(),
        elsewhere,
        unwatched,
        near: near.map(|(attempt, _)| *attempt).collect(),
        beside: seen.beside.iter().map(|(attempt, _)| *attempt).collect(),
        closed,
        ..Record::of(exit.clone())
    })
}

/// The sum of all looks.
#[derive(Default)]
struct Seen {
    at: f64,
    host: HostSamples,
    gpus: GpuSamples,
    log: Looks,
    beside: Vec<(AttemptId, bool)>,
    cost: f64,
    around: Surroundings,
}

fn read(path: &Path) -> Option<Seen> {
    let mut text = Vec::new();
    open_log(path).ok()?.read_to_end(&mut text).ok()?;
    let mut seen = None::<Seen>;
    // A look that was cut off when its writer was killed is ignored, and so is one that does not continue the earlier
    // ones.
    for look in text.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice::<Look>(line).ok()) {
        let all = seen.get_or_insert_default();
        let fits = look.host.is_none_or(|news| all.host.take_in(news))
            && look.gpus.is_none_or(|news| all.gpus.take_in(news))
            && look.log.is_none_or(|news| all.log.take_in(news));
        if !fits {
            break;
        }
        (all.at, all.cost, all.around) = (look.at, look.cost, look.around);
        all.beside.extend(look.beside);
    }
    seen
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flow_core::measure::Used;

    use super::*;

    const BEGAN: f64 = 1_000.0;

    /// An attempt with this many looks, twice a second, with a log line in each.
    fn seen(folder: &Path, looks: u32) -> (Observations, HostSamples, Looks) {
        let mut observations = Observations::of(folder);
        let (mut host, mut log) = (HostSamples::since(BEGAN), Looks::default());
        observations.is_beside(AttemptId(7), true);
        for n in 1..=looks {
            let at = BEGAN + f64::from(n) * 0.5;
            host.push(at, Some(0.5), &Used { cpu_s: 0.5, rss: 0 }, None);
            log.push(u64::from(n - 1) * 7, u64::from(n) * 7, at);
            let around = Surroundings { elsewhere: n, ..Surroundings::default() };
            observations.look(at, &log, around, |written| NewSamples {
                host: host.news(&mut written.host),
                ..Default::default()
            });
        }
        (observations, host, log)
    }

    fn ended(looks: u32, after: f64) -> Exit {
        Exit { code: Some(0), started_at: BEGAN, ended_at: BEGAN + f64::from(looks) * 0.5 + after, ..Exit::default() }
    }

    #[test]
    fn what_was_seen_is_read_again_with_the_rest_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let (_, host, mut log) = seen(dir.path(), 3);
        fs::write(dir.path().join("log"), "loss 3\nloss 2\nloss 1\nloss 0\nlast").unwrap();
        let exit = ended(3, 0.1);
        let record = record(dir.path(), &exit).unwrap();
        log.push(21, 28, exit.ended_at);
        log.push(28, 32, exit.ended_at);
        assert_eq!((record.host, record.looks), (host, log));
        assert_eq!((record.elsewhere, record.is_unseen), (3, false));
        assert!(record.beside.contains(&AttemptId(7)) && record.near.contains(&AttemptId(7)));
    }

    #[test]
    fn where_nobody_looked_to_the_end_there_is_no_record() {
        let dir = tempfile::tempdir().unwrap();
        assert!(record(dir.path(), &ended(0, 0.0)).is_none());
        seen(dir.path(), 3);
        assert!(record(dir.path(), &ended(3, 0.2)).is_some());
        assert!(record(dir.path(), &ended(3, 0.3)).is_none());
        // The last look was cut off.
        let text = fs::read_to_string(path(dir.path())).unwrap();
        fs::write(path(dir.path()), &text[..text.len() - 20]).unwrap();
        assert!(record(dir.path(), &ended(3, 0.2)).is_none());
        assert!(record(dir.path(), &ended(2, 0.2)).is_some());
    }

    #[test]
    fn a_long_attempt_is_written_down_anew_and_what_could_not_be_written_is_made_up_for() {
        let dir = tempfile::tempdir().unwrap();
        let (mut observations, host, log) = seen(dir.path(), 30_000);
        let length = fs::metadata(path(dir.path())).unwrap().len();
        assert!(length < 4 << 20, "{length} bytes");
        let all = read(&path(dir.path())).unwrap();
        assert_eq!((&all.host, &all.log, all.beside.len()), (&host, &log, 1));
        // As on a full disk.
        observations.file = None;
        fs::write(path(dir.path()), "{\"at\": 1").unwrap();
        observations.look(BEGAN, &log, Surroundings::default(), |written| NewSamples {
            host: host.news(&mut written.host),
            ..Default::default()
        });
        let all = read(&path(dir.path())).unwrap();
        assert_eq!((&all.host, &all.log, all.at), (&host, &log, BEGAN));
    }
}
