//! Observations during a result that may explain its numbers.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::StepResult;
use serde::{Deserialize, Serialize};

use crate::columns::gpu_shared;
use crate::verdict::FOREIGN_CPU;

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Caveats {
    /// The share of the host's CPU that other programs used, if it is large enough to matter.
    pub(crate) foreign_cpu: Option<f64>,
    /// Whether flow could not see if other runs on the machine were active.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unwatched: bool,
    /// Foreign processes that used its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) foreign_processes: Vec<String>,
    /// The share of its GPUs' time that others used in separate time slices.
    pub(crate) gpu_shared: Option<f64>,
    /// Whether these others were steps of flow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) own_corunners: bool,
}

impl Caveats {
    pub(crate) fn of(result: &StepResult) -> Caveats {
        let seen = &result.circumstances;
        Caveats {
            foreign_cpu: seen.foreign_cpu.filter(|used| *used > FOREIGN_CPU),
            unwatched: seen.unwatched,
            foreign_processes: seen.foreign_processes.iter().map(|process| process.name.clone()).collect(),
            gpu_shared: gpu_shared(result),
            own_corunners: gpu_shared(result).is_some()
                && !seen.corunners.is_empty()
                && seen.foreign_processes.is_empty(),
        }
    }

    /// The names for `flow run -f` that measures the results with much foreign CPU use again: a few results, else steps.
    /// Repetitions of a co-run group exist only if its verdict needs them.
    pub(crate) fn to_repeat(results: &[&StepResult]) -> Vec<String> {
        const FEW: usize = 3;
        let disturbed = results.iter().filter(|result| Caveats::of(result).foreign_cpu.is_some());
        let labels: BTreeMap<&str, &StepResult> = disturbed.map(|result| (&*result.label, *result)).collect();
        let is_repeated =
            |result: &&StepResult| result.repetition.is_some() && !result.circumstances.corunners.is_empty();
        if labels.len() <= FEW && !labels.values().any(is_repeated) {
            return labels.into_keys().map(str::to_owned).collect();
        }
        labels.values().map(|result| result.step.clone()).collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// Caveats by label, for results that have any.
    pub(crate) fn of_all<'r>(results: impl IntoIterator<Item = &'r StepResult>) -> BTreeMap<String, Caveats> {
        let all = results.into_iter().map(|result| (result.label.clone(), Caveats::of(result)));
        all.filter(|(_, seen)| *seen != Caveats::default()).collect()
    }
}
