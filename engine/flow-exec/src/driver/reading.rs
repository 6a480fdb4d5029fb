//! Reading the metrics of a finished attempt again, from what the store keeps of it. What the numbers come to is the core's to say.

use std::path::{Path, PathBuf};

use flow_core::{
    Digest, Instance, Metrics, MetricsFrom, StepResult,
    measure::{Record, read_again as read_numbers_again},
    plan::Reading,
};
use flow_store::{Objects, StoreError};

use super::listener::numbers_in;

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
        Some(bytes) => match bytes.and_then(record_and_log) {
            Some(both) => both,
            None => return Ok(None),
        },
        None => (of_silence(&result), Vec::new()),
    };
    let mut text = None;
    if let Some(file) = metrics.and_then(|metrics| metrics.from.file()) {
        let own = kept.files.get(file).and_then(|digest| String::from_utf8(objects.read_private(digest)?).ok());
        text = own.map(Ok).or_else(|| Some(numbers_in(&in_outputs(objects, &result, instance, file)?, file)));
        if text.is_none() {
            return Ok(None);
        }
    }
    // Of what it prints there is a text without asking.
    let text = |_: &str| text.unwrap_or_else(|| Ok(String::new()));
    let (series, mut remarks) = read_numbers_again(&mut result, metrics, &record, &log, text);
    let bytes = serde_json::to_vec(&series).unwrap_or_default();
    result.series = (!series.is_empty()).then(|| Digest::of(&bytes));
    if keep && result.series.is_some() {
        objects.store_bytes(&bytes)?;
    }
    let from_log = metrics.is_some_and(|metrics| matches!(metrics.from, MetricsFrom::Stdout(_)));
    if kept.cut > 0 && from_log {
        let mib = kept.cut.div_ceil(1 << 20);
        remarks.push(format!("{mib} MiB in the middle of its log were not kept: what stood there is not read again"));
    }
    Ok(Some(Reading { result, remarks }))
}

/// The record is one line, and the log follows.
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

/// Where a file of the work folder lies in the store, if it is an output or in one.
fn in_outputs(objects: &Objects, result: &StepResult, instance: &Instance, file: &str) -> Option<PathBuf> {
    instance.outputs.iter().find_map(|output| {
        let below = Path::new(file).strip_prefix(&output.path).ok()?;
        let whole = objects.path(&result.outputs.get(&output.name)?.digest);
        Some(if below.as_os_str().is_empty() { whole } else { whole.join(below) })
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs::File, io::Write, ops::ControlFlow};

    use flow_core::{
        Catalogue, CorunWindow, ExpandRequest, Expansion, Machine, Source,
        measure::{GpuLook, GpuSamples, HostSamples, LONGEST_LINE, Seen, Used, sum_up},
        parse,
    };
    use flow_store::{Holder, ProcessIdentity, Store};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        attempt::Folder,
        driver::{keep::keep, listener::Listener},
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
            folder,
            any_machine: false,
            shell_folder,
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
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_is_read_again_is_what_was_read_live(pieces in prop::collection::vec(piece(), 1..25), released in any::<bool>()) {
            let dir = tempfile::tempdir().unwrap();
            let me = Holder { process: ProcessIdentity::own(), doing: "t".into(), run: None, since: String::new() };
            let store = Store::open(&dir.path().join(".flow"), &me, |_| ControlFlow::Break(())).unwrap();
            let (expansion, folder) = (expansion(), Folder::create(dir.path().join("0")).unwrap());
            let (instance, metrics) = (&expansion.instances[0], expansion.steps[0].metrics.as_ref());
            let mut listener = Listener::new(&folder, false, metrics.map(|metrics| &metrics.from));
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
                    host.push(now, None, &Used { cpu_s: took / 3.0, rss: 7, ..Used::default() }, Some((0.5, 0.1)));
                }
                if released && n == 2 {
                    listener.released(now);
                }
            }
            listener.listen_to_the_end(now + 0.5);
            let mut live = result();
            live.circumstances.corun = released.then(|| CorunWindow {
                group: "g".into(),
                gpus: Default::default(),
                members: 2,
                released_at: 1.0,
                closed_at: now - began,
                epochs: 0,
                closed_by: None,
            });
            let (started_at, ended_at) = (began + 0.01, now + 0.5);
            let missed = listener.read_file(&folder.work());
            live.cause = missed.clone().map(|problem| flow_core::reason::Cause::NoMetrics { problem });
            let series = sum_up(&listener.reported, Seen { started_at, ended_at, host: &host, gpus: &gpus }, &mut live);
            live.series = (!series.is_empty()).then(|| Digest::of(&serde_json::to_vec(&series).unwrap()));
            let (released, looks) = (listener.released, std::mem::take(&mut listener.looks));
            let record = Record { began: listener.began, released, started_at, ended_at, looks, cut: None, host, gpus };
            let from = metrics.map(|metrics| &metrics.from);
            let place = (&folder, store.objects(), &Secrets::default());
            live.kept = Some(keep(Digest([7; 32]), record, instance, from, missed.is_some(), place).unwrap());

            // As after a reading that found nothing.
            let mut other = live.clone();
            (other.metrics, other.series, other.cause) = (Default::default(), None, None);
            other.usage.cpu_cores = 99.0;
            let again = read_again(store.objects(), other, metrics, instance, true).unwrap().unwrap();
            prop_assert_eq!(again.result, live);
        }
    }
}
