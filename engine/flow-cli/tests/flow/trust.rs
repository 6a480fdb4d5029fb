//! Who owns a root, a plugin and a store: those of another user are not used unless they are named, and what flow makes is for its
//! owner alone.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use flow_testkit::{FlowOutput, TestSpace, files_below};

use crate::space;

const OTHER_UID: u32 = 65_534;
const PLAIN: &str = "flow: 1\nname: plain\nsteps: {one: {run: 'echo made > out/x', outputs: [out/x]}}\n";
const EVIL: &str = "flow: 1\nname: evil\nsteps: {one: {uses: evil/one}}\n";

/// A space with a folder that all may write, as `/tmp` is; none where this user cannot give files away.
fn shared() -> Option<TestSpace> {
    let space = space();
    fs::create_dir(space.path("shared")).unwrap();
    mode(&space.path("shared"), 0o1777);
    fs::create_dir(space.path("shared/own")).unwrap();
    space.write("probe", "");
    chown(space.path("probe"), Some(OTHER_UID), None).ok().map(|()| space)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Gives a folder with all in it to another user.
fn give(folder: &Path) {
    for file in files_below(folder) {
        file.ancestors().take_while(|path| path.starts_with(folder)).for_each(|path| {
            std::os::unix::fs::lchown(path, Some(OTHER_UID), None).unwrap();
        });
    }
}

/// A plugin whose set-up leaves a trace.
fn plugin(space: &TestSpace, folder: &str) -> PathBuf {
    let trace = space.path("trace");
    let yaml = format!(
        "plugin: 1\nname: evil\nversion: 0.1.0\ncontent: [plugin.yaml]\nsetup: [touch {}]\nstart: [./main]\nsteps: {{one: {{with: {{type: object}}}}}}\n",
        trace.display()
    );
    space.write(format!("{folder}/plugin.yaml"), &yaml);
    let main = "#!/bin/sh\necho '{\"type\":\"hello\",\"protocol\":1,\"plugin\":\"evil\",\"version\":\"0.1.0\"}' > $FLOW_ATTEMPT/messages.jsonl\necho '{\"type\":\"outcome\",\"outcome\":\"ok\"}' >> $FLOW_ATTEMPT/messages.jsonl\n";
    space.script(format!("{folder}/main"), main);
    trace
}

/// It was refused, in words with a way out.
#[track_caller]
fn refused(ran: &FlowOutput, words: &[&str]) {
    assert!(ran.code().is_some_and(|code| code != 0), "{}", ran.text());
    words.iter().for_each(|words| assert!(ran.stderr().contains(words), "`{words}` is missing: {}", ran.stderr()));
}

#[test]
fn a_plugin_that_another_user_left_on_the_way_up_is_not_set_up() {
    let Some(space) = shared() else {
        eprintln!("skipped: only root can make files of another user");
        return;
    };
    let trace = plugin(&space, "shared/plugins/evil");
    give(&space.path("shared/plugins"));
    space.write("shared/own/evil.yaml", EVIL).write("shared/evil.yaml", EVIL);
    let said = space.flow(["run", "shared/own/evil.yaml"]);
    refused(&said, &["there is no plugin `evil`"]);
    let said = space.flow(["run", "shared/evil.yaml"]);
    refused(&said, &["shared/plugins: ", "uid 65534", "--plugin-dir"]);
    refused(&space.flow(["check", "shared/evil.yaml"]), &["uid 65534"]);
    assert!(!trace.exists(), "its set-up did not run");
    // The folder is our own, and what somebody put into it is not.
    chown(space.path("shared/plugins"), Some(0), None).unwrap();
    refused(&space.flow(["run", "shared/evil.yaml"]), &["shared/plugins/evil", "uid 65534"]);
    fs::rename(space.path("shared/plugins/evil"), space.path("evil")).unwrap();
    give(&space.path("evil"));
    symlink(space.path("evil"), space.path("shared/plugins/evil")).unwrap();
    refused(&space.flow(["run", "shared/evil.yaml"]), &["/evil", "uid 65534"]);
    assert!(!trace.exists(), "its set-up did not run");
    assert!(space.flow(["plugins", "-w", "shared/evil.yaml"]).expect(0).stderr().contains("uid 65534"));
    // Others than that are not in the way, and to name it is consent.
    space.write("shared/plain.yaml", PLAIN);
    space.flow(["run", "shared/plain.yaml"]).expect(0);
    space.flow(["run", "shared/evil.yaml", "--plugin-dir", "shared/plugins"]).expect(0);
    assert!(trace.exists(), "it was set up");
}

#[test]
fn a_store_that_another_user_left_is_not_used() {
    let Some(space) = shared() else {
        eprintln!("skipped: only root can make files of another user");
        return;
    };
    space.write("shared/own/plain.yaml", PLAIN).write("shared/plain.yaml", PLAIN);
    space.flow(["run", "shared/plain.yaml", "--store", "shared/.flow"]).expect(0);
    let format = fs::read_to_string(space.path("shared/.flow/format")).unwrap();
    space.write("shared/.flow/format", "1\n");
    give(&space.path("shared/.flow"));
    for command in [
        &["run"][..],
        &["plan"],
        &["status", "-w"],
        &["gc", "-w"],
        &["run", "--detach"],
        &["cancel", "-w"],
        &["doctor", "-w"],
    ] {
        let said = space.flow(command.iter().chain(&["shared/plain.yaml"]));
        refused(&said, &["shared/.flow` belongs to ", "uid 65534", "--store"]);
    }
    assert_eq!(fs::read_to_string(space.path("shared/.flow/format")).unwrap(), "1\n", "nothing was mended");
    space.write("shared/.flow/format", &format);
    space.flow(["check", "shared/plain.yaml"]).expect(0);
    // On the way up it does not count, and to name it is consent.
    space.flow(["run", "shared/own/plain.yaml"]).expect(0);
    assert!(space.path(".flow/format").exists(), "the next folder upwards with a sign of a root");
    space.flow(["status", "--store", "shared/.flow"]).expect(0);
    space.flow(["run", "shared/plain.yaml", "--store", "shared/.flow"]).expect(0);
}

#[test]
fn a_link_that_another_user_left_in_place_of_the_store_is_not_followed() {
    let Some(space) = shared() else {
        eprintln!("skipped: only root can make files of another user");
        return;
    };
    space.write("shared/plain.yaml", PLAIN).write("precious/letter", "mine");
    symlink(space.path("precious"), space.path("shared/.flow")).unwrap();
    std::os::unix::fs::lchown(space.path("shared/.flow"), Some(OTHER_UID), None).unwrap();
    refused(&space.flow(["run", "shared/plain.yaml"]), &["shared/.flow` belongs to ", "uid 65534"]);
    assert_eq!(files_below(&space.path("precious")).len(), 1, "nothing was written there");
    fs::rename(space.path("precious"), space.path("elsewhere")).unwrap();
    refused(&space.flow(["run", "shared/plain.yaml"]), &["shared/.flow` belongs to ", "uid 65534"]);
    fs::rename(space.path("elsewhere"), space.path("precious")).unwrap();
    fs::remove_file(space.path("shared/.flow")).unwrap();
    symlink(space.path("precious"), space.path("shared/.flow")).unwrap();
    space.flow(["run", "shared/plain.yaml"]).expect(0);
    assert!(space.path("precious/format").exists(), "one's own link is followed");
}

#[test]
fn what_a_run_leaves_is_for_its_owner_alone() {
    let space = space();
    space.write("plain.yaml", PLAIN).write("other/plain.yaml", PLAIN);
    space.write(
        "lab.yaml",
        "flow: 1\nname: lab\nsteps: {one: {run: 'S=$FLOW_ATTEMPT/../../../../seen; stat -c %a .. ../.. ../../.. > $S; cd $FLOW_ATTEMPT; stat -c %a:%n . log >> $S; false'}}\n",
    );
    space.flow(["run", "plain.yaml"]).expect(0);
    assert_eq!(mode_of(&space.path(".flow")), 0o700);
    mode(&space.path(".flow"), 0o755);
    space.write("plain.yaml", &PLAIN.replace("made", "more"));
    space.flow(["run", "plain.yaml"]).expect(0);
    assert_eq!(mode_of(&space.path(".flow")), 0o700, "one that an older flow made is closed");
    space.flow_in("other", ["init", "a.yaml"]).expect(0);
    assert_eq!(mode_of(&space.path("other/.flow")), 0o700);

    // A lab's store stays as open as the lab made it; what programs print and get does not.
    fs::create_dir(space.path("lab")).unwrap();
    mode(&space.path("lab"), 0o2775);
    space.flow(["run", "lab.yaml", "--store", "lab"]).expect(1);
    assert_eq!(mode_of(&space.path("lab")), 0o2775);
    let run = fs::read_dir(space.path("lab/runs")).unwrap().flatten().map(|run| run.path()).max().unwrap();
    assert_eq!(space.read("lab/seen"), "700\n700\n700\n2700:.\n600:log\n", "while it runs");
    assert_eq!(mode_of(&run.join("attempts")), 0o2700);
    for open in [run.clone(), run.join("journal.jsonl"), run.join("status.json")] {
        assert_eq!(mode_of(&open) & 0o044, 0o044, "{}", open.display());
    }
    space.flow(["run", "plain.yaml", "--store", "new/lab", "--detach"]).expect(0);
    flow_testkit::until("the run ends", || space.flow(["runs", "--store", "new/lab"]).stdout().contains("done"));
    assert_eq!(mode_of(&space.path("new/lab")), 0o700, "a new one is closed");
    assert_eq!(mode_of(&space.path("new/lab/detached.log")), 0o600);
}

#[test]
fn a_member_of_a_lab_sees_runs_and_no_logs_and_removes_nothing_of_others() {
    let Some(space) = shared() else {
        eprintln!("skipped: only root can make files of another user");
        return;
    };
    mode(&space.path(""), 0o755);
    let steps =
        "one: {run: 'echo private; false'}\n  two: {run: 'mkdir out/d && echo made > out/d/x', outputs: [out/d]}";
    space.write("one.yaml", &format!("flow: 1\nname: one\nsteps:\n  {steps}\n"));
    space.flow(["run", "-k", "one.yaml", "--store", "shared/lab"]).expect(1);
    // Where it was built may be closed to others.
    let (built, flow) = (env!("CARGO_BIN_EXE_flow"), space.path("shared/flow"));
    fs::hard_link(built, &flow).or_else(|_| fs::copy(built, &flow).map(drop)).unwrap();
    let member = |args: &[&str]| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&flow);
        command.args(args).args(["--store", "shared/lab"]).current_dir(space.path("")).env_clear();
        let output = command
            .env("PATH", "/usr/bin:/bin")
            .env("FLOW_GPU_LOCKS", space.locks())
            .uid(OTHER_UID)
            .gid(OTHER_UID)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, said) = member(&["runs"]);
    assert!(
        code == Some(2) && said.contains("cannot access the store") && said.contains("it belongs to root"),
        "{said}"
    );
    mode(&space.path("shared/lab"), 0o2770);
    let (code, said) = member(&["runs"]);
    assert!(code == Some(2) && said.contains("the group `root` shares it: join that group"), "{said}");
    mode(&space.path("shared/lab"), 0o755);
    let (code, said) = member(&["doctor"]);
    assert!(code == Some(1) && said.contains("need write access to the store; `--store DIR`"), "{said}");
    assert!(member(&["runs"]).1.contains("failed"), "{:?}", member(&["runs"]));
    assert_eq!(member(&["status"]).0, Some(0));
    let (code, said) = member(&["logs", "one"]);
    assert!(code == Some(1) && said.contains("ermission") && !said.contains("private\n"), "{said}");
    assert!(said.contains("root ran this step, and in a shared store each user's logs are private"), "{said}");
    open_to_all(&space.path("shared/lab"));
    // What a flow that was killed left half done.
    let half_done = space.path("shared/lab/objects/tmp/.tmp-1-1");
    fs::create_dir(&half_done).unwrap();
    mode(&half_done, 0o700);
    let (code, said) = member(&["gc", "--runs", "0", "--days", "0"]);
    assert!(code == Some(0) && said.contains("left to the users who made them: 1 run"), "{said}");
    assert!(space.flow(["logs", "one", "--store", "shared/lab"]).expect(0).stdout().contains("private"));

    // One's own, of which something cannot be read: nobody else has to give it.
    std::os::unix::fs::chown(space.path("shared/lab"), Some(OTHER_UID), None).unwrap();
    mode(&space.path("shared/lab/format"), 0);
    let (code, said) = member(&["runs"]);
    assert!(code == Some(2) && said.contains("is yours, but you cannot access a file or folder in it"), "{said}");
    assert!(said.contains("hint: `chmod -R u+rwX "), "{said}");
}

/// As if all its users had a group and umask 002: what is not closed of itself all may write.
fn open_to_all(path: &Path) {
    mode(path, mode_of(path) | 0o777);
    for path in fs::read_dir(path).unwrap().flatten().map(|entry| entry.path()) {
        let is_artifact = path.file_name().is_some_and(|name| name.len() > 60);
        if path.is_dir() && !is_artifact && !path.ends_with("attempts") {
            open_to_all(&path);
        } else if path.is_file() && !is_artifact {
            mode(&path, mode_of(&path) | 0o666);
        }
    }
}
