//! The step `prepare`: photographs to a dataset. Knows two layouts and no model.
//!
//! - `v7` keeps the photographs as they are: each epoch decodes, crops and resizes them.
//! - `v11` does that work once: each is stored as its centre square in the size of training.
//!
//! Both write `dataset.json` and `images/CLASS/NAME`.

use std::fs;
use std::path::Path;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use flow_plugin::{Attempt, Error};
use jpeg_encoder::{ColorType, Encoder};
use serde::{Deserialize, Serialize};

use crate::decode::{self, Kind, Photo};
use crate::folder::{self, Candidate, IgnoredFile, Names};
use crate::source::create_parent;

/// The layout of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Version {
    V7,
    V11,
}

/// The step's parameters, as in plugin.yaml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prepare {
    photos: String,
    version: Version,
    #[serde(default = "default_size")]
    size: u32,
    #[serde(default = "default_quality")]
    quality: u8,
}

fn default_size() -> u32 {
    224
}

fn default_quality() -> u8 {
    95
}

/// `dataset.json`.
#[derive(Serialize)]
struct Dataset {
    format: u32,
    version: Version,
    size: u32,
    classes: Vec<String>,
    /// ImageNet's, which the field normalises with whatever the photographs are, so that pretrained weights fit.
    mean: [f64; 3],
    std: [f64; 3],
    /// Path below `images/`, and number of the class.
    samples: Vec<(String, usize)>,
}

pub(crate) fn run(with: Prepare, attempt: &Attempt) -> Result<(), Error> {
    let out = attempt.output("out")?;
    let images = out.join("images");
    let mut listing = folder::list(&attempt.path(&with.photos), &with.photos)?;
    let mut names = Names::default();
    let jobs: Vec<_> = listing.files.iter().map(|file| (file, place(&mut names, file, with.version))).collect();
    for (_, place) in &jobs {
        create_parent(&images.join(place))?;
    }
    let write = |index: usize| Ok(write(&with, jobs[index].0, &images.join(&jobs[index].1)));
    let written = crate::each(attempt, jobs.len(), "", write)?;

    let (mut classes, mut samples, mut bytes) = (Vec::<String>::new(), Vec::new(), 0);
    let mut broken = 0;
    for ((file, place), written) in jobs.iter().zip(written) {
        match written {
            Ok(size) => {
                if classes.last() != Some(&file.class) {
                    classes.push(file.class.clone());
                }
                samples.push((place.clone(), classes.len() - 1));
                bytes += size;
            }
            Err(Failure::Photo(why)) => {
                broken += 1;
                listing.ignored.push(IgnoredFile::new(file.place(), why));
            }
            Err(Failure::Disk(error)) => return Err(Error::failed(format!("cannot write {place}: {error}"))),
        }
    }
    listing.check_left(&with.photos, &classes, attempt)?;
    attempt.metric("images", samples.len() as f64, "");
    attempt.metric("classes", classes.len() as f64, "");
    attempt.metric("broken", f64::from(broken), "");
    attempt.metric("bytes", bytes as f64, "bytes");
    let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let dataset = Dataset { format: 1, version: with.version, size: with.size, classes, mean, std, samples };
    fs::write(out.join("dataset.json"), serde_json::to_vec(&dataset)?)?;
    Ok(())
}

/// One photograph's trouble is counted; the disk's ends the step.
enum Failure {
    Photo(String),
    Disk(std::io::Error),
}

/// The path of a photograph below `images/`. A name that is free in `v7` may be taken in `v11`, where all are JPEG.
fn place(names: &mut Names, file: &Candidate, version: Version) -> String {
    let keeps = version == Version::V7 || Kind::Jpeg.is_named(&file.name);
    names.place(&file.class, &file.name, keeps, Kind::Jpeg.extension())
}

fn write(with: &Prepare, file: &Candidate, to: &Path) -> Result<u64, Failure> {
    let broken = |why: &dyn std::fmt::Display| Failure::Photo(why.to_string());
    let bytes = fs::read(&file.path).map_err(|error| broken(&error))?;
    let (_, photo) = decode::decode(&bytes).map_err(|why| broken(&why))?;
    match with.version {
        // Shares the blocks where the file system can; never a link, through which the artifact could be changed.
        Version::V7 => fs::copy(&file.path, to).map_err(Failure::Disk),
        Version::V11 => {
            let jpeg = centre_square(&photo, with.size, with.quality).map_err(|error| broken(&error))?;
            fs::write(to, &jpeg).map_err(Failure::Disk)?;
            Ok(jpeg.len() as u64)
        }
    }
}

/// The centre square, resized with antialiasing, as a JPEG file.
fn centre_square(photo: &Photo, size: u32, quality: u8) -> Result<Vec<u8>, String> {
    // Typed: the untyped ones compile every kind of pixel there is, a minute and a half.
    let from = TypedImageRef::<U8x3>::from_buffer(photo.width, photo.height, &photo.rgb).map_err(|e| e.to_string())?;
    let mut rgb = vec![0; 3 * size as usize * size as usize];
    let mut to = TypedImage::<U8x3>::from_buffer(size, size, &mut rgb).map_err(|e| e.to_string())?;
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3))
        .fit_into_destination(Some((0.5, 0.5)));
    Resizer::new().resize_typed(&from, &mut to, &options).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    // At this quality the encoder keeps colour in full resolution, which small pictures need.
    let side = u16::try_from(size).map_err(|e| e.to_string())?;
    Encoder::new(&mut bytes, quality).encode(&rgb, side, side, ColorType::Rgb).map_err(|e| e.to_string())?;
    Ok(bytes)
}
