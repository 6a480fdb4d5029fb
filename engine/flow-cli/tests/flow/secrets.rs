//! Secrets: nobody gets one who did not ask, and nobody reads one that is printed as it is, in JSON or in base64, whoever is killed
//! when.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use flow_testkit::{RunningFlow, TestSpace, files_below, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::space;

const TOKEN: &str = "p\"a\\ss/w'ö<&>rd +$x%7~";
const KEY: &str = "-----BEGIN KEY-----\nMIIEvQ+IBADANBgkqhkiG9w0/BAQEFAASC\nAb1\n-----END KEY-----\n";
const PRINT: &str = include_str!("secrets/print.py");

const WORKFLOW: &str = "
flow: 1
name: prints
steps:
  command: {run: python3 print.py STOP, inputs: [print.py], outputs: [out/], secrets: [TOKEN, KEY]}
  plugin: {uses: print/print, with: {stop: STOP}, secrets: [TOKEN, KEY]}
";

const PLUGIN: &str = "
plugin: 1
name: print
version: 0.1.0
content: [plugin.yaml, print.py]
start: [./print.py]
steps: {print: {with: {type: object, properties: {stop: {type: string}}}}}
";

/// A workspace with two steps that print their secrets until `stop` is there, and all that nobody must see of them.
fn printer() -> (TestSpace, Vec<String>) {
    let mut space = space();
    space.env("TOKEN", TOKEN).env("KEY", KEY);
    let stop = space.path("stop").display().to_string();
    space.write("prints.yaml", &WORKFLOW.replace("STOP", &stop)).write("print.py", PRINT);
    space.write("plugins/print/plugin.yaml", PLUGIN).script("plugins/print/print.py", PRINT);
    let mut forms = Command::new("python3");
    forms.arg(space.path("print.py")).arg("forms").env("TOKEN", TOKEN).env("KEY", KEY).env("PYTHONUTF8", "1");
    let forms: Vec<String> = serde_json::from_slice(&forms.output().unwrap().stdout).unwrap();
    assert!(forms.len() > 10 && forms.iter().any(|form| form == TOKEN), "{forms:?}");
    (space, forms)
}

/// The first file that holds one of the forms, and what stands around it.
fn found_in(files: impl IntoIterator<Item = PathBuf>, forms: &[String]) -> Option<String> {
    files.into_iter().filter(|file| file.is_file()).find_map(|file| {
        let text = fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let (form, at) = forms.iter().find_map(|form| Some((form, text.find(&**form)?)))?;
        let line = text[..at].lines().count();
        Some(format!("`{form}` in line {line} of {}", file.display()))
    })
}

/// Looks at everything of the run, over and over, while something is done.
fn watched(space: &TestSpace, forms: &[String], done: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut looks, mut seen) = (0, None);
            while seen.is_none() && !over.load(Ordering::Relaxed) {
                let screens = fs::read_dir(space.path(".")).unwrap().flatten().map(|entry| entry.path());
                let screens = screens.filter(|path| path.extension().is_some_and(|end| end == "out"));
                seen = found_in(files_below(&space.path(".flow")).into_iter().chain(screens), forms);
                looks += 1;
            }
            assert!(looks > 2, "it was looked at");
            seen
        });
        {
            let _end = StopFlag(&over);
            done();
        }
        watch.join().unwrap()
    });
    assert_eq!(seen, None);
}

/// Also where the test panics, or its thread would be waited for.
struct StopFlag<'a>(&'a AtomicBool);

impl Drop for StopFlag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn hidden_lines(space: &TestSpace, step: &str) -> usize {
    let text = space.flow(["logs", step]).stdout();
    text.matches("***").count()
}

/// Runs until both steps have printed everything at least once, with everybody who can watch.
fn run_watched(space: &TestSpace) -> (RunningFlow, [RunningFlow; 3]) {
    let flow = space.start(["run", "prints.yaml", "-k", "-j", "2"]);
    until("both run", || {
        let attempts = files_below(&space.path(".flow/runs"));
        attempts.iter().filter(|file| file.ends_with("log")).count() == 2
    });
    let others = [&["logs", "command", "-f"][..], &["attach"], &["attach", "--json"]].map(|args| space.start(args));
    until("much was hidden", || hidden_lines(space, "command") > 300);
    until("the screens show it", || others[0].output().contains("Authorization"));
    (flow, others)
}

