//! `flow simulate --arrivals`: random arrivals of kinds of jobs, for several densities, policies
//! and seeds.

use std::path::Path;

use flow_core::{Interval, sched::policy};
use flow_sim::{Cluster, Study, StudyWith, Summary, Use, arrivals};
use serde_json::json;

use super::{DEFAULT, Simulate, bad, text};
use crate::error::CliError;
use crate::output::{FAINT, Output, STRONG, styled};
use crate::words;

pub(super) fn simulate(asked: &Simulate, file: &Path, output: &mut Output) -> Result<(), CliError> {
    let mix = match arrivals::kinds(&text(file)?) {
        Ok(mix) => mix,
        Err(errors) => return bad(file, &errors),
    };
    let wide = asked.policies(&DEFAULT).iter().any(|name| policy::named(name).is_some_and(|p| !p.one_gpu_only()));
    let cluster = Cluster::parse(asked.gpus.as_deref().unwrap_or_default())
        .map_err(|fault| CliError::usage(fault.to_string()))?;
    bad(file, &arrivals::too_wide(&mix, if wide { cluster.total() } else { u32::MAX }))?;
    let head = ["density", "policy", "mean JCT", "P99 JCT", "mean waiting", "makespan", "GPU use", "CPU use"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut on_slurm = Vec::new();
    for &density in &asked.density {
        for policy in asked.policies(&DEFAULT) {
            let with = StudyWith {
                gpus: asked.gpus.clone().unwrap_or_default(),
                cpus: asked.cpus.map(f64::from),
                policy: policy.clone(),
                v: None,
                density: Some(density),
                jobs: asked.jobs,
                mix: mix.clone(),
                trace: None,
                seeds: asked.seeds,
                share: asked.share,
                priorities: 3,
                estimate_error: 0.0,
                slurm: asked.slurm,
            };
            let study = Study::of(&with, None).map_err(|e| CliError::usage(format!("{}: {e}", file.display())))?;
            if asked.json {
                output.json(&object(&study, &policy, density, asked))?;
            } else {
                rows.push(row(&study, &policy, density, asked.cpus.is_some()));
                // The first seed serves as an example.
                let first = study.seeds.first().map(|(summary, _)| summary.clone());
                on_slurm.extend(first.map(|s| Summary { policy: format!("density {density}, {policy}"), ..s }));
            }
        }
    }
    if !asked.json {
        let jobs = styled(STRONG, words::count(asked.jobs, "job"));
        let on = asked.gpus.as_deref().unwrap_or_default();
        output.line(format!(
            "{jobs} of {} on {on} GPUs, {}",
            file.display(),
            words::count(asked.seeds as usize, "seed")
        ))?;
        for line in words::columns(&rows) {
            output.line(format!("  {line}"))?;
        }
        for line in asked.said_of_slurm(&on_slurm) {
            output.line(line)?;
        }
        if asked.seeds > 1 {
            output.line(styled(FAINT, "±: half-width of the 95% confidence interval over seeds"))?;
        }
    }
    Ok(())
}

fn row(study: &Study, policy: &str, density: f64, cpu: bool) -> Vec<String> {
    let time = |value: fn(&Summary, &Use) -> f64| {
        let Interval { mean, half } = study.over(value);
        let half = half.map(|half| format!(" ± {}", words::duration(half))).unwrap_or_default();
        format!("{}{half}", words::duration(mean))
    };
    let share = |value: fn(&Summary, &Use) -> f64| format!("{:.0}%", study.over(value).mean * 100.0);
    vec![
        words::number(density),
        policy.to_owned(),
        time(|s, _| s.mean_time_in_system_s),
        time(|s, _| s.p99_time_in_system_s),
        time(|s, _| s.mean_waiting_s),
        time(|s, _| s.makespan_s),
        share(|_, used| used.gpu),
        if cpu { share(|_, used| used.cpu) } else { "—".to_owned() },
    ]
}

fn object(study: &Study, policy: &str, density: f64, asked: &Simulate) -> serde_json::Value {
    json!({
        "policy": policy,
        "density": density,
        "jobs": asked.jobs,
        "seeds": asked.seeds,
        "makespan_s": study.over(|s, _| s.makespan_s),
        "mean_time_in_system_s": study.over(|s, _| s.mean_time_in_system_s),
        "mean_waiting_s": study.over(|s, _| s.mean_waiting_s),
        "p50_time_in_system_s": study.over(|s, _| s.p50_time_in_system_s),
        "p99_time_in_system_s": study.over(|s, _| s.p99_time_in_system_s),
        "gpu_utilisation": study.over(|s, _| s.gpu_utilisation),
        "gpu_use": study.over(|_, used| used.gpu),
        "cpu_use": asked.cpus.map(|_| study.over(|_, used| used.cpu)),
    })
}
