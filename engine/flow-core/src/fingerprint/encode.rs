//! The canonical bytes of values, as specified in the module's documentation. Knows no parts.

use serde_json::Value;

use crate::Digest;

/// Text up to this many bytes is stored and hashed as is, longer text by its digest.
pub(super) const LONG_TEXT: usize = 1024;

/// The bytes under construction.
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
                    // Adding zero turns −0 into 0 and changes no other number.
                    self.0.extend_from_slice(&(f + 0.0).to_le_bytes());
                }
                _ => self.tagged(b'i', n.to_string().as_bytes()),
            },
            Value::String(s) => self.text(s),
            // The walk passes scalars and empty collections only.
            Value::Array(_) => self.0.push(b'l'),
            Value::Object(_) => self.0.push(b'm'),
        }
    }
}
