//! From the bytes of an image file to red, green, blue of the part that is wanted. Knows JPEG and PNG, and no file names.

use std::io::Cursor;

use turbojpeg::raw::{self, tjhandle};

/// A part of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crop {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Pixels, three bytes each, row by row.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgb: Vec<u8>,
}

/// Width times height; what images/prepare lets pass.
const MAX_PIXELS: u64 = 100_000_000;

/// Refuses what a small file may claim to be.
fn within_limits(width: u32, height: u32) -> Result<(), String> {
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!("{width}×{height} pixels, more than {} million", MAX_PIXELS / 1_000_000));
    }
    Ok(())
}

/// Decodes a JPEG or PNG into `picture`: all of it, or what is needed to resize the part that `choose` chooses by width and
/// height to `size`. Gives that part as it lies in `picture`, and what else `choose` said.
pub(crate) fn decode<T>(
    bytes: &[u8],
    size: u32,
    choose: impl FnOnce(u32, u32) -> (Crop, T),
    decoder: &mut Decoder,
    picture: &mut Picture,
) -> Result<(Crop, T), String> {
    match bytes {
        [0xff, 0xd8, ..] => decoder.jpeg(bytes, size, choose, picture),
        [0x89, b'P', b'N', b'G', ..] => {
            *picture = png(bytes)?;
            Ok(choose(picture.width, picture.height))
        }
        _ => Err("neither a JPEG nor a PNG".to_owned()),
    }
}

/// How the library's warnings begin (its `jerror.h`). After a warning alone every row has been written.
const WARNINGS: [&str; 6] = [
    "Corrupt JPEG data",
    "Premature end of JPEG file",
    "Inconsistent progression sequence",
    "Invalid SOS parameters for sequential JPEG",
    "Unknown Adobe color transform",
    "Warning: unknown JFIF revision",
];

/// A decoder of JPEG, to be kept from one picture to the next until one fails. The crate's own has no word for a part of a picture.
pub(crate) struct Decoder(tjhandle);

#[expect(unsafe_code, reason = "the library's C functions; each call is given what its documentation asks for")]
impl Decoder {
    pub(crate) fn new() -> Result<Self, String> {
        // SAFETY: no condition; null means that memory ran out.
        let handle = unsafe { raw::tj3Init(raw::TJINIT_TJINIT_DECOMPRESS as i32) };
        if handle.is_null() { Err("no memory for a JPEG decoder".to_owned()) } else { Ok(Self(handle)) }
    }

