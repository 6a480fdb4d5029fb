//! The main loop of a job on its node: the keeper's events, the signals of the batch system and the engine's files.

use std::{
    env, fs, io,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use flow_core::{Environment, GpuFacts, Machine};
use flow_protocol::{self as protocol, file};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    BEAT, CLAIMED, Job, NO_FOLDER, NodeFacts, NodeFiles, Notifier, Program,
    outgoing::{Outgoing, is_full},
    programs::{ProgramEvent, Programs},
};
use crate::{
    attempt::{Folder, write_atomically},
    clock, hardware,
    keeper::{Keeper, Request, Start},
};

/// Interval of looks at logs and the engine's files, as in an engine next to the program.
const LOOK: Duration = Duration::from_millis(50);
/// Grace period when the batch system ends a program; the batch system itself does not wait long.
const GRACE: Duration = Duration::from_secs(25);
/// The same after a warning: at the time limit, the batch system ends it.
const WARNED: Duration = Duration::from_secs(600);
/// Interval of retries on a full disk.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Prefixes of batch-system variables that a program may need.
const PASSED_ON: [&str; 5] = ["SLURM_", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "TMPDIR"];

/// Finds the software environment in which a program starts.
pub type EnvironmentOf = fn(&Start) -> Environment;

/// Runs the job of a folder. Returns the exit code of the first program that failed, or success.
///
/// # Errors
/// A sentence: the folder cannot be used, or no keeper can be started.
pub fn serve(folder: &Path, environment_of: EnvironmentOf) -> Result<ExitCode, String> {
    let files = NodeFiles::of(folder);
    match retry_until_space(|| fs::create_dir(files.claim())) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(ExitCode::from(CLAIMED)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(ExitCode::from(NO_FOLDER)),
        Err(e) => return Err(format!("`{}` cannot be claimed: {e}", folder.display())),
    }
    let told = fs::read(files.job()).map_err(|e| format!("`{}` cannot be read: {e}", files.job().display()))?;
    // It holds secrets, and is not needed any more.
    let _ = fs::remove_file(files.job());
    let job: Job = serde_json::from_slice(&told)
        .map_err(|e| format!("the files for this node come from another version of flow: {e}"))?;
    drop(told);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("the event loop cannot be started: {e}"))?;
    runtime.block_on(async { Node::start(folder, job, environment_of)?.run().await })
}

struct Node {
    programs: Programs,
    warned: Option<bool>,
    beat: Duration,
    notifier: Notifier,
    beats: (u64, Option<Instant>),
    code: u8,
    out: Outgoing,
    host: String,
}

impl Node {
    fn start(folder: &Path, job: Job, environment_of: EnvironmentOf) -> Result<Node, String> {
        let exe = env::current_exe().map_err(|e| format!("flow's program was not found: {e}"))?;
        // Read before the GPUs are queried: the visible ones are those that the batch system allocated.
        let granted = granted();
        let wants = job.programs.iter().any(|program| program.gpus > 0);
        let machine = if wants { hardware::machine(None)? } else { hardware::without_gpus() };
        let keeper = retry_until_space(|| Keeper::spawn(&exe, &folder.join("keeper.json")));
        let mut keeper = keeper.map_err(|e| format!("the supervisor cannot be started: {e}"))?;
        // The batch system sends the same signals to all processes of a job.
        keeper.send(&Request::IgnoreSignals);
        let present = if machine.fake_gpus || !wants { &[][..] } else { &machine.gpus };
        let mut programs = Programs::new(keeper, present, None)?;
        let mut next = 0;
        for Program { mut start, gpus: wanted, gpu_model } in job.programs {
            let wanted = wanted as usize;
            let first = if job.shares_gpus { 0 } else { next };
            next = first + wanted;
            let own: Vec<String> = granted.iter().skip(first).take(wanted).cloned().collect();
            let mut facts = facts(&machine, &own, first, gpu_model.as_deref());
            equip(&mut start.env, &own);
            facts.environment = environment_of(&start);
            let folder = Folder::at(start.folder.clone());
            let named = retry_until_space(|| name_gpus(&folder, &facts.gpus));
            named.map_err(|e| format!("`{}`: {e}", folder.path().display()))?;
            let of = |gpu: &GpuFacts| present.iter().position(|other| other.uuid == gpu.uuid);
            let gpus = facts.gpus.iter().filter_map(of).collect();
            programs.begin(start, facts, gpus);
        }
        let (beats, out) = ((0, None), Outgoing::default());
        let Job { beat, notifier, .. } = job;
        Ok(Node { programs, warned: None, beat, notifier, beats, code: 0, out, host: host() })
    }

