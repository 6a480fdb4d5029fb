//! The invariants of `engine/ARCHITECTURE.md` that a machine can check: who may depend on whom, who may name what, that no
//! files import each other in a cycle, and that every file says what it does.

mod code;
mod cycles;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use code::Code;

/// Who may depend on which crates of ours, dev-dependencies aside.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "flow-cli",
        &[
            "flow-exec",
            "flow-supervisor",
            "flow-slurm",
            "flow-sim",
            "flow-report",
            "flow-store",
            "flow-runs",
            "flow-core",
        ],
    ),
    ("flow-view", &["flow-report", "flow-store", "flow-runs", "flow-core"]),
    ("flow-exec", &["flow-supervisor", "flow-store", "flow-runs", "flow-slurm", "flow-protocol", "flow-core"]),
    ("flow-supervisor", &["flow-runs", "flow-slurm", "flow-protocol", "flow-core"]),
    ("flow-sim", &["flow-core"]),
    ("flow-report", &["flow-core"]),
    ("flow-store", &["flow-runs", "flow-core"]),
    ("flow-runs", &["flow-core"]),
    ("flow-core", &[]),
    ("flow-slurm", &[]),
    ("flow-protocol", &[]),
    ("flow-testkit", &["flow-fake-nvml"]),
    ("flow-fake-nvml", &[]),
    ("flow-plugin", &["flow-protocol"]),
    ("flow-images", &["flow-plugin"]),
    ("flow-torch", &["flow-plugin"]),
];

/// What has one home: paths in full, `.method()` and `macro!`, and the files and folders that may name it.
const HOMES: &[(&[&str], &[&str])] = &[
    (&["sled"], &["store/"]),
    (&["tch", "torch_sys"], &["plugins/torch/"]),
    (&["nvml_wrapper", "nvml_wrapper_sys"], &["engine/flow-supervisor/src/nvml/"]),
    (
        PRINTING,
        &[
            "engine/flow-cli/src/output.rs",
            "engine/flow-cli/build.rs",
            "engine/flow-fake-nvml/",
            "engine/flow-testkit/",
            "engine/flow-view/src/main.rs",
            "plugins/",
        ],
    ),
    (
        CLOCK,
        &["engine/flow-supervisor/src/clock.rs", "engine/flow-view/src/main.rs", "engine/flow-testkit/", "plugins/"],
    ),
];

const PRINTING: &[&str] = &[
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
    "dbg!",
    "std::io::stdout",
    "std::io::stderr",
    "tokio::io::stdout",
    "tokio::io::stderr",
    "anstream::stdout",
    "anstream::stderr",
];

const CLOCK: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::time::Instant::elapsed",
    "std::time::SystemTime::elapsed",
    "tokio::time::Instant::now",
    "tokio::time::Instant::elapsed",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "nix::time",
    "rustix::time",
    ".elapsed()",
];

/// What same inputs, same actions forbids.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::process",
    "std::net",
    "std::os",
    "std::thread",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map",
    "std::collections::hash_set",
    "std::hash::RandomState",
    "std::io::stdin",
    "std::path::Path::exists",
    "std::path::Path::is_dir",
    "std::path::Path::is_file",
    ".exists()",
    ".try_exists()",
    ".is_dir()",
    ".is_file()",
    ".is_symlink()",
    ".metadata()",
    ".symlink_metadata()",
    ".canonicalize()",
    ".read_dir()",
    ".read_link()",
    // All but `Rng::with_seed`: see `is`.
    "fastrand",
    "oorandom",
    "rand",
    "getrandom",
    "tokio",
    "rayon",
    "nix",
    "rustix",
    "libc",
    "walkdir",
];

