//! The manifest of a folder: the basis of its digest, and what `flow why` compares. Pure.
//!
//! Encoding: the line `flow folder 1`, then one record per entry in bytewise order of path, each ended by a zero byte:
//! `d PATH`, `f DIGEST BYTES PATH` (`x` if executable; the digest is the file's, see [`crate::hash`]), `l PATH`, zero,
//! `TARGET`.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use flow_core::Digest;

const HEAD: &[u8] = b"flow folder 1\n";

/// The content of a folder, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Its entries, without the folder itself.
    pub entries: Vec<Entry>,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the folder.
    pub path: PathBuf,
    pub kind: EntryKind,
}

/// The type of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder, empty or not.
    Folder,
    File {
        digest: Digest,
        bytes: u64,
        /// Its owner may execute it.
        executable: bool,
    },
    /// A symbolic link, relative and inside of the folder.
    Link(PathBuf),
}

impl Manifest {
    /// The digest of a folder with these entries.
    pub fn digest(&self) -> Digest {
        folder_digest(&self.encode())
    }

    /// Number of files and their bytes.
    pub fn size(&self) -> (u64, u64) {
        self.entries.iter().fold((0, 0), |(files, sum), entry| match &entry.kind {
            EntryKind::File { bytes, .. } => (files + 1, sum + bytes),
            _ => (files, sum),
        })
    }

    /// The digest of each file by path, for comparisons.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Digest)> {
        self.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { digest, .. } => Some((entry.path.as_path(), digest)),
            _ => None,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = HEAD.to_vec();
        for entry in &self.entries {
            let path = Self::path_bytes(&entry.path);
            match &entry.kind {
                EntryKind::Folder => out.extend_from_slice(b"d "),
                EntryKind::File { digest, bytes, executable } => {
                    let letter = if *executable { 'x' } else { 'f' };
                    out.extend_from_slice(format!("{letter} {digest} {bytes} ").as_bytes());
                }
                EntryKind::Link(_) => out.extend_from_slice(b"l "),
            }
            out.extend_from_slice(path);
            out.push(0);
            if let EntryKind::Link(target) = &entry.kind {
                out.extend_from_slice(Self::path_bytes(target));
                out.push(0);
            }
        }
        out
    }

    /// `None` if the bytes are not a manifest.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Manifest> {
        let mut records = bytes.strip_prefix(HEAD)?.split_inclusive(|b| *b == 0);
        let mut entries = Vec::new();
        while let Some(record) = records.next() {
            let record = record.strip_suffix(b"\0")?;
            let (letter, rest) = record.split_at_checked(2)?;
            let (kind, path) = match letter {
                b"d " => (EntryKind::Folder, rest),
                b"f " | b"x " => {
                    let mut parts = rest.splitn(3, |b| *b == b' ');
                    let mut text = || std::str::from_utf8(parts.next()?).ok();
                    let digest = text()?.parse().ok()?;
                    let bytes = text()?.parse().ok()?;
                    (EntryKind::File { digest, bytes, executable: letter == b"x " }, parts.next()?)
                }
                b"l " => {
                    let target = records.next()?.strip_suffix(b"\0")?;
                    (EntryKind::Link(OsStr::from_bytes(target).into()), rest)
                }
                _ => return None,
            };
            entries.push(Entry { path: OsStr::from_bytes(path).into(), kind });
        }
        Some(Manifest { entries })
    }

    pub(crate) fn path_bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }
}

/// The digest of a folder with this manifest.
pub(crate) fn folder_digest(encoded: &[u8]) -> Digest {
    Digest(blake3::derive_key("flow folder 1", encoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(paths in prop::collection::btree_set("[a-z \\\\n\u{e9}]{1,8}(/[a-z]{1,4}){0,2}", 0..8), n in 0_u64..9) {
            let kinds = [
                EntryKind::Folder,
                EntryKind::File { digest: Digest::of(b"x"), bytes: n, executable: n % 2 == 0 },
                EntryKind::Link("../a b".into()),
            ];
            let entries = paths.iter().zip(kinds.iter().cycle())
                .map(|(path, kind)| Entry { path: path.into(), kind: kind.clone() }).collect();
            let manifest = Manifest { entries };
            prop_assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest));
        }

        #[test]
        fn torn_bytes_are_refused_or_shorter(cut in 0_usize..120) {
            let file = EntryKind::File { digest: Digest::of(b"x"), bytes: 7, executable: false };
            let manifest = Manifest { entries: vec![Entry { path: "a".into(), kind: file.clone() }, Entry { path: "b".into(), kind: file }] };
            let whole = manifest.encode();
            prop_assume!(cut < whole.len());
            prop_assert_ne!(Manifest::decode(&whole[..cut]), Some(manifest));
        }
    }

    #[test]
    fn digests_are_frozen() {
        let manifest = Manifest {
            entries: vec![
                Entry { path: "a".into(), kind: EntryKind::Folder },
                Entry {
                    path: "a/b".into(),
                    kind: EntryKind::File { digest: Digest::of(b"hello"), bytes: 5, executable: true },
                },
                Entry { path: "c".into(), kind: EntryKind::Link("a/b".into()) },
            ],
        };
        insta::assert_snapshot!(manifest.digest(), @"d6024fb87a2a6de0c6e70fda4ae33db55a7b3fe2fcf685974889af04ecee09eb");
        insta::assert_snapshot!(crate::hash::file_digest(Digest::of(b"hello"), true), @"f1d84c7ce5902877327f7a161c196d2f94d234e95d366579659e989bdaae4ff3");
    }
}
