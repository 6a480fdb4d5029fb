//! Bytes of a photograph to RGB, whatever the bytes are: nothing here trusts a file, and no file makes it panic.

use std::fmt;
use std::io::Cursor;
use std::panic::catch_unwind;

use png::Transformations;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;

/// Larger files are not photographs for training. A small file may claim any size.
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// Width times height; 100 megapixels are 300 MB when decoded, in each thread.
const MAX_PIXELS: u64 = 100_000_000;

/// The format of a file by its content, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Jpeg,
    Png,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Jpeg => "JPEG",
            Kind::Png => "PNG",
        })
    }
}

impl Kind {
    /// By the first bytes.
    pub(crate) fn of(bytes: &[u8]) -> Option<Kind> {
        match bytes {
            [0xFF, 0xD8, 0xFF, ..] => Some(Kind::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some(Kind::Png),
            _ => None,
        }
    }

    /// Whether a file name's extension says so too.
    pub(crate) fn is_named(self, name: &str) -> bool {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match self {
            Kind::Jpeg => matches!(extension.as_deref(), Some("jpg" | "jpeg")),
            Kind::Png => extension.as_deref() == Some("png"),
        }
    }

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Kind::Jpeg => "jpg",
            Kind::Png => "png",
        }
    }
}

/// A decoded photograph, eight bits a channel.
#[derive(Debug)]
pub(crate) struct Photo {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgb: Vec<u8>,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableFile {
    #[error("empty file")]
    Empty,
    #[error("neither JPEG nor PNG")]
    Foreign,
    #[error("{width}×{height} pixels, more than {} million", MAX_PIXELS / 1_000_000)]
    TooLarge { width: u64, height: u64 },
    #[error("broken {kind}: {words}")]
    Broken { kind: Kind, words: String },
    #[error("the {0} decoder panicked")]
    Panicked(Kind),
}

impl UnusableFile {
    /// In the words of a decoder, which may take several lines.
    fn broken(kind: Kind, words: impl fmt::Display) -> Self {
        let words = words.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        UnusableFile::Broken { kind, words }
    }
}

/// Decodes a whole JPEG or PNG. Grey, palette, CMYK, alpha and 16 bits become RGB of 8 bits; of an animation the first
/// picture counts. The orientation that a camera noted beside the picture is not applied, as in torchvision.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Kind, Photo), UnusableFile> {
    if bytes.is_empty() {
        return Err(UnusableFile::Empty);
    }
    let kind = Kind::of(bytes).ok_or(UnusableFile::Foreign)?;
    let decoder = match kind {
        Kind::Jpeg => jpeg,
        Kind::Png => png,
    };
    let photo = catch_unwind(|| decoder(bytes)).unwrap_or(Err(UnusableFile::Panicked(kind)))?;
    Ok((kind, photo))
}

fn within_limits(width: impl Into<u64>, height: impl Into<u64>) -> Result<(), UnusableFile> {
    let (width, height) = (width.into(), height.into());
    if width.saturating_mul(height) > MAX_PIXELS { Err(UnusableFile::TooLarge { width, height }) } else { Ok(()) }
}

fn jpeg(bytes: &[u8]) -> Result<Photo, UnusableFile> {
    let broken = |error: DecodeErrors| UnusableFile::broken(Kind::Jpeg, format_args!("{error:?}"));
    // Strict, for otherwise a truncated file decodes to a photograph with a grey lower part.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(broken)?;
    let info = decoder.info().ok_or_else(|| UnusableFile::broken(Kind::Jpeg, "no header"))?;
    within_limits(info.width, info.height)?;
    let rgb = decoder.decode().map_err(broken)?;
    if !ends(bytes) {
        return Err(UnusableFile::broken(Kind::Jpeg, "the end is missing"));
    }
    checked(Kind::Jpeg, info.width.into(), info.height.into(), rgb)
}

/// Whether the end marker follows the beginning of the picture: the decoder fills up a last row of blocks that is cut off.
/// Before the picture there may be another one, a thumbnail, and behind it anything: both do not count.
fn ends(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xFF, marker, high, low]) = bytes.get(at..at + 4) {
        match marker {
            0xDA => return bytes[at..].windows(2).any(|pair| pair == [0xFF, 0xD9]),
            // Filling between segments.
            0xFF => at += 1,
            _ => at += 2 + usize::from(u16::from_be_bytes([high, low])),
        }
    }
    // An order of segments that only the decoder understands.
    true
}

fn png(bytes: &[u8]) -> Result<Photo, UnusableFile> {
    let broken = |error: png::DecodingError| UnusableFile::broken(Kind::Png, error);
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(broken)?;
    within_limits(reader.info().width, reader.info().height)?;
    let size = reader.output_buffer_size().unwrap_or(0);
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels).map_err(broken)?;
    // The first frame of an animation may be smaller than its canvas, and it is then the picture.
    pixels.truncate(frame.buffer_size());
    let rgb = match frame.color_type.samples() {
        3 => pixels,
        1 => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
        2 => pixels.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        _ => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    checked(Kind::Png, frame.width, frame.height, rgb)
}

/// Everything after this relies on the pixels being as many as the header says.
fn checked(kind: Kind, width: u32, height: u32, rgb: Vec<u8>) -> Result<Photo, UnusableFile> {
    if width == 0 || height == 0 || rgb.len() as u64 != 3 * u64::from(width) * u64::from(height) {
        return Err(UnusableFile::broken(kind, format_args!("{} bytes of pixels for {width}×{height}", rgb.len())));
    }
    Ok(Photo { width, height, rgb })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small files of each coding, to be damaged.
    fn whole() -> Vec<Vec<u8>> {
        let pixels: Vec<u8> = (0..48 * 40 * 3).map(|i| (i * 31 % 251) as u8).collect();
        let jpeg = |progressive: bool| {
            let mut bytes = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 85);
            encoder.set_progressive(progressive);
            encoder.encode(&pixels, 48, 40, jpeg_encoder::ColorType::Rgb).unwrap();
            bytes
        };
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, 48, 40);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        vec![jpeg(false), jpeg(true), png]
    }

    #[test]
    fn damaged_files_are_refused_or_decoded_to_what_they_say() {
        let mut dice = oorandom::Rand64::new(1);
        for whole in whole() {
            assert!(decode(&whole).is_ok());
            for _ in 0..1500 {
                let mut damaged = whole.clone();
                for _ in 0..dice.rand_range(1..5) {
                    let at = dice.rand_range(0..damaged.len() as u64) as usize;
                    damaged[at] = dice.rand_u64() as u8;
                }
                damaged.truncate(dice.rand_range(1..2 * whole.len() as u64) as usize);
                match decode(&damaged) {
                    Ok((_, photo)) => assert_eq!(photo.rgb.len() as u32, photo.width * photo.height * 3),
                    Err(UnusableFile::Panicked(kind)) => panic!("the {kind} decoder panicked"),
                    Err(_) => {}
                }
            }
        }
    }

    #[test]
    fn a_file_that_ends_early_is_broken_wherever_it_ends() {
        for whole in whole() {
            // A PNG whose pixels are all there may lack its last chunk.
            let last = if Kind::of(&whole) == Some(Kind::Png) { 12 } else { 1 };
            let kept: Vec<_> = (0..=whole.len() - last).filter(|&end| decode(&whole[..end]).is_ok()).collect();
            assert!(kept.is_empty(), "{kept:?} of {} bytes", whole.len());
        }
    }
}