const PURE: &[&str] =
    &["engine/flow-core/src/", "engine/flow-sim/src/", "engine/flow-report/src/", "engine/flow-slurm/src/"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file of Rust.
struct Source {
    /// From the workspace's root.
    path: String,
    text: String,
    code: Code,
}

impl Source {
    fn new(path: &str, text: String) -> Source {
        let code = Code::of(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        Source { path: path.to_owned(), text, code }
    }

    /// What it names although only others may.
    fn names(&self, forbidden: &[&str]) -> Vec<String> {
        let names = self.code.names().into_iter();
        names.filter(|name| forbidden.iter().any(|what| is(name, what))).collect()
    }
}

/// The name is what is forbidden, or something in it. Of chance, what is seeded is not.
fn is(name: &str, forbidden: &str) -> bool {
    let seeded = ["fastrand", "fastrand::Rng", "fastrand::Rng::with_seed"].contains(&name);
    !seeded && name.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What a manifest depends on to be built or to run, in whatever form that is written.
fn dependencies(manifest: &str) -> Vec<String> {
    let (mut found, mut lists) = (Vec::new(), false);
    for line in manifest.lines().map(str::trim) {
        let Some(section) = line.strip_prefix('[') else {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            found.extend((lists && !name.is_empty()).then(|| name.to_owned()));
            continue;
        };
        let section = section.trim_end_matches(']');
        let is_list = |section: &str| section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        lists = is_list(section);
        found.extend(section.rsplit_once('.').filter(|(list, _)| is_list(list)).map(|(_, name)| name.to_owned()));
    }
    found
}

/// Every Rust file of the workspace, in order.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let root = root();
        let visible = |entry: &walkdir::DirEntry| {
            let name = entry.file_name().to_string_lossy();
            name != "target" && !name.starts_with('.')
        };
        let tops = ["engine", "store", "plugins"];
        let walks = tops.map(|top| walkdir::WalkDir::new(root.join(top)).sort_by_file_name().into_iter());
        let files = walks.into_iter().flat_map(|walk| walk.filter_entry(visible)).map(Result::unwrap);
        files
            .filter(|file| file.path().extension().is_some_and(|end| end == "rs"))
            .map(|file| {
                let path = file.path().strip_prefix(&root).unwrap().to_str().unwrap();
                Source::new(path, fs::read_to_string(file.path()).unwrap())
            })
            .collect()
    });
    &SOURCES
}

/// The files that are compiled into what we give away.
fn shipped() -> impl Iterator<Item = &'static Source> {
    static TESTS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let mut tests = BTreeSet::new();
        for source in sources() {
            let folder = source.path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib");
            let folder = folder.trim_end_matches("/main");
            tests.extend(source.code.test_modules.iter().map(|module| format!("{folder}/{module}")));
        }
        tests
    });
    let test = |path: &str| {
        let folder = |part: &str| ["tests", "benches", "examples"].contains(&part);
        path.split('/').any(folder)
            || TESTS
                .iter()
                .any(|test| path.strip_prefix(test.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
    };
    sources().iter().filter(move |source| !test(&source.path))
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
        for dependency in dependencies(&text).iter().filter(|found| ARROWS.iter().any(|(n, _)| n == found)) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
        crates += 1;
    }
    assert_eq!(crates, ARROWS.len(), "ARROWS and the workspace differ");
}

#[test]
fn every_file_says_what_it_does() {
    for Source { path, text, .. } in sources() {
        let head = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(
            head.starts_with("//!"),
            "{path}: the first line says what the file does and what it does not know (//!)"
        );
    }
}

#[test]
fn each_thing_has_one_home() {
    let mut guilty = Vec::new();
    for (what, homes) in HOMES {
        for source in shipped().filter(|source| !homes.iter().any(|home| source.path.starts_with(home))) {
            guilty.extend(
                source.names(what).iter().map(|name| format!("{} names {name}, only {homes:?} may", source.path)),
            );
        }
    }
    assert!(guilty.is_empty(), "{}", guilty.join("\n"));
}

#[test]
fn pure_crates_are_pure() {
    let mut guilty = Vec::new();
    for source in shipped().filter(|source| PURE.iter().any(|pure| source.path.starts_with(pure))) {
        guilty.extend(source.names(IMPURE).iter().map(|name| format!("{} names {name}", source.path)));
    }
    assert!(guilty.is_empty(), "{}", guilty.join("\n"));
    for dir in ["flow-core", "flow-sim", "flow-report", "flow-slurm"] {
        let text = fs::read_to_string(root().join("engine").join(dir).join("clippy.toml")).unwrap();
        let first = fs::read_to_string(root().join("engine/flow-core/clippy.toml")).unwrap();
        assert_eq!(text, first, "the pure crates ban the same calls");
    }
}

/// What is in some modules of the core, from which others it takes nothing, and what of these it takes all the same.
struct ModuleRule {
    these: &'static [&'static str],
    others: &'static [&'static str],
    but: &'static [&'static str],
}

