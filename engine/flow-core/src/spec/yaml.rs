//! What flow does with a parsed YAML value: applies `<<`, and limits nesting. Does not know what a workflow is.

use serde_yaml::Value;

use super::{
    DEEPEST,
    at::{Seg, YamlPath},
    too_deep,
};
use crate::{Diagnostic, expr::value::key_text};

const MERGE: &str = "<<";

/// Applies `<<`: each mapping gets the keys that it lacks from the mappings in its `<<`, after its own keys, in order.
/// These mappings' own `<<` are applied first.
///
/// # Errors
/// The place of a `<<` that is not a mapping, or of a value that nests too deep: later code recurses over values, and
/// journals store them as JSON, whose depth is limited.
pub(super) fn merge(value: &mut Value, at: &YamlPath, depth: usize) -> Result<(), Box<(YamlPath, Diagnostic)>> {
    if depth > DEEPEST {
        let what = Diagnostic::new(too_deep()).help("move the deeper part into another file");
        return Err(Box::new((at.clone(), what)));
    }
    match value {
        Value::Sequence(list) => {
            let mut nested = list.iter_mut().enumerate().filter(|(_, value)| nests(value));
            nested.try_for_each(|(i, value)| merge(value, &at.index(i), depth + 1))
        }
        Value::Mapping(map) => {
            for (key, value) in map.iter_mut().filter(|(_, value)| nests(value)) {
                merge(value, &at.seg(Seg::Key(key_text(key).unwrap_or_default().into())), depth + 1)?;
            }
            let named = match map.shift_remove(MERGE) {
                Some(Value::Sequence(list)) => list,
                one => one.into_iter().collect(),
            };
            for named in named {
                let Value::Mapping(named) = named else {
                    let what = Diagnostic::new("`<<` copies the keys of a mapping, but this is not one");
                    let help = "`<<: *name` copies a mapping that begins with `&name`";
                    return Err(Box::new((at.key(MERGE), what.help(help))));
                };
                for (key, value) in named {
                    map.entry(key).or_insert(value);
                }
            }
            Ok(())
        }
        Value::Tagged(tagged) => merge(&mut tagged.value, at, depth + 1),
        _ => Ok(()),
    }
}

fn nests(value: &Value) -> bool {
    matches!(value, Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_))
}
