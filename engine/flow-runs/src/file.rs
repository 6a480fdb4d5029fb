//! Opens files of a store: only regular ones, because a pipe or a device in their place could block forever, and never
//! through a link, which may lead to a file outside.

use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use flow_core::reason::{Fault, FileFault, FileKind};
use nix::fcntl::OFlag;

/// An error, with the actual type, for anything other than a regular file.
///
/// # Errors
/// It is not a regular file.
pub fn regular(meta: &Metadata) -> io::Result<()> {
    let kind = meta.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(Fault::from(FileFault::NotRegular { found: file_kind(kind) }).into())
}

/// The type of something that is not a file.
pub fn file_kind(kind: FileType) -> FileKind {
    match () {
        () if kind.is_dir() => FileKind::Folder,
        () if kind.is_symlink() => FileKind::Link,
        () if kind.is_fifo() => FileKind::Pipe,
        () if kind.is_socket() => FileKind::Socket,
        () => FileKind::Device,
    }
}

/// What was found; `None` if it does not exist.
pub fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// True if the open file is the one at this path.
pub fn is_at(file: &File, path: &Path) -> bool {
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    file.metadata().is_ok_and(|own| fs::symlink_metadata(path).is_ok_and(|there| same(&own, &there)))
}

/// Ok if the path is a regular file or does not exist.
pub fn check(path: &Path) -> io::Result<()> {
    if_there(is_in_the_way(path)).map(drop)
}

/// Ok if the path is a regular file; the system's error if it does not exist.
fn is_in_the_way(path: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_file() { Ok(()) } else { Err(Fault::from(FileFault::InTheWay { found: file_kind(kind) }).into()) }
}

pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    check(path)?;
    open_checked(options, path)
}

fn open_checked(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits()).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    // Only one check, because this is called for each past run, and most have no such file.
    is_in_the_way(path)?;
    open_checked(OpenOptions::new().read(true), path)
}

/// Content of a regular file.
///
/// # Errors
/// It is something else, or it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "text").unwrap();
        fs::create_dir(path("folder")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        assert_eq!(read(&path("file")).unwrap(), b"text");
        assert_eq!(read(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        for (name, what) in [("folder", "a folder"), ("pipe", "a pipe"), ("link", "a link")] {
            let why = format!("it is not a regular file, but {what}: move it away");
            assert_eq!(read(&path(name)).unwrap_err().to_string(), why);
        }
    }
}
