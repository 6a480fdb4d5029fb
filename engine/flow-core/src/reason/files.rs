//! What is wrong with the files of an attempt: those that it is to begin with, those in which its numbers were expected, and those
//! by which it speaks. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault,
    texts::{Texts, texts},
};

/// Why the folder of an attempt could not be made ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Filling {
    /// A file or a folder of its own could not be made.
    Own {
        path: String,
        /// What the system said.
        error: Fault,
    },
    /// An input cannot be brought there.
    Input {
        /// As its author wrote it.
        path: String,
        /// What the system said.
        error: Fault,
    },
    /// An input would be written into another one, a folder of the author's.
    InputInInput {
        /// Where it would be.
        path: String,
        /// The folder that it would lie in.
        folder: String,
    },
    /// An input changed since it was hashed.
    InputChanged { path: String },
    /// An artifact of another step cannot be brought there.
    Artifact {
        /// What the store said.
        error: Fault,
    },
    /// The plugin is gone.
    NoPlugin { plugin: String },
}

/// Where the numbers of a plain program were expected, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum NoMetrics {
    /// The file cannot be read.
    Unread {
        file: String,
        /// What the system said.
        error: Fault,
    },
    /// It is no JSON.
    NoJson {
        file: String,
        /// What the library that reads it said.
        error: String,
    },
    /// It is JSON of another form.
    NoNumbers { file: String },
    /// A line is no JSON object.
    BadLine {
        file: String,
        /// Counted from 1.
        line: u32,
        /// The line, cut where it is long.
        text: String,
    },
    /// Its first row is of numbers, and no line names them.
    NoHeader { file: String },
    /// The file holds no number.
    NoneInFile { file: String },
    /// The table holds no number below its header.
    NoneInTable { file: String },
    /// No event file of TensorBoard is in the folder.
    NoEventFile {
        /// The folder that was found where a file was expected.
        file: String,
    },
    /// An event file is damaged.
    BadEvent {
        file: String,
        /// The place in the file, in bytes.
        at: u64,
    },
    /// No printed line matches these patterns.
    NoneMatches {
        /// In the order in which they were declared.
        patterns: Vec<Unmatched>,
    },
}

/// A pattern that no line matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Unmatched {
    pub pattern: String,
    /// The line that is most like it, if one has any of its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl NoMetrics {
    /// The same of another instance, whose lines may have other numbers.
    pub fn without_lines(&self) -> NoMetrics {
        let plain = |of: &Unmatched| Unmatched { pattern: of.pattern.clone(), nearest: None };
        match self {
            NoMetrics::NoneMatches { patterns } => {
                NoMetrics::NoneMatches { patterns: patterns.iter().map(plain).collect() }
            }
            other => other.clone(),
        }
    }
}

impl Texts for Unmatched {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.pattern.texts(each);
        self.nearest.texts(each);
    }
}

/// Why a program was not let go on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// It speaks another version of the protocol.
    OtherProtocol {
        /// The plugin and its version.
        plugin: String,
        /// The version of the protocol that the plugin speaks.
        theirs: u32,
        /// What this flow speaks.
        ours: u32,
    },
    /// It wrote a message before `hello`.
    NoHello {
        /// The version of the protocol that was expected.
        protocol: u32,
    },
    /// Its messages cannot be read.
    MessagesUnread {
        /// What the system said.
        error: Fault,
    },
    /// Its log cannot be read.
    LogUnread {
        /// What the system said.
        error: Fault,
    },
    /// Its log is too long, and cannot be shortened while it writes.
    LogTooLong {
        /// The most that is allowed, MiB.
        most: u32,
        /// What the system said.
        error: Fault,
    },
    /// It cannot be told to go on or to end.
    NotReached {
        folder: String,
        /// What the system said.
        error: Fault,
    },
}

crate::compiled_once::compiled_once!(Filling, NoMetrics, Refusal);

texts! {
    Filling {
        Own { path, error }, Input { path, error }, InputInInput { path, folder }, InputChanged { path },
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
