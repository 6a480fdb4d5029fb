//! The life of a job on its node: one loop over the keeper's events, the signals of the batch system and the engine's files.

use std::{
    env, fs, io,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use flow_core::{GpuFacts, Machine};
use flow_protocol::{self as protocol, file};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Bells, CLAIMED, Job, NO_FOLDER, NodeFacts, NodeFiles, Program, not_written,
    programs::{News, Programs},
};
use crate::{
    attempt::{Folder, write_atomically, write_durably},
    clock, hardware,
    keeper::{Keeper, Request},
};

/// How often logs and the engine's files are looked at, as an engine beside the program would.
const LOOK: Duration = Duration::from_millis(50);
/// How long a program may take to end that the batch system ends: it will not wait long itself.
const GRACE: Duration = Duration::from_secs(25);
/// The same where it is only warned: when time is up the batch system ends it.
const WARNED: Duration = Duration::from_secs(600);
/// Variables that the batch system sets and that a program may need, by how they begin.
const PASSED_ON: [&str; 5] = ["SLURM_", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "TMPDIR"];

/// Runs the job of a folder. The exit code is the first program's that did not succeed.
///
/// # Errors
/// A sentence: the folder cannot be used, or no keeper can be started.
pub fn serve(folder: &Path) -> Result<ExitCode, String> {
    let files = NodeFiles::of(folder);
    match fs::create_dir(files.claim()) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(ExitCode::from(CLAIMED)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(ExitCode::from(NO_FOLDER)),
        Err(e) => return Err(format!("`{}` cannot be claimed: {e}", folder.display())),
    }
    let told = fs::read(files.job()).map_err(|e| format!("`{}` cannot be read: {e}", files.job().display()))?;
    // It holds secrets, and nobody needs it any more.
    let _ = fs::remove_file(files.job());
    let job: Job = serde_json::from_slice(&told)
        .map_err(|e| format!("what the engine wrote for this node is of another version of flow: {e}"))?;
    drop(told);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("the event loop cannot be started: {e}"))?;
    runtime.block_on(async { Node::start(folder, job)?.run().await })
}

struct Node {
    programs: Programs,
    warned: Option<bool>,
    beat: Duration,
    bells: Bells,
    beats: (u64, Option<Instant>),
    code: u8,
}

impl Node {
    fn start(folder: &Path, job: Job) -> Result<Node, String> {
        let exe = env::current_exe().map_err(|e| format!("flow cannot be found: {e}"))?;
        // Read before the cards are looked at: what is visible is what the batch system gave.
        let granted = granted();
        let machine = hardware::machine(None)?;
        let keeper = Keeper::spawn(&exe, &folder.join("keeper.json"));
        let mut keeper = keeper.map_err(|e| format!("the keeper cannot be started: {e}"))?;
        // The batch system sends all processes of a job the same signals.
        keeper.send(&Request::Stay);
        let wants = job.programs.iter().any(|program| program.gpus > 0);
        let cards = if machine.fake_gpus || !wants { &[][..] } else { &machine.gpus };
        let mut programs = Programs::new(keeper, cards, None)?;
        let mut next = 0;
        for Program { mut start, gpus: wanted, gpu_model } in job.programs {
            let wanted = wanted as usize;
            let first = if job.shares_gpus { 0 } else { next };
            next = first + wanted;
            let own: Vec<String> = granted.iter().skip(first).take(wanted).cloned().collect();
            let facts = facts(&machine, &own, first, gpu_model.as_deref());
            equip(&mut start.env, &own);
            let folder = Folder::at(start.folder.clone());
            name_gpus(&folder, &facts.gpus).map_err(|e| format!("`{}`: {e}", folder.path().display()))?;
            let of = |gpu: &GpuFacts| cards.iter().position(|card| card.uuid == gpu.uuid);
            let cards = facts.gpus.iter().filter_map(of).collect();
            programs.begin(start, facts, cards);
        }
        Ok(Node { programs, warned: None, beat: job.beat, bells: job.bells, beats: (0, None), code: 0 })
    }

