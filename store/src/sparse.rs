//! Files block by block: hashed and copied without reading their holes, and interruptible between blocks.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use flow_core::Digest;
use rustix::fs::{SeekFrom, seek};

use crate::Activity;

/// Bytes hashed at once.
const BLOCK: usize = 64 << 10;
/// Bytes copied at once.
const COPIED: u64 = 16 << 20;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// The next part of a file.
enum Extent {
    /// Data, of at most this length.
    Data(u64),
    /// A hole: zeros that are not on disk, of this length.
    Hole(u64),
}

/// The data and the holes of an open file.
struct Extents<'a> {
    file: &'a File,
    /// Its length if it may have holes, else 0.
    sparse: u64,
}

impl<'a> Extents<'a> {
    fn of(file: &'a File) -> io::Result<Extents<'a>> {
        let meta = file.metadata()?;
        let is_sparse = meta.len() > BLOCK as u64 && meta.blocks() * 512 < meta.len();
        Ok(Extents { file, sparse: if is_sparse { meta.len() } else { 0 } })
    }

    /// Moves the file's position.
    fn at(&self, at: u64) -> Extent {
        if at >= self.sparse {
            return Extent::Data(u64::MAX);
        }
        let end = self.sparse;
        match seek(self.file, SeekFrom::Data(at)) {
            Ok(data) if data > at => Extent::Hole(data.min(end) - at),
            Err(rustix::io::Errno::NXIO) => Extent::Hole(end - at),
            Ok(_) => match seek(self.file, SeekFrom::Hole(at)) {
                Ok(hole) if hole > at => Extent::Data(hole - at),
                _ => Extent::Data(u64::MAX),
            },
            // The file system does not report holes.
            Err(_) => Extent::Data(u64::MAX),
        }
    }
}

/// The digest and the length of an open file.
pub(crate) fn content_digest(file: &File, activity: &Activity) -> io::Result<(Digest, u64)> {
    let extents = Extents::of(file)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = [0_u8; BLOCK];
    loop {
        let (mut left, is_hole) = match extents.at(hasher.count()) {
            Extent::Data(bytes) => (bytes, false),
            Extent::Hole(bytes) => (bytes, true),
        };
        while left > 0 {
            activity.check()?;
            let block = left.min(BLOCK as u64) as usize;
            let read = if is_hole {
                hasher.update(&ZEROS[..block]);
                block
            } else {
                match file.read_at(&mut buffer[..block], hasher.count()) {
                    Ok(0) => return Ok((Digest(*hasher.finalize().as_bytes()), hasher.count())),
                    Ok(read) => {
                        hasher.update(&buffer[..read]);
                        read
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
                    Err(e) => return Err(e),
                }
            };
            activity.advance(read as u64);
            left -= read as u64;
        }
    }
}

/// Copies a file with its mode, like [`fs::copy`], and keeps its holes.
pub(crate) fn copy(from: &Path, to: &Path, activity: &Activity) -> io::Result<()> {
    activity.check()?;
    let mut source = File::open(from)?;
    let meta = source.metadata()?;
    if !meta.is_file() || meta.len() <= COPIED {
        let bytes = fs::copy(from, to)?;
        activity.advance(bytes);
        return Ok(());
    }
    let _begun = activity.begin("copying", from, meta.len());
    let mut target = File::options().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let (mut at, extents) = (0, &source.try_clone()?);
    let extents = Extents::of(extents)?;
    'file: loop {
        let mut left = match extents.at(at) {
            Extent::Data(bytes) => bytes,
            Extent::Hole(bytes) => {
                activity.advance(bytes);
                at += bytes;
                continue;
            }
        };
        source.seek(io::SeekFrom::Start(at))?;
        target.seek(io::SeekFrom::Start(at))?;
        while left > 0 {
            activity.check()?;
            // std copies with copy_file_range, which shares blocks if possible.
            let copied = io::copy(&mut (&mut source).take(left.min(COPIED)), &mut target)?;
            activity.advance(copied);
            (at, left) = (at + copied, left - copied);
            if copied == 0 {
                break 'file;
            }
        }
    }
    // The file may end with a hole.
    target.set_len(at)?;
    target.set_permissions(meta.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this length with data at these offsets.
    fn sparse(path: &Path, length: u64, data: &[u64]) {
        let file = File::create(path).unwrap();
        file.set_len(length).unwrap();
        data.iter().for_each(|at| file.write_all_at(b"data", *at).unwrap());
    }

    #[test]
    fn holes_are_neither_read_nor_copied_and_are_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mib = 1 << 20;
        for (length, data) in [
            (3 * mib, &[][..]),
            (40 * mib, &[0]),
            (40 * mib + 5, &[20 * mib + 1]),
            (40 * mib, &[40 * mib - 4]),
            (17 * mib, &[0, 9 * mib, 17 * mib - 3]),
            (0, &[]),
        ] {
            sparse(&from, length, data);
            let length = fs::metadata(&from).unwrap().len();
            let expected = (Digest::of(&fs::read(&from).unwrap()), length);
            let digest = |path: &Path| content_digest(&File::open(path).unwrap(), &Activity::default()).unwrap();
            assert_eq!(digest(&from), expected, "{length} {data:?}");
            copy(&from, &to, &Activity::default()).unwrap();
            assert_eq!(digest(&to), expected, "{length} {data:?}");
            if length > COPIED {
                let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
                assert!(blocks(&to) <= blocks(&from) + 64, "{} blocks of {}", blocks(&to), blocks(&from));
            }
        }
    }

    #[test]
    fn a_hole_of_any_length_is_left_when_the_activity_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("huge");
        sparse(&path, 4 << 40, &[]);
        let activity = Activity::default();
        std::thread::scope(|scope| {
            let hash = scope.spawn(|| content_digest(&File::open(&path).unwrap(), &activity));
            std::thread::sleep(std::time::Duration::from_millis(20));
            activity.end();
            assert_eq!(hash.join().unwrap().unwrap_err().to_string(), "interrupted");
        });
        assert!(copy(&path, &dir.path().join("copy"), &activity).is_err());
    }
}
