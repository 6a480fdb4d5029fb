//! `flow predict`.

use std::process::ExitCode;

use clap::Args;
use flow_core::Span;
use flow_core::learn::{Interference, Prediction};
use flow_core::sched::Estimate;
use flow_exec::Session;
use serde_json::json;

use super::Done;
use crate::args::{About, Global, Selection};
use crate::output::{FAINT, Output, STRONG, styled};
use crate::{place, words};

/// Arguments of `flow predict`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow predict solo                        every instance of the step
  flow predict solo/batch=48               a point that has not run, at every other value of the other axes
  flow predict 'solo[version=v7,batch=48]'

What has not run is predicted along one number from points of the step that have: the time of an iteration grows with
the batch and never falls below a floor, memory grows; nine of ten are expected inside the interval. With --json there
is one object a point.")]
pub(crate) struct Predict {
    /// A step, or STEP/AXIS=VALUE,…
    #[arg(value_name = "STEP/POINT")]
    point: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    selection: Selection,
    /// One JSON object a point
    #[arg(long)]
    json: bool,
}

impl Predict {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let request = place::session(global, &self.about, &self.selection)?;
        let session = Session::open(&request, &crate::builtins::Steps::new())?;
        let knowledge = place::knowledge(&session, output)?;
        let (predictions, devices) = flow_exec::predict(&session, &knowledge, &self.point)?;
        if self.json {
            for prediction in &predictions {
                output.json(&object(prediction))?;
            }
        } else {
            for line in render(&predictions, &devices) {
                output.line(line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn object(prediction: &Prediction) -> serde_json::Value {
    let Prediction { label, estimate, epoch, cpu_work } = prediction;
    let seconds = |span: Option<Span>| span.map(Span::as_secs_f64);
    json!({
        "instance": label,
        "source": estimate.source,
        "samples": estimate.samples,
        "wall_s": seconds(estimate.duration),
        "wall_low_s": seconds(estimate.range.map(|range| range.0)),
        "wall_high_s": seconds(estimate.range.map(|range| range.1)),
        "epoch_s": epoch.map(|epoch| epoch.value),
        "epoch_low_s": epoch.map(|epoch| epoch.low),
        "epoch_high_s": epoch.map(|epoch| epoch.high),
        "gpu_memory": estimate.gpu_memory,
        "gpu_busy": estimate.gpu_busy_milli.map(|milli| f64::from(milli) / 1e3),
        "cpu_cores": estimate.cpu_milli.map(|milli| f64::from(milli) / 1e3),
        "cpu_work_core_s": cpu_work.map(|(work, _)| work),
        "cpu_work_samples": cpu_work.map(|(_, samples)| samples),
    })
}

/// What is expected to be taken, with the interval and where it comes from: `about 41 s, 35 s to 48 s (3 runs of …)`.
pub(crate) fn takes(estimate: &Estimate) -> Option<String> {
    let about = words::duration(estimate.duration?.as_secs_f64());
    let range = estimate.range.map(|(low, high)| [low, high].map(|span| words::duration(span.as_secs_f64())));
    let range = range.filter(|[low, high]| low != high).map(|[low, high]| format!(", {low} to {high}"));
    Some(format!("about {about}{} ({})", range.unwrap_or_default(), estimate.source))
}

fn render(predictions: &[Prediction], devices: &[Interference]) -> Vec<String> {
    let mut out = Vec::new();
    for Prediction { label, estimate, epoch, cpu_work } in predictions {
        let whole = takes(estimate).unwrap_or_else(|| format!("nothing is known: {}", estimate.source));
        out.push(format!("{}: {whole}", styled(STRONG, label)));
        let mut parts = Vec::new();
        if let Some(epoch) = epoch {
            let [value, low, high] = [epoch.value, epoch.low, epoch.high].map(words::duration);
            let far = if epoch.far { ", too far from what was measured to rely on" } else { "" };
            parts.push(format!("an epoch {value}, {low} to {high}{far}"));
        }
        parts.extend(estimate.gpu_memory.map(|bytes| format!("{} on each GPU", words::bytes(bytes))));
        parts.extend(estimate.gpu_busy_milli.map(|milli| format!("GPU busy {} %", milli / 10)));
        parts.extend(estimate.cpu_milli.map(|milli| format!("{:.1} cores", f64::from(milli) / 1e3)));
        if let Some((work, samples)) = cpu_work {
            let runs = words::count(*samples as usize, "run");
            parts.push(format!("CPU work of its dataset {work:.1} core-seconds an epoch, from {runs}"));
        }
        if !parts.is_empty() {
            out.push(format!("  {}", parts.join("; ")));
        }
    }
    let mut told: Vec<&str> = Vec::new();
    for device in devices {
        if !told.contains(&&*device.model) {
            told.push(&device.model);
            let from = match device.samples {
                0 => "never measured".to_owned(),
                n => format!("from {}", words::count(n as usize, "measurement")),
            };
            let line = format!("{}: sharing costs 1 + {:.2}·(Σ busy − 1), {from}", device.model, device.coefficient);
            out.push(styled(FAINT, line));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use flow_core::predict::{Curve, Fit};

    use super::*;

    #[test]
    fn a_prediction_says_how_sure_it_is() {
        let fit = Fit::of(Curve::PerItem, &[(16.0, 46.4), (32.0, 29.5), (64.0, 21.9)]);
        let epoch = fit.and_then(|fit| fit.at(48.0));
        let seconds = |s: f64| Span::from_secs_f64(s);
        let estimate = Estimate {
            duration: Some(seconds(95.0)),
            range: Some((seconds(77.0), seconds(118.0))),
            gpu_memory: Some(6 << 30),
            gpu_busy_milli: Some(810),
            cpu_milli: Some(2_340),
            timed_alone: true,
            samples: 3,
            source: "3 runs of its step at other points of `batch`".to_owned(),
        };
        let prediction = Prediction { label: "solo[batch=48]".to_owned(), estimate, epoch, cpu_work: Some((58.31, 4)) };
        let never = Prediction {
            label: "other".to_owned(),
            estimate: Estimate { source: "never ran".to_owned(), ..Estimate::default() },
            epoch: None,
            cpu_work: None,
        };
        let device = |samples| Interference { model: "TITAN Xp".to_owned(), coefficient: 1.0, samples };
        let lines = render(&[prediction, never], &[device(0), device(0)]);
        let plain: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
        insta::assert_snapshot!(plain.join("\n"), @r"
        solo[batch=48]: about 1 min 35 s, 1 min 17 s to 1 min 58 s (3 runs of its step at other points of `batch`)
          an epoch 24 s, 20 s to 31 s; 6.0 GiB on each GPU; GPU busy 81 %; 2.3 cores; CPU work of its dataset 58.3 core-seconds an epoch, from 4 runs
        other: nothing is known: never ran
        TITAN Xp: sharing costs 1 + 1.00·(Σ busy − 1), never measured
        ");
    }
}