    async fn run(mut self) -> Result<ExitCode, String> {
        let cannot = |e: io::Error| format!("signals cannot be received: {e}");
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::user_defined1()];
        let signals: Result<Vec<Signal>, io::Error> = kinds.into_iter().map(signal).collect();
        let mut signals = signals.map_err(cannot)?;
        let [terminate, interrupt, warning] = signals.as_mut_slice() else { return Err("no signals".to_owned()) };
        while !self.programs.running.is_empty() {
            tokio::select! {
                biased;
                news = self.programs.next() => {
                    let news = news?;
                    if matches!(news, News::Ended(..)) {
                        // The batch system ends program and node at once: a shell may have gone on to a good end where its command was ended.
                        tokio::select! {
                            biased;
                            _ = terminate.recv() => self.end_all(),
                            _ = interrupt.recv() => self.end_all(),
                            _ = warning.recv() => self.warn_all(),
                            () = tokio::time::sleep(LOOK) => {}
                        }
                    }
                    self.tell(news)?;
                }
                _ = terminate.recv() => self.end_all(),
                _ = interrupt.recv() => self.end_all(),
                _ = warning.recv() => self.warn_all(),
                () = tokio::time::sleep(LOOK) => self.look(),
            }
        }
        Ok(ExitCode::from(self.code))
    }

    fn tell(&mut self, news: News) -> Result<(), String> {
        match news {
            News::Started(attempt) => {
                let Some(program) = self.programs.running.get(&attempt) else { return Ok(()) };
                NodeFiles::of(program.folder.path()).write_started(&program.facts)?;
                self.bells.ring(&program.facts.host, attempt);
                Ok(())
            }
            News::Ended(attempt, ended) => {
                let (program, mut record) = *ended;
                let code = record.exit.code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                if self.code == 0 {
                    self.code = code;
                }
                record.warned = self.warned;
                let path = NodeFiles::of(program.folder.path()).ended();
                write_durably(&path, &serde_json::to_vec(&record).unwrap_or_default())
                    .map_err(|e| not_written(&path, &e))?;
                self.bells.ring(&program.facts.host, attempt);
                Ok(())
            }
        }
    }

    /// The batch system ends the job.
    fn end_all(&mut self) {
        self.warned = Some(false);
        self.programs.end_all(GRACE);
    }

    /// The batch system says that it will end the job soon.
    fn warn_all(&mut self) {
        self.warned.get_or_insert(true);
        self.programs.warn_all(WARNED);
    }

    /// What an engine beside the program would look at twenty times a second.
    fn look(&mut self) {
        self.programs.look();
        let asked = |(attempt, folder)| Some((attempt, NodeFiles::of(folder).asked_to_end()?));
        let asked: Vec<_> = self.programs.folders().filter_map(asked).collect();
        asked.into_iter().for_each(|(attempt, grace)| self.programs.end(attempt, grace));
        if self.beats.1.is_none_or(|last| clock::since(last) >= self.beat) {
            self.beats = (self.beats.0 + 1, Some(clock::steady()));
            for (_, folder) in self.programs.folders() {
                let beat = self.beats.0.to_string();
                // Who does not see it waits a little longer.
                let _ = write_atomically(&NodeFiles::of(folder).beat(), beat.as_bytes());
            }
        }
    }
}

/// The GPUs that the batch system gave, as a program names them; none where it gave none.
fn granted() -> Vec<String> {
    let visible = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    visible.split(',').map(str::trim).filter(|gpu| !gpu.is_empty() && *gpu != "NoDevFiles").map(str::to_owned).collect()
}

/// Where a program with these GPUs runs, the first of which is the `first` of the job's.
fn facts(machine: &Machine, own: &[String], first: usize, gpu_model: Option<&str>) -> NodeFacts {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    // Several nodes of one machine are told apart by the batch system alone.
    let host = env::var("SLURMD_NODENAME").unwrap_or(host);
    let unseen = |(n, gpu): (usize, &String)| GpuFacts {
        uuid: format!("{host}:{gpu}"),
        index: gpu.parse().unwrap_or(n as u32),
        name: gpu_model.unwrap_or("GPU").to_owned(),
        memory: 0,
    };
    // What is visible is what the job has, in its order.
    let seen: Vec<GpuFacts> = machine.gpus.iter().skip(first).take(own.len()).cloned().collect();
    let gpus = if seen.len() == own.len() { seen } else { own.iter().enumerate().map(unseen).collect() };
    NodeFacts {
        job: env::var("SLURM_JOB_ID").ok(),
        pid: 0,
        cpu_model: machine.cpu_model.clone(),
        host_cpus: hardware::host_cpus(),
        memory: machine.memory,
        driver: machine.driver.clone(),
        gpus,
        host,
    }
}

/// The variables of a program on this node: its GPUs, and what the batch system tells.
fn equip(env: &mut Vec<(String, String)>, gpus: &[String]) {
    let passed_on = |name: &str| PASSED_ON.iter().any(|begin| name.starts_with(begin));
    env.retain(|(name, _)| name != "CUDA_VISIBLE_DEVICES" && !passed_on(name));
    let own = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    env.extend(own.filter(|(name, _)| passed_on(name)));
    // Empty where it has none: without the variable it would see every GPU of the node.
    env.push(("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
}

/// Tells a plugin its GPUs, which nobody knew when its request was written.
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
