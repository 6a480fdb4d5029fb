//! Reads a run from a store or from a bundle. Writes no file.

use flow_store::{Import, Objects};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path},
};

use flow_core::{
    AttemptId, Bundle, Digest, InstanceId, JournalLine, LONGEST_BUNDLE, Program, RunEvent, RunId, Series, StepResult,
};
use flow_runs::{Follow, FollowForecasts, FollowWaits, Forecast, RunDir, Status, StoreDir, WaitsLine, regular};
use nix::fcntl::OFlag;

/// Bytes of a log that the page shows: its end.
const LOG_TAIL: u64 = 64 << 10;
/// Of so many runs the journals are searched for a result.
const LATEST: usize = 20;
/// A longer series is not drawn.
const LONGEST_SERIES: u64 = 64 << 20;

/// Whether a text can be the name of a run's folder.
fn is_name(run: &str) -> bool {
    !run.is_empty() && run.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

pub(crate) enum Source {
    Store { dir: RunDir, journal: Follow, waits: FollowWaits, forecasts: Box<FollowForecasts> },
    Bundle { bundle: Box<Bundle>, read: bool },
}

impl Source {
    /// A run from its folder in a store, or from a bundle.
    pub(crate) fn open(path: &Path) -> Result<Source, String> {
        if !path.is_dir() {
            return Source::bundle(path);
        }
        let path = fs::canonicalize(path).map_err(|e| format!("`{}` cannot be read: {e}", path.display()))?;
        let store = path.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let run = &*path.file_name().unwrap_or_default().to_string_lossy();
        let none = || format!("there is no run `{}` in the store `{}`", flow_core::visible(run), store.display());
        let dir = StoreDir::existing(store).map_err(|e| e.to_string())?.ok_or_else(none)?;
        let dir = dir.run(&RunId(run.to_owned()));
        if !is_name(run) || !dir.journal().is_file() {
            return Err(none());
        }
        let (journal, waits) = (Follow::new(dir.journal()), dir.follow_waits());
        let forecasts = Box::new(dir.follow_forecasts());
        Ok(Source::Store { dir, journal, waits, forecasts })
    }

    fn bundle(file: &Path) -> Result<Source, String> {
        let shown = file.display();
        let open = || {
            let opened = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(file)?;
            regular(&opened.metadata()?)?;
            let mut bytes = Vec::new();
            opened.take(LONGEST_BUNDLE + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = open().map_err(|e: io::Error| format!("`{shown}` cannot be read: {e}"))?;
        if bytes.len() as u64 > LONGEST_BUNDLE {
            return Err(format!("`{shown}`: it is longer than {} MiB", LONGEST_BUNDLE >> 20));
        }
        let bundle = Box::new(Bundle::read(&bytes).map_err(|why| format!("`{shown}`: {why}"))?);
        Ok(Source::Bundle { bundle, read: false })
    }

    /// New lines of the journal since the last call.
    pub(crate) fn lines(&mut self) -> Result<Vec<JournalLine>, String> {
        let mut lines = match self {
            Source::Store { journal, .. } => journal.poll().map_err(|e| e.to_string())?,
            Source::Bundle { read: true, .. } => Vec::new(),
            Source::Bundle { bundle, read } => {
                *read = true;
                bundle.run.journals.get(&bundle.origin.run).cloned().unwrap_or_default()
            }
        };
        if self.is_carried() {
            let started = lines.iter().filter_map(|line| match &line.event {
                RunEvent::Started { instance, attempt, .. } => Some((*instance, *attempt)),
                _ => None,
            });
            // The last attempt of an instance made its result.
            let attempts: BTreeMap<InstanceId, AttemptId> = started.collect();
            let epochs = lines.iter().flat_map(|line| self.epochs(line, &attempts)).collect::<Vec<_>>();
            lines.extend(epochs);
            lines.sort_by_key(|line| line.at);
        }
        Ok(lines)
    }

    /// How many lines of the journal cannot be read.
    pub(crate) fn unread(&self) -> usize {
        match self {
            Source::Store { journal, .. } => journal.unread(),
            Source::Bundle { .. } => 0,
        }
    }

    /// Changes since the last call of what instances wait for. A bundle has none.
    pub(crate) fn waits(&mut self) -> Vec<WaitsLine> {
        match self {
            Source::Store { waits, .. } => waits.poll().unwrap_or_default(),
            Source::Bundle { .. } => Vec::new(),
        }
    }

    /// Forecasts since the last call. A bundle has none.
    pub(crate) fn forecasts(&mut self) -> Vec<Forecast> {
        match self {
            Source::Store { forecasts, .. } => forecasts.poll().unwrap_or_default(),
            Source::Bundle { .. } => Vec::new(),
        }
    }

    /// Whether it comes from a bundle, imported or not. A bundle has no logs, and no epochs in its journal.
    pub(crate) fn is_carried(&self) -> bool {
        match self {
            Source::Store { dir, .. } => Import::is_store(dir.store()),
            Source::Bundle { .. } => true,
        }
    }

    /// The epochs of a recorded result as journal lines, from its series.
    fn epochs(&self, line: &JournalLine, attempts: &BTreeMap<InstanceId, AttemptId>) -> Vec<JournalLine> {
        let RunEvent::Recorded { instance, result, read_again: false, .. } = &line.event else { return Vec::new() };
        let series = result.series.and_then(|digest| self.series(&digest));
        let (Some(&attempt), Some(series)) = (attempts.get(instance), series) else { return Vec::new() };
        let mut values: BTreeMap<(u32, u32), BTreeMap<String, f64>> = BTreeMap::new();
        for (name, points) in &series.metrics {
            for point in points.iter().filter(|point| point.key.step.is_none()) {
                let Some(epoch) = point.key.whole_epoch() else { continue };
                values.entry((point.part, epoch)).or_default().insert(name.clone(), point.value);
            }
        }
        let epoch = |timed: &flow_core::TimedEpoch| {
            let metrics = values.get(&(timed.part, timed.epoch)).cloned().unwrap_or_default();
            let at = result.started_at + (timed.ended.max(0.0) * 1e3) as u64;
            let event = RunEvent::Epoch { attempt, epoch: timed.epoch, metrics, units: BTreeMap::new() };
            JournalLine { at: at.min(line.at), event }
        };
        series.epoch_times.iter().map(epoch).collect()
    }

    /// The machine that a bundle comes from.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Source::Store { .. } => None,
            Source::Bundle { bundle, .. } => Some(&bundle.origin.host),
        }
    }

    /// The present status file.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            Source::Store { dir, .. } => dir.status().ok().flatten(),
            Source::Bundle { .. } => None,
        }
    }

    /// Whether its process lives.
    pub(crate) fn lives(&self) -> bool {
        matches!(self, Source::Store { dir, .. } if dir.lives().is_some())
    }

    /// Results that another run made, from its journal. A result that was accepted, or read again, is in the journal of
    /// a later run: the latest ones are searched for it.
    pub(crate) fn results_of(&self, run: &RunId, wanted: &BTreeSet<Digest>) -> BTreeMap<Digest, StepResult> {
        let mut found = BTreeMap::new();
        let add = |found: &mut BTreeMap<Digest, StepResult>, line: &JournalLine| {
            if let RunEvent::Recorded { result, .. } = &line.event
                && wanted.contains(&result.fingerprint)
            {
                found.entry(result.fingerprint).or_insert_with(|| (**result).clone());
            }
        };
        match self {
            // The results of a removed run stay unknown.
            Source::Store { dir, .. } => {
                let later = dir.store().runs().unwrap_or_default().into_iter().rev().take(LATEST);
                for run in [run.clone()].into_iter().filter(|run| is_name(&run.0)).chain(later) {
                    if found.len() < wanted.len() {
                        let _ = dir.store().run(&run).read_journal(|line| add(&mut found, &line));
                    }
                }
            }
            Source::Bundle { bundle, .. } => {
                let first = bundle.run.journals.get(run).into_iter();
                first.chain(bundle.run.journals.values()).flatten().for_each(|line| add(&mut found, line));
            }
        }
        found
    }

    /// The series of a result.
    pub(crate) fn series(&self, digest: &Digest) -> Option<Series> {
        match self {
            Source::Store { dir, .. } => {
                let objects = Objects::of(dir.store());
                let length = fs::metadata(objects.path(digest)).ok()?.len();
                let bytes = (length <= LONGEST_SERIES).then(|| objects.read(digest, "").ok())??;
                serde_json::from_slice(&bytes).ok()
            }
            Source::Bundle { bundle, .. } => serde_json::from_str(bundle.run.objects.get(digest)?.get("")?).ok(),
        }
    }

    /// A file of a stored folder that a step made.
    pub(crate) fn file(&self, folder: &Digest, name: &str) -> Option<Vec<u8>> {
        match self {
            Source::Store { dir, .. } => Objects::of(dir.store()).read(folder, name).ok(),
            Source::Bundle { bundle, .. } => Some(bundle.run.objects.get(folder)?.get(name)?.clone().into_bytes()),
        }
    }

    /// The end of an attempt's log, without control characters. `None` if there is none.
    pub(crate) fn log(&self, folder: &str) -> Option<String> {
        let Source::Store { dir, .. } = self else { return None };
        let folder = Path::new(folder);
        // The path comes from a file, so it is not trusted.
        if folder.as_os_str().is_empty() || folder.components().any(|part| !matches!(part, Component::Normal(_))) {
            return None;
        }
        let read = || {
            let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
            let path = dir.store().path().join(folder).join("log");
            let mut file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
            let meta = file.metadata()?;
            regular(&meta)?;
            file.seek(SeekFrom::Start(meta.len().saturating_sub(LOG_TAIL)))?;
            let mut bytes = Vec::new();
            file.take(LOG_TAIL).read_to_end(&mut bytes).map(|_| (bytes, meta.len() > LOG_TAIL))
        };
        let (bytes, cut): (Vec<u8>, bool) = read().ok()?;
        let start = if cut { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) } else { 0 };
        let lines = bytes[start..].split(|byte| *byte == b'\n').map(|line| {
            // A progress bar overwrites its line.
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let drawn = line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default();
            Program::default().text(drawn)
        });
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}
