//! `flow doctor`.

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use flow_exec::{Session, WorkReport};
use flow_store::{Diagnosis, doctor, free_space};

use super::{CommandResult, gc};
use crate::args::{About, Global, Selection};
use crate::output::{GOOD, NOTE, Output, noted, styled};
use crate::place::{self, StoreLocation};
use crate::words;

/// Arguments of `flow doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
A damaged database is moved aside and rebuilt from the journals of the runs. A result with missing or damaged files \
is dropped, so that the next run makes it again. Processes that a killed run left alive are killed. The last line shows \
where work folders are, with -w those of that workflow, and what `flow gc` would free.")]
pub(crate) struct Doctor {
    /// Read and hash every file again, which takes as long as reading the whole store
    #[arg(long)]
    contents: bool,
    #[command(flatten)]
    about: About,
}

impl Doctor {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let workspace = place::workspace(global, self.about.workflow.as_deref())?;
        workspace.trust_store()?;
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let (store, found) = doctor(place.store.path(), &place::me(), |_| ControlFlow::Break(()), self.contents)?;
        if let Some(strays) = flow_exec::end_strays(&place.store) {
            output.line(format!("{} {strays}", styled(NOTE, "repaired:")))?;
        }
        output.lines(render(&found))?;
        // If another run is active, nothing can be removed.
        let freed = store.gc(gc::kept_by_default(), true).map(|freed| freed.bytes).unwrap_or_default();
        let session = self.about.workflow.and_then(|file| opened(global, file));
        let report = flow_exec::work_report(&place.workspace, session.as_ref(), &place.store);
        let report = report.map_err(|error| error.to_string());
        Ok(output.lines(work_folders(report, freed))?)
    }
}

/// A workflow, if it is valid.
fn opened(global: &Global, file: PathBuf) -> Option<Session> {
    let mut request = place::request(global, file, &Selection::default());
    request.any_machine = true;
    Session::open(&request, &crate::builtins::Steps::default()).ok()
}

/// Where work folders are, whether their files can be moved into the store, and the space of their disk.
fn work_folders(report: Result<WorkReport, String>, freed: u64) -> Vec<String> {
    let WorkReport { folder, is_in_store, copies, warning } = match report {
        Ok(report) => report,
        Err(error) => return vec![noted(error)],
    };
    let place = if is_in_store { "in the store".to_owned() } else { format!("in `{}`", folder.display()) };
    let moves = match copies {
        None if is_in_store => String::new(),
        None => "; files can be linked and moved from there into the store".to_owned(),
        Some(why) => format!("; files are copied from there into the store, because {why}"),
    };
    let free = free_space(&folder).ok().filter(|free| *free < u64::MAX);
    let free = free.map(|free| format!("; {} free", words::bytes(free))).unwrap_or_default();
    let freed = if freed > 0 { format!("; `flow gc` would free {}", words::bytes(freed)) } else { String::new() };
    let line = format!("{} {place}{moves}{free}{freed}", styled(GOOD, "work folders:"));
    [line].into_iter().chain(warning.map(noted)).collect()
}

fn render(found: &Diagnosis) -> Vec<String> {
    let mut out = Vec::new();
    let repaired = |text: String| format!("{} {text}", styled(NOTE, "repaired:"));
    if let Some(rebuilt) = &found.rebuilt {
        out.push(repaired(rebuilt.to_string()));
    }
    if found.restored > 0 {
        let results = words::count(found.restored, "result");
        out.push(repaired(format!("restored {results} from the journals; their files were still in the store")));
    }
    for (label, why) in &found.dropped {
        out.push(repaired(format!("the result of {label} was dropped: {why}")));
    }
    if found.relisted > 0 {
        let lists = words::count(found.relisted, "list");
        out.push(repaired(format!("remade {lists} of input folders, which were damaged")));
    }
    for label in &found.without_series {
        // It is lost, so this is not a repair.
        out.push(noted(format_args!("the load over time of {label} is gone; its numbers stay")));
    }
    if found.unkept > 0 {
        let kept = words::count(found.unkept, "kept log");
        out.push(repaired(format!("dropped {kept} or files of metrics that were damaged; the results stay")));
    }
    for (label, why) in &found.unseen {
        let text = format!("flow cannot check whether the result of {label} is complete, so it stays: {why}");
        out.push(noted(text));
    }
    if found.unreadable > 0 {
        out.push(repaired(format!("{} of the database could not be read", words::count(found.unreadable, "value"))));
    }
    for (run, lines) in &found.journals {
        let lines = words::count(*lines as usize, "line");
        out.push(noted(format_args!("the journal of run {run} has {lines} that cannot be read")));
    }
    if found.unjournalled > 0 {
        let results = words::count(found.unjournalled, "result");
        let they = if found.unjournalled == 1 { "it is lost" } else { "they are lost" };
        let text =
            format!("only the database has {results}, because a journal was cut or removed: {they} if it is damaged");
        out.push(noted(text));
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
    fn the_place_of_work_folders_has_one_line_and_its_warning() {
        let report = |is_in_store: bool, copies: Option<&str>| {
            let (copies, warning) = (copies.map(str::to_owned), is_in_store.then(|| "in the project".to_owned()));
            let folder = PathBuf::from("/there/is/none");
            work_folders(Ok(WorkReport { folder, is_in_store, copies, warning }), 3 << 30)
        };
        let ends = |said: &[String], end: &str| {
            assert!(said[0].ends_with(&format!("{end}; `flow gc` would free 3.0 GiB")), "{said:?}")
        };
        ends(&report(false, None), "in `/there/is/none`; files can be linked and moved from there into the store");
        ends(&report(false, Some("so")), "; files are copied from there into the store, because so");
        let in_store = report(true, None);
        ends(&in_store, " in the store");
        assert!(in_store[1].ends_with("in the project"));
        assert!(work_folders(Err("FLOW_WORK names".into()), 0)[0].ends_with("FLOW_WORK names"));
    }

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
