//! Plugins set up for real, by commands that a keeper runs.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use flow_exec::plugins::{Plugins, Progress, Setup};

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new(setup: &str) -> Lab {
        let lab = Lab { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(lab.plugin()).unwrap();
        lab.write(setup, "one");
        lab
    }

    fn plugin(&self) -> PathBuf {
        self.dir.path().join("plugins/demo")
    }

    fn write(&self, setup: &str, content: &str) {
        let yaml = format!(
            "plugin: 1\nname: demo\nversion: 0.1.0\ncontent: [plugin.yaml, main.sh]\nsetup: {setup}\nstart: [./built]\nsteps: {{one: {{with: {{type: object}}}}}}\n"
        );
        fs::write(self.plugin().join("plugin.yaml"), yaml).unwrap();
        fs::write(self.plugin().join("main.sh"), content).unwrap();
        fs::set_permissions(self.plugin().join("main.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    async fn ensure(&self) -> (Result<bool, String>, Vec<String>) {
        let plugins =
            Plugins::discover(&[self.dir.path().join("plugins")], None, &self.dir.path().join("cache")).unwrap();
        let plugin = plugins.get("demo").unwrap();
        let mut said = Vec::new();
        let setup = Setup {
            plugin,
            digest: plugin.digest().unwrap(),
            record: &self.dir.path().join(".flow/plugins/demo.json"),
            keeper: Path::new(env!("CARGO_BIN_EXE_flow-exec-test-keeper")),
            secrets: &BTreeSet::from(["FLOW_TEST_SECRET"]),
        };
        let done = setup
            .ensure(&mut |progress| {
                said.push(match progress {
                    Progress::Waiting => "waiting".to_owned(),
                    Progress::Command(command) => format!("$ {command}"),
                    Progress::Line(line) => line.to_owned(),
                });
            })
            .await;
        (done.map_err(|e| e.to_string()), said)
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time") })
}

const BUILD: &str =
    "[\"echo begin; echo $FLOW_CACHE | sed s,.*/,,; printf '1%%\\\\r99%%\\\\n'; echo open >&2\", cp main.sh built]";

#[test]
fn it_is_done_once_for_each_content_and_shown() {
    block_on(async {
        let lab = Lab::new(BUILD);
        let (done, said) = lab.ensure().await;
        assert_eq!(done, Ok(true));
        assert_eq!(said[1..], ["begin", "cache", "99%", "open", "$ cp main.sh built"].map(str::to_owned));
        assert_eq!(lab.ensure().await, (Ok(false), vec![]));
        lab.write(BUILD, "two");
        assert_eq!(lab.ensure().await.0, Ok(true));
        assert_eq!(fs::read_to_string(lab.plugin().join("built")).unwrap(), "two");
        // Somebody took the program away, or built another one.
        fs::remove_file(lab.plugin().join("built")).unwrap();
        assert_eq!(lab.ensure().await.0, Ok(true));
        fs::write(lab.plugin().join("built"), "other").unwrap();
        assert_eq!(lab.ensure().await.0, Ok(true));
        assert_eq!(lab.ensure().await.0, Ok(false));
    });
}

#[test]
fn two_at_once_do_it_once() {
    block_on(async {
        let lab = Lab::new("[sleep 0.3, cp main.sh built]");
        let (first, second) = tokio::join!(lab.ensure(), lab.ensure());
        assert_eq!((first.0, second.0), (Ok(true), Ok(false)));
        assert_eq!(second.1, ["waiting"]);
    });
}

#[test]
fn a_failure_says_which_command_its_last_lines_and_what_to_do() {
    block_on(async {
        let lab = Lab::new("[echo fine, \"echo no space left; exit 4\", echo never]");
        let (done, said) = lab.ensure().await;
        assert!(!said.contains(&"never".to_owned()));
        let here = lab.dir.path().canonicalize().unwrap();
        let words = |text: Result<bool, String>| {
            text.unwrap_err()
                .replace(&*here.to_string_lossy(), "/lab")
                .replace(&*lab.dir.path().to_string_lossy(), "/lab")
        };
        insta::assert_snapshot!(words(done), @r"
        /lab/plugins/demo/plugin.yaml: it could not be set up: `echo no space left; exit 4` failed: exit code 4
          | no space left
        The whole output is in /lab/.flow/plugins/demo.setup/2/log. After a fix, run again; to try the command alone:
          cd /lab/plugins/demo && export FLOW_CACHE=/lab/cache && echo no space left; exit 4
        ");
        lab.write("[no_such_builder --release]", "");
        insta::assert_snapshot!(words(lab.ensure().await.0).lines().next().unwrap(), @"/lab/plugins/demo/plugin.yaml: it could not be set up: `no_such_builder --release` failed: `no_such_builder` is not a program on the PATH; install it, or give its path");
        lab.write("[\"true\"]", "");
        insta::assert_snapshot!(words(lab.ensure().await.0), @"/lab/plugins/demo/plugin.yaml: it could not be set up: its commands succeeded, but `/lab/plugins/demo/built` is not there; `start:` must name a file that `setup:` makes");
        lab.write("[]", "");
        insta::assert_snapshot!(words(lab.ensure().await.0), @"/lab/plugins/demo/plugin.yaml: it could not be set up: `/lab/plugins/demo/built` is not there; `start:` names a program in the plugin's folder or on the PATH");
    });
}

#[test]
fn a_cancelled_set_up_leaves_nothing_running() {
    block_on(async {
        let lab = Lab::new("[\"echo $$ > pid; sleep 50\"]");
        let cancelled = tokio::time::timeout(Duration::from_millis(500), lab.ensure()).await;
        assert!(cancelled.is_err());
        let pid = fs::read_to_string(lab.plugin().join("pid")).unwrap();
        for _ in 0..400 {
            if !Path::new("/proc").join(pid.trim()).exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("process {pid} lives");
    });
}
