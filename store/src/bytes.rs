//! Values by key: the keys, and the form of values. Decides nothing.

use std::collections::BTreeMap;

use flow_core::{Digest, RunId, StepResult, learn::Observation};
use serde::{Serialize, de::DeserializeOwned};

use crate::{EarlierData, LastFingerprint, Objects, hash, results::order};
use flow_runs::{Result, mark::MARKS};

/// First byte of a value that is stored in an object; JSON never begins with it.
const IN_OBJECT: u8 = b'@';

/// Index of the first key that has a value, and the value.
pub(crate) type FoundValue = Option<(usize, Vec<u8>)>;
/// A callback for each key and stored value.
pub(crate) type EachValue<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;
/// A callback for each key and its full value.
pub(crate) type EachWhole<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// Read access by key. Values have their stored form.
pub(crate) trait Bytes: Sync {
    fn objects(&self) -> &Objects;

    /// The first of these keys that has a value, and the value.
    fn first(&self, of: &[Vec<u8>]) -> Result<FoundValue>;

    /// Every key and value with a prefix, in order of key.
    fn scan(&self, prefix: &[u8], each: &mut EachValue<'_>) -> Result<()>;

    /// The same, with large values in full; `None` if a value's object is lost.
    fn each(&self, prefix: &[u8], each: &mut EachWhole<'_>) -> Result<()> {
        self.scan(prefix, &mut |key, value| {
            match object_of(value) {
                None => each(key, Some(value)),
                Some(digest) => each(key, self.objects().read(&digest, "").ok().as_deref()),
            }
            Ok(())
        })
    }

    fn value<T: DeserializeOwned>(&self, key: Vec<u8>) -> Result<Option<T>> {
        Ok(self.first(&[key])?.and_then(|(_, value)| self.read(&value)))
    }

    /// Parses a stored value.
    fn read<T: DeserializeOwned>(&self, value: &[u8]) -> Option<T> {
        match object_of(value) {
            None => parse(Some(value)),
            Some(digest) => parse(self.objects().read(&digest, "").ok().as_deref()),
        }
    }

    fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        self.value(result_key(fingerprint))
    }

    /// The same for many, on several threads.
    fn results(&self, fingerprints: &[Digest]) -> Result<Vec<Option<StepResult>>> {
        hash::look_up_all(fingerprints, |fingerprint| self.result(fingerprint))
    }

    /// The first value found under the keys of a result, its attempt and the last fingerprint, in this order.
    fn earlier(&self, keys: &[Vec<u8>]) -> Result<EarlierData> {
        let mut next = 0;
        while let Some((place, value)) = self.first(&keys[next..])? {
            let found = match next + place {
                0 => self.read(&value).map(EarlierData::Result),
                1 => match self.read(&value) {
                    Some(reading) => self.result(&reading)?.map(|result| EarlierData::Attempt(Box::new(result))),
                    None => None,
                },
                _ => self.read(&value).map(EarlierData::Last),
            };
            if let Some(found) = found {
                return Ok(found);
            }
            next += place + 1;
        }
        Ok(EarlierData::Nothing)
    }

    fn last(&self, workflow: &str, label: &str) -> Result<Option<LastFingerprint>> {
        self.value(last_key(workflow, label))
    }

    /// The observations under each of these shapes, oldest first.
    fn histories(&self, shapes: &[String]) -> Result<Vec<Vec<Observation>>> {
        let history = |shape: &String| {
            let mut found: Vec<Observation> = Vec::new();
            self.scan(&history_key(shape, None), &mut |_, value| {
                found.extend(self.read::<Observation>(value));
                Ok(())
            })?;
            found.sort_by(|a, b| order(a).cmp(&order(b)));
            Ok(found)
        };
        shapes.iter().map(history).collect()
    }

    /// The offsets up to which journals are in the database.
    fn marks(&self) -> Result<BTreeMap<RunId, u64>> {
        let mut found = BTreeMap::new();
        self.each(MARKS, &mut |key, value| {
            let run = String::from_utf8_lossy(&key[MARKS.len()..]).into_owned();
            found.extend(parse(value).map(|to: u64| (RunId(run), to)));
        })?;
        Ok(found)
    }
}

/// An unreadable value counts as missing: its step runs again, and `flow doctor` reports it.
pub(crate) fn parse<T: DeserializeOwned>(value: Option<&[u8]>) -> Option<T> {
    serde_json::from_slice(value?).ok()
}

/// A value in its stored form.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    // Our own types with string keys always fit into JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The object that contains the value, if it is stored in one.
pub(crate) fn object_of(value: &[u8]) -> Option<Digest> {
    let (IN_OBJECT, rest) = value.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    std::str::from_utf8(rest).ok()?.parse().ok()
}

/// The reference to an object that contains a value.
pub(crate) fn object_reference(object: &Digest) -> Vec<u8> {
    format!("{}{object}", char::from(IN_OBJECT)).into_bytes()
}

pub(crate) fn result_key(fingerprint: &Digest) -> Vec<u8> {
    [b"r", &fingerprint.0[..]].concat()
}

pub(crate) fn attempt_key(attempt: &Digest) -> Vec<u8> {
    [b"a", &attempt.0[..]].concat()
}

pub(crate) fn last_key(workflow: &str, label: &str) -> Vec<u8> {
    [b"l", workflow.as_bytes(), b"\0", label.as_bytes()].concat()
}

pub(crate) fn history_key(shape: &str, slot: Option<u8>) -> Vec<u8> {
    let mut key = [b"h", &Digest::of(shape.as_bytes()).0[..]].concat();
    key.extend(slot);
    key
}