    fn jpeg<T>(
        &mut self,
        bytes: &[u8],
        size: u32,
        choose: impl FnOnce(u32, u32) -> (Crop, T),
        picture: &mut Picture,
    ) -> Result<(Crop, T), String> {
        let (data, length) = (bytes.as_ptr(), bytes.len() as _);
        // SAFETY: the handle is valid until dropped, and `data` is `length` bytes long.
        self.check(unsafe { raw::tj3DecompressHeader(self.0, data, length) })?;
        let (width, height) = (self.get(raw::TJPARAM_TJPARAM_JPEGWIDTH), self.get(raw::TJPARAM_TJPARAM_JPEGHEIGHT));
        if width < 1 || height < 1 {
            return Err("a JPEG without a size".to_owned());
        }
        within_limits(width as u32, height as u32)?;
        let (crop, other) = choose(width as u32, height as u32);
        // The resizer looks at pixels beside the part, and colours are made from those beside a pixel.
        let beside = |length: f64| length / f64::from(size) + 2.0;
        let edge = |at: f64, limit: i32| (at.ceil() as i32).clamp(1, limit);
        // Columns begin with a unit, of at most 32 pixels.
        let x = (crop.left - beside(crop.width)).max(0.0) as i32 / 32 * 32;
        let y = (crop.top - beside(crop.height)).max(0.0) as i32;
        let w = edge(crop.left + crop.width + beside(crop.width), width) - x;
        let h = edge(crop.top + crop.height + beside(crop.height), height) - y;
        // Where the library has no name for the units it decodes only the whole, and calls that zeros.
        let unknown = self.get(raw::TJPARAM_TJPARAM_SUBSAMP) == raw::TJSAMP_TJSAMP_UNKNOWN;
        let [x, y, w, h] = if unknown { [0, 0, width, height] } else { [x, y, w, h] };
        let region = if unknown { raw::tjregion { x: 0, y: 0, w: 0, h: 0 } } else { raw::tjregion { x, y, w, h } };
        // The resizer smooths more than this coarsens. The fast transform is no faster where there are vector instructions.
        // SAFETY: the handle is valid.
        self.check(unsafe { raw::tj3Set(self.0, raw::TJPARAM_TJPARAM_FASTUPSAMPLE as i32, 1) })?;
        // SAFETY: the handle is valid.
        self.check(unsafe { raw::tj3SetCroppingRegion(self.0, region) })?;
        let colours = self.get(raw::TJPARAM_TJPARAM_COLORSPACE) as u32;
        let printed = colours == raw::TJCS_TJCS_CMYK || colours == raw::TJCS_TJCS_YCCK;
        let (kind, bytes) = if printed { (raw::TJPF_TJPF_CMYK, 4) } else { (raw::TJPF_TJPF_RGB, 3) };
        picture.rgb.resize(bytes as usize * w as usize * h as usize, 0);
        let (out, pitch) = (picture.rgb.as_mut_ptr(), bytes * w);
        // SAFETY: `out` has room for the `h` rows of `pitch` bytes that the region set above has.
        self.check(unsafe { raw::tj3Decompress8(self.0, data, length, out, pitch, kind) })?;
        if printed {
            picture.rgb = picture.rgb.as_chunks().0.iter().flat_map(lit).collect();
        }
        (picture.width, picture.height) = (w as u32, h as u32);
        Ok((Crop { left: crop.left - f64::from(x), top: crop.top - f64::from(y), ..crop }, other))
    }

    fn get(&self, parameter: raw::TJPARAM) -> i32 {
        // SAFETY: the handle is valid.
        unsafe { raw::tj3Get(self.0, parameter as i32) }
    }

    /// Warnings, as of a file cut short, are let pass: the rest is grey. The code says that there was one even if an error
    /// followed it and ended the picture; the words are those of the error.
    fn check(&self, code: i32) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the handle is valid; the text is its own until the next call.
        let (code, words) = unsafe {
            (raw::tj3GetErrorCode(self.0), std::ffi::CStr::from_ptr(raw::tj3GetErrorStr(self.0)).to_string_lossy())
        };
        let warning = code == raw::TJERR_TJERR_WARNING as i32 && WARNINGS.iter().any(|mark| words.starts_with(mark));
        if warning { Ok(()) } else { Err(words.into_owned()) }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: the handle is valid, and nobody has it any more.
        unsafe {
            raw::tj3Destroy(self.0);
        }
    }
}

/// Converts CMYK as programs write it into JPEGs, with 255 for no ink.
fn lit(&[c, m, y, k]: &[u8; 4]) -> [u8; 3] {
    [c, m, y].map(|ink| (u16::from(ink) * u16::from(k) / 255) as u8)
}

