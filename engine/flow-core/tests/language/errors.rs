//! Everything that can be wrong with a workflow, as a table: `errors.txt` holds each with what is said about it.
//!
//! `FLOW_BLESS=1 cargo test -p flow-core --test language errors` writes what is said now into the table; read the difference.

use std::{env, fs, path::Path};

use flow_core::{Diagnostic, Expansion, Source, parse};

use super::{CATALOGUE, expand_on, machine, shown, steps};

const FILE: &str = "tests/language/errors.txt";

/// `=== name | gpus=0 | set=a=1 | profile=p`, the workflow, `--->`, what is said.
fn case(block: &str) -> (String, String) {
    let (head, rest) = block.split_once('\n').unwrap_or((block, ""));
    let (text, said) = rest.split_once("--->\n").unwrap_or((rest, ""));
    let mut gpus = 2;
    let mut set = Vec::new();
    let mut profile = None;
    for option in head.split(" | ").skip(1) {
        match option.split_once('=') {
            Some(("gpus", n)) => gpus = n.parse().expect("a number of GPUs"),
            Some(("set", given)) => set.push(given),
            Some(("profile", name)) => profile = Some(name),
            _ => panic!("no such option: {option}"),
        }
    }
    let everything = |expansion: Expansion| expansion.targets(&[]);
    let found = match expand_on(text, &machine(gpus), profile, &set).and_then(everything) {
        Ok(_) => String::new(),
        Err(wrong) => shown(text, &wrong),
    };
    (format!("{head}\n{text}--->\n{found}\n\n"), said.trim_end().to_owned() + "\n\n")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads and writes its own table")]
fn what_is_wrong_is_said() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let table = fs::read_to_string(&path).expect("the table");
    let (head, blocks) = table.split_once("=== ").expect("a case");
    let now: Vec<String> = blocks.split("\n=== ").map(|block| case(block).0).collect();
    for block in &now {
        let said = block.split_once("--->\n").map_or("", |(_, said)| said).trim();
        assert!(!said.is_empty(), "nothing is said about\n{block}");
    }
    let now = format!("{head}=== {}", now.join("=== "));
    if env::var_os("FLOW_BLESS").is_some() {
        fs::write(&path, now.trim_end().to_owned() + "\n").expect("a table that can be written");
    } else if now.trim_end() != table.trim_end() {
        for (is, was) in now.split("=== ").zip(table.split("=== ")) {
            assert_eq!(is.trim_end(), was.trim_end());
        }
        panic!("the table has another number of cases");
    }
}

#[test]
fn the_nearest_parts_of_a_place_are_shown() {
    let text = steps("  a:\n    run: x\n    gpu_memory: 4\n");
    let wrong = expand_on(&text, &machine(0), None, &[]).expect_err("a size without a unit");
    let underlined: Vec<&str> = wrong.iter().map(|d| &text[d.span.clone().expect("a place")]).collect();
    assert_eq!(underlined, ["4"]);
    let text = steps("  a:\n    run: x ${{ oops }} y\n");
    let wrong = expand_on(&text, &machine(0), None, &[]).expect_err("an unknown name");
    assert_eq!(&text[wrong[0].span.clone().expect("a place")], "oops");
}

#[test]
fn an_output_is_no_pattern() {
    let text = steps("  a: {run: x, outputs: ['*.pt']}\n");
    let wrong = expand_on(&text, &machine(0), None, &[]).expect_err("a pattern");
    assert_eq!(wrong[0].message, "the output `*.pt` is a pattern");
    let text = steps("  a: {run: x, outputs: ['m${{ 2 * 3 }}.pt']}\n");
    expand_on(&text, &machine(0), None, &[]).expect("a path that is computed");
}

#[test]
fn a_byte_order_mark_moves_nothing() {
    let text = format!("\u{feff}{}", steps("  a: {run: x, frob: 1}\n"));
    let wrong = expand_on(&text, &machine(0), None, &[]).expect_err("an unknown key");
    assert_eq!(&text[wrong[0].span.clone().expect("a place")], "frob");
}

/// Whatever is read, nothing panics and every place is a place of the text.
#[test]
fn broken_texts_break_nothing() {
    let whole = include_str!("../../../../workflows/feb08.yaml");
    let check = |text: &str| {
        let places = |wrong: Vec<Diagnostic>| {
            for d in wrong {
                let span = d.span.unwrap_or(0..0);
                assert!(text.get(span.clone()).is_some(), "{span:?} of {text}");
            }
        };
        let source = Source { path: "t.yaml".into(), text: text.to_owned() };
        match parse(&source) {
            Err(wrong) => places(wrong),
            Ok(_) => {
                let _ = expand_on(text, &machine(1), None, &[]).map_err(places);
            }
        }
    };
    let ends: Vec<usize> = whole.char_indices().map(|(i, _)| i).collect();
    for n in ends.iter().step_by(67) {
        check(&whole[..*n]);
    }
    // One character gone, or one that breaks things put in.
    for n in ends.iter().step_by(131) {
        let next = whole[*n..].chars().next().map_or(1, char::len_utf8);
        check(&format!("{}{}", &whole[..*n], &whole[n + next..]));
        for c in ["{", "：", "\t", "'", "}}", "${{", "- "] {
            check(&format!("{}{c}{}", &whole[..*n], &whole[*n..]));
        }
    }
    assert!(CATALOGUE.plugins.contains_key("torch"));
}

