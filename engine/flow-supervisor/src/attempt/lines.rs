//! Lines of a file that a program appends to, as they arrive. A look reads a bounded amount, however much the program
//! writes, and keeps a bounded part of a long line. Knows no protocol.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::measure::{LONGEST_LINE, is_read};

use super::log;

/// Limit of one look. If a program always writes more, the rest is read after its end.
const PIECE: u64 = 1 << 20;
/// How much of the unread rest is read after the program has ended: its last part.
const LAST: u64 = 16 << 20;
/// Resolution of a file's modification time: a tick of the kernel, in seconds.
const TICK: f64 = 0.01;

#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: Option<File>,
    /// There was no file when the program had ended.
    is_absent: bool,
    /// The bytes that end a line.
    ends: &'static [u8],
    rest: Vec<u8>,
    /// Offset up to which the file was read.
    at: u64,
    /// Start and end of the lines that the last look found.
    found: (u64, u64),
    passing: bool,
    passed_over: u64,
    /// Bytes that were dropped before they were read.
    gone: u64,
    /// When the file was last looked at, and when lines last arrived.
    looked: f64,
    came: f64,
}

impl Lines {
    /// From the start of a file that need not exist yet.
    pub fn new(path: PathBuf, ends: &'static [u8]) -> Lines {
        Lines {
            path,
            file: None,
            is_absent: false,
            ends,
            rest: Vec::new(),
            at: 0,
            found: (0, 0),
            passing: false,
            passed_over: 0,
            gone: 0,
            looked: f64::NEG_INFINITY,
            came: f64::NEG_INFINITY,
        }
    }

    /// From the start of an open file.
    pub(crate) fn of(file: File, path: PathBuf, ends: &'static [u8]) -> Lines {
        Lines { file: Some(file), ..Lines::new(path, ends) }
    }

    /// New whole lines without the final `\n`; `None` if there is nothing more to read for now.
    ///
    /// # Errors
    /// The file exists and cannot be read, or is not a regular file.
    pub fn poll(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        if self.is_absent {
            return Ok(None);
        }
        let Some(file) = open(&mut self.file, &self.path)? else { return Ok(None) };
        if self.at >= log::FIRST
            && let Some(next) = log::next_data(file, self.at)
        {
            self.gone += next - self.at;
            self.at = next;
            self.rest.clear();
            // The next data begins within a line.
            self.passing = true;
        }
        let mut piece = Vec::new();
        if file.take(PIECE).read_to_end(&mut piece)? == 0 {
            return Ok(None);
        }
        let mut lines = Vec::new();
        let mut begins = self.at - self.rest.len() as u64;
        for part in piece.split_inclusive(|byte| self.ends.contains(byte)) {
            self.at += part.len() as u64;
            match part.split_last() {
                Some((end, text)) if self.ends.contains(end) => {
                    let mut line = std::mem::take(&mut self.rest);
                    let began = std::mem::replace(&mut begins, self.at);
                    if std::mem::take(&mut self.passing) {
                        self.passed_over += 1;
                        continue;
                    }
                    // Numbers before a `\r` may be overwritten, so the reader needs it.
                    line.extend_from_slice(if *end == b'\r' { part } else { text });
                    if !is_read(&line) {
                        self.passed_over += 1;
                        continue;
                    }
                    if lines.is_empty() {
                        self.found.0 = began;
                    }
                    self.found.1 = self.at;
                    lines.push(line);
                }
                _ => self.rest.extend_from_slice(part),
            }
        }
        if self.passing || self.rest.len() > LONGEST_LINE {
            self.rest.clear();
            self.passing = true;
        }
        Ok(Some(lines))
    }

    /// The program has ended: skips to near the end of the unread part, and returns how many bytes were skipped.
    ///
    /// # Errors
    /// As [`Lines::poll`].
    pub fn hasten(&mut self) -> io::Result<u64> {
        let gone = std::mem::take(&mut self.gone);
        let Some(file) = open(&mut self.file, &self.path)? else {
            self.is_absent = true;
            return Ok(gone);
        };
        let (at, length) = (file.stream_position()?, file.metadata()?.len());
        let near = length.saturating_sub(LAST);
        if near <= at {
            return Ok(gone);
        }
        file.seek(SeekFrom::Start(near))?;
        self.at = near;
        self.rest.clear();
        // The rest begins within a line.
        self.passing = true;
        Ok(near - at + gone)
    }

    /// The last line, if it has no line end.
    pub fn unfinished(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.rest);
        self.found = (self.at - rest.len() as u64, self.at);
        (!self.passing && !rest.is_empty() && is_read(&rest)).then_some(rest)
    }

    /// True if the file was replaced, or is shorter than what was read of it.
    pub fn is_another(&self) -> bool {
        let Some(open) = self.file.as_ref().and_then(|file| file.metadata().ok()) else { return false };
        fs::symlink_metadata(&self.path).is_ok_and(|there| there.ino() != open.ino() || there.len() < self.at)
    }

    /// When the lines of this look were written, in seconds since 1970: the file's modification time if it lies after
    /// the previous look, else `now`. Call it at every look, because another machine's file system has another clock.
    pub fn came(&mut self, now: f64) -> f64 {
        let earliest = self.came.max(self.looked - TICK);
        let written = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|file| written(&file));
        self.looked = now;
        written.filter(|at| earliest.is_finite() && *at > earliest && *at <= now).unwrap_or(now)
    }

    /// Lines found from now on arrived after this time: that of earlier lines, the start, or the release of a group.
    pub fn comes_after(&mut self, at: f64) {
        self.came = self.came.max(at);
    }

    /// Start and end of the lines that were found last.
    pub fn found(&self) -> (u64, u64) {
        self.found
    }

    /// Number of lines that were too long to be read.
    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over
    }
}

