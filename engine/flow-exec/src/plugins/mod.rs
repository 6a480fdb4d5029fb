//! Plugins on disk: discovery, digest, one-time set-up, start command. Knows nothing of workflows; runs no step.

mod content;
mod manifest;
mod record;
mod setup;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::{Path, PathBuf},
};

use flow_core::{Catalogue, CatalogueStep, Digest, PluginFacts};
use flow_protocol::PROTOCOL;

use crate::{paths::normal, trust};

pub use manifest::Manifest;
pub(crate) use setup::needs_setup;
pub use setup::{Progress, Setup};
pub(crate) use setup::{lock, run_command};

/// The file that makes a folder a plugin.
const FILE: &str = "plugin.yaml";

/// The environment variable for the folder where set-ups keep downloads, for all roots.
pub const CACHE_VAR: &str = "FLOW_CACHE";

/// An error in a plugin: the file or folder, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", file.display())]
pub struct PluginError {
    pub file: PathBuf,
    /// The error, and what was expected.
    pub what: String,
}

/// A plugin on disk.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Its folder, absolute.
    pub folder: PathBuf,
    /// Its `plugin.yaml`.
    pub manifest: Manifest,
    /// The folder where its set-up keeps downloads: the value of `${FLOW_CACHE}`.
    cache: PathBuf,
}

/// All discovered plugins.
#[derive(Clone, Debug, Default)]
pub struct Plugins {
    found: BTreeMap<String, Plugin>,
    broken: Vec<PluginError>,
}

impl Plugins {
    /// Looks into folders that were named, each a plugin itself or a folder of plugins, and then into the root's own. A
    /// `plugin.yaml` that cannot be understood counts only when its plugin is wanted; so does a plugin of another user in the
    /// root's own folder. `cache` is what `${FLOW_CACHE}` stands for, see [`cache_folder`].
    ///
    /// # Errors
    /// Two plugins have the same name, or a folder cannot be read.
    pub fn discover(named: &[PathBuf], own: Option<&Path>, cache: &Path) -> Result<Plugins, PluginError> {
        let mut plugins = Plugins::default();
        let mut seen = BTreeSet::new();
        for folder in named {
            for plugin in candidates(folder)? {
                plugins.add(&plugin, cache, &mut seen)?;
            }
        }
        let Some(own) = own else { return Ok(plugins) };
        if let Some(why) = trust::against(own, "it") {
            plugins.broken.push(refused(own, &why));
            return Ok(plugins);
        }
        for plugin in candidates(own)? {
            match trust::against(&plugin, &format!("`{}`", plugin.display())) {
                Some(why) => plugins.broken.push(refused(&plugin.join(FILE), &why)),
                None => plugins.add(&plugin, cache, &mut seen)?,
            }
        }
        Ok(plugins)
    }

    /// Adds the plugin in a folder, unless it was seen before.
    fn add(&mut self, folder: &Path, cache: &Path, seen: &mut BTreeSet<PathBuf>) -> Result<(), PluginError> {
        let folder = folder.canonicalize().map_err(unreadable(folder))?;
        if !seen.insert(folder.clone()) {
            return Ok(());
        }
        let manifest = match Manifest::read(&folder.join(FILE)) {
            Ok(manifest) => manifest,
            Err(error) => {
                self.broken.push(error);
                return Ok(());
            }
        };
        if let Some(other) = self.found.get(&manifest.name) {
            return Err(PluginError {
                file: folder.join(FILE),
                what: format!(
                    "the name `{}` belongs to {} already; rename one of them, or leave one of the folders out",
                    manifest.name,
                    other.folder.join(FILE).display()
                ),
            });
        }
        let plugin = Plugin { folder, manifest, cache: cache.to_owned() };
        self.found.insert(plugin.manifest.name.clone(), plugin);
        Ok(())
    }

