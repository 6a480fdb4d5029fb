//! From paths to places in the text, by a second parser that yields no values: where the two differ, a place may be missing,
//! never a value wrong. Made only when there is something to show.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{DuplicateKeyPolicy, Spanned, options};

use super::{
    at::{PlacePart, Problem, Seg},
    hints,
};
use crate::{
    Diagnostic,
    expr::{end_of_expression, value::key_text},
};

/// The shape of a text: what stands where, not what it is.
enum Node {
    Map(Entries),
    Seq(Vec<Spanned<Node>>),
    Leaf,
}

/// The entries of a mapping, and which of them a key has.
#[derive(Default)]
struct Entries {
    all: Vec<(Spanned<Key>, Spanned<Node>)>,
    of: BTreeMap<String, usize>,
}

impl Entries {
    fn push(&mut self, key: Spanned<Key>, value: Spanned<Node>) {
        for name in [Some(key.value.0.clone()), key.value.spelled()].into_iter().flatten() {
            self.of.entry(name).or_insert(self.all.len());
        }
        self.all.push((key, value));
    }

    /// The first entry of a key.
    fn get(&self, key: &str) -> Option<&(Spanned<Key>, Spanned<Node>)> {
        self.all.get(*self.of.get(key)?)
    }
}

macro_rules! leaves {
    ($($visit:ident $of:ty),*) => {
        $(fn $visit<E>(self, _: $of) -> Result<Node, E> {
            Ok(Node::Leaf)
        })*
    };
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any YAML")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
                let mut entries = Entries::default();
                while let Some(key) = access.next_key()? {
                    entries.push(key, access.next_value()?);
                }
                Ok(Node::Map(entries))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    items.push(item);
                }
                Ok(Node::Seq(items))
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Leaf)
            }
            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Leaf)
            }
            leaves! { visit_bool bool, visit_i64 i64, visit_u64 u64, visit_i128 i128, visit_u128 u128 }
            leaves! { visit_f64 f64, visit_str &str, visit_bytes &[u8] }
        }
        d.deserialize_any(Shape)
    }
}

/// A key, whatever it is, as it is written.
struct Key(String);

impl Key {
    /// The spelling of the reader of values: `1.0` for `1e0`.
    fn spelled(&self) -> Option<String> {
        let odd = |c: char| c.is_ascii_digit() || "+-.~nNtTfF".contains(c);
        let value = if self.0.starts_with(odd) { serde_yaml::from_str(&self.0).ok()? } else { return None };
        key_text(&value).ok().map(Cow::into_owned).filter(|spelled| *spelled != self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // No number: how it is written would be lost.
        Ok(Key(Option::<String>::deserialize(d)?.unwrap_or_else(|| "null".to_owned())))
    }
}

type Places<'a> = BTreeMap<&'a str, Range<usize>>;

/// The places of all values of a text.
struct Spans<'a> {
    text: &'a str,
    root: Option<Spanned<Node>>,
    /// Expressions of scalars that were looked up, by the start of the scalar.
    expressions: RefCell<BTreeMap<usize, Places<'a>>>,
    /// Scalars of values that were looked up, by the range of the value.
    scalars: RefCell<BTreeMap<(usize, usize), Places<'a>>>,
}

