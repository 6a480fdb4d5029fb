//! `flow predict`: points of a workflow's step.

use std::cmp::Reverse;

use clap::Args;
use flow_core::learn::{HeldOutPoint, Interference, Length, OnModel, PointPrediction, Prediction, Quantity};
use flow_core::predict::PredictedValue;
use flow_core::sched::{Estimate, EstimateSource, OtherParameter};
use flow_core::stats::median;
use flow_core::{Span, Uses};
use flow_exec::CheckedSteps;
use serde_json::{Value, json};

use super::{CommandResult, imported};
use crate::args::{Global, Selection, WorkflowArg};
use crate::error::CliError;
use crate::output::{FAINT, Output, STRONG, styled};
use crate::reasons::{estimate_source, ran_otherwise};
use crate::{place, words};

/// Arguments of `flow predict`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow predict solo                        every instance of the step
  flow predict solo/batch=48               a point that has not run, at every value of the other axes
  flow predict 'solo[version=v7,batch=48]'
  flow predict --check                     the errors of predictions, on points that have run
  flow predict train/model=resnet50,batch=128 --images 60000 --epochs 30 --price H200=3.2/h
                                           on each GPU model that the step ran on: time, memory, energy and cost

A prediction uses all points of the step that have run, along all axes at once. It treats start-up, epochs and end \
separately, and learns whether an epoch takes its time per image or per iteration. About nine of ten measurements are \
inside the interval. After an edit of a step, earlier runs count as far as new runs show the effect of the edit. Imported \
results count only in tables of machines side by side.

--check predicts each point from the others, between them and up to twice as far; of more than 100 points every second, \
third, … one. --json prints one object per point; with --check one per quantity of a point.")]
pub(crate) struct Predict {
    /// A step, or STEP/AXIS=VALUE,…
    #[arg(value_name = "STEP/POINT")]
    point: Option<String>,
    #[command(flatten)]
    about: WorkflowArg,
    #[command(flatten)]
    selection: Selection,
    /// Predict for the machine of an imported run, from its measurements
    #[arg(long, value_name = "ID", conflicts_with_all = ["gpus", "on"])]
    run: Option<String>,
    /// Predict every point that has run from the others, for one step or all, and print the errors
    #[arg(long)]
    check: bool,
    /// On each GPU model that it ran on, with this number of epochs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "check")]
    epochs: Option<u32>,
    /// On each GPU model that it ran on, with this number of images per epoch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "check")]
    images: Option<u64>,
    /// Cost per hour of a GPU whose model contains this name: H200=3.2/h; may be repeated, the
    /// longest name counts
    #[arg(long, value_name = "MODEL=PRICE", value_parser = price, conflicts_with = "check")]
    price: Vec<(String, f64)>,
    /// One JSON object per point
    #[arg(long)]
    json: bool,
}

/// `H200=3.2/h`.
fn price(text: &str) -> Result<(String, f64), String> {
    let read = || {
        let (model, price) = text.split_once('=')?;
        let price: f64 = price.trim().trim_end_matches("/h").trim().parse().ok()?;
        (!model.trim().is_empty() && price.is_finite() && price >= 0.0).then(|| (model.trim().to_owned(), price))
    };
    read().ok_or_else(|| "expected a part of a GPU model's name and a cost per hour, as in H200=3.2/h".to_owned())
}

impl Predict {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let named = self.about.workflow.as_deref();
        let (session, knowledge) =
            match imported::imported_session(global, self.run.as_deref(), named, &self.selection, output)? {
                Some(there) => there,
                None => {
                    let mut request = place::session(global, &self.about, &self.selection, output)?;
                    // For results from other machines, the prediction is the measurement there.
                    request.any_machine = true;
                    let session = place::open(&request, output)?;
                    let knowledge = place::knowledge(&session, output)?;
                    (session, knowledge)
                }
            };
        if self.check {
            let checked = flow_exec::check(&session, &knowledge, self.point.as_deref())?;
            return self.print(|| objects_checked(&checked.steps), || render_checked(&checked), output);
        }
        let Some(point) = &self.point else {
            let steps = session.expansion.steps.iter().filter(|step| !matches!(step.uses, Uses::Builtin(_)));
            let steps: Vec<&str> = steps.map(|step| &*step.name).collect();
            return Err(CliError::usage("name a step, as in `flow predict STEP`")
                .hint(format!("this workflow has {}", words::named(&steps))));
        };
        if self.epochs.is_some() || self.images.is_some() || !self.price.is_empty() {
            let length = Length { epochs: self.epochs, images: self.images };
            let points = flow_exec::on_each_model(&session, &knowledge, point, length)?;
            let models = points.iter().flat_map(|(_, models)| models).map(|on| &*on.model);
            check_prices(&self.price, models)?;
            let lines = || render_on_models(&points, self.images, &self.price);
            return self.print(|| objects_on_models(&points, &self.price), lines, output);
        }
        let (predictions, devices) = flow_exec::predict(&session, &knowledge, point)?;
        if predictions.iter().all(|of| of.estimate.duration.is_none()) {
            imported::remind(&session, output)?;
        }
        self.print(|| predictions.iter().map(object).collect(), || render(&predictions, &devices), output)
    }

    fn print(
        &self,
        objects: impl FnOnce() -> Vec<Value>,
        lines: impl FnOnce() -> Vec<String>,
        output: &mut Output,
    ) -> CommandResult {
        match self.json {
            true => objects().iter().try_for_each(|object| output.json(object))?,
            false => output.lines(lines())?,
        }
        Ok(())
    }
}

