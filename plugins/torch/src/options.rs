//! The parameters of `torch/train`. plugin.yaml holds the same, with words and limits; a test compares their defaults.

use bytesize::ByteSize;
use flow_plugin::Error;
use serde::{Deserialize, Deserializer};

use crate::model::Model;

/// `with:` of the step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Options {
    pub(crate) data: String,
    pub(crate) model: Model,
    pub(crate) batch: usize,
    pub(crate) epochs: u32,
    /// Epochs before these, in which only the layers are trained that give the classes.
    pub(crate) freeze_epochs: u32,
    pub(crate) optimizer: Optimizer,
    /// Left out, it follows from optimizer and batch.
    pub(crate) lr: Option<f64>,
    pub(crate) momentum: f64,
    pub(crate) weight_decay: f64,
    pub(crate) schedule: Schedule,
    pub(crate) precision: Precision,
    pub(crate) channels_last: bool,
    pub(crate) dropout: Option<f64>,
    /// A file of weights to begin with.
    pub(crate) weights: Option<String>,
    /// Leave those of the layers that give the classes out.
    pub(crate) new_head: bool,
    #[serde(deserialize_with = "byte_size")]
    pub(crate) memory_limit: Option<ByteSize>,
    pub(crate) valid: f64,
    pub(crate) flip: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            data: String::new(),
            model: Model::MobilenetV2,
            batch: 32,
            epochs: 4,
            freeze_epochs: 0,
            optimizer: Optimizer::Sgd,
            lr: None,
            momentum: 0.9,
            weight_decay: 1e-4,
            schedule: Schedule::OneCycle,
            precision: Precision::Fp32,
            channels_last: true,
            dropout: None,
            weights: None,
            new_head: false,
            memory_limit: None,
            valid: 0.2,
            flip: true,
        }
    }
}

/// A size with its unit, `4GiB`.
pub(crate) fn byte_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let size = text.map(|text| match text.parse() {
        Ok(size) if text.ends_with('B') => Ok(size),
        _ => Err(format!("`{text}` is no size; write for example `8GiB`")),
    });
    size.transpose().map_err(serde::de::Error::custom)
}

/// What turns gradients into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Optimizer {
    Sgd,
    Adam,
}

/// How the learning rate goes over the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Schedule {
    Constant,
    OneCycle,
}

/// The arithmetic of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Precision {
    Fp32,
    Tf32,
    Bf16,
}

impl Precision {
    /// The name as people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    /// Refuses what the CPU does not do.
    pub(crate) fn check(self, gpus: bool) -> Result<(), Error> {
        if gpus || self == Precision::Fp32 {
            return Ok(());
        }
        let name = self.name();
        Err(Error::failed(format!("`precision: {name}` needs a GPU; on the CPU only fp32 is trained")))
    }
}

impl Options {
    /// The highest learning rate of the schedule.
    pub(crate) fn peak_lr(&self) -> f64 {
        self.lr.unwrap_or_else(|| match self.optimizer {
            Optimizer::Sgd => (0.05 * self.batch as f64 / 128.0).min(0.1),
            Optimizer::Adam => 0.002,
        })
    }

    /// All epochs asked for.
    pub(crate) fn all_epochs(&self) -> u32 {
        self.freeze_epochs.saturating_add(self.epochs)
    }

    /// The learning rate after so many epochs: the highest while the trunk is frozen, then the schedule's.
    pub(crate) fn lr_after(&self, epochs: f64) -> f64 {
        let tuned = epochs - f64::from(self.freeze_epochs);
        if tuned < 0.0 { self.peak_lr() } else { self.lr(tuned / f64::from(self.epochs)) }
    }

    /// The learning rate at `done`, between 0 and 1, of the schedule.
    fn lr(&self, done: f64) -> f64 {
        const WARM_UP: f64 = 0.25;
        let cosine = |from: f64, to: f64, at: f64| to + (from - to) * (1.0 + (std::f64::consts::PI * at).cos()) / 2.0;
        let peak = self.peak_lr();
        match self.schedule {
            Schedule::Constant => peak,
            Schedule::OneCycle if done < WARM_UP => cosine(peak / 25.0, peak, done / WARM_UP),
            Schedule::OneCycle => cosine(peak, peak / 1e4, ((done - WARM_UP) / (1.0 - WARM_UP)).min(1.0)),
        }
    }

    /// Refuses what cannot be done, with GPUs or without.
    pub(crate) fn check(&self, gpus: bool) -> Result<(), Error> {
        self.precision.check(gpus)?;
        if self.data.is_empty() {
            return Err(Error::failed("`data` is missing: the folder of a dataset prepared by images/prepare"));
        }
        if self.batch == 0 || self.epochs == 0 {
            return Err(Error::failed("`batch` and `epochs` must be at least 1"));
        }
        for (name, value) in [("valid", Some(self.valid)), ("dropout", self.dropout)] {
            if let Some(value) = value.filter(|value| !(0.0..1.0).contains(value)) {
                return Err(Error::failed(format!("`{name}: {value}` must be at least 0 and less than 1")));
            }
        }
        if self.new_head && self.weights.is_none() {
            return Err(Error::failed(
                "`new_head: true` says what to take of `weights`, and there are none: name a file, or leave it out",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn options(with: Value) -> Options {
        serde_json::from_value(with).unwrap()
    }

    #[test]
    fn plugin_yaml_says_the_same() {
        let manifest: Value = serde_yaml::from_str(include_str!("../plugin.yaml")).unwrap();
        assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
        let schema = &manifest["steps"]["train"]["with"];
        let mut all = json!({"data": "d"});
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name} is not described");
            if let Some(default) = property.get("default") {
                all[name] = default.clone();
            }
        }
        assert_eq!(options(all.clone()), options(json!({"data": "d"})), "the defaults are the same");
        for name in ["model", "optimizer", "schedule", "precision"] {
            for value in schema["properties"][name]["enum"].as_array().unwrap() {
                all[name] = value.clone();
                options(all.clone());
            }
        }
        let known = format!("{:?}", options(all));
        for name in schema["properties"].as_object().unwrap().keys() {
            assert!(known.contains(&format!("{name}:")), "the program does not know {name}");
        }
    }

    #[test]
    fn one_cycle_rises_and_falls() {
        let options = options(json!({"data": "d", "lr": 1.0}));
        let rates = [0.0, 0.125, 0.25, 0.625, 1.0, 1.5].map(|done| (options.lr(done) * 1000.0).round() / 1000.0);
        assert_eq!(rates, [0.04, 0.52, 1.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn the_schedule_begins_when_the_trunk_is_trained() {
        let options = options(json!({"data": "d", "lr": 1.0, "freeze_epochs": 1, "epochs": 4}));
        let rates = [0.0, 0.9, 1.0, 2.0, 5.0].map(|epochs| (options.lr_after(epochs) * 1000.0).round() / 1000.0);
        assert_eq!(rates, [1.0, 1.0, 0.04, 1.0, 0.0]);
    }
}
