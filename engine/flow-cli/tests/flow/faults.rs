//! Damage of what is kept is told and mended, and what flow cannot see for the moment, it does not drop.

use std::{fs, os::unix::fs::PermissionsExt};

use flow_testkit::files_below;

use crate::space;

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
