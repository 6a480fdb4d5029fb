//! `publish:` after a run: writes the output of built-ins, if it changed. Does not word the entries.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::{
    Builtins, FileToWrite, Outcome, Publish, PublishJob, PublishWhat, Replace, SettledResults, WHATS_NEW,
    reason::WithheldReason,
};
use flow_runs::file::if_there;
use flow_store::Objects;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::builtin::files;
use crate::{
    driver::session::Session,
    paths::{normal, relative},
    text,
};

/// Size limit of a file into which an entry is written.
const LONGEST: u64 = 64 << 20;

/// One file after publishing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// Where it is published, absolute.
    pub path: PathBuf,
    pub changed: bool,
}

/// A file that was not published, so that the published version stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithheldFile {
    /// The target path, absolute.
    pub path: PathBuf,
    /// The path where it was written instead, absolute.
    pub written: PathBuf,
    pub why: WithheldReason,
}

/// `--publish`, `--no-publish`, or neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublishRequest {
    /// A run of the whole unmodified workflow replaces files of the same profile and the same GPU models.
    #[default]
    Whole,
    /// Every run replaces what the workflow published before.
    Always,
    Never,
}

/// The paths that a run may write in the repository: each target, and the folder for a report's charts next to it.
pub(crate) fn targets(session: &Session) -> Vec<PathBuf> {
    let paths = session.expansion.publish.iter().flat_map(|entry| {
        let file = normal(&session.path(&entry.to));
        match entry.what {
            PublishWhat::Report => vec![file.with_extension(""), file],
            PublishWhat::WhatsNew => {
                let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
                WHATS_NEW.iter().map(|beside| folder.join(beside)).chain([file]).collect()
            }
        }
    });
    paths.collect()
}

impl PublishRequest {
    /// The files that a run may replace; `whole`: it ran the whole workflow.
    pub(crate) fn replace(self, session: &Session, whole: bool) -> Replace {
        let set = &session.expansion.set;
        match self {
            PublishRequest::Always => Replace::Always,
            PublishRequest::Never => Replace::Nothing(WithheldReason::Requested),
            PublishRequest::Whole if !set.is_empty() => {
                Replace::Nothing(WithheldReason::Set { params: set.keys().cloned().collect() })
            }
            PublishRequest::Whole if !whole => Replace::Nothing(WithheldReason::Part),
            PublishRequest::Whole => Replace::Alike,
        }
    }
}

/// The result of publishing.
#[derive(Debug, Default)]
pub(crate) struct PublishResult {
    pub(crate) files: Vec<PublishedFile>,
    pub(crate) withheld: Vec<WithheldFile>,
    /// A path and an error message for each entry that failed.
    pub(crate) errors: Vec<(PathBuf, String)>,
}

/// Publishes everything whose step has a result; for other steps the run has already said why not. If a file may not be
/// replaced, the new version goes into `withheld_dir`, a folder of the run.
pub(crate) fn publish(
    session: &Session,
    builtins: &dyn Builtins,
    settled: &dyn SettledResults,
    objects: &Objects,
    replace: &Replace,
    withheld_dir: &Path,
) -> PublishResult {
    let mut out = PublishResult::default();
    let expansion = &session.expansion;
    // Reports first, so that no entry links to a report that could not be published.
    let (reports, entries): (Vec<&Publish>, _) =
        expansion.publish.iter().partition(|entry| entry.what == PublishWhat::Report);
    for entry in reports.into_iter().chain(entries) {
        let step = &expansion.steps[entry.from.index()];
        let result = step.ids().find_map(|id| settled.result(id)).filter(|r| r.outcome == Outcome::Ok);
        let Some(artifact) = result.and_then(|r| r.outputs.values().next()) else { continue };
        let (what, target) = (entry.what, normal(&session.path(&entry.to)));
        let of_step = |other: &&Publish| other.what == PublishWhat::Report && other.from == entry.from;
        let report = expansion.publish.iter().find(of_step).map(|report| normal(&session.path(&report.to)));
        let report = report.filter(|report| !out.errors.iter().any(|(failed, _)| failed == report));
        let report = report.map(|report| relative(target.parent().unwrap_or(Path::new("/")), &report));
        let done = files(objects, artifact).map_err(|e| e.to_string()).and_then(|files| {
            let existing = present(&target)?;
            let mut whats_new = BTreeMap::new();
            for name in WHATS_NEW.iter().filter(|_| what == PublishWhat::WhatsNew) {
                whats_new.extend(present(&target.with_file_name(name))?.map(|text| ((*name).to_owned(), text)));
            }
            let target = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
            builtins.publish(&PublishJob { files, what, target, existing, whats_new, report, replace: replace.clone() })
        });
        let write_all = |target: &Path, files: &[FileToWrite]| {
            let folder = target.parent().unwrap_or(Path::new("/"));
            files.iter().map(|file| write(&folder.join(&file.path), &file.bytes)).collect::<Result<Vec<_>, _>>()
        };
        let written = done.and_then(|done| match done.withheld {
            None => write_all(&target, &done.files).map(|files| {
                // Several READMEs may have their entries in one file.
                let new = |file: &PublishedFile| !out.files.iter().any(|known| known.path == file.path);
                let files: Vec<PublishedFile> = files.into_iter().filter(new).collect();
                out.files.extend(files);
            }),
            Some(why) => {
                let below = target.strip_prefix(&session.workspace.root).ok();
                let elsewhere =
                    withheld_dir.join(below.or(target.file_name().map(Path::new)).unwrap_or(Path::new("report.md")));
                let first = done.files.first().map_or("", |file| &file.path);
                let (path, written) = (target.with_file_name(first), elsewhere.with_file_name(first));
                write_all(&elsewhere, &done.files)?;
                out.withheld.push(WithheldFile { path, written, why });
                Ok(())
            }
        });
        if let Err(why) = written {
            out.errors.push((target, why));
        }
    }
    out
}

