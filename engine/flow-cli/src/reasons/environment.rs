//! Words differences between software environments.

use flow_core::Difference;

use crate::words;

/// A difference between the environment of a result and another one.
pub(crate) fn difference(difference: &Difference) -> String {
    match difference {
        Difference::Python { was, is } => format!("Python {was} → {is}"),
        Difference::Package { name, was: Some(was), is: Some(is) } => format!("{name} {was} → {is}"),
        Difference::Package { name, was: Some(was), is: None } => format!("{name} {was} is gone"),
        Difference::Package { name, is, .. } => format!("{name} {} is new", is.as_deref().unwrap_or_default()),
        Difference::Program { name, was, is } if was == is => format!("`{name}` changed ({is})"),
        Difference::Program { name, was, is } => format!("`{name}` was {was}, is {is}"),
        Difference::Variable { name } => format!("`{name}` differs"),
    }
}

/// The first of these, and how many more there are.
pub(crate) fn differences(all: &[Difference], most: usize) -> Vec<String> {
    words::cut(all.iter().map(difference), most, |more| format!("{} (-v)", words::count(more, "more difference")))
}
