//! The pure core of flow: from the text of a workflow to a plan, and from events to scheduling actions.
//!
//! ```text
//! text ── spec ──▶ Workflow ── expand ──▶ Expansion (instances, edges) ── plan ──▶ Plan (cached | to run, why | decided after)
//!                                                                          │ fingerprint: one walk that hashes and explains
//! events ── sched ──▶ actions      (policies propose, admission verifies, one function changes a state)
//! ```
//!
//! No files, processes, threads, environment, clock or unseeded randomness, and no decision iterates over a hash map:
//! same inputs, same outputs, byte for byte.
#![forbid(unsafe_code)]

mod ansi;
mod builtin;
mod bundle;
mod catalogue;
mod compiled_once;
mod declared_environment;
mod diagnostic;
mod digest;
mod environment;
mod event;
mod expand;
mod expr;
pub mod fingerprint;
mod graph;
mod ids;
mod instance;
mod interval;
pub mod learn;
mod likeness;
mod machine;
pub mod measure;
mod metrics;
mod outcome;
mod paths;
pub mod plan;
pub mod predict;
pub mod reason;
mod remaining;
mod result;
pub mod sched;
mod schema;
mod sheet;
pub mod shell;
mod source;
mod spec;
pub mod stats;
mod text;
mod time;
pub mod verdict;
pub mod why;

pub use ansi::Program;
pub use builtin::{
    BuiltinInput, BuiltinOutput, Builtins, FileToWrite, Publication, PublishJob, PublishWhat, Replace, StepView,
    WHATS_NEW,
};
pub use bundle::{
    Bundle, BundledRun, CarriedObject, Foreign, LONGEST_BUNDLE, MOST_POINTS, Origin, hidden, machine_of, thin,
};
pub use catalogue::{
    Catalogue, CatalogueStep, PlannedStep, PlannedWith, PluginFacts, WithCheck, WithVerdicts, WrongWith,
};
pub use declared_environment::{DeclaredEnvironment, EnvironmentProvider};
pub use diagnostic::{Diagnostic, edits, nearest};
pub use digest::{BadDigest, Digest};
pub use environment::{Difference, Environment, FRAMEWORKS, ProgramFile, Python};
pub use event::{JOURNAL_FORMAT, JournalLine, PlannedAction, Repeat, RunEvent, RunStart};
pub use expand::{
    Batch, Definition, ExpandRequest, Expansion, Group, Publish, Remark, StepFacts, UnmappedOutput, UnreadDependency,
    Uses,
};
pub use expr::{is_guarded, render as render_template};
pub use ids::{AttemptId, GpuId, GroupId, InstanceId, RunId, StepId};
pub use instance::{
    Body, ConditionalRepetition, CorunMember, Exclusive, Input, Instance, LateResult, Link, Need, Output, Place,
    Render, RequestedResults, ResolvedInstance, ResourceRequest, SettledResults, Slurm, SlurmJob, axes_of, selects,
};
pub use interval::Interval;
pub use likeness::{hardware, likeness, unlike};
pub use machine::{GpuFacts, Machine};
pub use metrics::{
    Best, EventFile, Key, LineReader, MetricRow, Metrics, MetricsFile, MetricsForm, NumberFiles, Pattern, Summary,
    SummaryError, event_file, metric_letters,
};
pub use outcome::Outcome;
pub use remaining::{RemainingTime, RunTimes, RunningProgress, left_by_progress};
pub use result::{
    Artifact, ArtifactKind, Circumstances, CorunGpus, CorunWindow, EarlierUsage, ForeignProcess, GPU_LOAD_SPAN,
    GpuSharing, GpuUsage, KeptInput, KeptOutput, Metric, Mode, Point, Revision, Series, StepResult, TimedEpoch, Usage,
};
pub use schema::{schema, schema_with};
pub use sheet::Sheet;
pub use source::Source;
pub use spec::{Workflow, parse, parse_with};
pub use text::{is_hidden, visible, visible_but};
pub use time::{Span, Time};
