//! `flow logs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use flow_core::reason::Waits;
use flow_exec::OrphanedJobs;
use flow_runs::{Follow, RunDir, StoreDir};
use flow_supervisor::attempt::{FIRST, Folder, NEWEST, left_out, open_log};
use nix::unistd::User;

use super::past_runs::PastRuns;
use super::{CommandResult, find};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::{NOTE, Output, STRONG, styled},
    place::{self, StoreLocation, TriedAttempts},
    screen::{Attempt, InstanceState, InstanceView, View},
};

/// Interval at which a growing log is read.
const LOOK: Duration = Duration::from_millis(200);
/// Slurm is asked about the jobs of a killed run only once per so many reads.
const READS_PER_QUERY: u32 = 50;

/// Arguments of `flow logs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow logs solo                         the output of its instances in the last run
  flow logs 'solo[version=v7,batch=16]' -f

flow keeps the first 64 MiB and the last 192 MiB of a program's output. Into a pipe or a file, the bytes are unchanged. \
On a terminal, flow prints text and colours, and omits sequences that move the cursor, set the title or make links.")]
pub(crate) struct Logs {
    /// A step, or an instance such as 'solo[batch=16]'
    step: String,
    #[command(flatten)]
    of: OfRun,
    /// Follow the output while the step runs
    #[arg(short, long)]
    follow: bool,
}

/// The log of one instance.
struct Log {
    label: String,
    /// Output of earlier runs, by attempts whose checkpoint this one resumed from.
    earlier: Option<PathBuf>,
    file: PathBuf,
    /// No more output will come.
    ended: bool,
}

impl Logs {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let (place, dir, view) = place::run_with(global, &self.of, &self.step, |_| true, output)?;
        let asked = |label: &str| flow_core::selects(&self.step, label);
        let tried = place::tried_earlier(&place, &self.of, &view, asked, |_| true, output)?;
        let mut logs = LogPlaces { place: &place, tried, made: PastRuns::of(&place.store) };
        if self.follow {
            return follow(logs, &dir, &self.step, output);
        }
        let logs: Vec<Log> = find(&view, &self.step)?.into_iter().flat_map(|shown| logs.of(&view, shown)).collect();
        if logs.is_empty() {
            return Err(nothing(&dir, &view, &self.step)?);
        }
        let (several, mut unread) = (logs.len() > 1, None);
        for log in &logs {
            if several {
                output.line(styled(STRONG, format_args!("== {} ==", log.label)))?;
            }
            if let Some(Ok(earlier)) = log.earlier.as_ref().map(|earlier| open_log(earlier)) {
                print(&earlier, output)?;
            }
            match open_log(&log.file) {
                Ok(file) => print(&file, output)?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let why = match &view.imported {
                        Some(_) => "it was imported, and a bundle has no logs",
                        None => "it has not begun, it printed nothing, or its log was removed",
                    };
                    output.note(format!("{}: {why}", log.label))?;
                }
                // Other instances of the step may have had no log of another user.
                Err(e) => _ = unread.get_or_insert(unreadable(&log.file, &e)),
            }
        }
        unread.map_or(Ok(()), Err)
    }
}

/// Why a step has no log.
fn nothing(dir: &RunDir, view: &View, step: &str) -> Result<CliError, CliError> {
    if let Some(owner) = dir.others() {
        return Ok(CliError::usage(format!("only {owner} can read the output of `{step}` in this run")).hint(
            "in a shared store, each user's logs are private; `flow show` prints its numbers once it has ended",
        ));
    }
    Ok(CliError::usage(format!("flow has no output of `{step}`")).hint_if(waiting_advice(dir, view, step)?))
}

