//! The values of a YAML text, from one parser only. If a key is repeated, the rest is still read, so that flow can
//! report other errors too. Does not know what a workflow is.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fmt,
};

use indexmap::IndexMap;
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde_yaml::{Mapping, Value};

use super::{
    DEEPEST,
    at::{At, On, Problems, Seg},
    hints::{self, Unreadable},
    spans, too_deep,
};
use crate::{Diagnostic, expr::value::key_text};

/// Visits all scalars in the same way.
macro_rules! scalars {
    ($made:ty, $value:ident => $make:expr) => {
        scalars! { $made, $value => $make, visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str }
    };
    ($made:ty, $value:ident => $make:expr, $($visit:ident $of:ty),*) => {
        $(fn $visit<E: de::Error>(self, $value: $of) -> Result<$made, E> {
            Ok($make)
        })*
    };
}

/// Reads a text; keys that stand twice become problems.
pub(super) fn read(text: &str, root: &At, problems: &mut Problems) -> Result<Value, Unreadable> {
    if let Some(index) = hints::deeper(text, DEEPEST).filter(|_| spans::nests_deeper(text, DEEPEST)) {
        return Err(Unreadable::TooDeep { index });
    }
    if has_aliases(text) {
        let left = Cell::new(text.len() + ALIASED);
        Count { left: &left }.deserialize(serde_yaml::Deserializer::from_str(text)).or_else(|error| {
            match left.get() {
                0 => Err(error),
                _ => Ok(()),
            }
        })?;
    }
    match serde_yaml::from_str::<Value>(text) {
        Ok(value) => Ok(value),
        // What else is wrong is so at the second reading as well.
        Err(error) if !error.to_string().contains("duplicate entry") => Err(error.into()),
        Err(error) => {
            let twice = RefCell::new(Vec::new());
            match (Seed { path: Vec::new(), twice: &twice }).deserialize(serde_yaml::Deserializer::from_str(text)) {
                Ok(value) if !twice.borrow().is_empty() => {
                    for (path, times) in twice.into_inner() {
                        let at = path.iter().fold(root.clone(), |at, seg| at.seg(seg.clone()));
                        let key = match path.last() {
                            Some(Seg::Key(key)) => key.to_string(),
                            _ => String::new(),
                        };
                        problems.add(
                            &at,
                            On::Repeated(times),
                            Diagnostic::new(format!("`{key}` is here a second time"))
                                .label("the same key again")
                                .help("keep one of them"),
                        );
                    }
                    Ok(value)
                }
                _ => Err(error.into()),
            }
        }
    }
}

/// Values that aliases may add to those that are written.
const ALIASED: usize = 1 << 20;

/// It may have aliases: `&name` stands behind a blank, as it does nowhere else but in texts.
fn has_aliases(text: &str) -> bool {
    text.match_indices('&').any(|(at, _)| at == 0 || text[..at].ends_with([' ', '\t', '\n', '[', '{', ',']))
}

