//! The database of a store in every state that a kill, a fault of the disk or another program leaves: the next command works
//! with the right results, or says in words why not and touches nothing.
//!
//! `FLOW_TEST_KILLS=2000 cargo test -p flow-cli --test flow database::killed` kills longer.

use std::{fs, path::Path, thread, time::Duration};

use flow_testkit::{FlowOutput, TestSpace, files_below, until};
use nix::fcntl::{Flock, FlockArg};

use crate::space;

/// Without `FLOW_TEST_KILLS`.
const KILLS: u64 = 10;

/// `count` files and one of all, of a kind that can be changed without changing what they hold.
fn workflow(count: u64, comment: u64) -> String {
    format!(
        r#"
flow: 1
name: make
steps:
  make:
    matrix: {{n: "${{{{ range({count}) }}}}"}}
    run: "echo made ${{{{ n }}}} > out/made.txt # {comment}"
    outputs: [out/made.txt]
  all:
    run: cat ${{{{ steps.make | map(attribute='out') | join(' ') }}}} > out/all.txt
    outputs: [out/all.txt]
"#
    )
}

fn done() -> TestSpace {
    let space = space();
    space.write("make.yaml", &workflow(6, 0));
    space.flow(["run", "make.yaml"]).expect(0);
    space
}

/// One step more than before; runs, and that is all that does.
#[track_caller]
fn runs_only_the_new_step(space: &TestSpace) -> FlowOutput {
    space.write("make.yaml", &workflow(7, 0));
    let ran = space.flow(["run", "make.yaml"]).expect(0);
    assert_eq!(space.ran(), ["make[n=6]", "all"], "everything else was found: {}", ran.text());
    ran
}

/// Every file of the database, with what is in it.
fn contents(space: &TestSpace) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = files_below(&space.path(".flow/db")).into_iter();
    files.map(|file| (file.clone(), fs::read(file).unwrap_or_default())).collect()
}

#[test]
fn a_damaged_database_is_made_anew_by_whoever_opens_it_and_it_is_said() {
    let damage: [&dyn Fn(&Path); 2] = [&|db| fs::write(db.join("db"), vec![7; 600_000]).unwrap(), &|db| {
        fs::write(db.join("conf"), "segment_size: 524288\nuse_comp").unwrap()
    }];
    for (at, damage) in damage.iter().enumerate() {
        let space = done();
        // Opened once more, so that there is a snapshot.
        space.flow(["doctor"]).expect(0);
        damage(&space.path(".flow/db"));
        let said = runs_only_the_new_step(&space).text();
        assert!(!said.contains("panicked") && !said.contains("Some(") && !said.contains("None"), "{at}: {said}");
        let told = "it was rebuilt from 1 journal with 7 results, the old one is in ROOT/.flow/db.damaged-1";
        assert_eq!(said.matches(told).count(), 1, "{at}: {said}");
        let journal = space.journal();
        let notices: Vec<_> = journal.iter().filter_map(|line| line["text"].as_str()).collect();
        assert!(notices.iter().any(|text| text.contains("it was rebuilt")), "{at}: {notices:?}");
        assert!(space.path(".flow/db.damaged-1/conf").exists());
        assert!(space.flow(["doctor"]).expect(0).text().contains("sound: 9 results"), "the first `all` too");
    }
    let reading: [&[&str]; 2] = [&["plan", "make.yaml"], &["gc"]];
    for command in reading {
        let space = done();
        fs::write(space.path(".flow/db/db"), vec![7; 600_000]).unwrap();
        let said = space.flow(command).expect(0).text();
        assert_eq!(said.matches("repaired: the database was damaged").count(), 1, "{command:?}: {said}");
        runs_only_the_new_step(&space);
    }
}

