//! GPUs that do not exist, for plans and simulations. Pure.

use bytesize::ByteSize;
use flow_core::GpuFacts;

const EXPECTED: &str = "expected a count, a model and the memory of each with its unit, such as `4 x TITAN Xp, 12196 MiB`, or several models, such as `2 x TITAN Xp, 12196 MiB, 1 x A100, 80 GiB`";

/// Reads `4 x TITAN Xp, 12196 MiB`, with more models after a `,` or a `;`. `from` is the option or variable, for
/// errors.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_fake_gpus(from: &str, text: &str) -> Result<Vec<GpuFacts>, String> {
    let wrong = |why: &str| format!("{from} `{}`: {why}; {EXPECTED}", text.trim());
    let mut gpus = Vec::new();
    let mut pieces = text.trim().trim_end_matches([',', ';']).split([',', ';']).map(str::trim);
    while let Some(piece) = pieces.next() {
        let count = piece.split_once(['x', 'X', '×']).filter(|(count, _)| !count.trim().is_empty());
        let (count, name) = count.ok_or_else(|| wrong(&format!("there is no count in `{piece}`")))?;
        let count: u32 = count.trim().parse().map_err(|_| wrong(&format!("`{}` is not a count", count.trim())))?;
        if !(1..=1024).contains(&count) {
            return Err(wrong("the count is from 1 to 1024"));
        }
        let name = name.trim();
        if name.is_empty() {
            return Err(wrong("there is no model"));
        }
        let memory = pieces.next().ok_or_else(|| wrong(&format!("there is no memory after `{piece}`")))?;
        if memory.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong(&format!("`{memory}` has no unit")));
        }
        let bytes = memory.parse::<ByteSize>().map_err(|_| wrong(&format!("`{memory}` is not a size")))?.as_u64();
        if bytes == 0 {
            return Err(wrong("the memory must be more than 0"));
        }
        for _ in 0..count {
            let index = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
            gpus.push(GpuFacts { uuid: format!("GPU-FAKE-{index}"), index, name: name.to_owned(), memory: bytes });
        }
    }
    Ok(gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_with_an_x_and_several_of_them_are_read() {
        let gpus = parse_fake_gpus("--gpus", "4 x TITAN Xp, 12196 MiB").unwrap();
        assert_eq!((gpus.len(), gpus[3].index, &*gpus[3].name), (4, 3, "TITAN Xp"));
        assert_eq!(gpus[0].memory, 12196 << 20);
        let gpus = parse_fake_gpus("--gpus", "1xNVIDIA H200, 139.8GiB; 2 × TITAN Xp, 12 GB").unwrap();
        assert_eq!(gpus.iter().map(|g| &*g.uuid).collect::<Vec<_>>(), ["GPU-FAKE-0", "GPU-FAKE-1", "GPU-FAKE-2"]);
        assert_eq!(gpus[2].memory, 12_000_000_000);
        let gpus = parse_fake_gpus("--gpus", "2 x TITAN Xp, 12196 MiB, 2 x A100, 81920 MiB,").unwrap();
        let shown: Vec<String> = gpus.iter().map(|g| format!("{} {} {}", g.index, g.name, g.memory >> 20)).collect();
        assert_eq!(shown, ["0 TITAN Xp 12196", "1 TITAN Xp 12196", "2 A100 81920", "3 A100 81920"]);
    }

    #[test]
    fn bad_text_says_what_was_expected() {
        let said: Vec<String> = [
            "four x TITAN, 1 GiB",
            "TITAN",
            "4 x TITAN",
            "4 x TITAN Xp, 12196",
            "2 x , 1 GiB",
            "0 x A, 1 GiB",
            "1 x A, big MiB",
            "1 x A, 0 GiB",
            "2 x A, 1 GiB, B, 2 GiB",
            "2 x A, 2 x B, 2 GiB",
            "2 x A, 1 GiB, 2 x B",
        ]
        .iter()
        .map(|text| parse_fake_gpus("--gpus", text).unwrap_err().split(';').next().unwrap().to_owned())
        .collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        --gpus `four x TITAN, 1 GiB`: `four` is not a count
        --gpus `TITAN`: there is no count in `TITAN`
        --gpus `4 x TITAN`: there is no memory after `4 x TITAN`
        --gpus `4 x TITAN Xp, 12196`: `12196` has no unit
        --gpus `2 x , 1 GiB`: there is no model
        --gpus `0 x A, 1 GiB`: the count is from 1 to 1024
        --gpus `1 x A, big MiB`: `big MiB` is not a size
        --gpus `1 x A, 0 GiB`: the memory must be more than 0
        --gpus `2 x A, 1 GiB, B, 2 GiB`: there is no count in `B`
        --gpus `2 x A, 2 x B, 2 GiB`: `2 x B` is not a size
        --gpus `2 x A, 1 GiB, 2 x B`: there is no memory after `2 x B`
        ");
    }
}
