//! Finding, digesting and setting up plugins. Only the names that the driver uses; discovery replaces this file.

use std::path::{Path, PathBuf};

use flow_core::PluginFacts;

/// A plugin that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PluginError(pub String);

/// A plugin as found.
#[derive(Debug)]
pub struct Plugin {
    name: String,
}

impl Plugin {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the core needs to know; without `digest` the content is not read and the digest is zero.
    ///
    /// # Errors
    /// Its content cannot be read.
    pub fn facts(&self, _digest: bool) -> Result<PluginFacts, PluginError> {
        Err(PluginError(format!("plugin {} cannot be read", self.name)))
    }

    /// Program and arguments, absolute.
    pub fn argv(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its own variables.
    pub fn env(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Every plugin in these folders.
///
/// # Errors
/// A description is broken; two have one name.
pub fn discover(_folders: &[PathBuf]) -> Result<Vec<Plugin>, PluginError> {
    Ok(Vec::new())
}

/// Sets a plugin up, once for each digest; `record` is the file that says for which it is.
///
/// # Errors
/// A command failed: which, with its last lines, and what to do.
pub fn set_up(_plugin: &Plugin, _record: &Path, _line: &mut dyn FnMut(&str)) -> Result<(), PluginError> {
    Ok(())
}
