//! Keeps files of a plain program's attempt next to its result: the log, read times of its parts, samples, and files
//! that may hold numbers. So its metrics can be read in another way without a new run. Reads no metrics.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    sync::{Mutex, PoisonError},
};

use flow_core::{
    Digest, Input, Instance, KeptInput, KeptOutput, Link, Metrics, MetricsForm, event_file, measure::Record,
};
use flow_runs::StoreError;
use flow_store::{CapturedInput, Objects};
use flow_supervisor::{
    attempt::{FIRST, Folder, NEWEST, left_out, open_log},
    secrets::Secrets,
};
use walkdir::{DirEntry, WalkDir};

use super::numbers::{MOST_ENTRIES, bytes_in, event_files_in, is_event_file};
use crate::text;

/// Limits for unnamed files that look as if they held numbers: extensions, count, size if the named files had none,
/// size otherwise.
const NUMBERS: [&str; 3] = ["json", "jsonl", "csv"];
const MOST_FILES: usize = 16;
const LONGEST_FILE: u64 = 4 << 20;
const LONGEST_OTHER: u64 = 256 << 10;
/// A log of this size is an object of its own, which shares its content with the attempt's file. A smaller one is copied
/// into the record, because a file costs more time than its bytes.
const LARGE_LOG: u64 = 1 << 20;
/// Size limit of a kept input text, and limit of files in a folder: one with more is skipped.
const LONGEST_SOURCE: u64 = 256 << 10;
pub(crate) const MOST_SOURCES: usize = 64;

/// Keeps the files. `metrics` names the files of numbers; `missed`: none were found there. `earlier`: the output of the
/// attempts that it resumed.
///
/// # Errors
/// The disk is full.
pub(crate) fn keep(
    attempt: Digest,
    mut record: Record,
    (instance, artifacts): (&Instance, &[Link]),
    metrics: Option<&Metrics>,
    missed: bool,
    earlier: Option<File>,
    (folder, objects, secrets): (&Folder, &Objects, &Secrets),
) -> Result<KeptOutput, StoreError> {
    let log = if record.looks.is_empty() { None } else { open_log(&folder.log()).ok() };
    let cut = log.as_ref().and_then(middle);
    record.cut = cut.as_ref().map(|cut| (cut.start, cut.end));
    let earlier = earlier.and_then(|earlier| Some((earlier.metadata().ok()?.len(), earlier)));
    record.earlier = earlier.as_ref().map(|(bytes, _)| *bytes);
    let nothing = log.is_none() && earlier.is_none() && record.host.is_empty() && record.gpus.is_empty();
    let is_large = |log: &File| cut.is_none() && log.metadata().is_ok_and(|meta| meta.len() >= LARGE_LOG);
    let (large, log) = if log.as_ref().is_some_and(is_large) { (log, None) } else { (None, log) };
    let large = large.map(|_| objects.link_private(&folder.log())).transpose()?;
    let write = |file: &mut File| {
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.write_all(b"\n")?;
        log.map_or(Ok(()), |log| copy_without(log, cut.as_ref(), file))?;
        earlier.map_or(Ok(()), |(bytes, earlier)| io::copy(&mut earlier.take(bytes), file).map(drop))
    };
    let cut_bytes = record.cut.map_or(0, |(from, to)| to - from);
    let kept = if nothing { None } else { Some(objects.store_private(write)?) };
    let (mut files, work) = (BTreeMap::new(), folder.work());
    for path in sources((instance, artifacts), metrics, missed, &work) {
        let bytes = bytes_in(&work.join(&path), &path).ok();
        // A file that holds a secret is not kept: with the secret hidden, its format or name might be wrong.
        let open = |bytes: &Vec<u8>| !secrets.occur_in(&path) && !secrets.occur_in(&String::from_utf8_lossy(bytes));
        if let Some(bytes) = bytes.filter(open) {
            files.insert(path, objects.store_private(|file| file.write_all(&bytes))?);
        }
    }
    let places = metrics.into_iter().flat_map(|metrics| &metrics.files).map(|file| &*file.path);
    let absent = places.filter(|path| !work.join(path).exists()).map(str::to_owned).collect();
    Ok(KeptOutput { attempt, record: kept, log: large, files, absent, inputs: BTreeMap::new(), cut: cut_bytes })
}

