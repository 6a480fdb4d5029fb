//! The forms in which programs write a text: in JSON, URLs, HTML, shells, Python and base64, and flow the names of metrics. Pure; knows nothing of where they are
//! looked for.
//!
//! Each writer of a format escapes what it likes beyond what it must, so that a format has as many forms as it has habits.

use std::collections::BTreeSet;

use data_encoding::{BASE64, BASE64URL};
use flow_core::metric_letters;

use super::{SHORTEST, seen::BEFORE_A_BREAK};

/// What URLs keep besides letters and digits.
const KEPT_IN_URLS: [&str; 10] = [
    "-._~",                       // RFC 3986, curl, Go's queries
    "-._~/",                      // Python
    "*-._",                       // forms, Java
    "-_.!~*'()",                  // `encodeURIComponent`
    "-_.!~*'();/?:@&=+$,#",       // `encodeURI`
    "-_.~$&+=:@",                 // Go's paths
    "-._~!$&'()*+,;=",            // RFC 3986: the password before a host
    "-._~!$&'()*+,;=:@/",         // RFC 3986: paths
    "-._~!$%&'()*+,",             // browsers: the password before a host
    "-._~!$%&'()*+,;=:@/[]\\^|?", // browsers: paths and queries
];

/// A text as it is, and as others write it.
pub(super) fn of(text: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([text.to_owned()]);
    json(text, &mut forms);
    url(text, &mut forms);
    html(text, &mut forms);
    shell(text, &mut forms);
    python(text, &mut forms);
    forms.insert(metric_letters(text));
    within_json(forms)
}

/// A text in base64, alone or within a longer one, `user:password` for example: of that, what is of this text alone. Of a character
/// that it shares with a neighbour at most four bits are left to see. Where a line ends in it soon after its beginning, `base64`
/// breaks lines, what stands behind is a form of its own.
pub(super) fn base64(text: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    let mut ends = BTreeSet::new();
    for before in 0..3 {
        let bytes = [&vec![0; before], text.as_bytes()].concat();
        let (first, last) = ((8 * before).div_ceil(6), 8 * bytes.len() / 6);
        for encoded in [BASE64.encode(&bytes), BASE64URL.encode(&bytes)] {
            // In the middle of what was encoded; at its end.
            forms.insert(encoded[first..last].to_owned());
            forms.insert(encoded[first..].trim_end_matches('=').to_owned());
            forms.insert(encoded[first..].to_owned());
            let behind = (1..BEFORE_A_BREAK).filter_map(|n| encoded.get(first + n..last));
            ends.extend(behind.filter(|end| end.len() >= SHORTEST).map(str::to_owned));
        }
    }
    ends.extend(within_json(forms));
    ends
}

/// These, and each of them in a text of JSON, as a message has it.
fn within_json(mut forms: BTreeSet<String>) -> BTreeSet<String> {
    const WRITERS: [(bool, Beyond); 3] = [(false, Beyond::Kept), (false, Beyond::Lower), (true, Beyond::Kept)];
    let within = |form: &String| WRITERS.map(|(slashes, beyond)| json_as(form, "", slashes, beyond));
    let within: Vec<String> = forms.iter().flat_map(within).collect();
    forms.extend(within);
    forms
}

/// How what is beyond ASCII is written.
#[derive(Clone, Copy, PartialEq)]
enum Beyond {
    Kept,
    Lower,
    Upper,
}

fn json(text: &str, forms: &mut BTreeSet<String>) {
    // JSON in a text of JSON.
    for inner in [Beyond::Kept, Beyond::Lower].map(|beyond| json_as(text, "", false, beyond)) {
        forms.extend([Beyond::Kept, Beyond::Lower].map(|beyond| json_as(&inner, "", false, beyond)));
    }
    // What must be; and what means something in HTML, as Go and Rails, and as .NET and PHP have it.
    for more in ["", "<>&", "<>&'\"`+", "<>&'\""] {
        for slashes in [false, true] {
            forms.extend(
                [Beyond::Kept, Beyond::Lower, Beyond::Upper].map(|beyond| json_as(text, more, slashes, beyond)),
            );
        }
    }
}

fn json_as(text: &str, more: &str, slashes: bool, beyond: Beyond) -> String {
    let number = |c: char| {
        let mut units = [0; 2];
        let written = |unit: &mut u16| match beyond {
            Beyond::Upper => format!("\\u{unit:04X}"),
            _ => format!("\\u{unit:04x}"),
        };
        c.encode_utf16(&mut units).iter_mut().map(written).collect::<String>()
    };
    escaped(text, |c| match c {
        _ if more.contains(c) => Some(number(c)),
        '"' | '\\' => Some(format!("\\{c}")),
        '/' => slashes.then(|| "\\/".to_owned()),
        '\n' => Some("\\n".to_owned()),
        '\r' => Some("\\r".to_owned()),
        '\t' => Some("\\t".to_owned()),
        '\u{8}' => Some("\\b".to_owned()),
        '\u{c}' => Some("\\f".to_owned()),
        '\0'..' ' => Some(number(c)),
        '\x7f'.. if beyond != Beyond::Kept => Some(number(c)),
        _ => None,
    })
}

