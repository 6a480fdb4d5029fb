//! Errors in and out of the library that evaluates: flow's own are values all the way, the library's are its words.

use std::error::Error as _;

use minijinja::{Error, ErrorKind};

use crate::reason::Fault;

/// An error of flow's own for the library that evaluates: it comes back out of there by [`fault`].
pub(super) fn refused(fault: impl Into<Fault>) -> Error {
    let fault = fault.into();
    Error::new(ErrorKind::InvalidOperation, fault.to_string()).with_source(fault)
}

/// The fault that flow raised in an evaluation, else minijinja's message.
pub(super) fn fault(error: &Error) -> Fault {
    let mut sources = std::iter::successors(error.source(), |&source| source.source());
    let own = sources.find_map(|source| source.downcast_ref::<Fault>());
    own.cloned().unwrap_or_else(|| words(error).into())
}

/// An error of minijinja's without its own idea of file and line.
pub(super) fn words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    }
}
