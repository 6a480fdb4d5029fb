//! From plain values to typed ones, each with what was expected. Used on what is written in the file and, when it becomes
//! known, on what expressions give; so both are refused in the same words.

use std::collections::BTreeMap;

use minijinja::value::{Value, ValueKind};

use super::at::Seg;
use crate::{
    CorunGpus, Diagnostic, Exclusive, Input, Outcome, Output, Span,
    expr::value::{describe, to_text},
    paths::{normal, within},
    reason::FoundValue,
};

/// A value that is not what was expected.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    /// Where below the value.
    pub(crate) path: Vec<Seg>,
    /// It is about the key, not its value.
    pub(crate) key: bool,
    pub(crate) what: What,
}

/// What is wrong with a value.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// It is this, and that was expected.
    Type {
        found: FoundValue,
        /// What was expected, and what to do.
        expected: String,
        help: Option<String>,
    },
    /// Anything else.
    Other(Diagnostic),
}

/// A typed value, or everything that is wrong with it.
pub(crate) type Typed<T> = Result<T, Vec<Wrong>>;

/// A value of another type.
pub(crate) fn expected<T>(value: &Value, what: &str) -> Typed<T> {
    let what = What::Type { found: describe(value), expected: what.to_owned(), help: None };
    Err(vec![Wrong { path: Vec::new(), key: false, what }])
}

fn advised<T>(value: &Value, what: &str, help: &str) -> Typed<T> {
    // Advice repeats the value; one that nobody would read to its end needs none.
    const LONG: usize = 200;
    let help = (help.len() <= LONG).then(|| help.to_owned());
    let what = What::Type { found: describe(value), expected: what.to_owned(), help };
    Err(vec![Wrong { path: Vec::new(), key: false, what }])
}

pub(super) fn other<T>(what: Diagnostic) -> Typed<T> {
    Err(vec![Wrong { path: Vec::new(), key: false, what: What::Other(what) }])
}

pub(super) trait Below<T> {
    fn below(self, seg: Seg) -> Typed<T>;
}

impl<T> Below<T> for Typed<T> {
    fn below(self, seg: Seg) -> Typed<T> {
        self.map_err(|mut wrong| {
            wrong.iter_mut().for_each(|w| w.path.insert(0, seg.clone()));
            wrong
        })
    }
}

/// All of them, or everything that is wrong with any.
fn all<T>(results: impl Iterator<Item = Typed<T>>) -> Typed<Vec<T>> {
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

pub(crate) fn integer(value: &Value) -> Typed<i64> {
    let number = match value.kind() {
        ValueKind::Number if value.is_integer() => i64::try_from(value.clone()).ok(),
        // Division gives `2.0`.
        ValueKind::Number => {
            f64::try_from(value.clone()).ok().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64)
        }
        _ => None,
    };
    number.map_or_else(|| expected(value, "a whole number"), Ok)
}

/// A whole number from `least` on.
pub(crate) fn count(value: &Value, least: u32) -> Typed<u32> {
    let what = format!("a whole number, {least} or more");
    match integer(value) {
        Ok(n) if n > i64::from(u32::MAX) => expected(value, &format!("a whole number, {} at most", u32::MAX)),
        Ok(n) => u32::try_from(n).ok().filter(|n| *n >= least).map_or_else(|| expected(value, &what), Ok),
        Err(_) => expected(value, &what),
    }
}

pub(crate) fn seed(value: &Value) -> Typed<u64> {
    u64::try_from(integer(value)?).or_else(|_| expected(value, "a whole number, 0 or more"))
}

pub(crate) fn boolean(value: &Value) -> Typed<bool> {
    match value.kind() {
        ValueKind::Bool => Ok(value.is_true()),
        _ => expected(value, "true or false"),
    }
}

/// A size in bytes; its unit may not be left out.
pub(crate) fn size(value: &Value) -> Typed<u64> {
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
        Ok(_) => expected(value, "more than nothing; to ask for none, leave the key out"),
        _ => expected(value, WHAT),
    }
}

/// A length of time; its unit may not be left out.
pub(crate) fn duration(value: &Value) -> Typed<Span> {
    const WHAT: &str = "a length of time with its unit, such as `90s`, `30min` or `2h`";
    let Some(text) = value.as_str() else {
        return match value.kind() {
            ValueKind::Number => advised(value, WHAT, &format!("say `{value}s`, `{value}min` or `{value}h`")),
            _ => expected(value, WHAT),
        };
    };
    match humantime::parse_duration(text) {
        Ok(length) if !length.is_zero() => Ok(Span::from_secs_f64(length.as_secs_f64())),
        Ok(_) => expected(value, "more than nothing; for no limit, leave the key out"),
        _ => expected(value, WHAT),
    }
}

