//! Where things are: the root, the store and the plugin folders that belong to a workflow file.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The places of one workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The workflow file, absolute.
    pub file: PathBuf,
    /// Its folder: relative paths in the workflow start here.
    pub folder: PathBuf,
    /// The nearest ancestor with `.flow/` or `plugins/`, else the git root, else the workflow's folder.
    pub root: PathBuf,
    /// The store's folder.
    pub store: PathBuf,
    /// Folders that hold plugins, in order of precedence.
    pub plugins: Vec<PathBuf>,
}

impl Workspace {
    /// The places of a workflow file. `store` and `plugins` are what the command line says.
    ///
    /// # Errors
    /// The file, or the current folder, cannot be reached.
    pub fn find(file: &Path, store: Option<&Path>, plugins: &[PathBuf]) -> io::Result<Self> {
        let file = std::path::absolute(file)?;
        let file = file.canonicalize().unwrap_or(file);
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let root = root_of(&folder);
        let store = match store {
            Some(store) => std::path::absolute(store)?,
            None => root.join(".flow"),
        };
        let mut found = plugins.iter().map(std::path::absolute).collect::<io::Result<Vec<_>>>()?;
        let own = root.join("plugins");
        if own.is_dir() && !found.contains(&own) {
            found.push(own);
        }
        Ok(Workspace { file, folder, root, store, plugins: found })
    }

    /// The places of a folder without a workflow: for commands about the store alone.
    ///
    /// # Errors
    /// The current folder cannot be reached.
    pub fn of_folder(folder: &Path, store: Option<&Path>) -> io::Result<Self> {
        Self::find(&folder.join("-"), store, &[])
    }

    /// A path as people know it: relative to the root where it is below it.
    pub fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

fn root_of(folder: &Path) -> PathBuf {
    let holds = |names: &'static [&'static str]| move |dir: &&Path| names.iter().any(|name| dir.join(name).exists());
    folder
        .ancestors()
        .find(holds(&[".flow", "plugins"]))
        .or_else(|| folder.ancestors().find(holds(&[".git"])))
        .unwrap_or(folder)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_root_is_the_nearest_sign_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("lab/workflows/deep")).unwrap();
        let file = top.join("lab/workflows/deep/a.yaml");
        let root = |file: &Path| Workspace::find(file, None, &[]).unwrap().root;
        fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(root(&file), top, "the git root");
        fs::create_dir(top.join("lab/plugins")).unwrap();
        assert_eq!(root(&file), top.join("lab"), "the folder with plugins/");
        assert_eq!(Workspace::find(&file, None, &[]).unwrap().plugins, [top.join("lab/plugins")]);
        fs::create_dir(top.join("lab/workflows/deep/.flow")).unwrap();
        assert_eq!(root(&file), top.join("lab/workflows/deep"), "the nearest of them");
    }
}
