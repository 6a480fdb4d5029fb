//! Reading the metrics of a finished attempt again, from what the store keeps of it. What the numbers come to is the core's to say.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use flow_core::{
    Artifact, Digest, Input, Instance, KeptOutput, Metrics, MetricsFile, MetricsForm, NumberFiles, StepResult,
    event_file,
    measure::{Record, read_again as read_numbers_again},
    plan::Reading,
    reason::{Cause, NoMetrics},
};
use flow_runs::StoreError;
use flow_store::{Inputs, Objects, Tree};
use flow_supervisor::attempt::Folder;
use walkdir::WalkDir;

use super::{
    finish::mend_and_ingest,
    numbers::{bytes_in, event_files_in, is_event_file, text_in, unread},
};
use crate::text;

/// A file system keeps times in coarser steps than the clock that an end is read from.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// The result with its numbers as `metrics` say now; `None` where what would have to be read is not kept. With `keep` its series
/// is put into the store.
///
/// # Errors
/// The disk is full.
pub(crate) fn read_again(
    objects: &Objects,
    mut result: StepResult,
    metrics: Option<&Metrics>,
    instance: &Instance,
    keep: bool,
) -> Result<Option<Reading>, StoreError> {
    let Some(kept) = result.kept.clone() else { return Ok(None) };
    let (record, log) = match kept.record.map(|digest| objects.read_private(&digest)) {
        Some(bytes) => {
            let Some((record, rest)) = bytes.and_then(record_and_log) else { return Ok(None) };
            let Some(mut log) = kept.log.map_or(Some(Vec::new()), |log| objects.read_private(&log)) else {
                return Ok(None);
            };
            log.extend(rest);
            (record, log)
        }
        None => (of_silence(&result), Vec::new()),
    };
    let mut files = StoredFiles { objects, kept: &kept, outputs: outputs(objects, &result, instance) };
    if metrics.is_some_and(|metrics| metrics.files.iter().any(|file| !files.has(file))) {
        return Ok(None);
    }
    let (series, mut remarks) = read_numbers_again(&mut result, metrics, &record, &log, &mut files);
    let bytes = serde_json::to_vec(&series).unwrap_or_default();
    result.series = (!series.is_empty()).then(|| Digest::of(&bytes));
    if keep && result.series.is_some() {
        objects.store_bytes(&bytes)?;
    }
    let from_log = metrics.is_some_and(|metrics| !metrics.stdout.is_empty());
    if kept.cut > 0 && from_log {
        let mib = kept.cut.div_ceil(1 << 20);
        remarks
            .push(format!("{mib} MiB in the middle of its log were not stored, so numbers there cannot be read again"));
    }
    Ok(Some(Reading { result, remarks }))
}

/// Gives a result without outputs those of `instance`, from the work folder that it left. They are stored in `objects`, or
/// only hashed. False if one is missing or was written since.
///
/// # Errors
/// A file cannot be read; the disk is full.
pub(crate) fn collect_again(
    result: &mut StepResult,
    instance: &Instance,
    root: &Path,
    inputs: &Inputs,
    objects: Option<&Objects>,
) -> Result<bool, StoreError> {
    let Some(Cause::NoOutput { work, .. }) = &result.cause else { return Ok(false) };
    let work = root.join(work);
    let work = work.parent().map_or(work.clone(), |attempt| Folder::at(attempt.to_owned()).work());
    let ended = UNIX_EPOCH + Duration::from_millis(result.ended_at) + CLOCK_STEP;
    let is_as_left = |path: &Path| {
        let mut entries = WalkDir::new(path).into_iter();
        entries.all(|entry| {
            entry.ok().and_then(|entry| entry.metadata().ok()?.modified().ok()).is_some_and(|at| at <= ended)
        })
    };
    if !instance.outputs.iter().all(|output| is_as_left(&work.join(&output.path))) {
        return Ok(false);
    }
    for output in instance.outputs.iter() {
        let path = work.join(&output.path);
        let artifact = match objects {
            Some(objects) => {
                let given = instance.inputs.iter().map(Input::place);
                mend_and_ingest(objects, (&path, &work), given, || objects.ingest_copy_of(&path, &work))?
            }
            None => {
                let Tree { digest, kind, bytes, files } = inputs.hash_path(&path, false)?;
                Artifact { digest, kind, bytes, files }
            }
        };
        result.outputs.insert(output.name.clone(), artifact);
        result.paths.insert(output.name.clone(), output.path.clone());
    }
    result.cause = None;
    Ok(true)
}

/// The record is one line. A log follows unless it is an object of its own, then the output of earlier attempts.
fn record_and_log(mut bytes: Vec<u8>) -> Option<(Record, Vec<u8>)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let record = serde_json::from_slice(&bytes[..end]).ok()?;
    bytes.drain(..=end);
    Some((record, bytes))
}

