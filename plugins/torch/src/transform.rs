//! From a picture to one of the size that the network sees: crop, resize, flip. Knows neither files nor batches.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use fastrand::Rng;

use crate::dataset::{Dataset, Version};
use crate::decode::{Crop, Decoder, Picture, decode};

/// The smallest part of a photo's area that a random crop keeps, and the widest that it is stretched.
const CROP_AREA: f64 = 0.35;
const CROP_RATIO: f64 = 4.0 / 3.0;

/// The transform of each picture of a dataset.
#[derive(Debug)]
pub(crate) struct Transform {
    version: Version,
    size: u32,
    flip: bool,
}

/// Buffers that a thread reuses for all pictures.
pub(crate) struct Tools {
    decoder: Decoder,
    picture: Picture,
    resizer: Resizer,
}

impl Tools {
    /// Errors only where memory has run out.
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self { decoder: Decoder::new()?, picture: Picture::default(), resizer: Resizer::new() })
    }
}

impl Transform {
    /// The transform of this dataset.
    pub(crate) fn new(data: &Dataset, flip: bool) -> Self {
        Self { version: data.version, size: data.size, flip }
    }

    /// Writes the picture in a file's `bytes` into `out`, pixel after pixel, augmented if there is a seed.
    pub(crate) fn apply(
        &self,
        bytes: &[u8],
        augment: Option<u64>,
        tools: &mut Tools,
        out: &mut [u8],
    ) -> Result<(), String> {
        let choose = |width, height| self.choose(width, height, augment);
        let (crop, flip) = decode(bytes, self.size, choose, &mut tools.decoder, &mut tools.picture)?;
        self.resize(&tools.picture, crop, &mut tools.resizer, out)?;
        self.mirror(flip, out);
        Ok(())
    }

    /// Chooses the crop of a picture of this size, and whether to flip it.
    fn choose(&self, width: u32, height: u32, augment: Option<u64>) -> (Crop, bool) {
        let (width, height) = (f64::from(width), f64::from(height));
        let Some(mut random) = augment.map(Rng::with_seed) else { return (centre(width, height), false) };
        let crop = match self.version {
            Version::V7 => random_crop(width, height, &mut random),
            Version::V11 => centre(width, height),
        };
        (crop, self.flip && random.bool())
    }

