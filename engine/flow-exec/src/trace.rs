//! Reads the output of `strace -f`: which files a program and its children read, looked for and wrote. Opens nothing.
//!
//! `strace -y` would name the folder and the file of each descriptor, but doubles the time of a call. So folders and
//! descriptors are followed here.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    mem,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    rc::Rc,
    slice,
};

use crate::paths::normal;

/// The calls that a trace needs. A system without one of those with `?` has no such call.
pub(crate) const CALLS: &str = "trace=%file,fchdir,dup,?dup2,dup3,fcntl,clone,?clone3,?fork,?vfork";

/// The calls of which it needs the content of structures.
pub(crate) const DETAILS: &str = "verbose=?clone3,?openat2";

/// A call that named a file, by its absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
}

/// What a call did with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It was not there.
    Missing,
    /// It was there; only its name, size or times were asked for.
    Found,
    /// Its content was read, or it was executed. The content of a folder is its list of names.
    Read,
    /// It was created, written, renamed or removed.
    Written,
}

/// The path of a file without links, if it can be known.
pub(crate) type RealPath<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// A trace, read line by line.
pub(crate) struct Trace<'a> {
    start: PathBuf,
    real: RealPath<'a>,
    processes: BTreeMap<u32, Process>,
    /// A process that is starting another one.
    forking: Option<u32>,
}

/// A process or a thread. Threads share their folder and descriptors.
#[derive(Default)]
struct Process {
    folder: Rc<RefCell<PathBuf>>,
    files: Rc<RefCell<BTreeMap<u32, PathBuf>>>,
    /// The beginning of a call that is continued on a later line.
    unfinished: String,
}

impl Process {
    /// The one that this call of its parent starts.
    fn child(&self, call: &str) -> Process {
        let folder = if call.contains("CLONE_FS") { self.folder.clone() } else { Rc::new((*self.folder).clone()) };
        let files = if call.contains("CLONE_FILES") { self.files.clone() } else { Rc::new((*self.files).clone()) };
        Process { folder, files, unfinished: String::new() }
    }

    /// The file of a descriptor.
    fn file(&self, descriptor: &str) -> Option<PathBuf> {
        self.files.borrow().get(&descriptor.parse().ok()?).cloned()
    }

    fn keep(&self, descriptor: &str, file: PathBuf) {
        if let Ok(descriptor) = descriptor.parse() {
            self.files.borrow_mut().insert(descriptor, file);
        }
    }
}

impl Trace<'_> {
    /// The trace of a program that starts in this folder.
    pub(crate) fn new(start: PathBuf, real: RealPath<'_>) -> Trace<'_> {
        Trace { start, real, processes: BTreeMap::new(), forking: None }
    }

    /// The accesses of the next line.
    pub(crate) fn line(&mut self, line: &str) -> Vec<Access> {
        self.read(line).unwrap_or_default()
    }

    fn read(&mut self, line: &str) -> Option<Vec<Access>> {
        let (id, text) = line.split_once(' ')?;
        let (id, text) = (id.parse().ok()?, text.trim());
        // Half of all lines: the size of an open file, which has no name here.
        if text.starts_with("newfstatat(") && text.contains(", \"\", ") && !text.ends_with("<unfinished ...>") {
            return None;
        }
        if !self.processes.contains_key(&id) {
            let parent = self.forking.and_then(|parent| self.processes.get(&parent));
            let first = || Process { folder: Rc::new(RefCell::new(self.start.clone())), ..Process::default() };
            let process = parent.map_or_else(first, |parent| parent.child(&parent.unfinished));
            self.processes.insert(id, process);
        }
        let process = self.processes.get_mut(&id)?;
        if text.starts_with("+++") {
            self.processes.remove(&id);
            return None;
        }
        if let Some(begin) = text.strip_suffix("<unfinished ...>") {
            begin.trim_end().clone_into(&mut process.unfinished);
            if is_fork(begin) {
                self.forking = Some(id);
            }
            return None;
        }
        let text = match text.strip_prefix("<... ") {
            Some(rest) => mem::take(&mut process.unfinished) + rest.split_once("resumed>")?.1,
            None => text.to_owned(),
        };
        let call = Call::of(&text)?;
        if is_fork(call.name) {
            let child = process.child(&text);
            self.forking = self.forking.filter(|forking| *forking != id);
            if let Ok(id) = call.result.parse() {
                self.processes.entry(id).or_insert(child);
            }
            return None;
        }
        let real = |path: PathBuf| (self.real)(&path).unwrap_or_else(|| normal(&path));
        let first = call.arguments.first()?;
        match call.name {
            "chdir" if call.result == "0" => {
                let folder = real(call.path(0, process)?);
                process.folder.replace(folder);
            }
            "fchdir" if call.result == "0" => {
                let folder = process.file(first)?;
                process.folder.replace(folder);
            }
            "dup" | "dup2" | "dup3" | "fcntl" => {
                let is_copy = call.name != "fcntl" || call.arguments.get(1)?.starts_with("F_DUPFD");
                let file = process.file(first).filter(|_| is_copy)?;
                process.keep(call.result, file);
            }
            "chdir" | "fchdir" | "getcwd" => {}
            _ => return Some(call.accesses(process, &real)),
        }
        None
    }
}

