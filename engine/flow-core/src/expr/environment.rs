//! The expression language: minijinja's, strict about what is undefined, with our filters. One for the whole program; it holds
//! no state.

use std::{collections::BTreeSet, sync::LazyLock};

use minijinja::{
    Environment, Error, ErrorKind, UndefinedBehavior,
    value::{Kwargs, Value, ValueKind},
};

use super::{bounds, faults::refused, scope::Items, value::to_text};
use crate::reason::ExprFault;

/// Enough for any sane expression, little enough that a runaway one ends at once.
const FUEL: u64 = 1_000_000;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    bounds::fill(&mut env, vec![("where", Value::from_function(narrow)), ("sh", Value::from_function(sh))]);
    for name in ["safe", "escape", "e"] {
        env.remove_filter(name);
    }
    for (name, power) in [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)] {
        env.add_global(name, Value::from(1u64 << power));
    }
    env
});

pub(crate) fn get() -> &'static Environment<'static> {
    &ENVIRONMENT
}

/// Functions and constants that every expression has.
pub(crate) fn globals() -> BTreeSet<&'static str> {
    get().globals().map(|(name, _)| name).collect()
}

/// Known filters, to suggest the nearest name for one that is unknown.
pub(crate) fn filter_names() -> impl Iterator<Item = &'static str> {
    "abs attr batch bool capitalize chain count default dictsort first float format groupby indent int items join last \
     length lines list lower map max min reject rejectattr replace reverse round select selectattr sh slice sort split \
     string sum title tojson trim unique upper where zip"
        .split(' ')
}

/// Tests that people use.
pub(crate) fn test_names() -> impl Iterator<Item = &'static str> {
    "boolean defined divisibleby endingwith eq even false float ge gt in integer iterable le lt mapping ne none number odd \
     sequence startingwith string true"
        .split(' ')
}

/// There is a filter of that name.
pub(crate) fn has_filter(name: &str) -> bool {
    // Called with nothing, every other error is that of one that is there.
    !matches!(get().empty_state().apply_filter(name, &[]), Err(error) if error.kind() == ErrorKind::UnknownFilter)
}

/// There is a test of that name.
pub(crate) fn has_test(name: &str) -> bool {
    !matches!(get().empty_state().perform_test(name, &[]), Err(error) if error.kind() == ErrorKind::UnknownTest)
}

/// `| where(version='v7', batch=16)`: the members of a list at these values of the axes.
fn narrow(list: &Value, wanted: Kwargs) -> Result<Value, Error> {
    let mut kept: Vec<Value> = Vec::new();
    let mut axes = BTreeSet::new();
    let wanted: Vec<(String, Value)> =
        wanted.args().map(|name| Ok((name.to_owned(), wanted.get(name)?))).collect::<Result<_, Error>>()?;
    let mut known = vec![false; wanted.len()];
    let mut any = false;
    for item in list.try_iter()? {
        any = true;
        let point = match item.get_attr("axes") {
            Ok(axes) if axes.kind() == ValueKind::Map => axes,
            _ => item.clone(),
        };
        axes.extend(point.try_iter()?.map(|k| k.to_string()));
        let mut all = true;
        for (n, (name, value)) in wanted.iter().enumerate() {
            let here = point.get_attr(name)?;
            known[n] |= !here.is_undefined();
            all &= here == *value;
        }
        if all {
            kept.push(item);
        }
    }
    if let Some(n) = known.iter().position(|known| any && !known) {
        return Err(refused(ExprFault::NoSuchAxis { axis: wanted[n].0.clone(), axes: axes.into_iter().collect() }));
    }
    Ok(match list.downcast_object::<Items>() {
        Some(items) => Value::from_object(items.narrowed(&kept)),
        None => Value::from(kept),
    })
}

/// `| sh`: as one word of a shell's command line.
fn sh(value: &Value) -> Result<String, Error> {
    let word = |value: &Value| {
        let text = to_text(value).map_err(refused)?;
        let quoted = shlex::try_quote(&text).map_err(|_| refused(ExprFault::ZeroInCommand))?;
        Ok::<_, Error>(quoted.into_owned())
    };
    match value.kind() {
        ValueKind::Seq => {
            let words: Vec<String> = value.try_iter()?.map(|v| word(&v)).collect::<Result<_, _>>()?;
            Ok(words.join(" "))
        }
        _ => word(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_are_offered_are_there() {
        assert_eq!(filter_names().find(|name| !has_filter(name)), None);
        assert_eq!(test_names().find(|name| !has_test(name)), None);
        assert!(!has_filter("wehre") && !has_test("od"));
    }
}
