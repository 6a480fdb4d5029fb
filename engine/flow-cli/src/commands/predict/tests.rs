//! What predictions look like: how sure, on which machines, at what cost, and how far off they were.

use flow_core::predict::repeated;
use flow_core::sched::Distance;

use super::*;

#[test]
fn a_prediction_says_how_sure_it_is() {
    let seconds = |s: f64| Span::from_secs_f64(s);
    let estimate = Estimate {
        duration: Some(seconds(95.0)),
        range: Some((seconds(77.0), seconds(118.0))),
        startup: Some(seconds(9.0)),
        gpu_memory: Some(6 << 30),
        gpu_busy_milli: Some(810),
        cpu_milli: Some(2_340),
        timed_alone: true,
        samples: 3,
        source: EstimateSource::Points {
            axes: vec!["batch".to_owned()],
            distance: Distance::Among,
            changed: false,
            outdated: false,
            disturbed: 0,
        },
    };
    let of = |value: f64, off: f64| {
        let known = repeated(&[value]).map(|of| PredictedValue { low: value / off, high: value * off, ..of });
        known.map(|of| PredictedValue { value, ..of })
    };
    let expected = PointPrediction {
        startup: of(9.0, 1.1),
        epoch: of(24.3, 1.2),
        end: of(0.02, 1.5),
        gpu_memory: of(f64::from(6 << 20) * 1024.0, 1.25),
        gpu_busy: of(0.81, 1.0),
        ..PointPrediction::default()
    };
    let prediction = Prediction { label: "solo[batch=48]".to_owned(), estimate, expected, cpu_work: Some((58.31, 4)) };
    let never = Prediction {
        label: "other".to_owned(),
        estimate: Estimate::default(),
        expected: PointPrediction::default(),
        cpu_work: None,
    };
    let device = |samples| Interference { model: "TITAN Xp".to_owned(), coefficient: 1.0, samples };
    let lines = render(&[prediction, never], &[device(0), device(0)]);
    let plain: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
    insta::assert_snapshot!(plain.join("\n"), @r"
    solo[batch=48]: about 1 min 35 s, 1 min 17 s to 1 min 58 s (3 runs of its step at other points of `batch`)
      start-up 9.0 s, 8.2 s to 9.9 s; an epoch 24 s, 20 s to 29 s
      6.0 GiB, 4.8 GiB to 7.5 GiB on each GPU; GPU busy 81%; 2.3 cores; CPU work of its dataset 58.3 core-seconds per epoch, from 4 runs
    other: nothing is known: never ran
    TITAN Xp: sharing costs 1 + 1.00·(Σ busy − 1), never measured
    ");
}

fn plain_text(lines: &[String]) -> String {
    crate::terminal::plain(&lines.join("\n")).to_string()
}

#[test]
fn machines_stand_side_by_side_with_what_they_cost() {
    let of = |value: f64| PredictedValue {
        value,
        low: 0.9 * value,
        high: 1.1 * value,
        points: 4,
        beyond: false,
        far: false,
    };
    let on = |model: &str, wall: f64, energy: Option<f64>| OnModel {
        model: model.to_owned(),
        gpus: 2,
        epochs: 30,
        wall: of(wall),
        epoch: of(wall / 30.0),
        gpu_memory: Some(of(f64::from(6 << 20) * 1024.0)),
        energy: energy.map(of),
    };
    let points = [("t[batch=8]".to_owned(), vec![on("H200", 1800.0, Some(1.8e6)), on("T4", 18_000.0, None)])];
    let prices = [price("H200=3.2/h").unwrap()];
    let lines = render_on_models(&points, Some(60_000), &prices);
    let plain: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
    let cells = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plain[0], "t[batch=8]: 30 epochs of 60,000 images");
    assert_eq!(cells(&plain[1]), ["time", "an epoch", "memory on each GPU", "energy", "cost"]);
    let h200 = "2 x H200|30 min 00 s, 27 min 00 s to 33 min 00 s|1 min 00 s, 54 s to 1 min 06 s|6.0 GiB, 5.4 GiB to 6.6 GiB|0.5 kWh, 0.45 kWh to 0.55 kWh|3.20, 2.88 to 3.52";
    assert_eq!(cells(&plain[2]).join("|"), h200);
    assert_eq!(cells(&plain[3])[4..], ["?", "?"]);
    let object = &objects_on_models(&points, &prices)[0];
    assert_eq!((&object["gpu_model"], &object["cost"]), (&json!("H200"), &json!(3.2)));
    assert_eq!([2.67, 2.704e-4, 0.0048, 0.0].map(money), ["2.67", "0.000270", "0.00480", "0.00"]);
    let far = |of: PredictedValue| PredictedValue { far: true, ..of };
    let on = OnModel { wall: far(of(60.0)), epoch: far(of(2.0)), ..on("H200", 60.0, None) };
    let row = plain_text(&render_on_models(&[("t".to_owned(), vec![on])], None, &prices));
    assert_eq!(row.matches("too far from the measured points").count(), 1, "{row}");
    let source =
        |name: &str| EstimateSource::Otherwise(OtherParameter { name: name.to_owned(), was: json!(4), is: json!(10) });
    let said = |name| unknown(&Estimate { source: source(name), ..Estimate::default() });
    assert!(said("epochs").ends_with("not 10; use --epochs 10 instead of changing it"));
    assert!(said("images").ends_with("not 10"));
    let wrong = check_prices(&[price("H300=3").unwrap()], ["NVIDIA H200"].into_iter()).unwrap_err();
    assert!(
        matches!(&wrong, CliError::Usage { message, hint: Some(hint) } if message.contains("--price H300:") && hint.contains("NVIDIA H200")),
        "{wrong:?}"
    );
    let priced = |part| ["NVIDIA H200 (t4-lab)", "Tesla T4 (h4)"].map(|machine| is_priced(machine, part));
    assert_eq!(
        ["t4", "t4-lab", "h4", "Tesla", "200 (t4", "4"].map(priced),
        [[false, true], [true, false], [false, true], [false, true], [true, false], [false, true]]
    );
    assert!(price("H200").is_err() && price("=1").is_err() && price("T4=-1/h").is_err());
}

#[test]
fn a_check_says_how_far_predictions_were_off() {
    let one = |quantity, measured: f64, beyond| HeldOutPoint {
        point: std::collections::BTreeMap::new(),
        quantity,
        measured,
        predicted: PredictedValue { value: 10.0, low: 9.0, high: 11.1, points: 3, beyond, far: false },
    };
    let checked =
        [one(Quantity::Epoch, 10.2, false), one(Quantity::Epoch, 12.0, true), one(Quantity::GpuBusy, 9.9, false)];
    let count = OtherParameter { name: "count".to_owned(), was: json!(24_000), is: json!(4_000) };
    let otherwise = vec![("other".to_owned(), count)];
    let lines = render_checked(&CheckedSteps { steps: vec![("train".to_owned(), checked.to_vec())], otherwise });
    let plain: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line).trim_end().to_owned()).collect();
    insta::assert_snapshot!(plain.join("\n"), @r"
    other: it ran with count=24000, not 4000
    train: each point that has run, predicted from the others; each end of an axis, from all other values
                                    points  median error  in the interval  half-width
      epoch time  between them      1       2%            1 of 1           ±11%
      epoch time  an octave beyond  1       17%           0 of 1           ±11%
      GPU busy    between them      1       1%            1 of 1           ±11%
    ");
    assert_eq!(render_checked(&CheckedSteps::default()).len(), 1);
}
