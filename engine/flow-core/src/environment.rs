//! The software environment of an attempt: programs, Python packages and shell variables, and how two of them differ.
//! No part of a fingerprint: a difference is reported, and nothing runs again because of it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// Packages that matter most to a reader, in this order.
pub const FRAMEWORKS: [&str; 4] = ["torch", "tensorflow", "jax", "scikit-learn"];

/// The environment that a step ran in, as far as it could be found. What is unknown is absent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The Python that the command starts, else its first word; absent if a shell runs that itself.
    pub command: Option<String>,
    /// The `bin` folder of a virtual environment that the command activates.
    pub activated: Option<String>,
    /// By the name under which the step finds them: the command, `python` and `python3`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, ProgramFile>,
    /// The Python installations of these programs, by prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pythons: BTreeMap<String, Python>,
    /// Keyed digests of the shell's variables; `None` for one that the step replaces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Option<String>>,
    /// Identifies the key of these digests. Under another key they cannot be compared.
    pub key: Option<String>,
    /// `PATH` and `PYTHONPATH`, if the step itself sets them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
    /// The command starts a Python that flow cannot find.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub python_unknown: bool,
    /// It was found on a node of a cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_node: bool,
}

/// A program file.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// Its path, without following links.
    pub path: String,
    /// The digest of its content.
    pub digest: Digest,
    /// Seconds and nanoseconds of its modification time, and its size: while they stay, so does the content.
    pub stamp: Option<(i64, i64, u64)>,
    /// For a Python interpreter, or a script run by one: the prefix of the installation.
    pub python: Option<String>,
}

/// A Python installation, or a virtual environment.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    pub version: Option<String>,
    /// Of a declared environment: the platform that its binary packages are made for.
    pub abi: Option<String>,
    /// Versions of the installed distributions, by normalized name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

/// One difference between two environments.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Another version of Python.
    Python { was: String, is: String },
    /// A package has another version, or exists in one of them only.
    Package { name: String, was: Option<String>, is: Option<String> },
    /// A program with other content, at these paths.
    Program { name: String, was: String, is: String },
    /// A shell variable has another value, or is set in one of them only.
    Variable { name: String },
}

impl Difference {
    pub fn is_variable(&self) -> bool {
        matches!(self, Difference::Variable { .. })
    }

    /// Another version of Python or of a package.
    pub fn is_of_python(&self) -> bool {
        matches!(self, Difference::Python { .. } | Difference::Package { .. })
    }

    /// The most telling come first: Python, frameworks, other packages, programs, variables.
    fn rank(&self) -> usize {
        match self {
            Difference::Python { .. } => 0,
            Difference::Package { name, .. } => {
                1 + FRAMEWORKS.iter().position(|known| known == name).unwrap_or(FRAMEWORKS.len())
            }
            Difference::Program { .. } => 2 + FRAMEWORKS.len(),
            Difference::Variable { .. } => 3 + FRAMEWORKS.len(),
        }
    }
}

impl Environment {
    /// The Python installation that runs the command, if its first word is an interpreter or a script of one.
    pub fn python(&self) -> Option<&Python> {
        self.python_of(self.programs.get(self.command.as_ref()?)?)
    }

    fn python_of(&self, program: &ProgramFile) -> Option<&Python> {
        self.pythons.get(program.python.as_ref()?)
    }

    /// Without variables and folders, for another machine.
    #[must_use]
    pub fn without_folders(mut self) -> Environment {
        let numbers: BTreeMap<String, String> =
            self.pythons.keys().enumerate().map(|(n, prefix)| (prefix.clone(), n.to_string())).collect();
        let number = |prefix: &String| numbers.get(prefix).cloned();
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        for program in self.programs.values_mut() {
            program.path = name(&program.path);
            program.python = program.python.as_ref().and_then(number);
        }
        let programs = self.programs.into_iter().map(|(key, program)| (name(&key), program)).collect();
        let pythons =
            self.pythons.into_iter().filter_map(|(prefix, python)| Some((number(&prefix)?, python))).collect();
        let command = self.command.as_deref().map(name);
        let Environment { python_unknown, on_node, .. } = self;
        Environment { command, programs, pythons, python_unknown, on_node, ..Environment::default() }
    }

    /// How a later environment differs, the most telling first. Only what is known of both is compared.
    pub fn differences(&self, is: &Environment) -> Vec<Difference> {
        let mut found = BTreeSet::new();
        for (name, was) in &self.programs {
            let Some(now) = is.programs.get(name) else { continue };
            let (before, after) = (self.python_of(was), is.python_of(now));
            let is_other_python = before.zip(after).is_some_and(|(was, is)| was.differences(is, &mut found));
            // The content of another Python says nothing more.
            if !is_other_python && was.digest != now.digest {
                let (was, is) = (was.path.clone(), now.path.clone());
                found.insert(Difference::Program { name: name.clone(), was, is });
            }
        }
        if self.key.is_some() && self.key == is.key {
            let names: BTreeSet<&String> = self.variables.keys().chain(is.variables.keys()).collect();
            for name in names {
                let (was, is) = (self.variables.get(name), is.variables.get(name));
                let is_replaced = [was, is].contains(&Some(&None));
                if was != is && !is_replaced {
                    found.insert(Difference::Variable { name: name.clone() });
                }
            }
        }
        ranked(found)
    }
}

fn ranked(found: BTreeSet<Difference>) -> Vec<Difference> {
    let mut found: Vec<Difference> = found.into_iter().collect();
    found.sort_by_key(Difference::rank);
    found
}

