//! Why steps ran in an ended run, from its journal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use flow_core::plan::State;
use flow_core::why::Reason;
use flow_core::{Digest, RunId};
use flow_store::StoreDir;
use indexmap::IndexMap;

use super::past::Past;
use super::{Done, find};
use crate::args::Global;
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::place::StoreLocation;
use crate::reasons::{self, Because};
use crate::screen::{InstanceState, Shown};
use crate::words;

/// `flow why STEP --run RUN`.
pub(super) fn of_run(
    global: &Global,
    workflow: Option<PathBuf>,
    run: &str,
    steps: &[String],
    output: &mut Output,
) -> Done {
    let place = StoreLocation::find(global, workflow.as_deref())?;
    let (_, view) = place.view(Some(run))?;
    let mut past = Past::of(&place.store);
    let mut told: IndexMap<(&str, String), Vec<(&Shown, Because)>> = IndexMap::new();
    let mut known = BTreeSet::new();
    for step in steps {
        for shown in find(&view, step)? {
            if known.insert(&shown.label) {
                let (how, because) = then(shown, &mut past);
                told.entry((&shown.step, how)).or_default().push((shown, because));
            }
        }
    }
    for ((step, how), of) in told {
        for line in lines(step, &how, of, output.verbose) {
            output.line(line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The result of an instance in its run, and the reason.
fn then(shown: &Shown, past: &mut Past<'_>) -> (String, Because) {
    let own = || shown.reason.clone().unwrap_or_else(|| Because::Words("its journal does not record why".to_owned()));
    match &shown.state {
        InstanceState::Cached(_, from) => {
            let because = shown.fingerprint.and_then(|of| past.reason(from, &of, &shown.label));
            let because = because.unwrap_or_else(|| Because::Words("nothing had changed".to_owned()));
            (format!("{}, it ran in run {from}", styled(FAINT, "cached")), because)
        }
        InstanceState::Done(_) => (styled(GOOD, "ran"), own()),
        InstanceState::Settled(outcome) => (styled(NOTE, words::outcome(*outcome)), own()),
        InstanceState::NotNeeded => (styled(FAINT, "not needed"), own()),
        InstanceState::Running => (styled(NOTE, "ran and did not end in that run"), own()),
        InstanceState::Waiting => (styled(NOTE, "did not run"), own()),
    }
}

/// The results of a step's instances: each, or those with reasons of one form together.
fn lines(step: &str, how: &str, of: Vec<(&Shown, Because)>, each: bool) -> Vec<String> {
    if each {
        let line = |(shown, because): &(&Shown, Because)| {
            format!("{}: {how}: {}", styled(STRONG, &shown.label), because.words())
        };
        return of.iter().map(line).collect();
    }
    let line = |form: &reasons::Alike<&Shown>| {
        let who = match form.count {
            1 => form.of.label.clone(),
            count => format!("{step} × {}", words::thousands(count)),
        };
        format!("{}: {how}: {}", styled(STRONG, who), form.words())
    };
    reasons::alike(of.into_iter()).iter().map(line).collect()
}

/// Why the present results were made, unless each was the first of its instance.
pub(super) fn since(store: &StoreDir, asked: &[(&str, &State)], output: &mut Output) -> Result<(), CliError> {
    /// A journal is read for each.
    const RUNS: usize = 8;
    let mut runs: IndexMap<&RunId, Vec<(&str, &Digest)>> = IndexMap::new();
    for (label, state) in asked {
        if let State::Cached { from, fingerprint, read_again: false, .. } = state {
            runs.entry(from).or_default().push((label, fingerprint));
        }
    }
    let mut past = Past::of(store);
    for (run, of) in runs.into_iter().take(RUNS) {
        let because = of.into_iter().filter_map(|(label, fingerprint)| {
            let because = past.reason(run, fingerprint, label)?;
            let is_first = matches!(&because, Because::Runs(why) if why.first == [Reason::NeverRan]);
            (!is_first).then_some((label, because))
        });
        for form in reasons::alike(because) {
            let step = form.of.split('[').next().unwrap_or(form.of);
            let who = if form.count == 1 {
                form.of.to_owned()
            } else {
                format!("{step} × {}", words::thousands(form.count))
            };
            output.line(format!("{}: ran in run {run}: {}", styled(STRONG, who), form.words()))?;
        }
    }
    Ok(())
}
