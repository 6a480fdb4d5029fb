//! How a step fails. Knows no kinds but the two that the engine treats differently.

use std::fmt;

/// Why a step did not end well. Any [`std::error::Error`] becomes one with `?`, its chain of causes in one sentence.
///
/// It is deliberately no `std::error::Error` itself, which would forbid that conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The GPU's memory did not suffice: a result that flow keeps and draws.
    OutOfMemory(String),
    /// Everything else.
    Failed(String),
}

impl Error {
    /// It failed, in words for the user: what, where, what was expected, what to do.
    pub fn failed(message: impl fmt::Display) -> Self {
        Error::Failed(message.to_string())
    }

    /// The GPU's memory did not suffice.
    pub fn out_of_memory(message: impl fmt::Display) -> Self {
        Error::OutOfMemory(message.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::OutOfMemory(message) | Error::Failed(message) => f.write_str(message),
        }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let words = error.to_string();
            // Many libraries repeat the cause in their own words; once is enough.
            if !message.ends_with(&words) {
                message = format!("{message}: {words}");
            }
            cause = error.source();
        }
        Error::Failed(message)
    }
}
