//! `flow check`.

use std::collections::BTreeSet;
use std::fs;
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flow_core::shell::{Runner, Script, Shell, runner};
use flow_core::{Expansion, Instance, InstanceId, StepFacts, StepId, UnmappedOutput, Uses};
use flow_exec::{LinkedInput, Session, absolute_path};
use flow_store::{ALL_BYTES, ALL_FILES, CAPTURE_BYTES, CAPTURE_FILES};
use serde_json::Value;

use super::CommandResult;
use crate::args::{Global, Selection, WorkflowArg};
use crate::error::CliError;
use crate::output::{GOOD, NOTE, Output, noted, styled};
use crate::{place, reasons, words};

/// Arguments of `flow check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow check workflows/*.yaml            every error of every file, with its line
  flow check -v feb08.yaml               and which shell runs each step
  flow check feb08.yaml --gpus '4 x H200, 140 GiB'    as it would be on such a machine")]
pub(crate) struct Check {
    #[command(flatten)]
    about: WorkflowArg,
    /// Workflow files, as with -w
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

impl Check {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        let mut requests: Vec<_> =
            self.files.into_iter().map(|file| place::request(global, file, &self.selection)).collect();
        if requests.is_empty() || self.about.workflow.is_some() {
            requests.push(place::session(global, &self.about, &self.selection, output)?);
        }
        let mut worst = ExitCode::SUCCESS;
        let last = requests.len() - 1;
        for (n, mut request) in requests.into_iter().enumerate() {
            place::default_to_last_place(&mut request, output)?;
            request.any_machine = true;
            let opened = Session::open(&request, &crate::builtins::Steps::default()).and_then(|session| {
                let all: Vec<_> = session.expansion.instances.iter().map(|instance| instance.id).collect();
                session.check_inputs(&all)?;
                Ok((session, all))
            });
            match opened {
                Ok((session, all)) => {
                    let expansion = &session.expansion;
                    output.line(format!(
                        "{} {}: {} of {}",
                        styled(GOOD, "ok"),
                        request.file.display(),
                        words::count(expansion.instances.len(), "instance"),
                        words::count(expansion.steps.len(), "step"),
                    ))?;
                    let verbose = output.verbose;
                    output.lines(advice(&session, &all, verbose).iter().map(|line| format!("   {line}")))?;
                    if n == last {
                        // The process ends here, so a large workflow is not freed first.
                        mem::forget(session);
                    }
                }
                Err(error) => worst = CliError::from(error).report(output),
            }
        }
        Ok(worst)
    }
}

/// Warnings and notes about a valid workflow; with `verbose`, the shell of each step too.
fn advice(session: &Session, all: &[InstanceId], verbose: bool) -> Vec<String> {
    let expansion = &session.expansion;
    let warning = |text: String| format!("{} {text}", styled(NOTE, "warning:"));
    let uncovered = session.uncovered(all.iter().copied()).into_iter().map(|(_, what)| what.to_string());
    let of_session = session.warnings().into_iter().chain(uncovered).chain(session.absolute_paths());
    let mut out: Vec<String> = of_session.chain(session.uncovered_outside()).map(warning).collect();
    out.extend(expansion.remarks.iter().map(reasons::remark));
    out.extend(expansion.unfit(all).map(|(instance, lack)| reasons::unfit(&instance.label, lack)));
    out.extend(unlisted(session).into_iter().map(|(step, path)| {
        warning(format!("`{path}` is not under `inputs:` of `{step}`, so an edit of it does not rerun the step"))
    }));
    out.extend(rows_by_seed(expansion).into_iter().map(|(table, step)| {
        warning(format!(
            "the table `{table}` has a row for each seed; `with: {{from: {step}, over: seed}}` takes the mean"
        ))
    }));
    out.extend(expansion.unmapped().iter().map(|unmapped| warning(no_file(unmapped))));
    out.extend(too_far_above(expansion).into_iter().map(|(step, path)| {
        noted(format_args!(
            "in `{step}`, the input `{path}` is inside the work folder; a script that opens `{path}` does not find it"
        ))
    }));
    out.extend(piped_in_sh(expansion).map(|step| {
        warning(format!(
            "step `{step}`: in sh, a pipe hides the failure of all but its last command; without `shell: sh`, flow uses bash with pipefail"
        ))
    }));
    out.extend(session.linked_inputs(all.iter().copied()).iter().map(|linked| noted(too_large(linked))));
    out.extend(verbose.then(|| runners(expansion)).into_iter().flatten());
    out
}