/// Advice for a step that waits for another run with the same work.
fn waiting_advice(dir: &RunDir, view: &View, step: &str) -> Result<Option<String>, CliError> {
    let Some(status) = dir.status()?.filter(|_| dir.lives().is_some()) else { return Ok(None) };
    let labels: Vec<&str> = find(view, step)?.iter().map(|shown| &*shown.label).collect();
    let waiting = status.waiting.iter().filter(|waiting| labels.contains(&&*waiting.label));
    let mut hints = waiting.filter_map(|waiting| match &waiting.reason {
        Waits::SharedWork { run: Some(run), user, .. } if user.is_empty() => {
            Some(format!("run {run} runs it: `flow logs {step} --run {run}`"))
        }
        Waits::SharedWork { run: Some(run), user, .. } => {
            Some(format!("run {run} of {user} is running it, and in a shared store each user's logs are private"))
        }
        _ => None,
    });
    Ok(hints.next())
}

fn unreadable(log: &Path, error: &io::Error) -> CliError {
    let owner = owner(log).filter(|_| error.kind() == io::ErrorKind::PermissionDenied);
    CliError::failed(format!("`{}` cannot be read: {error}", log.display())).hint_if(owner.map(|user| format!(
        "{user} ran this step, and in a shared store each user's logs are private: ask them; `flow show` prints its numbers"
    )))
}

/// The owner of a log that cannot be read: the owner of its folder.
fn owner(log: &Path) -> Option<String> {
    let uid = log.ancestors().find_map(|at| at.metadata().ok())?.uid().into();
    Some(User::from_uid(uid).ok().flatten().map_or_else(|| format!("user {uid}"), |user| user.name))
}

/// The stored part of a log.
fn print(mut file: &File, output: &mut Output) -> io::Result<()> {
    if let Some(gap) = left_out(file)? {
        output.program("", &mut file.take(gap.start))?;
        output.line("")?;
        output.line(styled(NOTE, gap_notice(&gap)))?;
        file.seek(SeekFrom::Start(gap.end))?;
    }
    output.program("", &mut file)
}

/// Says that a part of a log was not kept.
fn gap_notice(gap: &Range<u64>) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let (gone, first, newest) = (mib(gap.end - gap.start), mib(FIRST), mib(NEWEST));
    format!("[{gone} MiB are missing here: flow keeps the first {first} MiB and the last {newest} MiB]")
}

/// The logs of an instance's attempts in a run.
fn log(place: &StoreLocation, view: &View, shown: &InstanceView) -> Vec<Log> {
    let attempts = view.attempts_of(shown);
    let several = attempts.len() > 1;
    let one = |(n, attempt): (usize, &Attempt)| {
        let label = if several { format!("{}, attempt {}", shown.label, n + 1) } else { shown.label.clone() };
        let folder = Folder::at(place.workspace.store.join(&attempt.folder));
        // Later attempts resume from those above.
        let earlier = (n == 0).then(|| folder.earlier());
        Log { label, earlier, file: folder.log(), ended: attempt.ended.is_some() }
    };
    attempts.enumerate().map(one).collect()
}

/// Where to look for logs.
struct LogPlaces<'a> {
    place: &'a StoreLocation,
    tried: Vec<TriedAttempts>,
    /// The runs that made cached results, each read once.
    made: PastRuns<'a>,
}

impl LogPlaces<'_> {
    /// The logs of an instance in a run, or in the earlier run that tried it.
    fn of(&mut self, view: &View, shown: &InstanceView) -> Vec<Log> {
        let tried = self.tried.iter().filter(|_| shown.is_unread());
        let mut tried = tried.filter_map(|tried| Some((&tried.view, tried.get(&shown.label)?)));
        let (view, shown) = tried.next().unwrap_or((view, shown));
        let InstanceState::Cached(_, from) = &shown.state else { return log(self.place, view, shown) };
        let made = self.made.made(from, shown).map(|(view, made)| log(self.place, view, made));
        made.into_iter().flatten().map(|log| Log { ended: true, ..log }).collect()
    }
}

