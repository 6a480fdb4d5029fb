//! The step `source`: a folder of photographs by class, the user's own or a synthetic set. Knows no training sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flow_plugin::{Attempt, Error};
use serde::{Deserialize, Serialize};

use crate::decode;
use crate::folder::{self, IgnoredFile, Names};
use crate::paint::Painter;
use crate::scene;

/// The step's parameters, as in plugin.yaml.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Source {
    /// A folder of class folders; none draws a synthetic set.
    folder: Option<String>,
    classes: usize,
    count: usize,
    long_side: u32,
    /// None: the step's own.
    seed: Option<u64>,
}

impl Default for Source {
    fn default() -> Self {
        Self { folder: None, classes: 10, count: 2000, long_side: scene::LONG_SIDE, seed: None }
    }
}

/// `source.json`, for people.
#[derive(Serialize)]
struct Summary {
    format: u32,
    synthetic: bool,
    photos: usize,
    classes: BTreeMap<String, usize>,
    ignored: Vec<IgnoredFile>,
}

struct WrittenDataset {
    /// The class of each photograph.
    classes: Vec<String>,
    bytes: u64,
    ignored: Vec<IgnoredFile>,
}

pub(crate) fn run(with: Source, attempt: &Attempt) -> Result<(), Error> {
    let out = attempt.output("out")?;
    let written = match &with.folder {
        Some(given) => take(given, &out, attempt)?,
        None => draw(&with, &out, attempt)?,
    };
    let mut classes = BTreeMap::new();
    for class in &written.classes {
        *classes.entry(class.clone()).or_insert(0) += 1;
    }
    attempt.metric("photos", written.classes.len() as f64, "");
    attempt.metric("classes", classes.len() as f64, "");
    attempt.metric("ignored", written.ignored.len() as f64, "");
    attempt.metric("bytes", written.bytes as f64, "bytes");
    let summary = Summary {
        format: 1,
        synthetic: with.folder.is_none(),
        photos: written.classes.len(),
        classes,
        ignored: written.ignored,
    };
    let mut text = serde_json::to_vec_pretty(&summary)?;
    text.push(b'\n');
    fs::write(out.join(folder::SOURCE_FILE), text)?;
    Ok(())
}

/// Copies every whole photograph of a folder.
fn take(given: &str, out: &Path, attempt: &Attempt) -> Result<WrittenDataset, Error> {
    let mut listing = folder::list(&attempt.path(given), given)?;
    let check = |index: usize| {
        let bytes = fs::read(&listing.files[index].path).map_err(|error| error.to_string());
        let kind = |bytes: Vec<u8>| decode::decode(&bytes).map(|(kind, _)| kind).map_err(|why| why.to_string());
        Ok(bytes.and_then(kind))
    };
    let checked = crate::each(attempt, listing.files.len(), " checked", check)?;
    let (mut classes, mut bytes, mut names) = (Vec::new(), 0, Names::default());
    for (file, kind) in listing.files.iter().zip(checked) {
        match kind {
            Ok(kind) => {
                let place = names.place(&file.class, &file.name, kind.is_named(&file.name), kind.extension());
                let to = out.join(place);
                create_parent(&to)?;
                // Shares the blocks where the file system can.
                bytes += fs::copy(&file.path, &to)
                    .map_err(|error| Error::failed(format!("cannot copy {}: {error}", file.place())))?;
                classes.push(file.class.clone());
            }
            Err(why) => listing.ignored.push(IgnoredFile::new(file.place(), why)),
        }
    }
    listing.check_left(given, &classes, attempt)?;
    Ok(WrittenDataset { classes, bytes, ignored: listing.ignored })
}

/// Draws the synthetic set; photographs of all classes alternate, so that any part of the set is balanced.
fn draw(with: &Source, out: &Path, attempt: &Attempt) -> Result<WrittenDataset, Error> {
    let Source { classes, count, long_side, .. } = *with;
    if !(1..=scene::MAX_CLASSES).contains(&classes) || count < classes {
        return Err(Error::failed(format!(
            "cannot draw {count} photographs of {classes} classes: expected 1 to {} classes, and one photograph each",
            scene::MAX_CLASSES
        )));
    }
    let seed = with.seed.unwrap_or(attempt.request().seed);
    for class in 0..classes {
        fs::create_dir_all(out.join(scene::class_name(class)))?;
    }
    let painter = Painter::new();
    let paint = |index: usize| -> Result<u64, Error> {
        let class = index % classes;
        let jpeg = painter.jpeg(&scene::draw(seed, index as u64, class, long_side))?;
        fs::write(out.join(scene::class_name(class)).join(format!("{index:05}.jpg")), &jpeg)?;
        Ok(jpeg.len() as u64)
    };
    let bytes = crate::each(attempt, count, " drawn", paint)?.into_iter().sum();
    let classes = (0..count).map(|index| scene::class_name(index % classes)).collect();
    Ok(WrittenDataset { classes, bytes, ignored: Vec::new() })
}

/// Makes the folder that `path` is to be in.
pub(crate) fn create_parent(path: &Path) -> Result<(), Error> {
    Ok(path.parent().map_or(Ok(()), fs::create_dir_all)?)
}
