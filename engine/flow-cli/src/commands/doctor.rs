//! `flow doctor`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use flow_store::{Diagnosis, StoreDir, doctor};

use super::Done;
use crate::args::{About, Global};
use crate::output::{GOOD, NOTE, Output, styled};
use crate::place::{self, StoreLocation};
use crate::words;

/// Arguments of `flow doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
A damaged database is moved aside and rebuilt from the journals of the runs. A result with missing or damaged files
is dropped, so that the next run makes it again. Processes that a killed run left alive are killed.")]
pub(crate) struct Doctor {
    /// Read and hash every file again, which takes as long as reading the whole store
    #[arg(long)]
    contents: bool,
    #[command(flatten)]
    about: About,
}

impl Doctor {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let workspace = place::workspace(global, self.about.workflow.as_deref())?;
        workspace.trust_store()?;
        if let Some(was) = StoreDir::mend_format(&workspace.store, &place::me(), |_| ControlFlow::Break(()))? {
            let mended = "the file with the store's format was damaged";
            output.line(format!("{} {mended} ({was}); flow restored it from the runs", styled(NOTE, "repaired:")))?;
        }
        let place = StoreLocation::find(global, &self.about)?;
        let (_store, found) = doctor(place.store.path(), &place::me(), |_| ControlFlow::Break(()), self.contents)?;
        if let Some(strays) = flow_exec::end_strays(&place.store) {
            output.line(format!("{} {strays}", styled(NOTE, "repaired:")))?;
        }
        for line in render(&found) {
            output.line(line)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render(found: &Diagnosis) -> Vec<String> {
    let mut out = Vec::new();
    let note = |text: String| format!("{} {text}", styled(NOTE, "repaired:"));
    if let Some(rebuilt) = &found.rebuilt {
        out.push(note(rebuilt.to_string()));
    }
    if found.restored > 0 {
        let results = words::count(found.restored, "result");
        out.push(note(format!("restored {results} from the journals; their files were still in the store")));
    }
    for (label, why) in &found.dropped {
        out.push(note(format!("the result of {label} was dropped: {why}")));
    }
    if found.relisted > 0 {
        let lists = words::count(found.relisted, "list");
        out.push(note(format!("remade {lists} of input folders, which were damaged")));
    }
    for label in &found.without_series {
        // It is lost, so this is not a repair.
        out.push(format!("{} the load over time of {label} is gone; its numbers stay", styled(NOTE, "note:")));
    }
    if found.unkept > 0 {
        let kept = words::count(found.unkept, "kept log");
        out.push(note(format!("dropped {kept} or files of metrics that were damaged; the results stay")));
    }
    for (label, why) in &found.unseen {
        out.push(format!(
            "{} flow cannot check whether the result of {label} is complete, so it stays: {why}",
            styled(NOTE, "note:")
        ));
    }
    if found.unreadable > 0 {
        out.push(note(format!("{} of the database could not be read", words::count(found.unreadable, "value"))));
    }
    for (run, lines) in &found.journals {
        let lines = words::count(*lines as usize, "line");
        out.push(format!("{} the journal of run {run} has {lines} that cannot be read", styled(NOTE, "note:")));
    }
    if found.unjournalled > 0 {
        let (results, they) = match found.unjournalled {
            1 => ("1 result".to_owned(), "it is lost"),
            n => (words::count(n, "result"), "they are lost"),
        };
        out.push(format!(
            "{} only the database has {results}, because a journal was cut or removed: {they} if it is damaged",
            styled(NOTE, "note:")
        ));
    }
    let how = if found.contents_read { "read and hashed" } else { "checked by size and time" };
    out.push(format!(
        "{} {}, {} {how}",
        if found.is_sound() { styled(GOOD, "sound:") } else { styled(GOOD, "now:") },
        words::count(found.results, "result"),
        words::count(found.artifacts, "artifact"),
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_back_is_said_and_what_nothing_brings_back_is_no_repair() {
        let found = Diagnosis { restored: 2, without_series: vec!["a".into()], results: 3, ..Diagnosis::default() };
        let said = render(&found);
        let ends = [
            "restored 2 results from the journals; their files were still in the store",
            "the load over time of a is gone; its numbers stay",
            "3 results, 0 artifacts checked by size and time",
        ];
        assert!(said.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{said:?}");
        assert!(said.len() == 3 && !said[1].contains("repaired"), "{said:?}");
    }
}
