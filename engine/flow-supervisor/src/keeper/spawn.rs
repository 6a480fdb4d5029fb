//! The few system calls that are only available as unsafe: starting a program without copying the keeper's memory, and
//! reaping with resource usage. Requires a single-threaded process, which the keeper is.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    fs::File,
    os::fd::AsRawFd,
    path::Path,
    ptr,
    sync::LazyLock,
};

use flow_core::{
    reason::{Fault, FileFault, StartFault},
    shell::Shell,
};
use nix::{
    errno::Errno,
    libc,
    sys::{
        resource::{UsageWho, getrusage},
        signal::SigSet,
    },
    unistd::Pid,
};

use super::Start;

/// How a process ended and the resources it used, including reaped descendants.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExitUsage {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub totals: Totals,
    /// Resident peak, bytes. Each program starts with the keeper's memory, so a peak below the keeper's own is unknown.
    pub max_rss: Option<u64>,
}

/// Resources that processes used in total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub cpu_s: f64,
    /// Bytes read from and written to storage, if the kernel counts them.
    pub disk: Option<(u64, u64)>,
}

impl Totals {
    pub(super) fn add(&mut self, other: Totals) {
        self.cpu_s += other.cpu_s;
        self.disk = self.disk.zip(other.disk).map(|(a, b)| (a.0 + b.0, a.1 + b.1));
    }
}

/// A kernel without storage accounting reports 0 for everybody. A kernel with it has this file.
static COUNTS_STORAGE: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/self/io").exists());
/// The unit of `ru_inblock` and `ru_oublock`, bytes.
const BLOCK: u64 = 512;

/// Memory for the stack of a child until it executes its program.
pub(super) struct Stack(Vec<u128>);

impl Stack {
    pub(super) fn new() -> Stack {
        Stack(vec![0; (64 << 10) / size_of::<u128>()])
    }
}

/// The child's data, prepared in advance because the child must not allocate.
struct Order {
    candidates: *const *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    cwd: *const c_char,
    log: c_int,
    keeper: libc::pid_t,
    no_signals: libc::sigset_t,
    failed: Option<SpawnFailure>,
}

#[derive(Clone, Copy)]
enum SpawnFailure {
    Session(c_int),
    Folder(c_int),
    Program(c_int),
}

/// Starts a program in its own session, without input, with output to `log`, and killed when the keeper dies.
///
/// # Errors
/// The failed action, and the reason.
pub(super) fn start(start: &Start, log: &File, stack: &mut Stack) -> Result<Pid, StartFault> {
    let program = start.argv.first().filter(|p| !p.is_empty()).ok_or(StartFault::NoProgram)?;
    let argv = strings(start.argv.iter().cloned())?;
    let envp = strings(start.env.iter().map(|(k, v)| format!("{k}={v}")))?;
    let candidates = strings(candidates(program, &start.env))?;
    let cwd = CString::new(start.cwd.as_os_str().as_encoded_bytes()).map_err(|_| StartFault::ZeroByte)?;
    let (argv_p, envp_p, candidates_p) = (pointers(&argv), pointers(&envp), pointers(&candidates));
    let mut order = Order {
        candidates: candidates_p.as_ptr(),
        argv: argv_p.as_ptr(),
        envp: envp_p.as_ptr(),
        cwd: cwd.as_ptr(),
        log: log.as_raw_fd(),
        keeper: Pid::this().as_raw(),
        no_signals: *SigSet::empty().as_ref(),
        failed: None,
    };
    let pid = vfork(&mut order, stack).map_err(|e| StartFault::NoProcess { error: system(e) })?;
    match order.failed {
        None => Ok(pid),
        Some(failed) => {
            reap(pid);
            Err(fault(failed, program, start))
        }
    }
}

fn fault(failed: SpawnFailure, program: &str, Start { argv, cwd, .. }: &Start) -> StartFault {
    let bash: Vec<String> = Shell::Bash.argv().iter().map(|word| (*word).to_owned()).collect();
    let (name, path) = (program, cwd.display().to_string());
    let program = program.to_owned();
    match failed {
        SpawnFailure::Session(e) => StartFault::NoSession { error: system(Errno::from_raw(e)) },
        SpawnFailure::Folder(e) => StartFault::NoEntry { path, error: system(Errno::from_raw(e)) },
        SpawnFailure::Program(e) => match Errno::from_raw(e) {
            Errno::ENOENT | Errno::ENOTDIR if argv.starts_with(&bash) => StartFault::NoBash,
            Errno::ENOENT | Errno::ENOTDIR if !name.contains('/') => StartFault::NotOnPath { program },
            Errno::ENOENT if cwd.join(name).exists() => StartFault::NoInterpreter { program },
            Errno::ENOENT | Errno::ENOTDIR => StartFault::NotThere { program },
            Errno::EACCES => StartFault::NotExecutable { program },
            Errno::ENOEXEC => StartFault::NotAProgram { program },
            Errno::E2BIG => StartFault::ArgumentsTooLong { program },
            other => StartFault::CannotStart { program, error: system(other) },
        },
    }
}

