//! `publish:` after a run: writes what a built-in says, and only what changed. Words no entry.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use flow_core::{Builtins, Outcome, PublishJob, PublishTo, PublishWhat, Settled};
use flow_store::Objects;

use super::{Session, builtin::files};
use crate::text;

/// Of a file that an entry is written into: more than people read.
const LONGEST: u64 = 64 << 20;

/// One file after publishing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// Where, absolute.
    pub path: PathBuf,
    /// Its content changed.
    pub changed: bool,
}

/// Publishes everything whose step has a result. Others are passed over: the run already said why.
///
/// # Errors
/// Where, and a sentence, for each entry that could not be carried out; the others are.
pub(crate) fn publish(
    session: &Session,
    builtins: &dyn Builtins,
    settled: &dyn Settled,
    objects: &Objects,
) -> (Vec<PublishedFile>, Vec<(PathBuf, String)>) {
    let (mut published, mut errors) = (Vec::new(), Vec::new());
    let expansion = &session.expansion;
    for entry in &expansion.publish {
        let step = &expansion.steps[entry.from.index()];
        let result = step.ids().find_map(|id| settled.result(id)).filter(|r| r.outcome == Outcome::Ok);
        let Some(artifact) = result.and_then(|r| r.outputs.values().next()) else { continue };
        let (what, written) = match &entry.to {
            PublishTo::Report(path) => (PublishWhat::Report, path),
            PublishTo::WhatsNew(path) => (PublishWhat::WhatsNew, path),
        };
        let target = normal(&session.path(written));
        let report = expansion.publish.iter().find_map(|other| match &other.to {
            PublishTo::Report(to) if other.from == entry.from => Some(relative(&target, &normal(&session.path(to)))),
            _ => None,
        });
        let done = files(objects, artifact).map_err(|e| e.to_string()).and_then(|files| {
            let existing = match text::read(&target, LONGEST) {
                Ok(text) => Some(text),
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                Err(e) => return Err(e.to_string()),
            };
            let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
            builtins.publish(&PublishJob { files, what, target: name, existing, report })
        });
        let folder = target.parent().unwrap_or(Path::new("/"));
        let written = done.and_then(|files| {
            files.iter().map(|file| write(&folder.join(&file.path), &file.bytes)).collect::<Result<Vec<_>, _>>()
        });
        match written {
            Ok(files) => published.extend(files),
            Err(why) => errors.push((target, why)),
        }
    }
    (published, errors)
}

/// Replaces a file if its content differs, so that a reader never sees half of it.
fn write(path: &Path, bytes: &[u8]) -> Result<PublishedFile, String> {
    let cannot = |e: io::Error| format!("`{}` cannot be written: {e}", path.display());
    // A pipe would hold the reader up for ever.
    let as_long = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == bytes.len() as u64);
    let changed = !as_long || fs::read(path).map_or(true, |old| old != bytes);
    if changed {
        fs::create_dir_all(path.parent().unwrap_or(path)).map_err(cannot)?;
        // What a link points to is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut temporary = path.clone().into_os_string();
        temporary.push(".flow-tmp");
        fs::write(&temporary, bytes)
            .and_then(|()| match fs::metadata(&path) {
                Ok(meta) => fs::set_permissions(&temporary, meta.permissions()),
                Err(_) => Ok(()),
            })
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|e| {
                let _ = fs::remove_file(&temporary);
                cannot(e)
            })?;
    }
    Ok(PublishedFile { path: path.to_owned(), changed })
}

/// Without `.` and `..`, as written: nothing is asked of the file system.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(out.pop()),
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The way from the folder of `from` to `to`, with slashes.
fn relative(from: &Path, to: &Path) -> String {
    let from: Vec<_> = from.parent().unwrap_or(Path::new("/")).components().collect();
    let to: Vec<_> = to.components().collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - common);
    let down = to[common..].iter().map(|c| c.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_report_is_relative() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/lab/README.md", "/lab/reports/feb08.md"), "reports/feb08.md");
        assert_eq!(way("/lab/docs/README.md", "/lab/reports/feb08.md"), "../reports/feb08.md");
        assert_eq!(normal(Path::new("/lab/workflows/../reports/./a.md")), Path::new("/lab/reports/a.md"));
    }

    #[test]
    fn the_same_content_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/a.md");
        assert!(write(&path, b"x").unwrap().changed);
        assert!(!write(&path, b"x").unwrap().changed);
        assert!(write(&path, b"y").unwrap().changed);
        assert_eq!(fs::read(&path).unwrap(), b"y");
    }
}