#[test]
fn what_is_no_damage_is_said_in_words_and_nothing_is_touched() {
    type Obstacle = (&'static str, &'static str, fn(&Path));
    let hinder: [Obstacle; 2] = [
        ("a folder where its file should be", "it is not a regular file, but a folder: move it away", |db| {
            fs::rename(db.join("db"), db.join("kept")).unwrap();
            fs::create_dir(db.join("db")).unwrap();
        }),
        ("another version", "another version of the database", |db| {
            let mut conf = of_another_version(db);
            let text = conf.len() - 4;
            let checksum = crc32(&conf[..text]).to_le_bytes();
            conf[text..].copy_from_slice(&checksum);
            fs::write(db.join("conf"), conf).unwrap();
        }),
    ];
    for (name, words, hinder) in hinder {
        let space = done();
        hinder(&space.path(".flow/db"));
        space.write("make.yaml", &workflow(7, 0));
        let before = contents(&space);
        for command in [&["run", "make.yaml"][..], &["doctor"], &["gc"]] {
            let said = space.flow(command).expect(1).stderr();
            assert!(said.contains(words) && !said.contains("Os {"), "{name}: {said}");
        }
        assert_eq!(contents(&space), before, "{name}");
        assert!(!space.path(".flow/db.damaged-1").exists(), "{name}");
    }
}

/// sled's configuration, with another version in it and the checksum of this one.
fn of_another_version(db: &Path) -> Vec<u8> {
    let mut conf = fs::read(db.join("conf")).unwrap();
    let at = conf.windows(4).position(|part| part == b"0.34").unwrap();
    conf[at..at + 4].copy_from_slice(b"0.35");
    conf
}

fn crc32(bytes: &[u8]) -> u32 {
    let turn = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), turn))
}

#[test]
fn a_database_that_another_process_has_open_is_left_to_it() {
    let space = done();
    let file = fs::File::open(space.path(".flow/db/db")).unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e).unwrap();
    let before = contents(&space);
    let said = space.flow(["doctor"]).expect(1).stderr();
    assert!(said.contains("another process has it open") && !said.contains("Os {"), "{said}");
    assert_eq!(contents(&space), before);
    drop(lock);
    runs_only_the_new_step(&space);
}

/// Killed at moments of their first tens of milliseconds, on stores that are there and on stores that they make.
#[test]
fn killed_at_any_moment_whoever_comes_next_has_the_right_results() {
    let rounds = std::env::var("FLOW_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut chance: u64 = std::env::var("FLOW_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut next = |below: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % below
    };
    let mut space = space();
    space.env("FLOW_TEST_SPACE", "database");
    let (mut killed, mut mended) = (0, 0);
    for round in 0..rounds {
        if next(4) == 0 {
            let _ = fs::remove_dir_all(space.path(".flow"));
        }
        let there = space.path(".flow/format").exists();
        space.write("make.yaml", &workflow(2 + next(3), next(3)));
        let command: &[&str] = match next(5) {
            0 if there => &["doctor"],
            1 if there => &["gc", "--runs", "2", "--days", "0"],
            2 if there => &["accept", "make", "-w", "make.yaml", "--reason", "a comment"],
            3 => &["run", "make.yaml", "-f"],
            _ => &["run", "make.yaml"],
        };
        let mut flow = space.start(command);
        thread::sleep(Duration::from_micros(next(60_000)));
        killed += u64::from(flow.is_alive());
        flow.kill();
        until("everybody is gone", || space.alive().is_empty());

        let count = 2 + next(3);
        space.write("make.yaml", &workflow(count, next(3)));
        let ran = space.flow(["run", "make.yaml"]);
        assert_eq!(ran.code(), Some(0), "round {round}, {command:?}: {}", ran.text());
        mended += u64::from(ran.text().contains("made anew"));
        let all: String = (0..count).map(|n| format!("made {n}\n")).collect();
        let show = space.flow(["plan", "make.yaml"]).expect(0).text();
        assert!(!show.contains("would run"), "round {round}, {command:?}: {show}");
        let objects = files_below(&space.path(".flow/objects"));
        let right = objects.iter().any(|path| fs::read_to_string(path).is_ok_and(|text| text == all));
        assert!(right, "round {round}, {command:?}");
    }
    // A killed gc leaves results in the journals, from which doctor would restore them: the next gc does the rest.
    space.flow(["gc", "--runs", "2", "--days", "0"]).expect(0);
    let found = space.flow(["doctor", "--contents"]).expect(0).text();
    assert!(found.contains("sound:"), "{found}");
    println!(
        "{killed} of {rounds} killed; {mended} databases made anew; seed and rounds: FLOW_TEST_SEED, FLOW_TEST_KILLS"
    );
    assert!(killed >= rounds / 3, "only {killed} of {rounds} were killed");
}
