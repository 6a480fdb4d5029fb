//! Running a built-in step: gathers what it sees, calls it, keeps its files. Knows nothing of tables or reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flow_core::{
    Artifact, ArtifactKind, BuiltinInput, BuiltinOutput, Builtins, Expansion, Input, InstanceId, Series, Settled,
    StepResult,
};
use flow_store::{Objects, StoreError};

/// A larger file is no table of figures.
const LARGEST: u64 = 16 << 20;
/// How pictures end, and what a larger one would make of a report.
const PICTURES: [&str; 4] = [".png", ".jpg", ".jpeg", ".webp"];
const LARGEST_PICTURE: u64 = 4 << 20;

/// What a built-in sees, with series and files read from the store, and the author's files from where `lies` says that an input does.
///
/// # Errors
/// A sentence: something it reads is not there.
pub(crate) fn input(
    expansion: &Expansion,
    id: InstanceId,
    settled: &dyn Settled,
    objects: &Objects,
    lies: impl Fn(&Input) -> PathBuf,
) -> Result<BuiltinInput, String> {
    let mut input = expansion.builtin_input(id, settled).map_err(|e| e.message)?.ok_or("it is no built-in step")?;
    for view in input.steps.values_mut() {
        view.series = view.results.iter().map(|result| series(objects, result)).collect::<Result<_, _>>()?;
        if view.uses.as_deref().is_some_and(|uses| uses.starts_with("flow/")) {
            for (result, kept) in view.results.iter().zip(&mut view.files) {
                for artifact in result.outputs.values() {
                    kept.extend(files(objects, artifact).map_err(|e| e.to_string())?);
                }
            }
            continue;
        }
        for (result, kept) in view.results.iter().zip(&mut view.files) {
            for (name, artifact) in result.outputs.iter().filter(|(name, artifact)| is_picture(result, name, artifact))
            {
                kept.insert(name.clone(), objects.read(&artifact.digest, "").map_err(|e| e.to_string())?);
            }
        }
    }
    for named in expansion.instances[id.index()].inputs.iter().filter(|input| input.in_place) {
        input.files.insert(expansion.lies_at(named), read(&lies(named), &named.path)?);
    }
    Ok(input)
}

/// A small file that a report may show, by its name.
fn is_picture(result: &StepResult, name: &str, artifact: &Artifact) -> bool {
    let path = result.paths.get(name).map_or(name, String::as_str).to_ascii_lowercase();
    let ends = PICTURES.iter().any(|end| path.ends_with(end));
    ends && artifact.kind == ArtifactKind::File && artifact.bytes <= LARGEST_PICTURE
}

fn read(from: &Path, written: &str) -> Result<Vec<u8>, String> {
    let unread = |e: std::io::Error| format!("`{written}` cannot be read: {e}");
    let size = fs::metadata(from).map_err(unread)?.len();
    if size > LARGEST {
        return Err(format!("`{written}` is larger than {} MiB", LARGEST >> 20));
    }
    fs::read(from).map_err(unread)
}

fn series(objects: &Objects, result: &StepResult) -> Result<Option<Series>, String> {
    let Some(digest) = &result.series else { return Ok(None) };
    let Some(bytes) = objects.whole(digest).map_err(|e| e.to_string())? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| format!("the series of {} cannot be read: {e}", result.label))
}

/// The files of an artifact by path; of a file, itself under an empty path.
///
/// # Errors
/// It is damaged.
pub(crate) fn files(objects: &Objects, artifact: &Artifact) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    if artifact.kind == ArtifactKind::File {
        return Ok(BTreeMap::from([(String::new(), objects.read(&artifact.digest, "")?)]));
    }
    let manifest = objects.contents(&artifact.digest)?;
    let paths = manifest.files().map(|(path, _)| path.to_string_lossy().into_owned());
    paths.map(|path| Ok((path.clone(), objects.read(&artifact.digest, &path)?))).collect()
}

/// Runs it and writes its files to where its output is expected, in the work folder.
///
/// # Errors
/// The built-in's own words, or the system's.
pub(crate) fn run(
    builtins: &dyn Builtins,
    name: &str,
    input: &BuiltinInput,
    folder: &Path,
) -> Result<BuiltinOutput, String> {
    let output = builtins.run(name, input)?;
    for (path, bytes) in &output.files {
        let to = folder.join(path);
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&to, bytes))
            .map_err(|e| format!("`{}` cannot be written: {e}", to.display()))?;
    }
    Ok(output)
}
