//! The checks of the house find what they are there for: each kind of offence, planted in a text.

use std::collections::BTreeMap;

use crate::circles::{circles, imports, module, words};
use crate::code::Code;
use crate::{CLOCK, IMPURE, PRINTING, Source, dependencies};

fn found(text: &str, forbidden: &[&str]) -> Vec<String> {
    Source::new("planted.rs", text.to_owned()).names(forbidden)
}

#[test]
fn a_forbidden_name_is_found_however_it_is_written() {
    let planted: &[(&str, &[&str])] = &[
        ("fn f() { std::fs::read(x); }", IMPURE),
        ("use std::fs;", IMPURE),
        ("use std::{fs};", IMPURE),
        ("use std::{collections::{BTreeMap, HashMap}, fmt};", IMPURE),
        ("use std::fs::{self, File};", IMPURE),
        ("use std::{fs as disk};", IMPURE),
        ("pub(crate) use ::std::process::Command;", IMPURE),
        ("use std as s; fn f() { s::fs::read(x); }", IMPURE),
        ("use std::*; fn f() { fs::read(x); }", IMPURE),
        ("fn f() { use std::env; }", IMPURE),
        ("mod inner { use std::{net}; }", IMPURE),
        ("#[cfg(test)] mod tests {} use std::thread;", IMPURE),
        ("#[cfg(not(test))] use std::thread;", IMPURE),
        ("#[cfg(any(test, unix))] use std::thread;", IMPURE),
        ("fn f() { write!(o, \"{}\", std::env::var(x)); }", IMPURE),
        ("fn f(x: HashMap<u8, u8>) {} use std::collections::*;", IMPURE),
        ("impl X { #[cfg(test)] fn a() {} fn b() { std::thread::spawn(x); } }", IMPURE),
        ("use std::time::Instant; fn f() { Instant::now(); }", CLOCK),
        ("use std::time; fn f() { time::SystemTime::now(); }", CLOCK),
        ("use std::time::Instant as Stopwatch; fn f() { x.map(Stopwatch::now); }", CLOCK),
        ("fn f() { <std::time::Instant>::now(); }", &["std::time::Instant"]),
        ("fn f() { since.elapsed(); }", CLOCK),
        ("fn f() { format!(\"{}\", since.elapsed().as_secs()); }", CLOCK),
        ("fn f() { std::println!(); }", PRINTING),
        ("fn f() { eprint! { \"x\" } }", PRINTING),
        ("use std::io::{self, Write}; fn f() { io::stdout().flush(); }", PRINTING),
        ("fn f() { tokio::io::stdout(); }", PRINTING),
        ("fn f(path: &Path) { path.exists(); }", IMPURE),
        ("use std::path::Path; fn f() { all.any(Path::is_dir); }", IMPURE),
        ("fn f() { fastrand::u64(..); }", IMPURE),
        ("use fastrand::Rng; fn f() { Rng::default(); }", IMPURE),
        ("use fastrand::*;", IMPURE),
        ("use std::hash::{BuildHasher, RandomState};", IMPURE),
        ("extern crate sled as tree;", &["sled"]),
        ("fn f() -> sled::Result<()> {}", &["sled"]),
        ("use sled;", &["sled"]),
    ];
    for (text, forbidden) in planted {
        assert!(!found(text, forbidden).is_empty(), "not seen: {text}");
    }
}

fn told(files: &[(&str, &str)]) -> String {
    let codes: BTreeMap<_, _> = files.iter().map(|(path, text)| (module(path), Code::of(text).unwrap())).collect();
    let modules = codes.iter().map(|(path, code)| (path.clone(), code)).collect();
    let imports = imports(&modules);
    circles(&imports).iter().map(|circle| words(&imports, circle)).collect()
}

#[test]
fn a_circle_of_files_is_found_however_it_is_written() {
    let b = ("b.rs", "use crate::a::A; pub(crate) struct B;");
    for a in [
        "use crate::b::B; pub(crate) struct A;",
        "use super::{b::{B as Other}}; pub(crate) struct A;",
        "use super::b::*; pub(crate) struct A(B);",
        "use super::b; pub(crate) struct A(b::B);",
        "use crate::*; pub(crate) struct A(b::B);",
        "pub(crate) struct A(crate::b::B);",
        "pub(crate) struct A; fn f() { vec![crate::b::B]; }",
        "pub(crate) use super::b::B; pub(crate) struct A(B);",
        "pub(crate) struct A; mod inner { use crate::b::B; }",
        "pub(crate) struct A; fn f() { use crate::b::B; }",
    ] {
        let told = told(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), b]);
        assert!(told.contains("  a takes ") && told.contains("  b takes "), "{a}: {told}");
    }
}

#[test]
fn a_dependency_is_found_however_it_is_written() {
    let manifest = "\
[dependencies]
flow-core.workspace = true
flow-sim = { path = \"../flow-sim\" }
[target.'cfg(unix)'.dependencies]
flow-exec.workspace = true
[dependencies.flow-store]
workspace = true
[build-dependencies]
flow-slurm.workspace = true
[dev-dependencies]
flow-testkit.workspace = true
[dev-dependencies.flow-report]
workspace = true
";
    let found = dependencies(manifest);
    assert_eq!(found, ["flow-core", "flow-sim", "flow-exec", "flow-store", "flow-slurm"]);
}
