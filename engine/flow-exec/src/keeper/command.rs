//! A command line as written, as the program and arguments to execute.

/// Characters that mean something to a shell beyond words and quotes.
const SHELL: &[char] =
    &['|', '&', ';', '<', '>', '(', ')', '$', '`', '\n', '*', '?', '[', ']', '{', '}', '#', '~', '!', '='];

/// Words that a shell executes itself.
const SHELL_WORDS: &[&str] = &[
    ".", ":", "alias", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export", "for", "hash",
    "if", "read", "return", "set", "shift", "source", "times", "trap", "type", "ulimit", "umask", "unset", "until",
    "wait", "while",
];

/// The program and arguments of a command: split and executed directly where a shell would do no more than split,
/// `sh -ec` otherwise: a script ends at the first command that fails, or a training that failed would be a success of the
/// `echo` after it.
///
/// ```
/// # use flow_exec::keeper::command_argv;
/// assert_eq!(command_argv("python train.py --name 'a b'"), ["python", "train.py", "--name", "a b"]);
/// assert_eq!(command_argv("cat a b > out"), ["sh", "-ec", "cat a b > out"]);
/// ```
pub fn command_argv(command: &str) -> Vec<String> {
    let direct = || {
        if needs_shell(command) {
            return None;
        }
        let words = shlex::split(command)?;
        let program = words.first()?;
        (!program.is_empty() && !SHELL_WORDS.contains(&program.as_str())).then_some(words)
    };
    direct().unwrap_or_else(|| vec!["sh".into(), "-ec".into(), command.into()])
}

/// Whether a character that is special to a shell stands outside of single quotes. Inside double quotes only what a
/// shell expands there counts; a backslash outside of quotes is left to the shell unless it is plain.
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
    use super::command_argv;

    #[test]
    fn plain_commands_are_split_and_others_go_to_the_shell() {
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
            assert_eq!(command_argv(command), *argv, "{command}");
        }
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
        ];
        for command in shell {
            assert_eq!(command_argv(command), ["sh", "-ec", command], "{command}");
        }
    }
}
