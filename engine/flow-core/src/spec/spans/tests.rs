//! Places against values: what one parser says of a text the other one has to find in it.

use serde_yaml::Value;

use super::*;
use crate::{
    expr::value::key_text,
    spec::{at::YamlPath, parsed},
};

/// What of a text has no place in it, or another's: of each value and each key that the one parser finds, the other one has to tell
/// where it stands.
fn misplaced(text: &str) -> Vec<String> {
    let value = match parsed(text, &YamlPath::root()) {
        Ok(value) => value,
        Err(wrong) => return vec![format!("it cannot be read: {wrong:?}")],
    };
    let spans = Spans::of(text);
    let mut wrong = Vec::new();
    below(&spans, &value, &YamlPath::root(), "", &mut wrong);
    wrong
}

fn below(spans: &Spans<'_>, value: &Value, at: &YamlPath, path: &str, wrong: &mut Vec<String>) {
    let place = |on: PlacePart, at: &YamlPath| {
        let range = spans.find(&Problem { at: at.clone(), on, what: Diagnostic::new("") })?;
        spans.text.get(range)
    };
    match value {
        Value::Mapping(map) => {
            for (key, value) in map {
                let name = key_text(key).expect("a key of the tables");
                let (inner, path) = (at.key(&name), format!("{path}.{name}"));
                let found = place(PlacePart::Key, &inner);
                if !found.is_some_and(|found| is(found, key)) {
                    wrong.push(format!("key {path}: {found:?}"));
                }
                below(spans, value, &inner, &path, wrong);
            }
        }
        Value::Sequence(list) => {
            for (n, value) in list.iter().enumerate() {
                below(spans, value, &at.index(n), &format!("{path}[{n}]"), wrong);
            }
        }
        // It may be nothing at all.
        Value::Null => {}
        scalar => {
            let found = place(PlacePart::Value, at);
            if !found.is_some_and(|found| is(found, scalar)) {
                wrong.push(format!("{path}, {scalar:?}: {found:?}"));
            }
        }
    }
}

/// This part of a text is that scalar, but for a tag before it and the blanks of a text over several lines.
fn is(found: &str, scalar: &Value) -> bool {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => key_text(other).unwrap_or_default().into_owned(),
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let parsed = serde_yaml::from_str::<Value>(found).ok();
    parsed.is_some_and(|parsed| words(&shown(&parsed)) == words(&shown(scalar)))
        || words(found) == words(&shown(scalar))
}

/// Where anything of one line stands: no list, mapping or several lines.
fn scalars() -> impl Iterator<Item = &'static str> {
    let long = [
        "18446744073709551615",
        "2026-01-02",
        "2026-01-02T03:04:05Z",
        "\"a\\nb\"",
        "\"\\u00e9\"",
        "\"\\x41\"",
        "!!int '1'",
        "!!bool 'true'",
        "&x !!str 1",
        "!!str &x 1",
        "'${{ a }}'",
    ];
    let tagged = ["&x a", "${{ a }}", "=", "<", "nan", "inf", "1__0", "_1", "١", "\u{a0}a", "'#'", "\"'\"", "'\"'"];
    PLAIN.into_iter().chain(long).chain(tagged)
}

/// Those without a tag or an anchor.
const PLAIN: [&str; 55] = [
    "1", "-1", "+1", "1_000", "0o7", "007", "08", "0x1F", "0b11", ".5", "1.", "1.0", "1e0", "1e3", "1E+3", "1.5e-3",
    "-.5", "+.5", ".inf", "-.inf", ".nan", ".NaN", "1e400", "yes", "no", "on", "off", "Yes", "y", "true", "True",
    "TRUE", "tRue", "'true'", "false", "null", "Null", "NULL", "~", "nil", "12:30:45", "1:2", "'it''s'", "\"\"", "''",
    "全部", "é", "e\u{301}", "💥", "a b", "a#b", "a:b", "-a", "--a", "!!str 1",
];

/// What stands over several lines, below a key that is indented by two.
const BLOCKS: [&str; 14] = [
    "\"a \\\n    b\"",
    "'a\n\n    b'",
    "a\n    b",
    "|\n    a\n    b",
    "|-\n    a\n",
    "|+\n    a\n\n",
    ">\n    a\n    b\n\n    c",
    ">-\n    a\n",
    "|2\n      a",
    "|\n    # no remark",
    "[1,\n    b]",
    "{b: 1,\n    c: '2'}",
    "\n    - 1\n    - b",
    "\n    b: 1\n    c: 2",
];

