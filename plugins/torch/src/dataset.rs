//! A prepared dataset: what `images/prepare` wrote, and which of its samples train and which validate. Decodes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use flow_plugin::Error;
use serde::Deserialize;

use crate::random;

/// `dataset.json`, version 1.
#[derive(Debug, Deserialize)]
struct Manifest {
    format: u32,
    version: Version,
    size: u32,
    classes: Vec<String>,
    mean: [f32; 3],
    std: [f32; 3],
    samples: Vec<(String, usize)>,
}

/// The preparation of the photos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Version {
    /// Nothing: each epoch decodes, crops and resizes the original photo.
    V7,
    /// Cropped to the centre square and resized: each epoch decodes a small picture.
    V11,
}

/// A dataset on disk.
#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) version: Version,
    /// Width and height of a picture as the network sees it.
    pub(crate) size: u32,
    pub(crate) classes: Vec<String>,
    /// Mean of each channel: red, green, blue, between 0 and 1.
    pub(crate) mean: [f32; 3],
    pub(crate) std: [f32; 3],
    pub(crate) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) file: PathBuf,
    pub(crate) class: usize,
}

impl Dataset {
    /// Reads the dataset in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let file = folder.join("dataset.json");
        let failed = |what: String| Error::failed(format!("{}: {what}", file.display()));
        let text = fs::read(&file)
            .map_err(|error| failed(format!("{error}; `data` must be a dataset prepared by images/prepare")))?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        if manifest.format != 1 {
            return Err(failed(format!("format {} is newer than this plugin knows (1)", manifest.format)));
        }
        let Manifest { version, size, classes, mean, std, samples, .. } = manifest;
        if size == 0 || std.contains(&0.0) {
            return Err(failed("`size` and every value of `std` must be above 0".to_owned()));
        }
        if let Some((name, class)) = samples.iter().find(|(_, class)| *class >= classes.len()) {
            return Err(failed(format!("{name} is of class {class}, but there are {} classes", classes.len())));
        }
        match &*classes {
            [] => return Err(failed("there are no classes".to_owned())),
            [one] => {
                return Err(failed(format!(
                    "there is one class, `{one}`, and nothing to tell it from: a folder of photographs needs two class folders, and \
                     where images/source draws them `classes` has to be 2 or more"
                )));
            }
            _ => {}
        }
        if let Some((_, name)) =
            classes.iter().enumerate().find(|(class, _)| samples.iter().all(|(_, other)| other != class))
        {
            return Err(failed(format!("class `{name}` has no images: add some, or remove its folder")));
        }
        let images = folder.join("images");
        let samples = samples.into_iter().map(|(name, class)| Sample { file: images.join(name), class }).collect();
        Ok(Self { version, size, classes, mean, std, samples })
    }

    /// Divides the samples into those to train on and those to validate with: `valid` of each class, at least one of each side
    /// where a class has two. It depends on the seed and the classes alone, so that versions of one dataset divide alike.
    pub(crate) fn split(&self, valid: f64, seed: u64) -> Split {
        let mut split = Split { train: Vec::new(), valid: Vec::new() };
        for class in 0..self.classes.len() {
            let mut members: Vec<usize> = (0..self.samples.len()).filter(|&i| self.samples[i].class == class).collect();
            Rng::with_seed(random::seed([seed, random::SPLIT, class as u64])).shuffle(&mut members);
            let wanted = (members.len() as f64 * valid).round() as usize;
            let count = if valid > 0.0 { wanted.clamp(1, members.len().saturating_sub(1).max(1)) } else { 0 };
            let count = if members.len() < 2 { 0 } else { count };
            split.valid.extend_from_slice(&members[..count]);
            split.train.extend_from_slice(&members[count..]);
        }
        split.train.sort_unstable();
        split.valid.sort_unstable();
        split
    }
}

/// Samples by their index, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) train: Vec<usize>,
    pub(crate) valid: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(counts: &[usize]) -> Dataset {
        let samples = counts.iter().enumerate().flat_map(|(class, &count)| (0..count).map(move |i| (class, i)));
        Dataset {
            version: Version::V7,
            size: 8,
            classes: (0..counts.len()).map(|c| c.to_string()).collect(),
            mean: [0.5; 3],
            std: [0.25; 3],
            samples: samples.map(|(class, i)| Sample { file: format!("{class}/{i}.png").into(), class }).collect(),
        }
    }

    #[test]
    fn each_class_gives_its_share() {
        let data = dataset(&[50, 10, 2, 1]);
        let split = data.split(0.2, 7);
        let of = |side: &[usize], class: usize| side.iter().filter(|&&i| data.samples[i].class == class).count();
        let counts: Vec<_> = (0..4).map(|class| (of(&split.train, class), of(&split.valid, class))).collect();
        assert_eq!(counts, [(40, 10), (8, 2), (1, 1), (1, 0)]);
        let mut all = [split.train.clone(), split.valid.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..data.samples.len()).collect::<Vec<_>>());
    }

    #[test]
    fn the_seed_decides() {
        let data = dataset(&[50, 50]);
        assert_eq!(data.split(0.2, 7), data.split(0.2, 7));
        assert_ne!(data.split(0.2, 7), data.split(0.2, 8));
        assert_eq!(data.split(0.0, 7).train.len(), 100);
    }

    #[test]
    fn a_wrong_dataset_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let open = || format!("{:?}", Dataset::open(folder.path()).unwrap_err());
        assert!(open().contains("must be a dataset prepared by images/prepare"), "{}", open());
        let text = r#"{"format":1,"version":"v7","size":8,"classes":["a"],"mean":[0,0,0],"std":[1,1,1],"samples":[["a/1.png",1]]}"#;
        let write = |text: &str| fs::write(folder.path().join("dataset.json"), text).unwrap();
        write(text);
        assert!(open().contains("a/1.png is of class 1, but there are 1 classes"), "{}", open());
        let one = text.replace("1.png\",1", "1.png\",0");
        write(&one);
        assert!(open().contains("there is one class, `a`, and nothing to tell it from"), "{}", open());
        write(&one.replace("[\"a\"]", "[\"a\",\"b\"]"));
        assert!(open().contains("class `b` has no images: add some, or remove its folder"), "{}", open());
        write(&text.replace(":1,\"v", ":2,\"v"));
        assert!(open().contains("format 2 is newer"), "{}", open());
    }
}