impl<'a> Spans<'a> {
    fn of(text: &'a str) -> Self {
        let options = options! {
            // The reader of values has bounds of its own; what it took has its places here.
            budget: serde_saphyr::budget! {
                max_nodes: usize::MAX,
                max_events: usize::MAX,
                max_aliases: usize::MAX,
                max_anchors: usize::MAX,
                max_recorded_anchor_events: usize::MAX,
                max_recorded_anchor_bytes: usize::MAX,
                max_total_scalar_bytes: usize::MAX,
                max_merge_keys: usize::MAX,
                max_depth: 80,
                flow_nesting_limit: 200,
                enforce_alias_anchor_ratio: false,
            },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: 20_000_000,
                max_replay_stack_depth: 200,
            },
            duplicate_keys: DuplicateKeyPolicy::LastWins,
            // As the reader of values has it: `on` and `no` are texts.
            strict_booleans: true,
            non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
            with_snippet: false,
        };
        let root = serde_saphyr::from_str_with_options(text, options).ok();
        Spans { text, root, expressions: RefCell::default(), scalars: RefCell::default() }
    }

    fn range<T>(&self, spanned: &Spanned<T>) -> Option<Range<usize>> {
        // Of an alias, where its value is written out.
        let span = spanned.defined.span();
        let start = usize::try_from(span.byte_offset()?).ok()?;
        let end = start + usize::try_from(span.byte_len()?).ok()?;
        let text = self.text.get(start..end)?;
        // The span of a block value runs on to the next token.
        Some(start..start + text.trim_end().len())
    }

    /// The scalars below a value, in their order.
    fn leaves(&self, here: &Spanned<Node>) -> Vec<Range<usize>> {
        match &here.value {
            Node::Leaf => self.range(here).into_iter().collect(),
            Node::Map(entries) => entries.all.iter().flat_map(|(_, value)| self.leaves(value)).collect(),
            Node::Seq(items) => items.iter().flat_map(|item| self.leaves(item)).collect(),
        }
    }

    /// A text that only the reader of values can read: where its keys stand one behind the other.
    fn guess(&self, segs: &[&Seg]) -> Range<usize> {
        let mut found = 0..self.text.lines().next().unwrap_or("").len();
        let mut from = 0;
        for name in segs.iter().filter_map(|seg| if let Seg::Key(name) = seg { Some(&**name) } else { None }) {
            let ends = |at: usize| {
                self.text[at + name.len()..].trim_start_matches(['"', '\'']).trim_start_matches(' ').starts_with(':')
            };
            let rest = self.text[from..].match_indices(name).map(|(at, _)| from + at);
            let Some(at) = rest.into_iter().find(|at| !name.is_empty() && ends(*at)) else { break };
            found = at..at + name.len();
            from = found.end;
        }
        found
    }

    /// The place of an expression in a scalar of the text: between its braces, or the whole scalar.
    fn expression_in(&self, leaf: Range<usize>, expression: &str) -> Option<Range<usize>> {
        let inside = self.text.get(leaf.clone())?;
        let mut known = self.expressions.borrow_mut();
        let expressions = known.entry(leaf.start).or_insert_with(|| {
            let mut found = BTreeMap::new();
            for (at, between) in braces(inside) {
                let start = leaf.start + at + between.len() - between.trim_start().len();
                found.entry(between.trim()).or_insert(start..start + between.trim().len());
            }
            found
        });
        if !expressions.is_empty() || inside.contains("${{") {
            return expressions.get(expression).cloned();
        }
        let start = leaf.start + inside.find(expression)?;
        Some(start..start + expression.len())
    }

    /// The first scalar below a value that is this text.
    fn scalar(&self, here: &Spanned<Node>, excerpt: &str) -> Option<Range<usize>> {
        let whole = self.range(here)?;
        let mut known = self.scalars.borrow_mut();
        let scalars = known.entry((whole.start, whole.end)).or_insert_with(|| {
            let mut found = BTreeMap::new();
            for leaf in self.leaves(here) {
                found.entry(self.text.get(leaf.clone()).unwrap_or_default()).or_insert(leaf);
            }
            found
        });
        scalars.get(excerpt).cloned()
    }

    /// The place itself, or the nearest one above it that the text has.
    fn find(&self, problem: &Problem) -> Option<Range<usize>> {
        if problem.on == PlacePart::Nothing {
            return None;
        }
        let segs = problem.at.segs();
        if segs.is_empty() {
            return Some(0..self.text.lines().next().unwrap_or("").len());
        }
        let mut here = self.root.as_ref()?;
        let mut key = None;
        let mut exact = true;
        for seg in &segs {
            let below = match (&here.value, seg) {
                (Node::Map(entries), Seg::Key(name)) => entries.get(name).map(|(k, v)| (Some(k), v)),
                (Node::Seq(items), Seg::Index(i)) => items.get(*i).map(|v| (None, v)),
                _ => None,
            };
            let Some((k, v)) = below else {
                exact = false;
                break;
            };
            (key, here) = (k, v);
        }
        let key = key.and_then(|k| self.range(k));
        let value = match here.value {
            Node::Leaf => self.range(here).filter(|r| !r.is_empty()),
            // A whole block would underline half a page: its key says it.
            _ => None,
        };
        let first_line = || {
            let whole = self.range(here)?;
            let line = self.text.get(whole.clone())?.lines().next().unwrap_or("").len();
            Some(whole.start..whole.start + line)
        };
        match &problem.on {
            PlacePart::Text(excerpt) if exact => {
                let word = || self.leaves(here).into_iter().find_map(|leaf| word_in(self.text, leaf, excerpt));
                self.scalar(here, excerpt).or_else(word).or_else(|| self.range(here))
            }
            PlacePart::In { expression, text } if exact => {
                let mut leaves = self.leaves(here).into_iter();
                let within = leaves.find_map(|leaf| self.expression_in(leaf, expression));
                within.and_then(|e| word_in(self.text, e.clone(), text).or(Some(e))).or_else(|| self.range(here))
            }
            PlacePart::Key if exact => key.or(value).or_else(first_line),
            _ => value.or(key).or_else(first_line),
        }
    }
}

