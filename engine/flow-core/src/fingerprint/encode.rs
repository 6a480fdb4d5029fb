//! The canonical bytes of values, as the module's documentation specifies them. Knows no parts.

use serde_json::Value;

use crate::Digest;

/// Text up to here is kept and hashed as it is, longer text by its digest.
pub(super) const LONG_TEXT: usize = 1024;

/// Bytes being put together.
#[derive(Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    pub(super) fn new(heading: &str) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(heading.as_bytes());
        Encoder(bytes)
    }

    pub(super) fn finish(&self) -> Digest {
        Digest::of(&self.0)
    }

    pub(super) fn number(&mut self, n: usize) {
        self.0.extend_from_slice(&(n as u64).to_le_bytes());
    }

    pub(super) fn digest(&mut self, digest: &Digest) {
        self.0.extend_from_slice(&digest.0);
    }

    pub(super) fn tag(&mut self, tag: u8) {
        self.0.push(tag);
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        if text.len() <= LONG_TEXT {
            self.tagged(b's', text.as_bytes());
        } else {
            self.long(text.len(), &Digest::of(text.as_bytes()));
        }
    }

    pub(super) fn long(&mut self, length: usize, digest: &Digest) {
        self.0.push(b'S');
        self.number(length);
        self.digest(digest);
    }

    pub(super) fn leaf(&mut self, value: &Value) {
        match value {
            Value::Null => self.0.push(b'n'),
            Value::Bool(b) => self.0.push(if *b { b't' } else { b'f' }),
            Value::Number(n) => match n.as_f64() {
                Some(f) if n.is_f64() => {
                    self.0.push(b'd');
                    // Adding zero turns −0 into 0 and leaves every other number as it is.
                    self.0.extend_from_slice(&(f + 0.0).to_le_bytes());
                }
                _ => self.tagged(b'i', n.to_string().as_bytes()),
            },
            Value::String(s) => self.text(s),
            // The walk hands over scalars and empty collections only.
            Value::Array(_) => self.0.push(b'l'),
            Value::Object(_) => self.0.push(b'm'),
        }
    }
}