    fn resize(&self, picture: &Picture, crop: Crop, resizer: &mut Resizer, out: &mut [u8]) -> Result<(), String> {
        // Typed: the untyped ones compile every kind of pixel there is, a minute and a half.
        let source = TypedImageRef::<U8x3>::from_buffer(picture.width, picture.height, &picture.rgb)
            .map_err(|error| error.to_string())?;
        let mut small =
            TypedImage::<U8x3>::from_buffer(self.size, self.size, out).map_err(|error| error.to_string())?;
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).crop(
            crop.left,
            crop.top,
            crop.width,
            crop.height,
        );
        resizer.resize_typed(&source, &mut small, &options).map_err(|error| error.to_string())
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
fn centre(width: f64, height: f64) -> Crop {
    let side = width.min(height);
    Crop { left: (width - side) / 2.0, top: (height - side) / 2.0, width: side, height: side }
}

/// A part of random area and proportions; the middle where ten tries do not fit.
fn random_crop(width: f64, height: f64, random: &mut Rng) -> Crop {
    for _ in 0..10 {
        let area = width * height * (CROP_AREA + (1.0 - CROP_AREA) * random.f64());
        let ratio = CROP_RATIO.powf(2.0 * random.f64() - 1.0);
        let (w, h) = ((area * ratio).sqrt(), (area / ratio).sqrt());
        if w <= width && h <= height {
            return Crop { left: (width - w) * random.f64(), top: (height - h) * random.f64(), width: w, height: h };
        }
    }
    centre(width, height)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(version: Version, size: u32) -> Dataset {
        Dataset { version, size, classes: Vec::new(), mean: [0.5; 3], std: [0.25; 3], samples: Vec::new() }
    }

    /// A picture and the bytes of it as a PNG.
    fn picture(width: u32, height: u32) -> (Vec<u8>, Vec<u8>) {
        let pixels: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| [x as u8, y as u8, 7])).collect();
        let bytes = png(width, height, &pixels);
        (pixels, bytes)
    }

    fn png(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
        bytes
    }

    fn apply(transform: &Transform, bytes: &[u8], augment: Option<u64>) -> Vec<u8> {
        let mut out = vec![0; 3 * (transform.size * transform.size) as usize];
        transform.apply(bytes, augment, &mut Tools::new().unwrap(), &mut out).unwrap();
        out
    }

    #[test]
    fn v11_is_mirrored_or_left_alone() {
        let transform = |flip| Transform::new(&data(Version::V11, 4), flip);
        let (pixels, bytes) = picture(4, 4);
        let plain = apply(&transform(false), &bytes, None);
        assert_eq!(plain, pixels);
        let mirrored: Vec<u8> = plain.chunks(12).flat_map(|row| row.rchunks(3).flatten().copied()).collect();
        let seen: Vec<_> = (0..20).map(|seed| apply(&transform(true), &bytes, Some(seed))).collect();
        assert!(seen.iter().all(|image| *image == plain || *image == mirrored));
        assert!(seen.contains(&plain) && seen.contains(&mirrored));
        assert!((0..20).all(|seed| apply(&transform(false), &bytes, Some(seed)) == plain));
    }

    #[test]
    fn a_random_crop_stays_inside_and_keeps_its_share() {
        for (width, height) in [(500.0, 375.0), (375.0, 500.0), (64.0, 64.0), (1000.0, 10.0)] {
            let mut random = Rng::with_seed(3);
            for _ in 0..200 {
                let Crop { left, top, width: w, height: h } = random_crop(width, height, &mut random);
                assert!(left >= 0.0 && left + w <= width + 1e-9 && top >= 0.0 && top + h <= height + 1e-9);
                let share = w * h / (width * height);
                assert!(share >= CROP_AREA - 1e-9 || Crop { left, top, width: w, height: h } == centre(width, height));
            }
        }
    }

    #[test]
    fn what_validates_is_the_centre_square() {
        let transform = Transform::new(&data(Version::V7, 4), true);
        let (pixels, wide) = picture(8, 4);
        let square: Vec<u8> = pixels.chunks(24).flat_map(|row| row[6..18].to_vec()).collect();
        assert_eq!(apply(&transform, &wide, None), square);
    }

    #[test]
    fn what_a_jpeg_becomes_is_what_its_pixels_become() {
        let transform = Transform::new(&data(Version::V7, 64), true);
        let photo: Vec<u8> = (0..150 * 200)
            .flat_map(|i| {
                let (x, y) = (f64::from(i % 200), f64::from(i / 200));
                [(x / 9.0).sin(), (y / 11.0).cos(), ((x + y) / 17.0).sin()].map(|v| (127.0 + 100.0 * v) as u8)
            })
            .collect();
        let mut jpeg = Vec::new();
        jpeg_encoder::Encoder::new(&mut jpeg, 95).encode(&photo, 200, 150, jpeg_encoder::ColorType::Rgb).unwrap();
        let whole = |width: u32, height: u32| {
            (Crop { left: 0.0, top: 0.0, width: f64::from(width), height: f64::from(height) }, ())
        };
        let mut all = Picture::default();
        decode(&jpeg, 64, whole, &mut Decoder::new().unwrap(), &mut all).unwrap();
        let decoded = png(200, 150, &all.rgb);
        for seed in [None, Some(1), Some(2), Some(3), Some(4)] {
            let (ours, wanted) = (apply(&transform, &jpeg, seed), apply(&transform, &decoded, seed));
            let worst = ours.iter().zip(&wanted).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(worst <= Some(6), "{seed:?}: off by {worst:?}");
        }
    }
}
