//! Values of a workflow's secrets, hidden wherever a program told them. Knows no names and no environment.

use std::{fs, io, path::Path};

use super::write_atomically;

/// Values that nobody is to read.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// What stands in their place.
const HIDDEN: &str = "***";

/// A shorter value stands in too many texts by chance, and is no secret.
const SHORTEST: usize = 4;

impl Secrets {
    /// Of these values; of one with several lines, a key for example, each line.
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Secrets {
        let lines = values.flat_map(|value| std::iter::once(value).chain(value.lines())).map(str::trim);
        let mut all: Vec<String> = lines.filter(|line| line.len() >= SHORTEST).map(str::to_owned).collect();
        // The longest first, for one may hold another.
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

    /// Takes them out of a file, if it is there.
    ///
    /// # Errors
    /// It cannot be read, or not be written.
    pub fn hide_in(&self, file: &Path) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let before = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        let after = self.0.iter().fold(before.clone(), |bytes, secret| replace(bytes, secret.as_bytes()));
        if after == before { Ok(()) } else { write_atomically(file, &after) }
    }
}

fn replace(bytes: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = &bytes[..];
    while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(HIDDEN.as_bytes());
        rest = &rest[at + secret.len()..];
    }
    if out.is_empty() && rest.len() == bytes.len() {
        return bytes;
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_in_texts_and_files() {
        let secrets = Secrets::new(["s3cr3t", "s3cr3t-long", "1", "", "-----KEY-----\nabcdef\n"].into_iter());
        assert_eq!(secrets.hide("tok s3cr3t-long s3cr3t, 1 of 2".into()), "tok *** ***, 1 of 2");
        assert_eq!(secrets.hide("abcdef".into()), "***");
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        secrets.hide_in(&log).unwrap();
        fs::write(&log, b"\xff tok s3cr3t\ns3cr3t\n").unwrap();
        secrets.hide_in(&log).unwrap();
        assert_eq!(fs::read(&log).unwrap(), b"\xff tok ***\n***\n");
    }
}