/// How long this thread has computed, whatever else the machine does, as the kernel knew at its last tick.
#[expect(clippy::disallowed_methods, reason = "the test compares how long two texts take")]
fn on_cpu() -> std::time::Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    std::time::Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn what_a_parser_says_without_a_place_has_one() {
    let said = |text: &str| expand_on(text, &machine(0), None, &[]).map(drop).map_err(|wrong| shown(text, &wrong));
    let deep = format!("flow: 1\nparams:\n  {}", "- ".repeat(300));
    for (text, words) in [
        (
            "flow: 1\nsteps:\n  a: {run: \"tr\u{1}ue\"}\n",
            "3:15: this is not valid YAML: control characters are not allowed",
        ),
        (&*deep, "3:257: more than 64 lists and mappings are nested here; move the deeper part into"),
    ] {
        let said = said(text).expect_err(text);
        assert!(said.starts_with(words), "{said}");
    }
}

#[test]
fn a_long_cycle_is_told_without_its_middle() {
    let of = |keys: &dyn Fn(usize) -> String| {
        steps(&(0..300).map(|n| format!("  s{n}: {{{}}}\n", keys(n))).collect::<String>())
    };
    for text in [of(&|n| format!("run: x, needs: [s{}]", (n + 1) % 300)), of(&|n| format!("like: s{}", (n + 1) % 300))]
    {
        let said = shown(&text, &expand_on(&text, &machine(0), None, &[]).map(drop).expect_err("a cycle"));
        assert!(said.contains("s8 → s9 → … 281 more … → s291 → s292"), "{said}");
    }
}

/// Twice as much that is wrong takes about twice as long: no loop over all runs within another.
#[test]
fn reading_is_linear() {
    let repeat = |n: usize, one: &dyn Fn(usize) -> String| (0..n).map(one).collect::<String>();
    let step = |inside: String| steps(&format!("  a: {{run: x, {inside}}}\n"));
    let texts: [(&str, &dyn Fn(usize) -> String); 12] = [
        ("the same key", &|n| format!("flow: 1\nparams:\n{}", repeat(n, &|i| format!("  k: {i}\n")))),
        ("keys twice", &|n| format!("flow: 1\nparams:\n{}", repeat(n, &|i| format!("  k{i}: 1\n  k{i}: 2\n")))),
        ("dashes", &|n| format!("flow: 1\nparams:\n {}", "- ".repeat(n))),
        ("errors of a list", &|n| step(format!("record: [{}]", repeat(n, &|i| format!("bad{i}, "))))),
        ("unknown keys", &|n| step(repeat(n, &|i| format!("unknown{i}: 1, ")))),
        ("unknown steps", &|n| steps(&repeat(n, &|i| format!("  s{i}: {{run: x, needs: [t{i}]}}\n")))),
        ("unknown names", &|n| {
            steps(&format!("  a:\n    run: |\n{}", repeat(n, &|i| format!("      ${{{{ q{i} }}}}\n"))))
        }),
        ("outputs", &|n| step(format!("outputs: {{{}}}", repeat(n, &|i| format!("o{i}: f{i}, "))))),
        ("inputs", &|n| step(format!("inputs: {{{}}}", repeat(n, &|i| format!("i{i}: f{i}, "))))),
        ("copies", &|n| steps(&format!("  s: {{run: x}}\n{}", repeat(n, &|i| format!("  s{i}: {{like: s}}\n"))))),
        ("aliases", &|n| format!("flow: 1\nparams:\n  a: &a [1]\n{}", repeat(n, &|i| format!("  b{i}: *a\n")))),
        ("profiles", &|n| {
            format!(
                "flow: 1\nprofiles:\n{}",
                repeat(n, &|i| format!("  p{i}: {{when: machine.gpus > 9, params: {{y{i}: 1}}}}\n"))
            )
        }),
    ];
    for (name, text) in texts {
        let took = |n: usize| {
            let text = text(n);
            let read = || {
                let begin = on_cpu();
                drop(expand_on(&text, &machine(0), None, &[]));
                on_cpu() - begin
            };
            (0..2).map(|_| read()).min().unwrap_or_default()
        };
        // Eight times as much: a loop within a loop takes sixty-four times as long.
        let (few, many) = (took(300), took(2400));
        let most = few.max(std::time::Duration::from_millis(4)) * 32;
        assert!(many < most, "{name}: 300 of them take {few:?}, 2400 take {many:?}");
    }
    // As many bytes of folders in one another as of files beside one another.
    let deep: String = (1..=600).map(|n| format!("{}d, ", "d/".repeat(n - 1))).collect();
    let flat = repeat(deep.len() / 10, &|i| format!("f{i:07}, "));
    let [deep, flat] = [deep, flat].map(|inputs| {
        let text = step(format!("inputs: [{inputs}]"));
        let begin = on_cpu();
        drop(expand_on(&text, &machine(0), None, &[]));
        on_cpu() - begin
    });
    assert!(deep < flat * 8, "inputs in one another take {deep:?}, beside one another {flat:?}");
}
