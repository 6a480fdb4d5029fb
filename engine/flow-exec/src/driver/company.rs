//! Who ran beside whom, from when to when, and what the epochs of an attempt that shared its GPUs say of the price of that.
//! Decides nothing.

use std::collections::BTreeSet;

use flow_core::{
    AttemptId, GpuId, GpuSharing, Instance, InstanceId, Outcome, StepResult,
    learn::Alone,
    measure::Told,
    sched::company::{Epoch, Other, at_work, beside},
};

use super::live::{Attempt, Live};

/// Who keeps less of a core busy does not wait for the CPU, however many want it.
const HARDLY_ANY_CPU: f64 = 0.1;

/// Another attempt that ran meanwhile.
pub(super) struct Companion {
    instance: InstanceId,
    /// From when to when, seconds since 1970.
    there: (f64, f64),
    /// When it was in its epochs; known when it has ended.
    at_work: Option<(f64, f64)>,
    /// GPUs that both were on.
    gpus: Vec<GpuId>,
}

impl Live<'_> {
    /// An attempt begins: all who run are in its company, and it in theirs.
    pub(super) fn join_others(&mut self, attempt: AttemptId, running: &mut Attempt) {
        for (&id, other) in self.attempts.iter_mut().filter(|(_, other)| other.process) {
            let both = |gpu: &&GpuId| other.placement.gpus.contains(gpu);
            let gpus: Vec<GpuId> = running.placement.gpus.iter().filter(both).copied().collect();
            let companion = |instance: InstanceId| Companion {
                instance,
                there: (running.began, f64::INFINITY),
                at_work: None,
                gpus: gpus.clone(),
            };
            let (own, others) = (companion(running.instance), companion(other.instance));
            other.company.insert(attempt, own);
            running.company.insert(id, others);
        }
    }

    /// An attempt has ended, and is not among the running any more.
    pub(super) fn leave_others(&mut self, attempt: AttemptId, ended: &Attempt, at: f64) {
        for other in self.attempts.values_mut() {
            if let Some(companion) = other.company.get_mut(&attempt) {
                companion.there.1 = at;
                companion.at_work = work(&ended.listener.told, true);
            }
        }
    }

    /// Labels of those who ran meanwhile, and of those of them who were on its GPUs.
    pub(super) fn company(&self, running: &Attempt) -> (Vec<String>, Vec<String>) {
        let labels = |on_gpu: bool| {
            let company = running.company.values().filter(|other| !on_gpu || !other.gpus.is_empty());
            let ids: BTreeSet<InstanceId> = company.map(|other| other.instance).collect();
            ids.into_iter().map(|id| self.instance(id).label.to_string()).collect()
        };
        (labels(false), labels(true))
    }

    /// Why it shares its GPUs, for people.
    pub(super) fn trial(&self, running: &Attempt) -> String {
        let others = self.company(running).1.join(", ");
        let model = running.circumstances.gpu_models.first().map_or("card", String::as_str);
        let seen = self.history.devices().into_iter().find(|device| device.model == model);
        let so_far = match seen.map_or(0, |device| device.samples) {
            0 => "never measured so far".to_owned(),
            1 => "measured once so far".to_owned(),
            n => format!("measured {n} times so far"),
        };
        format!("shares its GPU with {others} on trial, to see what that costs on {model}: {so_far}")
    }

    /// What an attempt that shared its GPUs, outside of a co-run group, says of the price of that: the time of its epochs
    /// beside unchanging others over that of its epochs alone.
    pub(super) fn told_of_sharing(&self, running: &Attempt, result: &StepResult) -> Option<GpuSharing> {
        let seen = &result.circumstances;
        let shared = running.company.values().any(|other| !other.gpus.is_empty());
        let instance = self.instance(running.instance);
        let told = &running.listener.told;
        if !shared || told.at_once || instance.corun.is_some() || result.outcome != Outcome::Ok {
            return None;
        }
        let model = seen.gpu_models.first()?;
        let alone = |id: InstanceId| self.history.alone(self.instance(id), model);
        let own = alone(running.instance).filter(|own| own.epoch_s > 0.0)?;
        // Others than flow's may have been in the way as well.
        if !seen.strangers.is_empty() || seen.short_of_cpu() && own.cores > HARDLY_ANY_CPU {
            return None;
        }
        let cores = |id: InstanceId| alone(id).map_or(f64::from(self.instance(id).request.cpus), |alone| alone.cores);
        let others = running.company.iter().map(|(&attempt, other)| {
            let runs = self.attempts.get(&attempt);
            Other {
                who: attempt,
                there: other.there,
                at_work: runs.map_or(other.at_work, |other| work(&other.listener.told, false)),
                shares: !other.gpus.is_empty(),
                cores: cores(other.instance),
            }
        });
        let epochs = told.epochs.iter().map(|&(epoch, began, ended)| {
            let took = told.of_epoch(epoch).get("epoch_time").copied().filter(|took| took.is_finite() && *took > 0.0);
            Epoch { began, ended, took: took.unwrap_or(ended - began) }
        });
        let (epochs, others): (Vec<Epoch>, Vec<Other<AttemptId>>) = (epochs.collect(), others.collect());
        let found = beside(&epochs, &others, f64::from(seen.host_cpus) - own.cores)?;
        let company: Vec<(&Companion, Alone)> = found
            .who
            .iter()
            .map(|id| Some((&running.company[id], alone(running.company[id].instance)?)))
            .collect::<Option<_>>()?;
        let busy_on = |gpu: &GpuId| {
            let there = company.iter().filter(|(other, _)| other.gpus.contains(gpu));
            own.busy + there.map(|(_, alone)| alone.busy).sum::<f64>()
        };
        Some(GpuSharing {
            busy: running.placement.gpus.iter().map(busy_on).fold(0.0, f64::max),
            slowdown: found.took / own.epoch_s,
            beside: company.iter().map(|(other, _)| self.instance(other.instance).label.to_string()).collect(),
            epochs: Some(found.epochs),
        })
    }

    fn instance(&self, id: InstanceId) -> &Instance {
        &self.session.expansion.instances[id.index()]
    }
}

/// When a program was in its epochs, as far as it told.
fn work(told: &Told, ended: bool) -> Option<(f64, f64)> {
    let epochs: Vec<(f64, f64)> = told.epochs.iter().map(|&(_, began, ended)| (began, ended)).collect();
    at_work(&epochs, ended).filter(|_| !told.at_once)
}
