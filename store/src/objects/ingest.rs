//! Moves files and folders into the store: hashed, made read-only, and renamed into place as the last step.

use std::{
    collections::BTreeMap,
    fs::{self, File, FileTimes, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use flow_core::{
    Artifact, ArtifactKind, Digest,
    reason::{Fault, StoreAction, StoreFault},
};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::{SFlag, fstat},
};
use walkdir::WalkDir;

use super::{Objects, look, stamp, untouched};
use crate::{
    Activity,
    hash::{self, FolderEntry, FoundKind, Links},
    sparse::{self, content_digest},
};
use flow_runs::{Result, StoreError, mounts, tree::remove_tree};

/// How the original path of an artifact is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OriginalPath {
    /// The artifact is moved away.
    Nowhere,
    /// If it may be moved: a file keeps both names, and a folder leaves a link.
    Linked,
    Copied,
}

/// The mode of files that only their owner may read.
const PRIVATE: u32 = 0o400;

/// Makes a private object readable if it becomes an artifact as well.
fn is_shared(path: &Path, meta: &Metadata) -> bool {
    let executable = hash::is_executable(meta);
    meta.mode() & 0o777 != PRIVATE || fs::set_permissions(path, Permissions::from_mode(read_only(executable))).is_ok()
}

/// True for a file with one name, with no link or mount on the path from `within`. Uses one system call if available,
/// because reading the mount table takes as long as a small step.
fn is_own_file(path: &Path, within: &Path) -> bool {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
    let no_link = ResolveFlag::RESOLVE_NO_SYMLINKS;
    let no_way_out = no_link | ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV;
    let found = || {
        let folder = openat2(AT_FDCWD, within, how.resolve(no_link))?;
        fstat(openat2(folder, path.strip_prefix(within).map_err(|_| Errno::EXDEV)?, how.resolve(no_way_out))?)
    };
    found().is_ok_and(|found| found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits() && found.st_nlink == 1)
}

impl Objects {
    /// Moves a file or folder into the store. `within` is the step's folder, by the real path under which it was
    /// created. Only files that are really inside it and have no other name are moved. Targets of symbolic links, and
    /// files on file systems mounted there, are copied. A link to a place outside is refused.
    ///
    /// # Errors
    /// It is missing; it is, or contains, something that cannot be kept (a link to a place outside, a pipe, a device);
    /// the disk is full.
    pub fn ingest(&self, path: &Path, within: &Path) -> Result<Artifact> {
        self.ingest_from(path, within, OriginalPath::Nowhere)
    }

    /// The same after the end of a step, for a caller that may have to repeat it. A file keeps its name as well, and a
    /// folder is replaced by a link.
    ///
    /// # Errors
    /// As [`Objects::ingest`].
    pub fn ingest_linked(&self, path: &Path, within: &Path) -> Result<Artifact> {
        self.ingest_from(path, within, OriginalPath::Linked)
    }

    /// The same, without changing the original, for a caller that may have to repeat it.
    ///
    /// # Errors
    /// As [`Objects::ingest`].
    pub fn ingest_copy_of(&self, path: &Path, within: &Path) -> Result<Artifact> {
        self.ingest_from(path, within, OriginalPath::Copied)
    }

    fn ingest_from(&self, path: &Path, within: &Path, stays: OriginalPath) -> Result<Artifact> {
        if stays != OriginalPath::Nowhere
            && let Some(taken) = self.taken_before(path)?
        {
            return Ok(taken);
        }
        if stays != OriginalPath::Copied && is_own_file(path, within) {
            return if stays == OriginalPath::Linked { self.link_file(path) } else { self.ingest_file(path) };
        }
        let real = fs::canonicalize(path).map_err(StoreError::io(StoreAction::Find, path))?;
        // An output that leads into another one, which was moved before, is copied from the store.
        if !real.starts_with(within) && !self.holds(&real) {
            let (path, to) = (path.display().to_string(), real.display().to_string());
            return Err(StoreError::NotAnArtifact(StoreFault::LeadsOutside { path, to }));
        }
        let meta = fs::symlink_metadata(&real).map_err(StoreError::io(StoreAction::Find, &real))?;
        let others = || mounts::below(within).iter().any(|mount| real.starts_with(mount) || mount.starts_with(&real));
        if !meta.is_file() && !meta.is_dir() {
            Err(hash::special(path, &meta))
        } else if stays == OriginalPath::Copied || real != path || (meta.is_file() && meta.nlink() > 1) || others() {
            // It may be one of the author's own files, which must not change.
            self.ingest_copy(&real)
        } else if meta.is_dir() {
            let taken = self.ingest_folder(path)?;
            if stays == OriginalPath::Linked {
                // Without the link, the step runs again if this process is killed before the result is recorded.
                let _ = symlink(self.path(&taken.digest), path);
            }
            Ok(taken)
        } else {
            self.ingest_file(path)
        }
    }

