//! Checks a workflow for a batch system before anything runs: its nodes must reach what its steps read, and no option
//! may hide a job from flow.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::Duration,
};

use flow_core::{
    CorunGpus, Diagnostic, Expansion, Group, Input, Instance, InstanceId, Outcome, ResourceRequest, SlurmJob, Span,
    Workflow,
};
use flow_slurm::OptionFault;

use super::slurm::{Cluster, Impossible, longest_of, requested_time, unknown_partition};
use crate::Workspace;

/// All errors in the steps that are to run on Slurm.
pub(crate) fn check(
    workspace: &Workspace,
    workflow: &Workflow,
    expansion: &Expansion,
    cluster: Option<&Cluster>,
    wanted: &[InstanceId],
) -> Vec<Diagnostic> {
    let instances = wanted.iter().map(|id| &expansion.instances[id.index()]);
    let there: Vec<(&Instance, &SlurmJob)> = instances
        .filter(|instance| instance.skip.is_none())
        .filter_map(|instance| Some((instance, instance.slurm.as_deref()?)))
        .collect();
    if there.is_empty() {
        return Vec::new();
    }
    let step = |instance: &Instance| &*expansion.steps[instance.step.index()].name;
    let options: BTreeSet<(&str, &str)> =
        there.iter().flat_map(|(of, job)| job.options.iter().map(|option| (step(of), &**option))).collect();
    let misused = options.into_iter().filter_map(|(step, option)| Some((step, option, misused(option)?)));
    let mut wrong = workflow.about(&["slurm"], misused.collect::<Vec<_>>());
    if let Some(cluster) = cluster {
        wrong.extend(impossible(cluster, workflow, expansion, &there));
    }
    let shared = match shared(workspace, expansion) {
        Ok(shared) => shared,
        Err(what) => {
            wrong.push(what);
            return wrong;
        }
    };
    let mut outside: BTreeSet<(&str, &Input)> = BTreeSet::new();
    for (of, _) in &there {
        let far = of.inputs.iter().filter(|input| !is_below(&workspace.folder.join(&input.path), &shared));
        outside.extend(far.map(|input| (step(of), input)));
    }
    let outside = outside.into_iter().map(|(step, input)| {
        let what = Diagnostic::new(format!("`{}` is outside of the folder that Slurm's nodes see", input.path));
        let what = what.label(format!("expected below {}", shared.display()));
        (step, input, what.help("move it there, or set the folder that all nodes see: `slurm: {shared: DIR}`"))
    });
    wrong.extend(workflow.about_inputs(outside.collect::<Vec<_>>()));
    wrong
}

/// Requests that no node of the cluster can satisfy. A co-run group is one job.
fn impossible(
    cluster: &Cluster,
    workflow: &Workflow,
    expansion: &Expansion,
    there: &[(&Instance, &SlurmJob)],
) -> Vec<Diagnostic> {
    let mut lacking: BTreeMap<(&str, String), (String, String)> = BTreeMap::new();
    for (of, job) in there.iter().filter(|(of, _)| !of.record.contains(&Outcome::DoesNotFit)) {
        let asks = match &of.corun {
            Some(corun) => together(expansion, &expansion.groups[corun.group.0 as usize]),
            None => of.request,
        };
        if let Some(Impossible { what, help }) = cluster.lacks(job, &asks, of.measured) {
            let step = &*expansion.steps[of.step.index()].name;
            lacking.entry((step, what)).or_insert_with(|| (of.label.to_string(), help));
        }
    }
    let told = |((step, what), (label, help))| (step, "", Diagnostic::new(format!("`{label}`: {what}")).help(help));
    workflow.about(&["slurm", "gpus", "cpus", "memory"], lacking.into_iter().map(told).collect::<Vec<_>>())
}

/// The partition for jobs that name none.
pub(crate) fn usual_partition() -> Option<String> {
    std::env::var(flow_slurm::PARTITION_VAR).ok().filter(|name| !name.is_empty())
}

