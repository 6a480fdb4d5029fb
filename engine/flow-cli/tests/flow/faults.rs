//! Damage of what is kept is told and mended, and what flow cannot see for the moment, it does not drop.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    process::Command,
};

use flow_testkit::files_below;

use crate::space;

const FOLDERS: &str = "flow: 1\nsteps:\n  a: {run: 'mkdir -p out; echo 1 > out/one; ln -s one out/link', outputs: [out]}\n  b: {run: 'cat ${{ steps.a.out }}/link', needs: [a]}\n";

#[test]
fn a_damaged_list_of_a_folder_is_told_and_mended() {
    let space = space();
    space.write("w.yaml", FOLDERS);
    space.flow(["run", "w.yaml"]).expect(0);
    let lists = || {
        let all = files_below(&space.path(".flow/objects"));
        all.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "list")).collect::<Vec<_>>()
    };
    let (list, text) = lists().into_iter().find_map(|list| Some((list.clone(), fs::read(list).ok()?))).unwrap();
    let spoilt = String::from_utf8_lossy(&text).replace("\0one\0", "\0two\0");
    for damage in [vec![b'x'; text.len()], spoilt.into_bytes(), Vec::new()] {
        fs::write(&list, &damage).unwrap();
        let said = space.flow(["doctor", "--contents"]).expect(0).stdout();
        assert!(said.contains("remade 1 list of input folders") && !said.contains("sound:"), "{said}");
        assert!(space.flow(["doctor", "--contents"]).expect(0).stdout().contains("sound:"));
        fs::write(&list, &damage).unwrap();
        space.flow(["run", "w.yaml", "b", "-f"]).expect(0);
        assert_eq!(space.flow(["logs", "b"]).expect(0).stdout(), "1\n");
    }
}

#[test]
fn what_is_damaged_is_not_given_out() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'echo 1 > out', outputs: [out]}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    let objects = files_below(&space.path(".flow/objects"));
    let object = objects.into_iter().find(|path| fs::read(path).unwrap() == b"1\n").unwrap();
    let kept = fs::metadata(&object).unwrap();
    fs::set_permissions(&object, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&object, "2\n").unwrap();
    fs::set_permissions(&object, kept.permissions()).unwrap();
    fs::File::open(&object).unwrap().set_modified(kept.modified().unwrap()).unwrap();
    let said = space.flow(["get", "a", "--to", "mine"]).expect(1).text();
    assert!(said.contains("`a`: its output `out` in the store has content that does not match its name"), "{said}");
    assert!(said.contains("flow doctor --contents") && !space.path("mine").exists(), "{said}");
    space.flow(["doctor", "--contents"]).expect(0);
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["get", "a", "--to", "mine"]).expect(0);
    assert_eq!(space.read("mine"), "1\n");
}

#[test]
fn a_passing_fault_of_the_disk_drops_no_result() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'echo 1 > out', outputs: [out]}, b: {run: 'echo b'}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    let object = files_below(&space.path(".flow/objects"))
        .into_iter()
        .find(|file| fs::read(file).is_ok_and(|text| text == b"1\n"));
    let shelf = object.unwrap().parent().unwrap().to_owned();
    let away = shelf.with_extension("away");
    fs::rename(&shelf, &away).unwrap();
    symlink(&shelf, &shelf).unwrap();
    let said = space.flow(["run", "w.yaml", "-k"]).expect(1).text();
    assert!(said.contains("cannot check whether") && said.contains("ROOT/.flow/objects"), "{said}");
    assert_eq!(space.ran(), [""; 0], "nothing is made again");
    let said = space.flow(["plan", "w.yaml"]).text();
    assert!(said.contains("cannot check whether"), "{said}");
    let said = space.flow(["doctor"]).expect(0).stdout();
    assert!(said.contains("it stays") && !said.contains("dropped"), "{said}");
    fs::remove_file(&shelf).unwrap();
    fs::rename(&away, &shelf).unwrap();
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.ran(), [""; 0], "it is as good as before");
}

/// As a user whom permissions count for.
#[test]
fn a_permission_that_is_missing_for_a_moment_drops_no_result() {
    const USER: u32 = 54_321;
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'echo 1 > out', outputs: [out]}}\n");
    for path in [space.path(""), space.path("w.yaml"), space.path("plugins")] {
        if chown(path, Some(USER), Some(USER)).is_err() {
            eprintln!("skipped: only root can run flow as another user");
            return;
        }
    }
    let flow = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={USER}"),
            &format!("--regid={USER}"),
            "--clear-groups",
            env!("CARGO_BIN_EXE_flow"),
        ]);
        command
            .args(args)
            .current_dir(space.path(""))
            .env("HOME", space.path(""))
            .env("XDG_CACHE_HOME", space.cache().join("theirs"));
        let output = command.env("FLOW_GPU_LOCKS", space.locks()).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = flow(&["run", "w.yaml"]);
    if code != Some(0) && said.contains("ermission denied") {
        eprintln!("skipped: another user cannot reach what this test runs: {said}");
        return;
    }
    assert_eq!(code, Some(0), "{said}");
    let object = files_below(&space.path(".flow/objects"))
        .into_iter()
        .find(|file| fs::read(file).is_ok_and(|text| text == b"1\n"));
    let shelf = object.unwrap().parent().unwrap().to_owned();
    fs::set_permissions(&shelf, fs::Permissions::from_mode(0o000)).unwrap();
    let (code, said) = flow(&["run", "w.yaml"]);
    assert!(code == Some(1) && said.contains("Permission denied") && said.contains("cannot check whether"), "{said}");
    fs::set_permissions(&shelf, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = flow(&["run", "w.yaml"]);
    assert!(code == Some(0) && said.contains("cached"), "{said}");
}