/// The kept files of captured folders, by declared path and digest: all attempts of a sweep read the same source folder.
#[derive(Default)]
pub(crate) struct KeptFolders(Mutex<BTreeMap<(String, Digest), BTreeMap<String, KeptInput>>>);

/// Keeps the captured input files of an attempt, to compare it with others later: texts whole, other small files as
/// digests. Folders of many files count as data, not as programs.
///
/// # Errors
/// The disk is full.
pub(crate) fn keep_inputs(
    captured: &[(&str, &CapturedInput)],
    folders: &KeptFolders,
    objects: &Objects,
    secrets: &Secrets,
) -> Result<BTreeMap<String, KeptInput>, StoreError> {
    let folders = || folders.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = BTreeMap::new();
    for (declared, captured) in captured.iter().filter(|(_, captured)| captured.is_copy()) {
        let (root, key) = (captured.path(), ((*declared).to_owned(), captured.digest()));
        // A folder that the attempt has written into is not the one that the others read, and a file may be a link by now.
        let is_as_captured = captured.written().is_none();
        let is_shared = captured.is_folder() && is_as_captured;
        if let Some(known) = folders().get(&key).filter(|_| is_shared) {
            all.extend(known.clone());
            continue;
        }
        let mut kept = BTreeMap::new();
        let entries = WalkDir::new(root).into_iter().take(MOST_ENTRIES).flatten();
        let files = entries.filter(|entry| entry.file_type().is_file()).map(DirEntry::into_path);
        let is_file = !captured.is_folder() && is_as_captured;
        let files = if is_file { vec![root.to_owned()] } else { files.take(MOST_SOURCES + 1).collect() };
        for file in files.iter().filter(|_| files.len() <= MOST_SOURCES) {
            let below = file.strip_prefix(root).ok().and_then(Path::to_str).unwrap_or_default();
            let name = if below.is_empty() { (*declared).to_owned() } else { format!("{declared}/{below}") };
            if secrets.occur_in(&name) {
                continue;
            }
            let Some((input, content)) = source(file, secrets) else { continue };
            if input.text && !objects.path(&input.digest).exists() {
                objects.store_private(|file| file.write_all(&content))?;
            }
            kept.insert(name, input);
        }
        if is_shared {
            folders().insert(key, kept.clone());
        }
        all.append(&mut kept);
    }
    Ok(all)
}

/// The kept form of an input file, and its content; `None` if it is large or cannot be read.
pub(crate) fn source(path: &Path, secrets: &Secrets) -> Option<(KeptInput, Vec<u8>)> {
    let content = text::read_bytes(path, LONGEST_FILE).ok()?;
    let (digest, bytes) = (Digest::of(&content), content.len() as u64);
    let text = bytes <= LONGEST_SOURCE
        && std::str::from_utf8(&content).is_ok_and(|text| !text.contains('\0') && !secrets.occur_in(text));
    Some((KeptInput { digest, bytes, text }, content))
}

/// The part of a log that is missing, or is too long to be kept.
pub(crate) fn middle(log: &File) -> Option<Range<u64>> {
    let length = log.metadata().ok()?.len();
    let too_much = (length > FIRST + NEWEST).then(|| FIRST..length - NEWEST);
    left_out(log).ok()?.or(too_much)
}

fn copy_without(mut log: File, cut: Option<&Range<u64>>, to: &mut File) -> io::Result<()> {
    if let Some(cut) = cut {
        io::copy(&mut (&log).take(cut.start), to)?;
        log.seek(SeekFrom::Start(cut.end))?;
    }
    io::copy(&mut log.take(FIRST + NEWEST), to).map(drop)
}

/// Files of the work folder, without outputs, that hold or may hold numbers.
fn sources(
    (instance, artifacts): (&Instance, &[Link]),
    metrics: Option<&Metrics>,
    missed: bool,
    work: &Path,
) -> Vec<String> {
    let mut paths = Vec::new();
    for file in metrics.into_iter().flat_map(|metrics| &metrics.files) {
        match file.form {
            MetricsForm::TensorBoard => {
                let below = event_files_in(&work.join(&file.path)).into_iter();
                paths.extend(below.map(|path| event_file(&file.path, &path)));
            }
            MetricsForm::Json | MetricsForm::Jsonl | MetricsForm::Csv => paths.push(file.path.clone()),
        }
    }
    let inputs = instance.inputs.iter().map(Input::place);
    let placed = artifacts.iter().map(|link| link.path.clone()).filter(|path| !path.starts_with("in/"));
    let given: Vec<String> = inputs.chain(placed).chain(["in".to_owned()]).collect();
    paths.extend(unnamed(&given, if missed { LONGEST_FILE } else { LONGEST_OTHER }, &paths, work));
    paths.retain(|path| !instance.outputs.iter().any(|output| Path::new(path).starts_with(&output.path)));
    paths
}