    /// Prepares a folder whose links [`Objects::ingest`] refuses. A link to something in the folder becomes relative. A
    /// link to an input, to another place in the step's folder `within`, or to an output moved from there, becomes a copy. `inputs`: the
    /// real paths of inputs outside of `within`.
    ///
    /// # Errors
    /// A link leads elsewhere or nowhere; the disk is full.
    pub fn mend_links(&self, path: &Path, within: &Path, inputs: &[PathBuf]) -> Result<()> {
        let root = fs::canonicalize(path).map_err(StoreError::io(StoreAction::Find, path))?;
        // Nothing is changed in a folder that is mounted there or lies elsewhere.
        let is_mounted = |mount: &PathBuf| root.starts_with(mount) || mount.starts_with(&root);
        let is_own = root.starts_with(within) && !mounts::below(within).iter().any(is_mounted);
        let is_given = |real: &Path| {
            real.starts_with(within) || self.holds(real) || inputs.iter().any(|input| real.starts_with(input))
        };
        let entries = WalkDir::new(&root).min_depth(1).into_iter().flatten();
        for entry in entries.filter(|entry| entry.path_is_symlink()) {
            let link = entry.path();
            let Ok(below) = link.strip_prefix(&root) else { continue };
            let Err(leads_out) = hash::inner_link(link, below) else { continue };
            let Some(real) = fs::canonicalize(link).ok().filter(|_| is_own) else { return Err(leads_out) };
            let temporary = self.workplace()?;
            if let Ok(inner) = real.strip_prefix(&root) {
                let up: PathBuf = below.components().skip(1).map(|_| "..").collect();
                let inner = up.join(inner);
                symlink(if inner.as_os_str().is_empty() { Path::new(".") } else { &inner }, &temporary)
                    .map_err(StoreError::io(StoreAction::Create, &temporary))?;
            } else if is_given(&real) && !root.starts_with(&real) {
                copy_tree(&real, &temporary, &self.activity).inspect_err(|_| drop_half(&temporary))?;
            } else {
                return Err(leads_out);
            }
            self.replace(link, &temporary)?;
        }
        Ok(())
    }

    /// The artifact of a folder that was moved before and left a link.
    fn taken_before(&self, path: &Path) -> Result<Option<Artifact>> {
        let Ok(target) = fs::read_link(path) else { return Ok(None) };
        let name = target.strip_prefix(&self.root).ok().and_then(Path::to_str).map(|name| name.replacen('/', "", 1));
        let digest: Option<Digest> =
            name.and_then(|name| name.parse().ok()).filter(|digest| self.path(digest) == target);
        let Some((digest, manifest)) = digest.and_then(|digest| Some((digest, self.contents(&digest).ok()?))) else {
            return Ok(None);
        };
        let (files, bytes) = manifest.size();
        let artifact = Artifact { digest, kind: ArtifactKind::Folder, bytes, files };
        Ok(self.has(&artifact)?.then_some(artifact))
    }

    /// Keeps bytes as a file.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written.
    pub fn store_bytes(&self, bytes: &[u8]) -> Result<Artifact> {
        let artifact =
            Artifact { digest: Digest::of(bytes), kind: ArtifactKind::File, bytes: bytes.len() as u64, files: 1 };
        if self.has(&artifact)? {
            return Ok(artifact);
        }
        let temporary = self.workplace()?;
        fs::write(&temporary, bytes)
            .map_err(StoreError::io(StoreAction::Write, &temporary))
            .inspect_err(|_| drop_half(&temporary))?;
        self.ingest_file(&temporary)
    }

