//! The record of a finished set-up, in `.flow/plugins/NAME.json`. Local to this machine, never part of a fingerprint.

use std::{
    env, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::Digest;
use flow_supervisor::attempt::write_atomically;
use serde::{Deserialize, Serialize};

/// A set-up that succeeded.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub digest: Digest,
    /// The started program, as the set-up left it. Another root that shares the plugin may have rebuilt it.
    pub program: Program,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    path: PathBuf,
    bytes: u64,
    modified: (i64, i64),
}

impl Record {
    /// `None` if it is missing or unreadable: then the plugin is set up again.
    pub(super) fn read(path: &Path) -> Option<Record> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        write_atomically(path, &serde_json::to_vec_pretty(self)?)
    }
}

impl Program {
    /// The program that `argv` starts. `None` if the program, or a file among the arguments, is missing.
    pub(super) fn of(argv: &[String]) -> Option<Program> {
        let program = argv.first()?;
        let path = if program.contains('/') {
            PathBuf::from(program)
        } else {
            env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())?
        };
        if argv[1..].iter().any(|word| word.starts_with('/') && !Path::new(word).exists()) {
            return None;
        }
        let meta = path.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Program { path, bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) })
    }
}
