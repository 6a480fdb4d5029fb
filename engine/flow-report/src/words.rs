//! The texts of tables and reports, from one Fluent catalogue per language. This module does not know findings or
//! layout.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    sync::OnceLock,
};

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use serde::Serialize;
use serde_json::Value;

use crate::{Format, safe};

/// The languages, with their catalogues.
pub const LANGUAGES: [(&str, &str); 2] =
    [("en", include_str!("../locales/en.ftl")), ("zh", include_str!("../locales/zh.ftl"))];

/// The catalogues. Each is parsed at its first use, because most commands use none.
#[derive(Default)]
pub struct Words {
    bundles: [OnceLock<FluentBundle<FluentResource>>; LANGUAGES.len()],
}

impl Words {
    /// The catalogues in the binary.
    pub fn new() -> Self {
        Words::default()
    }

    fn bundle(&self, lang: &str) -> Option<&FluentBundle<FluentResource>> {
        let (slot, (lang, text)) = self.bundles.iter().zip(LANGUAGES).find(|(_, (name, _))| *name == lang)?;
        Some(slot.get_or_init(|| {
            let mut bundle = FluentBundle::new_concurrent(lang.parse().into_iter().collect());
            // The marks that isolate right-to-left text would add characters that nobody wrote.
            bundle.set_use_isolating(false);
            // An invalid line loses only its own message. A test checks that all lines are valid.
            let resource = FluentResource::try_new(text.to_owned()).unwrap_or_else(|(resource, _)| resource);
            bundle.add_resource_overriding(resource);
            bundle
        }))
    }

    /// The words of one language.
    pub(crate) fn locale<'a>(&'a self, lang: &'a str) -> Locale<'a> {
        Locale { catalogues: self, lang }
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").finish_non_exhaustive()
    }
}

/// The words of one language: messages, and how lists and numbers are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locale<'a> {
    catalogues: &'a Words,
    pub(crate) lang: &'a str,
}

impl Locale<'_> {
    /// The message, in English if the language lacks it. `None` if the key does not exist.
    pub(crate) fn find(self, key: &str, args: &Args) -> Option<String> {
        let of = |lang: &str| {
            let bundle = self.catalogues.bundle(lang)?;
            let pattern = bundle.get_message(key)?.value()?;
            let text = bundle.format_pattern(pattern, Some(&args.0), &mut Vec::new()).into_owned();
            Some(if lang == "zh" { spaced(&text) } else { text })
        };
        of(self.lang).or_else(|| of("en"))
    }

    /// The message. If it does not exist, its key, so that the gap is visible.
    pub(crate) fn text(self, key: &str, args: &Args) -> String {
        self.find(key, args).unwrap_or_else(|| format!("⟨{key}⟩"))
    }

    /// A message without variables.
    pub(crate) fn word(self, key: &str) -> String {
        self.text(key, &Args::new())
    }

    /// Joins sentences.
    pub(crate) fn sentences<S: Borrow<str>>(self, sentences: &[S]) -> String {
        sentences.join(&self.word("mark-between-sentences"))
    }

    /// A figure with the percent sign of the language: `2 %` becomes `2%`.
    pub(crate) fn typeset(self, figure: &str) -> String {
        figure.replace(" %", &self.word("mark-percent"))
    }

    /// A number with its unit in a sentence: `16.2 s`, `−48%`, `1.34×`. The unit is escaped for Markdown.
    pub(crate) fn figure(self, format: &Format, value: f64) -> String {
        match format.head() {
            Some("points") => format!("{} {}", format.number(value), self.word("unit-points")),
            Some(unit) => format!("{} {}", format.number(value), safe::text(unit)),
            None if format.unit == "×" => self.text("unit-times", &Args::new().with("n", format.number(value))),
            None => self.typeset(&format.cell(value)),
        }
    }

    /// A list: `a, b and c`.
    pub(crate) fn list<S: AsRef<str>>(self, items: &[S]) -> String {
        match items {
            [] => String::new(),
            [one] => one.as_ref().to_owned(),
            [first @ .., last] => {
                let [comma, and] = ["list-comma", "list-and"].map(|key| self.word(key));
                let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
                format!("{}{and}{}", first.join(&comma), last.as_ref())
            }
        }
    }

    /// A list of points. If points contain commas, semicolons separate them.
    pub(crate) fn points(self, points: &[String]) -> String {
        match points.iter().any(|point| point.contains(", ")) {
            true => points.join(&self.word("mark-semicolon")),
            false => self.list(points),
        }
    }
}

