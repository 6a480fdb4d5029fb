//! Slurm's commands, each with a time limit, because they wait long while the controller is down. Their output is
//! parsed elsewhere.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    env,
    io::{self, Read},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use flow_slurm::{JobId, JobState, Limits, Load, Node, ParseError, RefusalKind, Row, SubmitRefusal, misleads};
use flow_supervisor::{clock, hardware};

/// No command that gets an answer takes longer.
const LIMIT: Duration = Duration::from_secs(30);
/// The limit if there is a remembered answer to fall back on.
const BRIEF: Duration = Duration::from_secs(3);
/// The limit after Ctrl-C, when a user waits for the end.
const HURRIED: Duration = Duration::from_secs(4);
/// Silence before a notice, initial and maximal: if a controller was only busy, the next notice comes later. With a
/// query of the queue every 15 s, no silence of 20 s goes unnoticed.
const SILENT: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(32));
/// `sbatch` prints this, and then waits for two minutes.
const SLEEPS: &str = "sleeping and retrying";
/// Limit of names in one command.
const AT_ONCE: usize = 500;
/// Pause before a busy controller is queried again.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval of checks whether a command has ended: at first, and later.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Jobs by name, and the task of an array.
pub(crate) type JobNames = BTreeSet<(String, Option<u32>)>;

/// What a cluster accepts at once.
#[derive(Clone, Debug)]
pub struct Rules {
    pub limits: Limits,
    /// Names of its partitions.
    pub partitions: Vec<String>,
}

pub(crate) struct Client {
    environment: Option<BTreeMap<String, String>>,
    limit: Duration,
    hurry: Arc<AtomicBool>,
    silence: Option<Silence>,
}

/// The output of a command.
struct CommandOutput {
    /// None if it timed out or was killed.
    code: Option<i32>,
    out: String,
    err: String,
}

