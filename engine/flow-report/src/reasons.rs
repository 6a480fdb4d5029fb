//! Reasons as text, from any catalogue: as Markdown for reports, otherwise as plain text. This module does not know
//! reports.

use flow_core::Difference;
use flow_core::reason::{
    BatchEnd, Cause, Caveat, Damage, Disturbance, ExitHint, Fault, FolderFault, Lack, Memory, NoMetrics,
    NoResumeReason, ProcessEnd, ProfileReason, Refusal, UnmatchedPattern,
};
use flow_core::verdict::Call;
use serde::Serialize;
use serde_json::Value;

use crate::safe;
use crate::words::{Args, Locale, Words, fields};

/// Words for reasons in one language.
#[derive(Clone, Copy, Debug)]
pub struct Reasons<'a> {
    words: Locale<'a>,
    markdown: bool,
}

impl<'a> Locale<'a> {
    pub(crate) fn reasons(self) -> Reasons<'a> {
        Reasons { words: self, markdown: true }
    }
}

impl Words {
    /// Reasons as plain text, with names between backticks.
    pub fn plain_reasons<'a>(&'a self, lang: &'a str) -> Reasons<'a> {
        Reasons { words: self.locale(lang), markdown: false }
    }
}

impl Reasons<'_> {
    /// The reason for an outcome, or why the instance did not run.
    pub fn cause(&self, cause: &Cause) -> String {
        let (kind, args) = self.fields(cause, &["expression", "axis", "step", "name", "output", "path"]);
        let key = format!("cause-{kind}");
        match cause {
            Cause::NoInstances { step: Some(_), because: None } => self.phrase("cause-no-instances-of", args),
            Cause::NoInstances { step: Some(_), because: Some(why) } => {
                self.phrase("cause-no-instances-because", args.with("why", self.cause(why)))
            }
            Cause::Lacks { lack } => self.lack(lack),
            Cause::MemberCannotRun { because, .. } => self.phrase(&key, args.with("why", self.cause(because))),
            Cause::Decided { verdict: None, .. } => self.phrase("cause-decided-not", args),
            Cause::Decided { verdict: Some(call), .. } => self.phrase(&key, args.with("verdict", self.call(*call))),
            Cause::NotStarted { error: Some(_) } => self.phrase("cause-not-started-because", args),
            Cause::NotFilled { what } => self.filling(what),
            Cause::Reported { text } | Cause::OutOfMemory { message: Some(text), .. } => self.prose(text),
            Cause::Exited { end, last_line } => {
                let said = match last_line {
                    None => self.phrase(&key, args),
                    Some(line) => self.phrase("cause-exited-line", args.with("line", self.prose(line))),
                };
                match ExitHint::of(end, last_line.as_deref()) {
                    None => said,
                    Some(hint) => self.joined(vec![said, self.exit_hint(hint)]),
                }
            }
            Cause::OutOfMemory { memory, message: None } => self.phrase(&key, args.flag("gpu", *memory == Memory::Gpu)),
            Cause::TimedOut { limit } => self.phrase(&key, args.with("limit", limit.as_secs_f64().to_string())),
            Cause::NotListed { path, because } => {
                // Each commit changes the repository, so it is no input.
                let repository = path.split('/').next_back() == Some(".git");
                let key = if repository { "cause-no-repository" } else { &key };
                self.phrase(key, args.with("how", self.how(because.as_deref())))
            }
            Cause::NoMetrics { problem } => self.no_metrics(problem),
            Cause::NoOutput { new, more, work, .. } => {
                let said = self.phrase(&key, args);
                let files: Vec<String> = new.iter().map(|file| self.code(file)).collect();
                let files = files.join(&self.words.word("list-comma"));
                let args = Args::new().with("work", self.code(work)).with("more", more.to_string());
                let args = args.with("files", files);
                let key = match (new.is_empty(), more) {
                    (true, _) => "cause-no-output-nothing",
                    (false, 0) => "cause-no-output-new",
                    (false, _) => "cause-no-output-new-more",
                };
                self.joined(vec![said, self.phrase(key, args)])
            }
            Cause::GpuLost { because: Some(how), .. } => {
                self.phrase("cause-gpu-lost-how", args.with("how", self.cause(how)))
            }
            Cause::SetUpAgain { because, .. } => self.phrase(&key, args.with("how", self.how(because.as_deref()))),
            Cause::Refused { refusal } => self.refusal(refusal),
            Cause::Batch { job, end } => self.batch(job.as_deref(), end),
            Cause::Ended { outcome } => self.named_outcome(&outcome.to_string()),
            _ => self.phrase(&key, args),
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
        self.phrase(key, Args::new())
    }

    /// The reason why a measurement was disturbed.
    pub fn disturbed(&self, disturbed: &Disturbance) -> String {
        match disturbed {
            Disturbance::InputWritten { path, itself: true, .. } => {
                self.phrase("disturbed-input-written-itself", Args::new().with("path", self.code(path)))
            }
            Disturbance::InputChanged { path, differences } => {
                self.phrase("disturbed-input-changed", Args::new().with("path", self.changed(path, differences)))
            }
            // Another step wrote into it, and its check removed it.
            Disturbance::ArtifactChanged { path, damage: Damage::Missing } => {
                self.phrase("disturbed-artifact-gone", Args::new().with("path", self.code(path)))
            }
            Disturbance::ArtifactChanged { path, damage } => {
                let args = Args::new().with("path", self.code(path)).with("damage", self.damage(damage));
                self.phrase("disturbed-artifact-changed", args)
            }
            _ => self.message("disturbed", disturbed, &["path"]),
        }
    }

    /// The reason why numbers may not cover the whole attempt.
    pub fn caveat(&self, caveat: &Caveat) -> String {
        let args = Args::new();
        match caveat {
            Caveat::FirstValues { .. } => self.message("caveat", caveat, &[]),
            Caveat::OutputUnread { bytes } => self.phrase("caveat-output-unread", args.with("size", size(*bytes))),
            Caveat::OtherEnvironment { differences, more } => {
                let key = if *more == 0 { "caveat-other-environment" } else { "caveat-other-environment-more" };
                let all: Vec<String> = differences.iter().map(|one| self.difference(one)).collect();
                let list = all.join(&self.words.word("mark-comma"));
                self.phrase(key, args.with("list", list).with("more", more.to_string()))
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
        let list = all.join(&self.words.word("mark-comma"));
        self.phrase("environment-changes", Args::new().with("name", self.code(name)).with("list", list))
    }

    /// All reasons why a measurement was disturbed.
    pub(crate) fn all_disturbed(&self, all: &[Disturbance]) -> String {
        self.joined(all.iter().map(|why| self.disturbed(why)).collect())
    }

    /// The reason why a profile is active.
    pub fn profile(&self, why: &ProfileReason) -> String {
        self.message("profile", why, &["expression"])
    }

    fn damage(&self, damage: &Damage) -> String {
        match damage {
            Damage::Changed { path: Some(path) } => {
                self.phrase("damage-changed-in", Args::new().with("path", self.code(path)))
            }
            _ => self.message("damage", damage, &[]),
        }
    }

    /// The resource that a machine lacks, as the end of a sentence: "needs 4 GPUs, this machine has 1 GPU".
    pub fn lack(&self, lack: &Lack) -> String {
        let gpus = |n: &u32| self.phrase("lack-gpu-count", Args::new().count("n", *n as usize));
        let (kind, args) = self.fields(lack, &["label"]);
        let args = match lack {
            Lack::Gpus { needs, has, .. } | Lack::GroupGpus { needs, has, .. } => {
                args.with("needs", gpus(needs)).with("has", gpus(has))
            }
            Lack::GpuMemory { needs, memory, largest, .. } => {
                args.with("needs", gpus(needs)).with("memory", size(*memory)).with("largest", size(*largest))
            }
            Lack::Cpus { needs, .. } => {
                args.with("needs", self.phrase("cpu-count", Args::new().count("n", *needs as usize)))
            }
            Lack::Memory { needs, has } | Lack::GroupMemory { needs, has, .. } => {
                args.with("needs", size(*needs)).with("has", size(*has))
            }
            Lack::GroupGpuMemory { needs, memory, .. } => args.with("needs", gpus(needs)).with("memory", size(*memory)),
            Lack::Member { lack, .. } => args.with("why", self.lack(lack)),
        };
        match lack {
            Lack::Gpus { trouble: Some(trouble), .. } => {
                self.phrase("lack-gpus-trouble", args.with("trouble", self.fault(trouble)))
            }
            _ => self.phrase(&format!("lack-{kind}"), args),
        }
    }

    /// The end of a Slurm job.
    fn batch(&self, job: Option<&str>, end: &BatchEnd) -> String {
        let job = match job {
            Some(job) => self.phrase("batch-job", Args::new().with("id", self.text(job))),
            None => self.phrase("batch-its-job", Args::new()),
        };
        let (kind, args) = self.fields(end, &[]);
        let (key, args) = (format!("batch-{kind}"), args.with("job", job));
        match end {
            BatchEnd::NodeLost { node: None } => self.phrase("batch-some-node-lost", args),
            BatchEnd::TimeLimit { stopped } => {
                let said = self.phrase(&key, args);
                let why = stopped.map(|stopped| match stopped {
                    NoResumeReason::NoCheckpoint => "batch-no-checkpoint",
                    NoResumeReason::NoProgress => "batch-no-progress",
                    NoResumeReason::Unwanted => "batch-not-resumed",
                    NoResumeReason::Group => "batch-group",
                });
                let why = why.map(|why| self.phrase(why, Args::new()));
                why.map_or(said.clone(), |why| {
                    self.phrase("batch-time-limit-why", Args::new().with("end", said).with("why", why))
                })
            }
            BatchEnd::Failed { code, begun, last_line } => {
                let end = match code {
                    _ if *begun => self.phrase("batch-begun", args),
                    Some(_) => self.phrase("batch-failed-code", args),
                    None => self.phrase("batch-failed", args),
                };
                let args = Args::new().with("end", end);
                match last_line.as_deref() {
                    None => self.phrase("batch-unread", args),
                    Some("") => self.phrase("batch-silent", args),
                    Some(said) => self.phrase("batch-last-line", args.with("line", self.prose(said))),
                }
            }
            _ => self.phrase(&key, args),
        }
    }

    /// The message of a reason by its kind, with its fields as variables. `code` has the fields that are names.
    fn message(&self, prefix: &str, reason: &impl Serialize, code: &[&str]) -> String {
        let (kind, args) = self.fields(reason, code);
        self.phrase(&format!("{prefix}-{kind}"), args)
    }

    fn fields(&self, reason: &impl Serialize, code: &[&str]) -> (String, Args) {
        fields(reason, "kind", |name, value| match (name, value) {
            ("error", error) => serde_json::from_value(error.clone()).ok().map(|error| self.fault(&error)),
            ("end", end) => {
                serde_json::from_value(end.clone()).ok().map(|end: ProcessEnd| self.message("end", &end, &[]))
            }
            (name, Value::String(text)) if code.contains(&name) => Some(self.code(text)),
            (_, Value::String(text)) => Some(self.text(text)),
            _ => None,
        })
    }

    /// An error. English uses the text that planning shows, every other language its catalogue.
    fn fault(&self, fault: &Fault) -> String {
        match (self.words.lang, serde_json::to_value(fault)) {
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
                    ("message", Value::String(message)) => args.with(name.clone(), self.prose(message)),
                    ("outcome", Value::String(outcome)) => args.with(name.clone(), self.named_outcome(outcome)),
                    (_, Value::String(text)) => args.with(name.clone(), self.code(text)),
                    (_, Value::Number(number)) => args.with_number(name.clone(), number.as_f64().unwrap_or_default()),
                    (_, value) => args.with(name.clone(), self.worded(value)),
                });
                self.phrase(&format!("fault-{}", kind.replace('_', "-")), args)
            }
            Value::Array(all) if all.iter().any(Value::is_object) => {
                self.joined(all.iter().map(|one| self.worded(one)).collect())
            }
            Value::Array(names) => {
                let names = names.iter().filter_map(Value::as_str).map(|name| self.code(name));
                self.words.list(&names.collect::<Vec<_>>())
            }
            Value::String(said) => self.prose(said),
            other => other.to_string(),
        }
    }

    fn exit_hint(&self, hint: ExitHint) -> String {
        let key = match hint {
            ExitHint::BrokenPipe => "hint-broken-pipe",
            ExitHint::Module => "hint-module",
            ExitHint::Conda => "hint-conda",
            ExitHint::Killed => "hint-killed",
        };
        self.phrase(key, Args::new())
    }

    fn filling(&self, what: &FolderFault) -> String {
        match what {
            FolderFault::EnvironmentChanged { name, differences } => {
                self.phrase("filling-environment-changed", Args::new().with("name", self.changed(name, differences)))
            }
            _ => self.message("filling", what, &["path", "folder"]),
        }
    }

    fn no_metrics(&self, problem: &NoMetrics) -> String {
        match problem {
            NoMetrics::NoneMatches { patterns } => {
                let one = |of: &UnmatchedPattern| match &of.nearest {
                    Some(line) => {
                        let args = Args::new().with("pattern", self.code(&of.pattern)).with("line", self.code(line));
                        self.phrase("metrics-unmatched-nearest", args)
                    }
                    None => self.code(&of.pattern),
                };
                let all = patterns.iter().map(one).collect::<Vec<_>>().join(", ");
                let args = Args::new().flag("several", patterns.len() > 1).with("patterns", all);
                self.phrase("metrics-none-matches", args)
            }
            _ => self.message("metrics", problem, &["file"]),
        }
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        let (kind, args) = self.fields(refusal, &[]);
        let newer = matches!(refusal, Refusal::OtherProtocol { theirs, ours, .. } if theirs > ours);
        self.phrase(&format!("refusal-{kind}"), args.flag("newer", newer))
    }

    /// An outcome without further details.
    fn named_outcome(&self, name: &str) -> String {
        self.phrase(&format!("outcome-{name}"), Args::new().with("gpu", "no"))
    }

    fn how(&self, because: Option<&Cause>) -> String {
        because.map_or_else(|| self.phrase("cause-failed", Args::new()), |cause| self.cause(cause))
    }

    fn joined(&self, sentences: Vec<String>) -> String {
        sentences.join(&self.words.word("mark-semicolon"))
    }

    fn phrase(&self, key: &str, args: Args) -> String {
        self.words.text(key, &args)
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

/// `64.0 GiB`.
fn size(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}
