//! Environments that a workflow declares. Does not know what is in them.

/// An entry of `environments:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredEnvironment {
    pub name: String,
    pub provider: EnvironmentProvider,
    /// The path or image, as written.
    pub written: String,
    /// The folder or image file, absolute. The engine replaces it if flow makes the environment.
    pub place: String,
}

/// Where an environment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentProvider {
    /// A project with a `uv.lock`, from which uv makes the environment.
    Uv,
    /// A folder that exists: a virtual, conda or module environment.
    Prefix,
    /// An image file, in which Apptainer runs the command.
    Apptainer,
}

impl EnvironmentProvider {
    /// All providers by key.
    pub(crate) const ALL: [(&'static str, EnvironmentProvider); 3] = [
        ("uv", EnvironmentProvider::Uv),
        ("prefix", EnvironmentProvider::Prefix),
        ("apptainer", EnvironmentProvider::Apptainer),
    ];

    /// Its key in an entry of `environments:`.
    pub fn key(self) -> &'static str {
        match self {
            EnvironmentProvider::Uv => "uv",
            EnvironmentProvider::Prefix => "prefix",
            EnvironmentProvider::Apptainer => "apptainer",
        }
    }
}