const STRUCTURES: [&str; 39] = [
    "a: &x {k: 1, l: 2}\nb: *x\n",
    "a: &x 1\nb: *x\nc: [*x, *x]\n",
    "a: &x {k: 1}\nb:\n  <<: *x\n  l: 2\n",
    "a: &x {k: 1}\nb:\n  <<: *x\n  k: 2\n",
    "a: &x {k: 1}\nb:\n  k: 2\n  <<: *x\n",
    "a: &x {k: 1}\nc: &y {k: 3, m: 4}\nb:\n  <<: [*x, *y]\n  l: 2\n",
    "a: &x {k: 1}\nc: &y {k: 3, m: 4}\nb: {<<: [*y, *x], l: 2}\n",
    "a: &x {k: 1}\nc: &y {<<: *x, m: 4}\nb: {<<: *y, l: 2}\n",
    "a: &x {k: 1}\nc: &y {<<: *x, m: 4}\nd: &z {k: 5}\nb: {<<: [*y, *z], l: 2}\n",
    "a: &x {k: 1}\nb: {<<: {k: 5, z: 6}, l: 2}\n",
    "a: &x {k: {p: 1}}\nb: {<<: *x, k: {q: 2}}\n",
    "a: {1: a, 2.50: b, ~: c, yes: d}\n",
    "? a\n: 1\n? b\n: 2\n",
    "a: 1\n...\n",
    "--- \na: 1\n",
    "%YAML 1.2\n---\na: 1\n",
    "a:\t1\n",
    "a: \t1\t# x\n",
    "a: [1,\t2]\n",
    "a: [\n1,\n2]\n",
    "a: {\nb: 1\n}\n",
    "a: [1, 2,]\n",
    "a: [b: 1, c: 2]\n",
    "a: {b, c: 1}\n",
    "a: {b: , c: 1}\n",
    "a: \nb: 2\n",
    "a:\n- 1\n- 2\n",
    "a:\n- b: 1\n  c: 2\n- - d\n  - e\n",
    "a: 1\r\nb: 2\r\n",
    "a: |\r\n  x\r\n  y\r\nb: 2\r\n",
    "'a' : 1\n\"b\": 2\n",
    "全: 部\né: 'è'\n",
    "a: >\n\n  x\n\n\n  y\n\nb: 1\n",
    "a: !!map {b: 1}\nc: !!seq [1]\n",
    "a: &x\n  b: 1\nc: *x\n",
    "a: &x 1\nb: &x 2\nc: *x\n",
    "&x a: 1\nb: *x\n",
    "# c\n\na: #d\n  b: 1\n",
    "a: {\"b\":1,'c':2}\nd: [http://x/y]\n",
];

#[test]
fn whatever_is_read_has_its_place() {
    let values = scalars().flat_map(|one| {
        let quoted_key = !one.contains(['&', '!']);
        let texts = [format!("k:\n  a: {one}\n  b: 2\n"), format!("k:\n  - {one}\n  - 2\n")];
        let flow = (!one.contains("${{")).then(|| [format!("k: [{one}, 2]\n"), format!("k: {{a: {one}, b: 2}}\n")]);
        let keys = (quoted_key && !one.contains("${{"))
            .then(|| [format!("k:\n  {one}: 1\n  b: 2\n"), format!("k: {{? {one} : 1, b: 2}}\n")]);
        texts.into_iter().chain(flow.into_iter().flatten()).chain(keys.into_iter().flatten())
    });
    let blocks = BLOCKS.iter().map(|one| format!("k:\n  a: {one}\n  b: 2\n"));
    let all = values.chain(blocks).chain(STRUCTURES.map(str::to_owned));
    let wrong: Vec<_> = all.map(|text| (misplaced(&text), text)).filter(|(wrong, _)| !wrong.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Keys in an order of their own, with what they hold: scalars, lists, mappings with anchors, and what takes over from these.
fn block(rng: &mut fastrand::Rng, indent: usize, depth: u32, anchors: &mut Vec<String>) -> String {
    let mut keys = ["a", "b", "1", "1e3", "'q'", "全", "yes", "~", "c d", "0777"];
    rng.shuffle(&mut keys);
    let pad = " ".repeat(indent);
    let mut text = String::new();
    let merges = (rng.u32(..3) == 0).then(|| rng.choice(anchors.iter())).flatten();
    let merge = merges.map(|one| match rng.choice(anchors.iter()).filter(|_| rng.bool()) {
        Some(other) => format!("{pad}<<: [*{one}, *{other}]\n"),
        None => format!("{pad}<<: *{one}\n"),
    });
    let count = rng.usize(1..5);
    let before = rng.usize(..count);
    for (n, key) in keys.into_iter().take(count).enumerate() {
        text.push_str(merge.as_deref().filter(|_| n == before).unwrap_or(""));
        let scalar = rng.choice(PLAIN).unwrap_or("1");
        let alias = rng.choice(anchors.iter()).map(|name| format!(" *{name}\n"));
        let value = match (rng.u32(..8), alias) {
            (0, _) if depth > 0 => {
                let below = block(rng, indent + 2, depth - 1, anchors);
                anchors.push(format!("m{}", anchors.len()));
                format!(" &{}\n{below}", anchors[anchors.len() - 1])
            }
            (1, _) if depth > 0 => format!("\n{}", block(rng, indent + 1, depth - 1, anchors)),
            (2, _) => format!("\n{pad}- {scalar}\n{pad}-   2 # two\n"),
            (3, _) => format!(" {{x: {scalar}, y: [{scalar}]}}\n"),
            (4, _) => format!(" {}\n", rng.choice(BLOCKS).unwrap_or("a").replace('\n', &format!("\n{pad}"))),
            (5, Some(alias)) => alias,
            _ => format!(" {scalar}\n"),
        };
        text.push_str(&format!("{pad}{key}:{value}"));
    }
    text
}

#[test]
fn whatever_is_taken_over_has_the_place_of_what_counts() {
    let texts = (0..1_000).map(|seed| block(&mut fastrand::Rng::with_seed(seed), 0, 3, &mut Vec::new()));
    let wrong: Vec<_> = texts.map(|text| (misplaced(&text), text)).filter(|(wrong, _)| !wrong.is_empty()).collect();
    assert!(wrong.is_empty(), "{} of them: {:#?}", wrong.len(), &wrong[..wrong.len().min(9)]);
}
