//! From plain values to typed ones, each with what was expected. Used on what is written in the file and, when it becomes
//! known, on what expressions give; so both are refused in the same words.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use minijinja::value::{Value, ValueKind};

use super::at::Seg;
use crate::{
    CorunGpus, Diagnostic, Exclusive, Outcome, Span,
    expr::{
        value::{describe, to_text},
        whole,
    },
    reason::FoundValue,
};

/// A value that is not what was expected.
#[derive(Clone, Debug)]
pub(crate) struct ValueMistake {
    /// Where below the value.
    pub(crate) path: Vec<Seg>,
    /// It is about the key, not its value.
    pub(crate) key: bool,
    pub(crate) what: MistakeKind,
}

/// A mistake in a value.
#[derive(Clone, Debug)]
pub(crate) enum MistakeKind {
    /// It is this, and that was expected.
    Type {
        found: FoundValue,
        /// The expected value, and advice.
        expected: String,
        help: Option<String>,
    },
    Other(Diagnostic),
}

/// A typed value, or everything that is wrong with it.
pub(crate) type TypedResult<T> = Result<T, Vec<ValueMistake>>;

/// A value of another type.
pub(crate) fn expected<T>(value: &Value, what: &str) -> TypedResult<T> {
    let what = MistakeKind::Type { found: describe(value), expected: what.to_owned(), help: None };
    Err(vec![ValueMistake { path: Vec::new(), key: false, what }])
}

fn advised<T>(value: &Value, what: &str, help: &str) -> TypedResult<T> {
    // Advice repeats the value; one that nobody would read to its end needs none.
    const LONG: usize = 200;
    let help = (help.len() <= LONG).then(|| help.to_owned());
    let what = MistakeKind::Type { found: describe(value), expected: what.to_owned(), help };
    Err(vec![ValueMistake { path: Vec::new(), key: false, what }])
}

pub(super) fn other<T>(what: Diagnostic) -> TypedResult<T> {
    Err(vec![ValueMistake { path: Vec::new(), key: false, what: MistakeKind::Other(what) }])
}

pub(super) trait PrependPath<T> {
    fn below(self, seg: Seg) -> TypedResult<T>;
}

impl<T> PrependPath<T> for TypedResult<T> {
    fn below(self, seg: Seg) -> TypedResult<T> {
        self.map_err(|mut wrong| {
            wrong.iter_mut().for_each(|w| w.path.insert(0, seg.clone()));
            wrong
        })
    }
}

/// All of them, or everything that is wrong with any.
pub(super) fn all<T>(results: impl Iterator<Item = TypedResult<T>>) -> TypedResult<Vec<T>> {
    let mut good = Vec::new();
    let mut wrong = Vec::new();
    for result in results {
        match result {
            Ok(one) => good.push(one),
            Err(more) => wrong.extend(more),
        }
    }
    if wrong.is_empty() { Ok(good) } else { Err(wrong) }
}

pub(super) fn seg(key: &str) -> Seg {
    Seg::Key(key.into())
}

pub(crate) fn integer(value: &Value) -> TypedResult<i64> {
    let number = match value.kind() {
        ValueKind::Number if value.is_integer() => i64::try_from(value.clone()).ok(),
        // Division gives `2.0`.
        ValueKind::Number => f64::try_from(value.clone()).ok().and_then(whole),
        _ => None,
    };
    number.map_or_else(|| expected(value, "a whole number"), Ok)
}

/// A whole number from `least` on.
pub(crate) fn count(value: &Value, least: u32) -> TypedResult<u32> {
    let what = format!("a whole number, {least} or more");
    match integer(value) {
        Ok(n) if n > i64::from(u32::MAX) => expected(value, &format!("a whole number, at most {}", u32::MAX)),
        Ok(n) => u32::try_from(n).ok().filter(|n| *n >= least).map_or_else(|| expected(value, &what), Ok),
        Err(_) => expected(value, &what),
    }
}

pub(crate) fn seed(value: &Value) -> TypedResult<u64> {
    u64::try_from(integer(value)?).or_else(|_| expected(value, "a whole number, 0 or more"))
}

pub(crate) fn boolean(value: &Value) -> TypedResult<bool> {
    match value.kind() {
        ValueKind::Bool => Ok(value.is_true()),
        _ => expected(value, "true or false"),
    }
}

