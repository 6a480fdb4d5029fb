//! The limits of the copies of a run: which inputs are copied, and which are only links because they are too large.

use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use crate::{Inputs, ignored::IgnoreRules};
use flow_runs::Result;

/// Larger inputs are not copied.
pub const CAPTURE_BYTES: u64 = 256 << 20;
/// Folders with more files are not copied.
pub const CAPTURE_FILES: u64 = 10_000;
/// Limits for all copies of a run.
pub const ALL_BYTES: u64 = 4 << 30;
pub const ALL_FILES: u64 = 100_000;

/// No more entries of a folder are counted.
const COUNTED: usize = 100_000;

/// What the copies of one run take.
#[derive(Debug, Default)]
pub struct CopyRoom {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl CopyRoom {
    /// Takes the room for another copy. False if the input is too large, or all of them together.
    pub fn take(&mut self, bytes: u64, files: u64) -> bool {
        let fits = bytes <= CAPTURE_BYTES
            && files <= CAPTURE_FILES
            && self.bytes + bytes <= ALL_BYTES
            && self.files + files <= ALL_FILES;
        if fits {
            (self.bytes, self.files) = (self.bytes + bytes, self.files + files);
        }
        fits
    }
}

/// The size of an input, without ignored files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSize {
    pub files: u64,
    pub bytes: u64,
    /// It has more, but was not counted to its end.
    pub has_more: bool,
}

impl InputSize {
    /// True if it is too large, whatever else a run copies.
    pub fn is_too_large(&self) -> bool {
        self.has_more || !CopyRoom::default().take(self.bytes, self.files)
    }
}

impl Inputs {
    /// The size of a file or folder by a look at no more than 100,000 entries. Reads no content.
    ///
    /// # Errors
    /// A `.flowignore` cannot be read.
    pub fn size(&self, path: &Path) -> Result<InputSize> {
        let rules = IgnoreRules::of(path, self.root.as_deref(), &self.named)?;
        let counts = |entry: &DirEntry| {
            let below = entry.path().strip_prefix(path).unwrap_or(Path::new(""));
            below.as_os_str().is_empty() || !rules.covers(below, entry.file_type().is_dir())
        };
        let mut size = InputSize::default();
        for (n, entry) in WalkDir::new(path).follow_links(true).into_iter().filter_entry(counts).enumerate() {
            size.has_more = n >= COUNTED;
            if size.has_more {
                break;
            }
            // The run itself reports what it cannot read.
            let Some(meta) = entry.ok().and_then(|entry| entry.metadata().ok()).filter(|meta| meta.is_file()) else {
                continue;
            };
            (size.files, size.bytes) = (size.files + 1, size.bytes + meta.len());
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, fs::File, time::SystemTime};

    use super::*;

    #[test]
    fn a_copy_takes_room_until_one_of_the_limits() {
        let mut room = CopyRoom::default();
        assert!(!room.take(CAPTURE_BYTES + 1, 1) && !room.take(1, CAPTURE_FILES + 1));
        assert!((0..16).all(|_| room.take(CAPTURE_BYTES, 1)) && !room.take(1, 1), "4 GiB");
        let mut room = CopyRoom::default();
        assert!((0..10).all(|_| room.take(1, CAPTURE_FILES)) && !room.take(1, 1), "100,000 files");
    }

    #[test]
    fn ignored_files_have_no_size() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir_all(data.join("raw")).unwrap();
        File::create(data.join("raw/big")).unwrap().set_len(1 << 40).unwrap();
        fs::write(data.join("a"), "12345").unwrap();
        let inputs = Inputs::knowing(Default::default(), None, SystemTime::UNIX_EPOCH)
            .of_workflow(dir.path().to_owned(), BTreeSet::new());
        let size = inputs.size(&data).unwrap();
        assert!(size.is_too_large() && size.files == 2, "{size:?}");
        fs::write(data.join(".flowignore"), "raw\n").unwrap();
        let size = inputs.size(&data).unwrap();
        assert_eq!(size, InputSize { files: 1, bytes: 5, has_more: false });
        assert!(!size.is_too_large());
    }
}