/// Counts values and keeps none, because aliases of aliases can expand to more values than fit in memory.
#[derive(Clone, Copy)]
struct Count<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        self.left.set(self.left.get().saturating_sub(1));
        match self.left.get() {
            // As the parser says it, which has a bound of its own.
            0 => Err(de::Error::custom("repetition limit exceeded")),
            _ => d.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while access.next_key_seed(self)?.is_some() {
            access.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while access.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<(), A::Error> {
        let (_, value) = access.variant::<String>()?;
        value.newtype_variant_seed(self)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    scalars! { (), _value => () }
}

/// The place of a value that nests too deep. Later code recurses over values, and journals store them as JSON, whose
/// depth is limited.
pub(crate) fn deep(value: &Value, root: &At) -> Option<At> {
    fn below(value: &Value, depth: usize) -> Option<Path> {
        if depth > DEEPEST {
            return Some(Path::default());
        }
        match value {
            Value::Sequence(list) => list.iter().enumerate().find_map(|(i, value)| {
                nests(value).then(|| below(value, depth + 1))?.map(|path| path.within(Seg::Index(i)))
            }),
            Value::Mapping(map) => map.iter().find_map(|(key, value)| {
                nests(value).then(|| below(value, depth + 1))?.map(|path| path.within(of_key(key)))
            }),
            Value::Tagged(tagged) => below(&tagged.value, depth + 1),
            _ => None,
        }
    }
    below(value, 1).map(|path| path.from(root))
}

/// The place of a `<<` that is neither a mapping nor a list of mappings.
pub(crate) fn no_merge(value: &Value, root: &At) -> Option<At> {
    let unsound = |map: &Mapping| match map.get(MERGE)? {
        Value::Mapping(_) => None,
        Value::Sequence(list) if list.iter().all(Value::is_mapping) => None,
        _ => Some(MERGE.to_owned()),
    };
    find(value, &unsound).map(|(path, _)| path.from(root))
}

/// The place of two keys of a mapping that have the same text, such as `1` and `'1'`.
pub(crate) fn same_key(value: &Value, root: &At) -> Option<(At, String)> {
    let same = |map: &Mapping| {
        if map.keys().all(Value::is_string) {
            return None;
        }
        let mut texts = BTreeSet::new();
        map.keys().filter_map(|key| key_text(key).ok()).find(|key| !texts.insert(key.clone())).map(Cow::into_owned)
    };
    find(value, &same).map(|(path, key)| (path.from(root), key))
}

/// The path to the first key that `wrong` names of a mapping, and the key.
fn find(value: &Value, wrong: &impl Fn(&Mapping) -> Option<String>) -> Option<(Path, String)> {
    let within = |(path, key): (Path, String), seg: Seg| (path.within(seg), key);
    match value {
        Value::Sequence(list) => {
            list.iter().enumerate().find_map(|(i, value)| Some(within(find(value, wrong)?, Seg::Index(i))))
        }
        Value::Mapping(map) => match wrong(map) {
            Some(key) => Some((Path::default().within(Seg::Key(key.as_str().into())), key)),
            None => map.iter().find_map(|(key, value)| Some(within(find(value, wrong)?, of_key(key)))),
        },
        Value::Tagged(tagged) => find(&tagged.value, wrong),
        _ => None,
    }
}

const MERGE: &str = "<<";

/// Applies `<<`: each mapping gets the keys that it lacks from the mappings in its `<<`, after its own keys, in order.
/// These mappings' own `<<` are applied first.
pub(crate) fn merge(value: &mut Value) {
    match value {
        Value::Sequence(list) => list.iter_mut().for_each(merge),
        Value::Mapping(map) => {
            map.values_mut().for_each(merge);
            let named = match map.shift_remove(MERGE) {
                Some(Value::Sequence(list)) => list,
                one => one.into_iter().collect(),
            };
            for named in named {
                let Value::Mapping(named) = named else { continue };
                for (key, value) in named {
                    map.entry(key).or_insert(value);
                }
            }
        }
        Value::Tagged(tagged) => merge(&mut tagged.value),
        _ => {}
    }
}

/// A path from below: made where something is found, for most values are looked at for nothing.
#[derive(Default)]
struct Path(Vec<Seg>);

impl Path {
    fn within(mut self, seg: Seg) -> Path {
        self.0.push(seg);
        self
    }

    fn from(self, root: &At) -> At {
        self.0.into_iter().rev().fold(root.clone(), |at, seg| at.seg(seg))
    }
}

fn of_key(key: &Value) -> Seg {
    Seg::Key(key_text(key).unwrap_or_default().into())
}

fn nests(value: &Value) -> bool {
    matches!(value, Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_))
}

/// Reads any YAML, noting the keys that stand twice; the first of them counts.
struct Seed<'a> {
    path: Vec<Seg>,
    twice: &'a RefCell<Vec<(Vec<Seg>, usize)>>,
}

impl Seed<'_> {
    fn below(&self, seg: Seg) -> Self {
        let mut path = self.path.clone();
        path.push(seg);
        Seed { path, twice: self.twice }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        if self.path.len() > DEEPEST {
            return Err(de::Error::custom(too_deep()));
        }
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Mapping::new();
        let mut times: IndexMap<Value, usize> = IndexMap::new();
        while let Some(key) = access.next_key::<Value>()? {
            let seg = of_key(&key);
            let value = access.next_value_seed(self.below(seg.clone()))?;
            if map.contains_key(&key) {
                let n = times.entry(key).or_insert(0);
                *n += 1;
                self.twice.borrow_mut().push((self.below(seg).path, *n));
            } else {
                map.insert(key, value);
            }
        }
        Ok(Value::Mapping(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(self.below(Seg::Index(list.len())))? {
            list.push(value);
        }
        Ok(Value::Sequence(list))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    scalars! { Value, value => value.into() }
}