/// `exclusive:`.
pub(crate) fn exclusive(value: &Value) -> Typed<Exclusive> {
    match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) if value.is_true() => Ok(Exclusive::Machine),
        (ValueKind::Bool, _) => Ok(Exclusive::No),
        (_, Some("gpu")) => Ok(Exclusive::Gpu),
        _ => expected(value, "`true` (alone on the machine), `gpu` (alone on its GPUs) or `false`"),
    }
}

/// `corun:`: the group's name and where its members run.
pub(crate) fn corun(value: &Value) -> Typed<(String, CorunGpus)> {
    const KEYS: [&str; 2] = ["group", "gpus"];
    let entries = mapping(value, "a mapping `{group: NAME, gpus: own or shared}`")?;
    for (key, _) in &entries {
        known(key, &KEYS, "`corun`")?;
    }
    let find = |name: &str| entries.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    let Some(group) = find("group") else {
        return other(Diagnostic::new("`corun` has no `group`").help("`group: all` makes one group of all instances"));
    };
    let group = scalar_text(group).below(seg("group"))?;
    if group.is_empty() {
        return other(Diagnostic::new("the name of a group is empty")).below(seg("group"));
    }
    let gpus = match find("gpus") {
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
    /// So many.
    Times(u32),
    /// While the verdict on its co-run group is undecided.
    UntilDecided {
        /// The first is one of them.
        at_most: u32,
    },
}

pub(crate) const REPEAT_KEYS: [&str; 2] = ["until", "at_most"];

/// `repeat:`: a number, or `{until: decided, at_most: 3}`.
pub(crate) fn repeat(value: &Value) -> Typed<Repetitions> {
    const WHAT: &str = "a whole number, 1 or more, or `{until: decided, at_most: 3}`";
    if value.kind() != ValueKind::Map {
        return count(value, 1).map(Repetitions::Times);
    }
    let entries = mapping(value, WHAT)?;
    for (key, _) in &entries {
        known(key, &REPEAT_KEYS, "`repeat`")?;
    }
    let find = |name: &str| entries.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    match find("until") {
        Some(until) if until.as_str() == Some("decided") => {}
        Some(until) => expected(until, "`decided`").below(seg("until"))?,
        None => {
            let what = Diagnostic::new("`repeat` does not say until when");
            return other(what.help("`until: decided` repeats a co-run group until its verdict is decided"));
        }
    }
    let at_most = find("at_most").map(|most| count(most, 1).below(seg("at_most"))).transpose()?;
    Ok(Repetitions::UntilDecided { at_most: at_most.unwrap_or(crate::verdict::AT_MOST) })
}

/// What [`scalar_text`] expects.
pub(crate) const SCALAR: &str = "a text or a number";

/// A number, a truth value or a text, as text.
pub(crate) fn scalar_text(value: &Value) -> Typed<String> {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => to_text(value).or_else(|_| expected(value, SCALAR)),
        _ => expected(value, SCALAR),
    }
}

pub(crate) fn text(value: &Value) -> Typed<String> {
    value.as_str().map_or_else(|| expected(value, "a text"), |s| Ok(s.to_owned()))
}

/// `env:`.
pub(crate) fn env(value: &Value) -> Typed<BTreeMap<String, String>> {
    let entries = mapping(value, "a mapping of variables")?.into_iter().map(|(name, value)| {
        variable(&name).below(seg(&name))?;
        Ok((name.clone(), scalar_text(&value).below(seg(&name))?))
    });
    Ok(all(entries)?.into_iter().collect())
}

/// The name of an environment variable; flow's own are not for the taking.
pub(crate) fn variable(name: &str) -> Typed<()> {
    let shape = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    if !shape || name.starts_with(|c: char| c.is_ascii_digit()) {
        return other(Diagnostic::new(format!("`{name}` is no name of an environment variable")));
    }
    if name.starts_with("FLOW_") || name == "CUDA_VISIBLE_DEVICES" {
        return other(Diagnostic::new(format!("`{name}` is set by flow itself")));
    }
    Ok(())
}

