//! Reasons as text, from any catalogue: as Markdown for reports, otherwise as plain text. This module does not know
//! reports.

use flow_core::Difference;
use flow_core::reason::{
    BatchEnd, Cause, Caveat, Damage, ExitHint, Fault, Filling, Lack, Memory, NoMetrics, ProcessEnd, ProfileReason,
    Refusal, Spoiled, Stopped, Unmatched,
};
use flow_core::verdict::Call;
use serde_json::Value;

use crate::safe;
use crate::words::{Args, Words};

/// Words for reasons in one language.
#[derive(Clone, Copy, Debug)]
pub struct Reasons<'a> {
    words: &'a Words,
    lang: &'a str,
    markdown: bool,
}

impl Words {
    pub(crate) fn reasons<'a>(&'a self, lang: &'a str) -> Reasons<'a> {
        Reasons { words: self, lang, markdown: true }
    }

    /// Reasons as plain text, with names between backticks.
    pub fn plain_reasons<'a>(&'a self, lang: &'a str) -> Reasons<'a> {
        Reasons { words: self, lang, markdown: false }
    }
}

impl Reasons<'_> {
    /// The reason for an outcome, or why the instance did not run.
    pub fn cause(&self, cause: &Cause) -> String {
        let args = Args::new();
        match cause {
            Cause::ConditionFalse { expression } => {
                self.say("cause-condition-false", args.with("expression", self.code(expression)))
            }
            Cause::EmptyAxis { axis } => self.say("cause-empty-axis", args.with("axis", self.code(axis))),
            Cause::NoInstances { step: None, .. } => self.say("cause-no-instances", args),
            Cause::NoInstances { step: Some(step), because: None } => {
                self.say("cause-no-instances-of", args.with("step", self.code(step)))
            }
            Cause::NoInstances { step: Some(step), because: Some(why) } => {
                self.say("cause-no-instances-because", args.with("step", self.code(step)).with("why", self.cause(why)))
            }
            Cause::AllSkipped => self.say("cause-all-skipped", args),
            Cause::Lacks { lack } => self.lack(lack),
            Cause::AsksTooMuch => self.say("cause-asks-too-much", args),
            Cause::Unresolved { error } => self.say("cause-unresolved", args.with("error", self.fault(error))),
            Cause::NoInput { error } => self.say("cause-no-input", args.with("error", self.fault(error))),
            Cause::NoEnvironment { name, error } => {
                self.say("cause-no-environment", args.with("name", self.code(name)).with("error", self.fault(error)))
            }
            Cause::ResultUnseen { error } => self.say("cause-result-unseen", args.with("error", self.fault(error))),
            Cause::NotProvided { uses } => self.say("cause-not-provided", args.with("uses", self.text(uses))),
            Cause::MemberCannotRun { label, because } => {
                let args = args.with("label", self.text(label)).with("why", self.cause(because));
                self.say("cause-member-cannot-run", args)
            }
            Cause::NeedCannotRun { label } => self.say("cause-need-cannot-run", args.with("label", self.text(label))),
            Cause::NeedFailed { label } => self.say("cause-need-failed", args.with("label", self.text(label))),
            Cause::FailedElsewhere { label } => {
                self.say("cause-failed-elsewhere", args.with("label", self.text(label)))
            }
            Cause::MemberFailed { label } => self.say("cause-member-failed", args.with("label", self.text(label))),
            Cause::RunCancelled => self.say("cause-run-cancelled", args),
            Cause::Decided { group, verdict: None, .. } => {
                self.say("cause-decided-not", args.with("group", self.text(group)))
            }
            Cause::Decided { group, looks, verdict: Some(call) } => {
                let args = args.with("group", self.text(group)).count("looks", *looks as usize);
                self.say("cause-decided", args.with("verdict", self.call(*call)))
            }
            Cause::NotRun => self.say("cause-not-run", args),
            Cause::GpuGone => self.say("cause-gpu-gone", args),
            Cause::NotStarted { error: None } => self.say("cause-not-started", args),
            Cause::NotStarted { error: Some(error) } => {
                self.say("cause-not-started-because", args.with("error", self.fault(error)))
            }
            Cause::NotFilled { what } => self.filling(what),
            Cause::Builtin { error } => self.say("cause-builtin", args.with("error", self.fault(error))),
            Cause::NothingToShow => self.say("cause-nothing-to-show", args),
            Cause::NoSchedule => self.say("cause-no-schedule", args),
            Cause::Said { text } | Cause::OutOfMemory { said: Some(text), .. } => self.prose(text),
            Cause::SaidFailed => self.say("cause-said-failed", args),
            Cause::SaidOk { end } => self.say("cause-said-ok", args.with("end", self.end(end))),
            Cause::SaidNothing { end } => self.say("cause-said-nothing", args.with("end", self.end(end))),
            Cause::Exited { end, last_line } => {
                let args = args.with("end", self.end(end));
                let said = match last_line {
                    None => self.say("cause-exited", args),
                    Some(line) => self.say("cause-exited-line", args.with("line", self.prose(line))),
                };
                match ExitHint::of(end, last_line.as_deref()) {
                    None => said,
                    Some(hint) => self.joined(vec![said, self.exit_hint(hint)]),
                }
            }
            Cause::OutOfMemory { memory, said: None } => {
                self.say("cause-out-of-memory", args.with("gpu", yes(*memory == Memory::Gpu)))
            }
            Cause::KilledForMemory => self.say("cause-killed-for-memory", args),
            Cause::TimedOut { limit } => {
                self.say("cause-timed-out", args.with("limit", limit.as_secs_f64().to_string()))
            }
            Cause::NotListed { path, because } => {
                // Each commit changes the repository, so it is no input.
                let key = if path.split('/').next_back() == Some(".git") {
                    "cause-no-repository"
                } else {
                    "cause-not-listed"
                };
                self.say(key, args.with("path", self.code(path)).with("how", self.how(because.as_deref())))
            }
            Cause::NoMetrics { problem } => self.no_metrics(problem),
            Cause::NoOutput { output, path, new, more, work } => {
                let args = args.with("output", self.code(output)).with("path", self.code(path));
                let said = self.say("cause-no-output", args);
                let Some(work) = work else { return said };
                let files: Vec<String> = new.iter().map(|file| self.code(file)).collect();
                let files = files.join(&self.words.word(self.lang, "list-comma"));
                let args = Args::new().with("work", self.code(work)).with("more", more.to_string());
                let args = args.with("files", files);
                let key = match (new.is_empty(), more) {
                    (true, _) => "cause-no-output-nothing",
                    (false, 0) => "cause-no-output-new",
                    (false, _) => "cause-no-output-new-more",
                };
                self.joined(vec![said, self.say(key, args)])
            }
            Cause::OutputUnseen { output, path, error } => {
                let args = args.with("output", self.code(output)).with("path", self.code(path));
                self.say("cause-output-unseen", args.with("error", self.fault(error)))
            }
            Cause::NotKept { error } => self.say("cause-not-kept", args.with("error", self.fault(error))),
            Cause::GpuLost { gpu, model, because } => {
                let args = args.with("gpu", gpu.to_string()).with("model", self.text(model));
                match because {
                    None => self.say("cause-gpu-lost", args),
                    Some(how) => self.say("cause-gpu-lost-how", args.with("how", self.cause(how))),
                }
            }
            Cause::SetUpAgain { plugin, because } => {
                let args = args.with("plugin", self.text(plugin)).with("how", self.how(because.as_deref()));
                self.say("cause-set-up-again", args)
            }
            Cause::Refused { refusal } => self.refusal(refusal),
            Cause::Batch { job, end } => self.batch(job.as_deref(), end),
            Cause::Ended { outcome } => self.outcome(*outcome),
        }
    }

    /// The verdict about a co-run group.
    pub fn call(&self, call: Call) -> String {
        let key = match call {
            Call::Parallel => "verdict-parallel",
            Call::OnlyConcurrent => "verdict-only-concurrent",
            Call::NoGain => "verdict-no-gain",
            Call::SlowerThanOneAfterAnother => "verdict-slower",
            Call::Undecided => "verdict-too-noisy",
        };
        self.say(key, Args::new())
    }

    /// The reason why a measurement was disturbed.
    pub fn spoiled(&self, spoiled: &Spoiled) -> String {
        let args = Args::new();
        match spoiled {
            Spoiled::Stranger { pid, name, gpu } => {
                let args = args.with("pid", pid.to_string()).with("name", self.text(name));
                self.say("spoiled-stranger", args.with("gpu", self.text(gpu)))
            }
            Spoiled::GpuSilent { gpu, seconds } => {
                let args = args.with("gpu", self.text(gpu)).with("seconds", seconds.to_string());
                self.say("spoiled-gpu-silent", args)
            }
            Spoiled::OtherRuns { attempts } => {
                self.say("spoiled-other-runs", args.with("attempts", attempts.to_string()))
            }
            Spoiled::InputWritten { path, itself, .. } => {
                let key = if *itself { "spoiled-input-written-itself" } else { "spoiled-input-written" };
                self.say(key, args.with("path", self.code(path)))
            }
            Spoiled::InputChanged { path, differences } => {
                self.say("spoiled-input-changed", args.with("path", self.changed(path, differences)))
            }
            Spoiled::InputRewritten { path, seconds } => {
                let args = args.with("path", self.code(path)).with("seconds", seconds.to_string());
                self.say("spoiled-input-rewritten", args)
            }
            // Another step wrote into it, and its check removed it.
            Spoiled::ArtifactChanged { path, damage: Damage::Missing } => {
                self.say("spoiled-artifact-gone", args.with("path", self.code(path)))
            }
            Spoiled::ArtifactChanged { path, damage } => {
                let args = args.with("path", self.code(path)).with("damage", self.damage(damage));
                self.say("spoiled-artifact-changed", args)
            }
            Spoiled::ArtifactUnseen { path, error } => {
                let args = args.with("path", self.code(path)).with("error", self.fault(error));
                self.say("spoiled-artifact-unseen", args)
            }
            Spoiled::OtherHardware { declared, found } => {
                let args = args.with("declared", self.text(declared)).with("found", self.text(found));
                self.say("spoiled-other-hardware", args)
            }
            Spoiled::Said { text } => self.prose(text),
        }
    }

    /// The reason why numbers may not cover the whole attempt.
    pub fn caveat(&self, caveat: &Caveat) -> String {
        let args = Args::new();
        match caveat {
            Caveat::FirstValues { kept, printed } => self
                .say("caveat-first-values", args.with("kept", kept.to_string()).with("printed", printed.to_string())),
            Caveat::OutputUnread { bytes } => self.say("caveat-output-unread", args.with("size", size(*bytes))),
            Caveat::OtherEnvironment { differences, more } => {
                let key = if *more == 0 { "caveat-other-environment" } else { "caveat-other-environment-more" };
                let all: Vec<String> = differences.iter().map(|one| self.difference(one)).collect();
                let list = all.join(&self.words.word(self.lang, "mark-comma"));
                self.say(key, args.with("list", list).with("more", more.to_string()))
            }
        }
    }

    fn difference(&self, difference: &Difference) -> String {
        let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "—".to_owned());
        match difference {
            Difference::Python { was, is } => self.text(&format!("Python {was} → {is}")),
            Difference::Package { name, was, is } => self.text(&format!("{name} {} → {}", version(was), version(is))),
            Difference::Program { name, .. } | Difference::Variable { name } => self.code(name),
        }
    }

    /// A changed environment, with the packages that changed.
    fn changed(&self, name: &str, differences: &[Difference]) -> String {
        if differences.is_empty() {
            return self.code(name);
        }
        let all: Vec<String> = differences.iter().map(|one| self.difference(one)).collect();
        let list = all.join(&self.words.word(self.lang, "mark-comma"));
        self.say("environment-changes", Args::new().with("name", self.code(name)).with("list", list))
    }

    /// All reasons why a measurement was disturbed.
    pub(crate) fn all_spoiled(&self, all: &[Spoiled]) -> String {
        self.joined(all.iter().map(|why| self.spoiled(why)).collect())
    }

    /// The reason why a profile is active.
    pub fn profile(&self, why: &ProfileReason) -> String {
        match why {
            ProfileReason::Asked => self.say("profile-asked", Args::new()),
            ProfileReason::Holds { expression } => {
                self.say("profile-holds", Args::new().with("expression", self.code(expression)))
            }
        }
    }

    fn damage(&self, damage: &Damage) -> String {
        match damage {
            Damage::Missing => self.say("damage-missing", Args::new()),
            Damage::Changed { path: None } => self.say("damage-changed", Args::new()),
            Damage::Changed { path: Some(path) } => {
                self.say("damage-changed-in", Args::new().with("path", self.code(path)))
            }
            Damage::Content => self.say("damage-content", Args::new()),
        }
    }

    /// The resource that a machine lacks, as the end of a sentence: "needs 4 GPUs, this machine has 1 GPU".
    pub fn lack(&self, lack: &Lack) -> String {
        let args = Args::new();
        let gpus = |n: &u32| self.say("lack-gpu-count", Args::new().count("n", *n as usize));
        let cpus = |n: &u32| self.say("cpu-count", Args::new().count("n", *n as usize));
        match lack {
            Lack::Gpus { needs, has, trouble: None } => {
                self.say("lack-gpus", args.with("needs", gpus(needs)).with("has", gpus(has)))
            }
            Lack::Gpus { needs, has, trouble: Some(trouble) } => {
                let args = args.with("needs", gpus(needs)).with("has", gpus(has));
                self.say("lack-gpus-trouble", args.with("trouble", self.fault(trouble)))
            }
            Lack::GpuMemory { needs, memory, has, largest } => {
                let args = args.with("needs", gpus(needs)).with("memory", size(*memory)).with("has", has.to_string());
                self.say("lack-gpu-memory", args.with("largest", size(*largest)))
            }
            Lack::Cpus { needs, has } => {
                self.say("lack-cpus", args.with("needs", cpus(needs)).with("has", has.to_string()))
            }
            Lack::Memory { needs, has } => {
                self.say("lack-memory", args.with("needs", size(*needs)).with("has", size(*has)))
            }
            Lack::GroupGpus { members, needs, has } => {
                let args = args.with("members", members.to_string()).with("needs", gpus(needs));
                self.say("lack-group-gpus", args.with("has", gpus(has)))
            }
            Lack::GroupGpuMemory { members, needs, memory, has } => {
                let args = args.with("members", members.to_string()).with("needs", gpus(needs));
                self.say("lack-group-gpu-memory", args.with("memory", size(*memory)).with("has", has.to_string()))
            }
            Lack::GroupMemory { members, needs, has } => {
                let args = args.with("members", members.to_string()).with("needs", size(*needs));
                self.say("lack-group-memory", args.with("has", size(*has)))
            }
            Lack::Member { label, lack } => {
                self.say("lack-member", args.with("label", self.code(label)).with("why", self.lack(lack)))
            }
        }
    }

    /// The end of a Slurm job.
    fn batch(&self, job: Option<&str>, end: &BatchEnd) -> String {
        let job = match job {
            Some(job) => self.say("batch-job", Args::new().with("id", self.text(job))),
            None => self.say("batch-its-job", Args::new()),
        };
        let args = Args::new().with("job", job);
        match end {
            BatchEnd::NodeLost { node: Some(node) } => self.say("batch-node-lost", args.with("node", self.text(node))),
            BatchEnd::NodeLost { node: None } => self.say("batch-some-node-lost", args),
            BatchEnd::TimeLimit { stopped } => {
                let said = self.say("batch-time-limit", args);
                let why = stopped.map(|stopped| match stopped {
                    Stopped::NoCheckpoint => "batch-no-checkpoint",
                    Stopped::NoProgress => "batch-no-progress",
                    Stopped::Unwanted => "batch-not-resumed",
                    Stopped::Group => "batch-group",
                });
                let why = why.map(|why| self.say(why, Args::new()));
                why.map_or(said.clone(), |why| {
                    self.say("batch-time-limit-why", Args::new().with("end", said).with("why", why))
                })
            }
            BatchEnd::Memory => self.say("batch-memory", args),
            BatchEnd::Cancelled => self.say("batch-cancelled", args),
            BatchEnd::Preempted => self.say("batch-preempted", args),
            BatchEnd::NotLaunched => self.say("batch-not-launched", args),
            BatchEnd::Failed { code, begun, said } => {
                let end = match code {
                    _ if *begun => self.say("batch-begun", args),
                    Some(code) => self.say("batch-failed-code", args.with("code", code.to_string())),
                    None => self.say("batch-failed", args),
                };
                let args = Args::new().with("end", end);
                match said.as_deref() {
                    None => self.say("batch-unread", args),
                    Some("") => self.say("batch-silent", args),
                    Some(said) => self.say("batch-said", args.with("said", self.prose(said))),
                }
            }
            BatchEnd::Held { reason } => self.say("batch-held", args.with("reason", self.text(reason))),
            BatchEnd::Never { reason } => self.say("batch-never", args.with("reason", self.text(reason))),
            BatchEnd::Refused { error } => self.say("batch-refused", args.with("error", self.prose(error))),
            BatchEnd::Vanished => self.say("batch-vanished", args),
        }
    }

    /// An error. English uses the text that planning shows, every other language its catalogue.
    fn fault(&self, fault: &Fault) -> String {
        match (self.lang, serde_json::to_value(fault)) {
            ("en", _) | (_, Err(_)) => self.prose(&fault.to_string()),
            (_, Ok(value)) => self.worded(&value),
        }
    }

    /// The message for a value's `kind`, with its fields as variables. Names become code, and nested errors and values
    /// are worded in the same way.
    fn worded(&self, value: &Value) -> String {
        match value {
            Value::Object(fields) => {
                let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
                let args = fields.iter().fold(Args::new(), |args, (name, value)| match (name.as_str(), value) {
                    ("kind", _) => args,
                    // Words by which a message selects its variant.
                    ("which", Value::String(which)) => args.with(name.clone(), which.replace(' ', "-")),
                    ("said", Value::String(said)) => args.with(name.clone(), self.prose(said)),
                    ("outcome", Value::String(outcome)) => args.with(name.clone(), self.named_outcome(outcome)),
                    (_, Value::String(text)) => args.with(name.clone(), self.code(text)),
                    (_, Value::Number(number)) => args.with_number(name.clone(), number.as_f64().unwrap_or_default()),
                    (_, value) => args.with(name.clone(), self.worded(value)),
                });
                self.say(&format!("fault-{}", kind.replace('_', "-")), args)
            }
            Value::Array(all) if all.iter().any(Value::is_object) => {
                self.joined(all.iter().map(|one| self.worded(one)).collect())
            }
            Value::Array(names) => {
                let names = names.iter().filter_map(Value::as_str).map(|name| self.code(name));
                self.words.list(self.lang, &names.collect::<Vec<_>>())
            }
            Value::String(said) => self.prose(said),
            other => other.to_string(),
        }
    }

    fn end(&self, end: &ProcessEnd) -> String {
        match end {
            ProcessEnd::Code { code } => self.say("end-code", Args::new().with("code", code.to_string())),
            ProcessEnd::Signal { name } => self.say("end-signal", Args::new().with("name", self.text(name))),
            ProcessEnd::Unknown => self.say("end-unknown", Args::new()),
        }
    }

    fn exit_hint(&self, hint: ExitHint) -> String {
        let key = match hint {
            ExitHint::BrokenPipe => "hint-broken-pipe",
            ExitHint::Module => "hint-module",
            ExitHint::Conda => "hint-conda",
            ExitHint::Killed => "hint-killed",
        };
        self.say(key, Args::new())
    }

    fn filling(&self, what: &Filling) -> String {
        let args = Args::new();
        match what {
            Filling::Own { path, error } => {
                self.say("filling-own", args.with("path", self.code(path)).with("error", self.fault(error)))
            }
            Filling::Input { path, error } => {
                self.say("filling-input", args.with("path", self.code(path)).with("error", self.fault(error)))
            }
            Filling::InputInInput { path, folder } => {
                let args = args.with("path", self.code(path)).with("folder", self.code(folder));
                self.say("filling-input-in-input", args)
            }
            Filling::InputChanged { path } => self.say("filling-input-changed", args.with("path", self.code(path))),
            Filling::EnvironmentChanged { name, differences } => {
                self.say("filling-environment-changed", args.with("name", self.changed(name, differences)))
            }
            Filling::Artifact { error } => self.say("filling-artifact", args.with("error", self.fault(error))),
            Filling::NoPlugin { plugin } => self.say("filling-no-plugin", args.with("plugin", self.text(plugin))),
        }
    }

    fn no_metrics(&self, problem: &NoMetrics) -> String {
        let file = |file: &str| Args::new().with("file", self.code(file));
        match problem {
            NoMetrics::Unread { file: of, error } => {
                self.say("metrics-unread", file(of).with("error", self.fault(error)))
            }
            NoMetrics::NoJson { file: of, error } => {
                self.say("metrics-no-json", file(of).with("error", self.prose(error)))
            }
            NoMetrics::NoNumbers { file: of } => self.say("metrics-no-numbers", file(of)),
            NoMetrics::BadLine { file: of, line, text } => {
                self.say("metrics-bad-line", file(of).with("line", line.to_string()).with("text", self.text(text)))
            }
            NoMetrics::NoHeader { file: of } => self.say("metrics-no-header", file(of)),
            NoMetrics::NoneInFile { file: of } => self.say("metrics-none-in-file", file(of)),
            NoMetrics::NoneInTable { file: of } => self.say("metrics-none-in-table", file(of)),
            NoMetrics::NoEventFile { file: of } => self.say("metrics-no-event-file", file(of)),
            NoMetrics::BadEvent { file: of, at } => self.say("metrics-bad-event", file(of).with("at", at.to_string())),
            NoMetrics::NoneMatches { patterns } => {
                let one = |of: &Unmatched| match &of.nearest {
                    Some(line) => {
                        let args = Args::new().with("pattern", self.code(&of.pattern)).with("line", self.code(line));
                        self.say("metrics-unmatched-nearest", args)
                    }
                    None => self.code(&of.pattern),
                };
                let all = patterns.iter().map(one).collect::<Vec<_>>().join(", ");
                let args = Args::new().with("several", yes(patterns.len() > 1)).with("patterns", all);
                self.say("metrics-none-matches", args)
            }
        }
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        let args = Args::new();
        match refusal {
            Refusal::OtherProtocol { plugin, theirs, ours } => {
                let args = args.with("plugin", self.text(plugin)).with("theirs", theirs.to_string());
                let args = args.with("ours", ours.to_string()).with("newer", yes(theirs > ours));
                self.say("refusal-other-protocol", args)
            }
            Refusal::NoHello { protocol } => self.say("refusal-no-hello", args.with("protocol", protocol.to_string())),
            Refusal::MessagesUnread { error } => {
                self.say("refusal-messages-unread", args.with("error", self.fault(error)))
            }
            Refusal::LogUnread { error } => self.say("refusal-log-unread", args.with("error", self.fault(error))),
            Refusal::LogTooLong { most, error } => {
                let args = args.with("most", most.to_string()).with("error", self.fault(error));
                self.say("refusal-log-too-long", args)
            }
            Refusal::NotReached { folder, error } => {
                let args = args.with("folder", self.text(folder)).with("error", self.fault(error));
                self.say("refusal-not-reached", args)
            }
        }
    }

    /// An outcome without further details.
    fn outcome(&self, outcome: flow_core::Outcome) -> String {
        self.named_outcome(&outcome.to_string())
    }

    fn named_outcome(&self, name: &str) -> String {
        self.say(&format!("outcome-{name}"), Args::new().with("gpu", "no"))
    }

    fn how(&self, because: Option<&Cause>) -> String {
        because.map_or_else(|| self.say("cause-failed", Args::new()), |cause| self.cause(cause))
    }

    fn joined(&self, sentences: Vec<String>) -> String {
        sentences.join(&self.words.word(self.lang, "mark-semicolon"))
    }

    fn say(&self, key: &str, args: Args) -> String {
        self.words.text(self.lang, key, &args)
    }

    /// A name of something.
    fn code(&self, name: &str) -> String {
        if self.markdown { safe::code(name) } else { format!("`{name}`") }
    }

    /// A text by somebody else.
    fn text(&self, text: &str) -> String {
        if self.markdown { safe::text(text) } else { text.to_owned() }
    }

    /// A sentence by somebody else, which may have names between backticks.
    fn prose(&self, text: &str) -> String {
        if self.markdown { safe::prose(text) } else { text.to_owned() }
    }
}

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

/// `64.0 GiB`.
fn size(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}
