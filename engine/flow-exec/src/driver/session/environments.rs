//! The places of a workflow's declared environments, and whether they exist. Makes none.

use std::{collections::BTreeSet, fs, path::Path};

use flow_core::{DeclaredEnvironment, Diagnostic, Digest, EnvironmentProvider, Expansion, InstanceId};

use super::{Session, lock_file};
use crate::{
    declared_environment::{self, project_files},
    search_path::resolve,
};

/// Sets the places of environments that uv makes: in the cache, by the content of their lock files.
pub(super) fn place(expansion: &mut Expansion, cache: &Path) {
    for declared in expansion.environments.values_mut().filter(|of| of.provider == EnvironmentProvider::Uv) {
        let project = Path::new(&declared.place).to_owned();
        let read = |path| fs::read(path).map_or(Digest([0; 32]), |bytes| Digest::of(&bytes));
        let mut content: Vec<u8> = project_files(&project).iter().flat_map(|path| read(path).0).collect();
        // A home folder may be shared by machines of several architectures.
        content.extend(std::env::consts::ARCH.bytes());
        let own = declared_environment::made(cache).join(Digest::of(&content).short());
        declared.place = own.to_string_lossy().into_owned();
    }
}

impl Session {
    /// The declared environments of these instances.
    pub(crate) fn environments_of(&self, wanted: &[InstanceId]) -> Vec<&DeclaredEnvironment> {
        let instances = wanted.iter().map(|id| &self.expansion.instances[id.index()]);
        let runs = instances.filter(|instance| instance.settled().is_none());
        let names: BTreeSet<&str> = runs.filter_map(|instance| instance.environment.as_deref()).collect();
        names.into_iter().filter_map(|name| self.expansion.environments.get(name)).collect()
    }

    /// The project of an environment that uv makes.
    pub(crate) fn project(&self, declared: &DeclaredEnvironment) -> std::path::PathBuf {
        self.path(&declared.written)
    }

    /// Each declared environment of these instances that does not exist here, with its place in the workflow.
    pub(crate) fn missing_environments(&self, wanted: &[InstanceId]) -> Vec<Diagnostic> {
        let missing = self.environments_of(wanted).into_iter().filter_map(|declared| {
            let what = match declared.provider {
                EnvironmentProvider::Prefix => declared_environment::check(declared).err().map(|error| {
                    let what = Diagnostic::new(error.to_string());
                    if self.runs_on_nodes(&declared.name, wanted) {
                        return what.help("it is not visible here: flow lists its packages on this machine, even if steps run on nodes");
                    }
                    what.help("flow uses an environment that exists; `uv:` makes one")
                }),
                EnvironmentProvider::Apptainer => {
                    declared_environment::check(declared).err().map(|error| Diagnostic::new(error.to_string()))
                }
                EnvironmentProvider::Uv => self.no_project(declared),
            };
            Some((declared, what?))
        });
        self.workflow.about_environments(missing)
    }

    fn no_project(&self, declared: &DeclaredEnvironment) -> Option<Diagnostic> {
        let project = self.project(declared);
        let Some(missing) = ["pyproject.toml", "uv.lock"].into_iter().find(|name| !project.join(name).is_file()) else {
            let lock = fs::read_to_string(project.join("uv.lock")).unwrap_or_default();
            let local = local_package(&lock)?;
            let what = format!(
                "`{}/uv.lock` takes a package from `{local}`, whose changes flow would not see",
                declared.written
            );
            let help = "use `prefix:` with an environment that you make yourself, or a package from an index";
            return Some(Diagnostic::new(what).help(help));
        };
        let what = Diagnostic::new(format!("there is no `{missing}` in `{}`", declared.written));
        Some(match missing {
            "uv.lock" => what.help(format!("`uv lock --project {}` writes it", declared.written)),
            _ => what.help(format!("flow looked in {}", project.display())),
        })
    }

    /// Each lock file that was made from other dependencies than those of its `pyproject.toml`.
    pub(super) fn outdated_locks(&self) -> impl Iterator<Item = String> {
        let made = self.expansion.environments.values().filter(|of| of.provider == EnvironmentProvider::Uv);
        made.filter_map(|declared| {
            let read = |name| fs::read_to_string(self.project(declared).join(name)).ok();
            let what = lock_file::outdated(&read("pyproject.toml")?, &read("uv.lock")?)?;
            let folder = &declared.written;
            Some(format!(
                "`{folder}/uv.lock` does not fit `{folder}/pyproject.toml`: {what}; `uv lock --project {folder}` updates it"
            ))
        })
    }

    /// Each image of these instances, if the program that runs it is missing here.
    pub(crate) fn without_apptainer(&self, wanted: &[InstanceId]) -> Vec<Diagnostic> {
        let path = std::env::var("PATH").unwrap_or_default();
        let images = self.environments_of(wanted).into_iter().filter(|of| declared_environment::is_image(of));
        let here = images.filter(|image| !self.runs_on_nodes(&image.name, wanted));
        let missing = here.filter(|_| resolve("apptainer", &path).is_none());
        let help = "https://apptainer.org/docs/admin/main/installation.html says how";
        let missing = missing.map(|image| (image, Diagnostic::new("apptainer is not installed").help(help)));
        self.workflow.about_environments(missing)
    }

    fn runs_on_nodes(&self, name: &str, wanted: &[InstanceId]) -> bool {
        let mut instances = wanted.iter().map(|id| &self.expansion.instances[id.index()]);
        instances.any(|instance| instance.is_batch() && instance.environment.as_deref() == Some(name))
    }
}

/// The place of a package that a lock file takes from a folder or a file, except the project itself.
fn local_package(lock: &str) -> Option<&str> {
    lock.lines().filter_map(|line| line.strip_prefix("source = { ")).find_map(|source| {
        let (kind, rest) = source.split_once(" = \"")?;
        let (place, _) = rest.split_once('"')?;
        (matches!(kind, "directory" | "editable" | "path") && place != ".").then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_names_its_local_packages() {
        let table = [
            ("source = { registry = \"https://pypi.org/simple\" }", None),
            ("source = { virtual = \".\" }", None),
            ("source = { editable = \".\" }", None),
            ("source = { editable = \"../lib\" }", Some("../lib")),
            ("source = { directory = \"lib\" }", Some("lib")),
            ("source = { path = \"x.whl\" }", Some("x.whl")),
        ];
        for (line, expected) in table {
            assert_eq!(local_package(&format!("[[package]]\nname = \"a\"\n{line}\n")), expected, "{line}");
        }
    }
}
