//! Folders in which Python finds packages: their distributions, and the folders that their `.pth` files add. Reads names and
//! small files, each again only after a change.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// What changes if names in a folder change, or if another folder takes its place: device, number and times.
pub(crate) type FolderStamp = (u64, u64, [i64; 4]);

/// The stamp of a folder. Its time alone may be that of another: package managers set the times of all folders to one.
pub(crate) fn folder_stamp(folder: &Path) -> Option<FolderStamp> {
    let meta = fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino(), [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()]))
}

/// What was read in folders, with the stamp of each at that time.
pub(crate) struct FolderCache<T>(Mutex<BTreeMap<PathBuf, (FolderStamp, Vec<T>)>>);

impl<T: Clone> FolderCache<T> {
    pub(crate) const fn new() -> FolderCache<T> {
        FolderCache(Mutex::new(BTreeMap::new()))
    }

    /// The content of a folder. It is read again only if the folder's stamp changes.
    pub(crate) fn get(&self, folder: &Path, read: impl FnOnce(&Path) -> Vec<T>) -> Vec<T> {
        let Some(stamp) = folder_stamp(folder) else { return Vec::new() };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = seen.get(folder).filter(|(then, _)| *then == stamp) {
            return found.clone();
        }
        let found = read(folder);
        seen.insert(folder.to_owned(), (stamp, found.clone()));
        found
    }
}

/// The distributions in a folder, from the names of what describes them.
pub(crate) fn distributions(folder: &Path) -> Vec<(String, String)> {
    static SEEN: FolderCache<(String, String)> = FolderCache::new();
    SEEN.get(folder, |folder| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<(String, String)> = names.filter_map(|name| name_and_version(&name)).collect();
        found.sort();
        found
    })
}

/// The normalized name and the version of a distribution, from `NAME-VERSION.dist-info` or
/// `NAME-VERSION-py3.11.egg-info`, as Debian has them.
pub(crate) fn name_and_version(entry: &str) -> Option<(String, String)> {
    let egg = || entry.strip_suffix(".egg-info").map(|rest| rest.rsplit_once("-py").map_or(rest, |(named, _)| named));
    let (name, version) = entry.strip_suffix(".dist-info").or_else(egg)?.rsplit_once('-')?;
    Some((normalized(name), version.to_owned()))
}

/// The name of a distribution in the form in which names are compared (PEP 503).
pub(crate) fn normalized(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

/// The distributions in a folder by the modules that they install there.
pub(crate) fn modules(folder: &Path) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(of) = entry.file_name().to_str().and_then(name_and_version) else { continue };
        let files = ["top_level.txt", "RECORD"];
        let texts: Vec<_> = files.iter().filter_map(|file| fs::read_to_string(entry.path().join(file)).ok()).collect();
        for line in texts.iter().flat_map(|text| text.lines()) {
            let module = line.split(['/', ',', '.']).next().unwrap_or(line);
            found.entry(module.to_owned()).or_insert_with(|| of.clone());
        }
    }
    found
}

/// The folders that the `.pth` files of a folder of packages add.
pub(crate) fn paths_of(folder: &Path) -> Vec<PathBuf> {
    static SEEN: FolderCache<PathBuf> = FolderCache::new();
    let mut found = SEEN.get(folder, |folder| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "pth")).collect();
        files.sort();
        let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
        texts.flat_map(|text| lines(&text).map(|line| folder.join(line)).collect::<Vec<_>>()).collect()
    });
    found.retain(|path| path.is_dir() && path != folder);
    found
}

/// The lines of a `.pth` file that Python adds to its path.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let is_code = |line: &str| line.starts_with("import ") || line.starts_with("import\t");
    text.lines().map(str::trim_end).filter(move |line| !line.is_empty() && !line.starts_with('#') && !is_code(line))
}
