//! Running a built-in step: gathers what it sees, calls it, keeps its files. Knows nothing of tables or reports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use flow_core::{
    Artifact, ArtifactKind, BuiltinInput, BuiltinOutput, Builtins, Digest, Environment, Expansion, Input, InstanceId,
    Series, SettledResults, StepResult,
    reason::{BuiltinFault, Fault},
};
use flow_runs::StoreError;
use flow_store::Objects;

use crate::{driver::begin::environments, text};

/// Larger files are rejected: they are not tables of figures.
const MAX_BYTES: u64 = 16 << 20;
/// Extensions of pictures, and the largest size that a report may embed.
const PICTURES: [&str; 4] = [".png", ".jpg", ".jpeg", ".webp"];
const MAX_PICTURE: u64 = 4 << 20;

/// Files made by one of flow's own steps, by path.
pub type RemadeFiles = BTreeMap<String, Vec<u8>>;

/// The input of a built-in: series and files from the store, and the author's files, including the `late` ones. `lies`
/// maps an input to its path. `remade`: files that were made again, in place of those in the store; then other steps show
/// no pictures, because a bundle has none.
///
/// # Errors
/// A file that it reads is missing.
pub(crate) fn input(
    expansion: &Expansion,
    id: InstanceId,
    settled: &dyn SettledResults,
    late: &[Input],
    objects: &Objects,
    remade: Option<&BTreeMap<String, RemadeFiles>>,
    lies: impl Fn(&Input) -> PathBuf,
) -> Result<BuiltinInput, Fault> {
    let mut input = expansion.builtin_input(id, settled)?.ok_or("it is not a built-in step")?;
    for view in input.steps.values_mut() {
        view.series = view.results.iter().map(|result| series(objects, result)).collect::<Result<_, _>>()?;
        let is_of_flow = view.uses.as_deref().is_some_and(|uses| uses.starts_with("flow/"));
        for (result, kept) in view.results.iter().zip(&mut view.files) {
            if let Some(remade) = remade.and_then(|remade| remade.get(&result.label)) {
                kept.clone_from(remade);
                continue;
            }
            for (name, artifact) in &result.outputs {
                if is_of_flow {
                    kept.extend(files(objects, artifact)?);
                } else if remade.is_none() && is_picture(result, name, artifact) {
                    kept.insert(name.clone(), objects.read(&artifact.digest, "")?);
                }
            }
        }
    }
    input.environments = environments(&input, objects);
    let inputs = expansion.instances[id.index()].inputs.iter().chain(late);
    for named in inputs.filter(|input| input.in_place) {
        input.files.insert(expansion.lies_at(named), read(&lies(named), &named.path)?);
    }
    Ok(input)
}

/// The recorded environments of the results that a built-in step sees.
fn environments(input: &BuiltinInput, objects: &Objects) -> BTreeMap<Digest, Environment> {
    let shown = input.steps.values().flat_map(|view| &view.results).map(|result| &result.circumstances);
    let recorded: BTreeSet<Digest> = shown.chain(&input.behind).filter_map(|seen| seen.environment).collect();
    let known = |digest| Some((digest, environments::load(&digest, objects)?));
    recorded.into_iter().filter_map(known).collect()
}

/// True if an output is a picture small enough for a report.
fn is_picture(result: &StepResult, name: &str, artifact: &Artifact) -> bool {
    let path = result.paths.get(name).map_or(name, String::as_str).to_ascii_lowercase();
    let ends = PICTURES.iter().any(|end| path.ends_with(end));
    ends && artifact.kind == ArtifactKind::File && artifact.bytes <= MAX_PICTURE
}

fn read(from: &Path, written: &str) -> Result<Vec<u8>, BuiltinFault> {
    let path = || written.to_owned();
    let unread = |e: io::Error| BuiltinFault::InputUnread { path: path(), error: Box::new(e.into()) };
    let size = fs::metadata(from).map_err(unread)?.len();
    if size > MAX_BYTES {
        return Err(BuiltinFault::InputTooLarge { path: path(), most: MAX_BYTES >> 20 });
    }
    text::read_bytes(from, MAX_BYTES).map_err(unread)
}

fn series(objects: &Objects, result: &StepResult) -> Result<Option<Series>, Fault> {
    let Some(digest) = &result.series else { return Ok(None) };
    let Some(bytes) = objects.whole(digest)? else { return Ok(None) };
    let unread = |e: serde_json::Error| {
        BuiltinFault::SeriesUnread { label: result.label.clone(), message: e.to_string() }.into()
    };
    serde_json::from_slice(&bytes).map(Some).map_err(unread)
}

/// The files of an artifact by path. A single file has an empty path.
///
/// # Errors
/// The artifact is damaged.
pub(crate) fn files(objects: &Objects, artifact: &Artifact) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    if artifact.kind == ArtifactKind::File {
        return Ok(BTreeMap::from([(String::new(), objects.read(&artifact.digest, "")?)]));
    }
    let manifest = objects.contents(&artifact.digest)?;
    let paths = manifest.files().map(|(path, _)| path.to_string_lossy().into_owned());
    paths.map(|path| Ok((path.clone(), objects.read(&artifact.digest, &path)?))).collect()
}

/// Runs a built-in and writes its files to its output path in the work folder.
///
/// # Errors
/// Those of the built-in, and of writing the files.
pub(crate) fn run(
    builtins: &dyn Builtins,
    name: &str,
    input: &BuiltinInput,
    folder: &Path,
) -> Result<BuiltinOutput, Fault> {
    let output = builtins.run(name, input)?;
    for (path, bytes) in &output.files {
        let to = folder.join(path);
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).and_then(|()| fs::write(&to, bytes)).map_err(|e| {
            BuiltinFault::OutputNotWritten { path: to.display().to_string(), error: Box::new(e.into()) }
        })?;
    }
    Ok(output)
}
