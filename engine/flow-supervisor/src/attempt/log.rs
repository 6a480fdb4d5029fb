//! Limits the size of a log, because a program may print forever on a shared disk. The start and the newest part stay;
//! the middle is released to the file system while the program writes. Offsets do not change, so that neither writers
//! nor readers notice.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Seek, SeekFrom},
    ops::Range,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use flow_core::reason::{Fault, FileFault, Refusal};
use flow_runs::regular;
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, OFlag, fallocate},
    unistd::{Whence, lseek},
};

/// Size of the start that is kept.
pub const FIRST: u64 = 64 << 20;
/// Size of the newest part that is kept.
pub const NEWEST: u64 = 192 << 20;
/// If nothing can be released, a program with a longer log is ended.
const LONGEST: u64 = 1 << 30;
/// Minimum size of a released piece.
const PIECE: u64 = 16 << 20;
/// File systems release whole blocks.
const BLOCK: u64 = 64 << 10;

/// Opens a log for reading, but never follows a link in its place.
///
/// # Errors
/// It does not exist, cannot be opened, or is not a regular file.
pub fn open_log(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), path)
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let file =
        options.custom_flags(flags.bits()).open(path).map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ELOOP) => Fault::from(FileFault::LinkInPlace).into(),
            _ => e,
        })?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The range of a log that was released.
///
/// # Errors
/// The file cannot be read.
pub fn left_out(mut file: &File) -> io::Result<Option<Range<u64>>> {
    let length = file.metadata()?.len();
    if length <= FIRST {
        return Ok(None);
    }
    let at = file.stream_position()?;
    let next = next_data(file, FIRST);
    file.seek(SeekFrom::Start(at))?;
    Ok(next.map(|next| FIRST..next.min(length)))
}

/// If there is a hole here: the offset of the next data, to which the file is moved.
pub(super) fn next_data(file: &File, at: u64) -> Option<u64> {
    let next = lseek(file, i64::try_from(at).ok()?, Whence::SeekData).ok()?;
    Some(next.unsigned_abs()).filter(|next| *next > at)
}

/// Keeps one log within its bounds.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    /// Released up to this offset.
    given: u64,
}

impl Bound {
    /// For a log that need not exist yet.
    pub fn new(path: PathBuf) -> Bound {
        Bound { path, given: 0 }
    }

    /// Checks its length. Returns the reason to end the program if the log takes too much disk space.
    pub fn keep(&mut self) -> Option<Refusal> {
        let found = fs::symlink_metadata(&self.path).ok().filter(Metadata::is_file)?;
        let error = shorten(&self.path, found.len(), &mut self.given).err()?;
        let most = (LONGEST >> 20) as u32;
        (found.len() > LONGEST).then(|| Refusal::LogTooLong { most, error: error.into() })
    }
}

/// Releases the part between the start of a log and its newest part. `given` is the offset of the last release and
/// grows.
///
/// # Errors
/// The file system can release nothing.
fn shorten(path: &Path, length: u64, given: &mut u64) -> io::Result<()> {
    if length < *given {
        // The program has restarted the file.
        *given = 0;
    }
    let until = length.saturating_sub(NEWEST) / BLOCK * BLOCK;
    let from = (*given).max(FIRST);
    if until < from + PIECE {
        return Ok(());
    }
    let file = open(OpenOptions::new().write(true), path)?;
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let (start, bytes) = (i64::try_from(from), i64::try_from(until - from));
    let (Ok(start), Ok(bytes)) = (start, bytes) else { return Err(io::ErrorKind::FileTooLarge.into()) };
    fallocate(&file, how, start, bytes)?;
    *given = until;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn the_middle_of_a_long_log_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = File::create(&path).unwrap();
        file.write_all_at(b"first", FIRST - 5).unwrap();
        let filled = vec![b'x'; 1 << 20];
        let length = FIRST + (40 << 20) + NEWEST;
        for n in 0..40 {
            file.write_all_at(&filled, FIRST + (n << 20)).unwrap();
        }
        file.write_all_at(&filled, length - NEWEST).unwrap();
        file.set_len(length).unwrap();
        let mut given = 0;
        shorten(&path, FIRST + NEWEST, &mut given).unwrap();
        assert_eq!((given, left_out(&open_log(&path).unwrap()).unwrap()), (0, None), "nothing to give back");
        let before = fs::metadata(&path).unwrap().blocks();
        if shorten(&path, length, &mut given).is_err() {
            assert_eq!(given, 0, "this file system gives nothing back");
            return;
        }
        let meta = fs::metadata(&path).unwrap();
        assert!(meta.len() == length && meta.blocks() * 512 + (39 << 20) < before * 512, "{before} {}", meta.blocks());
        let log = open_log(&path).unwrap();
        assert_eq!(left_out(&log).unwrap(), Some(FIRST..length - NEWEST));
        let mut text = [0; 5];
        log.read_exact_at(&mut text, FIRST - 5).unwrap();
        assert_eq!(&text, b"first");
        log.read_exact_at(&mut text, length - NEWEST).unwrap();
        assert_eq!(&text, b"xxxxx");
        shorten(&path, length, &mut given).unwrap();
        assert_eq!(given, length - NEWEST, "once is enough");
        shorten(&path, 10, &mut given).unwrap();
        assert_eq!(given, 0, "a log that is begun anew is bounded anew");
    }

    #[test]
    fn a_link_or_a_pipe_in_place_of_a_log_is_told_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("secret", &path).unwrap();
        assert!(open_log(&path).unwrap_err().to_string().contains("symbolic link"));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(open_log(&path).unwrap_err().to_string(), "it is not a regular file, but a pipe");
        fs::remove_file(&path).unwrap();
        assert_eq!(open_log(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
