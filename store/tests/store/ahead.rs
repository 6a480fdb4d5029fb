//! What a run was about to record when it was killed is recorded by whoever comes next, once, and by nobody else.

use std::{fs, io::Write};

use flow_core::{JournalLine, RunId, StepResult};
use flow_store::{Ahead, Results, Store, StoreDir};
use serde_json::json;

use crate::common::{me, open, recorded, result, scratch};

fn run(id: &str) -> RunId {
    RunId(id.into())
}

/// A run that is killed after it noted two results, of whose lines so many bytes had come to the journal.
struct Killed {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
    two: [StepResult; 2],
    lines: Vec<JournalLine>,
}

fn killed(journalled: impl FnOnce(&str) -> usize) -> Killed {
    let dir = scratch();
    let path = dir.path().join(".flow");
    let two = [1, 2].map(|salt| StepResult { run: run("1"), ..result(&format!("solo[n={salt}]"), salt) });
    let (store, _) = Store::open_for_run(&path, &me("flow run"), |_| run("1"), |_| unreachable!()).unwrap();
    let journal = store.begin(&run("1")).unwrap();
    let earlier = StepResult { run: run("1"), ..result("solo[n=0]", 0) };
    journal.append(&[recorded(&earlier, json!({}))]).unwrap();
    let lines: Vec<JournalLine> = two.iter().map(|result| recorded(result, json!({"n": 1}))).collect();
    let mut ahead = Ahead::of(&journal);
    lines.iter().for_each(|line| assert!(ahead.note(std::slice::from_ref(line))));
    let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    let mut file = fs::File::options().append(true).open(StoreDir::create(&path).unwrap().run(&run("1")).journal());
    file.as_mut().unwrap().write_all(&text.as_bytes()[..journalled(&text)]).unwrap();
    drop(store);
    Killed { _dir: dir, path, two, lines }
}

#[test]
fn what_was_noted_is_recorded_by_the_next_opening_wherever_the_journal_ends() {
    let places: [fn(&str) -> usize; 4] =
        [|_| 0, |text| text.len() / 3, |text| text.find('\n').unwrap() + 1, |text| text.len()];
    for journalled in places {
        let killed = killed(journalled);
        for _ in 0..2 {
            let store = open(&killed.path).unwrap();
            for result in &killed.two {
                assert_eq!(store.result(&result.fingerprint).unwrap().as_ref(), Some(result));
            }
            let mut lines = Vec::new();
            let unread = store.dir().run(&run("1")).read_journal(|line| lines.push(line)).unwrap();
            assert_eq!((unread.lines, unread.torn), (0, false));
            assert_eq!(lines[1..], killed.lines);
            assert!(!store.dir().run(&run("1")).path().join("journal.ahead").exists());
        }
    }
}

#[test]
fn what_was_noted_before_the_machine_went_down_or_of_another_journal_says_nothing() {
    for (of, instead) in [("\"boot\":\"", "\"boot\":\"another "), ("\"from\":", "\"from\":1000")] {
        let killed = killed(|_| 0);
        let path = StoreDir::create(&killed.path).unwrap().run(&run("1")).path().join("journal.ahead");
        let noted = fs::read_to_string(&path).unwrap();
        fs::write(&path, noted.replacen(of, instead, 1)).unwrap();
        let store = open(&killed.path).unwrap();
        assert!(killed.two.iter().all(|result| store.result(&result.fingerprint).unwrap().is_none()));
        assert!(!path.exists());
    }
}

#[test]
fn what_a_run_that_goes_on_has_noted_is_its_own() {
    let dir = scratch();
    let path = dir.path().join(".flow");
    let (first, _) = Store::open_for_run(&path, &me("flow run"), |_| run("1"), |_| unreachable!()).unwrap();
    let journal = first.begin(&run("1")).unwrap();
    let kept = StepResult { run: run("1"), ..result("solo[n=1]", 1) };
    let mut ahead = Ahead::of(&journal);
    assert!(ahead.note(&[recorded(&kept, json!({}))]));
    let second = open(&path).unwrap();
    assert!(second.result(&kept.fingerprint).unwrap().is_none());
    ahead.clear();
    assert!(!ahead.holds_some());
    ahead.remove();
    assert!(!first.dir().run(&run("1")).path().join("journal.ahead").exists());
}
