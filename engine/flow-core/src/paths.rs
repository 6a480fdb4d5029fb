//! Relative paths as texts, without a look at the file system.

use crate::Digest;

/// A path without `.` and `..`, by its text alone.
pub(crate) fn normal(path: &str) -> String {
    // Most are normal.
    if path.strip_prefix('/').unwrap_or(path).split('/').all(|part| !matches!(part, "" | "." | "..")) {
        return path.to_owned();
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            // Nothing is above the root.
            ("..", None) if !root.is_empty() => {}
            _ => parts.push(part),
        }
    }
    format!("{root}{}", parts.join("/"))
}

/// A path as seen from a folder, without `.` and `..`; an absolute path does not depend on the folder.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if path.starts_with('/') { normal(path) } else { normal(&format!("{folder}/{path}")) }
}

/// A text as the name of a folder that needs no quotes in a shell: other characters become `%` and their bytes. A name
/// longer than 200 bytes becomes the digest of the text.
pub(crate) fn folder_name(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut name = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() || "_-.+=,@…".contains(c) {
            name.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        }
    }
    if name.len() > LONGEST { Digest::of(text.as_bytes()).short() } else { name }
}

/// Whether `path` is below `folder`.
pub(crate) fn within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_paths() {
        for (folder, path, joined) in [
            ("/a/b", "./c", "/a/b/c"),
            ("/a/b", "../c/./d", "/a/c/d"),
            ("/a", "../../c", "/c"),
            ("/a", "/x/../y", "/y"),
            ("a", "../../b", "../b"),
        ] {
            assert_eq!(join(folder, path), joined);
        }
    }
}
