//! Why the numbers of a result may not cover the whole attempt. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Difference, Environment};

/// Why the numbers of a result may not cover the whole attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Caveat {
    /// A series holds only the first values. Last, min and max cover all values.
    FirstValues {
        /// Number of values kept.
        kept: u64,
        /// Number of values printed.
        printed: u64,
    },
    /// Part of the output was not read: it came too fast, or the middle of a long log was freed.
    OutputUnread { bytes: u64 },
    /// It resumed from a checkpoint of an attempt in another software environment.
    OtherEnvironment {
        /// The most telling first.
        differences: Vec<Difference>,
        /// Number of further differences.
        more: u32,
    },
}

impl Caveat {
    /// The caveat of a result that resumed from attempts in these environments, if a program or package differs.
    pub fn resumed(own: &Environment, earlier: impl Iterator<Item = Environment>) -> Option<Caveat> {
        const NAMED: usize = 6;
        let mut differences: Vec<Difference> = Vec::new();
        for difference in earlier.flat_map(|was| was.differences(own)) {
            if !difference.is_variable() && !differences.contains(&difference) {
                differences.push(difference);
            }
        }
        let more = differences.len().saturating_sub(NAMED) as u32;
        differences.truncate(NAMED);
        (!differences.is_empty()).then_some(Caveat::OtherEnvironment { differences, more })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Digest, ProgramFile, Python};

    #[test]
    fn a_result_that_resumed_after_an_upgrade_has_a_caveat() {
        let environment = |packages: &[(&str, &str)], scale: &str| {
            let (path, prefix) = ("/venv/bin/python".to_owned(), "/venv".to_owned());
            let program = ProgramFile { path, digest: Digest([0; 32]), stamp: None, python: Some(prefix.clone()) };
            let packages = packages.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect();
            Environment {
                programs: BTreeMap::from([("python".to_owned(), program)]),
                pythons: BTreeMap::from([(prefix, Python { packages, ..Python::default() })]),
                variables: BTreeMap::from([("SCALE".to_owned(), Some(scale.to_owned()))]),
                key: Some("k".to_owned()),
                ..Environment::default()
            }
        };
        let package = |was: &str| Difference::Package {
            name: "packaging".to_owned(),
            was: Some(was.to_owned()),
            is: Some("26.4".to_owned()),
        };
        let at = |version: &'static str| environment(&[("packaging", version)], "1");
        let resumed = |earlier: Vec<Environment>| Caveat::resumed(&at("26.4"), earlier.into_iter());
        assert_eq!(resumed(vec![at("26.4"), environment(&[("packaging", "26.4")], "2")]), None);
        let differences = vec![package("23.0"), package("24.1")];
        let expected = Some(Caveat::OtherEnvironment { differences, more: 0 });
        assert_eq!(resumed(vec![at("23.0"), at("24.1"), at("23.0")]), expected);
    }
}