    /// A plugin by its name.
    pub fn get(&self, name: &str) -> Option<&Plugin> {
        self.found.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Plugin> {
        self.found.values()
    }

    /// Those whose `plugin.yaml` cannot be understood, and those of another user; or the root's folder of plugins, if that belongs
    /// to another user.
    pub fn broken(&self) -> &[PluginError] {
        &self.broken
    }

    /// The plugins that a workflow with these `used` names can use. Others are left out, because their content would
    /// have to be read. If one of `used` is missing, all are included, because the name may be misspelt.
    ///
    /// # Errors
    /// A used plugin is invalid, or its content cannot be read.
    pub fn catalogue<'a>(
        &self,
        used: impl IntoIterator<Item = &'a str>,
        builtins: BTreeMap<String, CatalogueStep>,
        known: &BTreeMap<String, Digest>,
    ) -> Result<Catalogue, PluginError> {
        let mut catalogue = Catalogue { builtins, plugins: BTreeMap::new() };
        let mut slip = false;
        for name in used {
            if let Some(plugin) = self.found.get(name) {
                let digest = known.get(name).map_or_else(|| plugin.digest(), |known| Ok(*known))?;
                catalogue.plugins.insert(name.to_owned(), plugin.facts(digest));
                continue;
            }
            slip = true;
            let its = |e: &&PluginError| e.file.parent().is_some_and(|f| f.ends_with(name));
            let all = |e: &&PluginError| !e.file.ends_with(FILE);
            if let Some(error) = self.broken.iter().find(its).or_else(|| self.broken.iter().find(all)) {
                return Err(error.clone());
            }
        }
        if slip {
            let facts = |(name, plugin): (&String, &Plugin)| Some((name.clone(), plugin.facts(plugin.digest().ok()?)));
            catalogue.plugins.extend(self.found.iter().filter_map(facts));
        }
        Ok(catalogue)
    }
}

impl Plugin {
    /// The digest of its declared content.
    ///
    /// # Errors
    /// A glob matches nothing, or a file cannot be read.
    pub fn digest(&self) -> Result<Digest, PluginError> {
        content::digest(&self.folder, &self.manifest.content).map_err(|what| self.error(what))
    }

    /// Its entry in the catalogue.
    fn facts(&self, digest: Digest) -> PluginFacts {
        PluginFacts {
            version: self.manifest.version.clone(),
            digest,
            protocol: PROTOCOL,
            steps: self.manifest.steps.clone(),
        }
    }

    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Program and arguments. Words that begin with `./` or `../`, and a program that contains a slash, are paths in
    /// its folder and become absolute.
    pub fn argv(&self) -> Vec<String> {
        let argv = self.manifest.start.iter().enumerate().map(|(n, word)| {
            let word = self.fill(word);
            let path = word.starts_with("./") || word.starts_with("../") || n == 0 && word.contains('/');
            if path { normal(&self.folder.join(&word)).to_string_lossy().into_owned() } else { word }
        });
        argv.collect()
    }

    /// The variables that it adds to the `inherited` ones. A variable that mentions itself keeps its old value, to extend a
    /// list of folders.
    pub fn env<'v>(&self, inherited: impl Fn(&str) -> Option<&'v str>) -> BTreeMap<String, String> {
        let value = |(name, value): (&String, &String)| {
            let old = inherited(name).unwrap_or_default();
            let new = self.fill(value).replace(&format!("${{{name}}}"), old);
            // An empty entry would mean the current folder.
            (name.clone(), if old.is_empty() { new.trim_matches(':').to_owned() } else { new })
        };
        self.manifest.env.iter().map(value).collect()
    }

    fn fill(&self, text: &str) -> String {
        text.replace("${FLOW_CACHE}", &self.cache.to_string_lossy())
    }

    fn error(&self, what: String) -> PluginError {
        PluginError { file: self.folder.join(FILE), what }
    }
}

/// The folder where set-ups keep downloads: `FLOW_CACHE`, else `flow` in the user's cache folder, else `otherwise`.
pub fn cache_folder(otherwise: &Path) -> PathBuf {
    let cache = path_in(CACHE_VAR).or_else(user_cache);
    cache.and_then(|cache| std::path::absolute(cache).ok()).unwrap_or_else(|| otherwise.to_owned())
}

/// `flow` in the user's cache folder, if there is one.
pub(crate) fn user_cache() -> Option<PathBuf> {
    let cache = path_in("XDG_CACHE_HOME").or_else(|| path_in("HOME").map(|home| home.join(".cache")))?;
    std::path::absolute(cache.join("flow")).ok()
}

/// The path in an environment variable.
pub(crate) fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The plugins in a folder, or the folder itself if it is one, sorted by name.
fn candidates(folder: &Path) -> Result<Vec<PathBuf>, PluginError> {
    if folder.join(FILE).is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        if path.join(FILE).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn unreadable(folder: &Path) -> impl Fn(io::Error) -> PluginError {
    let file = folder.to_owned();
    move |e| PluginError { file: file.clone(), what: format!("no plugins can be read here: {e}") }
}

/// A plugin of another user, and the way out.
fn refused(file: &Path, why: &str) -> PluginError {
    let what = format!("{why}; `--plugin-dir DIR` uses plugins of any folder that you trust");
    PluginError { file: file.to_owned(), what }
}

#[cfg(test)]
mod tests;
