//! Why an instance ran and what it waits for, as sentences in both languages. Reads the reasons as JSON, so that a reason of
//! another version of flow is at least named.

use serde_json::Value;

use crate::catalogue::{BilingualText, phrase, plain, same};

/// Why an instance ran.
pub(crate) fn why(why: &Value) -> BilingualText {
    let mut all: Vec<BilingualText> = Vec::new();
    for reason in why["first"].as_array().into_iter().flatten() {
        let sentence = reason_ran(reason["kind"].as_str().unwrap_or_default(), &reason["of"]);
        if !all.contains(&sentence) {
            all.push(sentence);
        }
    }
    if let Some(more) = why["more"].as_u64().filter(|more| *more > 0) {
        all.push(phrase("why-more", &[&more.to_string()]));
    }
    [0, 1].map(|lang| all.iter().map(|both| both[lang].as_str()).collect::<Vec<_>>().join("; "))
}

fn reason_ran(kind: &str, of: &Value) -> BilingualText {
    match kind {
        "text" | "damaged" => same(&plain(of)),
        "value" => {
            // The only value of its kind has no name: `command`.
            let name = of["name"].as_str().filter(|name| !name.is_empty()).or(of["kind"].as_str()).unwrap_or_default();
            phrase("why-value", &[name, &plain(&of["was"]), &plain(&of["is"])])
        }
        "undecided" => phrase("why-undecided", &[&plain(&of["group"])]),
        "results" => phrase("why-results", &[&plain(&of["of"])]),
        _ => {
            let parts = of.as_array().map_or(std::slice::from_ref(of), Vec::as_slice);
            let parts = parts.iter().map(|part| part.as_str().unwrap_or_default());
            let parts: Vec<&str> = parts.map(|part| part.strip_prefix("in/").unwrap_or(part)).collect();
            phrase(&format!("why-{kind}"), &parts)
        }
    }
}

/// What an instance waits for.
pub(crate) fn waits(of: &Value) -> BilingualText {
    let kind = of["kind"].as_str().unwrap_or_default();
    if kind == "resources" {
        let short: Vec<BilingualText> = of["short"].as_array().into_iter().flatten().map(scarce).collect();
        let [en, zh] = [0, 1].map(|lang| short.iter().map(|both| both[lang].as_str()).collect::<Vec<_>>().join(", "));
        return [phrase("wait-resources", &[&en])[0].clone(), phrase("wait-resources", &[&zh])[1].clone()];
    }
    let named = ["label", "run"].iter().find_map(|key| of[*key].as_str().map(str::to_owned));
    let labels = || ["running", "missing", "runs"].iter().find_map(|key| labels(&of[*key]));
    phrase(&format!("wait-{kind}"), &[&named.or_else(labels).unwrap_or_default()])
}

/// `CPUs (2/4)`: a resource that is short, and how much of it is free.
fn scarce(one: &Value) -> BilingualText {
    let resource = &one["resource"];
    let keyed = resource.as_object().and_then(|map| map.iter().next());
    let (name, gpu) = keyed.map_or((plain(resource), String::new()), |(name, gpu)| (name.clone(), plain(gpu)));
    let amount = match &*name {
        "cpus" | "gpus" => format!(" ({}/{})", plain(&one["available"]), plain(&one["requested"])),
        _ => String::new(),
    };
    phrase(&format!("r-{name}"), &[&gpu]).map(|words| words + &amount)
}

/// The first label, and how many more there are.
fn labels(of: &Value) -> Option<String> {
    let more = of["more"].as_u64().filter(|more| *more > 0).map(|more| format!(" +{more}"));
    Some(format!("{}{}", of["first"].as_str()?, more.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn why_it_ran() {
        let value = json!({"kind": "value", "of": {"kind": "parameter", "name": "batch", "was": 8, "is": "16"}});
        let input = json!({"kind": "input", "of": "in/train.py"});
        let of = json!({"first": [value, input, input, {"kind": "never_ran"}], "more": 2});
        assert_eq!(why(&of)[0], "`batch` was 8, is 16; input `train.py` changed; its first run; 2 more reasons");
        assert_eq!(why(&Value::Null), ["", ""]);
        let command = json!({"kind": "value", "of": {"kind": "command", "name": "", "was": "a 1", "is": "a 2"}});
        let environment = json!({"kind": "environment", "of": {"was": "a", "is": "b", "differences": []}});
        let all = why(&json!({"first": [command, environment]}));
        assert_eq!(all[0], "`command` was a 1, is a 2; its declared environment changed");
        assert_eq!(all[1], "`command` 由 a 1 变为 a 2; 声明的环境变了");
    }

    #[test]
    fn what_it_waits_for() {
        let cpus = json!({"resource": "cpus", "available": 2, "requested": 4});
        let gpu = json!({"resource": {"gpu_memory": 1}, "available": 0, "requested": 4});
        let [en, zh] = waits(&json!({"kind": "resources", "short": [cpus, gpu]}));
        assert_eq!((&*en, &*zh), ("waits for CPUs (2/4), memory of GPU 1", "等待 CPU (2/4), GPU 1 的显存"));
        let [en, _] = waits(&json!({"kind": "others", "running": {"first": "a[n=1]", "more": 3}}));
        assert_eq!(en, "needs the machine exclusively; a[n=1] +3 still running");
        assert_eq!(waits(&json!({"kind": "turn", "label": "table"}))[0], "table goes first");
        assert_eq!(waits(&json!({"kind": "of_a_later_flow"}))[0], "wait-of a later flow");
    }
    #[test]
    fn every_resource_has_words() {
        use flow_core::reason::Resource;
        let of_gpus = [
            Resource::GpuMemory(1),
            Resource::GpuBusy(1),
            Resource::GpuMeasured(1),
            Resource::GpuLost(1),
            Resource::GpuReserved(1),
        ];
        let others = [Resource::Jobs, Resource::Queue, Resource::Cpus, Resource::Memory, Resource::Gpus];
        for resource in others.into_iter().chain(of_gpus) {
            let [en, zh] = scarce(&json!({"resource": resource}));
            assert!(!en.starts_with("r-") && !zh.starts_with("r-"), "{en} {zh}");
        }
    }
}
