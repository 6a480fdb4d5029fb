//! GPUs for tests: the stand-in for NVIDIA's library, and the file that says what it tells.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::TestSpace;

/// The file, relative to the space.
const FILE: &str = "gpus.txt";

/// GPUs that are not there, as a real driver would tell of them.
pub struct Gpus {
    file: PathBuf,
}

impl TestSpace {
    /// Gives the space GPUs, as `flow-fake-nvml` describes them; a step can add to the file, named by `FAKE_NVML`.
    ///
    /// # Panics
    /// The stand-in was not built.
    pub fn gpus(&mut self, text: &str) -> Gpus {
        let gpus = Gpus { file: self.path(FILE) };
        gpus.set(text);
        let library = library();
        assert!(library.exists(), "{} was not built", library.display());
        self.env("FLOW_NVML_LIB", &library.to_string_lossy());
        self.env(flow_fake_nvml::STATE_VAR, &gpus.file.to_string_lossy());
        gpus
    }
}

impl Gpus {
    /// Says everything anew.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn set(&self, text: &str) {
        let next = self.file.with_extension("next");
        fs::write(&next, text).expect("the GPUs");
        // The library reads it at every call: it is never half written.
        fs::rename(next, &self.file).expect("the GPUs");
    }

    /// Replaces a part, which must be there.
    ///
    /// # Panics
    /// It is not.
    #[track_caller]
    pub fn change(&self, from: &str, to: &str) {
        let text = self.text();
        assert!(text.contains(from), "`{from}` is not in:\n{text}");
        self.set(&text.replacen(from, to, 1));
    }

    pub fn add(&self, line: &str) {
        self.set(&format!("{}{line}\n", self.text()));
    }

    /// What the file says now.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap_or_default()
    }
}

/// The library, which is built next to the running test.
fn library() -> PathBuf {
    let me = std::env::current_exe().unwrap_or_default();
    me.parent().unwrap_or(Path::new(".")).join("libflow_fake_nvml.so")
}
