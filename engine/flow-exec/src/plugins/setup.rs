//! Sets a plugin up: its commands in order, once for each digest, under a lock. The commands are attempts of their own
//! keeper, so that no process of them survives a cancelled or killed flow.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::Path,
    time::Duration,
};

use flow_core::{AttemptId, Digest};
use flow_protocol::Exit;
use flow_supervisor::{
    attempt::{Folder, Lines, last_drawn, signal_name, tail},
    keeper::{Event, Keeper, Request, Start, command_argv, record},
};
use nix::fcntl::{Flock, FlockArg};

use super::{
    CACHE_VAR, Plugin, PluginError,
    record::{Program, Record},
};
use crate::environment::text_variables;

/// Interval of looks at the log of a command, and of tries to take the lock.
const LOOK: Duration = Duration::from_millis(100);

/// A plugin to set up, and its files.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub plugin: &'a Plugin,
    /// The digest of its content.
    pub digest: Digest,
    /// The record of the set-up; a lock and the output are next to it.
    pub record: &'a Path,
    /// The program for the keeper: flow itself.
    pub keeper: &'a Path,
    /// Variables that its commands must not get.
    pub secrets: &'a BTreeSet<&'a str>,
}

/// Progress of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another flow sets it up.
    Waiting,
    /// A command starts.
    Command(&'a str),
    /// The command wrote a line.
    Line(&'a str),
}

/// True if a plugin with this content must be set up, by the record of its last set-up.
pub(crate) fn needs_setup(plugin: &Plugin, digest: Digest, record: &Path) -> bool {
    match (Program::of(&plugin.argv()), Record::read(record)) {
        (Some(program), Some(record)) => record != Record { digest, program },
        (Some(_), None) => !plugin.manifest.setup.is_empty(),
        (None, _) => true,
    }
}

impl Setup<'_> {
    fn needed(&self) -> bool {
        needs_setup(self.plugin, self.digest, self.record)
    }

    /// Sets the plugin up if needed, and checks that its program exists. Returns whether it did anything. Dropping the
    /// future ends the running command.
    ///
    /// # Errors
    /// In words for the user, several lines.
    pub async fn ensure(&self, report: &mut dyn FnMut(Progress<'_>)) -> Result<bool, PluginError> {
        let error = |what: String| self.plugin.error(format!("it could not be set up: {what}"));
        if !self.needed() {
            return Ok(false);
        }
        let system = |e: io::Error| error(format!("{}: {e}", self.record.display()));
        fs::create_dir_all(self.record.parent().unwrap_or(Path::new("."))).map_err(system)?;
        let lock = self.record.with_extension("lock");
        let lock = self::lock(&lock, FlockArg::LockExclusiveNonblock, report).await.map_err(system)?;
        // The other flow may have done it.
        if !self.needed() {
            return Ok(false);
        }
        self.run(report).await.map_err(error)?;
        let argv = self.plugin.argv();
        let Some(program) = Program::of(&argv) else {
            let start = argv.join(" ");
            return Err(error(if self.plugin.manifest.setup.is_empty() {
                format!("`{start}` is not there; `start:` names a program in the plugin's folder or on the PATH")
            } else {
                format!(
                    "its commands succeeded, but `{start}` is not there; `start:` must name a file that `setup:` makes"
                )
            }));
        };
        Record { digest: self.digest, program }.write(self.record).map_err(system)?;
        drop(lock);
        Ok(true)
    }

    async fn run(&self, report: &mut dyn FnMut(Progress<'_>)) -> Result<(), String> {
        let commands = &self.plugin.manifest.setup;
        if commands.is_empty() {
            return Ok(());
        }
        let mut keeper = Keeper::spawn(self.keeper, &record::of_plugin(self.record))
            .map_err(|e| format!("{}: {e}", self.keeper.display()))?;
        let mut env: Vec<(String, String)> = text_variables()
            // `start:` expects cargo's output at its default place, whatever the user's shell sets.
            .filter(|(name, _)| name != "CARGO_TARGET_DIR" && name != CACHE_VAR && !self.secrets.contains(&**name))
            .collect();
        env.push((CACHE_VAR.into(), self.plugin.cache.to_string_lossy().into_owned()));
        let top = self.record.with_extension("setup");
        if top.exists() {
            fs::remove_dir_all(&top).map_err(|e| format!("{}: {e}", top.display()))?;
        }
        for (command, n) in commands.iter().zip(1..) {
            report(Progress::Command(command));
            let folder = Folder::create(top.join(n.to_string())).map_err(|e| format!("{}: {e}", top.display()))?;
            let start = Start {
                attempt: AttemptId(n),
                argv: command_argv(command),
                env: env.clone(),
                cwd: self.plugin.folder.clone(),
                folder: folder.path().to_owned(),
                secrets: Vec::new(),
            };
            run_command(&mut keeper, start, report).await.map_err(|how| self.explain(command, &how, &folder))?;
        }
        Ok(())
    }

    fn explain(&self, command: &str, how: &str, folder: &Folder) -> String {
        format!(
            "`{command}` failed: {how}\nThe whole output is in {}. After a fix, run again; to try the command alone:\n  cd {} && export {CACHE_VAR}={} && {command}",
            folder.log().display(),
            self.plugin.folder.display(),
            self.plugin.cache.display(),
        )
    }
}

/// Waits for the lock on a file. `how` does not block.
pub(crate) async fn lock(path: &Path, how: FlockArg, report: &mut dyn FnMut(Progress<'_>)) -> io::Result<Flock<File>> {
    let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
    let mut told = false;
    loop {
        match Flock::lock(file, how) {
            Ok(lock) => return Ok(lock),
            Err((back, nix::errno::Errno::EWOULDBLOCK)) => file = back,
            Err((_, e)) => return Err(e.into()),
        }
        if !std::mem::replace(&mut told, true) {
            report(Progress::Waiting);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs a command of a set-up and reports its lines.
///
/// # Errors
/// How it failed, and the last lines of its output.
pub(crate) async fn run_command(
    keeper: &mut Keeper,
    start: Start,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<(), String> {
    let folder = Folder::at(start.folder.clone());
    keeper.send(&Request::Start(start));
    let how = match follow(keeper, &folder, report).await {
        Ok(Exit { code: Some(0), .. }) => return Ok(()),
        Ok(Exit { code: Some(127), .. }) => "it calls a program that is not installed (exit code 127)".to_owned(),
        Ok(Exit { code: Some(code), .. }) => format!("exit code {code}"),
        Ok(Exit { signal, .. }) => signal.map_or_else(String::new, signal_name),
        Err(reason) => reason,
    };
    let lines = tail(&folder.log(), 20).unwrap_or_default();
    Err(lines.iter().fold(how, |text, line| text + "\n  | " + line))
}

/// Waits for the end of a command and reports its lines in the meantime.
async fn follow(keeper: &mut Keeper, folder: &Folder, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Exit, String> {
    let mut log = Lines::new(folder.log(), b"\n");
    loop {
        let end = match tokio::time::timeout(LOOK, keeper.next_event()).await {
            Ok(Ok(Event::Exited { exit, .. })) => Some(Ok(exit)),
            Ok(Ok(Event::SpawnFailed { reason, .. })) => Some(Err(reason.to_string())),
            Ok(Err(gone)) => Some(Err(gone.to_string())),
            Ok(Ok(Event::Started { .. })) | Err(_) => None,
        };
        // Read errors are ignored.
        let mut lines = Vec::new();
        while let Ok(Some(more)) = log.poll() {
            lines.extend(more);
        }
        lines.extend(if end.is_some() { log.unfinished() } else { None });
        lines.iter().for_each(|line| progress(Progress::Line(last_drawn(&String::from_utf8_lossy(line)))));
        if let Some(end) = end {
            return end;
        }
    }
}
