//! The content of a fingerprint, what is left out, and that its encoding does not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::*;
use crate::{
    Body, BuiltinInput, CorunGpus, CorunMember, Digest, Exclusive, GpuFacts, GroupId, Input, Instance, InstanceId,
    Link, Machine, Outcome, Output, Place, ResolvedInstance, ResourceRequest, Span, StepId, shell::Shell,
};

/// An instance with every part of a fingerprint, for changing one at a time.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) instance: Instance,
    pub(crate) resolved: ResolvedInstance,
    pub(crate) plugin: Option<(Digest, u32)>,
    pub(crate) metrics: Value,
    pub(crate) inputs: Vec<Tree>,
    pub(crate) environment: Option<(&'static str, Digest)>,
    pub(crate) unread: Vec<String>,
    pub(crate) reads_seed: bool,
    pub(crate) machine: Machine,
}

pub(crate) fn instance(label: &str) -> Instance {
    Instance {
        id: InstanceId(0),
        step: StepId(0),
        label: Arc::from(label),
        axes: Arc::new(IndexMap::new()),
        repetition: None,
        needs: Vec::new(),
        request: ResourceRequest { gpus: 1, gpu_memory: None, cpus: 4, memory: None },
        exclusive: Exclusive::Machine,
        corun: None,
        measured: true,
        seed: 8,
        record: Arc::from([]),
        timeout: None,
        retries: 0,
        resume: true,
        priority: 0,
        environment: None,
        inputs: Arc::from([]),
        outputs: Arc::from([]),
        skip: None,
        again: None,
        does_not_fit: None,
        place: Place::Local,
        slurm: None,
        job_limit: None,
    }
}

pub(crate) fn sample() -> Sample {
    let Value::Object(with) =
        json!({"batch": 16, "lr": 0.1, "data": Digest::of(b"v7").to_string(), "aug": {"flip": true}})
    else {
        unreachable!("an object is written above")
    };
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "TITAN Xp".into(), memory: 12 << 30 };
    Sample {
        instance: Instance {
            inputs: Arc::from([input("photos", false)]),
            outputs: Arc::from([Output { name: "out".into(), path: "model.pt".into() }]),
            ..instance("solo[batch=16]")
        },
        resolved: ResolvedInstance {
            body: Body::Plugin { plugin: "torch".into(), step: "train".into(), with },
            env: BTreeMap::from([("OMP_NUM_THREADS".to_owned(), "4".to_owned())]),
            links: vec![Link { path: "in/dataset/v7".into(), digest: Digest::of(b"v7") }],
            inputs: Vec::new(),
        },
        plugin: Some((Digest::of(b"torch plugin"), 1)),
        metrics: json!({"jsonl": "metrics.jsonl"}),
        inputs: vec![Tree { digest: Digest::of(b"photos"), manifest: None }],
        environment: None,
        unread: Vec::new(),
        reads_seed: false,
        machine: Machine {
            gpus: vec![gpu(0), gpu(1)],
            cpus: 32,
            cpu_model: "AMD EPYC 7571".into(),
            memory: 256 << 30,
            driver: Some("550.54".into()),
            gpu_troubles: Vec::new(),
            fake_gpus: false,
        },
    }
}

fn input(path: &str, by_listing: bool) -> Input {
    Input { name: None, path: path.to_owned(), by_listing, copy: false, in_place: false }
}

impl Sample {
    pub(crate) fn parts(&self) -> Parts {
        walk(&Subject {
            instance: &self.instance,
            resolved: &self.resolved,
            provider: match self.plugin {
                Some((digest, protocol)) => Provider::Plugin { digest, protocol },
                None => Provider::Command,
            },
            metrics: &self.metrics,
            inputs: &self.inputs,
            environment: self.environment,
            unread: &self.unread,
            reads_seed: self.reads_seed,
            machine: &self.machine,
        })
    }

    pub(crate) fn with(&mut self) -> &mut serde_json::Map<String, Value> {
        match &mut self.resolved.body {
            Body::Plugin { with, .. } | Body::Builtin { with, .. } => with,
            Body::Command { .. } => unreachable!("the sample is a plugin's step"),
        }
    }
}

fn member(gpus: CorunGpus) -> CorunMember {
    CorunMember { group: GroupId(0), name: "v7".into(), gpus, continues: true }
}

fn changed(change: impl FnOnce(&mut Sample)) -> Digest {
    let mut sample = sample();
    change(&mut sample);
    sample.parts().digest()
}

