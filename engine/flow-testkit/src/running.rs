//! A `flow` that is at work: waited for, signalled, killed; and the processes of a workspace, whoever started them.

use std::{
    fs::{self, File},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Longer than anything a test waits for, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A `flow` that was started. Killed when dropped.
pub struct RunningFlow {
    child: Child,
    out: PathBuf,
}

impl RunningFlow {
    pub(crate) fn start(mut command: Command, dir: &Path) -> RunningFlow {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let out = dir.join(format!("flow-{}.out", NEXT.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&out).expect("a file for the output");
        let both = file.try_clone().expect("the same file");
        let child = command.stdout(both).stderr(file).spawn().expect("flow starts");
        RunningFlow { child, out }
    }

    pub(crate) fn on_terminal(mut command: Command) -> (RunningFlow, PtyMaster) {
        // What other tests start at this moment must not keep it.
        let terminal = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a terminal");
        let opened = grantpt(&terminal).and_then(|()| unlockpt(&terminal)).and_then(|()| ptsname_r(&terminal));
        let name = opened.expect("its name");
        let line = File::options().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name);
        let line = line.expect("its other end");
        let both = line.try_clone().expect("the same end");
        let child = command.stdout(both).stderr(line).spawn().expect("flow starts");
        (RunningFlow { child, out: PathBuf::new() }, terminal)
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Its output so far, both streams.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid()), signal);
    }

    /// Kills it, as nothing can be caught or cleaned up.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("flow ends", || {
            status = self.child.try_wait().expect("its status");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// It has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }
}

impl Drop for RunningFlow {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until something is so.
///
/// # Panics
/// It never is.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Processes that work in a folder or below, or whose command line names it; the asking one is none of them.
pub(crate) fn processes_in(folder: &Path) -> Vec<(i32, String)> {
    let name = folder.to_string_lossy();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let inside = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let me = pid.cast_unsigned() == std::process::id();
        if !me && !command.is_empty() && (inside || command.contains(&*name)) {
            found.push((pid, command.trim_end().to_owned()));
        }
    }
    found
}