fn is_fork(call: &str) -> bool {
    ["clone", "fork", "vfork"].iter().any(|name| call.starts_with(name))
}

/// One call: `openat(AT_FDCWD, "b", O_RDONLY) = 3`.
struct Call<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    result: &'a str,
}

impl Call<'_> {
    fn of(text: &str) -> Option<Call<'_>> {
        let (name, rest) = text.split_once('(')?;
        let (mut arguments, mut from, mut depth) = (Vec::new(), 0, 0u32);
        let mut is_text = false;
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => _ = chars.next(),
                '"' => is_text = !is_text,
                _ if is_text => {}
                '(' | '[' | '{' => depth += 1,
                ')' if depth == 0 => {
                    arguments.push(rest[from..at].trim());
                    let result = rest[at + 1..].trim_start().strip_prefix('=')?.trim();
                    return Some(Call { name, arguments, result });
                }
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    arguments.push(rest[from..at].trim());
                    from = at + 1;
                }
                _ => {}
            }
        }
        None
    }

    /// The path in an argument, as it is written. A descriptor before it names the folder that it is relative to.
    fn path(&self, n: usize, process: &Process) -> Option<PathBuf> {
        let text = self.arguments.get(n)?.strip_prefix('"')?;
        let path = path_of(text.strip_suffix('"')?);
        let before = n.checked_sub(1).and_then(|n| process.file(self.arguments.get(n)?));
        let folder = || before.unwrap_or_else(|| process.folder.borrow().clone());
        (!path.as_os_str().is_empty()).then(|| folder().join(path))
    }

    fn accesses(&self, process: &Process, real: &dyn Fn(PathBuf) -> PathBuf) -> Vec<Access> {
        let paths: Vec<PathBuf> = (0..self.arguments.len()).filter_map(|n| self.path(n, process)).collect();
        let of = |kind: Kind, paths: &[PathBuf]| paths.iter().map(|path| Access { path: normal(path), kind }).collect();
        let Some(first) = paths.first().map(slice::from_ref) else { return Vec::new() };
        if self.result.starts_with(['-', '?']) {
            let is_missing = self.result.contains("ENOENT") || self.result.contains("ENOTDIR");
            return if is_missing { of(Kind::Missing, first) } else { Vec::new() };
        }
        let has = |flags: &[&str]| self.arguments.iter().skip(1).any(|text| flags.iter().any(|one| text.contains(one)));
        match self.name {
            "open" | "openat" | "openat2" | "creat" => {
                let opened = real(first[0].clone());
                process.keep(self.result, opened.clone());
                let is_written = self.name == "creat" || has(&["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"]);
                let is_read = has(&["O_RDONLY", "O_RDWR"]) && !has(&["O_PATH", "O_TRUNC", "O_EXCL", "O_TMPFILE"]);
                let kinds = [(is_read, Kind::Read), (is_written, Kind::Written)];
                let kinds = kinds.into_iter().filter(|(is_so, _)| *is_so);
                kinds.map(|(_, kind)| Access { path: opened.clone(), kind }).collect()
            }
            "execve" | "execveat" => of(Kind::Read, first),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => of(Kind::Written, &paths),
            "symlink" | "symlinkat" => of(Kind::Written, &paths[1..]),
            name if WRITES.iter().any(|begin| name.starts_with(begin)) => of(Kind::Written, first),
            _ => of(Kind::Found, first),
        }
    }
}

/// How calls that change a file begin.
const WRITES: [&str; 12] = [
    "mkdir",
    "mknod",
    "unlink",
    "rmdir",
    "chmod",
    "fchmodat",
    "chown",
    "lchown",
    "fchownat",
    "truncate",
    "utime",
    "futimesat",
];

