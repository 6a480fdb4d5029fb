//! The set-up of plugins and environments before a run.

use std::{cell::RefCell, collections::BTreeSet, fs::File, future::poll_fn, pin::Pin, task::Poll};

use flow_core::{Digest, EnvironmentProvider, InstanceId, plan::Plan};
use flow_runs::StoreDir;
use nix::fcntl::Flock;
use tokio::runtime::Runtime;

use super::start;
use crate::{
    ExecError,
    driver::{
        plan::Knowledge,
        session::{Session, plugin_of},
        updates::Update,
    },
    plugins::{self, Plugin},
    uv_environments::Make,
};

/// A set-up in progress; returns whether anything had to be done.
type SetUp<'a> = dyn Future<Output = Result<bool, plugins::PluginError>> + 'a;

/// Sets up the plugins whose steps may run, once for each digest. In parallel, because one downloads while another
/// compiles. Returns whether anything had to be done.
pub(crate) fn set_up(
    event_loop: &Runtime,
    session: &Session,
    plan: &Plan,
    dir: &StoreDir,
    observe: &mut dyn FnMut(Update),
) -> Result<bool, ExecError> {
    session.check_slurm(plan)?;
    let (keeper, secrets) = (start::exe()?, session.secrets());
    let observe = RefCell::new(observe);
    let mut begun: Vec<Pin<Box<SetUp<'_>>>> = Vec::new();
    for (plugin, digest) in plugins_of(session, plan) {
        let (record, keeper, secrets, observe) = (dir.plugin(plugin.name()), &keeper, &secrets, &observe);
        begun.push(Box::pin(async move {
            let mut said = |progress: plugins::Progress<'_>| {
                (observe.borrow_mut())(progressed("plugin", plugin.name(), progress));
            };
            plugins::Setup { plugin, digest, record: &record, keeper, secrets }.ensure(&mut said).await
        }));
    }
    let mut done = false;
    // The first failure ends the others: dropping a set-up ends its command.
    let all = poll_fn(|task| {
        let mut failed = None;
        begun.retain_mut(|setup| match setup.as_mut().poll(task) {
            Poll::Pending => true,
            Poll::Ready(Ok(did)) => {
                done |= did;
                false
            }
            Poll::Ready(Err(error)) => {
                failed.get_or_insert(error);
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if begun.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    });
    event_loop.block_on(all)?;
    Ok(done)
}

/// The plugins that the next run sets up first.
pub fn to_set_up<'s>(session: &'s Session, knowledge: &Knowledge, plan: &Plan) -> Vec<&'s str> {
    let record = |name: &str| knowledge.dir().map(|dir| dir.plugin(name)).unwrap_or_default();
    let needed = |(plugin, digest): &(&Plugin, Digest)| plugins::needs_setup(plugin, *digest, &record(plugin.name()));
    plugins_of(session, plan).into_iter().filter(needed).map(|(plugin, _)| plugin.name()).collect()
}

/// The plugins whose steps may run, and the digests of their content.
fn plugins_of<'s>(session: &'s Session, plan: &Plan) -> Vec<(&'s Plugin, Digest)> {
    let may_run = plan.items.iter().filter(|item| item.state.may_run());
    let names: BTreeSet<&str> = may_run.filter_map(|item| plugin_of(session, item.id)).collect();
    let used = session.plugins.iter().filter(|plugin| names.contains(plugin.name()));
    used.filter_map(|plugin| Some((plugin, session.catalogue.plugins.get(plugin.name())?.digest))).collect()
}

fn progressed(kind: &'static str, name: &str, progress: plugins::Progress<'_>) -> Update {
    let line = match progress {
        plugins::Progress::Waiting => "another flow is setting it up; waiting".to_owned(),
        plugins::Progress::Command(command) => format!("$ {command}"),
        plugins::Progress::Line(line) => line.to_owned(),
    };
    Update::Setup { kind, name: name.to_owned(), line }
}

/// Makes the environments of these instances that uv makes and that do not exist. The locks keep them until the run ends.
pub(crate) fn make_environments(
    event_loop: &Runtime,
    session: &Session,
    wanted: &[InstanceId],
    dir: &StoreDir,
    observe: &mut dyn FnMut(Update),
) -> Result<Vec<Flock<File>>, ExecError> {
    let missing = [session.missing_environments(wanted), session.without_apptainer(wanted)].concat();
    if !missing.is_empty() {
        return Err(session.wrong(missing));
    }
    let (keeper, secrets) = (start::exe()?, session.secrets());
    let mut locks = Vec::new();
    let declared = session.environments_of(wanted).into_iter();
    for declared in declared.filter(|declared| declared.provider == EnvironmentProvider::Uv) {
        let name = &declared.name;
        let record = dir.plugin(&format!("environment-{name}"));
        let make = Make { declared, project: session.project(declared), keeper: &keeper, record, secrets: &secrets };
        let mut said = |progress: plugins::Progress<'_>| observe(progressed("environment", name, progress));
        locks.push(event_loop.block_on(make.ensure(&mut said))?);
    }
    Ok(locks)
}
