//! Values by key: the keys, and the form of values. Decides nothing.

use flow_core::Digest;
use serde::{Serialize, de::DeserializeOwned};

use flow_runs::Result;

/// First byte of a value that is stored in an object; JSON never begins with it.
const IN_OBJECT: u8 = b'@';

/// Index of the first key that has a value, and the value.
pub(crate) type FoundValue = Option<(usize, Vec<u8>)>;
/// A callback for each key and stored value.
pub(crate) type EachValue<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;
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