/// Files of at most `longest` bytes that may hold numbers, without `given` and `named` ones. Event files are kept all or none,
/// because some of them would look like all.
fn unnamed(given: &[String], longest: u64, named: &[String], work: &Path) -> Vec<String> {
    let given = |path: &Path| given.iter().any(|given| path.starts_with(given));
    let own = |entry: &DirEntry| entry.path().strip_prefix(work).is_ok_and(|path| !given(path));
    let (mut events, mut others, mut whole) = (Vec::new(), Vec::new(), true);
    let entries = WalkDir::new(work).into_iter().filter_entry(own).take(MOST_ENTRIES).flatten();
    for entry in entries.filter(|entry| entry.file_type().is_file()) {
        let Ok(path) = entry.path().strip_prefix(work) else { continue };
        let is_event = is_event_file(path);
        if !is_event && !NUMBERS.iter().any(|end| path.extension().is_some_and(|found| found == *end)) {
            continue;
        }
        let short = entry.metadata().is_ok_and(|meta| meta.len() <= longest);
        whole &= short || !is_event;
        let name = path.to_str().filter(|name| short && !named.iter().any(|named| named == name));
        let found = if is_event { &mut events } else { &mut others };
        found.extend(name.map(str::to_owned));
    }
    if !whole || events.len() > MOST_FILES {
        events.clear();
    }
    events.extend(others);
    events.truncate(MOST_FILES);
    events
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs::{self, Permissions},
        ops::ControlFlow,
        os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    };

    use flow_runs::{Holder, ProcessIdentity};
    use flow_store::{Captures, InputToCapture, Inputs, Store};
    use flow_supervisor::clock;

    use super::*;

    #[test]
    fn outputs_of_other_steps_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["data/x.csv", "in/a/y.csv", "own.csv"] {
            fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            fs::write(dir.path().join(path), "loss\n1\n").unwrap();
        }
        let link = |path: &str| Link { path: path.into(), digest: Digest([0; 32]) };
        let instance = crate::driver::results::reading::tests::expansion().instances.remove(0);
        let artifacts = [link("data"), link("in/a/y.csv")];
        assert_eq!(sources((&instance, &artifacts), None, false, dir.path()), ["own.csv"]);
    }

    #[test]
    fn a_large_log_is_stored_once() {
        let dir = tempfile::tempdir().unwrap();
        let me = Holder { process: ProcessIdentity::own(), doing: "t".into(), run: None, since: String::new() };
        let store = Store::open(&dir.path().join(".flow"), &me, |_| ControlFlow::Break(())).unwrap();
        let instance = crate::driver::results::reading::tests::expansion().instances.remove(0);
        let printed = "epoch 1 loss 9\n".repeat(1 << 17);
        let kept = ["0", "1"].map(|attempt| {
            let folder = Folder::create(dir.path().join(attempt)).unwrap();
            fs::write(folder.log(), &printed).unwrap();
            let mut record = Record::default();
            record.looks.push(0, printed.len() as u64, 1.0);
            let place = (&folder, store.objects(), &Secrets::default());
            keep(Digest([7; 32]), record, (&instance, &[]), None, false, None, place).unwrap()
        });
        assert_eq!(kept[0].log, kept[1].log, "the same output");
        let object = fs::metadata(store.objects().path(&kept[0].log.unwrap())).unwrap();
        assert_eq!(object.ino(), fs::metadata(dir.path().join("0/log")).unwrap().ino());
        assert_eq!((object.len(), object.mode() & 0o777), (printed.len() as u64, 0o400));
        let record = store.objects().read_private(&kept[0].record.unwrap()).unwrap();
        assert!(record.ends_with(b"\n") && record.len() < 1000, "without the log");
        assert_eq!(store.objects().read_private(&kept[1].log.unwrap()).unwrap(), printed.as_bytes());
    }

    #[test]
    fn a_folder_that_many_attempts_read_is_read_once_unless_one_wrote_into_it() {
        let dir = tempfile::tempdir().unwrap();
        let me = Holder { process: ProcessIdentity::own(), doing: "t".into(), run: None, since: String::new() };
        let store = Store::open(&dir.path().join(".flow"), &me, |_| ControlFlow::Break(())).unwrap();
        let src = dir.path().join("src");
        fs::create_dir(&src).unwrap();
        fs::write(src.join("a.py"), "one").unwrap();
        let inputs = Inputs::new(None, None, clock::system()).of_workflow(dir.path().to_owned(), BTreeSet::new());
        inputs.hash_path(&src, false).unwrap();
        let captures = Captures::new(dir.path().join("inputs"));
        let wanted = InputToCapture { path: src.clone(), place: "src".into(), by_listing: false };
        captures.capture(&inputs, [wanted]).unwrap();
        let captured = captures.get(&src, false).unwrap();
        let folders = KeptFolders::default();
        let kept = || {
            let all = keep_inputs(&[("src", &captured)], &folders, store.objects(), &Secrets::default()).unwrap();
            all.into_iter().map(|(name, kept)| (name, kept.digest)).collect::<Vec<_>>()
        };
        let write = |text: &str| {
            fs::remove_file(captured.path().join("a.py")).unwrap();
            fs::write(captured.path().join("a.py"), text).unwrap();
        };
        let found = |text: &str| vec![("src/a.py".to_owned(), Digest::of(text.as_bytes()))];
        write("written by an attempt");
        assert_eq!(kept(), found("written by an attempt"));
        write("by another");
        assert_eq!(kept(), found("by another"), "the first is not kept for the others");

        inputs.forget(std::slice::from_ref(&src));
        inputs.hash_path(&src, false).unwrap();
        let wanted = InputToCapture { path: src.clone(), place: "src".into(), by_listing: false };
        captures.capture(&inputs, [wanted]).unwrap();
        let captured = captures.get(&src, false).unwrap();
        let kept = || keep_inputs(&[("src", &captured)], &folders, store.objects(), &Secrets::default()).unwrap();
        let first = kept();
        assert_eq!(first["src/a.py"].digest, Digest::of(b"one"));
        let path = captured.path().join("a.py");
        let before = fs::metadata(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"two", 0).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        fs::set_permissions(&path, before.permissions()).unwrap();
        assert_eq!(kept(), first, "the second does not read it");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "by the third").unwrap();
        assert_eq!(kept()["src/a.py"].digest, Digest::of(b"by the third"), "which is seen, and read");
    }

    #[test]
    fn what_of_a_log_was_given_back_is_left_out_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let me = Holder { process: ProcessIdentity::own(), doing: "t".into(), run: None, since: String::new() };
        let store = Store::open(&dir.path().join(".flow"), &me, |_| ControlFlow::Break(())).unwrap();
        let folder = Folder::create(dir.path().join("0")).unwrap();
        let (log, back) = (File::create(folder.log()).unwrap(), FIRST + (8 << 20));
        log.write_all_at(b"one\n", FIRST - 4).unwrap();
        log.write_all_at(b"half\nlast\n", back).unwrap();
        let mut record = Record::default();
        for (from, to, at) in [(FIRST - 4, FIRST, 1.0), (FIRST, back + 5, 2.0), (back + 5, back + 10, 3.0)] {
            record.looks.push(from, to, at);
        }
        let instance = crate::driver::results::reading::tests::expansion().instances.remove(0);
        let place = (&folder, store.objects(), &Secrets::default());
        let kept =
            keep(Digest([7; 32]), record, (&instance, &[]), None, false, open_log(&folder.earlier()).ok(), place)
                .unwrap();
        let bytes = store.objects().read_private(&kept.record.unwrap()).unwrap();
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let record: Record = serde_json::from_slice(&bytes[..end]).unwrap();
        assert_eq!((kept.cut, record.cut), (8 << 20, Some((FIRST, back))));
        let lines: Vec<_> = record.lines(&bytes[end + 1..]).collect();
        assert_eq!(
            lines,
            [(1.0, vec![&b"one"[..]]), (2.0, vec![]), (3.0, vec![&b"last"[..]])],
            "no line of two halves"
        );
    }
}
