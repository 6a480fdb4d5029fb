//! What was seen beside a result and may be why its numbers are what they are.

use std::collections::BTreeMap;

use flow_core::StepResult;
use serde::{Deserialize, Serialize};

use crate::columns::gpu_shared;
use crate::verdict::FOREIGN_CPU;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Caveats {
    /// The share of the host's CPU that other programs used, where that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) foreign_cpu: Option<f64>,
    /// Nobody could see whether other runs of the machine ran something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unwatched: bool,
    /// Programs that computed on its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) strangers: Vec<String>,
    /// The share of its GPUs' time that others used in slices of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gpu_shared: Option<f64>,
    /// These others were flow's own steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) beside_own: bool,
}

impl Caveats {
    pub(crate) fn of(result: &StepResult) -> Caveats {
        let seen = &result.circumstances;
        Caveats {
            foreign_cpu: seen.foreign_cpu.filter(|used| *used > FOREIGN_CPU),
            unwatched: seen.unwatched,
            strangers: seen.strangers.iter().map(|stranger| stranger.name.clone()).collect(),
            gpu_shared: gpu_shared(result),
            beside_own: gpu_shared(result).is_some() && !seen.corunners.is_empty() && seen.strangers.is_empty(),
        }
    }

    /// By label, of those beside which something was seen.
    pub(crate) fn of_all<'r>(results: impl IntoIterator<Item = &'r StepResult>) -> BTreeMap<String, Caveats> {
        let all = results.into_iter().map(|result| (result.label.clone(), Caveats::of(result)));
        all.filter(|(_, seen)| *seen != Caveats::default()).collect()
    }
}