/// Inserts spaces between Chinese and Latin script, as Chinese typesetting requires. Text inside `code` does not
/// change.
fn spaced(text: &str) -> String {
    let chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    let latin = |c: char| c.is_ascii_alphanumeric() || c == '`';
    let mut out = String::with_capacity(text.len());
    let (mut before, mut code) = (' ', false);
    for c in text.chars() {
        // A closing backtick has no space before it.
        let opens = c == '`' && !code;
        let closed = before == '`' && !code;
        let meets = chinese(before) && (opens || c != '`' && latin(c))
            || (closed || before != '`' && latin(before)) && chinese(c);
        if meets && !code {
            out.push(' ');
        }
        if c == '`' {
            code = !code;
        }
        // There is no space in `2%`.
        if c == '%' && !code && out.ends_with(' ') && out.trim_end().ends_with(|c: char| c.is_ascii_digit()) {
            out.truncate(out.trim_end().len());
        }
        out.push(c);
        before = c;
    }
    out
}

/// The variables of a message.
#[derive(Debug, Default)]
pub(crate) struct Args(FluentArgs<'static>);

impl Args {
    pub(crate) fn new() -> Self {
        Args::default()
    }

    pub(crate) fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.0.set(name, FluentValue::from(value.into()));
        self
    }

    /// Adds whether something holds, by which a message selects its variant.
    pub(crate) fn flag(self, name: impl Into<Cow<'static, str>>, holds: bool) -> Self {
        self.with(name, if holds { "yes" } else { "no" })
    }

    /// Adds a count, on which the plural form of a language may depend.
    pub(crate) fn count(self, name: &'static str, value: usize) -> Self {
        self.with_number(name, value as f64)
    }

    pub(crate) fn with_number(mut self, name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        self.0.set(name, FluentValue::from(value));
        self
    }
}

/// The name of a variant without fields, as it is stored and as keys of the catalogue have it.
pub(crate) fn kind(variant: &impl Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// A value as a message: its kind, as keys of the catalogue have it, and its fields as variables. `worded` says what a
/// text, a list or an object with this name is in words.
pub(crate) fn fields(
    value: &impl Serialize,
    tag: &str,
    worded: impl Fn(&str, &Value) -> Option<String>,
) -> (String, Args) {
    let Ok(Value::Object(fields)) = serde_json::to_value(value) else { return Default::default() };
    let kind = fields.get(tag).and_then(Value::as_str).unwrap_or_default().replace('_', "-");
    let args = fields.into_iter().fold(Args::new(), |args, (name, value)| match &value {
        Value::Bool(holds) => args.flag(name, *holds),
        Value::Number(number) => args.with_number(name, number.as_f64().unwrap_or_default()),
        other => match worded(&name, other) {
            Some(text) => args.with(name, text),
            None => args,
        },
    });
    (kind, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_and_latin_are_set_apart() {
        let cases = [
            ("降低了CPU 使用率", "降低了 CPU 使用率"),
            ("GPU数", "GPU 数"),
            ("步骤`四x号`没有", "步骤 `四x号` 没有"),
            ("批大小 16，用时", "批大小 16，用时"),
            ("降低 2 % 至 4 %，`a 5 %`", "降低 2% 至 4%，`a 5 %`"),
        ];
        for (given, expected) in cases {
            assert_eq!(spaced(given), expected);
        }
    }
}
