//! Notes that the results of a table come from different software environments.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{Difference, Digest, Environment, StepResult};
use indexmap::IndexMap;

use super::grid::dash;
use super::model::{Note, VaryingVersion};

/// So many differences are named.
const NAMED: usize = 6;

/// The note, if programs or packages differ among these results. Variables do not count: they differ from shell to
/// shell.
pub(super) fn note<'r>(
    results: impl Iterator<Item = &'r StepResult>,
    known: &BTreeMap<Digest, Environment>,
) -> Option<Note> {
    let recorded: BTreeSet<Digest> = results.filter_map(|result| result.circumstances.environment).collect();
    let mut found = recorded.iter().filter_map(|digest| known.get(digest));
    let first = found.next()?;
    let mut differences: Vec<Difference> = found.flat_map(|other| first.differences(other)).collect();
    differences.sort();
    let mut varying: IndexMap<String, BTreeSet<String>> = IndexMap::new();
    for difference in differences {
        let (name, values) = match difference {
            Difference::Python { was, is } => ("Python".to_owned(), vec![was, is]),
            Difference::Package { name, was, is } => {
                (name, [was, is].into_iter().map(|version| version.unwrap_or_else(dash)).collect())
            }
            // Their paths name folders of this machine.
            Difference::Program { name, .. } => (name.rsplit('/').next().unwrap_or_default().to_owned(), Vec::new()),
            Difference::Variable { .. } => continue,
        };
        varying.entry(name).or_default().extend(values);
    }
    let more = varying.len().saturating_sub(NAMED) as u32;
    let varying: Vec<VaryingVersion> = varying
        .into_iter()
        .take(NAMED)
        .map(|(name, values)| VaryingVersion { name, values: values.into_iter().collect() })
        .collect();
    (!varying.is_empty()).then_some(Note::Environments { varying, more })
}
