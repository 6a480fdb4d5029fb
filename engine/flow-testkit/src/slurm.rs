//! A throw-away Slurm for tests: real daemons on loopback, nodes and GPUs that are not there. `engine/slurm.sh` makes it, for
//! people as well; here it is started, hurt and ended. Does not know flow.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{TestSpace, until};

/// The controller's name, beside `node1`, `node2`, ….
pub const CONTROLLER: &str = "controller";

/// For `slurm.conf`: where the controller is away, Slurm's commands give up after four seconds, and not after nine.
pub const FOUR_SECONDS: &str = "MessageTimeout=5";

/// How long a daemon may take to start before it is started again.
const RESTART: Duration = Duration::from_secs(3);

/// A cluster of its own. Ended when dropped, with all its jobs; also if the process of the test is killed.
///
/// Tests that start one are marked `#[ignore = "needs Slurm"]`: `engine/test.py` runs them if Slurm is installed.
pub struct Cluster {
    dir: TempDir,
}

impl Cluster {
    /// One with nodes of 8 CPUs, 4000 MiB and `gpus` GPUs of type `fake` each, in the partition `main`.
    ///
    /// # Panics
    /// Slurm is not installed, which is said with what installs it, or does not start.
    pub fn start(nodes: u32, gpus: u32) -> Cluster {
        Cluster::start_with(nodes, gpus, "")
    }

    /// The same, with more lines for `slurm.conf`; of two for one thing the later counts.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_with(nodes: u32, gpus: u32, conf: &str) -> Cluster {
        Cluster::up(nodes, gpus, ("SLURM_EXTRA", conf))
    }

    /// The same, with GPUs of these types, `h100 a100`, which nodes have in turn.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_mixed(nodes: u32, gpus: u32, types: &str) -> Cluster {
        Cluster::up(nodes, gpus, ("SLURM_GPU_TYPES", types))
    }

    fn up(nodes: u32, gpus: u32, (name, value): (&str, &str)) -> Cluster {
        let dir = tempfile::Builder::new().prefix("flow-slurm-").tempdir().expect("a scratch folder");
        let cluster = Cluster { dir };
        let mut script = cluster.script("up");
        script.args([nodes.to_string(), gpus.to_string()]).env(name, value);
        succeed(script.env("SLURM_OWNER", std::process::id().to_string()));
        cluster
    }

    /// Its folder: logs of the daemons in `log`.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The variable by which every command of Slurm finds it.
    pub fn env(&self) -> (&'static str, String) {
        ("SLURM_CONF", self.dir.path().join("slurm.conf").to_string_lossy().into_owned())
    }

    /// A command of Slurm on it, in its folder: to start or to look at when it fails.
    pub fn command(&self, program: &str) -> Command {
        let (name, value) = self.env();
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env(name, value);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command of Slurm: `cluster.run("squeue", ["--noheader"])`.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn run<'a>(&self, program: &str, args: impl IntoIterator<Item = &'a str>) -> String {
        let output = succeed(self.command(program).args(args));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Kills a daemon as nothing can be caught: [`CONTROLLER`], or a node's, whose jobs live on.
    ///
    /// # Panics
    /// It is not there.
    pub fn kill(&self, daemon: &str) {
        self.signal(daemon, Signal::SIGKILL);
    }

    /// Kills the controller, deletes its state, and starts it again. Job numbers start from the beginning.
    ///
    /// # Panics
    /// It does not run, or does not start again.
    pub fn forget(&self) {
        self.kill(CONTROLLER);
        let state = self.dir.path().join("state");
        fs::remove_dir_all(&state).and_then(|()| fs::create_dir(&state)).expect("an empty folder");
        self.start_again(CONTROLLER);
        self.register_nodes();
    }

    /// Ends a daemon as it wishes: the controller writes down what it knows.
    ///
    /// # Panics
    /// It is not there, or stays.
    pub fn stop(&self, daemon: &str) {
        self.signal(daemon, Signal::SIGTERM);
    }

    /// Starts a daemon again, and waits until the controller answers.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_again(&self, daemon: &str) {
        succeed(self.script("start").arg(daemon));
        let mut started = Instant::now();
        until("the controller answers", || {
            let ping = self.command("scontrol").arg("ping").output();
            let answers = ping.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("is UP"));
            // A daemon whose port is taken ends at once.
            if !answers && started.elapsed() > RESTART && !self.is_alive(daemon) {
                succeed(self.script("start").arg(daemon));
                started = Instant::now();
            }
            answers
        });
    }

    fn is_alive(&self, daemon: &str) -> bool {
        let pid = fs::read_to_string(self.pid_file(daemon)).unwrap_or_default();
        !pid.is_empty() && fs::read_link(format!("/proc/{}/exe", pid.trim())).is_ok()
    }

    fn pid_file(&self, daemon: &str) -> PathBuf {
        self.dir.path().join("run").join(format!("{daemon}.pid"))
    }

    /// Has its nodes tell a controller that was started again that they are there: it asks after four seconds, and gives them no job
    /// before.
    pub fn register_nodes(&self) {
        for file in fs::read_dir(self.dir.path().join("run")).into_iter().flatten().flatten() {
            let pid = fs::read_to_string(file.path()).ok().and_then(|text| text.trim().parse().ok());
            if let Some(pid) = pid.filter(|_| file.file_name().to_string_lossy().starts_with("node")) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGHUP);
            }
        }
    }

    fn signal(&self, daemon: &str, signal: Signal) {
        let file = self.pid_file(daemon);
        let pid = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        let pid = Pid::from_raw(pid.unwrap_or_else(|| panic!("{} does not run", file.display())));
        kill(pid, signal).expect("a signal");
        // Where nobody waits for orphans its entry stays, with nothing in it.
        until("the daemon is gone", || fs::read_link(format!("/proc/{pid}/exe")).is_err());
        let _ = fs::remove_file(file);
    }

    fn script(&self, what: &str) -> Command {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../slurm.sh");
        let mut command = Command::new("bash");
        command.arg(script).arg(what).arg(self.dir.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.script("down").output();
    }
}

impl TestSpace {
    /// Everything that is run from now on finds this cluster.
    pub fn on(&mut self, cluster: &Cluster) -> &mut TestSpace {
        let (name, value) = cluster.env();
        self.env(name, &value)
    }
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{}: {e}", command.get_program().display()));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{error}", output.status);
    output
}