#[test]
fn no_secret_is_seen_as_it_is_in_json_or_in_base64() {
    let (space, forms) = printer();
    watched(&space, &forms, || {
        let (mut flow, mut others) = run_watched(&space);
        fs::write(space.path("stop"), "").unwrap();
        assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
        others.iter_mut().for_each(|other| _ = other.wait());
        let shown =
            [&["show", "command"][..], &["show", "plugin"], &["show", "plugin", "--json"], &["status"], &["runs"]];
        shown.iter().for_each(|args| fs::write(space.path("shown.out"), space.flow(*args).text()).unwrap());
    });
    assert_eq!(
        found_in(files_below(&space.path(".")).into_iter().filter(|file| !file.ends_with("x.txt")), &forms),
        None
    );
    // What is no secret is there, and in its place.
    let log = space.flow(["logs", "command"]).expect(0).stdout();
    assert!(log.contains("GET / HTTP/1.1\nAuthorization: Basic dXNlcjp***"), "{log}");
    let ended: Vec<_> = space.journal().into_iter().filter(|line| line["event"] == "ended").collect();
    let causes: Vec<String> = ended.iter().map(|line| line["cause"].to_string()).collect();
    assert!(causes.iter().all(|cause| cause.contains("*** ***")), "{causes:?}");
    let messages = files_below(&space.path(".flow/runs")).into_iter().find(|file| file.ends_with("messages.jsonl"));
    assert!(fs::read_to_string(messages.expect("kept")).unwrap().contains(r#""text": "***""#));
}

#[test]
fn what_flow_had_not_seen_when_it_was_killed_is_hidden_too() {
    let (space, forms) = printer();
    watched(&space, &forms, || {
        let (mut flow, others) = run_watched(&space);
        flow.kill();
        until("everybody is gone", || {
            space.alive().iter().all(|(_, command)| command.contains("attach") || command.contains("logs"))
        });
        drop(others);
    });
    assert_eq!(found_in(files_below(&space.path(".")), &forms), None);
}

#[test]
fn who_kills_flow_and_keeper_together_finds_no_secret() {
    let (space, forms) = printer();
    watched(&space, &forms, || {
        let (mut flow, others) = run_watched(&space);
        flow.signal(Signal::SIGSTOP);
        kill(Pid::from_raw(keeper(&space)), Signal::SIGKILL).expect("killed");
        flow.kill();
        until("the steps are gone", || !space.alive().iter().any(|(_, command)| command.contains("print.py")));
        drop(others);
    });
    assert_eq!(found_in(files_below(&space.path(".")), &forms), None);
}

fn keeper(space: &TestSpace) -> i32 {
    space.alive().into_iter().find(|(_, command)| command.contains("__keeper")).expect("a keeper").0
}

#[test]
fn only_who_asks_for_a_secret_gets_it() {
    let mut space = space();
    space.env("TOKEN", "hunter2-hunter2").env("OTHER", "swordfish-1").env("PLAIN", "plain");
    space.write("plugins/p/plugin.yaml", "plugin: 1\nname: p\nversion: 0.1.0\ncontent: [plugin.yaml]\nsetup: [env > SETUP, sh -c 'cp /bin/true t']\nstart: [./t]\nsteps: {one: {with: {type: object}}}\n".replace("SETUP", &space.path("setup.env").display().to_string()).as_str());
    let workflow = "
flow: 1
name: who
steps:
  asks: {run: env > out/env, outputs: [out/env], secrets: [TOKEN]}
  other: {run: env > out/env, outputs: [out/env], secrets: [OTHER]}
  plain: {run: 'cat /proc/$PPID/environ > out/keeper; env > out/env', outputs: [out/env, out/keeper]}
  plugin: {uses: p/one, needs: [plain]}
";
    space.write("who.yaml", workflow);
    space.flow(["run", "who.yaml", "-k"]);
    let mut found = BTreeMap::new();
    for object in files_below(&space.path(".flow/objects")) {
        let text = fs::read_to_string(&object).unwrap_or_default();
        let is = |name: &str| text.lines().any(|line| line.starts_with(&format!("{name}=")));
        if text.contains("PATH=") && is("FLOW_ATTEMPT") {
            found.insert((is("TOKEN"), is("OTHER")), is("PLAIN"));
        }
    }
    let expected = [(true, false), (false, true), (false, false)];
    assert_eq!(found, expected.into_iter().map(|who| (who, true)).collect(), "(asked for TOKEN, for OTHER), has PLAIN");
    for told in [space.path("setup.env")].into_iter().chain(objects_named(&space, "keeper")) {
        let text = fs::read_to_string(&told).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("swordfish"), "{}: {text}", told.display());
    }
    assert!(space.read("setup.env").contains("PLAIN=plain"));
}

fn objects_named(space: &TestSpace, name: &str) -> Vec<PathBuf> {
    let end = Path::new("out").join(name);
    let recorded = space.journal().into_iter().filter(|line| line["event"] == "recorded");
    let digests: Vec<String> =
        recorded.filter_map(|line| Some(line["result"]["outputs"][name]["digest"].as_str()?.to_owned())).collect();
    assert!(!digests.is_empty(), "{}", end.display());
    files_below(&space.path(".flow/objects"))
        .into_iter()
        .filter(|file| digests.iter().any(|digest| digest.ends_with(&*file.file_name().unwrap().to_string_lossy())))
        .collect()
}

#[test]
fn a_secret_that_cannot_be_hidden_is_refused_before_anything_runs() {
    let workflow = "flow: 1\nname: short\nsteps:\n  a: {run: touch ROOT/ran, secrets: [TOKEN]}\n";
    let long = "x".repeat(100_000);
    let cases = [
        ("", "the secret `TOKEN` is empty"),
        ("  \n ", "the secret `TOKEN` is empty"),
        ("s3cr3t!", "the secret `TOKEN` is too short to be hidden"),
        ("ab\ncd\nef", "the secret `TOKEN` is too short to be hidden"),
        (&*long, "the secret `TOKEN` is too long to be hidden"),
    ];
    for (value, words) in cases {
        let mut space = space();
        space.env("TOKEN", value);
        let root = space.path(".").display().to_string();
        space.write("short.yaml", &workflow.replace("ROOT", &root));
        let said = space.flow(["run", "short.yaml"]).expect(2).text();
        assert!(said.contains(words) && said.contains("short.yaml:4"), "{said}");
        assert!(value.trim().is_empty() || !said.contains(value.trim()), "{said}");
        assert!(!space.path("ran").exists());
        let planned = space.flow(["plan", "short.yaml"]).text();
        assert!(planned.contains(words), "{planned}");
    }
}

#[test]
fn a_value_that_the_workflow_itself_tells_is_refused() {
    let workflow = "
flow: 1
name: told
params: {url: none}
steps:
  a:
    run: 'true'
    env: {URL: '${{ url }}', ALSO: ''}
    secrets: [TOKEN]
";
    let mut space = space();
    space.env("TOKEN", "hunter2-hunter2");
    space.write("told.yaml", workflow);
    let said = space.flow(["run", "told.yaml", "--set", "url=https://me:hunter2-hunter2@host"]).expect(2).text();
    assert!(said.contains("the value of the secret `TOKEN` stands in the parameter `url`"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    space.write("told.yaml", &workflow.replace("''", "hunter2-hunter2"));
    let said = space.flow(["run", "told.yaml"]).expect(2).text();
    assert!(said.contains("the value of the secret `TOKEN` stands in line 8"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(found_in(files_below(&space.path(".flow")), &["hunter2".to_owned()]), None);
    space.write("told.yaml", workflow);
    space.flow(["run", "told.yaml"]).expect(0);
}

#[test]
fn who_reads_what_a_step_with_secrets_made_is_listened_to_as_well() {
    let mut space = space();
    space.env("TOKEN", "hunter2-hunter2");
    let workflow = "
flow: 1
name: hands
steps:
  fetch: {run: sh -c 'echo $TOKEN > out/x', outputs: [out/x], secrets: [TOKEN]}
  use: {run: 'cat ${{ steps.fetch.out }}; false'}
";
    space.write("on.yaml", workflow);
    space.flow(["run", "on.yaml"]).expect(1);
    assert_eq!(space.flow(["logs", "use"]).expect(0).stdout(), "***\n");
    let files = files_below(&space.path(".flow/runs")).into_iter();
    let files = files.filter(|file| !file.components().any(|part| part.as_os_str() == "work"));
    assert_eq!(found_in(files, &["hunter2".to_owned()]), None);
}

#[test]
fn names_that_a_step_makes_up_tell_none_either() {
    let mut space = space();
    space.env("TOKEN", "hunter2_hunter2");
    let workflow = "
flow: 1
name: names
steps:
  output: {run: 'mkdir out/it; mkfifo out/it/$TOKEN', outputs: [out/it/], secrets: [TOKEN]}
  metric: {run: 'echo {\\\"loss_$TOKEN\\\": 1, \\\"$TOKEN\\\": 2} > m.json', metrics: {json: m.json}, secrets: [TOKEN]}
  program: {run: '$TOKEN/x', secrets: [TOKEN]}
  lost: {run: 'cd $FLOW_ATTEMPT; rm -r ../../../../checkpoints log heard.jsonl messages.jsonl; echo $TOKEN; false', secrets: [TOKEN]}
";
    space.write("names.yaml", workflow);
    let said = space.flow(["run", "names.yaml", "-k"]).expect(1).text();
    let shown = ["output", "metric", "program", "lost"].map(|step| space.flow(["show", step]).text()).concat();
    let json = space.flow(["show", "metric", "--json"]).expect(0).stdout();
    assert!(
        said.contains("out/it/***") && json.contains("loss_***") && !shown.contains("hunter2"),
        "{said}\n{shown}\n{json}"
    );
    let journal = space.journal().iter().map(ToString::to_string).collect::<String>();
    assert!(!journal.contains("hunter2") && !said.contains("hunter2") && !json.contains("hunter2"), "{journal}");
    let database = files_below(&space.path(".flow/db"));
    assert_eq!(
        found_in(database.into_iter().chain(files_below(&space.path(".flow/objects"))), &["hunter2".to_owned()]),
        None
    );
}

#[test]
fn names_of_files_tell_none_where_flow_keeps_or_shows_them() {
    let mut space = space();
    space.env("TOKEN", "hunter2_hunter2");
    let workflow = "
flow: 1
name: files
steps:
  kept: {run: 'mkdir sub; echo 1 > sub/$TOKEN.csv; echo 2 > a.csv', metrics: {json: m.json}, secrets: [TOKEN]}
  made: {run: 'mkdir -p out/it/sub; echo 1 > out/it/sub/x-$TOKEN', outputs: [out/it/], secrets: [TOKEN]}
  plain: {run: 'mkdir -p out/it; echo 1 > out/it/x', outputs: [out/it/], secrets: [TOKEN]}
";
    space.write("files.yaml", workflow);
    let said = space.flow(["run", "files.yaml"]).expect(0).text();
    let words = "a file of its output `out/it` has a secret in its name, `sub/x-***`";
    assert!(said.matches(words).count() == 1 && !said.contains("hunter2"), "{said}");
    let kept = space.flow(["show", "kept", "--json"]).expect(0).stdout();
    assert!(kept.contains("a.csv") && !kept.contains("hunter2"), "{kept}");
    let runs = files_below(&space.path(".flow/runs")).into_iter();
    let runs = runs.filter(|file| !file.components().any(|part| part.as_os_str() == "work"));
    let all = runs.chain(files_below(&space.path(".flow/db")));
    assert_eq!(found_in(all, &["hunter2".to_owned()]), None);
}

#[test]
fn lines_of_a_step_with_secrets_have_their_times() {
    let mut space = space();
    space.env("TOKEN", "hunter2-hunter2");
    let workflow = "
flow: 1
name: times
steps:
  a:
    run: sh -c 'for n in 1 2 3 4; do sleep 0.5; echo epoch $n loss 0.$n; done; echo $TOKEN'
    metrics: {stdout: 'epoch {epoch} loss {loss}'}
    secrets: [TOKEN]
";
    space.write("times.yaml", workflow);
    space.flow(["run", "times.yaml"]).expect(0);
    let recorded = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap();
    let metrics = &recorded["result"]["metrics"];
    assert_eq!(metrics["loss"]["value"], 0.4);
    let time = metrics["epoch_time"]["value"].as_f64().expect("times");
    assert!((0.2..5.0).contains(&time), "{time}");
}
