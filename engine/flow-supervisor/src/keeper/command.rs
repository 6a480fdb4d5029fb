//! The commands of a plugin's set-up, as the program and arguments to execute.

use flow_core::shell::{Shell, words};

/// The program and arguments of a command: its words, if a shell would only split it, otherwise `sh -e`.
///
/// ```
/// # use flow_supervisor::keeper::command_argv;
/// assert_eq!(command_argv("python train.py --name 'a b'"), ["python", "train.py", "--name", "a b"]);
/// assert_eq!(command_argv("cat a b > out"), ["sh", "-e", "-c", "cat a b > out"]);
/// ```
pub fn command_argv(command: &str) -> Vec<String> {
    let shell = || Shell::Sh.argv().iter().copied().chain(["-c", command]).map(str::to_owned).collect();
    words(command).unwrap_or_else(shell)
}
