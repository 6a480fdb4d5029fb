//! Reads text files that a user or a program names: only regular ones, because a pipe or a device could block forever,
//! and only up to a plausible size.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use bytesize::ByteSize;
use flow_core::reason::{Fault, FileFault};
use flow_runs::regular;
use flow_store::Activity;
use nix::fcntl::OFlag;

/// The text in a file of at most `longest` bytes.
///
/// # Errors
/// It does not exist, cannot be read, is not a regular file, is too long, or is not UTF-8.
pub fn read(path: &Path, longest: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, longest)?)
        .map_err(|error| not_text(lines_in(&error.as_bytes()[..error.utf8_error().valid_up_to()])))
}

/// Passes the text of a file of any length to `take`, piece by piece until it breaks.
///
/// # Errors
/// As [`read`], except for the length.
pub fn pieces(path: &Path, activity: &Activity, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> io::Result<()> {
    const PIECE: u64 = 1 << 20;
    let (mut file, meta) = open(path)?;
    let _begun = activity.begin("reading", path, meta.len());
    let (mut bytes, mut lines) = (Vec::new(), 0);
    loop {
        activity.check()?;
        let read = (&mut file).take(PIECE).read_to_end(&mut bytes)?;
        activity.advance(read as u64);
        let valid = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            // A character that continues in the next piece.
            Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
            Err(error) => return Err(not_text(lines + lines_in(&bytes[..error.valid_up_to()]))),
        };
        if read == 0 || take(std::str::from_utf8(&bytes[..valid]).unwrap_or_default()).is_break() {
            return Ok(());
        }
        lines += lines_in(&bytes[..valid]);
        bytes.drain(..valid);
    }
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The error for invalid text after this many lines.
fn not_text(lines: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Fault::from(FileFault::NotText { line: lines + 1 }))
}

/// The bytes of a file of at most `longest` bytes.
///
/// # Errors
/// As [`read`], except for invalid text.
pub fn read_bytes(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let (file, meta) = open(path)?;
    let too_long = |bytes| {
        let iec = |bytes| ByteSize(bytes).display().iec().to_string();
        io::Error::from(Fault::from(FileFault::TooLong { size: iec(bytes), most: iec(longest) }))
    };
    let bytes = meta.len();
    if bytes > longest {
        return Err(too_long(bytes));
    }
    let mut content = Vec::with_capacity(bytes as usize + 1);
    // It may grow in the meantime, and some files have no length.
    file.take(longest + 1).read_to_end(&mut content)?;
    if content.len() as u64 > longest {
        return Err(too_long(content.len() as u64));
    }
    Ok(content)
}

/// Replaces a file and keeps its mode. If the disk is full, the old file stays. A reader never sees half of it.
///
/// # Errors
/// Those of the system; the existing path is not a regular file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let there = fs::metadata(path).ok();
    there.as_ref().map_or(Ok(()), regular)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = folder.join(format!(".flow-tmp-{:016x}", RandomState::new().hash_one(std::process::id())));
    let mode = if there.is_some() { 0o600 } else { 0o666 };
    let mut file = File::options().write(true).create_new(true).mode(mode).open(&new)?;
    let written = there
        .map_or(Ok(()), |there| file.set_permissions(there.permissions()))
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Opens a regular file. Nothing else is even opened, because that has effects on some devices.
///
/// # Errors
/// It does not exist, cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open(path).map(|(file, _)| file)
}

fn open(path: &Path) -> io::Result<(File, Metadata)> {
    regular(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let meta = file.metadata()?;
    regular(&meta)?;
    Ok((file, meta))
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_only_so_far() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        fs::write(path("text"), "four").unwrap();
        fs::write(path("bytes"), b"a\n\xff").unwrap();
        File::create(path("large")).unwrap().set_len(10 << 30).unwrap();
        let why = |path: &Path| read(path, 4).unwrap_err().to_string();
        assert_eq!(read(&path("text"), 4).unwrap(), "four");
        assert_eq!(why(&path("pipe")), "it is not a regular file, but a pipe");
        assert_eq!(why(Path::new("/dev/zero")), "it is not a regular file, but a device");
        assert_eq!(why(dir.path()), "it is not a regular file, but a folder");
        assert_eq!(why(&path("large")), "it has 10.0 GiB, and flow reads such files only up to 4 B");
        assert!(why(Path::new("/proc/self/status")).contains("only up to 4 B"), "its length is told as 0");
        assert_eq!(why(&path("bytes")), "it is not UTF-8 text in line 2");
        let mut all = String::new();
        let mut take = |piece: &str| {
            all.push_str(piece);
            ControlFlow::Continue(())
        };
        fs::write(path("long"), format!("a{}", "\u{e9}\n".repeat(1 << 20))).unwrap();
        let activity = Activity::default();
        pieces(&path("long"), &activity, &mut take).unwrap();
        assert_eq!(all, fs::read_to_string(path("long")).unwrap(), "a character in two pieces");
        let bytes = pieces(&path("bytes"), &activity, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(bytes.to_string(), "it is not UTF-8 text in line 2");
        let mut read_until_ended = 0;
        let ended = pieces(&path("long"), &activity, &mut |piece| {
            read_until_ended += piece.len();
            let doing = activity.doing().map(|doing| (doing.verb, doing.done, doing.total));
            assert_eq!(doing, Some(("reading", 1 << 20, (3 << 20) + 1)));
            activity.end();
            ControlFlow::Continue(())
        });
        assert_eq!(ended.unwrap_err().to_string(), "interrupted");
        assert_eq!((read_until_ended, activity.doing()), (1 << 20, None));
        assert_eq!(read(&path("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
