//! From the start of the process to its exit code: finds the attempt, picks the step, says how it went.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use flow_protocol::{ATTEMPT_VAR, Outcome};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Attempt, Error};

type Step = Box<dyn Fn(&Attempt) -> Result<(), Error> + Send + Sync>;

/// A plugin: its name, its version, its steps.
pub struct Plugin {
    name: String,
    version: String,
    steps: BTreeMap<String, Step>,
}

impl Plugin {
    /// A plugin without steps, of the name and version that its `plugin.yaml` has.
    pub fn new(name: &str, version: &str) -> Self {
        Self { name: name.to_owned(), version: version.to_owned(), steps: BTreeMap::new() }
    }

    /// Adds the step `name`: a function of the step's `with`, and of the attempt.
    pub fn step<W: DeserializeOwned>(
        mut self,
        name: &str,
        run: impl Fn(W, &Attempt) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        let step = move |attempt: &Attempt| run(parameters(attempt)?, attempt);
        self.steps.insert(name.to_owned(), Box::new(step));
        self
    }

    /// Runs the step that the attempt in `FLOW_ATTEMPT` asks for. The exit code is 0 only for `ok`.
    pub fn main(self) -> ExitCode {
        let Some(folder) = std::env::var_os(ATTEMPT_VAR) else {
            return complain(&format!(
                "{} is a plugin of flow, which starts it with {ATTEMPT_VAR} set to an attempt's folder. Its steps: {}",
                self.name,
                self.names()
            ));
        };
        self.run(Path::new(&folder))
    }

    /// Runs the attempt in `folder`.
    pub(crate) fn run(&self, folder: &Path) -> ExitCode {
        let attempt = match Attempt::open(folder, &self.name, &self.version) {
            Ok(attempt) => attempt,
            // Without a readable request nothing is known about where to answer; the log is all there is.
            Err(error) => return complain(&error.to_string()),
        };
        // Nothing of the step outlives the call but the attempt, which has no state that a panic could break.
        let result = catch_unwind(AssertUnwindSafe(|| self.dispatch(&attempt)))
            .unwrap_or_else(|payload| Err(Error::failed(panic_message(&*payload))));
        let (outcome, message) = match result {
            Ok(()) => (Outcome::Ok, None),
            Err(Error::OutOfMemory(message)) => (Outcome::OutOfMemory, Some(message)),
            Err(Error::Failed(message)) => (Outcome::Failed, Some(message)),
        };
        if let Some(message) = &message {
            attempt.log(message);
        }
        let told = attempt.outcome(outcome, message);
        if told && outcome == Outcome::Ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn dispatch(&self, attempt: &Attempt) -> Result<(), Error> {
        let name = &attempt.request().step;
        let step = self.steps.get(name).ok_or_else(|| {
            Error::failed(format!("plugin {} has no step `{name}`; it has {}", self.name, self.names()))
        })?;
        step(attempt)
    }

    fn names(&self) -> String {
        self.steps.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// The step's `with` as its own type, or what is wrong with it and where.
fn parameters<W: DeserializeOwned>(attempt: &Attempt) -> Result<W, Error> {
    let request = attempt.request();
    serde_path_to_error::deserialize(Value::Object(request.with.clone())).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "with".to_owned() } else { format!("with.{path}") };
        Error::failed(format!("{place} of {}: {}", request.instance, error.into_inner()))
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let words = payload.downcast_ref::<&str>().copied();
    let words = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the plugin panicked: {} (the log says where)", words.unwrap_or("no message"))
}

fn complain(message: &str) -> ExitCode {
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "{message}");
    ExitCode::FAILURE
}