fn objects_checked(checked: &[(String, Vec<HeldOutPoint>)]) -> Vec<Value> {
    let all = checked.iter().flat_map(|(step, points)| points.iter().map(move |one| (step, one)));
    let object = |(step, HeldOutPoint { point, quantity, measured, predicted }): (&String, &HeldOutPoint)| {
        json!({
            "step": step,
            "axes": point,
            "quantity": name(*quantity),
            "measured": measured,
            "predicted": predicted.value,
            "low": predicted.low,
            "high": predicted.high,
            "beyond": predicted.beyond,
        })
    };
    all.map(object).collect()
}

fn object(prediction: &Prediction) -> Value {
    let Prediction { label, estimate, expected, cpu_work } = prediction;
    let seconds = |span: Option<Span>| span.map(Span::as_secs_f64);
    let mut object = json!({
        "instance": label,
        "source": estimate_source(estimate),
        "samples": estimate.samples,
        "wall_s": seconds(estimate.duration),
        "wall_low_s": seconds(estimate.range.map(|range| range.0)),
        "wall_high_s": seconds(estimate.range.map(|range| range.1)),
        "gpu_memory_reserved": estimate.gpu_memory,
        "gpu_busy_whole": expected.gpu_busy_whole.map(|busy| busy.value),
        "cpu_cores": estimate.cpu_milli.map(|milli| f64::from(milli) / 1e3),
        "cpu_work_core_s": cpu_work.map(|(work, _)| work),
        "cpu_work_samples": cpu_work.map(|(_, samples)| samples),
    });
    let PointPrediction { startup, epoch, end, gpu_memory, gpu_busy, .. } = expected;
    let parts = [("startup", "_s", startup), ("epoch", "_s", epoch), ("end", "_s", end)];
    for (name, unit, part) in parts.into_iter().chain([("gpu_memory", "", gpu_memory), ("gpu_busy", "", gpu_busy)]) {
        object[format!("{name}{unit}")] = json!(part.map(|part| part.value));
        object[format!("{name}_low{unit}")] = json!(part.map(|part| part.low));
        object[format!("{name}_high{unit}")] = json!(part.map(|part| part.high));
    }
    object
}

/// The expected value, with its interval and its basis: `about 41 s, 35 s to 48 s (3 runs of …)`.
pub(crate) fn takes(estimate: &Estimate) -> Option<String> {
    let about = words::duration(estimate.duration?.as_secs_f64());
    let range = estimate.range.map(|(low, high)| [low, high].map(|span| words::duration(span.as_secs_f64())));
    let range = range.filter(|[low, high]| low != high).map(|[low, high]| format!(", {low} to {high}"));
    Some(format!("about {about}{} ({})", range.unwrap_or_default(), estimate_source(estimate)))
}

/// `2.67`; below a tenth, three digits: `0.000270`.
fn money(of: f64) -> String {
    let digits = if of > 0.0 && of < 0.1 { (2.0 - of.log10().floor()).min(12.0) as usize } else { 2 };
    format!("{of:.digits$}")
}

/// `5.3 s, 4.5 s to 6.2 s`.
fn interval(of: PredictedValue, word: impl Fn(f64) -> String) -> String {
    let [value, low, high] = [of.value, of.low, of.high].map(word);
    let far = if of.far { ", too far from the measured points to be reliable" } else { "" };
    if low == high { format!("{value}{far}") } else { format!("{value}, {low} to {high}{far}") }
}

/// Why nothing is known, and how to name a training of another length.
fn unknown(estimate: &Estimate) -> String {
    if let EstimateSource::Instance { .. } = estimate.source {
        let runs = estimate_source(estimate);
        return format!("the time is unknown: {runs}, a part of which was not measured");
    }
    let longer = match &estimate.source {
        EstimateSource::Otherwise(OtherParameter { name, is, .. }) if name == "epochs" => {
            format!("; use --epochs {is} instead of changing it")
        }
        _ => String::new(),
    };
    format!("nothing is known: {}{longer}", estimate_source(estimate))
}