/// The text of a file, if it exists.
fn present(path: &Path) -> Result<Option<String>, String> {
    if_there(text::read(path, LONGEST)).map_err(|e| e.to_string())
}

/// Replaces a file if its content differs.
fn write(path: &Path, bytes: &[u8]) -> Result<PublishedFile, String> {
    let cannot = |e: io::Error| format!("`{}` cannot be written: {e}", path.display());
    let target = behind_links(path).map_err(cannot)?;
    let changed = read(&target).map_err(cannot)?.is_none_or(|old| old != bytes);
    if changed {
        let folder = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).and_then(|()| text::replace(&target, bytes)).map_err(cannot)?;
    }
    Ok(PublishedFile { path: path.to_owned(), changed })
}

/// Writes the target of a link and keeps the link, as editors do. Exception: a link that another user put into a
/// world-writable folder.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let meta = if_there(fs::symlink_metadata(&path))?;
        let Some(meta) = meta.filter(fs::Metadata::is_symlink) else { return Ok(path) };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let above = fs::metadata(folder)?;
        if above.mode() & 0o002 != 0 && meta.uid() != geteuid().as_raw() && meta.uid() != above.uid() {
            return Err(io::Error::other(format!(
                "`{}` is another user's link in a folder that all may write; remove it, or publish elsewhere",
                path.display()
            )));
        }
        path = folder.join(fs::read_link(&path)?);
    }
    Err(io::Error::other("its links form a cycle"))
}

/// Reads a file, if it exists. Only a regular one, because reading a pipe could block forever.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(mut file) = if_there(text::open_regular(path))? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map(|_| Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_same_content_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/a.md");
        assert!(write(&path, b"x").unwrap().changed);
        assert!(!write(&path, b"x").unwrap().changed);
        assert!(write(&path, b"y").unwrap().changed);
        assert_eq!(fs::read(&path).unwrap(), b"y");
    }

    #[test]
    fn what_others_put_beside_a_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("theirs");
        fs::write(&theirs, "precious").unwrap();
        symlink(&theirs, dir.path().join("a.md.flow-tmp")).unwrap();
        let path = dir.path().join("a.md");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(write(&path, b"new").unwrap().changed);
        assert_eq!((fs::read(&path).unwrap(), fs::read(&theirs).unwrap()), (b"new".to_vec(), b"precious".to_vec()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left behind");
    }

    #[test]
    fn what_a_link_points_to_is_written_and_the_link_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("docs")).unwrap();
        for there in [false, true] {
            let (link, target) = (dir.path().join(format!("{there}.md")), dir.path().join(format!("docs/{there}.md")));
            symlink(format!("docs/{there}.md"), &link).unwrap();
            if there {
                fs::write(&target, "old").unwrap();
            }
            assert!(write(&link, b"new").unwrap().changed && !write(&link, b"new").unwrap().changed);
            assert!(link.is_symlink() && !target.is_symlink());
            assert_eq!(fs::read(&target).unwrap(), b"new");
        }
        let cycle = dir.path().join("cycle.md");
        symlink(&cycle, &cycle).unwrap();
        assert!(write(&cycle, b"new").unwrap_err().contains("form a cycle"));
        let pipe = dir.path().join("pipe.md");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(write(&pipe, b"new").unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn a_link_that_a_stranger_put_where_all_may_write_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (link, mine) = (dir.path().join("a.md"), dir.path().join("mine"));
        fs::write(&mine, "precious").unwrap();
        symlink(&mine, &link).unwrap();
        if std::os::unix::fs::lchown(&link, Some(54_321), None).is_err() {
            eprintln!("skipped: only root can make a link of another user");
            return;
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(write(&link, b"new").unwrap_err().contains("another user"));
        assert_eq!(fs::read(&mine).unwrap(), b"precious");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(write(&link, b"new").unwrap().changed, "in a folder of one's own it is as good as any");
    }
}