/// `record:`.
pub(crate) fn outcomes(value: &Value) -> Typed<Vec<Outcome>> {
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
pub(crate) fn texts(value: &Value, what: &str) -> Typed<Vec<String>> {
    all(list(value, what)?.iter().enumerate().map(|(i, v)| text(v).below(Seg::Index(i))))
}

/// `inputs:`.
pub(crate) fn inputs(value: &Value) -> Typed<Vec<Input>> {
    const WHAT: &str = "a list of paths, or a mapping of names and paths";
    let input = |name: Option<String>, value: &Value| {
        let (path, by_listing) = match value.kind() {
            ValueKind::Map => listing(value)?,
            _ => (text(value)?, false),
        };
        if path.trim().is_empty() {
            return other(Diagnostic::new("the path is empty"));
        }
        Ok(Input { name, path, by_listing, in_place: false })
    };
    let found: Vec<(Seg, Input)> = match value.kind() {
        ValueKind::Seq => all(list(value, WHAT)?.iter().enumerate().map(|(i, v)| {
            let one = input(None, v).and_then(placed).below(Seg::Index(i))?;
            Ok((Seg::Index(i), one))
        }))?,
        _ => all(mapping(value, WHAT)?.into_iter().map(|(name, v)| {
            identifier(&name, "an input").below(seg(&name))?;
            let one = input(Some(name.clone()), &v).and_then(placed).below(seg(&name))?;
            Ok((seg(&name), one))
        }))?,
    };
    apart(&found)?;
    Ok(found.into_iter().map(|(_, input)| input).collect())
}

/// No two inputs lie in the same place of the work folder, and those that lie in one another there do so where they are, too.
fn apart(inputs: &[(Seg, Input)]) -> Typed<()> {
    // Folders before what lies in them, and that before all else: what a path lies in is then the last of the paths that are open.
    let mut sorted: Vec<(String, usize)> =
        inputs.iter().enumerate().map(|(i, (_, input))| (input.place().replace('/', "\0"), i)).collect();
    sorted.sort_unstable();
    let mut open: Vec<&(String, usize)> = Vec::new();
    // The first in the file, as a reader would find it.
    let mut wrong: Option<(usize, Diagnostic)> = None;
    for this in &sorted {
        let (here, i) = this;
        let inside =
            |above: &str| here.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('\0'));
        while open.pop_if(|(above, _)| !inside(above)).is_some() {}
        if let Some((above, other_one)) = open.last() {
            let later = *i.max(other_one);
            let (one, twin) = (&inputs[later].1, &inputs[*i.min(other_one)].1);
            let what = if above == here {
                Some(Diagnostic::new(format!(
                    "`{}` and `{}` would both appear as `{}` in the work folder",
                    twin.path,
                    one.path,
                    one.place()
                )))
            } else if within(&normal(&inputs[*i].1.path), &normal(&inputs[*other_one].1.path)) {
                None // Of all that begin like a folder's content its own comes in one piece.
            } else {
                let what = Diagnostic::new(format!(
                    "`{}` and `{}` would lie in one another in the work folder, and do not",
                    twin.path, one.path
                ));
                Some(what.help("an input appears under its own name: give one of them another"))
            };
            if let Some(what) = what.filter(|_| wrong.as_ref().is_none_or(|(first, _)| later < *first)) {
                wrong = Some((later, what));
            }
        }
        open.push(this);
    }
    match wrong {
        None => Ok(()),
        Some((i, what)) => other(what).below(inputs[i].0.clone()),
    }
}

/// An input whose place in the work folder is its own.
fn placed(input: Input) -> Typed<Input> {
    let here = input.place();
    if here.is_empty() {
        let what = Diagnostic::new(format!("the input `{}` is the workflow's whole folder", input.path));
        return other(what.help("list what the step reads"));
    }
    Ok(input)
}

fn listing(value: &Value) -> Typed<(String, bool)> {
    const KEYS: [&str; 2] = ["path", "by"];
    let entries = mapping(value, "`{path: PATH, by: listing}`")?;
    for (key, _) in &entries {
        known(key, &KEYS, "an input")?;
    }
    let find = |name: &str| entries.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    let Some(path) = find("path") else {
        return other(Diagnostic::new("the input has no `path`"));
    };
    let by = match find("by").map(|v| (v, v.as_str())) {
        None | Some((_, Some("content"))) => false,
        Some((_, Some("listing"))) => true,
        Some((v, _)) => expected(v, "`listing` (names and sizes only) or `content`").below(seg("by"))?,
    };
    Ok((text(path).below(seg("path"))?, by))
}

