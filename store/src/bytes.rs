//! Values by key, wherever the database is: what the keys are, and what lies under them. Decides nothing.

use std::{collections::BTreeMap, ops::ControlFlow};

use flow_core::{Digest, RunId, StepResult, learn::Observation};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Last, Objects, Result,
    mark::{MARK, MARKS, Mark},
    results::order,
};

/// First byte of a value that stands in an object; JSON never begins with it.
const ELSEWHERE: u8 = b'@';

/// Which of several keys it was under which something lies, and what lies there.
pub(crate) type Found = Option<(usize, Vec<u8>)>;
/// What is done with each key and its value, as the database keeps it, and the number of the prefix that it begins with.
pub(crate) type Each<'a> = dyn FnMut(usize, &[u8], &[u8]) -> Result<()> + 'a;
/// The same with one prefix, until it breaks.
pub(crate) type EachUntil<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;
/// What is done with each key and its value in full.
pub(crate) type EachWhole<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// Read access by key, in this process or over a socket. Values are as the database keeps them.
pub(crate) trait Bytes {
    fn objects(&self) -> &Objects;

    /// Of each of these lists the first key under which something lies.
    fn first(&self, of: &[Vec<Vec<u8>>]) -> Result<Vec<Found>>;

    /// Every key and value that begins with one of these prefixes: prefix by prefix, in order of key.
    fn scan(&self, prefixes: &[Vec<u8>], each: &mut Each<'_>) -> Result<()>;

    /// The same of one prefix with large values in full; no value where it stands in an object that is lost.
    fn each(&self, prefix: &[u8], each: &mut EachWhole<'_>) -> Result<()> {
        self.scan(&[prefix.to_vec()], &mut |_, key, value| {
            match elsewhere(value) {
                None => each(key, Some(value)),
                Some(digest) => each(key, self.objects().read(&digest, "").ok().as_deref()),
            }
            Ok(())
        })
    }

    /// What lies under each of these keys.
    fn values<T: DeserializeOwned>(&self, keys: impl Iterator<Item = Vec<u8>>) -> Result<Vec<Option<T>>> {
        let found = self.first(&keys.map(|key| vec![key]).collect::<Vec<_>>())?;
        Ok(found.into_iter().map(|found| self.read(&found?.1)).collect())
    }

    fn value<T: DeserializeOwned>(&self, key: Vec<u8>) -> Result<Option<T>> {
        Ok(self.values(std::iter::once(key))?.pop().flatten())
    }

    /// A value that was found, as what it is.
    fn read<T: DeserializeOwned>(&self, value: &[u8]) -> Option<T> {
        match elsewhere(value) {
            None => parse(Some(value)),
            Some(digest) => parse(self.objects().read(&digest, "").ok().as_deref()),
        }
    }

    fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        self.value(result_key(fingerprint))
    }

    fn last(&self, workflow: &str, label: &str) -> Result<Option<Last>> {
        self.value(last_key(workflow, label))
    }

    /// What was observed under each of these shapes, oldest first.
    fn histories(&self, shapes: &[String]) -> Result<Vec<Vec<Observation>>> {
        let prefixes: Vec<Vec<u8>> = shapes.iter().map(|shape| history_key(shape, None)).collect();
        let mut found = vec![Vec::new(); shapes.len()];
        self.scan(&prefixes, &mut |shape, _, value| {
            found[shape].extend(self.read::<Observation>(value));
            Ok(())
        })?;
        found.iter_mut().for_each(|found| found.sort_by(|a, b| order(a).cmp(&order(b))));
        Ok(found)
    }

    /// The base mark; `None` if a flow made the database that had none.
    fn mark(&self) -> Result<Option<Mark>> {
        self.value(MARK.to_vec())
    }

    /// The marks that runs have of their own.
    fn marks(&self) -> Result<BTreeMap<RunId, u64>> {
        let mut found = BTreeMap::new();
        self.each(MARKS, &mut |key, value| {
            let run = String::from_utf8_lossy(&key[MARKS.len()..]).into_owned();
            found.extend(parse(value).map(|to: u64| (RunId(run), to)));
        })?;
        Ok(found)
    }
}

/// A value that cannot be read counts as not there: its step runs again, and `flow doctor` tells of it.
pub(crate) fn parse<T: DeserializeOwned>(value: Option<&[u8]>) -> Option<T> {
    serde_json::from_slice(value?).ok()
}

/// A value as it is kept.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    // Our own types with string keys: there is nothing in them that JSON cannot hold.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The object that a value stands in.
pub(crate) fn elsewhere(value: &[u8]) -> Option<Digest> {
    let (ELSEWHERE, rest) = value.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    std::str::from_utf8(rest).ok()?.parse().ok()
}

/// What stands in place of a value that stands in an object.
pub(crate) fn stands_in(object: &Digest) -> Vec<u8> {
    format!("{}{object}", char::from(ELSEWHERE)).into_bytes()
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
