//! Opening files of a store: what stands at a name itself, and only a regular file. A pipe or a device in its place would hold the
//! reader up for ever, and a link leads to what is somebody else's.

use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use flow_core::reason::{Fault, FileFault, FileKind};
use nix::fcntl::OFlag;

/// An error for what is no regular file, which says what it is.
///
/// # Errors
/// It is none.
pub fn regular(meta: &Metadata) -> io::Result<()> {
    let kind = meta.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(Fault::from(FileFault::NotRegular { found: file_kind(kind) }).into())
}

/// What that is which is no file.
pub(crate) fn file_kind(kind: FileType) -> FileKind {
    match () {
        () if kind.is_dir() => FileKind::Folder,
        () if kind.is_symlink() => FileKind::Link,
        () if kind.is_fifo() => FileKind::Pipe,
        () if kind.is_socket() => FileKind::Socket,
        () => FileKind::Device,
    }
}

/// What is there is a regular file, or there is nothing.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match is_in_the_way(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        looked => looked,
    }
}

/// What is there is no regular file, or there is nothing.
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
    // Each run of the past is asked for files that most have not: once will do.
    is_in_the_way(path)?;
    open_checked(OpenOptions::new().read(true), path)
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
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
            let why = format!("it is no regular file, but {what}: move it away");
            assert_eq!(read(&path(name)).unwrap_err().to_string(), why);
        }
    }
}
