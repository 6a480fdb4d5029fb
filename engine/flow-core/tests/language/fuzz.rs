//! Broken workflows and wild expressions, by the thousand: nothing panics, overflows the stack or runs for minutes. Every
//! error has its place in the file, and the same text always gives the same.
//!
//! `FLOW_TEST_MUTATIONS=1000000 cargo test -p flow-core --test language fuzz` tries that many. What was tried when one failed
//! stands in the message, and where the whole process ended in `target/tmp/mutation.yaml`.

use std::{
    env, fs,
    path::Path,
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use flow_core::{Diagnostic, Expansion, Render, Source, parse};

use super::{expand_on, late::ended, machine};

/// What a build for development gets through in some seconds.
const FEW: u64 = 400;
/// For one text; a busy machine is slow.
const LONG: Duration = Duration::from_secs(60);

/// The workflows of the repository, and those of the table of errors.
#[expect(clippy::disallowed_methods, reason = "the test looks for workflows in the repository")]
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts: Vec<String> = Vec::new();
    let mut folders = vec![root.join("workflows"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml") {
                texts.push(fs::read_to_string(path).expect("a file"));
            }
        }
    }
    let blocks = include_str!("errors.txt").split("\n=== ").skip(1);
    texts.extend(blocks.filter_map(|block| Some(block.split_once('\n')?.1.split("--->").next()?.to_owned())));
    texts
});

const NASTY: [&str; 52] = [
    "{",
    "}",
    "[",
    "]",
    "${{",
    "}}",
    "'",
    "\"",
    ": ",
    "- ",
    "\t",
    "：",
    "，",
    "&a ",
    "*a",
    "<<: *a\n",
    "!!binary ",
    "!x ",
    "|\n",
    ">",
    "%",
    "@",
    "`",
    "# ",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\0",
    "\u{9b}",
    "null",
    "~",
    ".nan",
    ".inf",
    "-1",
    "0",
    "1e400",
    "18446744073709551616",
    "-9223372036854775808",
    "99999999999999999999999999",
    "50",
    "true",
    "? ",
    "\n---\n",
    "\n...\n",
    "\r\n",
    "\r",
    "💥",
    "\u{301}",
    "é",
    "a: &b [*b]\n",
    "\\",
    ",",
];

const FILTERS: &str = "abs attr batch bool capitalize chain count default dictsort e escape first float format groupby \
    indent int items join last length lines list lower map max min nothing pprint reject rejectattr \
    replace reverse round safe select selectattr sh slice sort split string sum title tojson trim unique \
    upper where zip";

const TESTS: &str = "boolean defined divisibleby endingwith eq even float ge in integer iterable lower mapping none odd \
    sameas sequence startingwith string";

const ATOMS: [&str; 37] = [
    "0",
    "1",
    "-1",
    "2",
    "3.5",
    "1e308",
    "0.0",
    "'a'",
    "''",
    "'%s %5d %.3f %(k)s'",
    "'a b\\n c'",
    "'批'",
    "[]",
    "{}",
    "[1, 2, 3]",
    "{'k': 1, 'a': [2]}",
    "true",
    "none",
    "model",
    "sizes",
    "nothing",
    "photos",
    "seed",
    "machine",
    "machine.gpus",
    "params",
    "params.model",
    "steps.data",
    "steps.data.out",
    "steps.data.metrics.top1",
    "steps.data.outputs",
    "steps.data.axes",
    "steps.data.usage",
    "inputs",
    "missing",
    "range(9)",
    "dict(a=1)",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

fn word<'a>(rng: &mut Rng, from: &'a str) -> &'a str {
    pick(rng, &from.split(' ').collect::<Vec<_>>())
}

/// An expression of the grammar, mostly a sound one.
fn expression(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 {
        return pick(rng, &ATOMS).to_owned();
    }
    let mut below = || expression(rng, depth - 1);
    let (a, b, c) = (below(), below(), below());
    let binary = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "not in", "and", "or"];
    match rng.u32(..14) {
        0..=2 => format!("{a} {} {b}", pick(rng, &binary)),
        3 => format!("({a} {} {b}) {} {c}", pick(rng, &binary), pick(rng, &binary)),
        4 | 5 => format!("({a}) | {}", word(rng, FILTERS)),
        6 => format!("{a} | {}({b})", word(rng, FILTERS)),
        7 => format!("({a}) | {}({b}, {c})", word(rng, FILTERS)),
        8 => format!("({a}) | {}('{}', {b})", pick(rng, &["map", "select", "reject"]), word(rng, FILTERS)),
        9 => format!("({a}) is {} ({b})", word(rng, TESTS)),
        10 => format!("({a})[{b}:{c}:{}]", pick(rng, &ATOMS)),
        11 => format!("{a} if {b} else {c}"),
        12 => format!("[{a}, {b}, {{'k': {c}}}]"),
        _ => format!(
            "-({a}) | {}(*[{b}], {}={c})",
            word(rng, FILTERS),
            pick(rng, &["attribute", "width", "d", "start", "indent", "count"])
        ),
    }
}

/// A workflow whose expressions are wild.
fn wild(rng: &mut Rng) -> String {
    let depth = rng.u32(1..5);
    let mut one = || expression(rng, depth);
    format!(
        "flow: 1\nname: t\nparams: {{model: resnet18, photos: null, sizes: [1, 2], nothing: []}}\nsteps:\n  data: {{run: x, outputs: [o], metrics: {{json: m.json}}}}\n  a:\n    matrix:\n      v:\n      - ${{{{ {} }}}}\n      - 2\n    when: |-\n      {}\n    run: |\n      x ${{{{ {} }}}} y\n",
        one(),
        one(),
        one()
    )
}