/// A changed encoding needs a new version, because it invalidates every existing result.
#[test]
fn the_encoding_is_frozen() {
    let command = changed(|s| {
        s.resolved.body = Body::Command { line: "python train.py --lr 0.1".into(), shell: Shell::Bash };
        s.plugin = None;
        s.instance.measured = false;
    });
    let values = changed(|s| {
        *s.with() = serde_json::Map::new();
        let all = json!([null, false, true, -3, 18446744073709551615_u64, -0.0, 0.5, "", "x".repeat(2000), [], {}]);
        s.with().insert("a key.".into(), all);
    });
    let mut group = [sample().parts(), sample().parts()];
    Parts::join(&mut group);
    let digests = [sample().parts().digest(), command, values, group[0].digest(), group[1].digest()];
    let frozen = [
        "5b07508527383bde8ccba54f6dbb63d7c1e763efa3b4c114e23d75087e5b70e7",
        "7086038ae36307d06ae434b75baeee31d3a9413bd6d1bd4a3663a6d06595423a",
        "d7b4fd510548c8a1e41521ec97d1c7b4627eb67aee64dcc3e820aff112ea064d",
        "d5a82975da47fd823a8dc98d88398ce5a89736eb38036a59b24452b9ee20f611",
        "486d8ede37f160d59f96d1f79fb107947ccddbb036eb30a65ff38e9683e8dcd7",
    ];
    assert_eq!(digests.map(|d| d.to_string()), frozen);
}

