//! The first reasons for a run, short enough for a journal line: a few of many, and of long values the part that
//! differs.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InputChange, Reason, UnfitReason};
use crate::fingerprint::PartKind;
use crate::reason::Texts;

/// Maximum number of named reasons.
const REASONS: usize = 8;
/// Maximum number of named files of an input, or packages of an environment.
const NAMED: usize = 3;
/// Longer texts are cut.
const LONGEST: usize = 60;

/// Why an instance runs: the first reasons, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReasons {
    /// The first reasons, shortened.
    pub first: Vec<Reason>,
    #[serde(default, skip_serializing_if = "crate::result::is_zero")]
    pub more: u32,
}

impl RunReasons {
    /// From all reasons, the most telling first.
    pub fn of(reasons: &[Reason]) -> RunReasons {
        let reasons = by_parameter(reasons);
        let more = reasons.len().saturating_sub(REASONS) as u32;
        RunReasons { first: reasons.into_iter().take(REASONS).map(Reason::brief).collect(), more }
    }
}

/// The reasons, with one for a parameter of which many parts differ, such as the sections of a report.
fn by_parameter(reasons: &[Reason]) -> Vec<Reason> {
    const MANY: usize = 3;
    let whole = |reason: &Reason| match reason {
        Reason::Value { kind: PartKind::Parameter, name, .. } => {
            name.find(['[', '.']).map(|end| name[..end].to_owned())
        }
        _ => None,
    };
    let mut parts: IndexMap<String, usize> = IndexMap::new();
    reasons.iter().filter_map(whole).for_each(|name| *parts.entry(name).or_default() += 1);
    parts.retain(|_, count| *count > MANY);
    let mut all = Vec::new();
    for reason in reasons {
        match whole(reason).filter(|name| parts.contains_key(name)) {
            Some(name) => {
                let one = Reason::Seen(PartKind::Parameter, name);
                all.extend((!all.contains(&one)).then_some(one));
            }
            None => all.push(reason.clone()),
        }
    }
    all
}

impl Texts for RunReasons {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.first.iter_mut().for_each(|reason| reason.texts(each));
    }
}

impl Reason {
    /// Whether only the patterns for numbers differ. Alone, they make flow read the stored output again.
    pub fn is_of_metrics(&self) -> bool {
        matches!(self, Reason::Value { kind: PartKind::Metrics, .. } | Reason::Many(PartKind::Metrics))
    }

    /// The same with a few of many files, and of long values the part that differs.
    pub fn brief(self) -> Reason {
        self.brief_within(LONGEST)
    }

    /// The same with values of about this many characters.
    pub fn brief_within(mut self, longest: usize) -> Reason {
        if let Reason::Value { name, was: Some(was), is: Some(is), .. } = &mut self
            && !name.is_empty()
            && [&*was, &*is].iter().any(|value| is_structure(value) && value.to_string().len() > longest)
            && let Some((part, old, new)) = only_difference(was, is)
        {
            name.push_str(&part);
            if let Reason::Value { was, is, .. } = &mut self {
                (*was, *is) = (old, new);
            }
        }
        match &mut self {
            Reason::Value { was: Some(was), is: Some(is), .. } => {
                let (old, new) = (text(was), text(is));
                if old.len().max(new.len()) > longest {
                    let (old, new) = where_they_differ(&old, &new, longest);
                    (*was, *is) = (Value::String(old), Value::String(new));
                }
            }
            Reason::Value { was, is, .. } => {
                [was, is].into_iter().flatten().for_each(|value| shorten(value, longest));
            }
            Reason::Input(_, InputChange::Files { named, more }) => {
                *more += named.len().saturating_sub(NAMED) as u32;
                named.truncate(NAMED);
            }
            Reason::Environment { differences, more, .. } => {
                *more += differences.len().saturating_sub(NAMED) as u32;
                differences.truncate(NAMED);
            }
            _ => {}
        }
        self
    }
}

