//! A writer that is killed with SIGKILL at any moment: what it said was kept is there, and nothing is that was not.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use flow_core::{Digest, RunId, StepResult};
use serde_json::json;

use crate::common::{beside, keep, open, recorded, result, scratch, write};

const ROUNDS: u64 = 30;

/// Not a test: what a run does, as fast as it can, until it is killed. Says each result after it is kept.
#[test]
#[ignore = "run by the other test"]
fn writer() {
    let Some(dir) = env::var_os("STORE").map(std::path::PathBuf::from) else { return };
    let round: u64 = env::var("ROUND").unwrap().parse().unwrap();
    let store = open(&dir.join(".flow")).unwrap();
    let id = RunId(format!("{round:04}"));
    let journal = store.begin(&id).unwrap();
    println!();
    for n in 0.. {
        let mut made = result(&format!("solo[n={n}]"), round * 1_000_000 + n);
        made.run = id.clone();
        let content = "x".repeat(usize::try_from(n % 7).unwrap() * 9_000) + &made.label + &made.fingerprint.to_string();
        let output = write(dir.join(format!("work/{round}-{n}")), &content);
        made.outputs.insert("out".into(), store.objects().ingest(&output, &dir).unwrap());
        let parts = json!({"n": n, "padding": "p".repeat(usize::try_from(n % 5).unwrap() * 14_000)});
        keep(&store, &journal, vec![recorded(&made, parts)]).unwrap();
        println!("kept {} {}", made.fingerprint, Digest::of(content.as_bytes()));
    }
}

#[test]
fn nothing_kept_is_lost_and_nothing_half_done_is_found() {
    let dir = scratch();
    let mut kept: Vec<(Digest, Digest)> = vec![];
    for round in 0..ROUNDS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kill::writer", "--ignored", "--nocapture"])
            .env("STORE", dir.path())
            .env("ROUND", round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("kept ") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "round {round}: the writer ended");
        }
        // Not the same moment in every round, and none at all in some.
        thread::sleep(Duration::from_micros(round * 1_700));
        child.kill().unwrap();
        loop {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["kept", fingerprint, content] if line.ends_with('\n') => {
                    kept.push((fingerprint.parse().unwrap(), content.parse().unwrap()))
                }
                _ => {}
            }
            line.clear();
            if lines.read_line(&mut line).unwrap() == 0 {
                break;
            }
        }
        child.wait().unwrap();
    }
    // On a slow disk no more than one each.
    assert!(kept.len() >= ROUNDS as usize, "{}", kept.len());

    let store = open(&dir.path().join(".flow")).unwrap();
    for (fingerprint, content) in &kept {
        let found = store.result(fingerprint).unwrap().expect("a result that was kept");
        assert_eq!(store.objects().missing(&found).unwrap(), None);
        assert_eq!(found.outputs["out"].digest, *content);
        assert_eq!(Digest::of(&store.objects().read(content, "").unwrap()), *content);
        assert!(store.last(&found.workflow, &found.label).unwrap().is_some());
    }
    let journals = beside(&store);
    for (fingerprint, _) in &kept {
        assert!(journals.result(fingerprint).unwrap().is_some(), "no result that no journal has");
    }
    let is_in_database = |found: StepResult| {
        assert_eq!(store.result(&found.fingerprint).unwrap(), Some(found), "none that only a journal has");
    };
    journals.each_result(is_in_database).unwrap();
    assert_eq!(fs::read_dir(dir.path().join(".flow/objects/tmp")).unwrap().count(), 0);
    println!("{} results kept over {ROUNDS} kills", kept.len());
}
