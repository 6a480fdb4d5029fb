//! The first reasons for a run, short enough for a journal line: a few of many, and of long values the part that
//! differs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InputChange, Reason, Unfit};
use crate::reason::Texts;

/// Maximum number of named reasons.
const REASONS: usize = 8;
/// Maximum number of named files of an input, or packages of an environment.
const NAMED: usize = 3;
/// Longer texts are cut.
const LONGEST: usize = 60;

/// Why an instance runs: the first reasons, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The first reasons, shortened.
    pub first: Vec<Reason>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
}

fn is_zero(more: &u32) -> bool {
    *more == 0
}

impl Why {
    /// From all reasons, the most telling first.
    pub fn of(reasons: &[Reason]) -> Why {
        let first = reasons.iter().take(REASONS).cloned().map(Reason::brief).collect();
        Why { first, more: reasons.len().saturating_sub(REASONS) as u32 }
    }
}

impl Texts for Why {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.first.iter_mut().for_each(|reason| reason.texts(each));
    }
}

impl Reason {
    /// The same with a few of many files, and of long values the part that differs.
    pub fn brief(mut self) -> Reason {
        match &mut self {
            Reason::Value { was: Some(Value::String(was)), is: Some(Value::String(is)), .. }
                if was.len().max(is.len()) > LONGEST =>
            {
                (*was, *is) = where_they_differ(was, is);
            }
            Reason::Value { was, is, .. } => [was, is].into_iter().flatten().for_each(shorten),
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
            | Reason::Said(text) => each(text),
            Reason::NotReusable(unfit) => match unfit {
                Unfit::Spoiled(reasons) => reasons.texts(each),
                Unfit::NotAlone(others) => others.texts(each),
                Unfit::Outcome(_)
                | Unfit::NotRecorded(_)
                | Unfit::LongerLimit { .. }
                | Unfit::HostMemory
                | Unfit::MemoryLimit => {}
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

fn shorten(value: &mut Value) {
    if let Value::String(text) = value
        && text.chars().count() > LONGEST
    {
        *text = cut(text);
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The words in which two long texts differ, with a few words around them.
fn where_they_differ(was: &str, is: &str) -> (String, String) {
    const BESIDE: usize = 2;
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let (was, is) = (split(was), split(is));
    let same = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let rest = was.len().min(is.len()) - same;
    let same_end = was.iter().rev().zip(is.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let around = |words: &[String]| {
        let (from, to) = (same.saturating_sub(BESIDE), (words.len() - same_end + BESIDE).min(words.len()));
        let before = if from > 0 { "… " } else { "" };
        let after = if to < words.len() { " …" } else { "" };
        let middle = words[from..to].join(" ");
        let middle = if middle.chars().count() > LONGEST { cut(&middle) } else { middle };
        format!("{before}{middle}{after}")
    };
    (around(&was), around(&is))
}