/// Sets the time limits of all jobs on Slurm, as far as they are known.
pub(crate) fn job_limits(cluster: Option<&Cluster>, expansion: &mut Expansion) {
    // Many instances have the same request.
    let mut of_jobs: HashMap<SlurmJob, [Option<Duration>; 2]> = HashMap::new();
    let mut asked = |of: &Instance| {
        let job = of.slurm.as_deref()?;
        let known = |cluster: &Cluster| [cluster.longest(job), cluster.default_time(job)];
        if !of_jobs.contains_key(job) {
            of_jobs.insert(job.clone(), cluster.map(known).unwrap_or_default());
        }
        let [longest, default_time] = of_jobs[job];
        Some((requested_time(job.time, of.timeout, longest), default_time))
    };
    let limits: Vec<Option<Duration>> = expansion
        .instances
        .iter()
        .map(|of| {
            let members = of.corun.as_ref().map(|corun| &expansion.groups[corun.group.0 as usize].members);
            let alone = [of.id];
            let all = members.map_or(&alone[..], Vec::as_slice).iter().map(|id| &expansion.instances[id.index()]);
            let all: Vec<_> = all.map(&mut asked).collect::<Option<_>>()?;
            let default_time = all.first()?.1;
            longest_of(all.into_iter().map(|(time, _)| time)).or(default_time)
        })
        .collect();
    for (of, limit) in expansion.instances.iter_mut().zip(limits) {
        of.job_limit = limit.map(|limit| Span(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)));
    }
}

/// Errors for partitions that the cluster does not have.
pub(crate) fn unknown_partitions(workflow: &Workflow, expansion: &Expansion, there: &[&str]) -> Vec<Diagnostic> {
    let unknown = |job: &SlurmJob| unknown_partition(job.partition.as_deref()?, there);
    if let Some(Impossible { what, help }) = unknown(&expansion.slurm.job) {
        return workflow.about_slurm("partition", Diagnostic::new(what).help(help));
    }
    let mut found = BTreeMap::new();
    for (of, job) in expansion.instances.iter().filter_map(|of| Some((of, of.slurm.as_deref()?))) {
        let step = &*expansion.steps[of.step.index()].name;
        found.entry((step, job.partition.as_deref())).or_insert_with(|| (&of.label, unknown(job)));
    }
    let told = |((step, _), (label, unknown)): (_, (_, Option<Impossible>))| {
        let Impossible { what, help } = unknown?;
        Some((step, "", Diagnostic::new(format!("`{label}`: {what}")).help(help)))
    };
    workflow.about(&["slurm"], found.into_iter().filter_map(told).collect::<Vec<_>>())
}

/// The request of a group as one job.
fn together(expansion: &Expansion, group: &Group) -> ResourceRequest {
    let members = || group.members.iter().map(|id| &expansion.instances[id.index()].request);
    let gpus = members().map(|request| request.gpus);
    ResourceRequest {
        gpus: if group.gpus == CorunGpus::Shared { gpus.max().unwrap_or(0) } else { gpus.sum() },
        cpus: members().map(|request| request.cpus).sum(),
        memory: members().filter_map(|request| request.memory).reduce(|a, b| a.saturating_add(b)),
        gpu_memory: None,
    }
}

fn misused(option: &str) -> Option<Diagnostic> {
    Some(match flow_slurm::misused(option)? {
        OptionFault::Form => Diagnostic::new(format!("`{option}` is not an option of `sbatch`"))
            .label("expected such as `--constraint=a100`"),
        OptionFault::Key(key) => {
            Diagnostic::new(format!("`{option}` has a key in flow")).help(format!("write `{key}`"))
        }
        OptionFault::Flows => Diagnostic::new(format!("`{option}` is set by flow itself")).help(
            "`gpus`, `cpus`, `memory`, `timeout`, `retries` and `exclusive` of the step set these properties of a job",
        ),
    })
}

/// The folder that all nodes see. The store must be in it.
pub(crate) fn shared(workspace: &Workspace, expansion: &Expansion) -> Result<PathBuf, Diagnostic> {
    let store = workspace.store.canonicalize().unwrap_or_else(|_| workspace.store.clone());
    if let Some(named) = &expansion.slurm.shared {
        let folder = workspace.folder.join(named);
        let folder = folder.canonicalize().map_err(|e| {
            Diagnostic::new(format!("`{}`, which Slurm's nodes should see, does not exist: {e}", folder.display()))
        })?;
        if store.starts_with(&folder) {
            return Ok(folder);
        }
        let what = format!("the store `{}` is not in `{}`, which Slurm's nodes see", store.display(), folder.display());
        return Err(Diagnostic::new(what).help("choose one there with `--store DIR` or FLOW_STORE"));
    }
    let both = store.ancestors().find(|folder| workspace.folder.starts_with(folder)).unwrap_or(Path::new("/"));
    if both.parent().is_some() {
        return Ok(both.to_owned());
    }
    let what = format!(
        "which folder do Slurm's nodes see? The store `{}` and the workflow in `{}` share none",
        store.display(),
        workspace.folder.display()
    );
    Err(Diagnostic::new(what).help("set it: `slurm: {shared: DIR}`"))
}

/// True if a path resolves to a place in a folder. A missing path counts as inside: it is reported elsewhere.
fn is_below(path: &Path, folder: &Path) -> bool {
    path.canonicalize().map_or(true, |path| path.starts_with(folder))
}
