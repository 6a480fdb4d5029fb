//! `flow audit`.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use flow_core::plan::Force;
use flow_core::{Input, InstanceId};
use flow_exec::{Audit as Answer, AuditFailure, AuditFindings, Entry};
use serde_json::{Map, Value};

use super::CommandResult;
use crate::args::{Global, Selection, WorkflowArg};
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::{place, reasons, words};

/// Entries that are shown of each kind; `-v` shows all.
const SHOWN: usize = 12;

/// Arguments of `flow audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow audit train                       what the first instance of the step reads beyond its inputs
  flow audit 'train[lr=0.1]'             this instance
  flow audit sweep.yaml                  one instance of each step with a command

The step runs once, in a work folder of its own, under strace, which slows it down. It is not \
measured, does not wait for other steps, and its result is not kept. Steps that it needs must have \
run before. `flow why` shows the answer until an edit changes the step.")]
pub(crate) struct Audit {
    /// Steps, or instances such as 'train[lr=0.1]' [default: every step]
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
    #[command(flatten)]
    about: WorkflowArg,
    #[command(flatten)]
    selection: Selection,
}

impl Audit {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        let names = self.steps;
        let request = place::session(global, &self.about, &self.selection, output)?;
        let session = place::open(&request, output)?;
        let asked: BTreeSet<InstanceId> = if names.is_empty() {
            let has_command = |id: &InstanceId| session.expansion.command(*id).is_some();
            session.expansion.instances.iter().map(|instance| instance.id).filter(has_command).collect()
        } else {
            match Force::named(&session.expansion, &names).map_err(|wrong| session.wrong(wrong))? {
                Force::Only(asked) => asked,
                _ => BTreeSet::new(),
            }
        };
        let knowledge = place::knowledge(&session, output)?;
        let (mut steps, mut all_done) = (BTreeSet::new(), true);
        for id in asked {
            let instance = &session.expansion.instances[id.index()];
            if instance.settled().is_some() || !steps.insert(instance.step) {
                continue;
            }
            match flow_exec::audit(&session, &knowledge, id)? {
                Ok(answer) => {
                    all_done &= answer.failed.is_none();
                    show(&answer, output)?;
                }
                Err(why) => {
                    all_done = false;
                    let (label, why) = (styled(STRONG, &instance.label), in_words(&why)?);
                    output.sentence(&format!("{label}: {} ({why})", styled(NOTE, "not audited")), 2)?;
                }
            }
        }
        Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// Why an instance is not audited; an error if none can be.
fn in_words(why: &AuditFailure) -> Result<String, CliError> {
    Ok(match why {
        AuditFailure::Needs(open) => format!("it needs {}, which must run first", words::named(open)),
        AuditFailure::NoCommand => "a plugin or flow itself runs it, not a command".to_owned(),
        AuditFailure::NotStarted(cause) => reasons::cause(cause),
        AuditFailure::NoStrace => {
            let hint = "`sudo apt install strace`, or the package of that name of your system";
            return Err(CliError::failed("`flow audit` needs strace, which is not installed").hint(hint));
        }
        AuditFailure::Refused(text) => {
            let hint =
                "containers need `--cap-add SYS_PTRACE`; a machine may forbid it in /proc/sys/kernel/yama/ptrace_scope";
            return Err(CliError::failed(format!("strace cannot follow the step: {text}")).hint(hint));
        }
    })
}

fn show(answer: &Answer, output: &mut Output) -> Result<(), CliError> {
    let Answer { label, audited, took, .. } = answer;
    let took = words::duration(took.as_secs_f64());
    let first = match &answer.failed {
        Some(_) => format!("{} under strace after {took}", styled(NOTE, "failed")),
        None if audited.is_covered() => format!("{}, in {took}", styled(GOOD, "read nothing beyond its inputs")),
        None => format!("{}, in {took}", styled(NOTE, "read more than its inputs")),
    };
    output.line(format!("{}: {first}", styled(STRONG, label)))?;
    output.lines(answer.failed.iter().flat_map(|text| text.lines()).map(|line| format!("    {line}")))?;
    if answer.is_outdated {
        output.line("  an input changed during the audit, so flow does not keep the answer for `flow why`")?;
    }
    let some = if output.verbose { usize::MAX } else { SHOWN };
    let mut part = |title: &str, entries: Vec<String>| {
        if entries.is_empty() {
            return Ok(());
        }
        output.line(format!("  {title}"))?;
        let rest = |more| styled(FAINT, format_args!("    and {more} more; -v shows all"));
        output.lines(words::cut(entries.iter().map(|entry| format!("    {entry}")), some, rest))
    };
    part("files of the project that are not under `inputs:`", entries(&audited.project))?;
    part("files outside the project that are not under `inputs:`", entries(&audited.outside))?;
    let searched = audited.searched.iter().map(|(name, found)| match found {
        Some(found) => format!("{name}: found {}", near_home(found)),
        None => format!("{name}: not found"),
    });
    part("looked for in the folders above", searched.collect())?;
    part("files written outside the work folder", entries(&audited.written))?;
    let packages: Vec<String> = audited.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
    if !packages.is_empty() {
        output.sentence(&format!("  Python packages: {}", packages.join(", ")), 4)?;
    }
    if !answer.unread.is_empty() {
        let text = format!("  inputs that this instance did not read in this run: {}", answer.unread.join(", "));
        output.sentence(&text, 4)?;
    }
    let add = to_add(audited);
    if !add.is_empty() {
        output.line(format!("  to add at {}:", answer.place))?;
        output.line(format!("    inputs: {}", inline(&with_added(answer.inputs.as_ref(), &add))))?;
        let copies: Vec<String> = add.into_iter().map(|path| Input { path, ..Input::default() }.place()).collect();
        let text = "  Under `inputs:`, an edit of these files reruns the step. But it opens your files directly, not the \
                    copies in its work folder. To read the copies, use relative paths in the step:";
        output.sentence(&format!("{text} {}", copies.join(", ")), 2)?;
    }
    Ok(())
}

/// `inputs:` as written, with these paths added. In a mapping, each gets a name.
fn with_added(written: Option<&Value>, add: &[String]) -> Value {
    let add = add.iter().map(String::as_str);
    match written {
        Some(Value::Object(named)) => {
            let mut named = named.clone();
            for path in add {
                named.insert(free_name(path, &named), path.into());
            }
            named.into()
        }
        Some(Value::Array(list)) => list.iter().cloned().chain(add.map(Value::from)).collect(),
        _ => add.collect(),
    }
}

/// A name for a path that no other input has: the file's, as far as a name may have its characters.
fn free_name(path: &str, taken: &Map<String, Value>) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "file_");
    }
    let free = |name: &String| !taken.contains_key(name);
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or_default()
}

