//! Pictures that steps drew. A report stores their bytes, so that its model is enough to show them. Only PNG, JPEG and
//! WebP are accepted, because other formats may load or run something.

use data_encoding::BASE64;
use flow_core::reason::BuiltinFault;
use flow_core::{Outcome, StepResult, StepView, reason::Cause};
use serde::{Deserialize, Serialize};

use super::with::PictureWith;
use crate::columns::is_at;
use crate::table::Text;

/// Maximum megapixels. A larger picture would need gigabytes of memory when displayed.
const MOST_MEGAPIXELS: u64 = 50;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picture {
    /// The instance that made it.
    pub(crate) label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<Text>,
    pub(crate) kind: Kind,
    /// Its bytes, in base64.
    data: String,
}

/// Formats that a browser only displays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Png,
    Jpeg,
    Webp,
}

impl Kind {
    /// The format by the first bytes of a file, whatever its name is.
    fn of(bytes: &[u8]) -> Option<Kind> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Kind::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Kind::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Kind::Webp),
            _ => None,
        }
    }

    /// Width and height from the header; `None` if the header is broken.
    fn pixels(self, bytes: &[u8]) -> Option<(u64, u64)> {
        let is_whole = match self {
            Kind::Png => bytes.get(8..16) == Some(b"\0\0\0\rIHDR"),
            // The size of a JPEG is in its segments, so there is no fixed header to check.
            Kind::Jpeg => true,
            Kind::Webp => match bytes.get(12..16)? {
                b"VP8 " => bytes.get(23..26) == Some(&[0x9d, 0x01, 0x2a]),
                b"VP8L" => bytes.get(20) == Some(&0x2f),
                chunk => chunk == b"VP8X",
            },
        };
        let size = imagesize::blob_size(bytes).ok().filter(|_| is_whole)?;
        let (width, height) = (size.width as u64, size.height as u64);
        (width > 0 && height > 0).then_some((width, height))
    }

    /// File extension, and media type without `image/`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Png => "png",
            Kind::Jpeg => "jpeg",
            Kind::Webp => "webp",
        }
    }
}

impl Picture {
    /// The picture that a section asks for. If the step has none, `None`, and the reason goes to `left_out`.
    pub(super) fn of(
        with: &PictureWith,
        view: &StepView,
        left_out: &mut Vec<(String, Cause)>,
        missing: impl Fn(&StepView) -> Cause,
    ) -> Result<Option<Picture>, BuiltinFault> {
        let step = with.from.clone();
        let all: Vec<(usize, &StepResult)> =
            view.results.iter().enumerate().filter(|(_, result)| is_at(result, &with.at)).collect();
        let ended: Vec<&(usize, &StepResult)> =
            all.iter().filter(|(_, result)| result.outcome == Outcome::Ok).collect();
        let (at, result) = match ended.as_slice() {
            [] if all.is_empty() && !view.results.is_empty() => {
                return Err(BuiltinFault::PictureOfNone { step });
            }
            [] => {
                left_out.push((with.from.clone(), missing(view)));
                return Ok(None);
            }
            [one] => **one,
            _ => return Err(BuiltinFault::PictureOfSeveral { step }),
        };
        let none = std::collections::BTreeMap::new();
        let files = view.files.get(at).unwrap_or(&none);
        let bytes = match (&with.output, files.iter().next()) {
            (Some(output), _) => files.get(output),
            (None, Some((_, only))) if files.len() == 1 => Some(only),
            (None, Some(_)) => {
                return Err(BuiltinFault::SeveralPictures { step, outputs: files.keys().cloned().collect() });
            }
            (None, None) => None,
        };
        let Some(bytes) = bytes else {
            return Err(BuiltinFault::NoPicture { step });
        };
        let Some(kind) = Kind::of(bytes) else {
            return Err(BuiltinFault::OtherPicture { step });
        };
        let Some((width, height)) = kind.pixels(bytes) else {
            return Err(BuiltinFault::BrokenPicture { step });
        };
        if width.saturating_mul(height) > MOST_MEGAPIXELS * 1_000_000 {
            return Err(BuiltinFault::PictureTooLarge { step, width, height, most: MOST_MEGAPIXELS });
        }
        let (label, title) = (result.label.clone(), with.title.clone());
        Ok(Some(Picture { label, title, kind, data: BASE64.encode(bytes) }))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        BASE64.decode(self.data.as_bytes()).unwrap_or_default()
    }

    /// As a `data:` address, which a page can show without other files.
    pub(super) fn address(&self) -> String {
        // Even if somebody else wrote the model, only base64 gets into the page.
        let data: String = self.data.chars().filter(|c| c.is_ascii_alphanumeric() || "+/=".contains(*c)).collect();
        format!("data:image/{};base64,{data}", self.kind.name())
    }
}
