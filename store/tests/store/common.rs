//! What the tests of the store share: a scratch folder, who they are, a result to keep, and all that a database tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
};

use flow_core::{Digest, InstanceId, JournalLine, RunEvent, RunId, StepResult};
use flow_runs::{Holder, Journal, ProcessIdentity, StoreError};
use flow_store::{Batch, Store, shapes};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().expect("a scratch folder")
}

pub(crate) fn me(doing: &str) -> Holder {
    Holder {
        process: ProcessIdentity::own(),
        doing: doing.into(),
        run: Some(RunId("20260208-153012-3f2a".into())),
        since: "15:30:12".into(),
    }
}

/// Opens, and refuses to wait.
pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(path, &me("flow run a.yaml"), |_| ControlFlow::Break(()))
}

/// The line of a journal that records a result.
pub(crate) fn recorded(result: &StepResult, parts: Value) -> JournalLine {
    let event =
        RunEvent::Recorded { instance: InstanceId(0), result: Box::new(result.clone()), parts, read_again: false };
    JournalLine { at: result.ended_at, event }
}

/// The line of a journal that tells of an attempt without a result to keep.
pub(crate) fn observed(result: &StepResult) -> JournalLine {
    JournalLine { at: result.ended_at, event: RunEvent::Observed { result: Box::new(result.clone()) } }
}

/// Writes lines as a run does: to its journal, then to the database.
pub(crate) fn keep(store: &Store, journal: &Journal, lines: Vec<JournalLine>) -> Result<(), StoreError> {
    Ok(store.commit(journal, lines, &Batch::new())?.apply().map(drop)?)
}

/// Records one result in a run of its own, and says in which.
pub(crate) fn record(store: &Store, result: &StepResult, parts: Value) -> RunId {
    let run = RunId(format!("{:04}", store.dir().runs().expect("runs").len()));
    let journal = store.begin(&run).expect("a run");
    keep(store, &journal, vec![recorded(result, parts)]).expect("recorded");
    run
}

pub(crate) fn write(path: impl AsRef<Path>, text: &str) -> PathBuf {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
    fs::write(path, text).expect("a file");
    path.to_owned()
}

/// From JSON, as the store reads it: fields that later versions add are not in the way.
pub(crate) fn result(label: &str, salt: u64) -> StepResult {
    serde_json::from_value(serde_json::json!({
        "fingerprint": Digest::of(format!("{label} {salt}").as_bytes()),
        "workflow": "feb08", "step": label.split('[').next(), "label": label, "axes": {"batch": salt},
        "outcome": "ok", "run": "20260208-153012-3f2a", "started_at": 1_000 * salt, "ended_at": 1_000 * salt + 500,
        "metrics": {"top1": {"value": 0.91, "unit": "ratio"}},
        "usage": {
            "wall_s": 1.5, "cpu_s": 1.0, "cpu_util": 0.5, "cpu_util_peak": 0.7, "cpu_cores": 0.9, "rss_peak": 1 << 20,
            "disk_read": 0, "disk_written": 0, "samples": 3,
        },
        "circumstances": {
            "mode": "plain", "cpus": 1, "host_cpus": 2, "cpu_model": "test", "host_memory": 1_u64 << 30,
            "foreign_cpu": 0.0, "cpu_saturated": 0.0,
        },
    }))
    .expect("a result")
}

pub(crate) fn run(id: &str) -> RunId {
    RunId(id.into())
}

pub(crate) fn made(id: &str, salt: u64) -> StepResult {
    StepResult { run: run(id), ..result("solo", salt) }
}

pub(crate) fn run_in(path: &Path, id: &str) -> Result<Store, StoreError> {
    let me = me(&format!("flow run {id}.yaml"));
    open_for_run(path, &me, |_| run(id), |_| ControlFlow::Break(())).map(|(store, _)| store)
}

/// A store with a run of this process.
pub(crate) fn open_for_run(
    path: &Path,
    me: &Holder,
    name: impl FnMut(&[RunId]) -> RunId,
    waiting: impl FnMut(&Holder) -> ControlFlow<()>,
) -> Result<(Store, RunId), StoreError> {
    let mut store = Store::open_to_run(path, me, waiting)?;
    let run = store.name_run(name)?;
    Ok((store, run))
}

/// Everything that the database tells: results, histories, last fingerprints.
pub(crate) type DatabaseContent = (BTreeMap<Digest, StepResult>, Vec<String>, String);

pub(crate) fn content(store: &Store, labels: &[&str]) -> DatabaseContent {
    let mut results = BTreeMap::new();
    store.each_result(|result| _ = results.insert(result.fingerprint, result)).unwrap();
    let all = labels.iter().flat_map(|label| shapes("feb08", label.split('[').next().unwrap(), label));
    let shapes: BTreeSet<String> = all.collect();
    let histories = shapes.iter().map(|shape| format!("{shape} {:?}", store.history(shape).unwrap())).collect();
    let last: Vec<_> = labels.iter().map(|label| store.last("feb08", label).unwrap()).collect();
    (results, histories, format!("{last:?}"))
}

/// What is told by a database that is made of the journals alone.
pub(crate) fn rebuilt(path: &Path, labels: &[&str]) -> DatabaseContent {
    fs::remove_dir_all(path.join("db")).unwrap();
    content(&open(path).unwrap(), labels)
}

/// The store as a process sees it that does not hold the database.
pub(crate) fn beside(store: &Store) -> Store {
    Store::open_to_read(store.dir(), &me("flow why")).unwrap()
}

/// A small file system at a folder; unmounted when dropped.
pub(crate) struct Tiny(pub(crate) PathBuf);

impl Tiny {
    /// None, said, where the user may not mount: only root can.
    #[expect(clippy::print_stderr, reason = "what was not tested is said")]
    pub(crate) fn at(path: &Path, size: &str) -> Option<Tiny> {
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        let mounted = mount.is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: only root can mount the small file system that this test fills");
        }
        mounted.then(|| Tiny(path.to_owned()))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
