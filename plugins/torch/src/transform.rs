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
