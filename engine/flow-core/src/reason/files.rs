//! Errors in the files of an attempt: those that it starts with, those with its numbers, and those of its protocol. No
//! words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault,
    texts::{Texts, texts},
};
use crate::Difference;

/// Why the folder of an attempt could not be prepared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum FolderFault {
    /// One of its own files or folders could not be made.
    Own {
        path: String,
        /// The system's error.
        error: Fault,
    },
    /// An input cannot be brought there.
    Input {
        /// As written by its author.
        path: String,
        /// The system's error.
        error: Fault,
    },
    /// An input would be written into another one, which is the author's folder.
    InputInInput {
        /// Its place.
        path: String,
        /// The folder that would contain it.
        folder: String,
    },
    /// An input changed after it was hashed.
    InputChanged { path: String },
    /// The packages of its declared environment changed after the run was planned.
    EnvironmentChanged {
        name: String,
        /// The first of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        differences: Vec<Difference>,
    },
    /// An artifact of another step cannot be brought there.
    Artifact {
        /// The store's error.
        error: Fault,
    },
    /// The plugin no longer exists.
    NoPlugin { plugin: String },
}

/// An error at a place where a plain program's numbers were expected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum NoMetrics {
    /// The file cannot be read.
    Unread {
        file: String,
        /// The system's error.
        error: Fault,
    },
    /// It is not valid JSON.
    NoJson {
        file: String,
        /// The parser's error.
        error: String,
    },
    /// It is JSON of another form.
    NoNumbers { file: String },
    /// A line is not a JSON object.
    BadLine {
        file: String,
        /// Counted from 1.
        line: u32,
        /// The line, shortened if it is long.
        text: String,
    },
    /// Its first row has numbers, and no line names them.
    NoHeader { file: String },
    /// The file has no number.
    NoneInFile { file: String },
    /// The table has no number below its header.
    NoneInTable { file: String },
    /// The folder has no TensorBoard event file.
    NoEventFile {
        /// The declared folder.
        file: String,
    },
    /// An event file is damaged.
    BadEvent {
        file: String,
        /// Position in the file, in bytes.
        at: u64,
    },
    /// No printed line matches these patterns.
    NoneMatches {
        /// In declared order.
        patterns: Vec<UnmatchedPattern>,
    },
}

/// A pattern that no line matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct UnmatchedPattern {
    pub pattern: String,
    /// The most similar line, if one has any of its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl NoMetrics {
    /// The same for another instance, whose lines may have other numbers.
    pub fn without_lines(&self) -> NoMetrics {
        let plain = |of: &UnmatchedPattern| UnmatchedPattern { pattern: of.pattern.clone(), nearest: None };
        match self {
            NoMetrics::NoneMatches { patterns } => {
                NoMetrics::NoneMatches { patterns: patterns.iter().map(plain).collect() }
            }
            other => other.clone(),
        }
    }
}

impl Texts for UnmatchedPattern {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.pattern.texts(each);
        self.nearest.texts(each);
    }
}

/// Why a program was stopped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// It speaks another version of the protocol.
    OtherProtocol {
        /// The plugin and its version.
        plugin: String,
        /// The plugin's version of the protocol.
        theirs: u32,
        /// This flow's version of it.
        ours: u32,
    },
    /// It wrote a message before `hello`.
    NoHello {
        /// The expected version of the protocol.
        protocol: u32,
    },
    /// Its messages cannot be read.
    MessagesUnread {
        /// The system's error.
        error: Fault,
    },
    /// Its log cannot be read.
    LogUnread {
        /// The system's error.
        error: Fault,
    },
    /// Its log is too long, and cannot be shortened while it writes.
    LogTooLong {
        /// Maximum length, MiB.
        most: u32,
        /// The system's error.
        error: Fault,
    },
    /// Messages to it cannot be written.
    NotReached {
        folder: String,
        /// The system's error.
        error: Fault,
    },
}

crate::compiled_once::compiled_once!(FolderFault, NoMetrics, Refusal);

texts! {
    FolderFault {
        Own { path, error }, Input { path, error }, InputInInput { path, folder }, InputChanged { path },
        EnvironmentChanged { name, differences },
        Artifact { error }, NoPlugin { plugin },
    }
    NoMetrics {
        Unread { file, error }, NoJson { file, error }, NoNumbers { file }, BadLine { file, line, text },
        NoHeader { file }, NoneInFile { file }, NoneInTable { file }, NoEventFile { file }, BadEvent { file, at },
        NoneMatches { patterns },
    }
    Refusal {
        OtherProtocol { plugin, theirs, ours }, NoHello { protocol }, MessagesUnread { error }, LogUnread { error },
        LogTooLong { most, error }, NotReached { folder, error },
    }
}