/// Files that a step's command names by an absolute path, or in the home folder, and that are not its inputs. Programs and
/// files of the system do not count. Only the first instance of a step is read.
fn unlisted(session: &Session) -> BTreeSet<(String, String)> {
    const SYSTEM: [&str; 8] = ["/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/sys", "/usr"];
    let is_data = |path: &Path| {
        fs::canonicalize(path).is_ok_and(|real| !real.starts_with(&session.workspace.root))
            && !SYSTEM.iter().any(|folder| path.starts_with(folder))
            && fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 == 0)
    };
    let expansion = &session.expansion;
    let mut found = BTreeSet::new();
    for step in &expansion.steps {
        let Some(instance) = first(expansion, step) else { continue };
        let Some((command, _)) = expansion.command(instance.id) else { continue };
        let is_input = |path: &Path| {
            let Ok(path) = fs::canonicalize(path) else { return false };
            let mut inputs = instance.inputs.iter().map(|input| fs::canonicalize(session.path(&input.path)));
            inputs.any(|input| input.is_ok_and(|input| path.starts_with(input)))
        };
        let words = command.split(|c: char| c.is_whitespace() || "'\"=;|&()<>".contains(c));
        let paths = words.filter(|word| absolute_path(word).is_some_and(|path| is_data(&path) && !is_input(&path)));
        found.extend(paths.map(|path| (step.name.clone(), path.to_owned())));
    }
    found
}

/// The first instance of a step, if it has one.
fn first<'e>(expansion: &'e Expansion, step: &StepFacts) -> Option<&'e Instance> {
    step.ids().next().map(|id| &expansion.instances[id.index()])
}

/// Tables with a row for each value of the axis `seed` of their step, because no key names it.
fn rows_by_seed(expansion: &Expansion) -> Vec<(&str, String)> {
    let has_seeds = |step: &StepFacts| {
        let seed = |id: InstanceId| Some(expansion.instances[id.index()].axes.get("seed")?.to_string());
        let seeds: BTreeSet<String> = step.ids().filter_map(seed).collect();
        seeds.len() > 1
    };
    let tables = (0..).map(StepId).zip(&expansion.steps).filter(|(_, step)| step.uses == Uses::Builtin("table".into()));
    let found = tables.filter_map(|(id, step)| {
        let written = expansion.written(id);
        let with = written.get("with")?;
        let from = with.get("from")?.as_str()?;
        let source = expansion.steps.iter().find(|step| step.name == from)?;
        let is_named =
            with.get("rows").is_some() || ["over", "split", "where"].iter().any(|key| names_seed(&with[*key]));
        (!is_named && has_seeds(source)).then(|| (&*step.name, from.to_owned()))
    });
    found.collect()
}

fn names_seed(value: &Value) -> bool {
    match value {
        Value::String(name) => name == "seed",
        Value::Array(names) => names.iter().any(|name| name == "seed"),
        Value::Object(axes) => axes.contains_key("seed"),
        _ => false,
    }
}

/// A step that names an output of a step under its `needs:`, and does not get it.
fn no_file(UnmappedOutput { step, of, path, output }: &UnmappedOutput) -> String {
    format!(
        "`{step}` needs `{of}`, but does not get its file `{path}`; add `inputs: {{{path}: \"${{{{ steps.{of}.{output} }}}}\"}}`"
    )
}

/// Inputs that no script finds under the path as written: two folders above the workflow's, or more.
fn too_far_above(expansion: &Expansion) -> BTreeSet<(&str, &str)> {
    let steps = expansion.steps.iter().filter_map(|step| Some((&*step.name, first(expansion, step)?)));
    let all = steps.flat_map(|(step, instance)| instance.inputs.iter().map(move |input| (step, input)));
    all.filter(|(_, input)| input.folders_above() > 1 && !input.in_place)
        .map(|(step, input)| (step, &*input.path))
        .collect()
}