fn render(predictions: &[Prediction], devices: &[Interference]) -> Vec<String> {
    let mut out = Vec::new();
    for Prediction { label, estimate, expected, cpu_work } in predictions {
        let whole = takes(estimate).unwrap_or_else(|| unknown(estimate));
        out.push(format!("{}: {whole}", styled(STRONG, label)));
        let time = |what: &str, of: Option<PredictedValue>| Some(format!("{what} {}", interval(of?, words::duration)));
        let times = [
            time("start-up", expected.startup.filter(|_| expected.epoch.is_some())),
            time("an epoch", expected.epoch),
            time("end", expected.end.filter(|end| end.high >= 0.1)),
        ];
        let memory = expected
            .gpu_memory
            .map(|memory| format!("{} on each GPU", interval(memory, |bytes| words::bytes(bytes as u64))));
        let busy = expected.gpu_busy.map(|busy| format!("GPU busy {}", interval(busy, percent)));
        let cores = estimate.cpu_milli.map(|milli| format!("{:.1} cores", f64::from(milli) / 1e3));
        let work = cpu_work.map(|(work, samples)| {
            let runs = words::count(samples as usize, "run");
            format!("CPU work of its dataset {work:.1} core-seconds per epoch, from {runs}")
        });
        let lines: [Vec<String>; 2] =
            [times.into_iter().flatten().collect(), [memory, busy, cores, work].into_iter().flatten().collect()];
        out.extend(lines.iter().filter(|parts| !parts.is_empty()).map(|parts| format!("  {}", parts.join("; "))));
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

/// Whether this is a part of a machine's hardware or its name, `NVIDIA H200 (lab5)`, in any
/// spelling.
fn is_priced(machine: &str, part: &str) -> bool {
    let (machine, part) = (machine.to_lowercase(), part.to_lowercase());
    let (what, host) = machine.strip_suffix(')').and_then(|name| name.rsplit_once(" (")).unwrap_or((&machine, ""));
    what.contains(&part) || host == part || part.contains('(') && machine.contains(&part)
}

/// Each price must match a machine, and each machine at most one price.
fn check_prices<'m>(prices: &[(String, f64)], machines: impl Iterator<Item = &'m str> + Clone) -> Result<(), CliError> {
    let known = |name: &str| machines.clone().any(|machine| is_priced(machine, name));
    for machine in machines.clone() {
        let mut of: Vec<_> = prices.iter().filter(|(part, _)| is_priced(machine, part)).collect();
        of.sort_by_key(|(part, _)| Reverse(part.len()));
        if let [(part, price), (other, another), ..] = &of[..]
            && part.len() == other.len()
            && price != another
        {
            let error = format!("--price {part}={price} and --price {other}={another} both match {machine}");
            return Err(CliError::usage(error).hint("give a longer part of one name: the longest match counts"));
        }
    }
    let Some((unknown, _)) = prices.iter().find(|(name, _)| !known(name)) else { return Ok(()) };
    let error = CliError::usage(format!("--price {unknown}: nothing has run on such a machine"));
    let mut names: Vec<&str> = machines.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Err(error.hint("nothing has run on a GPU yet, and a price needs a GPU model with a run"));
    }
    let words = names.iter().flat_map(|name| name.split(' ')).collect::<Vec<_>>();
    Err(match flow_core::nearest(unknown, words.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`? there are {}", names.join(", "))),
        None => error.hint(format!("there are {}", names.join(", "))),
    })
}

/// The cost of the GPUs for that time. Of several prices, the one with the longest matching name counts.
fn cost(on: &OnModel, prices: &[(String, f64)]) -> Option<PredictedValue> {
    let of = prices.iter().filter(|(part, _)| is_priced(&on.model, part));
    let (_, price) = of.max_by_key(|(part, _)| part.len())?;
    Some(on.wall.scaled(price * f64::from(on.gpus.max(1)) / 3600.0))
}

fn objects_on_models(points: &[(String, Vec<OnModel>)], prices: &[(String, f64)]) -> Vec<Value> {
    let all = points.iter().flat_map(|(label, models)| models.iter().map(move |on| (label, on)));
    let object = |(label, on): (&String, &OnModel)| {
        let mut object = json!({"instance": label, "gpu_model": on.model, "gpus": on.gpus, "epochs": on.epochs});
        let parts = [
            ("wall_s", Some(on.wall)),
            ("epoch_s", Some(on.epoch)),
            ("gpu_memory", on.gpu_memory),
            ("energy_j", on.energy),
            ("cost", cost(on, prices)),
        ];
        for (name, part) in parts {
            object[name] = json!(part.map(|part| part.value));
            object[format!("{name}_low")] = json!(part.map(|part| part.low));
            object[format!("{name}_high")] = json!(part.map(|part| part.high));
        }
        object
    };
    all.map(object).collect()
}

/// A row per point and GPU model.
fn render_on_models(points: &[(String, Vec<OnModel>)], images: Option<u64>, prices: &[(String, f64)]) -> Vec<String> {
    let mut out = Vec::new();
    for (label, models) in points {
        let Some(first) = models.first() else { continue };
        let of = images.map(|images| format!(" of {} images", words::thousands(images as usize))).unwrap_or_default();
        let epochs = words::count(first.epochs as usize, "epoch");
        out.push(format!("{}: {epochs}{of}", styled(STRONG, label)));
        let bytes = |bytes: f64| words::bytes(bytes as u64);
        let kilowatt_hours = |joules: f64| format!("{} kWh", words::number(joules / 3.6e6));
        let cell = |of: Option<PredictedValue>, word: &dyn Fn(f64) -> String| {
            of.map_or("?".to_owned(), |of| interval(PredictedValue { far: false, ..of }, word))
        };
        let mut rows = vec![["", "time", "an epoch", "memory on each GPU", "energy"].map(str::to_owned).to_vec()];
        rows.extend(models.iter().map(|on| {
            // A row with an unreliable value says so once.
            let far = [Some(on.wall), on.gpu_memory, on.energy].iter().flatten().any(|of| of.far);
            vec![
                match (on.gpus, &*on.model) {
                    (_, "") => "  without a GPU".to_owned(),
                    (0 | 1, model) => format!("  {model}"),
                    (gpus, model) => format!("  {gpus} x {model}"),
                },
                interval(PredictedValue { far, ..on.wall }, words::duration),
                cell(Some(on.epoch), &words::duration),
                cell(on.gpu_memory, &bytes),
                cell(on.energy, &kilowatt_hours),
            ]
        }));
        if !prices.is_empty() {
            rows[0].push("cost".to_owned());
            rows.iter_mut().skip(1).zip(models).for_each(|(row, on)| row.push(cell(cost(on, prices), &money)));
        }
        out.extend(words::columns(&rows));
    }
    out
}

/// The median error of predictions for these measurements, how many are inside their interval, and
/// the median half-width.
fn accuracy(of: impl Iterator<Item = (f64, PredictedValue)>) -> Option<(f64, usize, f64)> {
    let of: Vec<(f64, PredictedValue)> = of.collect();
    let error = median(of.iter().map(|(measured, predicted)| (predicted.value / measured - 1.0).abs()).collect())?;
    let half = median(of.iter().map(|(_, predicted)| (predicted.high / predicted.low).sqrt() - 1.0).collect())?;
    let inside = of.iter().filter(|(measured, predicted)| (predicted.low..=predicted.high).contains(measured)).count();
    Some((error, inside, half))
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Wall => "wall time",
        Quantity::Startup => "start-up",
        Quantity::Epoch => "epoch time",
        Quantity::GpuMemory => "GPU memory",
        Quantity::GpuBusy => "GPU busy",
    }
}

/// A row per step and quantity, between the points and beyond them.
fn render_checked(checked: &CheckedSteps) -> Vec<String> {
    let mut out: Vec<String> = checked
        .otherwise
        .iter()
        .map(|(step, how)| format!("{}: {}", styled(STRONG, step), ran_otherwise(how)))
        .collect();
    if checked.steps.is_empty() {
        out.insert(0, "nothing to check: no step has run at three or more points".to_owned());
        return out;
    }
    for (step, checked) in &checked.steps {
        out.push(format!(
            "{}: each point that has run, predicted from the others; each end of an axis, from all other values",
            styled(STRONG, step)
        ));
        let mut rows =
            vec![["", "", "points", "median error", "in the interval", "half-width"].map(str::to_owned).to_vec()];
        for (quantity, beyond) in Quantity::ALL.into_iter().flat_map(|quantity| [(quantity, false), (quantity, true)]) {
            let of = checked.iter().filter(|one| one.quantity == quantity && one.predicted.beyond == beyond);
            let of: Vec<&HeldOutPoint> = of.collect();
            if let Some((error, inside, width)) = accuracy(of.iter().map(|one| (one.measured, one.predicted))) {
                rows.push(vec![
                    format!("  {}", name(quantity)),
                    if beyond { "an octave beyond" } else { "between them" }.to_owned(),
                    of.len().to_string(),
                    percent(error),
                    format!("{inside} of {}", of.len()),
                    format!("±{}", percent(width)),
                ]);
            }
        }
        out.extend(words::columns(&rows));
    }
    out
}

#[cfg(test)]
mod tests;