/// A size in bytes; its unit may not be left out.
pub(crate) fn size(value: &Value) -> TypedResult<u64> {
    const WHAT: &str = "a size with its unit, such as `4GiB` or `500MB`";
    let Some(text) = value.as_str() else {
        return match value.kind() {
            ValueKind::Number => advised(value, WHAT, &format!("say `{value}GiB`, `{value}MiB` or `{value}B`")),
            _ => expected(value, WHAT),
        };
    };
    let text = text.trim();
    if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return advised(value, WHAT, &format!("say `{text}GiB`, `{text}MiB` or `{text}B`"));
    }
    match text.parse::<bytesize::ByteSize>() {
        Ok(size) if size.0 > 0 => Ok(size.0),
        Ok(_) => expected(value, "more than 0; to request none, leave the key out"),
        _ => expected(value, WHAT),
    }
}

/// A length of time; its unit may not be left out.
pub(crate) fn duration(value: &Value) -> TypedResult<Span> {
    const WHAT: &str = "a length of time with its unit, such as `90s`, `30min` or `2h`";
    let Some(text) = value.as_str() else {
        return match value.kind() {
            ValueKind::Number => advised(value, WHAT, &format!("say `{value}s`, `{value}min` or `{value}h`")),
            _ => expected(value, WHAT),
        };
    };
    match humantime::parse_duration(text) {
        Ok(length) if !length.is_zero() => Ok(Span::from_secs_f64(length.as_secs_f64())),
        Ok(_) => expected(value, "more than 0; for no limit, leave the key out"),
        _ => expected(value, WHAT),
    }
}

pub(crate) fn exclusive(value: &Value) -> TypedResult<Exclusive> {
    match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) if value.is_true() => Ok(Exclusive::Machine),
        (ValueKind::Bool, _) => Ok(Exclusive::No),
        (_, Some("gpu")) => Ok(Exclusive::Gpu),
        _ => expected(value, "`true` (alone on the machine), `gpu` (alone on its GPUs) or `false`"),
    }
}

pub(crate) const CORUN_KEYS: [&str; 2] = ["group", "gpus"];

/// `corun:`: the group's name and where its members run.
pub(crate) fn corun(value: &Value) -> TypedResult<(String, CorunGpus)> {
    let entries = entries(value, "a mapping `{group: NAME, gpus: own or shared}`", &CORUN_KEYS, "`corun`")?;
    let Some(group) = entries.get("group") else {
        return other(Diagnostic::new("`corun` has no `group`").help("`group: all` makes one group of all instances"));
    };
    let group = scalar_text(group).below(seg("group"))?;
    if group.is_empty() {
        return other(Diagnostic::new("the name of a group is empty")).below(seg("group"));
    }
    let gpus = match entries.get("gpus") {
        None => CorunGpus::Own,
        Some(v) if v.as_str() == Some("own") => CorunGpus::Own,
        Some(v) if v.as_str() == Some("shared") => CorunGpus::Shared,
        Some(v) => {
            expected(v, "`own` (each on GPUs of its own) or `shared` (all on the same ones)").below(seg("gpus"))?
        }
    };
    Ok((group, gpus))
}

/// `repeat:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetitions {
    /// So many times, whatever is seen.
    Times(u32),
    /// While the verdict on its co-run group is undecided.
    UntilDecided {
        /// The first is one of them.
        at_most: u32,
    },
}

pub(crate) const REPEAT_KEYS: [&str; 2] = ["until", "at_most"];

/// `repeat:`: a number, or `{until: decided, at_most: 3}`.
pub(crate) fn repeat(value: &Value) -> TypedResult<Repetitions> {
    const WHAT: &str = "a whole number, 1 or more, or `{until: decided, at_most: 3}`";
    if value.kind() != ValueKind::Map {
        return count(value, 1).map(Repetitions::Times);
    }
    let entries = entries(value, WHAT, &REPEAT_KEYS, "`repeat`")?;
    match entries.get("until") {
        Some(until) if until.as_str() == Some("decided") => {}
        Some(until) => expected(until, "`decided`").below(seg("until"))?,
        None => {
            let what = Diagnostic::new("`repeat` needs `until`");
            return other(what.help("`until: decided` repeats a co-run group until its verdict is decided"));
        }
    }
    let at_most = entries.get("at_most").map(|most| count(most, 1).below(seg("at_most"))).transpose()?;
    Ok(Repetitions::UntilDecided { at_most: at_most.unwrap_or(crate::verdict::AT_MOST) })
}

/// What [`scalar_text`] expects.
pub(crate) const SCALAR: &str = "a text or a number";

/// A number, a truth value or a text, as text.
pub(crate) fn scalar_text(value: &Value) -> TypedResult<String> {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => to_text(value).or_else(|_| expected(value, SCALAR)),
        _ => expected(value, SCALAR),
    }
}

