//! Steps that say, outside of their attempts, each time that they begin and that they have done all their work.

use std::{collections::BTreeMap, fmt::Display, fs};

use flow_testkit::TestSpace;

/// Of its first argument, after as many seconds as its second says. One that is killed has not done it, whichever of its processes
/// dies first.
pub(crate) const COUNT: &str = "echo $1 >> $HOME/began; sleep $2 && echo $1 > out.txt && echo $1 >> $HOME/did\n";

/// The same, until the workspace has a file `on`.
pub(crate) const COUNT_ONCE_ON: &str =
    "echo $1 >> $HOME/began; until [ -e $HOME/on ]; do sleep 0.05; done; echo $1 > out.txt && echo $1 >> $HOME/did\n";

/// A step, on lines of its own, of so many instances, each of so many seconds, with more keys; its script is `count.sh`.
pub(crate) fn sweep(instances: u32, seconds: impl Display, keys: &str) -> String {
    let keys = if keys.is_empty() { String::new() } else { format!("    {keys}\n") };
    format!(
        "\n  count:\n    matrix: {{n: \"${{{{ range({instances}) }}}}\"}}\n{keys}    run: sh count.sh ${{{{ n }}}} {seconds}\n    \
         inputs: [count.sh]\n    outputs: [out.txt]\n"
    )
}

/// How often each line stands in a file of the workspace.
pub(crate) fn lines(space: &TestSpace, file: &str) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for line in fs::read_to_string(space.path(file)).unwrap_or_default().lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// So many instances, each once.
pub(crate) fn once(instances: u32) -> BTreeMap<String, u32> {
    (0..instances).map(|n| (n.to_string(), 1)).collect()
}