fn mutated(rng: &mut Rng) -> String {
    let mut text = TEXTS[rng.usize(..TEXTS.len())].clone();
    for _ in 0..rng.u32(1..6) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut place = || rng.usize(..places.len());
        let (a, b) = (place(), place());
        let (from, to) = (places[a.min(b)], places[a.max(b).min(a.min(b) + 40)]);
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (n, m) = (rng.usize(..lines.len().max(1)), rng.usize(..lines.len().max(1)));
        let indented = lines.get(n).map(|line| format!("{}{line}", " ".repeat(rng.usize(1..5)))).unwrap_or_default();
        let other = &TEXTS[rng.usize(..TEXTS.len())];
        text = match rng.u32(..13) {
            0 => format!("{}{}", &text[..from], &text[to..]),
            1 | 2 => format!("{}{}{}", &text[..from], pick(rng, &NASTY), &text[from..]),
            3 => format!("{}{}{}", &text[..from], pick(rng, &NASTY), &text[to..]),
            4 => format!("{}{}{}", &text[..from], pick(rng, &NASTY).repeat(rng.usize(1..300)), &text[from..]),
            5 if n < lines.len() => {
                lines.remove(n);
                lines.concat()
            }
            6 if n < lines.len() => {
                lines.insert(m, lines[n]);
                lines.concat()
            }
            7 if n < lines.len() => {
                lines.swap(n, m);
                lines.concat()
            }
            8 if n < lines.len() => {
                lines[n] = &indented;
                lines.concat()
            }
            9 if n < lines.len() => {
                lines[n] = lines[n].trim_start();
                lines.concat()
            }
            10 => {
                let cut =
                    other.char_indices().map(|(at, _)| at).nth(rng.usize(..other.chars().count().max(1))).unwrap_or(0);
                format!("{}{}", &text[..from], &other[cut..])
            }
            11 => match (text.find("${{"), text.find("}}")) {
                (Some(open), Some(close)) if open < close => {
                    format!("{}{}{}", &text[..open + 3], expression(rng, 3), &text[close..])
                }
                _ => text,
            },
            _ => match text[from..].find(": ") {
                Some(colon) => {
                    let rest = from + colon + 2;
                    let end = text[rest..].find('\n').map_or(text.len(), |n| rest + n);
                    format!("{}{}{}", &text[..rest], pick(rng, &NASTY), &text[end..])
                }
                None => text,
            },
        };
    }
    text
}

/// Of more instances no results are made up, which take 5 KB each.
const MANY: usize = 100_000;

/// What is said of a text, or what its steps come to.
fn all_of(text: &str) -> Result<Vec<String>, Vec<Diagnostic>> {
    let source = Source { path: "t.yaml".into(), text: text.to_owned() };
    parse(&source)?;
    let e: Expansion = expand_on(text, &machine(1), None, &[])?;
    if e.instances.len() > MANY {
        return Ok(vec![format!("{} instances", e.instances.len())]);
    }
    let settled = ended(&e);
    let bodies = e.instances.iter().filter(|i| i.skip.is_none()).take(5).map(|i| {
        let body = e.resolve(i.id, &settled, Render::Paths).map(|resolved| format!("{:?}", resolved.body));
        format!("{}: {}", i.label, body.unwrap_or_else(|error| error.to_string()))
    });
    Ok(bodies.collect())
}

fn check(text: &str) {
    let first = all_of(text);
    assert_eq!(first, all_of(text), "it is not the same twice");
    for wrong in first.err().into_iter().flatten() {
        let span = wrong.span.clone().unwrap_or_else(|| panic!("no place: {wrong}"));
        assert!(text.get(span.clone()).is_some(), "{span:?} is no place of the text: {wrong}");
        assert!(wrong.to_string().len() < 20_000, "too long: {} bytes", wrong.to_string().len());
    }
}

#[test]
fn what_broke_once_does_not_again() {
    // A slice is lazy, and the library that makes it panics when it is looked at.
    let lazy = "${{ nothing[10**12:true:-1] }}";
    check(&format!("flow: 1\nparams: {{nothing: []}}\nsteps: {{a: {{matrix: {{v: '{lazy}'}}, run: x}}}}\n"));
    // The advice said the value three times.
    check(&format!("flow: 1\nsteps: {{a: {{run: x, memory: 0GiB{}}}}}\n", "9".repeat(10_000)));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how many, where to leave what is tried, and how long it takes")]
fn nothing_breaks() {
    let many = env::var("FLOW_TEST_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(FEW);
    let from: u64 = env::var("FLOW_TEST_MUTATIONS_FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutation.yaml");
    for seed in from..from + many {
        let mut rng = Rng::with_seed(seed);
        let text = if rng.u32(..3) == 0 { wild(&mut rng) } else { mutated(&mut rng) };
        fs::write(&left, &text).expect("a folder for tests");
        let begin = Instant::now();
        // As much stack as the first thread of a program has.
        let checked = thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(8 << 20);
            thread.spawn_scoped(scope, || check(&text)).expect("a thread").join()
        });
        let sound = checked.is_ok() && begin.elapsed() < LONG;
        assert!(sound, "FLOW_TEST_MUTATIONS_FROM={seed} FLOW_TEST_MUTATIONS=1, {:?}:\n{text}", begin.elapsed());
    }
    println!("{many} broken workflows and expressions, each told of or read");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    assert!(peak.unwrap_or(0) < 1u64 << 20, "{peak:?} KiB of memory");
}
