//! Which file of a crate imports which, and where that goes in a cycle.
//!
//! A file imports another if its code, tests aside, names something that the other *defines*: in a `use`, or by a path. What a
//! module only hands on (`pub use child::Thing`) is followed to the file that defines it, so a child may take its sisters' names
//! from `super`. What a `mod.rs` takes from the files in its own folder does not count: it is the door of these modules, which
//! may hold the words that all of them use and call each of them. So cycles are between sisters, cousins and aunts. Methods,
//! and names that come from macros, are not seen.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use crate::code::Path;

use crate::code::Code;

/// The modules of one crate: each is one file, by its path in the crate; the crate itself is the empty path.
pub(crate) type Modules<'a> = BTreeMap<Path, &'a Code>;

/// Who imports whom, and by which names.
pub(crate) type Imports = BTreeMap<Path, BTreeMap<Path, BTreeSet<String>>>;

/// The path in its crate of the module in the file at `path`, which is from `src/`: `sched/mod.rs` is `sched`.
pub(crate) fn module(path: &str) -> Path {
    let mut parts: Path = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    parts.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    parts
}

/// The imports of every file of a crate.
pub(crate) fn imports(modules: &Modules<'_>) -> Imports {
    modules.keys().map(|from| (from.clone(), imports_of(modules, from))).collect()
}

fn imports_of(modules: &Modules<'_>, from: &Path) -> BTreeMap<Path, BTreeSet<String>> {
    let code = modules[from];
    let mut named = BTreeSet::new();
    for import in code.imports.iter().filter(|import| import.alias.is_some()) {
        let handed_on = import.public && !code.paths.iter().any(|path| Some(&path[0]) == import.alias.as_ref());
        let module = absolute(modules, from, &import.path).is_some_and(|path| modules.contains_key(&path));
        if !handed_on && !module {
            named.insert(import.path.clone());
        }
    }
    let imported = |path: &Path| path.len() == 1 && code.imports.iter().any(|i| i.alias.as_ref() == path.first());
    for path in code.paths.iter().filter(|path| !imported(path)) {
        named.insert(path.clone());
        let globs = code.imports.iter().filter(|import| import.alias.is_none());
        named.extend(globs.map(|glob| [&glob.path[..], path].concat()));
    }
    let mut to: BTreeMap<Path, BTreeSet<String>> = BTreeMap::new();
    for path in named {
        let target = absolute(modules, from, &path).and_then(|path| home(modules, &path, 0));
        if let Some(target) = target.filter(|target| !target.starts_with(from)) {
            to.entry(target).or_default().insert(path.join("::"));
        }
    }
    to
}

/// A path as seen from the crate's root; absent if it leads out of the crate.
fn absolute(modules: &Modules<'_>, from: &Path, path: &[String]) -> Option<Path> {
    absolute_without(modules, from, path, &mut Vec::new())
}

fn absolute_without(modules: &Modules<'_>, from: &Path, path: &[String], seen: &mut Path) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => return Some(rest.to_vec()),
        "self" => return Some([from, rest].concat()),
        "super" => {
            let mut at = from.clone();
            let supers = path.iter().take_while(|part| *part == "super").count();
            at.truncate(at.len().checked_sub(supers)?);
            return Some([&at[..], &path[supers..]].concat());
        }
        _ => {}
    }
    let child = [&from[..], std::slice::from_ref(first)].concat();
    if modules.contains_key(&child) {
        return Some([&child[..], rest].concat());
    }
    if seen.contains(first) {
        return None;
    }
    let import = modules[from].imports.iter().find(|import| import.alias.as_ref() == Some(first))?;
    seen.push(first.clone());
    let stands_for = absolute_without(modules, from, &import.path, seen)?;
    Some([&stands_for[..], rest].concat())
}

/// The module that defines what a path from the crate's root names. A module itself is named by no code.
fn home(modules: &Modules<'_>, path: &[String], depth: usize) -> Option<Path> {
    let known = (0..=path.len()).rev().find(|&end| modules.contains_key(&path[..end]))?;
    let (module, rest) = (path[..known].to_vec(), &path[known..]);
    let name = rest.first()?;
    let code = modules[&module];
    if code.items.contains(name) || depth == 16 {
        return Some(module);
    }
    let follow = |stands_for: &Path, rest: &[String]| {
        let path = absolute(modules, &module, stands_for)?;
        home(modules, &[&path[..], rest].concat(), depth + 1)
    };
    if let Some(import) = code.imports.iter().find(|import| import.alias.as_ref() == Some(name)) {
        return follow(&import.path, &rest[1..]);
    }
    let mut globs = code.imports.iter().filter(|import| import.alias.is_none());
    globs.find_map(|glob| follow(&glob.path, rest))
}

/// The cycles: sets of files each of which leads to all others.
pub(crate) fn cycles(imports: &Imports) -> Vec<BTreeSet<Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = imports.keys().map(|from| (from, reach(imports, from))).collect();
    let mut cycles = BTreeSet::new();
    for (from, to) in &reached {
        let cycle: BTreeSet<Path> =
            to.iter().filter(|other| reached[**other].contains(*from)).map(|other| (*other).clone()).collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reach<'a>(imports: &'a Imports, from: &'a Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Path> = imports[from].keys().collect();
    while let Some(at) = open.pop() {
        if reached.insert(at) {
            open.extend(imports[at].keys());
        }
    }
    reached
}

/// A cycle in words, with the names by which its files import each other.
pub(crate) fn words(imports: &Imports, cycle: &BTreeSet<Path>) -> String {
    let mut text = String::new();
    for from in cycle {
        for (to, names) in imports[from].iter().filter(|(to, _)| cycle.contains(*to)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("  {} takes {} from {}\n", show(from), names.join(", "), show(to));
        }
    }
    text
}

fn show(path: &Path) -> String {
    if path.is_empty() { "crate".to_owned() } else { path.join("::") }
}