impl Texts for Reason {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            Reason::NeverRan
            | Reason::Continues
            | Reason::Forced
            | Reason::Collects(_)
            | Reason::Forgotten
            | Reason::NoResult
            | Reason::Group
            | Reason::Measurement(_)
            | Reason::Many(_)
            | Reason::Set(_)
            | Reason::Environment { .. }
            | Reason::Format => {}
            Reason::Damaged(text)
            | Reason::GroupMember(text)
            | Reason::Undecided { group: text, .. }
            | Reason::PluginRebuilt(text)
            | Reason::Artifact(text, _)
            | Reason::Seen(_, text)
            | Reason::Results { of: text, .. }
            | Reason::Text(text) => each(text),
            Reason::NotReusable(unfit) => match unfit {
                UnfitReason::Disturbed(reasons) => reasons.texts(each),
                UnfitReason::NotAlone(others) => others.texts(each),
                UnfitReason::Outcome(_)
                | UnfitReason::NotRecorded(_)
                | UnfitReason::LongerLimit { .. }
                | UnfitReason::HostMemory
                | UnfitReason::MemoryLimit => {}
            },
            Reason::Value { kind: _, name, was, is } => {
                each(name);
                was.texts(each);
                is.texts(each);
            }
            Reason::Input(path, change) => {
                each(path);
                if let InputChange::Files { named, .. } = change {
                    named.iter_mut().for_each(|(file, _)| each(file));
                }
            }
        }
    }
}

fn is_structure(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shorten(value: &mut Value, longest: usize) {
    let text = text(value);
    if text.chars().count() > longest {
        *value = Value::String(cut(&text, longest));
    }
}

fn cut(text: &str, longest: usize) -> String {
    text.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
}

/// A part of a value, such as `.sections[0].title`, and what it was and is.
type Part = (String, Option<Value>, Option<Value>);

/// The only part in which two structures differ; none if several parts do.
fn only_difference(was: &Value, is: &Value) -> Option<Part> {
    let parts: Vec<(String, Option<&Value>, Option<&Value>)> = match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            let keys = was.keys().chain(is.keys().filter(|key| !was.contains_key(*key)));
            keys.map(|key| (format!(".{key}"), was.get(key), is.get(key))).collect()
        }
        (Value::Array(was), Value::Array(is)) => {
            (0..was.len().max(is.len())).map(|at| (format!("[{at}]"), was.get(at), is.get(at))).collect()
        }
        _ => return None,
    };
    let mut differ = parts.into_iter().filter(|(_, was, is)| was != is);
    let (part, was, is) = differ.next().filter(|_| differ.next().is_none())?;
    let inner = was.zip(is).and_then(|(was, is)| only_difference(was, is));
    Some(match inner {
        Some((inner, was, is)) => (part + &inner, was, is),
        None => (part, was.cloned(), is.cloned()),
    })
}

/// The words in which two long texts differ, with a few words around them.
fn where_they_differ(was: &str, is: &str, longest: usize) -> (String, String) {
    const CONTEXT_WORDS: usize = 2;
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let (was, is) = (split(was), split(is));
    let same = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let rest = was.len().min(is.len()) - same;
    let same_end = was.iter().rev().zip(is.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(CONTEXT_WORDS);
    let to = |words: &[String]| (words.len() - same_end + CONTEXT_WORDS).min(words.len());
    let middle = |words: &[String]| words[from..to(words)].join(" ");
    let (old, new) = (middle(&was), middle(&is));
    let skipped = if old.chars().count().max(new.chars().count()) > longest { skipped(&old, &new, longest) } else { 0 };
    let around = |words: &[String], middle: &str| {
        let before = if skipped > 0 {
            "…"
        } else if from > 0 {
            "… "
        } else {
            ""
        };
        let after = if to(words) < words.len() { " …" } else { "" };
        let middle: String = middle.chars().skip(skipped).collect();
        let middle = if middle.chars().count() > longest { cut(&middle, longest) } else { middle };
        format!("{before}{middle}{after}")
    };
    (around(&was, &old), around(&is, &new))
}

/// How many characters two texts do not need at their beginning, because they are equal there. A few are kept.
fn skipped(old: &str, new: &str, longest: usize) -> usize {
    let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    if same > longest / 2 { same - longest / 4 } else { 0 }
}