fn system(error: Errno) -> Box<Fault> {
    Box::new(FileFault::System { code: error as i32, message: error.desc().to_owned() }.into())
}

/// The possible paths of the program: its path, or its name in each folder of its own `PATH`.
fn candidates(program: &str, env: &[(String, String)]) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    let path = env.iter().find(|(k, _)| k == "PATH").map_or("/usr/local/bin:/usr/bin:/bin", |(_, v)| v.as_str());
    path.split(':').map(|dir| if dir.is_empty() { program.to_owned() } else { format!("{dir}/{program}") }).collect()
}

fn strings(all: impl IntoIterator<Item = String>) -> Result<Vec<CString>, StartFault> {
    all.into_iter().map(|text| CString::new(text).map_err(|_| StartFault::ZeroByte)).collect()
}

fn pointers(all: &[CString]) -> Vec<*const c_char> {
    all.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// Starts a child in our memory that runs [`child`], and waits until it has executed its program or given up. No page
/// tables are copied, so that the cost of a start does not depend on the size of the engine.
#[expect(unsafe_code, reason = "std's spawn takes neither a session nor a parent-death signal without a full fork")]
fn vfork(order: &mut Order, stack: &mut Stack) -> Result<Pid, Errno> {
    let top = stack.0.as_mut_ptr_range().end;
    // SAFETY: the stack is ours, aligned and large enough for a few system calls; `order` and all its targets outlive
    // the call, because CLONE_VFORK returns only when the child no longer uses our memory. All signals that matter to
    // us are blocked and none has a handler, so nothing else runs in the child.
    let pid = unsafe {
        libc::clone(
            child,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_mut(order).cast::<c_void>(),
        )
    };
    Errno::result(pid).map(Pid::from_raw)
}

/// The code of the child: system calls only.
#[expect(unsafe_code, reason = "runs between fork and exec")]
extern "C" fn child(order: *mut c_void) -> c_int {
    // SAFETY: `vfork` passes an `Order` that nothing else uses at the same time; every pointer in it is to live memory,
    // and each list ends with a null pointer.
    unsafe {
        let order = &mut *order.cast::<Order>();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != order.keeper {
            libc::_exit(127);
        }
        if libc::setsid() < 0 {
            order.failed = Some(SpawnFailure::Session(Errno::last_raw()));
            libc::_exit(127);
        }
        libc::dup2(order.log, libc::STDOUT_FILENO);
        libc::dup2(order.log, libc::STDERR_FILENO);
        if libc::chdir(order.cwd) < 0 {
            order.failed = Some(SpawnFailure::Folder(Errno::last_raw()));
            libc::_exit(127);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &order.no_signals, ptr::null_mut());
        // Like a shell: skips a folder of the PATH if the program is missing or not executable there, and keeps the
        // more specific error.
        let mut worst = libc::ENOENT;
        let mut next = order.candidates;
        while !(*next).is_null() {
            libc::execve(*next, order.argv, order.envp);
            match Errno::last_raw() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = libc::EACCES,
                other => {
                    worst = other;
                    break;
                }
            }
            next = next.add(1);
        }
        order.failed = Some(SpawnFailure::Program(worst));
        libc::_exit(127)
    }
}

/// Reaps a child that has ended.
#[expect(unsafe_code, reason = "nix has no wait with resource usage")]
pub(super) fn reap(pid: Pid) -> Option<ExitUsage> {
    // SAFETY: both are plain data that the call fills in.
    let (status, used) = unsafe {
        let mut status = 0;
        let mut used: libc::rusage = std::mem::zeroed();
        if libc::wait4(pid.as_raw(), &mut status, 0, &mut used) <= 0 {
            return None;
        }
        (status, used)
    };
    let own = getrusage(UsageWho::RUSAGE_SELF).map_or(i64::MAX, |own| own.max_rss());
    let bytes = |blocks: i64| blocks.unsigned_abs() * BLOCK;
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Some(ExitUsage {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        totals: Totals {
            cpu_s: seconds(used.ru_utime) + seconds(used.ru_stime),
            disk: COUNTS_STORAGE.then(|| (bytes(used.ru_inblock), bytes(used.ru_oublock))),
        },
        max_rss: (used.ru_maxrss > own).then(|| used.ru_maxrss.unsigned_abs() * 1024),
    })
}

/// Resets all signals to their defaults and marks every inherited file close-on-exec, so that steps start as from a
/// fresh shell. Rust ignores SIGPIPE, and a shell's background job ignores SIGINT.
#[expect(unsafe_code, reason = "signal dispositions and ranges of descriptors have no safe call")]
pub(super) fn forget_the_parent() {
    // SAFETY: no handler is installed, and no descriptor is closed, only marked. An old kernel rejects the mark, which
    // only loses tidiness, because std opens everything close-on-exec.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}