/// The modules of the core go one way too.
const MODULES: &[ModuleRule] = &[
    ModuleRule {
        these: &["expr", "spec", "expand"],
        others: &["sched", "fingerprint", "plan", "why", "measure", "learn", "predict", "stats", "verdict"],
        // The names of policies, what a built-in sees, and how often a group is repeated at most.
        but: &["sched::policy", "plan::without", "verdict"],
    },
    ModuleRule {
        these: &["sched", "measure", "predict", "stats", "verdict"],
        others: &["expr", "spec", "expand", "fingerprint", "plan", "why", "learn"],
        but: &[],
    },
    ModuleRule { these: &["sched"], others: &["measure", "predict", "stats", "verdict"], but: &[] },
    ModuleRule { these: &["measure", "stats", "verdict"], others: &["sched", "predict"], but: &[] },
    ModuleRule {
        these: &["fingerprint", "plan", "why"],
        others: &["sched", "measure", "learn", "predict", "stats"],
        but: &[],
    },
    // Values that all of them know.
    ModuleRule {
        these: &["instance", "metrics", "reason", "result"],
        others: &[
            "expr",
            "spec",
            "expand",
            "sched",
            "fingerprint",
            "plan",
            "why",
            "measure",
            "learn",
            "predict",
            "stats",
        ],
        but: &[],
    },
];

#[test]
fn modules_of_the_core_go_one_way() {
    let of_core = |source: &&Source| source.path.starts_with("engine/flow-core/src/");
    let modules = shipped().filter(of_core).map(|source| {
        let path = source.path.trim_start_matches("engine/flow-core/src/");
        (cycles::module(path), &source.code)
    });
    let imports = cycles::imports(&modules.collect());
    let mut guilty = Vec::new();
    for ModuleRule { these, others, but } in MODULES {
        let is_in = |file: &cycles::Path, modules: &[&str]| {
            file.first().is_some_and(|module| modules.contains(&module.as_str()))
        };
        for (from, to) in imports.iter().filter(|(from, _)| is_in(from, these)) {
            let may = |to: &cycles::Path| but.iter().any(|but| is(&to.join("::"), but));
            let wrong = to.iter().filter(|(to, _)| is_in(to, others) && !may(to));
            guilty
                .extend(wrong.map(|(to, names)| format!("{} takes {names:?} from {}", from.join("::"), to.join("::"))));
        }
    }
    assert!(guilty.is_empty(), "{}", guilty.join("\n"));
}

/// The modules of the driver, from the top floor down.
const DRIVER: &[&str] = &[
    "run",
    "unchanged",
    "live",
    "attempts",
    "request",
    "reports",
    "audit",
    "decide",
    "begin",
    "plan",
    "session",
    "results",
    "recover",
    "machine",
    "updates",
    "cancel",
    "executor",
];

#[test]
fn modules_of_the_driver_take_only_from_lower_ones() {
    const PLACE: &str = "engine/flow-exec/src/driver/";
    let of_driver = |source: &&Source| source.path.starts_with(PLACE) && !source.path.ends_with("driver/tests.rs");
    let modules = shipped().filter(of_driver).map(|source| {
        let path = source.path.trim_start_matches("engine/flow-exec/src/");
        (cycles::module(path), &source.code)
    });
    let imports = cycles::imports(&modules.collect());
    let floor = |file: &cycles::Path| {
        let module = file.get(1)?;
        Some(
            DRIVER
                .iter()
                .position(|known| known == module)
                .unwrap_or_else(|| panic!("DRIVER lacks the module `{module}`")),
        )
    };
    let mut guilty = Vec::new();
    for (from, to) in &imports {
        let Some(own) = floor(from) else { continue };
        let up = to.iter().filter(|(to, _)| floor(to).is_some_and(|other| other < own));
        guilty.extend(up.map(|(to, names)| format!("{} takes {names:?} from {}", from.join("::"), to.join("::"))));
    }
    assert!(guilty.is_empty(), "{}", guilty.join("\n"));
    assert!(imports.len() > 50, "{}", imports.len());
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let mut crates: BTreeMap<&str, BTreeMap<cycles::Path, &Source>> = BTreeMap::new();
    for source in shipped() {
        if let Some((name, path)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().insert(cycles::module(path), source);
        }
    }
    let mut text = String::new();
    for (name, sources) in &crates {
        let imports = cycles::imports(&sources.iter().map(|(path, source)| (path.clone(), &source.code)).collect());
        for cycle in cycles::cycles(&imports) {
            text += &format!("{name}/src:\n{}", cycles::words(&imports, &cycle));
        }
    }
    assert!(text.is_empty(), "files import each other in a cycle:\n{text}");
}