/// Prints new output until none of the requested instances runs, also for a killed run whose steps
/// continue. Lines of several instances begin with their label.
fn follow(mut logged: LogPlaces<'_>, dir: &RunDir, step: &str, output: &mut Output) -> CommandResult {
    let place = logged.place;
    let mut journal = Follow::new(dir.journal());
    let mut view = View::default();
    let mut read: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut orphans = OrphanedSteps { store: &place.store, dir, looks: 0, in_slurm: true };
    loop {
        // Output that comes before this is known is read below.
        let living = place.living()?.iter().any(|one| one.dir.path() == dir.path());
        for line in journal.poll()? {
            view.event(&line);
        }
        let asked = find(&view, step)?;
        let labels: Vec<&str> = asked.iter().map(|shown| &*shown.label).collect();
        let over = view.exit.is_some() || !living && !orphans.is_running(&labels);
        let several = asked.len() > 1;
        let logs: Vec<Log> = asked.iter().flat_map(|shown| logged.of(&view, shown)).collect();
        let none = logs.is_empty();
        for Log { label, earlier, file, ended } in logs {
            let mut text = Vec::new();
            if let Some(earlier) = earlier {
                let from = read.entry(earlier.clone()).or_default();
                text = new_text(&earlier, from, true).unwrap_or_default();
            }
            let from = read.entry(file.clone()).or_default();
            text.extend(new_text(&file, from, ended || over).map_err(|e| unreadable(&file, &e))?);
            for mut line in text.split_inclusive(|byte| *byte == b'\n') {
                let whose = format!("{} ", styled(STRONG, format_args!("{label}:")));
                output.program(if several { &whose } else { "" }, &mut line)?;
            }
            if text.last().is_some_and(|byte| *byte != b'\n') {
                output.line("")?;
            }
            output.flush()?;
        }
        if over || !asked.iter().any(|shown| shown.state.is_open()) {
            return if none { Err(nothing(dir, &view, step)?) } else { Ok(()) };
        }
        thread::sleep(LOOK);
    }
}

/// The steps of a killed run that are still running.
struct OrphanedSteps<'a> {
    store: &'a StoreDir,
    dir: &'a RunDir,
    looks: u32,
    in_slurm: bool,
}

impl OrphanedSteps<'_> {
    /// Whether an instance with one of these labels is.
    fn is_running(&mut self, labels: &[&str]) -> bool {
        let is_asked = |left: Vec<String>| left.iter().any(|label| labels.contains(&&**label));
        if is_asked(flow_exec::running_orphans(self.store, self.dir)) {
            return true;
        }
        if !is_asked(flow_exec::unfinished_jobs(self.dir)) {
            return false;
        }
        // A job that was cancelled, or lost its node, records no end in its folder.
        if self.looks.is_multiple_of(READS_PER_QUERY) {
            self.in_slurm = flow_exec::orphaned_jobs(&[self.dir]).first() != Some(&Some(OrphanedJobs::default()));
        }
        self.looks += 1;
        self.in_slurm
    }
}

/// New whole lines; the last partial line as well once the program has ended.
fn new_text(file: &Path, from: &mut u64, ended: bool) -> io::Result<Vec<u8>> {
    let (mut before, mut bytes) = (Vec::new(), Vec::new());
    let read = open_log(file).and_then(|mut file| {
        file.seek(SeekFrom::Start(*from))?;
        if let Some(gap) = left_out(&file)?.filter(|gap| *from < gap.end) {
            (&file).take(gap.start.saturating_sub(*from)).read_to_end(&mut before)?;
            before.extend_from_slice(format!("\n{}\n", gap_notice(&gap)).as_bytes());
            *from = gap.end;
            file.seek(SeekFrom::Start(*from))?;
        }
        file.read_to_end(&mut bytes)
    });
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => _ = read?,
    }
    let whole = if ended { bytes.len() } else { bytes.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1) };
    *from += whole as u64;
    before.extend_from_slice(&bytes[..whole]);
    Ok(before)
}