pub(crate) fn text(value: &Value) -> TypedResult<String> {
    value.as_str().map_or_else(|| expected(value, "a text"), |s| Ok(s.to_owned()))
}

/// A path that is not empty.
pub(crate) fn path(value: &Value) -> TypedResult<String> {
    match value.as_str() {
        Some(path) if !path.trim().is_empty() => Ok(path.to_owned()),
        _ => expected(value, "a path"),
    }
}

pub(crate) fn env(value: &Value) -> TypedResult<BTreeMap<String, String>> {
    let entries = mapping(value, "a mapping of variables")?.into_iter().map(|(name, value)| {
        variable(&name).below(seg(&name))?;
        Ok((name.clone(), scalar_text(&value).below(seg(&name))?))
    });
    Ok(all(entries)?.into_iter().collect())
}

/// Names of environment variables.
pub(crate) fn variables(value: &Value) -> TypedResult<Vec<String>> {
    let names = texts(value, "a list of names of environment variables")?;
    names.iter().try_for_each(|name| variable(name))?;
    Ok(names)
}

/// The name of an environment variable; flow's own are not for the taking.
pub(crate) fn variable(name: &str) -> TypedResult<()> {
    let shape = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    if !shape || name.starts_with(|c: char| c.is_ascii_digit()) {
        return other(Diagnostic::new(format!("`{name}` is not a name of an environment variable")));
    }
    if name.starts_with("FLOW_") || name == "CUDA_VISIBLE_DEVICES" {
        return other(Diagnostic::new(format!("`{name}` is set by flow itself")));
    }
    Ok(())
}

/// `record:`.
pub(crate) fn outcomes(value: &Value) -> TypedResult<Vec<Outcome>> {
    all(list(value, "a list of outcomes")?.iter().enumerate().map(|(i, value)| {
        let outcome = match value.as_str() {
            Some("out_of_memory") => Some(Outcome::OutOfMemory),
            Some("timed_out") => Some(Outcome::TimedOut),
            Some("does_not_fit") => Some(Outcome::DoesNotFit),
            _ => None,
        };
        let names = "`out_of_memory`, `timed_out` or `does_not_fit`";
        outcome.map_or_else(|| expected(value, names), Ok).below(Seg::Index(i))
    }))
}

/// A list of texts.
pub(crate) fn texts(value: &Value, what: &str) -> TypedResult<Vec<String>> {
    all(list(value, what)?.iter().enumerate().map(|(i, v)| text(v).below(Seg::Index(i))))
}

/// A name that expressions can say.
pub(crate) fn identifier(name: &str, what: &str) -> TypedResult<()> {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase());
    if first && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return Ok(());
    }
    let what = Diagnostic::new(format!("`{name}` cannot be the name of {what}"))
        .label("expected small letters, digits and `_`, a letter first");
    Err(vec![ValueMistake { path: Vec::new(), key: true, what: MistakeKind::Other(what) }])
}

pub(super) fn known(key: &str, keys: &[&'static str], of: &str) -> TypedResult<()> {
    if keys.contains(&key) {
        return Ok(());
    }
    let what = Diagnostic::new(format!("{of} has no key `{key}`")).nearest(key, keys.iter().copied());
    Err(vec![ValueMistake { path: vec![seg(key)], key: true, what: MistakeKind::Other(what) }])
}

/// The entries of a mapping with these keys at most.
pub(super) fn entries(
    value: &Value,
    what: &str,
    keys: &[&'static str],
    of: &str,
) -> TypedResult<IndexMap<String, Value>> {
    let entries = mapping(value, what)?;
    entries.iter().try_for_each(|(key, _)| known(key, keys, of))?;
    Ok(entries.into_iter().collect())
}

/// The members of a list.
pub(crate) fn list(value: &Value, what: &str) -> TypedResult<Vec<Value>> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().map(Iterator::collect).or_else(|_| expected(value, what))
        }
        ValueKind::String => advised(value, what, "a list of one is written `[…]`"),
        _ => expected(value, what),
    }
}

/// The entries of a mapping.
pub(crate) fn mapping(value: &Value, what: &str) -> TypedResult<Vec<(String, Value)>> {
    if value.kind() != ValueKind::Map {
        return expected(value, what);
    }
    let keys = value.try_iter().or_else(|_| expected(value, what))?;
    Ok(keys
        .map(|k| (k.as_str().map_or_else(|| k.to_string(), str::to_owned), value.get_item(&k).unwrap_or_default()))
        .collect())
}
