//! The variables of a step's program, in layers: those that flow was started with, the step's own, its secrets.

use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Default)]
pub(crate) struct StepVariables {
    inherited: Arc<BTreeMap<String, String>>,
    /// One without a value is not there.
    own: BTreeMap<String, Option<String>>,
    secrets: BTreeMap<String, String>,
}

impl StepVariables {
    pub(crate) fn of(inherited: Arc<BTreeMap<String, String>>) -> StepVariables {
        StepVariables { inherited, ..StepVariables::default() }
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.own.insert(name.to_owned(), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.own.insert(name.to_owned(), None);
    }

    pub(crate) fn add_secret(&mut self, name: &str, value: &str) {
        self.secrets.insert(name.to_owned(), value.to_owned());
    }

    /// The value of a variable that is no secret.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        match self.own.get(name) {
            _ if self.secrets.contains_key(name) => None,
            Some(own) => own.as_deref(),
            None => self.inherited.get(name).map(String::as_str),
        }
    }

    /// All that the program gets, each name once.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let is_inherited = |name: &str| !self.own.contains_key(name) && !self.secrets.contains_key(name);
        let inherited = self.inherited.iter().filter(|(name, _)| is_inherited(name));
        let own = self.own.iter().filter(|(name, _)| !self.secrets.contains_key(*name));
        let own = own.filter_map(|(name, value)| Some((name, value.as_ref()?)));
        inherited.chain(own).chain(&self.secrets).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// How they differ from those that flow was started with, for `flow shell`. Without secrets; one without a value is
    /// not there.
    pub(crate) fn into_own(self) -> BTreeMap<String, Option<String>> {
        let StepVariables { inherited, mut own, secrets } = self;
        own.retain(|name, value| inherited.get(name) != value.as_ref() && !secrets.contains_key(name));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_supervisor::attempt::Folder;

    #[test]
    fn a_shell_gets_the_variables_that_the_step_had() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().join("1")).unwrap();
        let pairs = [("PATH", "/bin"), ("HOME", "/me"), ("PYTHONHOME", "/x"), ("TOKEN", "old")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut variables = StepVariables::of(Arc::new(pairs.into()));
        for (name, value) in [("PATH", "/lab/bin:/bin"), ("HOME", "/me"), ("FLOW_ATTEMPT", "/a")] {
            variables.set(name, value);
        }
        variables.remove("PYTHONHOME");
        variables.add_secret("TOKEN", "secret");
        let all = [("FLOW_ATTEMPT", "/a"), ("HOME", "/me"), ("PATH", "/lab/bin:/bin"), ("TOKEN", "secret")];
        let mut found = variables.all();
        found.sort();
        assert_eq!(found, all.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(
            (variables.get("TOKEN"), variables.get("PYTHONHOME"), variables.get("HOME")),
            (None, None, Some("/me"))
        );
        folder.write_variables(&variables.into_own()).unwrap();
        let expected = [("FLOW_ATTEMPT", Some("/a")), ("PATH", Some("/lab/bin:/bin")), ("PYTHONHOME", None)];
        assert_eq!(folder.variables(), expected.map(|(n, v)| (n.to_owned(), v.map(str::to_owned))).into());
    }
}
