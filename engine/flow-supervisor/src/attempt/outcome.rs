//! Determines how an attempt ended from all that is known. Pure; collects no outputs and settles nothing.

use flow_core::{
    Outcome,
    reason::{Cause, Fault, Memory, ProcessEnd, Refusal},
};
use flow_protocol::{self as protocol, Exit};
use nix::sys::signal::Signal;

use super::memory;
use crate::keeper;

/// The program's own report of its end.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramReport {
    /// A command, which reports only its exit code.
    Command,
    /// One of flow's own steps, with its result.
    Builtin(Result<(), Fault>),
    /// A plugin that never reported an outcome.
    Nothing,
    /// A plugin's last outcome.
    Outcome(protocol::Outcome, Option<String>),
}

/// The facts about an attempt that is over.
#[derive(Clone, Debug)]
pub struct EndFacts<'a> {
    pub exit: &'a Exit,
    /// The program's own report.
    pub report: &'a ProgramReport,
    /// Set if flow ended it: the resulting outcome.
    pub killed: Option<Outcome>,
    /// Set if it was refused while it ran (another version of the protocol).
    pub refused: Option<&'a Refusal>,
    /// The end of the log.
    pub log_tail: &'a [String],
    /// Its placement has GPUs.
    pub on_gpus: bool,
}

/// The outcome, and the cause if there is one. Ignores outputs.
pub fn conclude(ended: &EndFacts<'_>) -> (Outcome, Option<Cause>) {
    let EndFacts { exit, report: said, killed, refused, log_tail, on_gpus } = *ended;
    if let Some(error) = &exit.spawn_error {
        return (Outcome::Failed, Some(Cause::NotStarted { error: Some(keeper::start_fault(error)) }));
    }
    match said {
        ProgramReport::Builtin(Ok(())) => return (Outcome::Ok, None),
        ProgramReport::Builtin(Err(error)) => return (Outcome::Failed, Some(Cause::Builtin { error: error.clone() })),
        ProgramReport::Command | ProgramReport::Nothing | ProgramReport::Outcome(..) => {}
    }
    if let Some(refusal) = refused {
        return (Outcome::Failed, Some(Cause::Refused { refusal: refusal.clone() }));
    }
    if let Some(outcome) = killed {
        // Even if it finished at that moment: the scheduler has already determined its outcome.
        return (outcome, None);
    }
    let clean = exit.code == Some(0);
    let words = |text: &String| Cause::Reported { text: text.clone() };
    if let (true, ProgramReport::Outcome(protocol::Outcome::Ok, message)) = (clean, said) {
        return (Outcome::Ok, message.as_ref().map(words));
    }
    let out_of_memory = |message: Option<&str>| {
        let cause = Cause::OutOfMemory { memory: Memory::meant(message, on_gpus), message: message.map(str::to_owned) };
        (Outcome::OutOfMemory, Some(cause))
    };
    match said {
        ProgramReport::Command if clean => return (Outcome::Ok, None),
        ProgramReport::Outcome(protocol::Outcome::OutOfMemory, message) => return out_of_memory(message.as_deref()),
        ProgramReport::Outcome(protocol::Outcome::Failed, Some(message)) if memory::is_out_of_memory(message) => {
            return out_of_memory(Some(message));
        }
        _ => {}
    }
    if exit.oom_killed {
        return (Outcome::OutOfMemory, Some(Cause::KilledForMemory));
    }
    if (!clean || matches!(said, ProgramReport::Outcome(..)))
        && let Some(line) = memory::out_of_memory_line(log_tail.iter().map(String::as_str))
    {
        return out_of_memory(Some(line));
    }
    let end = process_end(exit);
    let cause = match said {
        ProgramReport::Outcome(protocol::Outcome::Failed, Some(message)) => words(message),
        ProgramReport::Outcome(protocol::Outcome::Failed, None) => Cause::ReportedFailure,
        ProgramReport::Outcome(..) => Cause::ReportedSuccess { end },
        ProgramReport::Nothing if clean => Cause::NoReport { end },
        ProgramReport::Nothing | ProgramReport::Command | ProgramReport::Builtin(_) => {
            Cause::Exited { end, last_line: error_line(log_tail).map(str::to_owned) }
        }
    };
    (Outcome::Failed, Some(cause))
}

