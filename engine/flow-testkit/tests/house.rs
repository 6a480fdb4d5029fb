//! The invariants of `engine/ARCHITECTURE.md` that a machine can check: who may depend on whom, who may name what, and that
//! every file says what it does.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Who may depend on which crates of ours, dev-dependencies aside.
const ARROWS: &[(&str, &[&str])] = &[
    ("flow-cli", &["flow-exec", "flow-sim", "flow-report", "flow-store", "flow-core"]),
    ("flow-exec", &["flow-store", "flow-protocol", "flow-core"]),
    ("flow-sim", &["flow-core"]),
    ("flow-report", &["flow-core"]),
    ("flow-store", &["flow-core"]),
    ("flow-core", &[]),
    ("flow-protocol", &[]),
    ("flow-testkit", &["flow-fake-nvml"]),
    ("flow-fake-nvml", &[]),
    ("flow-plugin", &["flow-protocol"]),
    ("flow-images", &["flow-plugin"]),
    ("flow-torch", &["flow-plugin"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file of the workspace below `src/`, with its path from the root.
fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    for top in ["engine", "store", "plugins"] {
        walk(&root.join(top), &mut found);
    }
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// The lines of a file outside of comments and of its test module, which by custom comes last.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}

fn is_test(path: &str) -> bool {
    ["/tests/", "/benches/", "/tests.rs", "/examples/"].iter().any(|part| path.contains(part))
}

fn nobody_names(what: &[&str], except: impl Fn(&str) -> bool) {
    let mut guilty = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path) && !except(path)) {
        for line in code(text) {
            let names = |word: &str| {
                line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            };
            if what.iter().any(|word| names(word)) {
                guilty.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    assert!(guilty.is_empty(), "{what:?} has one home:\n{}", guilty.join("\n"));
}

#[test]
fn arrows_go_one_way() {
    let root = root();
    let mut seen = BTreeMap::new();
    for top in ["engine", "plugins"] {
        for entry in fs::read_dir(root.join(top)).unwrap().flatten() {
            seen.insert(entry.path().join("Cargo.toml"), ());
        }
    }
    seen.insert(root.join("store/Cargo.toml"), ());
    let mut crates = 0;
    for manifest in seen.keys().filter(|path| path.exists()) {
        let text = fs::read_to_string(manifest).unwrap();
        let name = text.lines().find_map(|l| l.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned();
        let allowed = ARROWS.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} is not in ARROWS")).1;
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if section == "[dependencies]" && ARROWS.iter().any(|(n, _)| *n == dependency) {
                assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
            }
        }
        crates += 1;
    }
    assert_eq!(crates, ARROWS.len(), "ARROWS and the workspace differ");
}

#[test]
fn every_file_says_what_it_does() {
    for (path, text) in sources() {
        let head = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(
            head.starts_with("//!"),
            "{path}: the first line says what the file does and what it does not know (//!)"
        );
    }
}

#[test]
fn sled_lives_in_the_store() {
    nobody_names(&["sled::", "use sled"], |path| path.starts_with("store/"));
}

#[test]
fn tch_lives_in_the_torch_plugin() {
    nobody_names(&["tch::", "use tch"], |path| path.starts_with("plugins/torch/"));
}

#[test]
fn nvml_is_asked_in_one_folder() {
    nobody_names(&["nvml_wrapper::", "use nvml_wrapper"], |path| path.starts_with("engine/flow-exec/src/nvml/"));
}

#[test]
fn only_the_command_line_prints() {
    nobody_names(&["println!", "eprintln!", "print!", "eprint!"], |path| {
        path.starts_with("engine/flow-cli/") || path.starts_with("plugins/") || path.starts_with("engine/flow-testkit/")
    });
}

#[test]
fn one_file_of_the_command_line_prints() {
    let all = ["println!", "eprintln!", "print!", "eprint!", "io::stdout", "io::stderr"];
    let others = ["plugins/", "engine/flow-testkit/", "engine/flow-fake-nvml/"];
    nobody_names(&all, |path| {
        path == "engine/flow-cli/src/output.rs" || others.iter().any(|other| path.starts_with(other))
    });
}

#[test]
fn one_file_of_the_engine_asks_the_clock() {
    nobody_names(&["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now"], |path| {
        path == "engine/flow-exec/src/clock.rs"
            || path.starts_with("plugins/")
            || path.starts_with("engine/flow-testkit/")
    });
}

#[test]
fn pure_crates_are_pure() {
    let impure = ["std::fs", "std::process", "std::net", "std::thread", "std::env", "tokio", "HashMap", "HashSet"];
    let pure = ["engine/flow-core/src", "engine/flow-sim/src", "engine/flow-report/src"];
    nobody_names(&impure, |path| !pure.iter().any(|dir| path.starts_with(dir)));
    for dir in ["flow-core", "flow-sim", "flow-report"] {
        let text = fs::read_to_string(root().join("engine").join(dir).join("clippy.toml")).unwrap();
        let first = fs::read_to_string(root().join("engine/flow-core/clippy.toml")).unwrap();
        assert_eq!(text, first, "the pure crates ban the same calls");
    }
}
