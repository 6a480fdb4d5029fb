//! Selects the GPUs that flow may use. Pure.

use flow_core::GpuFacts;

/// The GPUs that an inherited `CUDA_VISIBLE_DEVICES` allows, in the machine's order. Follows CUDA: indices or
/// unambiguous prefixes of UUIDs; an invalid entry hides itself and all after it; an empty value hides everything.
/// `count` is the number of installed GPUs, since an index may name an unusable one.
pub fn allowed_by_variable(gpus: Vec<GpuFacts>, count: u32, variable: Option<&str>) -> Vec<GpuFacts> {
    let Some(variable) = variable else { return gpus };
    let mut allowed: Vec<usize> = Vec::new();
    for entry in variable.split(',') {
        match position(&gpus, entry.trim()) {
            Some(at) if !allowed.contains(&at) => allowed.push(at),
            // If an entry is named twice, CUDA sees nothing at all.
            Some(_) => return Vec::new(),
            None if entry.trim().parse().is_ok_and(|index: u32| index < count) => {}
            None => break,
        }
    }
    gpus.into_iter().enumerate().filter(|(at, _)| allowed.contains(at)).map(|(_, gpu)| gpu).collect()
}

/// The GPUs that `--gpus 0,1` selects from the usable ones: NVML's indices or UUIDs; an empty list for none.
///
/// # Errors
/// A sentence that names the missing GPU and the existing ones.
pub fn allowed_by_flag(gpus: &[GpuFacts], only: &str) -> Result<Vec<GpuFacts>, String> {
    let mut allowed = Vec::new();
    for entry in only.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let Some(at) = position(gpus, entry) else {
            let there = match gpus {
                [] => "there is no GPU that flow may use".to_owned(),
                gpus => {
                    let list: Vec<String> = gpus.iter().map(|g| format!("{} ({})", g.index, g.name)).collect();
                    format!("flow may use {}", list.join(", "))
                }
            };
            return Err(format!("--gpus {only}: there is no GPU `{entry}`; {there}"));
        };
        allowed.push(at);
    }
    Ok(gpus.iter().enumerate().filter(|(at, _)| allowed.contains(at)).map(|(_, gpu)| gpu.clone()).collect())
}

fn position(gpus: &[GpuFacts], entry: &str) -> Option<usize> {
    if let Ok(index) = entry.parse::<u32>() {
        return gpus.iter().position(|g| g.index == index);
    }
    if !entry.starts_with("GPU-") {
        return None;
    }
    let mut found = gpus.iter().enumerate().filter(|(_, g)| g.uuid.starts_with(entry)).map(|(at, _)| at);
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Vec<GpuFacts> {
        let gpu = |index| GpuFacts { uuid: format!("GPU-{index}a0{index}"), index, name: "A".into(), memory: 1 };
        (0..4).map(gpu).collect()
    }

    fn indices(gpus: &[GpuFacts]) -> Vec<u32> {
        gpus.iter().map(|g| g.index).collect()
    }

    #[test]
    fn the_variable_means_what_cuda_makes_of_it() {
        let table: &[(Option<&str>, &[u32])] = &[
            (None, &[0, 1, 2, 3]),
            (Some(""), &[]),
            (Some("-1"), &[]),
            (Some("2"), &[2]),
            (Some("3, 1"), &[1, 3]),
            (Some("0,7,1"), &[0]),
            (Some("1,1"), &[]),
            (Some("GPU-2,0"), &[0, 2]),
            (Some("GPU-"), &[]),
            (Some("NoDevFiles"), &[]),
        ];
        for (variable, expected) in table {
            assert_eq!(indices(&allowed_by_variable(four(), 4, *variable)), *expected, "{variable:?}");
        }
    }

    #[test]
    fn a_gpu_that_cannot_be_used_hides_no_other() {
        let three: Vec<GpuFacts> = four().into_iter().filter(|gpu| gpu.index != 1).collect();
        assert_eq!(indices(&allowed_by_variable(three.clone(), 4, Some("0,1,2"))), [0, 2]);
        assert_eq!(indices(&allowed_by_variable(three, 4, Some("0,4,2"))), [0]);
    }

    #[test]
    fn the_flag_names_what_is_not_there() {
        assert_eq!(indices(&allowed_by_flag(&four(), "1,0,GPU-3a03").unwrap()), [0, 1, 3]);
        assert!(allowed_by_flag(&four(), "").unwrap().is_empty());
        let hidden = allowed_by_variable(four(), 4, Some("1,2"));
        insta::assert_snapshot!(allowed_by_flag(&hidden, "0,1").unwrap_err(), @"--gpus 0,1: there is no GPU `0`; flow may use 1 (A), 2 (A)");
        assert!(allowed_by_flag(&[], "0").unwrap_err().contains("no GPU that flow may use"));
    }
}