/// A value as YAML in one line.
fn inline(value: &Value) -> String {
    let is_plain = |text: &str| {
        let has_only = text.chars().all(|c| c.is_alphanumeric() || "_./+-".contains(c));
        has_only
            && text.contains(char::is_alphabetic)
            && text.starts_with(|c: char| c.is_alphabetic() || "./_".contains(c))
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| format!("{}: {}", inline(&key.as_str().into()), inline(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The inputs that cover what was read. Hidden files, such as settings and the data of Git, are left to the reader.
fn to_add(audited: &AuditFindings) -> Vec<String> {
    let is_hidden = |path: &str| path.split('/').any(|part| part.starts_with('.') && part != "..");
    let read = audited.project.iter().chain(&audited.outside).map(|entry| entry.path.trim_end_matches('/'));
    read.filter(|path| !is_hidden(path)).map(str::to_owned).collect()
}

fn entries(entries: &[Entry]) -> Vec<String> {
    let entry = |Entry { path, files }: &Entry| match files {
        1.. if path.ends_with('/') => format!("{} ({})", near_home(path), words::count(*files, "file")),
        _ => near_home(path),
    };
    entries.iter().map(entry).collect()
}

fn near_home(path: &str) -> String {
    let home = env::var("HOME").unwrap_or_default();
    let inside = path.strip_prefix(&home).filter(|rest| !home.is_empty() && rest.starts_with('/'));
    inside.map_or(path.to_owned(), |rest| format!("~{rest}"))
}

/// One line about a kept answer, for `flow why`.
pub(super) fn kept(audited: &AuditFindings) -> String {
    const NAMED: usize = 3;
    let day = audited.at.split(' ').next().unwrap_or_default();
    let found = audited.searched.values().flatten().map(|path| near_home(path));
    let mut all: Vec<String> = entries(&audited.project).into_iter().chain(entries(&audited.outside)).collect();
    all.extend(found);
    let read = match all.is_empty() {
        true => "read nothing else".to_owned(),
        false => format!("also read {}", words::first(&all, NAMED)),
    };
    format!("audited on {day} with this command and these inputs: it {read} in that run")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_inputs_have_stays() {
        let add = ["data/outside.txt".to_owned(), "/abs/Other.outside.txt".to_owned(), "../7.csv".to_owned()];
        let proposed = |written: Option<Value>| inline(&with_added(written.as_ref(), &add));
        assert_eq!(proposed(None), "[data/outside.txt, /abs/Other.outside.txt, ../7.csv]");
        assert_eq!(
            proposed(Some(json!(["a b", "f${{ n }}", {"path": "photos", "by": "listing"}]))),
            r#"["a b", "f${{ n }}", {by: listing, path: photos}, data/outside.txt, /abs/Other.outside.txt, ../7.csv]"#
        );
        let named = json!({"outside": "use.py", "common.py": "${{ steps.clean.out }}"});
        assert_eq!(
            proposed(Some(named)),
            r#"{common.py: "${{ steps.clean.out }}", file_7: ../7.csv, other_outside: /abs/Other.outside.txt, outside: use.py, outside_2: data/outside.txt}"#
        );
    }
}
