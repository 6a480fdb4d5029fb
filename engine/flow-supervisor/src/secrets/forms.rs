//! The forms in which flow looks for a secret: as it is, JSON-escaped and in base64. Pure.

use std::collections::BTreeSet;

use data_encoding::{BASE64, BASE64URL};
use flow_core::metric_letters;

use super::SHORTEST;

/// A text as it is and as flow writes it in the name of a metric; both also JSON-escaped. A message of a plugin is JSON and its
/// text may be JSON again, hence twice.
pub(super) fn of(text: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([text.to_owned()]);
    forms.extend(Some(metric_letters(text).trim_matches('_').to_owned()).filter(|name| name.len() >= SHORTEST));
    for _ in 0..2 {
        let escaped: Vec<String> = forms.iter().flat_map(|form| [json(form), ascii(&json(form))]).collect();
        forms.extend(escaped);
    }
    forms
}

/// A text in base64, alone or within a longer text such as `user:password`. These are the characters that encode this text only.
/// A character shared with a neighbour is left; it shows at most four bits.
pub(super) fn base64(text: &str) -> impl Iterator<Item = String> {
    (0..3).flat_map(move |before| {
        let bytes = [&vec![0; before], text.as_bytes()].concat();
        let own = (8 * before).div_ceil(6)..8 * bytes.len() / 6;
        [BASE64.encode(&bytes), BASE64URL.encode(&bytes)].map(|encoded| encoded[own.clone()].to_owned())
    })
}

/// The text within a JSON string.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// JSON whose other characters are written by number, as Python's `json.dumps` does.
fn ascii(json: &str) -> String {
    let mut units = [0; 2];
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' {
            out.push(c);
        } else {
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}
