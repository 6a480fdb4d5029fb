//! Expansion: from a workflow, what is installed and the machine to instances with their edges. Does not know results or files.

mod facts;

pub use facts::{ExpandRequest, Expansion, Group, Publish, PublishTo, ResolveError, StepFacts, Uses};

use crate::{BuiltinInput, Diagnostic, InstanceId, Render, Resolved, Settled, Workflow};

impl Workflow {
    /// Makes the instances.
    ///
    /// # Errors
    /// Everything that is wrong with the file and the request, in the order of the file.
    pub fn expand(&self, _request: &ExpandRequest<'_>) -> Result<Expansion, Vec<Diagnostic>> {
        Err(vec![Diagnostic::new("expansion is not built yet")])
    }
}

impl Expansion {
    /// The instance's body with every expression evaluated, results of what it needs included.
    ///
    /// # Errors
    /// An expression reads what is not there: the output of something that failed or was skipped, an unknown metric. Or a
    /// value that became known only now is not what the plugin's schema asks for.
    pub fn resolve(&self, _id: InstanceId, _settled: &dyn Settled, _render: Render) -> Result<Resolved, ResolveError> {
        Err(ResolveError { message: "not built yet".to_owned() })
    }

    /// The instances that targets name and all that they need, ascending. A target is a step or a label; a step means all of
    /// its instances.
    ///
    /// # Errors
    /// An unknown name, with the nearest one.
    pub fn targets(&self, _names: &[String]) -> Result<Vec<InstanceId>, Vec<Diagnostic>> {
        Ok(Vec::new())
    }

    /// What a built-in step sees, as far as results tell; `series` and `files` are for the caller to fill. `None` for an
    /// instance that is no built-in.
    ///
    /// # Errors
    /// As [`Expansion::resolve`].
    pub fn builtin_input(&self, _id: InstanceId, _settled: &dyn Settled) -> Result<Option<BuiltinInput>, ResolveError> {
        Ok(None)
    }
}