/// Slurm gave no answer. This says nothing about any job.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoAnswer {
    #[error("`{command}` is not on the PATH")]
    NotInstalled { command: &'static str },
    #[error("`{command}` cannot be started: {error}")]
    NotStarted { command: &'static str, error: String },
    #[error("`{command}` did not answer in time")]
    TooLate { command: &'static str },
    #[error("{text}")]
    Refused { text: String },
    #[error("`{command}` ended with code {code} and no message")]
    Failed { command: &'static str, code: i32 },
    #[error(transparent)]
    Unread(#[from] ParseError),
}

impl Client {
    /// With the environment of this process.
    pub(crate) fn new() -> Client {
        Client { environment: None, limit: LIMIT, hurry: Arc::default(), silence: None }
    }

    /// The same, for callers that can do without an answer.
    pub(crate) fn brief() -> Client {
        Client { limit: BRIEF, ..Client::new() }
    }

    /// The same, after Ctrl-C.
    pub(crate) fn hurried() -> Client {
        Client { limit: HURRIED, ..Client::new() }
    }

    /// With exactly these variables, because a job starts with the environment of `sbatch`. `hurry` shortens the time
    /// limit; `silence` notifies the user if no answer comes for a while.
    pub(crate) fn with(environment: BTreeMap<String, String>, hurry: Arc<AtomicBool>, silence: Silence) -> Client {
        Client { environment: Some(environment), limit: LIMIT, hurry, silence: Some(silence) }
    }

    /// Since when the controller has not answered, if so.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.silence.as_ref()?.since.get()
    }

    fn command(&self, program: &'static str) -> Command {
        let mut command = Command::new(program);
        match &self.environment {
            Some(environment) => _ = command.env_clear().envs(environment.iter().filter(|(name, _)| !misleads(name))),
            None => {
                let all = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                all.filter(|name| misleads(name)).for_each(|name| _ = command.env_remove(name));
            }
        }
        command
    }

    fn run(&self, program: &'static str, args: impl IntoIterator<Item = String>) -> Result<CommandOutput, NoAnswer> {
        let mut command = self.command(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => NoAnswer::NotInstalled { command: program },
            _ => NoAnswer::NotStarted { command: program, error: e.to_string() },
        })?;
        let (out, err) = (Pipe::of(child.stdout.take()), Pipe::of(child.stderr.take()));
        // The accounting database is another service.
        let silence = self.silence.as_ref().filter(|_| program != "sacct");
        let code = wait(&mut child, &err, || {
            if self.hurry.load(Ordering::Relaxed) {
                // The one who ends the jobs reports the result; nobody waits here.
                return HURRIED;
            }
            silence.into_iter().for_each(Silence::note_wait);
            self.limit
        });
        let code = code.map_err(|e| NoAnswer::NotStarted { command: program, error: e.to_string() })?;
        // The output before the timeout may tell what the command waited for.
        let said = CommandOutput { code, out: out.whole(), err: err.whole() };
        silence.into_iter().for_each(|silence| silence.note_answer(&said));
        Ok(said)
    }

    /// The output of a command that succeeded.
    fn output(&self, program: &'static str, args: &[&str]) -> Result<String, NoAnswer> {
        let said = self.run(program, args.iter().map(|arg| (*arg).to_owned()))?;
        match said.code {
            Some(0) => Ok(said.out),
            None => Err(NoAnswer::TooLate { command: program }),
            Some(code) => {
                let text = said.err.lines().map(str::trim).find(|line| !line.is_empty());
                let text = text.map(|line| line.trim_start_matches("slurm_load_jobs error: ").to_owned());
                Err(match text {
                    Some(text) => NoAnswer::Refused { text },
                    None => NoAnswer::Failed { command: program, code },
                })
            }
        }
    }

    /// All jobs of flow that belong to this user.
    pub(crate) fn queue(&self) -> Result<Vec<Row>, NoAnswer> {
        Ok(flow_slurm::parse_queue(&self.output("squeue", flow_slurm::QUEUE)?)?)
    }

    /// The accounting records of jobs with these names; an error without accounting.
    pub(crate) fn accounting(&self, keys: &[&str]) -> Result<Vec<Row>, NoAnswer> {
        let names = format!("--name={}", keys.join(","));
        let args: Vec<&str> =
            flow_slurm::ACCOUNTING.iter().copied().chain([&*names, "--starttime=now-30days"]).collect();
        Ok(flow_slurm::parse_accounting(&self.output("sacct", &args)?)?)
    }

    /// What the cluster accepts at once.
    pub(crate) fn rules(&self) -> Result<Rules, NoAnswer> {
        let partitions = flow_slurm::parse_partitions(&self.output("scontrol", flow_slurm::PARTITIONS)?)?;
        Ok(Rules { limits: self.limits()?, partitions })
    }

    pub(crate) fn limits(&self) -> Result<Limits, NoAnswer> {
        Ok(flow_slurm::parse_config(&self.output("scontrol", flow_slurm::CONFIG)?)?)
    }

    /// All nodes, and Slurm's text about them.
    pub(crate) fn nodes(&self) -> Result<(Vec<Node>, String), NoAnswer> {
        let begun = clock::steady();
        let text = loop {
            match self.output("sinfo", flow_slurm::NODES) {
                // Without an answer no run starts; a busy controller may answer at the next try.
                Err(NoAnswer::Refused { text })
                    if flow_slurm::is_busy(&text) && clock::since(begun) < self.limit * 2 =>
                {
                    thread::sleep(PAUSE);
                }
                answer => break answer?,
            }
        };
        if text.trim().is_empty() {
            // This is no cluster, or not one yet: it says nothing about the workflow.
            return Err(NoAnswer::Refused { text: "`sinfo` lists no nodes".to_owned() });
        }
        Ok((flow_slurm::parse_nodes(&text)?, text))
    }

    /// The number of jobs of all users.
    pub(crate) fn load(&self) -> Result<BTreeMap<String, Load>, NoAnswer> {
        Ok(flow_slurm::parse_load(&self.output("squeue", flow_slurm::LOAD)?, &hardware::person())?)
    }

    /// Submits a job. The inner result is Slurm's refusal.
    pub(crate) fn submit(&self, job: &flow_slurm::Job) -> Result<Result<JobId, SubmitRefusal>, NoAnswer> {
        let said = self.run("sbatch", flow_slurm::sbatch(job))?;
        Ok(match (said.code, flow_slurm::parse_submitted(&said.out)) {
            (Some(0), Ok(id)) => Ok(id),
            _ => Err(flow_slurm::refused(&said.err, said.code)),
        })
    }

    /// Cancels those of these jobs that Slurm has, and returns their number. The queue shows later whether they have
    /// ended.
    ///
    /// Uses only job ids that the queue has just reported for these names, because a controller that was killed may
    /// reuse an id.
    ///
    /// # Errors
    /// Slurm was not reached.
    pub(crate) fn cancel(&self, which: &JobNames) -> Result<usize, NoAnswer> {
        let keys: BTreeSet<&str> = which.iter().map(|(key, _)| &**key).collect();
        let mut rows = Vec::new();
        for some in keys.into_iter().collect::<Vec<_>>().chunks(AT_ONCE) {
            let names = format!("--name={}", some.join(","));
            let args: Vec<&str> = flow_slurm::QUEUE.iter().copied().chain([&*names]).collect();
            rows.extend(flow_slurm::parse_queue(&self.output("squeue", &args)?)?);
        }
        rows.retain(|row| !matches!(flow_slurm::job_state(row), JobState::Ended(_)));
        let wanted = |row: &Row| which.contains(&(row.key.clone(), row.id.task));
        for args in flow_slurm::scancel(&rows, wanted) {
            match self.output("scancel", &args.iter().map(String::as_str).collect::<Vec<_>>()) {
                // With `--quiet`, only the exit code reports a job that no longer exists.
                Err(NoAnswer::Failed { .. }) => {}
                answer => drop(answer?),
            }
        }
        Ok(rows.iter().filter(|row| wanted(row)).count())
    }
}

/// Measures how long the controller has not answered, over all commands, and notifies the user.
pub(crate) struct Silence {
    notify: Box<dyn Fn(String) + Send>,
    since: Cell<Option<Instant>>,
    is_reported: Cell<bool>,
    patience: Cell<Duration>,
    /// The last error message.
    error: RefCell<String>,
}

impl Silence {
    pub(crate) fn new(tell: impl Fn(String) + Send + 'static) -> Silence {
        let (since, told, patience) = (Cell::new(None), Cell::new(false), Cell::new(SILENT.0));
        Silence { notify: Box::new(tell), since, is_reported: told, patience, error: RefCell::default() }
    }

    /// A command waits for its answer.
    fn note_wait(&self) {
        let since = self.since.get().unwrap_or_else(clock::steady);
        self.since.set(Some(since));
        if clock::since(since) >= self.patience.get() && !self.is_reported.replace(true) {
            self.patience.set((self.patience.get() * 2).min(SILENT.1));
            let error = self.error.borrow();
            let error = if error.is_empty() { String::new() } else { format!(": {error}") };
            (self.notify)(format!("Slurm does not answer{error}; its jobs continue, and flow waits for it"));
        }
    }

    /// A command has ended.
    fn note_answer(&self, said: &CommandOutput) {
        let SubmitRefusal { why, text } = flow_slurm::refused(&said.err, said.code);
        if said.code != Some(0) && why == RefusalKind::Unreachable {
            // The part before it names the command.
            self.error.replace(text.rsplit("error: ").next().unwrap_or_default().to_owned());
            return;
        }
        self.error.take();
        if let (Some(since), true) = (self.since.take(), self.is_reported.take()) {
            (self.notify)(format!("Slurm answers again, after {} s", clock::since(since).as_secs()));
        }
    }
}

/// Reads the output of a command as it comes, because a full pipe would block the command.
struct Pipe {
    text: Arc<Mutex<Vec<u8>>>,
    reads: Option<thread::JoinHandle<()>>,
}

impl Pipe {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Pipe {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let ours = Arc::clone(&text);
        let read = move |mut pipe: Box<dyn Read + Send>| {
            let mut piece = [0; 1 << 13];
            while let Ok(read @ 1..) = pipe.read(&mut piece) {
                ours.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..read]);
            }
        };
        let named = || thread::Builder::new().name("slurm client".into());
        let reads = pipe.and_then(|pipe| named().spawn(move || read(Box::new(pipe))).ok());
        Pipe { text, reads }
    }

    fn has_words(&self, words: &str) -> bool {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.windows(words.len()).any(|part| part == words.as_bytes())
    }

    /// The whole output, after the command has ended.
    fn whole(self) -> String {
        let _ = self.reads.map(thread::JoinHandle::join);
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Waits for the exit code. Kills a command, and returns none, if it takes too long or prints [`SLEEPS`].
fn wait(child: &mut Child, err: &Pipe, limit: impl Fn() -> Duration) -> io::Result<Option<i32>> {
    let (begun, mut pause) = (clock::steady(), LOOK.0);
    loop {
        if let Some(status) = child.try_wait()? {
            // The output of a killed command does not count.
            return Ok(status.code());
        }
        if clock::since(begun) > limit() || err.has_words(SLEEPS) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_did_not_reach_the_controller_met_silence() {
        let silence = Silence::new(|text| panic!("{text}"));
        let ended = |err: &str| {
            silence.note_wait();
            silence.note_answer(&CommandOutput { code: Some(1), out: String::new(), err: err.to_owned() });
            silence.since.get().is_some()
        };
        assert!(ended("sbatch: error: Unable to contact slurm controller (connect failure)"));
        // An unknown refusal is an answer, too.
        assert!(!ended("sbatch: error: Prolog of this site says no"));
    }
}
