//! `--params FILE`: parameter values from a file, in the form of `--set`.

use std::{fmt, path::Path};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_yaml::Value;

use crate::{ExecError, text};

/// The parameters of a YAML or JSON file, each as `NAME=VALUE`. Numbers keep their spelling, because the parameter may
/// be a text.
pub(crate) fn values_of(file: &Path, longest: u64) -> Result<Vec<String>, ExecError> {
    let shown = file.display();
    let wrong = |why: String| {
        ExecError::Usage(format!("--params {shown}: {why}; expected a mapping of parameters to values, `lr: 0.1`"))
    };
    let text = text::read(file, longest).map_err(|e| wrong(e.to_string()))?;
    values(&text).map_err(wrong)
}

fn values(text: &str) -> Result<Vec<String>, String> {
    let values: serde_yaml::Mapping = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
    let spelled = NumberSpellings(&values).deserialize(serde_yaml::Deserializer::from_str(text)).unwrap_or_default();
    values
        .iter()
        .map(|(name, value)| {
            let name = name.as_str().ok_or_else(|| format!("{name:?} is no name"))?;
            let value = match spelled.iter().find(|(number, _)| number == name) {
                Some((_, spelled)) => spelled.clone(),
                None => serde_json::to_string(value).map_err(|e| format!("`{name}`: {e}"))?,
            };
            Ok(format!("{name}={value}"))
        })
        .collect()
}

/// Reads the spelling of each number among these values.
struct NumberSpellings<'a>(&'a serde_yaml::Mapping);

impl<'de> DeserializeSeed<'de> for NumberSpellings<'_> {
    type Value = Vec<(String, String)>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NumberSpellings<'_> {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut spelled = Vec::new();
        while let Some(name) = access.next_key::<String>()? {
            if self.0.get(&name).is_some_and(Value::is_number) {
                spelled.push((name, access.next_value()?));
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(spelled)
    }
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn numbers_keep_their_spelling() {
        let text = "tag: 1.10\nlayers: 0x10\nlr: 1e-4\nlist: [1.10, a]\nprompt: 'Answer: yes'\non: true\nnone: null\n";
        let expected = [
            "tag=1.10",
            "layers=0x10",
            "lr=1e-4",
            "list=[1.1,\"a\"]",
            "prompt=\"Answer: yes\"",
            "on=true",
            "none=null",
        ];
        assert_eq!(values(text).unwrap(), expected);
        assert!(values("- a").is_err() && values("{1: 2}").is_err());
    }
}