fn png(bytes: &[u8]) -> Result<Picture, String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    within_limits(reader.info().width, reader.info().height)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("a PNG too large for this machine")?];
    let info = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
    pixels.truncate(info.buffer_size());
    let rgb = match info.color_type.samples() {
        1 => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
        2 => pixels.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        4 => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        _ => pixels,
    };
    Ok(Picture { width: info.width, height: info.height, rgb })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Result<Picture, String> {
        let whole = |width: u32, height: u32| {
            (Crop { left: 0.0, top: 0.0, width: f64::from(width), height: f64::from(height) }, ())
        };
        let mut picture = Picture::default();
        super::decode(bytes, 1, whole, &mut Decoder::new()?, &mut picture).map(|_| picture)
    }

    /// A gradient, for JPEG keeps it nearly as it is.
    fn gradient(channels: usize) -> Vec<u8> {
        (0..16 * 8).flat_map(|i| (0..channels).map(move |c| ((i % 16) * 12 + c * 20) as u8)).collect()
    }

    #[test]
    fn a_jpeg_is_close_to_what_was_encoded() {
        for (channels, kind) in [(3, jpeg_encoder::ColorType::Rgb), (1, jpeg_encoder::ColorType::Luma)] {
            let mut bytes = Vec::new();
            jpeg_encoder::Encoder::new(&mut bytes, 100).encode(&gradient(channels), 16, 8, kind).unwrap();
            let picture = decode(&bytes).unwrap();
            assert_eq!((picture.width, picture.height, picture.rgb.len()), (16, 8, 3 * 16 * 8));
            let wanted: Vec<u8> =
                if channels == 3 { gradient(3) } else { gradient(1).iter().flat_map(|&v| [v; 3]).collect() };
            let worst = picture.rgb.iter().zip(&wanted).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(worst <= Some(6), "{kind:?}: off by {worst:?}");
        }
    }

    #[test]
    fn a_jpeg_for_print_is_read() {
        let mut bytes = Vec::new();
        // What the encoder is given is ink, and what it writes is none.
        let ink = [[0, 255, 255, 0], [0, 0, 0, 255]].concat().repeat(64);
        let rows: Vec<u8> =
            ink.chunks(8).flat_map(|pair| pair[..4].repeat(8).into_iter().chain(pair[4..].repeat(8))).collect();
        jpeg_encoder::Encoder::new(&mut bytes, 100).encode(&rows, 16, 64, jpeg_encoder::ColorType::Cmyk).unwrap();
        let picture = decode(&bytes).unwrap();
        let at = |x: usize| &picture.rgb[3 * x..3 * x + 3];
        assert!(at(2)[0] > 250 && at(2)[1] < 5 && at(2)[2] < 5, "red: {:?}", at(2));
        assert!(at(13).iter().all(|&light| light < 5), "black: {:?}", at(13));
    }

    #[test]
    fn every_kind_of_png_becomes_rgb() {
        use png::ColorType::{Grayscale, GrayscaleAlpha, Rgb, Rgba};
        for (kind, channels) in [(Grayscale, 1), (GrayscaleAlpha, 2), (Rgb, 3), (Rgba, 4)] {
            let (mut bytes, pixels) = (Vec::new(), gradient(channels));
            let mut encoder = png::Encoder::new(&mut bytes, 16, 8);
            encoder.set_color(kind);
            encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
            let wanted =
                pixels.chunks(channels).flat_map(|p| if channels < 3 { [p[0]; 3] } else { [p[0], p[1], p[2]] });
            assert_eq!(decode(&bytes).unwrap().rgb, wanted.collect::<Vec<_>>(), "{kind:?}");
        }
    }

    /// The position of the first marker's value, behind its length field.
    fn behind(marker: u8, bytes: &[u8]) -> usize {
        4 + bytes.windows(2).position(|pair| pair == [0xff, marker]).unwrap()
    }

    #[test]
    fn colours_at_any_resolution_are_read() {
        use jpeg_encoder::SamplingFactor;
        // The library has a name for the first two, and none for the last.
        for sampling in [SamplingFactor::R_4_4_4, SamplingFactor::R_4_2_0, SamplingFactor::R_4_1_0] {
            let mut bytes = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 100);
            encoder.set_sampling_factor(sampling);
            encoder.encode(&[90; 3 * 200 * 100], 200, 100, jpeg_encoder::ColorType::Rgb).unwrap();
            let right = |_, _| (Crop { left: 130.0, top: 40.0, width: 60.0, height: 50.0 }, ());
            let mut picture = Picture::default();
            let (crop, ()) = super::decode(&bytes, 64, right, &mut Decoder::new().unwrap(), &mut picture).unwrap();
            assert!(crop.left + crop.width <= f64::from(picture.width), "{sampling:?}");
            assert!(crop.top + crop.height <= f64::from(picture.height), "{sampling:?}");
            assert_eq!(picture.rgb.len() as u32, 3 * picture.width * picture.height, "{sampling:?}");
            assert!(picture.rgb.iter().all(|value| value.abs_diff(90) < 3), "{sampling:?}");
        }
    }

    #[test]
    fn a_picture_that_claims_to_be_huge_is_refused() {
        let mut jpeg = Vec::new();
        jpeg_encoder::Encoder::new(&mut jpeg, 90).encode(&gradient(3), 16, 8, jpeg_encoder::ColorType::Rgb).unwrap();
        let at = behind(0xc0, &jpeg) + 1;
        // Three times its square does not fit into 32 bits.
        jpeg[at..at + 4].copy_from_slice(&[37838_u16.to_be_bytes(), 37838_u16.to_be_bytes()].concat());
        assert_eq!(decode(&jpeg).unwrap_err(), "37838×37838 pixels, more than 100 million");

        let mut huge = Vec::new();
        let mut encoder = png::Encoder::new(&mut huge, 20_000, 5_001);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_chunk(png::chunk::IDAT, b"").unwrap();
        assert_eq!(decode(&huge).unwrap_err(), "20000×5001 pixels, more than 100 million");
    }

    /// A picture in a file of several scans: colours first, details later.
    fn progressive() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
        encoder.set_progressive(true);
        encoder.encode(&gradient(3), 16, 8, jpeg_encoder::ColorType::Rgb).unwrap();
        bytes
    }

    #[test]
    fn a_jpeg_that_ends_early_is_decoded_as_far_as_it_goes() {
        let mut whole = Vec::new();
        jpeg_encoder::Encoder::new(&mut whole, 90).encode(&gradient(3), 16, 8, jpeg_encoder::ColorType::Rgb).unwrap();
        let (all, cut) = (decode(&whole).unwrap(), decode(&whole[..whole.len() - 20]).unwrap());
        assert_eq!((cut.width, cut.height, cut.rgb.len()), (16, 8, all.rgb.len()));
    }

    #[test]
    fn what_ends_after_a_warning_is_no_picture() {
        let mut decoder = Decoder::new().unwrap();
        let mut picture = Picture::default();
        let mut decode = |bytes: &[u8]| {
            let whole = |width, height| {
                (Crop { left: 0.0, top: 0.0, width: f64::from(width), height: f64::from(height) }, (width, height))
            };
            super::decode(bytes, 1, whole, &mut decoder, &mut picture).map(|(_, size)| size)
        };
        let whole = progressive();
        assert_eq!(decode(&whole).unwrap(), (16, 8));
        // Superfluous bytes, which are warned of, and then a marker that nobody knows.
        let superfluous = [0; 32];
        let scans: Vec<usize> = (2..whole.len()).filter(|&at| whole[at - 2..at] == [0xff, 0xda]).collect();
        // A decoder that failed in a header is not used again.
        for (at, place) in [(scans[1] - 2, "a scan"), (2, "the header")] {
            let warned = [&whole[..at], &superfluous[..], &whole[at..]].concat();
            assert_eq!(decode(&warned), Ok((16, 8)), "in {place}");
            let damaged = [&whole[..at], &superfluous[..], &[0xff, 0xf0, 0, 2], &whole[at..]].concat();
            assert_eq!(decode(&damaged).unwrap_err(), "Unsupported marker type 0xf0", "in {place}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(decode(b"GIF89a").unwrap_err(), "neither a JPEG nor a PNG");
        assert!(decode(&[0xff, 0xd8, 0xff, 0xe0]).is_err());
        assert!(decode(b"").is_err());
    }
}
