//! The GPUs that flow may use, real or declared. Looks; chooses nothing.

use std::env;

use flow_core::{GpuFacts, reason::GpuFault};

use super::{FAKE_GPUS_VAR, allowed_by_flag, allowed_by_variable, parse_fake_gpus};
use crate::nvml::{Survey, survey};

/// The GPUs that flow may use.
pub(super) struct UsableGpus {
    pub(super) gpus: Vec<GpuFacts>,
    pub(super) fake: bool,
    pub(super) survey: Survey,
}

/// The GPUs of this host in NVML's order, or the declared ones.
///
/// # Errors
/// A sentence: `FLOW_FAKE_GPUS` is invalid, or `only` names a missing GPU.
pub(super) fn found(only: Option<&str>) -> Result<UsableGpus, String> {
    let declared = |from: &str, text: &str| -> Result<UsableGpus, String> {
        let gpus = parse_fake_gpus(from, text)?;
        Ok(UsableGpus { gpus, fake: true, survey: Survey::default() })
    };
    if let Some(text) = only.filter(|only| declares(only)) {
        return declared("--gpus", text);
    }
    let mut found = match env::var(FAKE_GPUS_VAR) {
        // A variable about real GPUs does not hide declared ones.
        Ok(text) if !text.trim().is_empty() => declared(FAKE_GPUS_VAR, &text)?,
        _ => {
            let mut survey = survey();
            let there: Vec<GpuFacts> = survey.gpus.iter().map(|gpu| gpu.facts.clone()).collect();
            let (count, visible) = (there.len(), env::var("CUDA_VISIBLE_DEVICES").ok());
            let gpus = allowed_by_variable(there, survey.count, visible.as_deref());
            if let Some(visible) = visible.filter(|visible| !visible.is_empty() && gpus.is_empty() && count > 0) {
                let variable = "CUDA_VISIBLE_DEVICES".to_owned();
                survey.troubles.push(GpuFault::GpusHidden { variable, value: visible }.into());
            }
            UsableGpus { gpus, fake: false, survey }
        }
    };
    if let Some(only) = only {
        found.gpus = allowed_by_flag(&found.gpus, only)?;
    }
    let may = |uuid: &str| found.gpus.iter().any(|gpu| gpu.uuid == uuid);
    found.survey.gpus.retain(|gpu| may(&gpu.facts.uuid));
    Ok(found)
}

/// True if `--gpus` declares hypothetical GPUs instead of selecting real ones.
pub fn declares(only: &str) -> bool {
    only.contains([' ', '×']) && only.contains(['x', '×'])
}