/// The exception of the last Python traceback, else the last line. An exception may have several lines, and programs print
/// advice after it.
fn error_line(tail: &[String]) -> Option<&str> {
    let traceback = tail.iter().rposition(|line| line.starts_with("Traceback (most recent call last)"));
    let is_exception = |line: &&String| !line.is_empty() && !line.starts_with(char::is_whitespace);
    let exception = traceback.and_then(|at| tail[at + 1..].iter().find(is_exception));
    exception.or_else(|| tail.iter().rfind(|line| !line.trim().is_empty())).map(|line| line.trim())
}

fn process_end(exit: &Exit) -> ProcessEnd {
    match (exit.code, exit.signal) {
        (Some(code), _) => ProcessEnd::Code { code },
        (None, Some(signal)) => ProcessEnd::Signal { name: signal_name(signal) },
        (None, None) => ProcessEnd::Unknown,
    }
}

/// `SIGSEGV` for 11.
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |s| s.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Outcome as P;

    fn exit(code: Option<i32>, signal: Option<i32>) -> Exit {
        Exit { code, signal, started_at: 1.0, ended_at: 2.0, ..Exit::default() }
    }

    #[test]
    fn exit_record_last_outcome_and_log_decide_together() {
        let done = exit(Some(0), None);
        let one = exit(Some(1), None);
        let segv = exit(None, Some(11));
        let kill = exit(None, Some(9));
        let oom = Exit { oom_killed: true, ..kill.clone() };
        let term = exit(None, Some(15));
        let unborn = Exit { spawn_error: Some("`pyton` is not on the PATH".into()), ..exit(None, None) };
        let said = |o, m: &str| ProgramReport::Outcome(o, (!m.is_empty()).then(|| m.to_owned()));
        let quiet: &[&str] = &["epoch 1", "Traceback", "ValueError: no", ""];
        let cuda: &[&str] = &["Traceback", "torch.OutOfMemoryError: CUDA out of memory. Tried", "cleanup"];
        use Outcome::*;
        let text = |text: &str| Some(Cause::Reported { text: text.into() });
        let ran_out = |memory, said: &str| Some(Cause::OutOfMemory { memory, message: Some(said.into()) });
        let (code, segv_end) = (|code| ProcessEnd::Code { code }, || ProcessEnd::Signal { name: "SIGSEGV".into() });
        let exited = |end, line: Option<&str>| Some(Cause::Exited { end, last_line: line.map(str::to_owned) });
        let lines = "torch.OutOfMemoryError: CUDA out of memory. Tried";
        type Case<'a> = (&'a str, &'a Exit, ProgramReport, Option<Outcome>, &'a [&'a str], Outcome, Option<Cause>);
        #[rustfmt::skip]
        let table: &[Case<'_>] = &[
            ("command done", &done, ProgramReport::Command, None, quiet, Ok, None),
            ("command that recovered", &done, ProgramReport::Command, None, cuda, Ok, None),
            ("command failed", &one, ProgramReport::Command, None, quiet, Failed, exited(code(1), Some("ValueError: no"))),
            ("an exception of two lines", &one, ProgramReport::Command, None, &["Traceback (most recent call last):", "  File \"t.py\", line 1", "ValueError: first", "second", "", "Set HYDRA_FULL_ERROR=1"], Failed, exited(code(1), Some("ValueError: first"))),
            ("silent command", &one, ProgramReport::Command, None, &[], Failed, exited(code(1), None)),
            ("command crashed", &segv, ProgramReport::Command, None, &[], Failed, exited(segv_end(), None)),
            ("command ran out", &one, ProgramReport::Command, None, cuda, OutOfMemory, ran_out(Memory::Gpu, lines)),
            ("kernel killed it", &oom, ProgramReport::Command, None, quiet, OutOfMemory, Some(Cause::KilledForMemory)),
            ("somebody killed it", &kill, ProgramReport::Command, None, &[], Failed, exited(ProcessEnd::Signal { name: "SIGKILL".into() }, None)),
            ("timed out", &term, ProgramReport::Command, Some(TimedOut), cuda, TimedOut, None),
            ("timed out, exits politely", &done, ProgramReport::Command, Some(TimedOut), quiet, TimedOut, None),
            ("cancelled", &kill, said(P::Failed, "stopped"), Some(Cancelled), quiet, Cancelled, None),
            ("done in the moment of the kill", &done, said(P::Ok, ""), Some(TimedOut), quiet, TimedOut, None),
            ("plugin done", &done, said(P::Ok, "2 epochs"), None, cuda, Ok, text("2 epochs")),
            ("plugin ok, then crash", &segv, said(P::Ok, ""), None, quiet, Failed, Some(Cause::ReportedSuccess { end: segv_end() })),
            ("plugin ok, then code 1", &one, said(P::Ok, ""), None, quiet, Failed, Some(Cause::ReportedSuccess { end: code(1) })),
            ("plugin silent", &done, ProgramReport::Nothing, None, quiet, Failed, Some(Cause::NoReport { end: code(0) })),
            ("plugin ran out", &one, said(P::OutOfMemory, "batch 512"), None, quiet, OutOfMemory, ran_out(Memory::Host, "batch 512")),
            ("plugin calls it a failure", &one, said(P::Failed, "CUDA out of memory"), None, quiet, OutOfMemory, ran_out(Memory::Gpu, "CUDA out of memory")),
            ("the log calls it out of memory", &one, said(P::Failed, "training failed"), None, cuda, OutOfMemory, ran_out(Memory::Gpu, lines)),
            ("plugin failed", &one, said(P::Failed, "no photos"), None, quiet, Failed, text("no photos")),
            ("plugin failed with exit code 0", &done, said(P::Failed, ""), None, quiet, Failed, Some(Cause::ReportedFailure)),
            ("never started", &unborn, ProgramReport::Nothing, None, &[], Failed, Some(Cause::NotStarted { error: Some("`pyton` is not on the PATH".into()) })),
        ];
        let ended =
            |exit, said| EndFacts { exit, report: said, killed: None, refused: None, log_tail: &[], on_gpus: false };
        for (name, exit, said, killed, log, outcome, cause) in table {
            let log_tail: Vec<String> = log.iter().map(|l| (*l).to_owned()).collect();
            let got = conclude(&EndFacts { killed: *killed, log_tail: &log_tail, ..ended(exit, said) });
            assert_eq!(got, (*outcome, cause.clone()), "{name}");
        }
        let refusal = Refusal::NoHello { protocol: 1 };
        let refused =
            EndFacts { killed: Some(Failed), refused: Some(&refusal), ..ended(&done, &ProgramReport::Nothing) };
        assert_eq!(conclude(&refused), (Failed, Some(Cause::Refused { refusal: refusal.clone() })));
        // If the words do not say whose memory it was, the placement decides.
        for (on_gpus, words, memory) in [
            (true, "batch 512", Memory::Gpu),
            (true, "std::bad_alloc", Memory::Host),
            (false, "CUDA out of memory", Memory::Gpu),
        ] {
            let said = &said(P::OutOfMemory, words);
            let ended = EndFacts { exit: &one, report: said, killed: None, refused: None, log_tail: &[], on_gpus };
            assert_eq!(conclude(&ended), (OutOfMemory, ran_out(memory, words)));
        }
    }
}
