//! First steps: the terminal sessions in the README and in the tutorial are real, and `flow init` says what to do next.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use flow_testkit::TestSpace;

use crate::space;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The code blocks of a page in one language, such as `console`. Each begins with a line break.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let code = page.split("```").skip(1).step_by(2);
    code.filter_map(|block| block.strip_prefix(language).filter(|block| block.starts_with('\n'))).collect()
}

/// Without what differs from run to run: numbers, times, widths of columns and line breaks.
fn plain(text: &str, root: &Path) -> String {
    let text = flow_testkit::normal(text, root).replace(|c: char| c.is_ascii_digit() || ".-−+".contains(c), "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Types a command. Both outputs come back as one, like on a terminal.
fn typed(space: &TestSpace, command: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_flow")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(space.path(""));
    shell
        .env("PATH", path)
        .env("HOME", space.path(""))
        .env("XDG_CACHE_HOME", space.cache())
        .env("FLOW_GPU_LOCKS", space.locks());
    String::from_utf8(shell.output().unwrap().stdout).unwrap()
}

/// `…` on the page stands for lines, or for the rest of one, that are left out.
fn shows(page: &str, printed: &str, root: &Path) -> bool {
    let mut rest = plain(printed, root);
    let whole = !page.contains('…');
    for part in page.split('…').map(|part| plain(part, root)) {
        match rest.find(&part) {
            Some(at) => rest = rest[at + part.len()..].to_owned(),
            None => return false,
        }
    }
    page.is_empty() || !whole || rest.is_empty()
}

fn without_comments(yaml: &str) -> Vec<&str> {
    yaml.lines().map(|line| line.split(" #").next().unwrap_or_default().trim_end()).collect()
}

fn is_real(page: &str) {
    let space = space();
    for file in ["train.py", "sweep.yaml"] {
        let text = fs::read_to_string(root().join("examples/quickstart").join(file)).unwrap();
        space.write(file, &text);
    }
    let page = fs::read_to_string(root().join(page)).unwrap();
    let mut typed_commands = 0;
    for block in page.split("```").skip(1).step_by(2) {
        if let Some(example) = block.strip_prefix("yaml\n") {
            match example.lines().next().and_then(|line| line.strip_prefix("# ")) {
                Some(file) => _ = space.write(file, example),
                None => assert_eq!(without_comments(example), without_comments(&space.read("sweep.yaml")), "{example}"),
            }
        }
        for command in block.strip_prefix("console").iter().flat_map(|session| session.split("\n$ ").skip(1)) {
            let (command, shown) = command.split_once('\n').unwrap_or((command, ""));
            let printed = typed(&space, command);
            assert!(shows(shown, &printed, &space.path("")), "$ {command}\n{shown}\n--- it printed\n{printed}");
            typed_commands += 1;
        }
    }
    assert!(typed_commands >= 4, "{typed_commands}");
    assert!(space.alive().is_empty());
}

#[test]
fn the_readme_shows_what_flow_prints() {
    is_real("README.md");
}

#[test]
fn the_tutorial_shows_what_flow_prints() {
    is_real("docs/tutorial.md");
}

#[test]
fn the_chinese_pages_show_the_same_sessions() {
    for (page, chinese) in [("README.md", "README.zh.md"), ("docs/tutorial.md", "docs/tutorial.zh.md")] {
        let [page, chinese] = [page, chinese].map(|page| fs::read_to_string(root().join(page)).unwrap());
        assert_eq!(blocks(&page, "console"), blocks(&chinese, "console"));
        let [page, chinese] = [page, chinese].map(|page| blocks(&page, "yaml").concat());
        assert_eq!(without_comments(&page), without_comments(&chinese));
    }
}

#[test]
fn init_says_what_to_do_next_and_it_works() {
    let space = space();
    let said = space.flow(["init"]).expect(0).stderr();
    for command in ["run", "plan"] {
        assert!(said.contains(&format!("flow {command} workflows/hello.yaml ")), "{said}");
        space.flow([command, "workflows/hello.yaml"]).expect(0);
    }
}