    /// Keeps the output of `write` as a file that nobody else may read: for example a log, which need not be shared.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written.
    pub fn store_private(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<Digest> {
        let temporary = self.workplace()?;
        let made = || {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
            write(&mut file)?;
            let taken = content_digest(&File::open(&temporary)?, &self.activity)?;
            settle(&file, PRIVATE)?;
            Ok(taken)
        };
        let made = made().map_err(StoreError::io(StoreAction::Write, &temporary));
        let (digest, bytes) = made.inspect_err(|_| drop_half(&temporary))?;
        if self.keeps(&digest, bytes, |_, _| true)? {
            fs::remove_file(&temporary).map_err(StoreError::io(StoreAction::Remove, &temporary))?;
        } else {
            self.place(&temporary, &self.path(&digest))?;
        }
        Ok(digest)
    }

    /// Keeps a file that nobody else may read, without a copy: the file and the object share one content, which becomes
    /// read-only.
    ///
    /// # Errors
    /// The file cannot be read; the disk is full, or the store cannot be written.
    pub fn link_private(&self, path: &Path) -> Result<Digest> {
        let settled = || {
            let file = File::open(path)?;
            let taken = content_digest(&file, &self.activity)?;
            settle(&file, PRIVATE)?;
            Ok(taken)
        };
        let (digest, bytes) = settled().map_err(StoreError::io(StoreAction::Store, path))?;
        if self.keeps(&digest, bytes, |_, _| true)? {
            return Ok(digest);
        }
        let target = self.path(&digest);
        self.shelf(&target)?;
        if fs::hard_link(path, &target).is_ok() {
            return Ok(digest);
        }
        // Hard links are not possible, or another process was faster.
        self.store_private(|file| io::copy(&mut File::open(path)?, file).map(drop))
    }

    /// Reads a private file; `None` if it is missing, damaged, or belongs to another user.
    pub fn read_private(&self, digest: &Digest) -> Option<Vec<u8>> {
        let bytes = self.read(digest, "").ok()?;
        (Digest::of(&bytes) == *digest).then_some(bytes)
    }

    /// Keeps files as a folder, by relative path.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written.
    pub fn store_files(&self, files: &BTreeMap<String, Vec<u8>>) -> Result<Artifact> {
        let temporary = self.workplace()?;
        fs::create_dir(&temporary).map_err(StoreError::io(StoreAction::Create, &temporary))?;
        let written = files.iter().try_for_each(|(path, bytes)| {
            let path = temporary.join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(StoreError::io(StoreAction::Create, folder))?;
            }
            fs::write(&path, bytes).map_err(StoreError::io(StoreAction::Write, &path))
        });
        written.inspect_err(|_| drop_half(&temporary))?;
        self.ingest_folder(&temporary)
    }

    fn ingest_copy(&self, path: &Path) -> Result<Artifact> {
        let temporary = self.workplace()?;
        let bytes = copy_tree(path, &temporary, &self.activity).inspect_err(|_| drop_half(&temporary))?;
        // Under its own name, not that of the copy.
        let _begun = self.activity.begin("hashing", path, bytes);
        if temporary.is_dir() { self.ingest_folder(&temporary) } else { self.ingest_file(&temporary) }
    }

    fn link_file(&self, path: &Path) -> Result<Artifact> {
        let (digest, bytes) = settle_file(path, &self.activity)?;
        let artifact = Artifact { digest, kind: ArtifactKind::File, bytes, files: 1 };
        if self.keeps(&digest, bytes, is_shared)? {
            return Ok(artifact);
        }
        let target = self.path(&digest);
        let linked = fs::hard_link(path, &target).or_else(|e| match e.kind() {
            io::ErrorKind::NotFound if self.shelf(&target).is_ok() => fs::hard_link(path, &target),
            _ => Err(e),
        });
        // If hard links are not possible, or another process was faster.
        linked.map_or_else(|_| self.ingest_copy(path), |()| Ok(artifact))
    }

    fn ingest_file(&self, path: &Path) -> Result<Artifact> {
        let (digest, bytes) = settle_file(path, &self.activity)?;
        let artifact = Artifact { digest, kind: ArtifactKind::File, bytes, files: 1 };
        if self.keeps(&digest, bytes, is_shared)? {
            fs::remove_file(path).map_err(StoreError::io(StoreAction::Remove, path))?;
        } else {
            self.place(path, &self.path(&digest))?;
        }
        Ok(artifact)
    }

    /// True if the store has this file, unchanged and as `suits` wants it. Removes another one in its place.
    fn keeps(&self, digest: &Digest, bytes: u64, suits: impl Fn(&Path, &Metadata) -> bool) -> Result<bool> {
        let target = self.path(digest);
        let Some(meta) = look(&target)? else { return Ok(false) };
        let sound = meta.is_file() && untouched(&meta, bytes) && suits(&target, &meta);
        if !sound {
            self.remove(digest)?;
        }
        Ok(sound)
    }

