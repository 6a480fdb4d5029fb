//! From a picture to one of the size that the network sees: crop, resize, flip. Knows neither files nor batches.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use fastrand::Rng;

use crate::dataset::{Dataset, Version};
use crate::decode::Picture;

/// The smallest part of a photo's area that a random crop keeps, and the widest that it is stretched.
const CROP_AREA: f64 = 0.35;
const CROP_RATIO: f64 = 4.0 / 3.0;

/// What is done to each picture of a dataset.
#[derive(Debug)]
pub(crate) struct Transform {
    version: Version,
    size: u32,
    flip: bool,
}

/// A part of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Crop {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Transform {
    /// The transform of this dataset.
    pub(crate) fn new(data: &Dataset, flip: bool) -> Self {
        Self { version: data.version, size: data.size, flip }
    }

    /// Writes the picture into `out`, pixel after pixel, augmented if there is a generator.
    pub(crate) fn apply(
        &self,
        picture: &Picture,
        augment: Option<&mut Rng>,
        resizer: &mut Resizer,
        out: &mut [u8],
    ) -> Result<(), String> {
        let (mut crop, mut flip) = (centre(picture), false);
        if let Some(random) = augment {
            if self.version == Version::V7 {
                crop = random_crop(picture, random);
            }
            flip = self.flip && random.bool();
        }
        if picture.width == self.size && picture.height == self.size && self.version == Version::V11 {
            out.copy_from_slice(&picture.rgb);
            self.mirror(flip, out);
            return Ok(());
        }
        let source = ImageRef::new(picture.width, picture.height, &picture.rgb, PixelType::U8x3)
            .map_err(|error| error.to_string())?;
        let mut small =
            Image::from_slice_u8(self.size, self.size, out, PixelType::U8x3).map_err(|error| error.to_string())?;
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).crop(
            crop.left,
            crop.top,
            crop.width,
            crop.height,
        );
        resizer.resize(&source, &mut small, &options).map_err(|error| error.to_string())?;
        self.mirror(flip, out);
        Ok(())
    }

    fn mirror(&self, flip: bool, pixels: &mut [u8]) {
        if flip {
            for row in pixels.chunks_exact_mut(3 * self.size as usize) {
                row.as_chunks_mut::<3>().0.reverse();
            }
        }
    }
}

/// The largest square in the middle.
fn centre(picture: &Picture) -> Crop {
    let (width, height) = (f64::from(picture.width), f64::from(picture.height));
    let side = width.min(height);
    Crop { left: (width - side) / 2.0, top: (height - side) / 2.0, width: side, height: side }
}

/// A part of random area and proportions; the middle where ten tries do not fit.
fn random_crop(picture: &Picture, random: &mut Rng) -> Crop {
    let (width, height) = (f64::from(picture.width), f64::from(picture.height));
    for _ in 0..10 {
        let area = width * height * (CROP_AREA + (1.0 - CROP_AREA) * random.f64());
        let ratio = CROP_RATIO.powf(2.0 * random.f64() - 1.0);
        let (w, h) = ((area * ratio).sqrt(), (area / ratio).sqrt());
        if w <= width && h <= height {
            return Crop { left: (width - w) * random.f64(), top: (height - h) * random.f64(), width: w, height: h };
        }
    }
    centre(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(version: Version, size: u32) -> Dataset {
        Dataset { version, size, classes: Vec::new(), mean: [0.5; 3], std: [0.25; 3], samples: Vec::new() }
    }

    fn picture(width: u32, height: u32) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| [x as u8, y as u8, 7]));
        Picture { width, height, rgb: pixels.collect() }
    }

    fn apply(transform: &Transform, picture: &Picture, augment: Option<u64>) -> Vec<u8> {
        let mut out = vec![0; 3 * (transform.size * transform.size) as usize];
        let mut random = augment.map(Rng::with_seed);
        transform.apply(picture, random.as_mut(), &mut Resizer::new(), &mut out).unwrap();
        out
    }

    #[test]
    fn v11_is_mirrored_or_left_alone() {
        let transform = |flip| Transform::new(&data(Version::V11, 4), flip);
        let (pixels, plain) = (picture(4, 4), apply(&transform(false), &picture(4, 4), None));
        assert_eq!(plain, pixels.rgb);
        let mirrored: Vec<u8> = plain.chunks(12).flat_map(|row| row.rchunks(3).flatten().copied()).collect();
        let seen: Vec<_> = (0..20).map(|seed| apply(&transform(true), &pixels, Some(seed))).collect();
        assert!(seen.iter().all(|image| *image == plain || *image == mirrored));
        assert!(seen.contains(&plain) && seen.contains(&mirrored));
        assert!((0..20).all(|seed| apply(&transform(false), &pixels, Some(seed)) == plain));
    }

    #[test]
    fn a_random_crop_stays_inside_and_keeps_its_share() {
        for (width, height) in [(500, 375), (375, 500), (64, 64), (1000, 10)] {
            let photo = Picture { width, height, rgb: Vec::new() };
            let mut random = Rng::with_seed(3);
            for _ in 0..200 {
                let Crop { left, top, width: w, height: h } = random_crop(&photo, &mut random);
                assert!(
                    left >= 0.0
                        && left + w <= f64::from(width) + 1e-9
                        && top >= 0.0
                        && top + h <= f64::from(height) + 1e-9
                );
                let share = w * h / f64::from(width * height);
                assert!(share >= CROP_AREA - 1e-9 || Crop { left, top, width: w, height: h } == centre(&photo));
            }
        }
    }

    #[test]
    fn what_validates_is_the_centre_square() {
        let transform = Transform::new(&data(Version::V7, 4), true);
        let wide = picture(8, 4);
        let square: Vec<u8> = wide.rgb.chunks(24).flat_map(|row| row[6..18].to_vec()).collect();
        let square = Picture { width: 4, height: 4, rgb: square };
        assert_eq!(apply(&transform, &wide, None), apply(&transform, &square, None));
    }
}
