//! Conditions for comparing two results: the machine, its software, and the resources that they had.

use crate::StepResult;

/// Conditions for comparing two results, as `(name, value)`. Numbers under different ones are never averaged or
/// compared.
pub fn likeness(result: &StepResult) -> Vec<(&'static str, String)> {
    let c = &result.circumstances;
    let mut all = hardware(result);
    all.push(("mode", format!("{:?}", c.mode).to_lowercase()));
    all.push(("gpus", c.gpu_models.len().to_string()));
    all.push(("cpus", c.cpus.to_string()));
    all.push(("gpu_memory_limit", c.gpu_memory.map_or_else(|| "—".into(), |bytes| bytes.to_string())));
    all
}

/// The conditions that depend on the machine and its software, not on the placement.
pub fn hardware(result: &StepResult) -> Vec<(&'static str, String)> {
    let c = &result.circumstances;
    let mut models = c.gpu_models.clone();
    models.dedup();
    let fact = |name: &str| c.facts.get(name).cloned().unwrap_or_else(|| "—".into());
    vec![
        ("gpu_model", if models.is_empty() { "—".into() } else { models.join(", ") }),
        ("cpu_model", c.cpu_model.clone()),
        ("host_cpus", c.host_cpus.to_string()),
        ("allowed_cpus", c.usable_cpus().to_string()),
        ("torch", fact("torch")),
        ("device", fact("device")),
        ("precision", fact("precision")),
    ]
}

/// The first difference: its name, and the two values.
pub fn unlike(a: &[(&'static str, String)], b: &[(&'static str, String)]) -> Option<(String, String, String)> {
    a.iter().zip(b).find(|(a, b)| a != b).map(|(a, b)| (a.0.to_owned(), a.1.clone(), b.1.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_with_other_cpus_are_unlike() {
        let result = |host: u32, allowed: Option<u32>| {
            let mut result: StepResult = serde_json::from_value(json!({
                "fingerprint": "0".repeat(64), "workflow": "w", "step": "s", "label": "s", "axes": {}, "outcome": "ok",
                "run": "1", "started_at": 0, "ended_at": 1,
            }))
            .unwrap();
            (result.circumstances.host_cpus, result.circumstances.allowed_cpus) = (host, allowed);
            result
        };
        let unlike = |one: (u32, Option<u32>), other: (u32, Option<u32>)| {
            unlike(&likeness(&result(one.0, one.1)), &likeness(&result(other.0, other.1))).map(|(what, ..)| what)
        };
        assert_eq!(unlike((32, Some(8)), (32, Some(8))), None);
        assert_eq!(unlike((32, Some(32)), (32, None)), None);
        assert_eq!(unlike((32, Some(8)), (32, None)).as_deref(), Some("allowed_cpus"));
        assert_eq!(unlike((32, Some(8)), (8, None)).as_deref(), Some("host_cpus"));
    }
}