/// The keys that a text has twice, the second time.
pub(super) fn repeated(text: &str) -> Vec<Diagnostic> {
    let spans = Spans::of(text);
    let mut found = Vec::new();
    let mut open: Vec<&Spanned<Node>> = spans.root.iter().collect();
    while let Some(here) = open.pop() {
        match &here.value {
            Node::Leaf => {}
            Node::Seq(items) => open.extend(items),
            Node::Map(entries) => {
                for (at, (key, value)) in entries.all.iter().enumerate() {
                    if entries.of.get(&key.value.0).is_some_and(|first| *first < at) {
                        let what = format!("`{}` is here a second time", key.value.0);
                        let what = Diagnostic::new(what).label("the same key again").help("keep one of them");
                        found.push(Diagnostic { span: spans.range(key), ..what });
                    }
                    open.push(value);
                }
            }
        }
    }
    found.retain(|what| what.span.is_some());
    found.sort_by_key(|what| what.span.as_ref().map(|span| span.start));
    found
}

/// The place of an excerpt in a range of the text, if it is not part of a longer word.
fn word_in(text: &str, range: Range<usize>, excerpt: &str) -> Option<Range<usize>> {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    let inside = text.get(range.clone())?;
    let whole = |at: &usize| {
        let (before, after) = (&inside[..*at], &inside[at + excerpt.len()..]);
        let cuts_before = excerpt.starts_with(letter) && before.ends_with(letter);
        let cuts_after = excerpt.ends_with(letter) && after.starts_with(letter);
        !cuts_before && !cuts_after
    };
    let at = range.start + inside.match_indices(excerpt).map(|(at, _)| at).find(whole)?;
    Some(at..at + excerpt.len())
}

/// The texts between `${{` and `}}`, with their starts.
fn braces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let begin = from + text[from..].find("${{")? + 3;
        let end = begin + end_of_expression(&text[begin..])?;
        from = end;
        Some((begin, &text[begin..end]))
    })
}

/// Looks the places up, in the order of the file, each thing said once.
pub(crate) fn locate(text: &str, problems: Vec<Problem>) -> Vec<Diagnostic> {
    if problems.is_empty() {
        return Vec::new();
    }
    let spans = Spans::of(text);
    let mut found: Vec<Diagnostic> = problems
        .into_iter()
        .map(|problem| {
            let guess = || (problem.on != PlacePart::Nothing).then(|| spans.guess(&problem.at.segs()));
            let span = spans.find(&problem).or_else(guess);
            let mut diagnostic = problem.what;
            if let Some(hint) = span.as_ref().and_then(|s| text.get(s.clone())).and_then(hints::full_width) {
                diagnostic.help.insert(0, hint);
            }
            diagnostic.span = span;
            diagnostic
        })
        .collect();
    found.sort_by_key(|d| d.span.as_ref().map_or((0, 0), |s| (s.start, s.end)));
    let mut said = BTreeSet::new();
    found.retain(|d| said.insert((d.span.as_ref().map(|s| (s.start, s.end)), d.message.clone())));
    found
}

#[cfg(test)]
mod tests;
