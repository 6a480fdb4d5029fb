//! Values of a workflow's secrets, hidden wherever a program told them. Knows no names and no environment.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use memchr::memmem;
use nix::{errno::Errno, fcntl::OFlag};

/// Values that nobody is to read, the longest first, for one may hold another.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// What stands in their place.
const HIDDEN: &str = "***";

/// A shorter value stands in too many texts by chance, and is no secret.
const SHORTEST: usize = 4;

/// Of a file that grows faster than this, so much a look; what is left is looked at when its program has ended.
const PIECE: usize = 8 << 20;

impl Secrets {
    /// Of these values; of one with several lines, a key for example, each line.
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Secrets {
        let lines = values.flat_map(|value| std::iter::once(value).chain(value.lines())).map(str::trim);
        let mut all: Vec<String> = lines.filter(|line| line.len() >= SHORTEST).map(str::to_owned).collect();
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Secrets(all)
    }

    /// The text without them.
    pub fn hide(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| match text.contains(secret) {
            true => text.replace(secret, HIDDEN),
            false => text,
        })
    }
}

/// Hides secrets in a file to which a program appends, while it does: every byte of one becomes a `*`, in its place, for the
/// program goes on writing and others read along.
#[derive(Debug)]
pub struct Hider {
    path: PathBuf,
    /// No secret stands or begins before.
    done: u64,
}

impl Hider {
    /// For a file that need not be there yet.
    pub fn new(path: PathBuf) -> Hider {
        Hider { path, done: 0 }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is new since the last look, or a bounded piece of it; with `ended` all of it, whatever its length.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn look(&mut self, secrets: &Secrets, ended: bool) -> io::Result<()> {
        let Some(longest) = secrets.0.first().map(String::len) else { return Ok(()) };
        let Some(file) = open(&self.path)? else { return Ok(()) };
        let length = file.metadata()?.len();
        if length < self.done {
            // The program has begun it anew.
            self.done = 0;
        }
        if length == self.done {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(length - self.done).unwrap_or(PIECE).min(PIECE) + longest];
        loop {
            let read = fill(&file, &mut bytes, self.done)?;
            for secret in &secrets.0 {
                let stars = vec![b'*'; secret.len()];
                for at in memmem::find_iter(&bytes[..read], secret) {
                    file.write_all_at(&stars, self.done + at as u64)?;
                }
            }
            // The last bytes can be the beginning of a secret whose end is not there yet.
            self.done += read.saturating_sub(longest - 1) as u64;
            if read < bytes.len() || !ended {
                return Ok(());
            }
        }
    }
}

/// None where there is no file, or something else in its place, in which a program's words cannot stand.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits();
    match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => Ok(None),
            _ => Err(e),
        },
    }
}

/// Reads until the buffer is full or the file at its end.
fn fill(file: &File, bytes: &mut [u8], from: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], from + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn secrets_are_hidden_in_texts() {
        let secrets = Secrets::new(["s3cr3t", "s3cr3t-long", "1", "", "-----KEY-----\nabcdef\n"].into_iter());
        assert_eq!(secrets.hide("tok s3cr3t-long s3cr3t, 1 of 2".into()), "tok *** ***, 1 of 2");
        assert_eq!(secrets.hide("abcdef".into()), "***");
    }

    #[test]
    fn secrets_are_hidden_in_a_file_while_it_grows() {
        let secrets = Secrets::new(["s3cr3t", "s3cr3t-long", "t-lo"].into_iter());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut hider = Hider::new(path.clone());
        hider.look(&secrets, false).unwrap();
        let mut log = File::options().create(true).append(true).open(&path).unwrap();
        let mut now = |text: &[u8], ended| {
            log.write_all(text).unwrap();
            hider.look(&secrets, ended).unwrap();
            fs::read(&path).unwrap()
        };
        assert_eq!(now(b"\xff s3cr3t\n", false), b"\xff ******\n");
        assert_eq!(now(b"tok s3cr", false), b"\xff ******\ntok s3cr");
        assert_eq!(now(b"3t-lon", false), b"\xff ******\ntok *********n");
        assert_eq!(now(b"g\n", false), b"\xff ******\ntok *********ng\n", "known by what it was when it was written");
        assert_eq!(now(b"s3cr3t", true), b"\xff ******\ntok *********ng\n******");
    }

    #[test]
    fn a_huge_file_is_read_in_pieces_and_no_secret_slips_through_between_them() {
        let secrets = Secrets::new(["s3cr3t"].into_iter());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = File::create(&path).unwrap();
        // Across the end of the first piece, and far beyond the last of what was written.
        for at in [PIECE as u64 - 3, PIECE as u64 + 3, 1 << 28] {
            log.write_all_at(b"s3cr3t", at).unwrap();
        }
        Hider::new(path.clone()).look(&secrets, true).unwrap();
        let file = File::open(&path).unwrap();
        for at in [PIECE as u64 - 3, PIECE as u64 + 3, 1 << 28] {
            let mut found = [0; 6];
            file.read_exact_at(&mut found, at).unwrap();
            assert_eq!(&found, b"******", "at {at}");
        }
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let secrets = Secrets::new(["s3cr3t"].into_iter());
        let dir = tempfile::tempdir().unwrap();
        let look = |name: &str| Hider::new(dir.path().join(name)).look(&secrets, true).unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("theirs"), "s3cr3t").unwrap();
        std::os::unix::fs::symlink("theirs", dir.path().join("link")).unwrap();
        ["pipe", "folder", "link", "none"].into_iter().for_each(look);
        assert_eq!(fs::read_to_string(dir.path().join("theirs")).unwrap(), "s3cr3t");
    }
}