/// Of an attempt that printed nothing, and was over before anybody looked.
fn of_silence(result: &StepResult) -> Record {
    let (started_at, ended_at) = (result.started_at as f64 / 1e3, result.ended_at as f64 / 1e3);
    Record { began: started_at, started_at, ended_at, ..Record::default() }
}

/// The outputs of a result: where each was in the work folder, and where it lies in the store.
fn outputs(objects: &Objects, result: &StepResult, instance: &Instance) -> Vec<(String, PathBuf)> {
    let lies = |output: &flow_core::Output| Some(objects.path(&result.outputs.get(&output.name)?.digest));
    instance.outputs.iter().filter_map(|output| Some((output.path.clone(), lies(output)?))).collect()
}

/// The files that were kept of a work folder, outputs among them.
struct StoredFiles<'a> {
    objects: &'a Objects,
    kept: &'a KeptOutput,
    outputs: Vec<(String, PathBuf)>,
}

impl StoredFiles<'_> {
    /// Reading it would come to what it came to in the work folder.
    fn has(&mut self, file: &MetricsFile) -> bool {
        let path = &*file.path;
        self.kept.absent.contains(path)
            || match file.form {
                MetricsForm::TensorBoard => self.event_files(path).is_ok_and(|files| !files.is_empty()),
                MetricsForm::Json | MetricsForm::Jsonl | MetricsForm::Csv => {
                    self.kept.files.contains_key(path) || self.in_outputs(path).is_some()
                }
            }
    }

    fn own(&self, file: &str) -> Option<Vec<u8>> {
        self.objects.read_private(self.kept.files.get(file)?)
    }

    /// Where a file or folder lies in the store, if it is an output or in one.
    fn in_outputs(&self, file: &str) -> Option<PathBuf> {
        self.outputs.iter().find_map(|(output, whole)| {
            let below = Path::new(file).strip_prefix(output).ok()?;
            Some(if below.as_os_str().is_empty() { whole.clone() } else { whole.join(below) })
        })
    }

    fn lies(&self, file: &str) -> Result<PathBuf, NoMetrics> {
        self.in_outputs(file).ok_or_else(|| unread(file)(nix::errno::Errno::ENOENT.into()))
    }
}

