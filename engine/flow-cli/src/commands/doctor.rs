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
A database that is damaged is moved aside and made anew from the journals of the runs. A result whose files are gone
or damaged is dropped: the next run makes it again. Processes that a killed run left alive are killed.")]
pub(crate) struct Doctor {
    /// Read every file and hash it again, which takes as long as reading the store does
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
            let mended = "the file that tells the store's format was damaged";
            output.line(format!("{} {mended} ({was}); the runs tell what it was", styled(NOTE, "repaired:")))?;
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
        out.push(note(format!(
            "{results} that the database had not, with their files in the store, put back from the journals"
        )));
    }
    for (label, why) in &found.dropped {
        out.push(note(format!("the result of {label} was dropped: {why}")));
    }
    if found.relisted > 0 {
        let lists = words::count(found.relisted, "list");
        out.push(note(format!("{lists} of what is in a folder had been damaged, made again from the folder itself")));
    }
    for label in &found.without_series {
        // Nothing brings it back: this is no repair.
        out.push(format!("{} the load over time of {label} is gone; its numbers stay", styled(NOTE, "note:")));
    }
    if found.unkept > 0 {
        let kept = words::count(found.unkept, "kept log");
        out.push(note(format!("{kept} or files of metrics had been damaged, dropped; the results stay")));
    }
    for (label, why) in &found.unseen {
        out.push(format!(
            "{} whether the result of {label} is whole cannot be told, and it stays: {why}",
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
            1 => ("1 result is".to_owned(), "it goes"),
            n => (format!("{} are", words::count(n, "result")), "they go"),
        };
        out.push(format!(
            "{} {results} in the database alone, for a journal was cut or removed: {they} if it is damaged",
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
            "2 results that the database had not, with their files in the store, put back from the journals",
            "the load over time of a is gone; its numbers stay",
            "3 results, 0 artifacts checked by size and time",
        ];
        assert!(said.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{said:?}");
        assert!(said.len() == 3 && !said[1].contains("repaired"), "{said:?}");
    }
}
