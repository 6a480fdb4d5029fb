//! Compares the dependencies of `pyproject.toml` with those that `uv.lock` was made from. Reads text only; what it cannot
//! read counts as equal. `uv lock --check` needs uv and a network.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{DocumentMut, TableLike};

use crate::site_packages::normalized;

/// A dependency: its name, and its version ranges if it has no URL. Without `;` and extras.
type Requirements = BTreeMap<String, BTreeSet<BTreeSet<String>>>;

/// The first difference, in words.
pub(super) fn outdated(project: &str, lock: &str) -> Option<String> {
    let (wanted, locked) = (of_project(project)?, of_lock(lock)?);
    let shown = |name: &str, ranges: &BTreeSet<BTreeSet<String>>| {
        let range = ranges.iter().next().map(|range| range.iter().cloned().collect::<Vec<_>>().join(","));
        format!("`{name}{}`", range.unwrap_or_default())
    };
    for (name, ranges) in &wanted {
        match locked.get(name) {
            None => return Some(format!("{} is not in the lock file", shown(name, ranges))),
            Some(others) if ranges.len() == 1 && others.len() == 1 && ranges != others => {
                return Some(format!("the lock file is for {}, not {}", shown(name, others), shown(name, ranges)));
            }
            Some(_) => {}
        }
    }
    let gone = locked.keys().find(|name| !wanted.contains_key(*name))?;
    Some(format!("`{gone}` is only in the lock file"))
}

/// `dependencies` under `[project]`; none if a build backend computes them.
fn of_project(text: &str) -> Option<Requirements> {
    let file: DocumentMut = text.parse().ok()?;
    let project = file.get("project")?.as_table_like()?;
    let list = |key: &str| project.get(key).map_or(Some(Vec::new()), |item| Some(item.as_array()?.iter().collect()));
    if list("dynamic")?.iter().any(|name| name.as_str() == Some("dependencies")) {
        return None;
    }
    let mut all = Requirements::new();
    for requirement in list("dependencies")? {
        add(&mut all, requirement.as_str()?);
    }
    Some(all)
}

fn add(all: &mut Requirements, requirement: &str) {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let requirement = requirement.trim();
    let end = requirement.find(|c| !is_of_name(c)).unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at(end);
    let rest = rest.trim_start();
    let rest = if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, rest)| rest) } else { rest };
    let rest = rest.split(';').next().unwrap_or(rest);
    let ranges = all.entry(normalized(name)).or_default();
    if !rest.contains('@') {
        ranges.insert(range(rest));
    }
}

/// `>=1.26, <2` in its parts.
fn range(text: &str) -> BTreeSet<String> {
    let bare = text.split(',').map(|part| part.chars().filter(|c| !c.is_whitespace() && !"()".contains(*c)).collect());
    bare.filter(|part: &String| !part.is_empty()).collect()
}