/// Text with the escapes of C.
fn path_of(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next) = rest.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    value = value * 8 + u32::from(next - b'0');
                }
                bytes.push(value as u8);
            }
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'v') => bytes.push(0x0b),
            Some(b'f') => bytes.push(0x0c),
            other => bytes.extend(other),
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Vec<(Kind, String)> {
        let real = |path: &Path| (path == "/usr/share/locale/locale.alias").then(|| "/etc/locale.alias".into());
        let mut trace = Trace::new("/w".into(), &real);
        let all = lines.lines().flat_map(|line| trace.line(line));
        all.map(|access| (access.kind, access.path.display().to_string())).collect()
    }

    fn one(line: &str) -> Vec<(Kind, String)> {
        read(&format!("7 {line}"))
    }

    #[test]
    fn calls_are_read_as_strace_writes_them() {
        let table: [(&str, &[(Kind, &str)]); 17] = [
            (
                r#"execve("/usr/bin/cat", ["cat", "../a.txt"], 0x5556a5fb87b0 /* 35 vars */) = 0"#,
                &[(Kind::Read, "/usr/bin/cat")],
            ),
            (r#"openat(AT_FDCWD, "sub/../a.txt", O_RDONLY) = 3"#, &[(Kind::Read, "/w/a.txt")]),
            (
                r#"openat(AT_FDCWD, "/usr/share/locale/locale.alias", O_RDONLY|O_CLOEXEC) = 3"#,
                &[(Kind::Read, "/etc/locale.alias")],
            ),
            (
                r#"openat(AT_FDCWD, "sub/new\303\251.txt", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3"#,
                &[(Kind::Written, "/w/sub/newé.txt")],
            ),
            (
                r#"openat(AT_FDCWD, "db", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3"#,
                &[(Kind::Read, "/w/db"), (Kind::Written, "/w/db")],
            ),
            (
                r#"newfstatat(AT_FDCWD, "sub/a.txt", 0x7fff622cdf40, 0) = -1 ENOENT (No such file or directory)"#,
                &[(Kind::Missing, "/w/sub/a.txt")],
            ),
            (
                r#"newfstatat(AT_FDCWD, "a, (b)/c", {st_mode=S_IFREG|0644, st_size=3, ...}, 0) = 0"#,
                &[(Kind::Found, "/w/a, (b)/c")],
            ),
            (r#"newfstatat(3, "", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0"#, &[]),
            (
                r#"newfstatat(AT_FDCWD, "/tmp", {st_mode=S_IFDIR|S_ISVTX|0777, st_size=20480, ...}, 0) = 0"#,
                &[(Kind::Found, "/tmp")],
            ),
            (
                r#"access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)"#,
                &[(Kind::Missing, "/etc/ld.so.preload")],
            ),
            (r#"access("x", R_OK)                     = 0"#, &[(Kind::Found, "/w/x")]),
            (r#"openat(AT_FDCWD, "/dev/tty", O_RDWR|O_NONBLOCK) = -1 ENXIO (No such device or address)"#, &[]),
            (
                r#"rename("sub/new\303\251.txt", "b \"c\".txt") = 0"#,
                &[(Kind::Written, "/w/sub/newé.txt"), (Kind::Written, "/w/b \"c\".txt")],
            ),
            (r#"symlink("/else/where", "link") = 0"#, &[(Kind::Written, "/w/link")]),
            (r#"readlink("link", "/else/where", 4096) = 11"#, &[(Kind::Found, "/w/link")]),
            ("--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=22740} ---", &[]),
            ("+++ exited with 0 +++", &[]),
        ];
        for (line, expected) in table {
            let expected: Vec<_> = expected.iter().map(|(kind, path)| (*kind, (*path).to_owned())).collect();
            assert_eq!(one(line), expected, "{line}");
        }
    }

    #[test]
    fn each_process_has_its_own_folder() {
        let lines = r#"22739 access("a", R_OK) = 0
22739 chdir("/w/sub")                   = 0
22739 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f5e25214a10) = 22740
22740 access("b", R_OK) = 0
22740 chdir("..") = 0
22740 access("c", R_OK) = 0
22739 access("d", R_OK) = 0
22739 chdir("nowhere") = -1 ENOENT (No such file or directory)
22739 openat(AT_FDCWD, "/tmp", O_RDONLY|O_DIRECTORY) = 3
22739 fchdir(3) = 0
22739 access("e", R_OK) = 0
22740 access("f", R_OK) = 0"#;
        let paths: Vec<String> = read(lines).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["/w/a", "/w/sub/b", "/w/c", "/w/sub/d", "/tmp", "/tmp/e", "/w/f"]);
    }

    #[test]
    fn descriptors_name_folders() {
        let lines = r#"1 openat(AT_FDCWD, "a", O_RDONLY|O_DIRECTORY) = 3
1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, child_tid=0x7f5e2521} <unfinished ...>
2 openat(3, "b", O_RDONLY|O_DIRECTORY) = 4
1 <... clone3 resumed> => {parent_tid=[2]}, 88) = 2
1 fcntl(4, F_GETFL) = 0x8000
1 fcntl(4, F_DUPFD_CLOEXEC, 3) = 5
1 openat(5, "c", O_RDONLY) = 6
2 chdir("/x") = 0
1 fork() = 3
3 dup2(3, 7) = 7
3 openat(7, "d", O_RDONLY) = 3
1 renameat2(3, "e", 4, "f", RENAME_NOREPLACE) = 0
1 access("g", R_OK) = 0"#;
        let paths: Vec<String> = read(lines).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["/w/a", "/w/a/b", "/w/a/b/c", "/w/a/d", "/w/a/e", "/w/a/b/f", "/x/g"]);
    }

    #[test]
    fn interrupted_lines_are_put_together() {
        let lines = r#"1 chdir("sub") = 0
1 vfork( <unfinished ...>
2 execve("./x", ["x"], 0x7ffc /* 3 vars */ <unfinished ...>
1 <... vfork resumed>) = 2
2 <... execve resumed>) = 0
1 openat(AT_FDCWD, "y", O_RDONLY <unfinished ...>
2 access("z", R_OK) = 0
1 <... openat resumed>) = 3
1 <... wait4 resumed>0x7ffd, 0, NULL) = ?
garbage
3 openat(AT_FDCWD"#;
        let paths: Vec<String> = read(lines).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["/w/sub/x", "/w/sub/z", "/w/sub/y"]);
    }
}