impl Python {
    /// How a later list of a declared environment differs, the most telling first.
    pub fn differences_to(&self, is: &Python) -> Vec<Difference> {
        let mut found = BTreeSet::new();
        self.differences(is, &mut found);
        if self.version == is.version && self.abi != is.abi {
            let with_abi =
                |of: &Python| [&of.version, &of.abi].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ");
            found.insert(Difference::Python { was: with_abi(self), is: with_abi(is) });
        }
        ranked(found)
    }

    fn differences(&self, is: &Python, found: &mut BTreeSet<Difference>) -> bool {
        let versions = self.version.as_ref().zip(is.version.as_ref()).filter(|(was, is)| was != is);
        found.extend(versions.map(|(was, is)| Difference::Python { was: was.clone(), is: is.clone() }));
        for name in self.packages.keys().chain(is.packages.keys()) {
            let (was, is) = (self.packages.get(name), is.packages.get(name));
            if was != is {
                found.insert(Difference::Package { name: name.clone(), was: was.cloned(), is: is.cloned() });
            }
        }
        versions.is_some() || self.packages != is.packages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(version: &str, packages: &[(&str, &str)], variables: &[(&str, Option<&str>)]) -> Environment {
        let python = Some("/venv".to_owned());
        let program = ProgramFile {
            path: "/venv/bin/python".into(),
            digest: Digest::of(version.as_bytes()),
            stamp: None,
            python,
        };
        let packages = packages.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect();
        Environment {
            command: Some("python".into()),
            programs: BTreeMap::from([("python".into(), program)]),
            pythons: BTreeMap::from([("/venv".into(), Python { version: Some(version.into()), abi: None, packages })]),
            variables: variables.iter().map(|(name, is)| ((*name).to_owned(), is.map(str::to_owned))).collect(),
            key: Some("k".into()),
            ..Environment::default()
        }
    }

    fn package(name: &str, was: Option<&str>, is: Option<&str>) -> Difference {
        Difference::Package { name: name.into(), was: was.map(str::to_owned), is: is.map(str::to_owned) }
    }

    #[test]
    fn environments_are_compared() {
        let plain = environment("3.11.2", &[("numpy", "1.26.4"), ("torch", "2.1")], &[("SCALE", Some("a"))]);
        let variable = |name: &str| Difference::Variable { name: name.into() };
        let python = Difference::Python { was: "3.11.2".into(), is: "3.12.1".into() };
        let of = |version: &str, packages: &[(&str, &str)], variables: &[(&str, Option<&str>)]| {
            plain.differences(&environment(version, packages, variables))
        };
        let (same, scale) = ([("numpy", "1.26.4"), ("torch", "2.1")], [("SCALE", Some("a"))]);
        let table: [(&str, Vec<Difference>, Vec<Difference>); 7] = [
            ("nothing differs", of("3.11.2", &same, &scale), vec![]),
            (
                "an upgrade, and a framework comes first",
                of("3.11.2", &[("numpy", "2.0"), ("torch", "2.2")], &scale),
                vec![package("torch", Some("2.1"), Some("2.2")), package("numpy", Some("1.26.4"), Some("2.0"))],
            ),
            (
                "one is gone, one is new",
                of("3.11.2", &[("numpy", "1.26.4"), ("jax", "0.4")], &scale),
                vec![package("torch", Some("2.1"), None), package("jax", None, Some("0.4"))],
            ),
            ("another Python", of("3.12.1", &same, &scale), vec![python]),
            ("a variable", of("3.11.2", &same, &[("SCALE", Some("b"))]), vec![variable("SCALE")]),
            (
                "a variable is new, one is gone",
                of("3.11.2", &same, &[("OTHER", Some("a"))]),
                vec![variable("OTHER"), variable("SCALE")],
            ),
            ("the step replaces it", of("3.11.2", &same, &[("SCALE", None)]), vec![]),
        ];
        for (what, found, expected) in table {
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn what_is_unknown_is_not_compared() {
        let known = environment("3.11.2", &[("numpy", "1.26.4")], &[("SCALE", Some("a"))]);
        assert_eq!(known.differences(&Environment::default()), []);
        assert_eq!(Environment::default().differences(&known), []);
        let mut other_key = environment("3.11.2", &[("numpy", "1.26.4")], &[("SCALE", Some("b"))]);
        other_key.key = Some("other".into());
        assert_eq!(known.differences(&other_key), []);
    }

    #[test]
    fn without_folders_the_differences_stay() {
        let was = environment("3.11.2", &[("numpy", "1.26.4")], &[("SCALE", Some("a"))]);
        let is = environment("3.11.2", &[("numpy", "2.0")], &[("SCALE", Some("b"))]);
        let hidden = was.clone().without_folders();
        assert_eq!(hidden.differences(&is.clone().without_folders()), [package("numpy", Some("1.26.4"), Some("2.0"))]);
        assert_eq!(was.differences(&is).len(), 2);
        assert!(!format!("{hidden:?}").contains("/venv") && hidden.python().is_some(), "{hidden:?}");
    }

    #[test]
    fn a_program_differs_by_its_content() {
        let program = |path: &str, content: &[u8]| ProgramFile {
            path: path.into(),
            digest: Digest::of(content),
            stamp: None,
            python: None,
        };
        let of =
            |program| Environment { programs: BTreeMap::from([("sim".into(), program)]), ..Environment::default() };
        let was = of(program("/a/sim", b"1"));
        assert_eq!(was.differences(&of(program("/b/sim", b"1"))), []);
        let differs = Difference::Program { name: "sim".into(), was: "/a/sim".into(), is: "/b/sim".into() };
        assert_eq!(was.differences(&of(program("/b/sim", b"2"))), [differs]);
    }
}