fn url(text: &str, forms: &mut BTreeSet<String>) {
    for kept in KEPT_IN_URLS {
        for space in ["%20", "+"] {
            let as_written = |upper: bool| {
                escaped(text, |c| match c {
                    ' ' => Some(space.to_owned()),
                    c if c.is_ascii_alphanumeric() || kept.contains(c) => None,
                    c if upper => Some(bytes(c, |byte| format!("%{byte:02X}"))),
                    c => Some(bytes(c, |byte| format!("%{byte:02x}"))),
                })
            };
            forms.extend([true, false].map(as_written));
        }
    }
}

fn html(text: &str, forms: &mut BTreeSet<String>) {
    for apostrophe in ["'", "&#39;", "&#x27;", "&apos;", "&#039;"] {
        for quote in ["\"", "&quot;", "&#34;"] {
            // The last two as XML has it, where it must be ASCII.
            for (more, beyond) in [("", Beyond::Kept), ("/`=", Beyond::Kept), ("", Beyond::Lower), ("", Beyond::Upper)]
            {
                forms.insert(escaped(text, |c| match c {
                    '&' => Some("&amp;".to_owned()),
                    '<' => Some("&lt;".to_owned()),
                    '>' => Some("&gt;".to_owned()),
                    '\'' => Some(apostrophe.to_owned()),
                    '"' => Some(quote.to_owned()),
                    _ if more.contains(c) => Some(format!("&#x{:X};", u32::from(c))),
                    '\x7f'.. if beyond == Beyond::Lower => Some(format!("&#{};", u32::from(c))),
                    '\x7f'.. if beyond == Beyond::Upper => Some(format!("&#x{:X};", u32::from(c))),
                    _ => None,
                }));
            }
        }
    }
}

fn shell(text: &str, forms: &mut BTreeSet<String>) {
    // Within single quotes, by shells and by Python's shlex; within double quotes.
    forms.extend(["'\\''", "'\"'\"'"].map(|apostrophe| text.replace('\'', apostrophe)));
    forms.extend(["$`\"\\", "$`\"\\!"].map(|special| backslashed(text, |c| special.contains(c))));
    // Without quotes: bash's `%q`, Ruby, Perl and older Pythons.
    forms.insert(backslashed(text, |c| " \t'\"\\|&;()<>!{}*[]?^$`,~#=".contains(c)));
    forms.insert(backslashed(text, |c| " \t'\"\\|&;()<>!{}*[]?^$`,".contains(c)));
    for kept in ["_-.,:+/@", "_"] {
        forms.insert(backslashed(text, |c| c.is_ascii() && !c.is_ascii_alphanumeric() && !kept.contains(c)));
    }
    // `$'…'`
    for beyond in [Beyond::Kept, Beyond::Upper] {
        forms.insert(escaped(text, |c| match c {
            '\'' | '\\' => Some(format!("\\{c}")),
            '\n' => Some("\\n".to_owned()),
            '\r' => Some("\\r".to_owned()),
            '\t' => Some("\\t".to_owned()),
            '\x1b' => Some("\\E".to_owned()),
            c if c < ' ' || c == '\x7f' || (c > '\x7f' && beyond != Beyond::Kept) => {
                Some(bytes(c, |byte| format!("\\{byte:03o}")))
            }
            _ => None,
        }));
    }
}

/// `repr`, `ascii`, and `repr` of bytes.
fn python(text: &str, forms: &mut BTreeSet<String>) {
    let in_hex = |c: char| match u32::from(c) {
        n @ ..=0xff => format!("\\x{n:02x}"),
        n @ ..=0xffff => format!("\\u{n:04x}"),
        n => format!("\\U{n:08x}"),
    };
    let in_bytes = |c: char| bytes(c, |byte| format!("\\x{byte:02x}"));
    let beyond: [&dyn Fn(char) -> Option<String>; 3] = [&|_| None, &|c| Some(in_hex(c)), &|c| Some(in_bytes(c))];
    for beyond in beyond {
        for quoted in [false, true] {
            forms.insert(escaped(text, |c| match c {
                '\'' => quoted.then(|| "\\'".to_owned()),
                '\\' => Some("\\\\".to_owned()),
                '\n' => Some("\\n".to_owned()),
                '\r' => Some("\\r".to_owned()),
                '\t' => Some("\\t".to_owned()),
                '\0'..' ' | '\x7f' => Some(in_hex(c)),
                '\u{80}'.. => beyond(c),
                _ => None,
            }));
        }
    }
}

fn backslashed(text: &str, special: impl Fn(char) -> bool) -> String {
    escaped(text, |c| special(c).then(|| format!("\\{c}")))
}

/// The text with some of its characters written otherwise.
fn escaped(text: &str, escape: impl Fn(char) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match escape(c) {
            Some(written) => out.push_str(&written),
            None => out.push(c),
        }
    }
    out
}

/// The character byte by byte.
fn bytes(c: char, write: impl Fn(u8) -> String) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().map(write).collect()
}
