//! Any file of a store damaged in any way, and disks of any size: flow says what is wrong, gets over it, and what it then gives is
//! right. A few cases here; `engine/torture.py` runs many.

use std::{
    env,
    fs::{self, File, FileTimes},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use flow_testkit::{TestSpace, files_below};

use crate::{damage::Tiny, space};

/// Files, a folder with a link in it, numbers, a table, a report: something of all that a store holds.
const WORKFLOW: &str = r#"
flow: 1
name: make
params: {extra: 0}
steps:
  make:
    matrix: {n: "${{ range(3) }}"}
    run: head -c 100000 /dev/zero | tr '\0' '\n' > out/made.txt; echo made ${{ n }} >> out/made.txt; echo loss 0.${{ n }}
    outputs: [out/made.txt]
    metrics: {stdout: 'loss {loss}'}
  folder:
    run: mkdir -p out/f/sub; echo a > out/f/a; ln -s ../a out/f/sub/link; echo b > out/f/sub/b
    outputs: [out/f]
  all:
    run: tail -qn 1 ${{ steps.make | map(attribute='out') | join(' ') }} > out/all; cat ${{ steps.folder.out }}/sub/* >> out/all; echo ${{ extra }} >> out/all
    outputs: [out/all]
  table: {uses: flow/table, with: {from: make, rows: n, columns: [loss]}}
  report: {uses: flow/report, with: {languages: [en, zh], sections: [{table: table}]}}
publish: [{from: report, to: report.md}]
"#;

/// How many cases: few in the suite, as many as the variable says in `engine/torture.py`.
fn cases(variable: &str, few: u64) -> u64 {
    env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(few)
}

/// What came of one command: exit code and all that it said, or the words that it never ended.
fn ends(space: &TestSpace, args: &[&str]) -> Result<(i32, String), String> {
    let mut flow = space.start(args);
    let begun = Instant::now();
    while flow.is_alive() {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(format!("`flow {}` hangs: {}", args.join(" "), flow.output()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let said = flow.output();
    let raw = ["panicked at", "Os {", "code: ", "RUST_BACKTRACE"].into_iter().find(|raw| said.contains(raw));
    match (flow.wait().code(), raw) {
        (Some(code), None) => Ok((code, said)),
        _ => Err(format!("`flow {}` says what nobody can use: {said}", args.join(" "))),
    }
}

/// The next run, after `flow doctor` and what else the words ask for, gives the right results. `damaged` is what was done
/// something to.
fn recovers(space: &TestSpace, damaged: Option<&Path>, extra: u64) -> Result<(), String> {
    let set = format!("extra={extra}");
    let run = ["run", "make.yaml", "--set", &set];
    let move_away = |said: &str| match damaged {
        Some(path) if said.contains("move it away") && said.contains(&*path.to_string_lossy()) => {
            let _ = fs::rename(path, space.path("moved"));
        }
        _ => {}
    };
    let (code, said) = ends(space, &run)?;
    if said.contains("and this flow knows formats up to") {
        // It cannot know better.
        return Ok(());
    }
    if code != 0 {
        move_away(&said);
        let (mended, doctor) = ends(space, &["doctor", "--contents"])?;
        let (code, again) = ends(space, &run)?;
        if code != 0 {
            return Err(format!("no way out: {said}\n-- doctor ({mended}): {doctor}\n-- again: {again}"));
        }
    }
    let expected = format!("made 0\nmade 1\nmade 2\nb\na\n{extra}\n");
    // A pipe in place of what a result does not rest on is found by `flow doctor` alone.
    let right = |path: &PathBuf| path.is_file() && fs::read_to_string(path).is_ok_and(|text| text == expected);
    if !files_below(&space.path(".flow/objects")).iter().any(right) {
        return Err(format!("wrong results: {said}"));
    }
    for attempt in 0.. {
        match ends(space, &["doctor", "--contents"])? {
            (0, _) => break,
            (_, said) if attempt == 0 => move_away(&said),
            (code, said) => return Err(format!("doctor ends with {code}: {said}")),
        }
    }
    let (code, said) = ends(space, &run)?;
    if code == 0 && said.contains("nothing to do") { Ok(()) } else { Err(format!("not all was kept: {said}")) }
}

#[test]
fn whatever_becomes_of_a_file_of_the_store_flow_gets_over_it() {
    let template = space();
    template.write("make.yaml", WORKFLOW);
    template.flow(["run", "make.yaml"]).expect(0);
    let mut files = files_below(&template.path(".flow"));
    // Without its format nobody knows what a store is; the error says how to write it.
    files.retain(|file| !file.ends_with(".flow/format"));
    let root = template.path("");
    let (mut cases_done, mut wrong) = (0, Vec::new());
    for case in 0..cases("FLOW_TEST_CORRUPTIONS", 4) {
        let mut random = fastrand::Rng::with_seed(case);
        let space = space();
        let copied = Command::new("cp").arg("-a").arg(root.join(".")).arg(space.path("")).status();
        assert!(copied.is_ok_and(|status| status.success()));
        space.write("precious", "mine");
        let file = files[random.usize(..files.len())].strip_prefix(&root).unwrap();
        let how = damage(&space.path(file), &space.path("precious"), &mut random);
        cases_done += 1;
        // A run with nothing to do, and one with something.
        let outcome = ends(&space, &["status"]).and_then(|_| recovers(&space, Some(&space.path(file)), case % 2));
        let outcome = outcome.and_then(|()| match fs::read(space.path("precious")) {
            Ok(bytes) if bytes == b"mine" => Ok(()),
            _ => Err("a file of the user's is changed".into()),
        });
        if let Err(why) = outcome {
            wrong.push(format!("case {case}, {} {how}: {why}", file.display()));
        }
    }
    println!("{cases_done} corruptions, {} not got over", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Does to a file what disks, editors and people do. Says what that was.
fn damage(path: &Path, precious: &Path, random: &mut fastrand::Rng) -> String {
    let length = fs::metadata(path).unwrap().len();
    let replace = |with: &dyn Fn()| {
        fs::remove_file(path).unwrap();
        with();
    };
    let write = |at: u64, bytes: &[u8]| {
        let before = fs::metadata(path).unwrap();
        let readable = before.permissions();
        let mut writable = readable.clone();
        #[expect(clippy::permissions_set_readonly_false, reason = "a file of this test's own")]
        writable.set_readonly(false);
        fs::set_permissions(path, writable).unwrap();
        let mut file = File::options().read(true).write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
        fs::set_permissions(path, readable).unwrap();
        (file, before.modified().unwrap())
    };
    match random.u32(..10) {
        0 => {
            replace(&|| {});
            "is removed".into()
        }
        1 => {
            replace(&|| drop(File::create(path).unwrap()));
            "is empty".into()
        }
        2 => {
            replace(&|| fs::create_dir(path).unwrap());
            "is a folder".into()
        }
        3 => {
            replace(&|| symlink(precious, path).unwrap());
            "is a link to a file of the user's".into()
        }
        4 => {
            replace(&|| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap());
            "is a pipe".into()
        }
        5 => {
            let (file, _) = write(0, &[]);
            let to = random.u64(..length.max(1));
            file.set_len(to).unwrap();
            format!("is cut to {to} of {length} bytes")
        }
        6 => {
            let garbage: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(300).collect();
            write(length, &garbage);
            "has garbage behind it".into()
        }
        7 => {
            let (at, many) = (random.u64(..length.max(1)), random.usize(1..5000));
            write(at, &vec![0; many]);
            format!("has {many} zeros at {at}")
        }
        turned => {
            let at = random.u64(..length.max(1));
            let (mut file, time) = write(at, &[]);
            let mut byte = [0];
            file.seek(SeekFrom::Start(at)).unwrap();
            let _ = file.read(&mut byte).unwrap();
            let (file, _) = write(at, &[byte[0] ^ 1 << random.u32(..8)]);
            // As a disk does, which tells nobody; only `flow doctor --contents` can see it.
            let silently = turned == 8 && !path.components().any(|part| part.as_os_str() == "objects");
            if silently {
                file.set_times(FileTimes::new().set_modified(time)).unwrap();
            }
            format!("has one bit turned at {at}{}", if silently { ", its time as before" } else { "" })
        }
    }
}

#[test]
fn wherever_the_disk_is_full_flow_says_so_and_goes_on_when_it_is_not() {
    let many = cases("FLOW_TEST_FULL_DISKS", 4);
    let (mut full, mut wrong) = (0, Vec::new());
    for case in 0..many {
        let space = space();
        space.write("make.yaml", WORKFLOW);
        // From nothing to a little more than is needed: bytes, and files.
        let (size, files) = (4096 * (1 + case * 500 / many), 4 + 150 * case / many);
        let size = if case % 2 == 0 { format!("size={size}") } else { format!("size=64m,nr_inodes={files}") };
        let Some(disk) = Tiny::of(&size, space.path(".flow")) else {
            eprintln!("skipped: only root can mount the small file systems that this test fills");
            return;
        };
        let outcome = ends(&space, &["run", "make.yaml", "-k"]).and_then(|(code, said)| {
            full += u64::from(code != 0);
            disk.grow();
            if code == 0 || said.contains("No space left") || said.contains("are free on its disk") {
                recovers(&space, None, case % 2)
            } else {
                Err(format!("does not say what is wrong: {said}"))
            }
        });
        if let Err(why) = outcome {
            wrong.push(format!("case {case}, {size}: {why}"));
        }
    }
    println!("{full} of {many} disks were full, {} not got over", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(many < 4 || full > many / 3, "only {full} of {many} disks were full");
}