/// The modification time of a file, seconds since 1970.
fn written(file: &Metadata) -> f64 {
    file.mtime() as f64 + file.mtime_nsec() as f64 / 1e9
}

fn open<'a>(file: &'a mut Option<File>, path: &Path) -> io::Result<Option<&'a mut File>> {
    if file.is_none() {
        *file = match log::open_log(path) {
            Ok(found) => Some(found),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
    }
    Ok(file.as_mut())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::unix::fs::FileExt,
        time::{Duration, UNIX_EPOCH},
    };

    use super::*;

    fn lines(dir: &tempfile::TempDir) -> (Lines, File) {
        let path = dir.path().join("log");
        let file = File::create(&path).unwrap();
        (Lines::new(path, b"\n\r"), file)
    }

    fn text(lines: &mut Lines) -> Vec<String> {
        let polled = lines.poll().unwrap().unwrap_or_default();
        polled.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_come_when_they_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Lines::new(dir.path().join("none"), b"\n").poll().unwrap(), None);
        let (mut lines, mut file) = lines(&dir);
        assert_eq!(lines.poll().unwrap(), None);
        write!(file, "10%\r20%\r\none\ntw").unwrap();
        assert_eq!(text(&mut lines), ["10%\r", "20%\r", "", "one"]);
        write!(file, "o\nthr").unwrap();
        assert_eq!(lines.poll().unwrap().unwrap(), [b"two".to_vec()]);
        assert_eq!((lines.unfinished(), lines.unfinished()), (Some(b"thr".to_vec()), None));
    }

    #[test]
    fn a_look_reads_a_bounded_piece_and_the_end_a_bounded_rest() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lines, mut file) = lines(&dir);
        file.write_all(&b"loss 1\n".repeat((LAST as usize + (4 << 20)) / 7)).unwrap();
        let read = text(&mut lines).len() as u64 * 7;
        assert!(read <= PIECE, "{read}");
        let passed_over = lines.hasten().unwrap();
        assert!((2 << 20..4 << 20).contains(&passed_over), "{passed_over}");
        let mut looks = 0;
        while let Some(found) = lines.poll().unwrap() {
            assert!(found.iter().all(|line| line == b"loss 1"), "whole lines only");
            looks += 1;
        }
        assert_eq!((looks, lines.at), (LAST / PIECE, file.metadata().unwrap().len()));
        assert_eq!(lines.hasten().unwrap(), 0);
    }

    #[test]
    fn lines_came_when_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lines, mut file) = lines(&dir);
        let mut came = |written: f64, now: f64, after: Option<f64>| {
            writeln!(file, "loss 1").unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs_f64(written)).unwrap();
            assert_eq!(text(&mut lines), ["loss 1"]);
            after.into_iter().for_each(|at| lines.comes_after(at));
            let at = lines.came(now);
            lines.comes_after(at);
            at
        };
        assert_eq!(came(999.5, 1000.0, None), 1000.0, "nobody knows since when");
        assert_eq!(came(1000.5, 1000.75, None), 1000.5);
        assert_eq!(came(1000.5, 1001.0, None), 1001.0, "it was read at the look before");
        assert_eq!(came(1001.25, 1001.75, Some(1001.5)), 1001.75, "the group was released in between");
        assert_eq!(came(1001.875, 1002.0, None), 1001.875);
        assert_eq!(came(1001.9375, 1003.0, None), 1003.0, "the file's clock is behind");
        assert_eq!(came(1009.0, 1004.0, None), 1004.0, "the file's clock is ahead");
        assert_eq!(lines.came(1005.0), 1005.0, "nothing was written since the last look");
        writeln!(file, "loss 1").unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs_f64(1004.5)).unwrap();
        assert_eq!((text(&mut lines).len(), lines.came(1005.5)), (1, 1005.5), "nor since that");
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lines, mut file) = lines(&dir);
        for _ in 0..5 {
            file.write_all(&vec![b'x'; PIECE as usize]).unwrap();
            assert_eq!(text(&mut lines), [""; 0]);
            assert!(lines.rest.len() <= LONGEST_LINE);
        }
        assert_eq!(lines.unfinished(), None);
        write!(file, "\nnext\n").unwrap();
        assert_eq!((text(&mut lines), lines.passed_over()), (vec!["next".to_owned()], 1));
    }

    #[test]
    fn what_is_gone_before_it_was_read_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (mut lines, file) = lines(&dir);
        let end = log::FIRST + (8 << 20);
        file.write_all_at(b"loss 1\nloss 0.1", log::FIRST - 15).unwrap();
        file.write_all_at(b"2345\nloss 3\n", end).unwrap();
        lines.hasten().unwrap();
        let mut seen = Vec::new();
        while let Some(found) = lines.poll().unwrap() {
            seen.extend(found.into_iter().map(|line| String::from_utf8(line).unwrap()));
        }
        assert_eq!(seen, ["loss 3"], "and no line of two halves");
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(
            Lines::new(path.clone(), b"\n").poll().unwrap_err().to_string(),
            "it is not a regular file, but a pipe"
        );
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(Lines::new(path, b"\n").poll().is_err());
    }
}
