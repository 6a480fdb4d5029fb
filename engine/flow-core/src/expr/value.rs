//! Between YAML, JSON and the values of expressions. Nothing is lost on the way silently: what JSON cannot hold is an error.

use std::borrow::Cow;

use minijinja::value::{Serde, Value, ValueKind};
use serde_json::{Map, Value as Json};

use super::{
    faults::fault,
    scope::{Items, Metrics, whole},
};
use crate::reason::{ExprFault, Fault, FoundValue};

/// A YAML value without expressions. The error says which value no workflow can hold.
pub(crate) fn from_yaml(yaml: &serde_yaml::Value) -> Result<Value, String> {
    use serde_yaml::Value as Yaml;
    Ok(match yaml {
        Yaml::Null => Value::from(()),
        Yaml::Bool(b) => Value::from(*b),
        Yaml::Number(n) => match (n.as_u64(), n.as_i64(), n.as_f64()) {
            (Some(n), _, _) => Value::from(n),
            (_, Some(n), _) => Value::from(n),
            (_, _, Some(n)) if n.is_finite() => whole(n).map_or(Value::from(n), Value::from),
            _ => return Err(format!("{n} is no finite number")),
        },
        Yaml::String(s) => Value::from(s.as_str()),
        Yaml::Sequence(list) => Value::from(list.iter().map(from_yaml).collect::<Result<Vec<_>, _>>()?),
        Yaml::Mapping(map) => {
            let pairs = map.iter().map(|(key, value)| Ok((key_text(key)?, from_yaml(value)?)));
            Value::from_pairs(pairs.collect::<Result<Vec<_>, String>>()?)
        }
        Yaml::Tagged(tagged) => return Err(format!("the tag `{}` has no meaning here", tagged.tag)),
    })
}

/// The same value, with integers for all whole numbers in it.
pub(crate) fn wholes(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).ok().and_then(whole).map_or_else(|| value.clone(), Value::from)
        }
        ValueKind::Seq if value.downcast_object_ref::<Items>().is_none() => {
            value.try_iter().into_iter().flatten().map(|item| wholes(&item)).collect()
        }
        _ => value.clone(),
    }
}

/// A key of a mapping; numbers and the like are taken as their text.
pub(crate) fn key_text(key: &serde_yaml::Value) -> Result<Cow<'_, str>, String> {
    use serde_yaml::Value as Yaml;
    match key {
        Yaml::String(s) => Ok(s.into()),
        Yaml::Bool(b) => Ok(b.to_string().into()),
        Yaml::Number(n) => Ok(n.to_string().into()),
        Yaml::Null => Ok("null".into()),
        _ => Err("a key is a text, not a list or a mapping".to_owned()),
    }
}

pub(crate) fn from_json(json: &Json) -> Value {
    Value::from(Serde(json))
}

/// The value as JSON. A metric that is NaN becomes null. The error names the member that JSON cannot hold.
pub(crate) fn to_json(value: &Value) -> Result<Json, Fault> {
    Ok(match value.kind() {
        ValueKind::Undefined => return Err(ExprFault::UndefinedResult.into()),
        ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => number(value)?,
        ValueKind::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|e| fault(&e))?;
            Json::Array(items.map(|item| to_json(&item)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            // What a program told is taken as it is; what an expression came to has to be a number.
            let told = value.downcast_object_ref::<Metrics>().is_some();
            for key in value.try_iter().map_err(|e| fault(&e))? {
                let item = value.get_item(&key).map_err(|e| fault(&e))?;
                let nan = told && f64::try_from(item.clone()).is_ok_and(f64::is_nan);
                let item = if nan { Json::Null } else { to_json(&item)? };
                map.insert(key.as_str().map_or_else(|| key.to_string(), str::to_owned), item);
            }
            Json::Object(map)
        }
        ValueKind::Invalid => return Err(invalid(value)),
        kind => return Err(ExprFault::NoValue { type_name: kind.to_string() }.into()),
    })
}

fn number(value: &Value) -> Result<Json, Fault> {
    if value.is_integer() {
        if let Ok(n) = u64::try_from(value.clone()) {
            return Ok(n.into());
        }
        let too_large = || ExprFault::NumberTooLarge { value: value.to_string() }.into();
        return i64::try_from(value.clone()).map(Json::from).map_err(|_| too_large());
    }
    let n = f64::try_from(value.clone()).map_err(|e| fault(&e))?;
    serde_json::Number::from_f64(n)
        .map(Json::Number)
        .ok_or_else(|| ExprFault::NotFinite { value: n.to_string() }.into())
}

/// The error inside of a value that could not be made.
fn invalid(value: &Value) -> Fault {
    value.get_attr("x").err().map_or_else(|| ExprFault::NotMade.into(), |e| fault(&e))
}

/// The value inside a text or a command: numbers and truth values as in YAML, lists and mappings as in JSON.
pub(crate) fn to_text(value: &Value) -> Result<String, Fault> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Err(ExprFault::NullInText.into()),
        _ => Ok(json_text(to_json(value)?)),
    }
}

/// JSON as text, whole numbers without a point or an exponent.
pub(crate) fn json_text(json: Json) -> String {
    fn plain(json: Json) -> Json {
        match json {
            Json::Number(n) if n.is_f64() => n.as_f64().and_then(whole).map_or(Json::Number(n), Json::from),
            Json::Array(list) => list.into_iter().map(plain).collect(),
            Json::Object(map) => map.into_iter().map(|(key, value)| (key, plain(value))).collect(),
            other => other,
        }
    }
    // Beyond this not every integer is a number of the machine, and beyond that digits would not mean anything.
    const LONGEST: f64 = 1e21;
    match json.as_f64() {
        Some(n) if json.is_f64() && n.fract() == 0.0 && n.abs() < LONGEST => format!("{:.0}", n + 0.0),
        _ => plain(json).to_string(),
    }
}

/// The value in words, for messages.
pub(crate) fn describe(value: &Value) -> FoundValue {
    const LONG: usize = 40;
    let shown = || {
        let text = to_json(value).map_or_else(|_| value.to_string(), |json| json.to_string());
        if text.chars().count() > LONG { format!("{}…", text.chars().take(LONG).collect::<String>()) } else { text }
    };
    match value.kind() {
        ValueKind::None => FoundValue::Null,
        ValueKind::Bool => FoundValue::Truth { text: value.is_true().to_string() },
        ValueKind::Number => FoundValue::Number { text: shown() },
        ValueKind::String => FoundValue::Text { text: shown() },
        ValueKind::Seq | ValueKind::Iterable => FoundValue::List { text: shown() },
        ValueKind::Map => FoundValue::Mapping { text: shown() },
        kind => FoundValue::Other { type_name: kind.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_no_point_and_no_exponent() {
        for (yaml, text) in [
            ("1e5", "100000"),
            ("1.0", "1"),
            ("-2.50e1", "-25"),
            ("-0.0", "0"),
            ("1e18", "1000000000000000000"),
            ("6.02e23", "6.02e+23"),
            ("0.001", "0.001"),
            ("3.10", "3.1"),
            ("18446744073709551615", "18446744073709551615"),
            ("[1.0, 0.5, {a: 1e3}]", "[1,0.5,{\"a\":1000}]"),
            ("'1.0'", "1.0"),
        ] {
            let value = from_yaml(&serde_yaml::from_str(yaml).unwrap()).unwrap();
            assert_eq!(to_text(&value).unwrap(), text, "{yaml}");
        }
        assert_eq!(to_text(&Value::from(5.0)).unwrap(), "5");
    }
}
