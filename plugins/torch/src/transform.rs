//! From a picture to what the network sees: crop, resize, flip, normalise. Knows neither files nor batches.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use fastrand::Rng;

use crate::dataset::{Dataset, Version};
use crate::decode::Picture;

/// The smallest part of a photo's area that a random crop keeps, and the widest that it is stretched.
const CROP_AREA: f64 = 0.35;
const CROP_RATIO: f64 = 4.0 / 3.0;

/// The order of a tensor's numbers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One plane for each colour.
    ChannelsFirst,
    /// Pixel after pixel.
    ChannelsLast,
}

/// What is done to each picture of a dataset.
#[derive(Debug)]
pub(crate) struct Transform {
    version: Version,
    size: u32,
    flip: bool,
    layout: Layout,
    /// The normalised value of each byte, for each channel.
    values: [[f32; 256]; 3],
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
    pub(crate) fn new(data: &Dataset, flip: bool, layout: Layout) -> Self {
        let channel = |c: usize| std::array::from_fn(|byte| (byte as f32 / 255.0 - data.mean[c]) / data.std[c]);
        let values = [channel(0), channel(1), channel(2)];
        Self { version: data.version, size: data.size, flip, layout, values }
    }

    /// The order in which it writes.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes the picture into `out`, augmented if there is a generator.
    pub(crate) fn apply(
        &self,
        picture: &Picture,
        augment: Option<&mut Rng>,
        resizer: &mut Resizer,
        out: &mut [f32],
    ) -> Result<(), String> {
        let (mut crop, mut flip) = (centre(picture), false);
        if let Some(random) = augment {
            if self.version == Version::V7 {
                crop = random_crop(picture, random);
            }
            flip = self.flip && random.bool();
        }
        if picture.width == self.size && picture.height == self.size && self.version == Version::V11 {
            self.write(&picture.rgb, flip, out);
            return Ok(());
        }
        let source = ImageRef::new(picture.width, picture.height, &picture.rgb, PixelType::U8x3)
            .map_err(|error| error.to_string())?;
        let mut small = Image::new(self.size, self.size, PixelType::U8x3);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).crop(
            crop.left,
            crop.top,
            crop.width,
            crop.height,
        );
        resizer.resize(&source, &mut small, &options).map_err(|error| error.to_string())?;
        self.write(small.buffer(), flip, out);
        Ok(())
    }

    fn write(&self, rgb: &[u8], flip: bool, out: &mut [f32]) {
        let size = self.size as usize;
        let plane = size * size;
        for (y, row) in rgb.chunks_exact(3 * size).enumerate() {
            for (x, pixel) in row.chunks_exact(3).enumerate() {
                let at = y * size + if flip { size - 1 - x } else { x };
                for (channel, &byte) in pixel.iter().enumerate() {
                    let place = match self.layout {
                        Layout::ChannelsFirst => channel * plane + at,
                        Layout::ChannelsLast => 3 * at + channel,
                    };
                    out[place] = self.values[channel][usize::from(byte)];
                }
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
        let mean = [0.1, 0.2, 0.3];
        Dataset { version, size, classes: Vec::new(), mean, std: [0.5, 0.25, 0.2], samples: Vec::new() }
    }

    fn picture(width: u32, height: u32) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| [x as u8, y as u8, 7]));
        Picture { width, height, rgb: pixels.collect() }
    }

    fn apply(transform: &Transform, picture: &Picture, augment: Option<u64>) -> Vec<f32> {
        let mut out = vec![f32::NAN; 3 * (transform.size * transform.size) as usize];
        let mut random = augment.map(Rng::with_seed);
        transform.apply(picture, random.as_mut(), &mut Resizer::new(), &mut out).unwrap();
        out
    }

    #[test]
    fn normalised_in_either_order() {
        let data = data(Version::V11, 2);
        let pixels = picture(2, 2);
        let value = |byte: f32, channel: usize| (byte / 255.0 - data.mean[channel]) / data.std[channel];
        let first = apply(&Transform::new(&data, false, Layout::ChannelsFirst), &pixels, None);
        let (red, green) = ([0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]);
        let planes = [red.map(|b| value(b, 0)), green.map(|b| value(b, 1)), [value(7.0, 2); 4]];
        assert_eq!(first, planes.concat());
        let last = apply(&Transform::new(&data, false, Layout::ChannelsLast), &pixels, None);
        let interleaved: Vec<f32> = (0..4).flat_map(|i| [first[i], first[4 + i], first[8 + i]]).collect();
        assert_eq!(last, interleaved);
    }

    #[test]
    fn v11_is_mirrored_or_left_alone() {
        let transform = |flip| Transform::new(&data(Version::V11, 4), flip, Layout::ChannelsFirst);
        let (pixels, plain) = (picture(4, 4), apply(&transform(false), &picture(4, 4), None));
        let mirrored: Vec<f32> = plain.chunks(4).flat_map(|row| row.iter().rev().copied()).collect();
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
        let transform = Transform::new(&data(Version::V7, 4), true, Layout::ChannelsFirst);
        let wide = picture(8, 4);
        let square: Vec<u8> = wide.rgb.chunks(24).flat_map(|row| row[6..18].to_vec()).collect();
        let square = Picture { width: 4, height: 4, rgb: square };
        assert_eq!(apply(&transform, &wide, None), apply(&transform, &square, None));
    }
}
