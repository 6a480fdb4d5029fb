//! The protocol as bytes. Plugins in other languages are written against these files: what parses today parses for
//! ever, so a change here is a new version of the protocol, never an edit of a file.

use std::collections::BTreeMap;

use flow_protocol::{Corun, Exit, Gpu, Line, Message, Outcome, PROTOCOL, Placement, Request, Summary};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

const MESSAGES: &str = include_str!("frozen/messages.jsonl");

fn messages() -> Vec<Line> {
    let line = |at: f64, message| Line { at: (at > 0.0).then_some(1_771_200_000.0 + at), message };
    let hello = |facts: &[(&str, &str)]| Message::Hello {
        protocol: PROTOCOL,
        plugin: "torch".into(),
        version: "0.1.0".into(),
        facts: facts.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    };
    let metric = |name: &str, value, unit: &str, epoch, summary| Message::Metric {
        name: name.into(),
        value,
        unit: unit.into(),
        epoch,
        summary,
    };
    let outcome = |outcome, message: Option<&str>| Message::Outcome { outcome, message: message.map(str::to_owned) };
    vec![
        line(0.0, hello(&[])),
        line(0.25, hello(&[("device", "cpu"), ("torch", "2.11.0")])),
        line(0.0, Message::Progress { fraction: 0.5, text: None }),
        line(1.5, Message::Progress { fraction: 0.5, text: Some("epoch 2/4, loss 0.31".into()) }),
        line(2.0, Message::Epoch { epoch: 2, started_at: 1_771_200_000.5, ended_at: 1_771_200_002.0 }),
        line(0.0, metric("top1", 0.87, "", None, Summary::Last)),
        line(0.0, metric("train_loss", 0.31, "", Some(2), Summary::Last)),
        line(2.0, metric("epoch_time", 1.5, "s", Some(2), Summary::Mean)),
        line(0.0, Message::Ready),
        line(0.5, Message::Ready),
        line(0.5, Message::Sufficed),
        line(0.0, outcome(Outcome::Ok, None)),
        line(0.0, outcome(Outcome::OutOfMemory, Some("CUDA out of memory"))),
        line(3.0, outcome(Outcome::Failed, Some("no photographs in in/source"))),
    ]
}

#[test]
fn every_message_is_frozen() {
    let written: Vec<_> = messages().iter().map(|line| serde_json::to_string(line).unwrap()).collect();
    assert_eq!(written, MESSAGES.lines().collect::<Vec<_>>());
    let read: Vec<Line> = MESSAGES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, messages());
}

#[track_caller]
fn frozen<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str, value: &T) {
    assert_eq!(serde_json::to_string_pretty(value).unwrap(), text.trim_end());
    assert_eq!(&serde_json::from_str::<T>(text).unwrap(), value);
}

#[test]
fn the_request_is_frozen() {
    let gpu = Gpu { uuid: "GPU-5f2c4a10-8a5e-4c7c-9d06-0a8f1e6b7c31".into(), index: 1, name: "NVIDIA TITAN Xp".into() };
    let full = Request {
        protocol: PROTOCOL,
        step: "train".into(),
        instance: "together[version=v7,batch=32]".into(),
        with: json!({"batch": 32, "data": "in/dataset"}).as_object().unwrap().clone(),
        outputs: BTreeMap::from([("model".into(), "out/model.safetensors".into())]),
        checkpoint: "../checkpoint".into(),
        placement: Placement { gpus: vec![gpu], cpus: 4, gpu_memory: Some(6 << 30), memory: Some(16 << 30) },
        seed: 8,
        corun: Some(Corun { members: 3 }),
    };
    frozen(include_str!("frozen/request.json"), &full);
    let small = Request {
        step: "source".into(),
        instance: "source".into(),
        with: serde_json::Map::new(),
        outputs: BTreeMap::from([("out".into(), "out/photos".into())]),
        placement: Placement { cpus: 2, ..Placement::default() },
        seed: 0,
        corun: None,
        ..full
    };
    frozen(include_str!("frozen/request_small.json"), &small);
}

#[test]
fn the_exit_record_is_frozen() {
    let killed = Exit {
        code: None,
        signal: Some(9),
        started_at: 1_771_200_000.0,
        ended_at: 1_771_200_003.25,
        cpu_s: Some(5.5),
        max_rss: Some(1 << 30),
        disk_read: Some(4096),
        disk_written: Some(0),
        oom_killed: true,
        swept: 2,
        spawn_error: None,
    };
    frozen(include_str!("frozen/exit.json"), &killed);
    let never = Exit {
        signal: None,
        ended_at: 1_771_200_000.0,
        cpu_s: None,
        max_rss: None,
        disk_read: None,
        disk_written: None,
        oom_killed: false,
        swept: 0,
        spawn_error: Some("No such file or directory (os error 2)".into()),
        ..killed
    };
    frozen(include_str!("frozen/exit_spawn_error.json"), &never);
}

#[test]
fn a_number_that_is_not_finite_is_null() {
    const FROZEN: &str = include_str!("frozen/message_not_finite.json");
    let metric = |value| Line {
        at: None,
        message: Message::Metric {
            name: "train_loss".into(),
            value,
            unit: String::new(),
            epoch: Some(3),
            summary: Summary::Last,
        },
    };
    let value = |line: Line| match line.message {
        Message::Metric { value, .. } => value,
        other => panic!("{other:?}"),
    };
    for not_finite in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(serde_json::to_string(&metric(not_finite)).unwrap(), FROZEN.trim_end());
    }
    assert!(value(serde_json::from_str(FROZEN).unwrap()).is_nan());
    // As Python writes it, which is no JSON; in a text it is a text.
    for bare in ["NaN", "Infinity", "-Infinity"] {
        let text = FROZEN.replace("null", bare);
        assert!(serde_json::from_str::<Line>(&text).is_err());
        assert!(value(Line::read(text.as_bytes()).unwrap()).is_nan(), "{text}");
    }
    let told = Line::read(br#"{"type":"outcome","outcome":"failed","message":"loss is NaN, \"-Infinity\"","at":NaN}"#);
    let message = Some("loss is NaN, \"-Infinity\"".into());
    assert_eq!(told.unwrap(), Line { at: None, message: Message::Outcome { outcome: Outcome::Failed, message } });
}

#[test]
fn what_a_script_writes_by_hand_is_read() {
    let read = |text: &str| Line::read(text.as_bytes());
    // Any order of keys, whole numbers, and fields of a later version.
    let line = read(r#"{"value": 3, "name": "loss", "colour": "red", "type": "metric", "at": 1771200000}"#).unwrap();
    assert_eq!(line.at, Some(1_771_200_000.0));
    assert!(matches!(line.message, Message::Metric { value: 3.0, .. }));
    // Not of the protocol: ignored and counted by the engine, so they must not parse.
    let valueless = r#"{"type": "metric", "name": "loss"}"#;
    for text in
        ["", "loss 0.3", "NaN", "{}", r#"{"type": "loss"}"#, valueless, r#"{"type": "progress", "fraction": NaN}"#]
    {
        assert!(read(text).is_err(), "{text}");
    }
}
