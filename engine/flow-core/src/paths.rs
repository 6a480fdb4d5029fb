//! Relative paths as texts, without a look at the file system.

/// A path without `.` and `..`, by its text alone.
pub(crate) fn normal(path: &str) -> String {
    // Most are normal.
    if path.strip_prefix('/').unwrap_or(path).split('/').all(|part| !matches!(part, "" | "." | "..")) {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, parts.join("/"))
}

/// Whether `path` is below `folder`.
pub(crate) fn within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}