    async fn run(mut self) -> Result<ExitCode, String> {
        let cannot = |e: io::Error| format!("signals cannot be received: {e}");
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::user_defined1()];
        let signals: Result<Vec<Signal>, io::Error> = kinds.into_iter().map(signal).collect();
        let mut signals = signals.map_err(cannot)?;
        let [terminate, interrupt, warning] = signals.as_mut_slice() else { return Err("no signals".to_owned()) };
        while !self.programs.running.is_empty() || !self.out.is_empty() {
            let runs = !self.programs.running.is_empty();
            tokio::select! {
                biased;
                event = self.programs.next(), if runs => {
                    let event = event?;
                    if matches!(event, ProgramEvent::Ended(..)) {
                        // The batch system ends program and node together: a shell may have exited well although its
                        // command was killed.
                        tokio::select! {
                            biased;
                            _ = terminate.recv() => self.end_all(),
                            _ = interrupt.recv() => self.end_all(),
                            _ = warning.recv() => self.warn_all(),
                            () = tokio::time::sleep(LOOK) => {}
                        }
                    }
                    self.send(event)?;
                }
                _ = terminate.recv() => self.end_all(),
                _ = interrupt.recv() => self.end_all(),
                _ = warning.recv() => self.warn_all(),
                () = tokio::time::sleep(LOOK) => self.look(),
            }
            if self.out.is_due() || self.is_to_go() {
                self.write()?;
            }
            if self.is_to_go() {
                break;
            }
        }
        // Without a record, the exit code tells that something is wrong.
        Ok(ExitCode::from(if self.out.is_empty() { self.code } else { self.code.max(1) }))
    }

    /// Nothing runs, and the batch system will not wait for disk space.
    fn is_to_go(&self) -> bool {
        self.programs.running.is_empty() && self.warned == Some(false)
    }

    fn send(&mut self, event: ProgramEvent) -> Result<(), String> {
        match event {
            ProgramEvent::Started(attempt) => {
                let Some(program) = self.programs.running.get(&attempt) else { return Ok(()) };
                self.out.started(attempt, program.folder.path(), &program.facts);
            }
            ProgramEvent::Ended(attempt, ended) => {
                let (program, mut record) = *ended;
                let code = record.exit.code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                if self.code == 0 {
                    self.code = code;
                }
                record.warned = self.warned;
                self.out.ended(attempt, program.folder.path(), &record, true);
            }
        }
        self.write()
    }

    /// Writes the files that wait, and sends their wake-ups.
    fn write(&mut self) -> Result<(), String> {
        let Node { out, notifier: bells, host, .. } = self;
        out.write(|attempt, _| bells.wake(host, attempt))
    }

    /// The batch system ends the job.
    fn end_all(&mut self) {
        self.warned = Some(false);
        self.programs.end_all(GRACE);
    }

    /// The batch system warns that it will end the job soon.
    fn warn_all(&mut self) {
        self.warned.get_or_insert(true);
        self.programs.warn_all(WARNED);
    }

    /// The looks that an engine next to the program would make twenty times a second.
    fn look(&mut self) {
        self.programs.look();
        let asked = |(attempt, folder)| Some((attempt, NodeFiles::of(folder).end_grace()?));
        let asked: Vec<_> = self.programs.folders().filter_map(asked).collect();
        asked.into_iter().for_each(|(attempt, grace)| self.programs.end(attempt, grace));
        if self.beats.1.is_none_or(|last| clock::since(last) >= self.beat) {
            self.beats = (self.beats.0 + 1, Some(clock::steady()));
            for (_, folder) in self.programs.folders() {
                let beat = self.beats.0.to_string();
                // An engine that misses a beat waits a little longer.
                let _ = write_atomically(&folder.join(BEAT), beat.as_bytes());
            }
        }
    }
}