#[test]
fn what_is_in() {
    let base = sample().parts().digest();
    type Change = (&'static str, fn(&mut Sample));
    let table: &[Change] = &[
        ("a parameter", |s| drop(s.with().insert("batch".into(), json!(32)))),
        ("a parameter's type", |s| drop(s.with().insert("batch".into(), json!("16")))),
        ("16.0 for 16", |s| drop(s.with().insert("batch".into(), json!(16.0)))),
        ("a nested parameter", |s| drop(s.with().insert("aug".into(), json!({"flip": false})))),
        ("a list for a map", |s| drop(s.with().insert("aug".into(), json!([true])))),
        ("an empty list for an empty map", |s| drop(s.with().insert("aug".into(), json!([])))),
        ("a null", |s| drop(s.with().insert("extra".into(), Value::Null))),
        ("a dotted key", |s| drop(s.with().insert("aug.flip".into(), json!(true)))),
        ("a long text", |s| drop(s.with().insert("lr".into(), json!("y".repeat(5000))))),
        ("the plugin's step", |s| {
            s.resolved.body = Body::Plugin { plugin: "torch".into(), step: "profile".into(), with: s.with().clone() };
        }),
        ("the plugin's digest", |s| s.plugin = Some((Digest::of(b"rebuilt"), 1))),
        ("the protocol", |s| s.plugin = Some((Digest::of(b"torch plugin"), 2))),
        ("an artifact", |s| s.resolved.links[0].digest = Digest::of(b"v8")),
        ("an artifact's file name", |s| s.resolved.links[0].path = "in/dataset/v8".into()),
        ("an artifact's place", |s| s.resolved.links[0].path = "data/v7".into()),
        ("an input's content", |s| s.inputs[0].digest = Digest::of(b"other photos")),
        ("an input's path", |s| s.instance.inputs = Arc::from([input("pets", false)])),
        ("by listing", |s| s.instance.inputs = Arc::from([input("photos", true)])),
        ("an environment", |s| s.environment = Some(("lab", Digest::of(b"numpy 1")))),
        ("another package", |s| s.environment = Some(("lab", Digest::of(b"numpy 2")))),
        ("a variable", |s| drop(s.resolved.env.insert("OMP_NUM_THREADS".into(), "8".into()))),
        ("an output", |s| s.instance.outputs = Arc::from([Output { name: "out".into(), path: "best.pt".into() }])),
        ("metrics", |s| s.metrics = json!({"csv": "metrics.jsonl"})),
        ("the seed", |s| s.instance.seed = 9),
        ("the repetition", |s| s.instance.repetition = Some(1)),
        ("measured", |s| s.instance.measured = false),
        ("the GPU model", |s| s.machine.gpus.iter_mut().for_each(|g| g.name = "NVIDIA H200".into())),
        ("the GPU count", |s| s.instance.request.gpus = 2),
        ("the CPU model", |s| s.machine.cpu_model = "Xeon".into()),
        ("cpus", |s| s.instance.request.cpus = 8),
        ("mode: plain", |s| s.instance.exclusive = Exclusive::No),
        ("mode: co-run", |s| s.instance.corun = Some(member(CorunGpus::Own))),
        ("mode: co-run, shared", |s| s.instance.corun = Some(member(CorunGpus::Shared))),
    ];
    let mut seen = BTreeMap::from([(base, "nothing")]);
    for (what, change) in table {
        if let Some(same) = seen.insert(changed(change), what) {
            panic!("{what} gives the fingerprint of {same}");
        }
    }
}

#[test]
fn a_built_in_counts_by_what_it_is_made_of_and_its_reader_by_what_it_made() {
    let table = |version: &str| {
        let mut sample = sample();
        sample.resolved.body = Body::Builtin { name: "table".into(), with: serde_json::Map::new() };
        let (Sample { instance, resolved, metrics, inputs, unread, machine, reads_seed, .. }, input) =
            (&sample, &BuiltinInput::default());
        let provider = Provider::Builtin { version, input };
        let (environment, reads_seed) = (None, *reads_seed);
        walk(&Subject { instance, resolved, provider, metrics, inputs, environment, unread, machine, reads_seed })
            .digest()
    };
    assert_ne!(table("one flow"), table("a newer flow"));
    let training = sample().parts();
    assert!(training.base.iter().all(|part| part.kind != PartKind::Version), "{training:?}");
}

#[test]
fn what_is_out() {
    let base = sample().parts().digest();
    type Change = (&'static str, fn(&mut Sample));
    let table: &[Change] = &[
        ("the step's name", |s| s.instance.label = "renamed[batch=16]".into()),
        ("its place", |s| (s.instance.id, s.instance.step) = (InstanceId(7), StepId(3))),
        ("axes that it does not use", |s| {
            s.instance.axes = Arc::new(IndexMap::from([("batch".to_owned(), json!(16))]));
        }),
        ("the order of keys", |s| {
            let last = s.with().remove("aug").unwrap_or_default();
            let rest = std::mem::take(s.with());
            s.with().insert("aug".into(), last);
            s.with().extend(rest);
        }),
        ("an upstream step's name and axes", |s| s.resolved.links[0].path = "in/renamed/n=1/v7".into()),
        ("an input's ./", |s| {
            s.instance.inputs = Arc::from([input("./photos/", false)]);
        }),
        ("an input's manifest", |s| s.inputs[0].manifest = Some(Digest::of(b"manifest"))),
        ("how many repetitions", |s| s.instance.repetition = Some(0)),
        ("which repetition has a seed, where it is read", |s| (s.reads_seed, s.instance.repetition) = (true, Some(2))),
        ("record, retries, timeout, resume, priority", |s| {
            s.instance.record = Arc::from([Outcome::OutOfMemory]);
            s.instance.retries = 3;
            s.instance.resume = false;
            s.instance.timeout = Some(Span::from_millis(10));
            s.instance.priority = 5;
        }),
        ("memory limits", |s| (s.instance.request.memory, s.instance.request.gpu_memory) = (Some(1), Some(1))),
        ("the driver, and which GPUs", |s| {
            s.machine.driver = Some("560.1".into());
            s.machine.gpus.iter_mut().for_each(|g| g.uuid.push('x'));
        }),
        ("host memory", |s| s.machine.memory = 1),
        ("alone on its GPUs or on the machine", |s| s.instance.exclusive = Exclusive::Gpu),
    ];
    for (what, change) in table {
        assert_eq!(changed(change), base, "{what}");
    }
}

#[test]
fn an_input_counts_by_its_place_in_the_work_folder() {
    let at = |path: &str| changed(|s| s.instance.inputs = Arc::from([input(path, false)]));
    assert_eq!(at("/data/photos"), at("/home/me/photos"));
    assert_eq!(at("../photos"), at("photos"));
    assert_ne!(at("photos/cat"), at("photos"));
    let parameter = |path: &str| {
        let name = Some("with.folder".to_owned());
        changed(|s| s.instance.inputs = Arc::from([Input { name, in_place: true, ..input(path, false) }]))
    };
    assert_eq!(parameter("../pets"), parameter("/data/photos"), "read where it lies: only the content counts");
}

#[test]
fn zero_has_no_sign() {
    let lr = |lr: f64| changed(|s| drop(s.with().insert("lr".into(), json!(lr))));
    assert_eq!(lr(-0.0), lr(0.0));
    assert_ne!(lr(0.0), lr(0.5));
}

#[test]
fn hardware_counts_for_measured_steps_only() {
    let plain = |change: fn(&mut Sample)| {
        changed(|s| {
            s.instance.measured = false;
            change(s);
        })
    };
    let base = plain(|_| {});
    assert_eq!(plain(|s| s.machine.cpu_model = "Xeon".into()), base);
    assert_eq!(plain(|s| s.instance.request.cpus = 8), base);
    assert_eq!(plain(|s| s.instance.exclusive = Exclusive::No), base);
}

#[test]
fn a_group_counts_as_one() {
    let of = |batches: &[u32]| -> Vec<Digest> {
        let mut members: Vec<Parts> = batches
            .iter()
            .map(|batch| {
                let mut sample = sample();
                sample.with().insert("batch".into(), json!(batch));
                sample.parts()
            })
            .collect();
        Parts::join(&mut members);
        members.iter().map(Parts::digest).collect()
    };
    let group = of(&[16, 32, 64]);
    assert_ne!(group[0], sample().parts().digest(), "a member is not the same run as alone");
    assert_ne!(group[0], of(&[16, 32, 128])[0], "another member changes everybody");
    assert_eq!(group[0], of(&[64, 16, 32])[1], "the order of members does not count");
    let equal = of(&[16, 16]);
    assert_ne!(equal[0], equal[1], "equal members are told apart");
    assert_ne!(equal[0], of(&[16, 16, 16])[0], "how many counts");
}

#[test]
fn the_order_of_keys_in_a_parameter_does_not_count() {
    let [one, other] = [r#"{"b": 1, "a": {"d": 2, "c": 3}}"#, r#"{"a": {"c": 3, "d": 2}, "b": 1}"#].map(|text| {
        let mut sample = sample();
        sample.with().insert("options".into(), serde_json::from_str(text).unwrap());
        sample.parts().digest()
    });
    assert_eq!(one, other);
}

#[test]
fn parts_stay_small_and_survive_storing() {
    let mut sample = sample();
    sample.resolved.links =
        (0..5000).map(|i| Link { path: format!("in/copy/{i}"), digest: Digest::of(&[i as u8]) }).collect();
    sample.with().insert("text".into(), json!("x".repeat(100_000)));
    let parts = sample.parts();
    let stored = serde_json::to_string(&parts).unwrap();
    assert!(stored.len() < 64 * 1024, "{} bytes", stored.len());
    let back: Parts = serde_json::from_str(&stored).unwrap();
    assert_eq!(back, parts);
    assert_eq!(back.digest(), parts.digest());
    let before = parts.digest();
    sample.resolved.links[17].digest = Digest::of(b"changed");
    assert_ne!(sample.parts().digest(), before);
}

/// A workflow, expanded on a machine.
pub(crate) fn expanded(text: &str, machine: &crate::Machine) -> crate::Expansion {
    let request = crate::ExpandRequest {
        catalogue: &crate::Catalogue::default(),
        machine,
        profile: None,
        set: &[],
        files: &[],
        folder: "/lab",
        shell_folder: "/lab",
        batch: crate::Batch::default(),
    };
    let source = crate::Source { path: "w.yaml".into(), text: text.into() };
    crate::parse(&source).and_then(|file| file.expand(&request)).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

/// The program digests of a step with this text and script.
fn program(step: &str, script: &str) -> Vec<Digest> {
    let expansion = expanded(&format!("flow: 1\nsteps:\n{step}\n"), &sample().machine);
    let programs = expansion.instances.iter().map(|instance| {
        let inputs = instance.inputs.iter().map(|input| {
            let content = if input.path == "train.py" { script } else { &input.path };
            Tree { digest: Digest::of(content.as_bytes()), manifest: None }
        });
        let sample = Sample { instance: instance.clone(), inputs: inputs.collect(), plugin: None, ..sample() };
        sample.parts().program(&expansion.steps[0].definition)
    });
    programs.collect()
}

#[test]
fn a_program_is_the_same_at_all_points_of_its_step_until_what_they_have_in_common_is_changed() {
    const STEP: &str =
        "  train: {matrix: {n: [1, 2]}, run: 'python train.py ${{ n }}', inputs: [train.py, 'data/${{ n }}']}";
    let [first, second] = <[Digest; 2]>::try_from(program(STEP, "a")).unwrap();
    assert_eq!(first, second);
    let same = STEP.replace("train:", "renamed:").replace("[1, 2]", "[2, 5]").replace("run:", "retries: 1, run:");
    assert_eq!(program(&same, "a"), [first, first]);
    let changed = [
        program(STEP, "b"),
        program(&STEP.replace("py ${{ n }}", "py --fast ${{ n }}"), "a"),
        program(&STEP.replace("inputs:", "env: {FAST: 1}, inputs:"), "a"),
    ];
    for (n, changed) in changed.iter().enumerate() {
        assert!(changed[0] != first && changed[0] == changed[1], "{n}");
    }
}