/// Steps with a pipe in a command for sh, which has no pipefail.
fn piped_in_sh(expansion: &Expansion) -> impl Iterator<Item = &str> {
    let is_piped = |id: InstanceId| {
        let command = expansion.command(id);
        command.is_some_and(|(line, shell)| matches!(runner(&line, shell), Runner::Shell(Shell::Sh)) && has_pipe(&line))
    };
    expansion.steps.iter().filter(move |step| step.ids().any(is_piped)).map(|step| &*step.name)
}

/// Whether a command has an unquoted `|`, and does not set pipefail itself.
fn has_pipe(command: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => drop(chars.next()),
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '|') if !matches!(before, '|' | '>') && chars.peek() != Some(&'|') => {
                return !command.contains("pipefail");
            }
            _ => {}
        }
        before = c;
    }
    false
}

/// An input that a run does not copy, and what to do.
fn too_large(LinkedInput { path, size, may_be_copied }: &LinkedInput) -> String {
    let files = |n: u64| words::count(usize::try_from(n).unwrap_or(usize::MAX), "file");
    let (at_least, bytes) = (if size.has_more { "more than " } else { "" }, words::bytes(size.bytes));
    let limits = match size.is_too_large() {
        true => format!("for a copy, the limit is {} and {}", words::bytes(CAPTURE_BYTES), files(CAPTURE_FILES)),
        false => {
            format!("for a copy, all inputs together may have {} and {}", words::bytes(ALL_BYTES), files(ALL_FILES))
        }
    };
    let copy = if *may_be_copied {
        format!(", or write `{{path: {path}, copy: true}}`, which copies it for each attempt")
    } else {
        String::new()
    };
    format!(
        "`{path}` has {at_least}{bytes} in {}; {limits}. So steps read your own files, and if these change during a run, the result is not kept. List only what a step reads{copy}",
        files(size.files)
    )
}

/// The shell of each step with a command: `train: bash -eo pipefail`.
fn runners(expansion: &Expansion) -> Vec<String> {
    let of_step = |step: &StepFacts| {
        let commands = step.ids().filter_map(|id| expansion.command(id));
        let runners: BTreeSet<String> = commands.map(|(line, shell)| in_words(&runner(&line, shell))).collect();
        let runners = Vec::from_iter(runners).join("; ");
        (!runners.is_empty()).then(|| format!("{}: {runners}", step.name))
    };
    expansion.steps.iter().filter_map(of_step).collect()
}

fn in_words(runner: &Runner<'_>) -> String {
    match runner {
        Runner::Direct(words) => format!("starts {} directly", words.first().map_or("", String::as_str)),
        Runner::Shell(shell) => shell.argv().join(" "),
        Runner::Script(Script { interpreter, argument, .. }) => {
            ["#!", interpreter, argument.map_or("", |_| " "), argument.unwrap_or_default()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{UnmappedOutput, has_pipe, names_seed, no_file};

    #[test]
    fn a_key_names_the_axis_in_each_form() {
        assert!([json!("seed"), json!(["lr", "seed"]), json!({"seed": 1})].iter().all(names_seed));
        assert!([json!(null), json!("seeds"), json!(["lr"]), json!({"lr": 1})].iter().all(|other| !names_seed(other)));
    }

    #[test]
    fn only_a_pipe_outside_quotes_counts() {
        let piped = ["a | tee b", "a|b", "echo 'x' | cat", "echo \"it's\" | cat", "a || b | c", "a |& b"];
        let others =
            ["a || b", "echo 'a | b'", "echo \"a \\\" | b\"", "echo a >| b", "echo \\| b", "set -o pipefail; a | b"];
        assert!(piped.iter().all(|command| has_pipe(command)));
        assert!(others.iter().all(|command| !has_pipe(command)), "{others:?}");
    }
    #[test]
    fn the_missing_mapping_is_written_out() {
        let [step, of, path, output] = ["train", "prepare", "data/x", "out"].map(str::to_owned);
        assert_eq!(
            no_file(&UnmappedOutput { step, of, path, output }),
            "`train` needs `prepare`, but does not get its file `data/x`; add `inputs: {data/x: \"${{ steps.prepare.out }}\"}`"
        );
    }
}
