//! Removes files of a published report that the new report does not have, for example the chart of a renamed section.
//! Does not know which files flow wrote.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use flow_core::PublishWhat;

use super::publish::{PublishedFile, targets};
use crate::{driver::session::Session, paths::normal};

/// Removes the files among `wrote` that are in the folder of a report that was `published` and that are not part of it.
/// `wrote` are files that flow wrote and nobody changed since. Returns a notice if a file was removed.
pub(crate) fn remove_stale(
    session: &Session,
    published: &[PublishedFile],
    wrote: &BTreeSet<PathBuf>,
) -> Option<String> {
    let keep: BTreeSet<PathBuf> = published.iter().map(|file| file.path.clone()).chain(targets(session)).collect();
    let reports = session.expansion.publish.iter().filter(|entry| entry.what == PublishWhat::Report);
    let folders: BTreeSet<PathBuf> = reports
        .map(|entry| normal(&session.path(&entry.to)))
        .filter(|report| published.iter().any(|file| file.path == *report))
        .map(|report| report.with_extension(""))
        .collect();
    let removed: Vec<String> = stale(wrote, &keep, &folders)
        .filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file()) && fs::remove_file(path).is_ok())
        .map(|path| format!("`{}`", session.workspace.name(path)))
        .collect();
    (!removed.is_empty()).then(|| notice(&removed))
}

fn stale<'a>(
    wrote: &'a BTreeSet<PathBuf>,
    keep: &'a BTreeSet<PathBuf>,
    folders: &'a BTreeSet<PathBuf>,
) -> impl Iterator<Item = &'a Path> {
    let in_folder = |path: &&PathBuf| path.parent().is_some_and(|folder| folders.contains(folder));
    wrote.iter().filter(in_folder).filter(|path| !keep.contains(*path)).map(PathBuf::as_path)
}

fn notice(removed: &[String]) -> String {
    const NAMED: usize = 3;
    let more = removed.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = removed.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("removed {named}{more}, which the earlier report had and the new one does not")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_in_the_folder_of_a_published_report_are_stale() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<BTreeSet<PathBuf>>();
        let wrote = paths(&["/r/a.md", "/r/a/new.svg", "/r/a/old.svg", "/r/a/b/c.svg", "/r/a/b.md", "/r/c/old.svg"]);
        let keep = paths(&["/r/a.md", "/r/a/new.svg", "/r/a/b.md"]);
        let folders = paths(&["/r/a"]);
        assert_eq!(stale(&wrote, &keep, &folders).collect::<Vec<_>>(), [Path::new("/r/a/old.svg")]);
    }
}