/// `outputs:`. A list of one is named `out`; a longer one is named by its files.
pub(crate) fn outputs(value: &Value) -> Typed<Vec<Output>> {
    const WHAT: &str = "a list of paths, or a mapping of names and paths";
    let found: Vec<(Seg, Output)> = match value.kind() {
        ValueKind::Seq => {
            let paths = texts(value, WHAT)?;
            let alone = paths.len() == 1;
            let name = |path: &str| {
                let file = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
                if alone { "out".to_owned() } else { file.split('.').next().unwrap_or(file).to_owned() }
            };
            paths.into_iter().enumerate().map(|(i, p)| (Seg::Index(i), Output { name: name(&p), path: p })).collect()
        }
        _ => all(mapping(value, WHAT)?.into_iter().map(|(name, v)| {
            let path = text(&v).below(seg(&name))?;
            Ok((seg(&name), Output { path, name }))
        }))?,
    };
    const NAMES: &str = "a mapping `{model: out/model.pt}` gives each output its name";
    let mut clean: Vec<Output> = Vec::new();
    // By path and by name.
    let (mut paths, mut names): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
    let mut wrong: Vec<Wrong> = Vec::new();
    let has_several = found.len() > 1;
    for (place, output) in found {
        let path = inside(&output.path).and_then(|path| {
            identifier(&output.name, "an output").map_err(|mut wrong| {
                if let Some(What::Other(what)) = wrong.first_mut().map(|w| &mut w.what) {
                    what.help.push(NAMES.to_owned());
                }
                wrong
            })?;
            Ok(path)
        });
        let path = match path.below(place.clone()) {
            Ok(path) => path,
            Err(more) => {
                wrong.extend(more);
                continue;
            }
        };
        if !has_several {
            clean.push(Output { name: output.name, path });
            continue;
        }
        // Of all that begin like a folder's content its first is the next behind it.
        let folder = format!("{path}/");
        let inside = paths.range(folder.clone()..).next().filter(|(other, _)| other.starts_with(&folder));
        let above = path.match_indices('/').find_map(|(end, _)| paths.get(&path[..end]));
        let clash = if let Some(twin) = paths.get(&path) {
            let twin = &clean[*twin].name;
            let what = Diagnostic::new(format!("two outputs are `{path}`: `{twin}` and `{}`", output.name));
            Some(what.help("give each a path of its own"))
        } else if let Some(twin) = above.or(inside.map(|(_, twin)| twin)) {
            let twin = &clean[*twin].path;
            let what = Diagnostic::new(format!("the outputs `{twin}` and `{path}` lie in one another"));
            Some(what.help("give each a path of its own"))
        } else if names.contains_key(&output.name) {
            Some(Diagnostic::new(format!("two outputs would be called `{}`", output.name)).help(NAMES))
        } else {
            None
        };
        match clash {
            Some(what) => wrong.push(Wrong { path: vec![place], key: false, what: What::Other(what) }),
            None => {
                paths.insert(path.clone(), clean.len());
                names.insert(output.name.clone(), clean.len());
                clean.push(Output { name: output.name, path });
            }
        }
    }
    if wrong.is_empty() { Ok(clean) } else { Err(wrong) }
}

/// A path in the work folder, cleaned of `.` and doubled slashes.
fn inside(path: &str) -> Typed<String> {
    let parts = || path.split('/').filter(|p| !p.is_empty() && *p != ".");
    let first = parts().next();
    if path.starts_with('/') || parts().any(|part| part == "..") || first.is_none() {
        return other(
            Diagnostic::new(format!("the output `{path}` is not in the step's work folder"))
                .label("expected a relative path without `..`"),
        );
    }
    if path.contains(['*', '?']) {
        return other(
            Diagnostic::new(format!("the output `{path}` is a pattern"))
                .label("expected the path of a file or a folder")
                .help("`outputs` takes no patterns: name each file, or the folder that they are in"),
        );
    }
    if first == Some("in") {
        return other(Diagnostic::new("`in/` holds artifacts of other steps, read-only").help("write elsewhere"));
    }
    Ok(normal(path))
}

/// A name that expressions can say.
pub(crate) fn identifier(name: &str, what: &str) -> Typed<()> {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase());
    if first && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return Ok(());
    }
    let what = Diagnostic::new(format!("`{name}` cannot be the name of {what}"))
        .label("expected small letters, digits and `_`, a letter first");
    Err(vec![Wrong { path: Vec::new(), key: true, what: What::Other(what) }])
}

pub(super) fn known(key: &str, keys: &[&'static str], of: &str) -> Typed<()> {
    if keys.contains(&key) {
        return Ok(());
    }
    let what = Diagnostic::new(format!("{of} has no key `{key}`")).nearest(key, keys.iter().copied());
    Err(vec![Wrong { path: vec![seg(key)], key: true, what: What::Other(what) }])
}

/// The members of a list.
pub(crate) fn list(value: &Value, what: &str) -> Typed<Vec<Value>> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().map(Iterator::collect).or_else(|_| expected(value, what))
        }
        ValueKind::String => advised(value, what, "a list of one is written `[…]`"),
        _ => expected(value, what),
    }
}

/// The entries of a mapping.
pub(crate) fn mapping(value: &Value, what: &str) -> Typed<Vec<(String, Value)>> {
    if value.kind() != ValueKind::Map {
        return expected(value, what);
    }
    let keys = value.try_iter().or_else(|_| expected(value, what))?;
    Ok(keys
        .map(|k| (k.as_str().map_or_else(|| k.to_string(), str::to_owned), value.get_item(&k).unwrap_or_default()))
        .collect())
}