/// Retries a necessary action until the disk has room. The batch system may end this process in between.
fn retry_until_space<T>(mut what: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match what() {
            Err(e) if is_full(&e) => thread::sleep(TRY_AGAIN),
            done => return done,
        }
    }
}

/// The GPUs that the batch system allocated, by their names for programs; empty if none.
fn granted() -> Vec<String> {
    let visible = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    visible.split(',').map(str::trim).filter(|gpu| !gpu.is_empty() && *gpu != "NoDevFiles").map(str::to_owned).collect()
}

/// The job's number as `squeue` shows it: `12`, or `12_3` for a task of an array.
fn job_id(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
        (Some(array), Some(task)) => Some(format!("{array}_{task}")),
        _ => variable("SLURM_JOB_ID"),
    }
}

/// The name of this node. Several nodes on one machine are distinguished only by the batch system.
fn host() -> String {
    let of_machine = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    env::var("SLURMD_NODENAME").unwrap_or_else(|_| of_machine())
}

/// The facts about a program with these GPUs, the first of which is number `first` in the job.
fn facts(machine: &Machine, own: &[String], first: usize, gpu_model: Option<&str>) -> NodeFacts {
    let host = host();
    let unseen = |(n, gpu): (usize, &String)| GpuFacts {
        uuid: format!("{host}:{gpu}"),
        index: gpu.parse().unwrap_or(n as u32),
        name: gpu_model.unwrap_or("GPU").to_owned(),
        memory: 0,
    };
    // The visible GPUs are those of the job, in its order.
    let seen: Vec<GpuFacts> = machine.gpus.iter().skip(first).take(own.len()).cloned().collect();
    let gpus = if seen.len() == own.len() { seen } else { own.iter().enumerate().map(unseen).collect() };
    NodeFacts {
        job: job_id(|name| env::var(name).ok()),
        pid: 0,
        cpu_model: machine.cpu_model.clone(),
        host_cpus: hardware::host_cpus(),
        allowed_cpus: hardware::allowed_cpus(),
        memory: machine.memory,
        driver: machine.driver.clone(),
        gpus,
        host,
        environment: Environment::default(),
    }
}

/// Sets the variables of a program on this node: its GPUs, and those of the batch system.
fn equip(env: &mut Vec<(String, String)>, gpus: &[String]) {
    let passed_on = |name: &str| PASSED_ON.iter().any(|begin| name.starts_with(begin));
    env.retain(|(name, _)| name != "CUDA_VISIBLE_DEVICES" && !passed_on(name));
    let own = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    env.extend(own.filter(|(name, _)| passed_on(name)));
    // Empty without GPUs: if the variable were missing, the program would see every GPU of the node.
    env.push(("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
}

/// Writes the GPUs into a plugin's request, which was written before they were known.
fn name_gpus(folder: &Folder, gpus: &[GpuFacts]) -> io::Result<()> {
    let bytes = match fs::read(folder.path().join(file::REQUEST)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let mut request: protocol::Request = serde_json::from_slice(&bytes)?;
    let named = |gpu: &GpuFacts| protocol::Gpu { uuid: gpu.uuid.clone(), index: gpu.index, name: gpu.name.clone() };
    request.placement.gpus = gpus.iter().map(named).collect();
    folder.write_request(&request)
}
