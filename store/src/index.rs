//! A sorted file of keys and values, replaced as a whole. Knows no meaning of either. A cache: a file that cannot be
//! read, or has another form, counts as empty.
//!
//! Each entry is two lengths in four bytes, then key and value. After the entries come their offsets in eight bytes
//! each, the number of entries, and [`FORM`]. All numbers are little-endian.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use flow_core::reason::StoreAction;

use flow_runs::{Result, StoreDir, StoreError, file};

/// The last bytes of a file in this form.
const FORM: &[u8; 8] = b"\nflow i1";
const NUMBER: usize = size_of::<u64>();

#[derive(Default)]
pub(crate) struct Index {
    bytes: Vec<u8>,
    /// Where the offsets begin.
    table: usize,
    count: usize,
}

impl Index {
    pub(crate) fn read(path: &Path) -> Index {
        let bytes = file::read(path).unwrap_or_default();
        let found = (|| {
            let numbers = bytes.strip_suffix(FORM)?;
            let end = numbers.len().checked_sub(NUMBER)?;
            let count = usize::try_from(number(numbers, end)?).ok()?;
            Some((end.checked_sub(count.checked_mul(NUMBER)?)?, count))
        })();
        found.map_or_else(Index::default, |(table, count)| Index { bytes, table, count })
    }

    /// Replaces the file. A crash leaves the old one or the new one.
    pub(crate) fn write<'a>(
        dir: &StoreDir,
        path: &Path,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<()> {
        let temporary = dir.temporary(path.parent().unwrap_or(path));
        let written = (|| {
            let mut file = BufWriter::with_capacity(1 << 20, File::create(&temporary)?);
            let (mut at, mut table) = (0_u64, Vec::new());
            for (key, value) in entries {
                table.extend((at).to_le_bytes());
                for part in [key, value] {
                    file.write_all(&u32::try_from(part.len()).unwrap_or(0).to_le_bytes())?;
                }
                file.write_all(key)?;
                file.write_all(value)?;
                at += (2 * size_of::<u32>() + key.len() + value.len()) as u64;
            }
            file.write_all(&table)?;
            file.write_all(&((table.len() / NUMBER) as u64).to_le_bytes())?;
            file.write_all(FORM)?;
            file.into_inner()?.sync_data()?;
            fs::rename(&temporary, path)
        })();
        written.map_err(|e| {
            let _ = fs::remove_file(&temporary);
            StoreError::io(StoreAction::Write, path)(e)
        })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.from(key).next().filter(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// The entries from this key on, in order.
    pub(crate) fn from<'a>(&'a self, key: &[u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle) {
                Some((found, _)) if found < key => low = middle + 1,
                _ => high = middle,
            }
        }
        (low..self.count).map_while(|n| self.entry(n))
    }

    fn entry(&self, n: usize) -> Option<(&[u8], &[u8])> {
        let at = usize::try_from(number(&self.bytes, self.table + n * NUMBER)?).ok()?;
        let (key, rest) = self.bytes.get(at..self.table)?.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = (u32::from_le_bytes(*key) as usize, u32::from_le_bytes(*value) as usize);
        let (key, rest) = rest.split_at_checked(key)?;
        Some((key, rest.get(..value)?))
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_found_and_a_damaged_file_is_not_misread() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(scratch.path()).unwrap();
        let path = scratch.path().join("index");
        assert!(Index::read(&path).get(b"a").is_none(), "there is none");
        let entries: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"ab", b""), (b"b", &[7; 30]), (b"c", b"3")];
        Index::write(&dir, &path, entries.into_iter()).unwrap();
        let index = Index::read(&path);
        for (key, value) in entries {
            assert_eq!(index.get(key), Some(value));
        }
        assert!(index.get(b"").is_none() && index.get(b"aa").is_none() && index.get(b"d").is_none());
        assert!(index.from(b"aa").eq(entries[1..].iter().copied()));
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(Index::read(&path).from(b"").count(), 0, "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut disturbed = whole.clone();
            disturbed[at] ^= 0xff;
            fs::write(&path, &disturbed).unwrap();
            assert!(Index::read(&path).from(b"").count() <= 4);
        }
    }
}
