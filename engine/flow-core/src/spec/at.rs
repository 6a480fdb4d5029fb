//! Places in the files of a workflow as paths of keys, and problems found there. Does not know lines or columns.

use std::sync::Arc;

use crate::Diagnostic;

/// One part of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seg {
    /// A key of a mapping.
    Key(Arc<str>),
    /// A position in a list.
    Index(usize),
}

/// A path into a file of the workflow, shared by its tail, so that every value can carry one.
#[derive(Clone, Debug, Default)]
pub(crate) struct YamlPath {
    /// The file: 0 is the workflow itself, the others are included.
    file: usize,
    link: Option<Arc<(YamlPath, Seg)>>,
}

impl YamlPath {
    /// The workflow's own file.
    pub(crate) fn root() -> Self {
        YamlPath::default()
    }

    pub(crate) fn of(file: usize) -> Self {
        YamlPath { file, link: None }
    }

    /// The file that it is a place of.
    pub(crate) fn file(&self) -> usize {
        self.file
    }

    /// A key below it.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.seg(Seg::Key(key.into()))
    }

    /// A position below it.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.seg(Seg::Index(index))
    }

    /// A part below it.
    pub(crate) fn seg(&self, seg: Seg) -> Self {
        YamlPath { file: self.file, link: Some(Arc::new((self.clone(), seg))) }
    }

    /// Several parts below it.
    pub(crate) fn below(&self, path: &[Seg]) -> Self {
        path.iter().fold(self.clone(), |at, seg| at.seg(seg.clone()))
    }

    /// The parts from the top.
    pub(crate) fn segs(&self) -> Vec<&Seg> {
        let mut segs = Vec::new();
        let mut here = self;
        while let Some(link) = &here.link {
            segs.push(&link.1);
            here = &link.0;
        }
        segs.reverse();
        segs
    }
}

/// The part of a place that a problem is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacePart {
    Key,
    Value,
    /// This excerpt of the value's text.
    Text(String),
    /// This excerpt of an expression in the value's text.
    In {
        /// The expression, as written between the braces.
        expression: Arc<str>,
        text: String,
    },
    /// Nothing of the file: the command line.
    Nothing,
}

/// A diagnostic whose place is not looked up yet: spans are only made when there is something to show.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) at: YamlPath,
    pub(crate) on: PlacePart,
    pub(crate) what: Diagnostic,
}

/// Problems as they are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn value(&mut self, at: &YamlPath, what: Diagnostic) {
        self.add(at, PlacePart::Value, what);
    }

    pub(crate) fn key(&mut self, at: &YamlPath, what: Diagnostic) {
        self.add(at, PlacePart::Key, what);
    }

    /// Candidates for the nearest name. Empty after many problems, because nobody reads that many.
    pub(crate) fn offer<'a, I>(&self, names: I) -> impl Iterator<Item = &'a str> + use<'a, I>
    where
        I: IntoIterator<Item = &'a str>,
    {
        const READ: usize = 100;
        names.into_iter().take(if self.0.len() < READ { usize::MAX } else { 0 })
    }

    /// About whatever it is.
    pub(crate) fn add(&mut self, at: &YamlPath, on: PlacePart, what: Diagnostic) {
        self.0.push(Problem { at: at.clone(), on, what });
    }
}
