//! Which program runs the command of a step. Depends only on its text and on `shell:`, never on the machine.

use serde::{Deserialize, Serialize};

/// `shell:`: the shell for a command that needs one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shell {
    #[default]
    Bash,
    Sh,
}

impl Shell {
    /// All shells by name.
    pub const ALL: [(&'static str, Shell); 2] = [("bash", Shell::Bash), ("sh", Shell::Sh)];

    /// The shell with this name.
    pub fn named(name: &str) -> Option<Shell> {
        Shell::ALL.iter().find(|(known, _)| *known == name).map(|(_, shell)| *shell)
    }

    pub fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Sh => "sh",
        }
    }

    /// The shell with its options. `-c` and a command, or a file, follow. A script ends at the first command that fails; bash
    /// reads no start-up files, and with it a pipe fails if any command in it fails.
    pub fn argv(self) -> &'static [&'static str] {
        match self {
            Shell::Bash => &["bash", "--noprofile", "--norc", "-eo", "pipefail"],
            Shell::Sh => &["sh", "-e"],
        }
    }
}

/// The program that runs a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runner<'a> {
    /// A program and its arguments, without a shell.
    Direct(Vec<String>),
    Shell(Shell),
    /// The command is a script that begins with `#!`.
    Script(Script<'a>),
}

/// A script with an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    pub interpreter: &'a str,
    /// The rest of the `#!` line. The kernel passes it as one argument, and so does flow.
    pub argument: Option<&'a str>,
    /// From `#!` on.
    pub text: &'a str,
}

/// The runner of a command: the interpreter of its `#!` line; no shell, if a shell would only split the command into
/// words; otherwise the declared shell.
///
/// ```
/// # use flow_core::shell::{Runner, Shell, runner};
/// let words = ["python", "train.py", "--name", "a b"].map(String::from);
/// assert_eq!(runner("python train.py --name 'a b'", Shell::Bash), Runner::Direct(words.to_vec()));
/// assert_eq!(runner("python train.py | tee log.txt", Shell::Bash), Runner::Shell(Shell::Bash));
/// ```
pub fn runner(command: &str, shell: Shell) -> Runner<'_> {
    match script(command) {
        Some(script) => Runner::Script(script),
        None => words(command).map_or(Runner::Shell(shell), Runner::Direct),
    }
}

/// The command as a script, if its first line begins with `#!`. Empty lines before it are ignored.
pub fn script(command: &str) -> Option<Script<'_>> {
    let text = command.trim_start();
    let line = text.strip_prefix("#!")?.lines().next()?.trim();
    let (interpreter, argument) = match line.split_once(char::is_whitespace) {
        Some((interpreter, argument)) => (interpreter, Some(argument.trim_start())),
        None => (line, None),
    };
    (!interpreter.is_empty()).then_some(Script { interpreter, argument, text })
}

impl Script<'_> {
    /// Whether nothing follows the `#!` line, for example because `run: >` folded it into one line.
    pub fn is_empty(&self) -> bool {
        self.text.lines().skip(1).all(|line| line.trim().is_empty())
    }
}

/// The words of a command, if a shell would only split it.
pub fn words(command: &str) -> Option<Vec<String>> {
    if needs_shell(command) {
        return None;
    }
    let words = shlex::split(command)?;
    let program = words.first()?;
    (!program.is_empty() && !SHELL_WORDS.contains(&program.as_str())).then_some(words)
}

/// The start of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// The `bin` folder of the virtual environment that it activates before.
    pub activated: Option<String>,
    /// The program; absent if the shell runs that word itself, or if it is not plain text.
    pub program: Option<String>,
}

/// Finds the first program of a command from its arguments. Assignments before it are left out, and so are `bash` and
/// `env`.
///
/// ```
/// # use flow_core::shell::first;
/// let of = |argv: &[&str]| first(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).program;
/// assert_eq!(of(&["python", "train.py"]).as_deref(), Some("python"));
/// assert_eq!(of(&["bash", "-e", "-c", "LR=0.1 python train.py | tee log"]).as_deref(), Some("python"));
/// assert_eq!(of(&["bash", "-c", "cd x && python train.py"]), None);
/// assert_eq!(of(&["bash", "-c", "source /venv/bin/activate && train"]).as_deref(), Some("train"));
/// assert_eq!(of(&["/usr/bin/env", "-S python3 -u", ".flow-run"]).as_deref(), Some("python3"));
/// ```
pub fn first(argv: &[String]) -> First {
    let Some(program) = argv.first() else { return First::default() };
    let name = program.rsplit('/').next().unwrap_or(program);
    let words: Vec<&str> = match argv {
        [_, .., option, text] if option == "-c" && Shell::named(name).is_some() => {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
            lines.flat_map(str::split_whitespace).collect()
        }
        [_, words @ ..] if name == "env" => {
            words.iter().flat_map(|word| word.split_whitespace()).filter(|word| !word.starts_with('-')).collect()
        }
        _ => return First { activated: None, program: Some(program.clone()) },
    };
    let is_plain = |word: &str| !needs_shell(word) && !word.contains(['\'', '"']);
    let is_assignment =
        |word: &&str| word.split_once('=').is_some_and(|(name, value)| !name.is_empty() && is_plain(value));
    let mut words = words.into_iter().filter(|word| !is_assignment(word)).peekable();
    let mut activated = None;
    if words.next_if(|word| ["source", "."].contains(word)).is_some() {
        let folder = words.next().and_then(|file| file.trim_end_matches(';').strip_suffix("/activate"));
        activated = folder.filter(|folder| folder.starts_with('/') && is_plain(folder)).map(str::to_owned);
        if activated.is_none() {
            return First::default();
        }
        let _ = words.next_if(|word| ["&&", ";"].contains(word));
    }
    let program = words.next().filter(|word| is_plain(word) && !SHELL_WORDS.contains(word)).map(str::to_owned);
    First { activated, program }
}