impl NumberFiles for StoredFiles<'_> {
    fn text(&mut self, file: &str) -> Result<String, NoMetrics> {
        match self.own(file).and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(text) => Ok(text),
            None => text_in(&self.lies(file)?, file),
        }
    }

    fn pieces(&mut self, file: &str, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), NoMetrics> {
        match self.own(file).and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(text) => _ = take(&text),
            None => text::pieces(&self.lies(file)?, self.objects.activity(), take).map_err(unread(file))?,
        }
        Ok(())
    }

    fn event_files(&mut self, folder: &str) -> Result<Vec<String>, NoMetrics> {
        let below = |path: &str| match folder {
            "." => Some(path.to_owned()),
            _ => Path::new(path).strip_prefix(folder).ok()?.to_str().map(str::to_owned),
        };
        let own = self.kept.files.keys().filter(|path| is_event_file(Path::new(path)));
        let mut files: Vec<String> = own.filter_map(|path| below(path)).collect();
        if let Some(inside) = self.in_outputs(folder) {
            files.extend(event_files_in(&inside));
        } else {
            for (output, whole) in &self.outputs {
                let found = event_files_in(whole).into_iter().map(|path| event_file(output, &path));
                files.extend(found.filter_map(|path| below(&path)));
            }
        }
        files.sort();
        Ok(files)
    }

    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, NoMetrics> {
        self.objects.activity().check().map_err(unread(file))?;
        self.own(file).map_or_else(|| bytes_in(&self.lies(file)?, file), Ok)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{fs::File, io::Write, ops::ControlFlow};

    use flow_core::{
        Catalogue, CorunWindow, ExpandRequest, Expansion, Machine, Source,
        measure::{AttemptSamples, GpuLook, GpuSamples, HostSamples, HostUsage, LONGEST_LINE, PART_ENDS, sum_up},
        parse,
    };
    use flow_runs::{Holder, ProcessIdentity};
    use flow_store::{Activity, Store};
    use proptest::prelude::*;

    use super::*;
    use crate::driver::results::{keep::keep, listener::Listener};
    use flow_supervisor::{
        attempt::{Folder, open_log},
        secrets::Secrets,
    };

    pub(in crate::driver) fn expansion() -> Expansion {
        let text = "flow: 1\nname: t\nsteps: {t: {run: x, metrics: {stdout: 'epoch {epoch} loss {loss}'}}}".to_owned();
        let (catalogue, machine) = (Catalogue::default(), Machine { cpus: 2, ..Machine::default() });
        let (folder, shell_folder) = ("/t", "/t");
        let catalogue = &catalogue;
        let request = ExpandRequest {
            catalogue,
            machine: &machine,
            profile: None,
            set: &[],
            files: &[],
            folder,
            shell_folder,
            batch: flow_core::Batch::default(),
        };
        parse(&Source { path: "t.yaml".into(), text }).and_then(|w| w.expand(&request)).expect("a workflow")
    }

    fn result() -> StepResult {
        serde_json::from_value(serde_json::json!({
            "fingerprint": Digest([0; 32]), "workflow": "t", "step": "t", "label": "t", "axes": {}, "outcome": "ok",
            "run": "1", "started_at": 0, "ended_at": 0,
        }))
        .expect("a result")
    }

    /// What is printed, whether anybody looks after it, and how long it took.
    fn piece() -> impl Strategy<Value = (String, bool, f64)> {
        let line =
            (1..5u32, 0..9u32, "[\n\r]").prop_map(|(epoch, loss, end)| format!("epoch {epoch} loss 0.{loss}{end}"));
        let half = (0..4usize).prop_map(|n| ["epoch 3 lo", "ss 7\n", "\0epoch 2 loss 1\n", "noise\r\n"][n].to_owned());
        let long = Just(format!("epoch 4 loss 4{}\n", "x".repeat(LONGEST_LINE)));
        (prop_oneof![8 => line, 4 => half, 1 => long], any::<bool>(), 0.01..0.9)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_read_again_is_what_was_read_live(pieces in prop::collection::vec(piece(), 1..25), released in any::<bool>(), earlier in any::<bool>()) {
            let dir = tempfile::tempdir().unwrap();
            let me = Holder { process: ProcessIdentity::own(), doing: "t".into(), run: None, since: String::new() };
            let store = Store::open(&dir.path().join(".flow"), &me, |_| ControlFlow::Break(())).unwrap();
            let (expansion, folder) = (expansion(), Folder::create(dir.path().join("0")).unwrap());
            let (instance, metrics) = (&expansion.instances[0], expansion.steps[0].metrics.as_deref());
            if earlier {
                std::fs::write(folder.earlier(), format!("epoch 0 loss 8\nepoch 1 loss 7\n{PART_ENDS}\n")).unwrap();
            }
            let mut listener = Listener::new(&folder, false, metrics);
            let (began, mut now) = (1_790_000_000.123_456_7, 1_790_000_000.25);
            listener.begins(began);
            let mut gpus = GpuSamples::since(began, ["GPU-a".to_owned()]);
            let (mut host, mut log) = (HostSamples::since(began), File::create(folder.log()).unwrap());
            for (n, (text, looks, took)) in pieces.iter().enumerate() {
                log.write_all(text.as_bytes()).unwrap();
                now += took;
                if *looks {
                    listener.listen(now);
                    gpus.push(0, GpuLook { at: now, load: Some(*took), memory: 9, ..GpuLook::default() });
                    host.push(now, None, &HostUsage { cpu_s: took / 3.0, rss: 7 }, Some((0.5, 0.1)));
                }
                if released && n == 2 {
                    listener.released(now);
                }
            }
            listener.listen_to_the_end(now + 0.5, true);
            let mut live = result();
            live.circumstances.corun = released.then(|| CorunWindow {
                group: "g".into(),
                gpus: Default::default(),
                members: 2,
                released_at: 1.0,
                closed_at: now - began,
                epochs: 0,
                closed_by: None,
                interference: None,
            });
            let (started_at, ended_at) = (began + 0.01, now + 0.5);
            let missed = listener.read_files(&folder.work(), true, &Activity::default());
            live.cause = missed.clone().map(|problem| flow_core::reason::Cause::NoMetrics { problem });
            let series = sum_up(&listener.reported, AttemptSamples { started_at, ended_at, host: &host, gpus: &gpus }, &mut live);
            live.series = (!series.is_empty()).then(|| Digest::of(&serde_json::to_vec(&series).unwrap()));
            let (released, looks) = (listener.released, std::mem::take(&mut listener.looks));
            let record = Record { began: listener.began, released, started_at, ended_at, looks, cut: None, earlier: None, host, gpus };
            let place = (&folder, store.objects(), &Secrets::default());
            live.kept = Some(keep(Digest([7; 32]), record, (instance, &[]), metrics, missed.is_some(), open_log(&folder.earlier()).ok(), place).unwrap());

            // As after a reading that found nothing.
            let mut other = live.clone();
            (other.metrics, other.series, other.cause) = (Default::default(), None, None);
            other.usage.cpu_cores = Some(99.0);
            let again = read_again(store.objects(), other, metrics, instance, true).unwrap().unwrap();
            prop_assert!(!earlier || live.metrics.contains_key("loss"));
            prop_assert_eq!(again.result, live);
        }
    }
}
