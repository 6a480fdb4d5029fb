//! The numbers of an attempt: metrics and their series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::Key;

/// A named number with a unit.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number: the last printed value, or the mean over the counted epochs. May be NaN or infinite.
    #[serde(with = "not_finite")]
    pub value: f64,
    /// `s`, `images/s`, `bytes`, `ratio`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Number of values in the mean; absent for a plain number.
    pub epochs: Option<u32>,
    /// Their standard deviation, if there are at least two.
    pub sd: Option<f64>,
    /// The values themselves, if an index has the same meaning in other results too, such as a seed of a simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
}

/// JSON has only finite numbers: NaN is written as null, infinity as the text `Infinity` or `-Infinity`.
pub(crate) mod not_finite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    const INFINITY: &str = "Infinity";
    const MINUS_INFINITY: &str = "-Infinity";

    /// A number in its JSON form.
    #[derive(Clone, Copy)]
    pub(crate) struct Number(pub(crate) f64);

    impl Serialize for Number {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                f64::INFINITY => to.serialize_str(INFINITY),
                f64::NEG_INFINITY => to.serialize_str(MINUS_INFINITY),
                number => to.serialize_f64(number),
            }
        }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WrittenNumber {
        Number(f64),
        Text(String),
        Nothing(()),
    }

    impl<'de> Deserialize<'de> for Number {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
            match WrittenNumber::deserialize(from)? {
                WrittenNumber::Number(number) => Ok(Number(number)),
                WrittenNumber::Nothing(()) => Ok(Number(f64::NAN)),
                WrittenNumber::Text(text) if text == INFINITY => Ok(Number(f64::INFINITY)),
                WrittenNumber::Text(text) if text == MINUS_INFINITY => Ok(Number(f64::NEG_INFINITY)),
                WrittenNumber::Text(text) => Err(D::Error::custom(format!("`{text}` is not a number"))),
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
        Number(*number).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Number::deserialize(from)?.0)
    }

    /// The same for numbers by name.
    pub(crate) mod map {
        use std::collections::BTreeMap;

        use serde::{Deserialize, Deserializer, Serializer};

        use super::Number;

        pub(crate) fn serialize<S: Serializer>(of: &BTreeMap<String, f64>, to: S) -> Result<S::Ok, S::Error> {
            to.collect_map(of.iter().map(|(name, number)| (name, Number(*number))))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
            let read = BTreeMap::<String, Number>::deserialize(from)?;
            Ok(read.into_iter().map(|(name, number)| (name, number.0)).collect())
        }
    }
}

/// A value of a metric, with its position in the training run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredPoint", into = "StoredPoint")]
pub struct Point {
    /// From 0. A new part begins when the epoch decreases within one attempt, as in a second `fit`.
    pub part: u32,
    pub key: Key,
    pub value: f64,
}

/// How a point is stored: part, epoch, step, value.
type StoredPoint = (u32, Option<f64>, Option<f64>, not_finite::Number);

impl From<StoredPoint> for Point {
    fn from((part, epoch, step, value): StoredPoint) -> Point {
        Point { part, key: Key { epoch, step }, value: value.0 }
    }
}

impl From<Point> for StoredPoint {
    fn from(point: Point) -> StoredPoint {
        (point.part, point.key.epoch, point.key.step, not_finite::Number(point.value))
    }
}

/// An epoch with the times of its begin and end in seconds: since 1970, or in a [`Series`] since the attempt began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, f64, f64)", into = "(u32, u32, f64, f64)")]
pub struct TimedEpoch {
    /// As in [`Point::part`].
    pub part: u32,
    pub epoch: u32,
    pub began: f64,
    pub ended: f64,
}

impl TimedEpoch {
    /// Begin and end.
    pub fn span(&self) -> (f64, f64) {
        (self.began, self.ended)
    }
}

impl From<(u32, u32, f64, f64)> for TimedEpoch {
    fn from((part, epoch, began, ended): (u32, u32, f64, f64)) -> TimedEpoch {
        TimedEpoch { part, epoch, began, ended }
    }
}

impl From<TimedEpoch> for (u32, u32, f64, f64) {
    fn from(of: TimedEpoch) -> Self {
        (of.part, of.epoch, of.began, of.ended)
    }
}

/// The series of an attempt, for charts. Stored as an artifact, never in the database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The values of each metric by name, in printed order; of several with the same part, epoch and step, the last.
    pub metrics: BTreeMap<String, Vec<Point>>,
    pub epoch_times: Vec<TimedEpoch>,
    /// Samples of the host and the GPUs by name (`cpu`, `cpu_cores`, `rss`, `gpu0_load`, `gpu0_memory`, `gpu0_memory_load`, …):
    /// (seconds since the attempt began, value).
    pub samples: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Series {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.samples.is_empty() && self.epoch_times.is_empty()
    }

    /// Whether the epochs start again, in several parts.
    pub fn has_parts(&self) -> bool {
        self.metrics.values().flatten().any(|point| point.part > 0)
            || self.epoch_times.iter().any(|epoch| epoch.part > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_stored_and_read_back() {
        let metric = |value| Metric { value, unit: String::new(), epochs: None, sd: None, values: vec![] };
        for (value, json) in
            [(f64::INFINITY, "\"Infinity\""), (f64::NEG_INFINITY, "\"-Infinity\""), (f64::NAN, "null"), (1.5, "1.5")]
        {
            let stored = serde_json::to_string(&metric(value)).unwrap();
            assert_eq!(stored, format!("{{\"value\":{json}}}"));
            let back: Metric = serde_json::from_str(&stored).unwrap();
            assert_eq!(back.value.to_bits(), value.to_bits());
        }
        assert!(serde_json::from_str::<Metric>(r#"{"value": "1.5"}"#).is_err());
    }

    #[test]
    fn a_point_is_stored_in_a_few_bytes() {
        let points = [
            Point { part: 0, key: Key::of_epoch(3), value: 0.25 },
            Point { part: 1, key: Key { epoch: None, step: Some(500.0) }, value: f64::NEG_INFINITY },
        ];
        let stored = serde_json::to_string(&points).unwrap();
        assert_eq!(stored, r#"[[0,3.0,null,0.25],[1,null,500.0,"-Infinity"]]"#);
        assert_eq!(serde_json::from_str::<Vec<Point>>(&stored).unwrap(), points);
    }
}