/// What the project itself needs, as written when it was locked; none if the file does not say it.
fn of_lock(text: &str) -> Option<Requirements> {
    // A source other than an index has no version range.
    const OTHER_SOURCES: [&str; 6] = ["url", "git", "editable", "directory", "path", "virtual"];
    let file: DocumentMut = text.parse().ok()?;
    let text_of = |table: &dyn TableLike, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let mut packages = file.get("package")?.as_array_of_tables()?.iter();
    let own = packages.find(|package| {
        let source = package.get("source").and_then(|source| source.as_table_like());
        source.is_some_and(|source| {
            ["virtual", "editable"].iter().any(|kind| text_of(source, kind).as_deref() == Some("."))
        })
    })?;
    let metadata = own.get("metadata").and_then(|metadata| metadata.as_table_like());
    let Some(list) = metadata.and_then(|metadata| metadata.get("requires-dist")) else {
        return own.get("dependencies").is_none().then(Requirements::new);
    };
    let mut all = Requirements::new();
    for entry in list.as_array()? {
        let entry = entry.as_inline_table()?;
        if text_of(entry, "marker").is_some_and(|marker| marker.contains("extra ==")) {
            continue;
        }
        let ranges = all.entry(normalized(&text_of(entry, "name")?)).or_default();
        if !OTHER_SOURCES.iter().any(|source| entry.contains_key(source)) {
            ranges.insert(range(&text_of(entry, "specifier").unwrap_or_default()));
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::outdated;

    const LOCK: &str = r#"version = 1
requires-python = ">=3.11"

[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "lab"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "numpy" },
    { name = "scikit-learn" },
]

[package.optional-dependencies]
dev = [
    { name = "pytest" },
]

[package.metadata]
requires-dist = [
    { name = "numpy", specifier = ">=1.26,<2" },
    { name = "pytest", marker = "extra == 'dev'" },
    { name = "scikit-learn", extras = ["all"] },
]
provides-extras = ["dev"]
"#;

    #[test]
    fn a_lock_file_that_lacks_a_dependency_or_has_another_range_is_outdated() {
        let told = |dependencies: &str| {
            let project = format!(
                "[build-system]\nrequires = ['x']\n[project]\nname = 'lab'\n{dependencies}\n[project.optional-dependencies]\ndev = ['pytest']\n"
            );
            outdated(&project, LOCK)
        };
        let fits =
            "dependencies = [\n  \"numpy >=1.26, <2\", # fast ]\n  'Scikit_Learn[all] ; python_version > \"3\"',\n]";
        assert_eq!(told(fits), None);
        let table = [
            ("dependencies = ['numpy>=1.26,<2', 'scikit-learn', 'torch==2.1']", "`torch==2.1` is not in the lock file"),
            ("dependencies = ['numpy>=2', 'scikit-learn']", "the lock file is for `numpy<2,>=1.26`, not `numpy>=2`"),
            ("dependencies = ['numpy>=1.26,<2']", "`scikit-learn` is only in the lock file"),
            ("", "`numpy` is only in the lock file"),
        ];
        for (dependencies, expected) in table {
            assert_eq!(told(dependencies).as_deref(), Some(expected), "{dependencies}");
        }
        let fine = [
            "dynamic = [\n  'version', # one ]\n  'dependencies',\n]",
            "dependencies = ['numpy @ https://x/n.whl', 'scikit-learn']",
            "\"dependencies\" = ['numpy>=1.26,<2; python_version > \\'3\\'', 'scikit-learn']",
            "dependencies = [\"numpy>=1.26,<2; os_name != \\\"nt\\\"\", \"\"\"scikit-learn\"\"\"]",
        ];
        assert_eq!(fine.map(told), [const { None }; 4]);
    }

    #[test]
    fn what_cannot_be_read_counts_as_equal() {
        let project = "[project]\ndependencies = ['numpy']\n";
        assert_eq!(outdated(project, "numpy==1.0\n"), None);
        let fits = "[ project ] # the project\nname = 'lab'\ndependencies = [\n'numpy>=1.26,<2',\n'scikit-learn' ]\n";
        assert_eq!(outdated(fits, LOCK), None);
        let dotted = "project.name = 'lab'\nproject.dependencies = ['scikit-learn', 'numpy>=1.26,<2']\n";
        assert_eq!(outdated(dotted, LOCK), None);
        assert!(outdated(&dotted.replace("'scikit-learn', ", ""), LOCK).is_some());
        let inline = |list: &str| {
            format!(
                "[[package]]\nname = \"lab\"\nsource = {{ editable = \".\" }}\n\n[package.metadata]\nrequires-dist = [{list}]\n"
            )
        };
        assert_eq!(outdated(project, &inline("{ name = \"numpy\" }")), None);
        assert!(outdated(project, &inline("{ name = \"torch\" }")).is_some());
        assert_eq!(
            outdated("[project]\nname = 'lab'\n", "[[package]]\nname = \"lab\"\nsource = { virtual = \".\" }\n"),
            None
        );
        assert!(outdated(project, "[[package]]\nname = \"lab\"\nsource = { virtual = \".\" }\n").is_some());
    }
}
