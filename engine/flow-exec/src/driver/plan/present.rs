//! The small input files of a workflow in their present state, to compare with those that a run kept. Writes nothing.

use std::{collections::BTreeMap, path::Path};

use flow_core::{Digest, Input, KeptInput};
use flow_supervisor::secrets::Secrets;

use super::lookup::inputs_of;
use crate::{
    ExecError,
    driver::{
        results::keep::{MOST_SOURCES, source},
        session::Session,
    },
};

/// Input files by the labels of the instances that read them.
#[derive(Debug, Default)]
pub struct PresentInputs {
    pub files: BTreeMap<String, BTreeMap<String, KeptInput>>,
    /// Those of them that are texts.
    pub texts: BTreeMap<Digest, String>,
}

/// Reads them. Files that a run would not keep, or that cannot be read, are left out.
///
/// # Errors
/// The workflow contains the value of a secret.
pub fn present_inputs(session: &Session) -> Result<PresentInputs, ExecError> {
    let secrets = session.secret_values()?;
    let inputs = inputs_of(session, None, None);
    let mut present = PresentInputs::default();
    let mut read: BTreeMap<&str, BTreeMap<String, KeptInput>> = BTreeMap::new();
    for instance in &session.expansion.instances {
        let mut files = BTreeMap::new();
        for input in instance.inputs.iter().filter(|input| !input.by_listing) {
            let found = read.entry(&input.path).or_insert_with(|| {
                let root = session.path(&input.path);
                let paths = inputs.files(&root).unwrap_or_default();
                files_of(input, &root, &paths, &secrets, &mut present.texts)
            });
            files.extend(found.iter().map(|(name, kept)| (name.clone(), kept.clone())));
        }
        present.files.insert(instance.label.to_string(), files);
    }
    Ok(present)
}

fn files_of(
    input: &Input,
    root: &Path,
    paths: &[std::path::PathBuf],
    secrets: &Secrets,
    texts: &mut BTreeMap<Digest, String>,
) -> BTreeMap<String, KeptInput> {
    let mut files = BTreeMap::new();
    for path in paths.iter().filter(|_| paths.len() <= MOST_SOURCES) {
        let below = path.to_string_lossy();
        let (name, path) = match &*below {
            "" => (input.path.clone(), root.to_owned()),
            below => (format!("{}/{below}", input.path), root.join(path)),
        };
        if secrets.occur_in(&name) {
            continue;
        }
        let Some((kept, content)) = source(&path, secrets) else { continue };
        if kept.text {
            texts.insert(kept.digest, String::from_utf8_lossy(&content).into_owned());
        }
        files.insert(name, kept);
    }
    files
}
