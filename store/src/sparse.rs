//! Files block by block: hashed, and copied with their holes, and interruptible between blocks.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek, Write},
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

/// The end of the data or of the hole at an offset of a file.
enum Extent {
    Data(u64),
    /// Zeros that are not on disk.
    Hole(u64),
}

/// What is at an offset of a file of this length. Moves the file's position. Without an answer of the file system, the
/// rest is data.
fn extent(file: &File, at: u64, length: u64) -> Extent {
    if at >= length {
        return Extent::Data(u64::MAX);
    }
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) if data > at => Extent::Hole(data.min(length)),
        Err(rustix::io::Errno::NXIO) => Extent::Hole(length),
        Ok(_) => Extent::Data(seek(file, SeekFrom::Hole(at)).ok().filter(|hole| *hole > at).unwrap_or(u64::MAX)),
        Err(_) => Extent::Data(u64::MAX),
    }
}

/// The digest and the length of an open file.
pub(crate) fn content_digest(file: &File, activity: &Activity) -> io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = [0_u8; BLOCK];
    loop {
        activity.check()?;
        match file.read_at(&mut buffer, hasher.count()) {
            Ok(0) => return Ok((Digest(*hasher.finalize().as_bytes()), hasher.count())),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                activity.advance(read as u64);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Copies a file with its mode. Returns the digest of the copy, the open copy, and the metadata of the original.
pub(crate) fn copy_hashed(from: &Path, to: &Path, activity: &Activity) -> io::Result<(Digest, File, Metadata)> {
    let (meta, small) = copy_with_content(from, to, activity)?;
    if let Some(SmallCopy { content, copy }) = small {
        return Ok((Digest::of(&content), copy, meta));
    }
    let copy = File::open(to)?;
    Ok((content_digest(&copy, activity)?.0, copy, meta))
}

/// Copies a file with its mode, like [`fs::copy`], and keeps its holes.
pub(crate) fn copy(from: &Path, to: &Path, activity: &Activity) -> io::Result<()> {
    copy_with_content(from, to, activity).map(drop)
}

/// A small file goes through memory, because that takes the fewest system calls.
struct SmallCopy {
    content: Vec<u8>,
    copy: File,
}

/// Copies a file. Returns its metadata.
fn copy_with_content(from: &Path, to: &Path, activity: &Activity) -> io::Result<(Metadata, Option<SmallCopy>)> {
    activity.check()?;
    let mut source = File::open(from)?;
    let meta = source.metadata()?;
    if meta.is_file() && meta.len() <= BLOCK as u64 {
        let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
        // The file may be growing.
        (&mut source).take(BLOCK as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() <= BLOCK {
            let mut target = File::options().write(true).create(true).truncate(true).mode(meta.mode()).open(to)?;
            target.write_all(&bytes)?;
            target.set_permissions(meta.permissions())?;
            activity.advance(bytes.len() as u64);
            return Ok((meta, Some(SmallCopy { content: bytes, copy: target })));
        }
    }
    if !meta.is_file() || meta.len() <= COPIED {
        let bytes = fs::copy(from, to)?;
        activity.advance(bytes);
        return Ok((meta, None));
    }
    let _begun = activity.begin("copying", from, meta.len());
    let mut target = File::options().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let mut at = 0;
    'file: loop {
        let end = match extent(&source, at, meta.len()) {
            Extent::Data(end) => end,
            Extent::Hole(end) => {
                activity.advance(end - at);
                at = end;
                continue;
            }
        };
        source.seek(io::SeekFrom::Start(at))?;
        target.seek(io::SeekFrom::Start(at))?;
        while at < end {
            activity.check()?;
            // std copies with copy_file_range, which shares blocks if possible.
            let copied = io::copy(&mut (&mut source).take(COPIED.min(end - at)), &mut target)?;
            activity.advance(copied);
            at += copied;
            if copied == 0 {
                break 'file;
            }
        }
    }
    // The file may end with a hole.
    target.set_len(at)?;
    target.set_permissions(meta.permissions())?;
    Ok((meta, None))
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
    fn holes_are_not_copied_and_are_zeros() {
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
