//! A folder of class folders: which photographs it holds, and what in it is something else. Decodes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flow_plugin::{Attempt, Error};
use serde::Serialize;

/// Written by `source` into its output, for people.
pub(crate) const SOURCE_FILE: &str = "source.json";

/// A file that may be a photograph.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The name of its class folder.
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Candidate {
    /// For people: `cat/7.jpg`.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.class, self.name)
    }
}

/// Something that is not used, and why.
#[derive(Debug, Serialize)]
pub(crate) struct IgnoredFile {
    path: String,
    why: String,
}

impl IgnoredFile {
    pub(crate) fn new(path: impl Into<String>, why: impl ToString) -> Self {
        Self { path: path.into(), why: why.to_string() }
    }
}

/// The content of a folder of class folders, in the order of names.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The class folders, whatever is in them.
    pub(crate) classes: Vec<String>,
    pub(crate) files: Vec<Candidate>,
    pub(crate) ignored: Vec<IgnoredFile>,
}

/// Lists `folder`, which `given` is the user's name for.
pub(crate) fn list(folder: &Path, given: &str) -> Result<Listing, Error> {
    let expected = "expected a folder of class folders with JPEG or PNG files, such as cat/1.jpg and dog/1.jpg";
    let entries =
        entries(folder).map_err(|error| Error::failed(format!("cannot read {given}: {error}; {expected}")))?;
    let (mut files, mut ignored, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    for (class, path) in entries {
        match kind_of(&class, &path) {
            Ok(Entry::Folder) => classes.push(class.clone()),
            Ok(Entry::File) if class == SOURCE_FILE => continue,
            Ok(Entry::File) => {
                ignored.push(IgnoredFile::new(class, "a file outside the class folders"));
                continue;
            }
            Err(why) => {
                ignored.push(IgnoredFile::new(class, why));
                continue;
            }
        }
        let names = match self::entries(&path) {
            Ok(names) => names,
            Err(error) => {
                ignored.push(IgnoredFile::new(class, error));
                continue;
            }
        };
        for (name, path) in names {
            let file = Candidate { class: class.clone(), name, path };
            match kind_of(&file.name, &file.path) {
                Ok(Entry::File) => files.push(file),
                Ok(Entry::Folder) => ignored.push(IgnoredFile::new(file.place(), "a folder inside a class folder")),
                Err(why) => ignored.push(IgnoredFile::new(file.place(), why)),
            }
        }
    }
    if files.is_empty() {
        let found = match (classes.len(), ignored.is_empty()) {
            (0, true) => "nothing",
            (0, false) => "no class folder",
            _ => "class folders without a file",
        };
        return Err(Error::failed(format!("no photograph in {given}: {expected}; found {found}")));
    }
    Ok(Listing { classes, files, ignored })
}

impl Listing {
    /// Names in the log what is ignored, in the order of paths. Refuses a folder, or a class folder, of which no photograph
    /// is in the `left` classes: a training would silently not know the class.
    pub(crate) fn check_left(&mut self, given: &str, left: &[String], attempt: &Attempt) -> Result<(), Error> {
        self.ignored.sort_by(|a, b| a.path.cmp(&b.path));
        for IgnoredFile { path, why } in &self.ignored {
            attempt.log(format_args!("ignored {path}: {why}"));
        }
        if left.is_empty() {
            let first = self.ignored.first().map(|first| format!("; the first: {}: {}", first.path, first.why));
            let (files, first) = (self.files.len(), first.unwrap_or_default());
            let none = format!("no photograph in {given}: none of its {files} files is a whole JPEG or PNG{first}");
            return Err(Error::failed(none));
        }
        match self.classes.iter().find(|class| !left.contains(class)) {
            None => Ok(()),
            Some(class) => Err(Error::failed(format!(
                "the class folder `{class}` in {given} has no whole JPEG or PNG: add photographs, or remove the folder"
            ))),
        }
    }
}

/// Names in one class folder of an output, each once.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<(String, String)>);

impl Names {
    /// `class/name`, the name with `extension` added if `ends_well` does not hold, or if it is taken.
    pub(crate) fn place(&mut self, class: &str, name: &str, ends_well: bool, extension: &str) -> String {
        let mut name = if ends_well { name.to_owned() } else { format!("{name}.{extension}") };
        while !self.0.insert((class.to_owned(), name.clone())) {
            name = format!("{name}.{extension}");
        }
        format!("{class}/{name}")
    }
}

enum Entry {
    File,
    Folder,
}

/// Follows links. Never opens anything, because opening a pipe would block forever.
fn kind_of(name: &str, path: &Path) -> Result<Entry, String> {
    if name.starts_with('.') {
        return Err("hidden".to_owned());
    }
    if name.contains(char::REPLACEMENT_CHARACTER) {
        return Err("the name is not UTF-8".to_owned());
    }
    match fs::metadata(path) {
        Ok(data) if data.is_dir() => Ok(Entry::Folder),
        Ok(data) if data.is_file() && data.len() > crate::decode::MAX_BYTES => Err("larger than 256 MiB".to_owned()),
        Ok(data) if data.is_file() => Ok(Entry::File),
        Ok(_) => Err("neither a file nor a folder".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(folder)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    });
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    // Names of files come in no order; the order of classes is the order of labels.
    entries.sort();
    Ok(entries)
}
