//! The database of a store in every state that a kill, a fault of the disk or another program leaves: the next command works
//! with the right results, or says in words why not and touches nothing.
//!
//! `FLOW_TEST_KILLS=2000 cargo test -p flow-cli --test flow database::killed` kills longer.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, thread, time::Duration};

use flow_testkit::{Ran, TestSpace, files_below, until};
use nix::fcntl::{Flock, FlockArg};

use crate::{damage::Tiny, space};

/// Without `FLOW_TEST_KILLS`.
const KILLS: u64 = 30;

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
fn goes_on(space: &TestSpace) -> Ran {
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
fn what_a_kill_left_of_a_snapshot_is_removed() {
    for text in ["", "half of a snapshot"] {
        let space = done();
        let left = ".flow/db/snap.FFFFFFFFFFFFFFFF.generating";
        space.write(left, text);
        let said = goes_on(&space).text();
        assert!(!said.contains("database"), "nothing is worth a word: {said}");
        assert!(!space.path(left).exists());
    }
}

#[test]
fn a_first_run_that_was_killed_while_it_made_the_database_is_no_hindrance() {
    let whole = fs::read(done().path(".flow/db/conf")).unwrap();
    for len in [0, 5, 30, whole.len() - 4, whole.len() - 1] {
        for folder in ["db", "db.new"] {
            let space = space();
            space.write("make.yaml", &workflow(2, 0)).write(".flow/format", "3\n");
            fs::create_dir_all(space.path(".flow").join(folder).join("blobs")).unwrap();
            fs::write(space.path(".flow").join(folder).join("conf"), &whole[..len]).unwrap();
            space.flow(["run", "make.yaml"]).expect(0);
            assert!(!space.path(".flow/db.new").exists());
        }
    }
}

#[test]
fn a_damaged_database_is_made_anew_by_whoever_opens_it_and_it_is_said() {
    let spoil: [&dyn Fn(&Path); 4] = [
        &|db| fs::write(db.join("db"), vec![7; 600_000]).unwrap(),
        &|db| fs::write(db.join("conf"), "segment_size: 524288\nuse_comp").unwrap(),
        &|db| fs::File::options().write(true).open(db.join("db")).unwrap().set_len(2_000).unwrap(),
        &|db| {
            let snapshot = fs::read_dir(db).unwrap().flatten().map(|entry| entry.path());
            let snapshot = snapshot.filter(|path| path.to_string_lossy().contains("snap.")).max();
            fs::write(snapshot.unwrap_or(db.join("snap.00000000FFFFFFFF")), "no snapshot at all").unwrap();
        },
    ];
    for (at, spoil) in spoil.iter().enumerate() {
        let space = done();
        // Opened once more, so that there is a snapshot.
        space.flow(["doctor"]).expect(0);
        spoil(&space.path(".flow/db"));
        let said = goes_on(&space).text();
        assert!(!said.contains("panicked") && !said.contains("Some(") && !said.contains("None"), "{at}: {said}");
        let told = "it was rebuilt from 1 journal with 7 results, the old one is in ROOT/.flow/db.damaged-1";
        assert_eq!(said.matches(told).count(), 1, "{at}: {said}");
        let journal = space.journal();
        let notices: Vec<_> = journal.iter().filter_map(|line| line["text"].as_str()).collect();
        assert!(notices.iter().any(|text| text.contains("it was rebuilt")), "{at}: {notices:?}");
        assert!(space.path(".flow/db.damaged-1/conf").exists());
        assert!(space.flow(["doctor"]).expect(0).text().contains("sound: 9 results"), "the first `all` too");
    }
    let reading: [&[&str]; 4] = [&["plan", "make.yaml"], &["gc"], &["doctor"], &["accept", "make", "--reason", "x"]];
    for command in reading {
        let space = done();
        fs::write(space.path(".flow/db/db"), vec![7; 600_000]).unwrap();
        let said = space.flow(command).expect(0).text();
        assert_eq!(said.matches("repaired: the database was damaged").count(), 1, "{command:?}: {said}");
        goes_on(&space);
    }
}

#[test]
fn what_is_no_damage_is_said_in_words_and_nothing_is_touched() {
    type Hinder = (&'static str, &'static str, fn(&Path));
    let hinder: [Hinder; 3] = [
        ("a folder where its file should be", "it is not a regular file, but a folder: move it away", |db| {
            fs::rename(db.join("db"), db.join("kept")).unwrap();
            fs::create_dir(db.join("db")).unwrap();
        }),
        ("a link that leads round", "symbolic links", |db| {
            fs::rename(db, db.with_file_name("kept")).unwrap();
            symlink("db", db).unwrap();
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
fn a_version_that_a_bad_disk_wrote_is_damage() {
    let space = done();
    let conf = of_another_version(&space.path(".flow/db"));
    fs::write(space.path(".flow/db/conf"), conf).unwrap();
    goes_on(&space);
    assert!(space.path(".flow/db.damaged-1").exists());
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
    goes_on(&space);
}

#[test]
fn a_user_who_may_not_read_the_database_leaves_it_as_it_is() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let space = done();
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    // All is the other user's but the database's file.
    let owned = Command::new("chown").args(["-R", "65534"]).arg(space.path("")).status().unwrap();
    assert!(owned.success());
    Command::new("chown").arg("0").arg(space.path(".flow/db/db")).status().unwrap();
    fs::set_permissions(space.path(".flow/db/db"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = contents(&space);
    let mut flow = Command::new(env!("CARGO_BIN_EXE_flow"));
    flow.args(["run", "make.yaml", "-f"]).current_dir(space.path("")).env("FLOW_GPU_LOCKS", space.locks());
    let flow = flow.env("XDG_CACHE_HOME", space.cache().join("theirs")).uid(65534).output();
    let Ok(flow) = flow else {
        eprintln!("skipped: the other user cannot reach the binary");
        return;
    };
    let said = String::from_utf8_lossy(&flow.stderr).into_owned();
    assert!(!flow.status.success() && said.contains("Permission denied"), "{said}");
    assert_eq!(contents(&space), before);
    assert!(!space.path(".flow/db.damaged-1").exists());
}

/// A step takes the last byte of the disk that the journals lie on; what its end gives back is not enough for its result, in
/// which a long parameter stands.
#[test]
fn where_the_journal_has_no_room_nothing_is_recorded() {
    let space = space();
    let (runs, room, long) = (space.path(".flow/runs"), space.path("room"), "long ".repeat(12_000));
    let fill = format!("head -c 20000000 /dev/zero > {}", runs.join(".fill").display());
    let run = format!("echo made > out/made.txt; [ -e {} ] || {fill}; true # ${{{{ long | length }}}}", room.display());
    let step = format!("  make:\n    run: {run:?}\n    outputs: [out/made.txt]\n");
    space.write("fill.yaml", &format!("flow: 1\nname: fill\nparams: {{long: {long:?}}}\nsteps:\n{step}"));
    // The database is there already, and so is what the output lies in.
    space.write("make.yaml", &workflow(1, 0)).flow(["run", "make.yaml"]).expect(0);
    let Some(_tiny) = Tiny::at(runs.clone()) else {
        eprintln!("skipped: only root can mount the small file system that this test fills");
        return;
    };
    let said = space.flow(["run", "fill.yaml"]).text();
    let was_recorded = space.journal().iter().any(|line| line["event"] == "recorded");
    let remount = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&runs).status();
    space.write("room", "");
    let again = space.flow(["run", "fill.yaml"]);
    let ran = space.ran();
    assert!(remount.unwrap().success() && again.code() == Some(0), "{}", again.text());
    assert!(said.contains("No space left on device") && said.contains("free a few MiB"), "{said}");
    assert!(!was_recorded, "{said}");
    assert_eq!(ran, ["make"], "what no journal tells of is not there: {}", again.text());
}

#[test]
fn a_file_among_the_runs_is_no_run() {
    let space = done();
    space.write(".flow/runs/.DS_Store", "x").write(".flow/runs/zzz~", "x");
    for command in [&["gc"][..], &["doctor"], &["runs"], &["status"], &["plan", "make.yaml"]] {
        let said = space.flow(command).expect(0).text();
        assert!(!said.contains("DS_Store") && !said.contains("zzz"), "{command:?}: {said}");
    }
    fs::remove_file(space.path(".flow/runs/zzz~")).unwrap();
    goes_on(&space);
    assert_eq!(space.read(".flow/runs/.DS_Store"), "x");
}

#[test]
fn a_damaged_format_is_said_and_mended_where_the_runs_tell_it() {
    for text in ["", "one\n", "\u{0}\u{0}"] {
        let space = done();
        space.write(".flow/format", text);
        for command in [&["run", "make.yaml"][..], &["status"], &["gc"]] {
            let said = space.flow(command).expect(1).stderr();
            assert!(said.contains(".flow/format") && said.contains("`flow doctor`"), "{command:?}: {said}");
        }
        let said = space.flow(["doctor"]).expect(0).text();
        assert!(said.contains("repaired: the file with the store's format"), "{said}");
        assert_eq!(space.read(".flow/format"), "3\n");
        goes_on(&space);
    }
    let space = space();
    space.write(".flow/format", "").write("make.yaml", &workflow(1, 0));
    let said = space.flow(["doctor"]).expect(1).stderr();
    assert!(said.contains("no run shows which flow made the store: write 3 into it"), "{said}");
    assert_eq!(space.read(".flow/format"), "");
}

#[test]
fn a_damaged_format_of_a_newer_flow_is_not_guessed() {
    let space = done();
    let run = fs::read_dir(space.path(".flow/runs")).unwrap().next().unwrap().unwrap().path().join("journal.jsonl");
    let newer = fs::read_to_string(&run).unwrap().replace(concat!("\"", env!("CARGO_PKG_VERSION"), "\""), "\"99.1.0\"");
    fs::write(&run, newer).unwrap();
    space.write(".flow/format", "");
    let said = space.flow(["doctor"]).expect(1).stderr();
    assert!(said.contains("was written by flow 99.1.0: `flow doctor` of that one mends it"), "{said}");
    assert_eq!(space.read(".flow/format"), "");
}

#[test]
fn a_journal_that_cannot_be_read_is_told_as_that() {
    let space = done();
    let run = fs::read_dir(space.path(".flow/runs")).unwrap().next().unwrap().unwrap().path().join("journal.jsonl");
    fs::rename(&run, run.with_extension("kept")).unwrap();
    fs::create_dir(&run).unwrap();
    for command in [&["status"][..], &["runs"], &["gc"], &["doctor"]] {
        let said = space.flow(command).expect(1).stderr();
        assert!(
            said.contains("journal.jsonl") && said.contains("it is not a regular file, but a folder"),
            "{command:?}: {said}"
        );
        assert!(!said.contains("there is no run"), "{command:?}: {said}");
    }
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
    let found = space.flow(["doctor", "--contents"]).expect(0).text();
    assert!(found.contains("sound:"), "{found}");
    println!(
        "{killed} of {rounds} killed; {mended} databases made anew; seed and rounds: FLOW_TEST_SEED, FLOW_TEST_KILLS"
    );
    assert!(killed >= rounds / 3, "only {killed} of {rounds} were killed");
}