    fn ingest_folder(&self, path: &Path) -> Result<Artifact> {
        let found = hash::walk(path, Links::Keep)?;
        let manifest = hash::manifest(path, &found, &self.activity, |entry| {
            let whole = path.join(&entry.path);
            if entry.meta.nlink() > 1 {
                self.unshare(&whole)?;
            }
            settle_file(&whole, &self.activity)
        })?;
        // The deepest first: creating an entry changes a folder's time.
        for entry in found.iter().rev().filter(|entry| entry.kind == FoundKind::Folder) {
            let whole = path.join(&entry.path);
            settle_folder(&whole, &entry.meta).map_err(StoreError::io(StoreAction::Settle, &whole))?;
        }
        let digest = self.keep_manifest(&manifest)?;
        let (files, bytes) = manifest.size();
        let artifact = Artifact { digest, kind: ArtifactKind::Folder, bytes, files };
        if self.has(&artifact)? {
            remove_tree(path)?;
            return Ok(artifact);
        }
        let target = self.path(&digest);
        if look(&target)?.is_some() {
            self.remove(&digest)?;
            self.keep_manifest(&manifest)?;
        }
        self.place(path, &target)?;
        Ok(artifact)
    }

    /// Renames a complete object into place.
    fn place(&self, path: &Path, target: &Path) -> Result<()> {
        let moved = fs::rename(path, target).or_else(|e| {
            if e.kind() != io::ErrorKind::NotFound {
                return Err(e);
            }
            self.shelf(target).map_err(|error| match error {
                StoreError::Io { source, .. } => source,
                other => Fault::from(&other).into(),
            })?;
            fs::rename(path, target)
        });
        match moved {
            Ok(()) => Ok(()),
            // Another process has stored the same content.
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => remove_tree(path).map(drop),
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
                let temporary = self.workplace()?;
                copy_tree(path, &temporary, &self.activity).inspect_err(|_| drop_half(&temporary))?;
                resettle(&temporary)?;
                fs::rename(&temporary, target).map_err(StoreError::io(StoreAction::MoveIntoStore, path))?;
                remove_tree(path).map(drop)
            }
            Err(e) => Err(StoreError::io(StoreAction::MoveIntoStore, path)(e)),
        }
    }

    /// Replaces a file that has several names by a copy, under this name.
    fn unshare(&self, path: &Path) -> Result<()> {
        let temporary = self.workplace()?;
        sparse::copy(path, &temporary, &self.activity)
            .map_err(StoreError::io(StoreAction::Copy, path))
            .inspect_err(|_| drop_half(&temporary))?;
        self.replace(path, &temporary)
    }

    /// Replaces a file or a link in a step's folder, which may be on another file system than the workplace.
    fn replace(&self, path: &Path, by: &Path) -> Result<()> {
        let moved = match fs::remove_file(path).and_then(|()| fs::rename(by, path)) {
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => match fs::read_link(by) {
                Ok(target) => symlink(target, path).map_err(StoreError::io(StoreAction::Create, path)),
                Err(_) => copy_tree(by, path, &self.activity).map(drop),
            }
            .and_then(|()| remove_tree(by).map(drop)),
            moved => moved.map_err(StoreError::io(StoreAction::Copy, path)),
        };
        moved.inspect_err(|_| drop_half(by))
    }

    /// True if a real path is in the store of objects.
    fn holds(&self, real: &Path) -> bool {
        fs::canonicalize(&self.root).is_ok_and(|root| real.starts_with(root))
    }
}

/// Hashes a file, makes it read-only and sets the store's time, all through one open file.
fn settle_file(path: &Path, activity: &Activity) -> Result<(Digest, u64)> {
    let settled = || {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let _begun = activity.begin("hashing", path, meta.len());
        let executable = hash::is_executable(&meta);
        let (content, bytes) = content_digest(&file, activity)?;
        settle(&file, read_only(executable))?;
        Ok((hash::file_digest(content, executable), bytes))
    };
    settled().map_err(StoreError::io(StoreAction::Store, path))
}

fn settle_folder(path: &Path, meta: &Metadata) -> io::Result<()> {
    if meta.mode() & 0o777 != 0o755 {
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    File::open(path)?.set_times(FileTimes::new().set_modified(stamp()))
}

/// Sets times and modes of a copy, which differ from the original's.
pub(super) fn resettle(path: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(path).map_err(StoreError::io(StoreAction::Settle, path))? {
        meta if meta.is_dir() => hash::walk(path, Links::Keep)?,
        meta => vec![FolderEntry { path: PathBuf::new(), kind: FoundKind::File, meta }],
    };
    for FolderEntry { path: below, kind, meta } in found.iter().rev() {
        let whole = if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) };
        let settled = match kind {
            FoundKind::Folder => settle_folder(&whole, meta),
            FoundKind::File => File::open(&whole).and_then(|file| settle(&file, read_only(hash::is_executable(meta)))),
            FoundKind::Link(_) => Ok(()),
        };
        settled.map_err(StoreError::io(StoreAction::Settle, &whole))?;
    }
    Ok(())
}

