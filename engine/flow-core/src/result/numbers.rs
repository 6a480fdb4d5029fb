//! The numbers of an attempt: metrics, and series of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A named number with a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number: the last epoch's, or the mean over the epochs that count. NaN where the program gave none that is finite.
    #[serde(deserialize_with = "not_finite::number")]
    pub value: f64,
    /// `s`, `images/s`, `bytes`, `ratio`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// How many values of the series the number rests on; absent for a plain number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Standard deviation over them, where there are at least two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// The values themselves, where a place among them means the same in other results too, as a seed of a simulation does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
}

/// JSON writes what is not finite as null; here it is read as NaN.
pub(crate) mod not_finite {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer};

    type Epochs<T> = BTreeMap<String, Vec<(u32, T)>>;

    pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(value(Option::deserialize(from)?))
    }

    pub(crate) fn map<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
        let read = BTreeMap::<String, Option<f64>>::deserialize(from)?;
        Ok(read.into_iter().map(|(name, number)| (name, value(number))).collect())
    }

    pub(crate) fn series<'de, D: Deserializer<'de>>(from: D) -> Result<Epochs<f64>, D::Error> {
        let read = Epochs::<Option<f64>>::deserialize(from)?;
        let values =
            |of: Vec<(u32, Option<f64>)>| of.into_iter().map(|(epoch, number)| (epoch, value(number))).collect();
        Ok(read.into_iter().map(|(name, of)| (name, values(of))).collect())
    }

    fn value(number: Option<f64>) -> f64 {
        number.unwrap_or(f64::NAN)
    }
}

/// The series of an attempt: what charts draw. An artifact, never a value of the database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Metrics with one value an epoch, by name: (epoch, value).
    #[serde(deserialize_with = "not_finite::series")]
    pub epochs: BTreeMap<String, Vec<(u32, f64)>>,
    /// Begin and end of each epoch, seconds since the attempt began.
    pub epoch_times: Vec<(u32, f64, f64)>,
    /// Samples of the host and the GPUs by name (`cpu`, `cpu_cores`, `rss`, `gpu0_load`, `gpu0_memory`, `gpu0_memory_load`, …):
    /// (seconds since the attempt began, value).
    pub samples: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Series {
    /// There is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.epochs.is_empty() && self.samples.is_empty() && self.epoch_times.is_empty()
    }
}
