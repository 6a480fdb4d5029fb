//! How an attempt ended, from everything that is known about its end. Pure; collects no outputs and settles nothing.

use flow_core::Outcome;
use flow_protocol::{self as protocol, Exit};
use nix::sys::signal::Signal;

use super::memory;

/// What the program said about its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It is a command, which says nothing but its exit code.
    Command,
    /// A plugin that never said an outcome.
    Nothing,
    /// A plugin's last outcome.
    Outcome(protocol::Outcome, Option<String>),
}

/// What is known when an attempt is over.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    /// The exit record.
    pub exit: &'a Exit,
    /// The program's own view.
    pub said: &'a Said,
    /// flow ended it: the outcome that this was for.
    pub killed: Option<Outcome>,
    /// Why it was refused while it ran (another version of the protocol).
    pub refused: Option<&'a str>,
    /// The end of the log.
    pub log_tail: &'a [String],
}

/// The outcome, and a sentence where there is one to say. Outputs are not looked at.
pub fn conclude(ended: &Ended<'_>) -> (Outcome, Option<String>) {
    let Ended { exit, said, killed, refused, log_tail } = *ended;
    if let Some(reason) = &exit.spawn_error {
        return (Outcome::Failed, Some(reason.clone()));
    }
    if let Some(reason) = refused {
        return (Outcome::Failed, Some(reason.to_owned()));
    }
    if let Some(outcome) = killed {
        // Also where it was done in that moment: the scheduler has said what it ends as.
        return (outcome, None);
    }
    let clean = exit.code == Some(0);
    if let (true, Said::Outcome(protocol::Outcome::Ok, message)) = (clean, said) {
        return (Outcome::Ok, message.clone());
    }
    match said {
        Said::Command if clean => return (Outcome::Ok, None),
        Said::Outcome(protocol::Outcome::OutOfMemory, message) => return (Outcome::OutOfMemory, message.clone()),
        Said::Outcome(protocol::Outcome::Failed, Some(message)) if memory::says_out_of_memory(message) => {
            return (Outcome::OutOfMemory, Some(message.clone()));
        }
        _ => {}
    }
    if exit.oom_killed {
        return (Outcome::OutOfMemory, Some("the kernel killed it for want of host memory".to_owned()));
    }
    if (!clean || matches!(said, Said::Outcome(..)))
        && let Some(line) = memory::out_of_memory_line(log_tail.iter().map(String::as_str))
    {
        return (Outcome::OutOfMemory, Some(line.to_owned()));
    }
    let how = how_it_ended(exit);
    let message = match said {
        Said::Outcome(protocol::Outcome::Failed, Some(message)) => message.clone(),
        Said::Outcome(protocol::Outcome::Failed, None) => "the program said that it failed".to_owned(),
        Said::Outcome(..) => format!("the program said `ok`, then {how}"),
        Said::Nothing if clean => format!("the program {how} without saying an outcome"),
        Said::Nothing | Said::Command => match log_tail.iter().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("{how}: {}", line.trim()),
            None => how,
        },
    };
    (Outcome::Failed, Some(message))
}

fn how_it_ended(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by {}", signal_name(signal)),
        (None, None) => "ended in an unknown way".to_owned(),
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
        Exit {
            code,
            signal,
            started_at: 1.0,
            ended_at: 2.0,
            cpu_s: 0.5,
            max_rss: 1,
            oom_killed: false,
            swept: 0,
            spawn_error: None,
        }
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
        let said = |o, m: &str| Said::Outcome(o, (!m.is_empty()).then(|| m.to_owned()));
        let quiet: &[&str] = &["epoch 1", "Traceback", "ValueError: no", ""];
        let cuda: &[&str] = &["Traceback", "torch.OutOfMemoryError: CUDA out of memory. Tried", "cleanup"];
        use Outcome::*;
        type Case<'a> = (&'a str, &'a Exit, Said, Option<Outcome>, &'a [&'a str], Outcome, &'a str);
        #[rustfmt::skip]
        let table: &[Case<'_>] = &[
            ("command done", &done, Said::Command, None, quiet, Ok, ""),
            ("command that recovered", &done, Said::Command, None, cuda, Ok, ""),
            ("command failed", &one, Said::Command, None, quiet, Failed, "ended with exit code 1: ValueError: no"),
            ("silent command", &one, Said::Command, None, &[], Failed, "ended with exit code 1"),
            ("command crashed", &segv, Said::Command, None, &[], Failed, "was ended by SIGSEGV"),
            ("command ran out", &one, Said::Command, None, cuda, OutOfMemory, "torch.OutOfMemoryError: CUDA out of memory. Tried"),
            ("kernel killed it", &oom, Said::Command, None, quiet, OutOfMemory, "the kernel killed it for want of host memory"),
            ("somebody killed it", &kill, Said::Command, None, &[], Failed, "was ended by SIGKILL"),
            ("timed out", &term, Said::Command, Some(TimedOut), cuda, TimedOut, ""),
            ("timed out, exits politely", &done, Said::Command, Some(TimedOut), quiet, TimedOut, ""),
            ("cancelled", &kill, said(P::Failed, "stopped"), Some(Cancelled), quiet, Cancelled, ""),
            ("done in the moment of the kill", &done, said(P::Ok, ""), Some(TimedOut), quiet, TimedOut, ""),
            ("plugin done", &done, said(P::Ok, "2 epochs"), None, cuda, Ok, "2 epochs"),
            ("plugin ok, then crash", &segv, said(P::Ok, ""), None, quiet, Failed, "the program said `ok`, then was ended by SIGSEGV"),
            ("plugin ok, then code 1", &one, said(P::Ok, ""), None, quiet, Failed, "the program said `ok`, then ended with exit code 1"),
            ("plugin silent", &done, Said::Nothing, None, quiet, Failed, "the program ended with exit code 0 without saying an outcome"),
            ("plugin ran out", &one, said(P::OutOfMemory, "batch 512"), None, quiet, OutOfMemory, "batch 512"),
            ("plugin calls it a failure", &one, said(P::Failed, "CUDA out of memory"), None, quiet, OutOfMemory, "CUDA out of memory"),
            ("the log calls it out of memory", &one, said(P::Failed, "training failed"), None, cuda, OutOfMemory, "torch.OutOfMemoryError: CUDA out of memory. Tried"),
            ("plugin failed", &one, said(P::Failed, "no photos"), None, quiet, Failed, "no photos"),
            ("plugin failed with exit code 0", &done, said(P::Failed, ""), None, quiet, Failed, "the program said that it failed"),
            ("never started", &unborn, Said::Nothing, None, &[], Failed, "`pyton` is not on the PATH"),
        ];
        for (name, exit, said, killed, log, outcome, message) in table {
            let log_tail: Vec<String> = log.iter().map(|l| (*l).to_owned()).collect();
            let got = conclude(&Ended { exit, said, killed: *killed, refused: None, log_tail: &log_tail });
            assert_eq!(got, (*outcome, (!message.is_empty()).then(|| (*message).to_owned())), "{name}");
        }
        let refused =
            Ended { exit: &done, said: &Said::Nothing, killed: Some(Failed), refused: Some("version"), log_tail: &[] };
        assert_eq!(conclude(&refused), (Failed, Some("version".into())));
    }
}