/// Sets the mode and the store's time of a file.
fn settle(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))?;
    file.set_times(FileTimes::new().set_modified(stamp()))
}

fn read_only(executable: bool) -> u32 {
    if executable { 0o555 } else { 0o444 }
}

/// Copies a file, or a folder with everything in it. Links stay links.
pub(super) fn copy_tree(from: &Path, to: &Path, activity: &Activity) -> Result<u64> {
    let meta = fs::symlink_metadata(from).map_err(StoreError::io(StoreAction::Copy, from))?;
    if meta.is_file() {
        let _begun = activity.begin("copying", from, meta.len());
        sparse::copy(from, to, activity).map_err(StoreError::io(StoreAction::Copy, from))?;
        return Ok(meta.len());
    }
    let found = hash::walk(from, Links::Keep)?;
    let bytes = found.iter().map(|entry| entry.meta.len()).sum();
    let _begun = activity.begin("copying", from, bytes);
    for entry in &found {
        let (source, target) = (from.join(&entry.path), to.join(&entry.path));
        match &entry.kind {
            FoundKind::Folder => fs::create_dir(&target),
            FoundKind::Link(link) => std::os::unix::fs::symlink(link, &target),
            FoundKind::File => sparse::copy(&source, &target, activity),
        }
        .map_err(StoreError::io(StoreAction::Copy, &source))?;
    }
    Ok(bytes)
}

/// Removes a half-finished object after an error; that error is the one reported.
pub(super) fn drop_half(path: &Path) {
    let _ = remove_tree(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_runs::StoreDir;

    /// A store, and a work folder in `place`.
    fn place(place: &Path) -> (tempfile::TempDir, Objects, tempfile::TempDir, PathBuf) {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in(place).unwrap());
        let work = fs::canonicalize(outside.path()).unwrap();
        fs::create_dir(work.join("out")).unwrap();
        fs::write(work.join("out/x"), "one").unwrap();
        let objects = Objects::of(&StoreDir::create(&dir.path().join(".flow")).unwrap());
        (dir, objects, outside, work)
    }

    #[test]
    fn links_are_replaced_on_another_file_system_too() {
        // This is another file system on most machines.
        for folder in [std::env::temp_dir(), PathBuf::from("/dev/shm")].iter().filter(|folder| folder.is_dir()) {
            let (_dir, objects, _outside, work) = place(folder);
            fs::create_dir(work.join("more")).unwrap();
            fs::write(work.join("more/y"), "two").unwrap();
            let out = work.join("out");
            symlink(out.join("x"), out.join("inner")).unwrap();
            symlink(work.join("more"), out.join("folder")).unwrap();
            symlink(work.join("more/y"), out.join("file")).unwrap();
            fs::hard_link(out.join("x"), out.join("same")).unwrap();
            objects.mend_links(&out, &work, &[]).unwrap();
            let kept = objects.ingest(&out, &work).unwrap();
            let read = |path: &str| String::from_utf8(objects.read(&kept.digest, path).unwrap()).unwrap();
            assert_eq!(["inner", "folder/y", "file", "same"].map(read), ["one", "two", "two", "one"]);
            assert_eq!(fs::read_link(objects.path(&kept.digest).join("inner")).unwrap(), Path::new("x"));
        }
    }

    #[test]
    fn an_output_may_lead_into_one_that_was_moved_before() {
        let (_dir, objects, _outside, work) = place(&std::env::temp_dir());
        symlink("out/x", work.join("best")).unwrap();
        fs::create_dir(work.join("other")).unwrap();
        symlink(work.join("out/x"), work.join("other/x")).unwrap();
        objects.ingest_linked(&work.join("out"), &work).unwrap();
        let best = objects.ingest_linked(&work.join("best"), &work).unwrap();
        assert_eq!(objects.read(&best.digest, "").unwrap(), b"one");
        objects.mend_links(&work.join("other"), &work, &[]).unwrap();
        let other = objects.ingest_linked(&work.join("other"), &work).unwrap();
        assert_eq!(objects.read(&other.digest, "x").unwrap(), b"one");
        let out = objects.ingest_linked(&work.join("out"), &work).unwrap();
        assert!(objects.has(&out).unwrap(), "the run that repeats it finds all of them");
    }
}
