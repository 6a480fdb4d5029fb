//! `flow predict --model`: a planned training, on every machine in the store, side by side.

use std::process::ExitCode;

use flow_core::predict::{
    Answer, Ask, Basis, Known, Lack, OnMachine, Part, PartAccuracy, Planned, PredictError, Predicted, Tried,
};
use flow_core::{Foreign, StepResult};
use flow_exec::Knowledge;
use flow_store::{Results, StoreDir};
use serde_json::{Value, json};

use super::{Done, Predict, accuracy, check_prices, far, interval, money, percent, price_of};
use crate::args::Global;
use crate::error::CliError;
use crate::output::{FAINT, NOTE, Output, STRONG, styled};
use crate::place::StoreLocation;
use crate::{place, words};

/// From this factor on, a wider interval is mentioned.
const WIDER: f64 = 1.05;
/// From this CPU use on, other programs are mentioned.
const FOREIGN: f64 = 0.1;
/// From this share of an epoch on, waiting for data is mentioned.
const WAITS: f64 = 0.1;

impl Predict {
    /// With `--model`.
    pub(super) fn plan(&self, model: &str, global: &Global, output: &mut Output) -> Done {
        let ask = Ask {
            model: model.to_owned(),
            batch: self.batch.unwrap_or(1),
            images: self.images.unwrap_or(1),
            epochs: self.epochs.unwrap_or(1),
            gpus: self.selection.gpus.as_deref().map(count).transpose()?,
            size: self.size,
        };
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let known = of_store(&*place::results(&place.store, output)?, &place.store)?;
        let planned = known.plan(&ask).map_err(|wrong| told(&ask, &wrong))?;
        check_prices(&self.price, known.experiments.iter().map(|of| &*of.machine))?;
        let lines = if self.json { objects(&ask, &planned, &self.price) } else { table(&ask, &planned, &self.price) };
        for line in lines {
            output.line(line)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `--gpus` of a training that has not run.
fn count(text: &str) -> Result<u32, CliError> {
    let wrong = || CliError::usage(format!("--gpus {text}: with --model this is a number of GPUs, as in --gpus 1"));
    text.trim().parse().map_err(|_| wrong())
}

/// What results reveal about trainings: own ones and imported ones.
pub(super) fn known(knowledge: &Knowledge) -> Result<Known, CliError> {
    match (knowledge.results(), knowledge.dir()) {
        (Some(results), Some(dir)) => of_store(results, dir),
        _ => Ok(Known::default()),
    }
}

fn of_store(results: &dyn Results, dir: &StoreDir) -> Result<Known, CliError> {
    let own: Vec<StepResult> = results.all()?;
    let imported: Vec<Foreign> = dir.imported(&dir.imports()?)?;
    let theirs = imported.iter().map(|of| (Some(&*of.host), &of.result));
    Ok(Known::of(own.iter().map(|result| (None, result)).chain(theirs)))
}

/// Why no prediction is possible, and what to do.
fn told(ask: &Ask, wrong: &PredictError) -> CliError {
    let Ask { model, batch, images, .. } = ask;
    match wrong {
        PredictError::Nothing => {
            CliError::usage("no undisturbed training was measured yet: no such result has a model, a batch and `images_per_s`")
                .hint("`flow run workflows/fit.yaml` measures some, `flow import FILE` imports those of others, and `exclusive: true` keeps other steps away from a step")
        }
        PredictError::NoModel { near, known } => {
            let error = CliError::usage(format!("`{model}` was neither trained nor profiled"));
            let run = format!("`flow run workflows/compute.yaml --set 'models+={model}'` profiles it");
            match near {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("there are {}; {run}", known.join(", "))),
            }
        }
        PredictError::FewImages => {
            CliError::usage(format!("{} are fewer than a batch of {batch}", words::count(*images as usize, "image")))
                .hint("choose a batch of at most --images")
        }
        PredictError::ManyGpus => CliError::usage(format!(
            "{} cannot share a batch of {batch}: each needs at least one image",
            words::count(ask.gpus.unwrap_or(0) as usize, "GPU")
        )),
        PredictError::NoGpus { ran } => {
            let ran: Vec<String> = ran.iter().map(u32::to_string).collect();
            let (asked, ran) = (ask.gpus.unwrap_or(0), ran.join(", "));
            CliError::usage(format!("--gpus {asked}: all measured trainings used {ran}"))
                .hint("`flow import` imports measurements of other machines")
        }
    }
}

/// The cost per hour of each GPU, or of a machine without GPUs.
fn cost(on: &OnMachine, wall: Predicted, prices: &[(String, f64)]) -> Option<Predicted> {
    let price = price_of(&on.machine, prices)?;
    Some(wall.scaled(price * f64::from(on.gpus.max(1)) / 3600.0))
}

fn off(tried: &[Tried]) -> (f64, usize, f64) {
    accuracy(tried.iter().map(|one| (one.measured, one.predicted))).unwrap_or_default()
}

fn objects(ask: &Ask, planned: &Planned, prices: &[(String, f64)]) -> Vec<String> {
    let object = |on: &OnMachine| {
        let mut object = json!({
            "machine": on.machine, "gpus": on.gpus, "model": ask.model, "batch": ask.batch, "images": ask.images,
            "epochs": ask.epochs, "size": planned.size, "precision": planned.precision,
        });
        let answer = match &on.answer {
            Ok(answer) => answer,
            Err(lack) => {
                object["lacks"] = Value::from(lacks(ask, on, lack));
                return object.to_string();
            }
        };
        let (from, of) = match answer.basis {
            Basis::Ran(points) => ("own", points),
            Basis::Others(models) => ("others", models),
        };
        let (median, inside, _) = off(&answer.tried);
        object["from"] = json!({"what": from, "of": of, "tried": answer.tried.len(), "median_error": median, "inside": inside, "wider": answer.wider});
        let parts = [
            ("wall_s", Some(answer.wall)),
            ("epoch_s", Some(answer.epoch)),
            ("gpu_memory", answer.memory),
            ("energy_j", answer.energy),
            ("cost", cost(on, answer.wall, prices)),
        ];
        for (name, part) in parts {
            object[name] = json!(part.map(|part| part.value));
            object[format!("{name}_low")] = json!(part.map(|part| part.low));
            object[format!("{name}_high")] = json!(part.map(|part| part.high));
        }
        object.to_string()
    };
    planned.machines.iter().map(object).collect()
}

fn table(ask: &Ask, planned: &Planned, prices: &[(String, f64)]) -> Vec<String> {
    let size = planned.size.map(|size| format!(" of {size}×{size}")).unwrap_or_default();
    let precision = if planned.precision.is_empty() { String::new() } else { format!(", {}", planned.precision) };
    let images = words::count(ask.images as usize, "image");
    let epochs = words::count(ask.epochs as usize, "epoch");
    let mut out =
        vec![format!("{}: {epochs} of {images}{size}, batch {}{precision}", styled(STRONG, &ask.model), ask.batch)];
    let ran = |on: &OnMachine| matches!(&on.answer, Ok(Answer { basis: Basis::Ran(_), .. }));
    let model = &ask.model;
    let unfit = if planned.takes_size { "" } else { ", and may not accept such images" };
    match (ask.size, planned.size) {
        (None, Some(size)) if !planned.machines.iter().any(ran) => out.push(styled(
            FAINT,
            format!("most trainings used {size}×{size}; {model} was never trained{unfit}: --size selects another size"),
        )),
        (Some(size), _) if !planned.takes_size => out.push(styled(
            FAINT,
            format!("{model} was neither trained nor profiled with images of {size}×{size}{unfit}"),
        )),
        _ => {}
    }
    let none = || "—".to_owned();
    let cell = |of: Option<Predicted>, word: &dyn Fn(f64) -> String| {
        of.map_or_else(none, |of| interval(Predicted { far: false, ..of }, word))
    };
    let kilowatt_hours = |joules: f64| format!("{} kWh", words::number(joules / 3.6e6));
    let mut rows = vec![["", "time", "an epoch", "memory on each GPU", "energy"].map(str::to_owned).to_vec()];
    if !prices.is_empty() {
        rows[0].push("cost".to_owned());
    }
    for on in &planned.machines {
        let gpus = if on.gpus > 1 { format!("{} x ", on.gpus) } else { String::new() };
        let mut row = vec![format!("  {gpus}{}", on.machine)];
        match &on.answer {
            Err(_) => row.push("unknown".to_owned()),
            Ok(answer) => {
                let far = far(&[Some(answer.wall), answer.memory, answer.energy]);
                row.push(interval(Predicted { far, ..answer.wall }, words::duration));
                row.push(cell(Some(answer.epoch), &words::duration));
                row.push(memory(answer).unwrap_or_else(none));
                row.push(cell(answer.energy, &kilowatt_hours));
                if !prices.is_empty() {
                    row.push(cell(cost(on, answer.wall, prices), &money));
                }
            }
        }
        rows.push(row);
    }
    out.extend(words::columns(&rows));
    out.extend(planned.machines.iter().flat_map(|on| rests(ask, on)));
    out
}

/// Notes whether a GPU has that much memory.
fn memory(answer: &Answer) -> Option<String> {
    let memory = answer.memory?;
    let shown = interval(Predicted { far: false, ..memory }, |bytes| words::bytes(bytes as u64));
    Some(match answer.card.map(|card| card as f64) {
        Some(card) if memory.low > card => format!("{shown}: does not fit"),
        Some(card) if memory.high > card => format!("{shown}: may not fit"),
        _ => shown,
    })
}

/// The basis of an answer, and its reliability.
fn rests(ask: &Ask, on: &OnMachine) -> Vec<String> {
    let answer = match &on.answer {
        Ok(answer) => answer,
        Err(lack) => return vec![format!("{} {}: {}", styled(NOTE, "unknown"), on.machine, lacks(ask, on, lack))],
    };
    let mut said = vec![match answer.basis {
        Basis::Ran(points) => {
            format!("from trainings of {} there, at {}", ask.model, words::count(points as usize, "point"))
        }
        Basis::Others(models) => {
            format!(
                "never trained there; from {} that were, and their computation",
                words::count(models as usize, "other network")
            )
        }
    }];
    let one = if matches!(answer.basis, Basis::Ran(_)) { "point" } else { "network" };
    let (median, inside, _) = off(&answer.tried);
    said.push(match answer.tried.len() {
        0 => format!("too few to test one {one} against the others"),
        n => format!(
            "each {one} predicted from the others: {} off in the middle, {inside} of {n} inside the interval",
            percent(median)
        ),
    });
    if answer.wider > WIDER {
        said.push(format!("so this interval is {:.1} times as wide", answer.wider));
    }
    if let Some(waited) = answer.waited.filter(|waited| *waited > WAITS) {
        said.push(format!("they waited for data for {} of an epoch; other data or CPUs change that", percent(waited)));
    }
    if let Some(foreign) = answer.foreign.filter(|foreign| *foreign > FOREIGN) {
        said.push(format!(
            "others used {} of the CPUs during these runs: expect less time without them",
            percent(foreign)
        ));
    }
    if answer.unvalidated {
        said.push("validation is not included, because no step measured it".to_owned());
    }
    vec![styled(FAINT, format!("{}: {}", on.machine, said.join("; ")))]
}

/// `1 more network`.
fn more(networks: usize) -> String {
    words::count(networks, "more network")
}

fn lacks(ask: &Ask, on: &OnMachine, lack: &Lack) -> String {
    let model = &ask.model;
    let mut todo = Vec::new();
    if lack.count {
        todo.push(format!("`flow run workflows/compute.yaml counted --set 'models=[{model}]'` profiles it in seconds"));
    }
    if let Some((workflow, step, wall)) = &lack.like {
        let long = words::duration(*wall);
        todo.push(format!(
            "a training of {model} there at batch {}, as step `{step}` of workflow `{workflow}`; such runs took {long}",
            ask.batch
        ));
        if lack.models > 0 && lack.models < 3 {
            todo.push(format!("or of {}, {long} each", more(lack.models)));
        }
    }
    let why = match lack.models {
        0 => format!("{model} was not trained on {}", words::count(on.gpus as usize, "GPU")),
        n => format!("it takes {}, profiled and trained there at such a point", more(n)),
    };
    format!("{why}; run {}", todo.join(", "))
}

fn part(part: Part) -> &'static str {
    match part {
        Part::Pace => "time per image",
        Part::Epoch => "epoch beyond training",
        Part::Startup => "start-up",
        Part::End => "end",
        Part::Memory => "GPU memory",
        Part::Power => "power",
    }
}

pub(super) fn held_objects(held: &[PartAccuracy]) -> Vec<String> {
    let one = |of: &PartAccuracy, tried: &Tried| {
        let Predicted { value, low, high, beyond, .. } = tried.predicted;
        json!({
            "machine": of.machine, "quantity": part(of.part), "left_out": if of.whole_models { "network" } else { "point" },
            "model": tried.of, "measured": tried.measured, "predicted": value, "low": low, "high": high, "beyond": beyond,
        })
    };
    held.iter().flat_map(|of| of.tried.iter().map(move |tried| one(of, tried).to_string())).collect()
}

/// The accuracy of the calculator.
pub(super) fn held(held: &[PartAccuracy]) -> Vec<String> {
    if held.is_empty() {
        return Vec::new();
    }
    let mut out = vec![format!(
        "{}: trainings of all workflows, each point and each network predicted from the others",
        styled(STRONG, "--model")
    )];
    let head = ["", "", "left out", "count", "median error", "in the interval", "half-width"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for PartAccuracy { machine, part: of, whole_models, tried } in held {
        let (median, inside, half) = off(tried);
        rows.push(vec![
            format!("  {machine}"),
            part(*of).to_owned(),
            if *whole_models { "a network" } else { "a point" }.to_owned(),
            tried.len().to_string(),
            percent(median),
            format!("{inside} of {}", tried.len()),
            format!("±{}", percent(half)),
        ]);
    }
    out.extend(words::columns(&rows));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::plain;

    #[test]
    fn machines_stand_side_by_side_with_what_each_row_rests_on() {
        let of = |value: f64, off: f64| Predicted {
            value,
            low: value / off,
            high: value * off,
            points: 4,
            beyond: false,
            far: false,
        };
        let tried = |measured: f64| Tried { of: "resnet18".into(), measured, predicted: of(1.0, 1.1) };
        let answer = |basis, wall: f64, gib: f64| Answer {
            basis,
            wall: of(wall, 1.1),
            epoch: of(wall / 30.0, 1.1),
            memory: Some(of(gib * f64::from(1 << 30), 1.25)),
            card: Some(16 << 30),
            energy: None,
            tried: vec![tried(1.02), tried(0.9), tried(1.3)],
            wider: 1.0,
            waited: None,
            foreign: None,
            unvalidated: false,
        };
        let on = |machine: &str, answer| OnMachine { machine: machine.to_owned(), gpus: 2, answer };
        let own = Answer { energy: Some(of(1.8e6, 1.2)), waited: Some(0.31), ..answer(Basis::Ran(4), 1800.0, 6.0) };
        let others = Answer { wider: 2.7, unvalidated: true, ..answer(Basis::Others(3), 18_000.0, 15.0) };
        let lack = Lack { count: false, models: 1, like: Some(("fit".into(), "train".into(), 75.0)) };
        let machines = vec![
            on("NVIDIA H200", Ok(own)),
            on("Tesla T4 (lab5)", Ok(others.clone())),
            on("K80", Ok(Answer { memory: Some(of(f64::from(1 << 30) * 64.0, 1.25)), ..others })),
            on("P100", Err(lack)),
        ];
        let planned = Planned { size: Some(224), takes_size: true, precision: "fp32".into(), machines };
        let ask = Ask { model: "resnet50".into(), batch: 128, images: 60_000, epochs: 30, gpus: Some(2), size: None };
        let lines = table(&ask, &planned, &[("h200".to_owned(), 3.2)]);
        let lines: Vec<String> = lines.iter().map(|line| plain(line).trim_end().to_owned()).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        resnet50: 30 epochs of 60,000 images of 224×224, batch 128, fp32
                               time                                     an epoch                                memory on each GPU                            energy                          cost
          2 x NVIDIA H200      30 min 00 s, 27 min 16 s to 33 min 00 s  1 min 00 s, 55 s to 1 min 06 s          6.0 GiB, 4.8 GiB to 7.5 GiB                   0.5 kWh, 0.4167 kWh to 0.6 kWh  3.20, 2.91 to 3.52
          2 x Tesla T4 (lab5)  5 h 00 min, 4 h 32 min to 5 h 30 min     10 min 00 s, 9 min 05 s to 11 min 00 s  15.0 GiB, 12.0 GiB to 18.8 GiB: may not fit   —                               —
          2 x K80              5 h 00 min, 4 h 32 min to 5 h 30 min     10 min 00 s, 9 min 05 s to 11 min 00 s  64.0 GiB, 51.2 GiB to 80.0 GiB: does not fit  —                               —
          2 x P100             unknown
        NVIDIA H200: from trainings of resnet50 there, at 4 points; each point predicted from the others: 11% off in the middle, 1 of 3 inside the interval; they waited for data for 31% of an epoch; other data or CPUs change that
        Tesla T4 (lab5): never trained there; from 3 other networks that were, and their computation; each network predicted from the others: 11% off in the middle, 1 of 3 inside the interval; so this interval is 2.7 times as wide; validation is not included, because no step measured it
        K80: never trained there; from 3 other networks that were, and their computation; each network predicted from the others: 11% off in the middle, 1 of 3 inside the interval; so this interval is 2.7 times as wide; validation is not included, because no step measured it
        unknown P100: it takes 1 more network, profiled and trained there at such a point; run a training of resnet50 there at batch 128, as step `train` of workflow `fit`; such runs took 1 min 15 s, or of 1 more network, 1 min 15 s each
        ");
    }
}
