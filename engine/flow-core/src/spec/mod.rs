//! The workflow file as typed values: from text to [`Workflow`], with every error and its place. Does not know what plugins
//! there are or what the machine is.

use std::collections::BTreeSet;

use crate::Diagnostic;

/// The text of a workflow and the name it has for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file as the user named it, for messages.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// A workflow as written. Errors that leave something to go on with are kept, and come back from
/// [`Workflow::expand`] together with what expansion finds, so that all errors of a file are told in one go.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub(crate) source: Source,
}

/// Reads a workflow.
///
/// # Errors
/// Only where nothing can be made of the text: it is no YAML, no mapping, or written for a newer flow. Everything else that
/// is wrong waits in [`Workflow::errors`].
pub fn parse(source: &Source) -> Result<Workflow, Vec<Diagnostic>> {
    Ok(Workflow { source: source.clone() })
}

impl Workflow {
    /// Its name.
    pub fn name(&self) -> &str {
        ""
    }

    /// What is wrong as far as the text alone tells; [`Workflow::expand`] returns these too.
    pub fn errors(&self) -> &[Diagnostic] {
        &[]
    }

    /// The text it was read from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Names of the plugins that it uses, sorted.
    pub fn plugins(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }
}
