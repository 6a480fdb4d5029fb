//! Text that others wrote, names of files and plugins, words of programs and whoever holds the store, reaches the screen as
//! text.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use flow_core::is_hidden;
use flow_testkit::{FlowOutput, TestSpace, until};

use crate::space;

/// It colours, erases, names the window, links, and turns what follows.
const NASTY: &str = "\u{1b}[31m\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]8;;http:x\u{7}\u{9b}1m\u{202e}";

/// Nothing but text and ends of lines; says what it looked through.
#[track_caller]
fn safe(ran: &FlowOutput) -> String {
    let all = ran.stdout() + &ran.stderr();
    let hidden = all.chars().find(|c| is_hidden(*c) && *c != '\n');
    assert_eq!(hidden, None, "{all:?}");
    all
}

/// The same words on a terminal of their own.
fn on_a_terminal(space: &TestSpace, args: &[&str]) -> String {
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command.args(args).current_dir(space.path("")).env("TERM", "xterm").env_remove("NO_COLOR");
    let stdout = pty.slave.try_clone().expect("a terminal");
    let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(pty.slave).spawn().expect("flow");
    drop(command);
    let (mut said, mut master) = (Vec::new(), File::from(pty.master));
    let mut buffer = [0; 4096];
    // A terminal that nobody holds any more ends with an error.
    while let Ok(n @ 1..) = master.read(&mut buffer) {
        said.extend_from_slice(&buffer[..n]);
    }
    child.wait().expect("an end");
    String::from_utf8(said).expect("UTF-8")
}

#[test]
fn files_arguments_and_plugins_with_odd_names() {
    let space = space();
    let file = format!("odd{NASTY}.yaml");
    space.write(&file, "flow: 1  # \u{9b}31m\u{85}\n");
    let told = safe(&space.flow(["check", &file]).expect(2));
    assert!(told.contains(r"1 | flow: 1  # \u{9b}31m\u{85}") && told.contains(r"odd\u{1b}[31m"), "{told}");

    space.write("turned.yaml", "flow: 1\nname: odd\nsteps:\n  a: {run: \"true \u{202e}\", inputz: [x]}\n");
    let told = safe(&space.flow(["check", "turned.yaml"]).expect(2));
    assert!(told.contains(r#"a: {run: "true \u{202e}", inputz: [x]}"#), "{told}");
    let carets = told.lines().find(|line| line.contains("^^^")).expect("carets");
    let line = told.lines().find(|line| line.contains("inputz: [x]")).expect("its line");
    assert_eq!(line.find("inputz"), carets.find('^'), "{told}");

    let told = safe(&space.flow(["run", &format!("none{NASTY}.yaml")]).expect(2));
    assert!(told.contains(r"none\u{1b}[31m"), "{told}");
    let told = safe(&space.flow([&format!("bad{NASTY}")]).expect(2));
    assert!(told.contains(r"bad\u{9b}1m\u{202e}"), "{told}");
    let told = safe(&space.flow(["plan", &format!("--{NASTY}")]).expect(2));
    assert!(told.starts_with("error: "), "{told}");

    space.write("in.yaml", "flow: 1\nname: in\nsteps:\n  a: {run: 'true', inputs: [\"x\\e[31m\\x9b.txt\"]}\n");
    let told = safe(&space.flow(["run", "in.yaml"]).expect(2));
    assert!(told.contains(r"x\u{1b}[31m\u{9b}.txt"), "{told}");

    space.write(format!("plugins/p{NASTY}/plugin.yaml"), "plugin: 1\nname: \"\\e[31mevil\"\nversion: \"\\e[2J\"\n");
    let told = safe(&space.flow(["plugins"]).expect(0));
    assert!(told.contains("broken: "), "{told}");
}

#[test]
fn what_programs_say_and_who_holds_the_store() {
    let space = space();
    let print = r"printf '\033[32mgreen\033[0m \033[2J\033]0;title\007\302\2331m\233\n'";
    let workflow = format!(
        "flow: 1
name: said
steps:
  ok: {{run: \"{}\"}}
  bad: {{run: \"{}; exit 3\"}}
  slow: {{run: 'sleep 60'}}
",
        print.replace('\\', "\\\\"),
        print.replace('\\', "\\\\").replace("green", "\\\\rred")
    );
    space.write("said.yaml", &workflow);
    let log = b"\x1b[32mgreen\x1b[0m \x1b[2J\x1b]0;title\x07\xc2\x9b1m\x9b\n";
    let told = safe(&space.flow(["run", "said.yaml", "ok", "bad", "-k"]).expect(1));
    assert!(told.contains("| red \u{fffd}"), "{told}");
    for args in [["status", "-w"], ["runs", "-w"]] {
        safe(&space.flow(args.into_iter().chain(["said.yaml"])).expect(0));
    }
    // Into a pipe as it is, on a terminal without what is no text and no colour.
    let raw =
        Command::new(env!("CARGO_BIN_EXE_flow")).args(["logs", "ok"]).current_dir(space.path("")).output().unwrap();
    assert_eq!(raw.stdout, log, "{}", String::from_utf8_lossy(&raw.stderr));
    let seen = on_a_terminal(&space, &["logs", "ok"]);
    assert_eq!(seen, "\u{1b}[32mgreen\u{1b}[0m \u{1b}[1m\u{fffd}\r\n\u{1b}[0m");
    assert_eq!(on_a_terminal(&space, &["logs", "ok", "-f"]), seen);
    let failed = on_a_terminal(&space, &["status"]);
    assert!(!failed.contains("\u{1b}]") && !failed.contains('\u{9b}') && failed.contains("\u{1b}[31m"), "{failed:?}");

    let mut running = space.start(["run", "said.yaml", "slow", "--lang", NASTY]);
    until("it runs", || space.flow(["status"]).stdout().contains("running"));
    let told = safe(&space.flow(["gc"]));
    assert!(told.contains("is in use by process") && told.contains(r"\u{9b}"), "{told}");
    safe(&space.flow(["why", "slow", "-w", "said.yaml"]));
    space.flow(["cancel", "--now"]).expect(0);
    running.wait();
}