/// Characters with a meaning to a shell, besides blanks and quotes.
const SHELL: &[char] =
    &['|', '&', ';', '<', '>', '(', ')', '$', '`', '\n', '*', '?', '[', ']', '{', '}', '#', '~', '!', '='];

/// Words that a shell executes itself: builtins, and functions defined by the environments of clusters and Python.
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "alias",
    "break",
    "builtin",
    "case",
    "cd",
    "command",
    "continue",
    "declare",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "for",
    "function",
    "getopts",
    "hash",
    "if",
    "jobs",
    "let",
    "local",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while", //
    "conda",
    "mamba",
    "micromamba",
    "ml",
    "module",
    "spack",
];

/// Whether a character that is special to a shell is outside single quotes. Inside double quotes, only characters that a
/// shell expands there count. Outside quotes, a backslash only escapes the next character.
fn needs_shell(command: &str) -> bool {
    let mut quote = None;
    let mut first_word = true;
    let mut chars = command.trim().chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (Some('\''), _) => {}
            (Some(_), '$' | '`' | '\\' | '!') => return true,
            (Some(_), _) => {}
            (None, '\\') => {
                chars.next();
            }
            // `NAME=value program` sets a variable; `--name=value` is a word.
            (None, '=') if !first_word => {}
            (None, c) if c.is_whitespace() && c != '\n' => first_word = false,
            (None, c) if SHELL.contains(&c) => return true,
            (None, _) => {}
        }
    }
    quote.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_commands_are_split() {
        let direct: &[(&str, &[&str])] = &[
            ("cp a b", &["cp", "a", "b"]),
            ("  python train.py\t--lr 0.1  ", &["python", "train.py", "--lr", "0.1"]),
            ("python train.py --lr=0.1", &["python", "train.py", "--lr=0.1"]),
            ("echo 'a $b; c' \"d e\"", &["echo", "a $b; c", "d e"]),
            (r"echo a\ b", &["echo", "a b"]),
            ("printf '%s' 'a > b'", &["printf", "%s", "a > b"]),
            ("echo ''", &["echo", ""]),
            ("./run.sh 图", &["./run.sh", "图"]),
        ];
        for (command, argv) in direct {
            let argv = argv.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(runner(command, Shell::Bash), Runner::Direct(argv), "{command}");
        }
    }

    #[test]
    fn others_go_to_the_declared_shell() {
        let shell = [
            "a | b",
            "a > b",
            "a && b",
            "a; b",
            "a &",
            "echo $HOME",
            "echo `x`",
            "ls *.png",
            "echo ~",
            "X=1 program",
            "echo \"$HOME\"",
            "cd x",
            "exit 3",
            "export",
            "a\nb",
            "echo 'open",
            "# nothing",
            "",
            "''",
            "[ -e a ]",
            "! false",
            "echo {a,b}",
            "echo a?",
            "\"a\\\"b\" c",
            "source env.sh",
            "module load cuda",
            "conda activate x",
            "time python train.py",
            "shopt -s nullglob",
        ];
        for command in shell {
            assert_eq!(runner(command, Shell::Bash), Runner::Shell(Shell::Bash), "{command}");
            assert_eq!(runner(command, Shell::Sh), Runner::Shell(Shell::Sh), "{command}");
        }
    }

    #[test]
    fn a_script_names_its_interpreter() {
        for (text, interpreter, argument, empty) in [
            ("#!/bin/bash\necho {1..3}\n", "/bin/bash", None, false),
            ("#! /bin/sh -eu\necho\n", "/bin/sh", Some("-eu"), false),
            ("\n  #!/usr/bin/env -S python3 -u\nprint(1)", "/usr/bin/env", Some("-S python3 -u"), false),
            ("#!/usr/bin/env python3\r\nprint(1)\r\n", "/usr/bin/env", Some("python3"), false),
            ("#!/bin/bash", "/bin/bash", None, true),
            (
                "#!/bin/bash for x in a b; do echo $x; done\n\n",
                "/bin/bash",
                Some("for x in a b; do echo $x; done"),
                true,
            ),
        ] {
            let found = script(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.interpreter, found.argument, found.is_empty()), (interpreter, argument, empty), "{text}");
            assert_eq!(runner(text, Shell::Sh), Runner::Script(found));
        }
        for text in ["echo #!/bin/bash", "# !/bin/bash\necho", "#!", "#!\necho x", "echo\n#!/bin/sh"] {
            assert_eq!(script(text), None, "{text}");
        }
    }
}
