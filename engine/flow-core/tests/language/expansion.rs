//! What workflows expand to.

use std::collections::BTreeMap;

use flow_core::{
    Exclusive, Expansion, InstanceId, Machine, Mode, Outcome, PublishWhat, Remark,
    reason::{Cause, ProfileReason},
};

use super::{expand, expand_on, expand_workflow, machine, shown, steps};

const FEB08: &str = include_str!("../../../../workflows/feb08.yaml");

fn feb08(machine: &Machine, set: &[&str]) -> Expansion {
    expand_on(FEB08, machine, None, set).unwrap_or_else(|wrong| panic!("{}", shown(FEB08, &wrong)))
}

/// One line an instance: label, GPUs and CPUs, mode and group, needs (`~` for a list), why it does not run.
fn lines(expansion: &Expansion) -> String {
    let label = |id: flow_core::InstanceId| expansion.instances[id.index()].label.to_string();
    let mut text = String::new();
    for i in &expansion.instances {
        text += &format!("{} {}g {}c", i.label, i.request.gpus, i.request.cpus);
        match (&i.corun, i.mode()) {
            (Some(corun), _) => {
                text += &format!(" {}/{:?}{}", corun.name, corun.gpus, if corun.continues { "+" } else { "" })
            }
            (None, Mode::Alone) => text += " alone",
            _ => {}
        }
        if i.measured {
            text += " measured";
        }
        for need in &i.needs {
            text += &format!(" {}{}", if need.list { "~" } else { "<" }, label(need.on));
        }
        if let Some((_, cause)) = i.settled() {
            text += &format!(" {}", serde_json::to_string(&cause).expect("JSON"));
        }
        text.push('\n');
    }
    text
}

fn is_false(expression: &str) -> Cause {
    Cause::ConditionFalse { expression: expression.into() }
}

#[test]
fn a_step_that_never_runs_needs_no_batch_system() {
    let batch = |when: &str| expand(&steps(&format!("  a: {{run: x, on: slurm, when: {when}}}\n"))).has_batch();
    assert_eq!((batch("1 > 2"), batch("2 > 1")), (false, true));
}

#[test]
fn feb08_without_a_gpu() {
    let e = feb08(&machine(0), &[]);
    assert_eq!(e.profile, Some(("no_gpu".into(), ProfileReason::Holds { expression: "machine.gpus == 0".into() })));
    assert_eq!(e.params["size"], 32);
    let absent: Vec<_> = e.steps.iter().filter_map(|s| Some((s.name.as_str(), s.absent.as_deref()?.clone()))).collect();
    assert_eq!(
        absent,
        [("four", is_false("wide and machine.gpus >= 4")), ("four_together", is_false("wide and machine.gpus >= 4"))]
    );
    let publish: Vec<_> = e.publish.iter().map(|entry| (entry.what, &*entry.to)).collect();
    assert_eq!(publish, [(PublishWhat::Report, "../reports/feb08.md"), (PublishWhat::WhatsNew, "../README.md")]);
}

#[test]
fn feb08_on_four_gpus() {
    let e = feb08(&machine(4), &[]);
    assert_eq!(e.profile, None);
    insta::assert_snapshot!(lines(&e), @r"
        source 0g 8c
        dataset[version=v7] 0g 8c <source
        dataset[version=v11] 0g 8c <source
        solo[version=v7,batch=16] 1g 2c alone measured <dataset[version=v7]
        solo[version=v7,batch=32] 1g 2c alone measured <dataset[version=v7]
        solo[version=v7,batch=64] 1g 2c alone measured <dataset[version=v7]
        solo[version=v7,batch=128] 2g 4c alone measured <dataset[version=v7]
        solo[version=v11,batch=16] 1g 2c alone measured <dataset[version=v11]
        solo[version=v11,batch=32] 1g 2c alone measured <dataset[version=v11]
        solo[version=v11,batch=64] 1g 2c alone measured <dataset[version=v11]
        solo[version=v11,batch=128] 2g 4c alone measured <dataset[version=v11]
        together[version=v7,batch=32] 1g 2c v7/Own+ measured <dataset[version=v7]
        together[version=v7,batch=64] 1g 2c v7/Own+ measured <dataset[version=v7]
        together[version=v7,batch=128] 2g 4c v7/Own+ measured <dataset[version=v7]
        together[version=v11,batch=32] 1g 2c v11/Own+ measured <dataset[version=v11]
        together[version=v11,batch=64] 1g 2c v11/Own+ measured <dataset[version=v11]
        together[version=v11,batch=128] 2g 4c v11/Own+ measured <dataset[version=v11]
        four[version=v7,batch=16] 4g 8c alone measured <dataset[version=v7]
        four[version=v7,batch=32] 4g 8c alone measured <dataset[version=v7]
        four[version=v7,batch=64] 4g 8c alone measured <dataset[version=v7]
        four[version=v7,batch=128] 4g 8c alone measured <dataset[version=v7]
        four[version=v7,batch=256] 4g 8c alone measured <dataset[version=v7]
        four[version=v7,batch=512] 4g 8c alone measured <dataset[version=v7]
        four_together[version=v7,batch=32] 4g 8c all/Shared+ measured <dataset[version=v7]
        four_together[version=v7,batch=64] 4g 8c all/Shared+ measured <dataset[version=v7]
        four_together[version=v7,batch=128] 4g 8c all/Shared+ measured <dataset[version=v7]
        four_table 0g 1c ~four[version=v7,batch=16] ~four[version=v7,batch=32] ~four[version=v7,batch=64] ~four[version=v7,batch=128] ~four[version=v7,batch=256] ~four[version=v7,batch=512]
        solo_table 0g 1c ~solo[version=v7,batch=16] ~solo[version=v7,batch=32] ~solo[version=v7,batch=64] ~solo[version=v7,batch=128] ~solo[version=v11,batch=16] ~solo[version=v11,batch=32] ~solo[version=v11,batch=64] ~solo[version=v11,batch=128]
        report 0g 1c ~solo[version=v7,batch=16] ~solo[version=v7,batch=32] ~solo[version=v7,batch=64] ~solo[version=v7,batch=128] ~solo[version=v11,batch=16] ~solo[version=v11,batch=32] ~solo[version=v11,batch=64] ~solo[version=v11,batch=128] ~together[version=v7,batch=32] ~together[version=v7,batch=64] ~together[version=v7,batch=128] ~together[version=v11,batch=32] ~together[version=v11,batch=64] ~together[version=v11,batch=128] ~four[version=v7,batch=16] ~four[version=v7,batch=32] ~four[version=v7,batch=64] ~four[version=v7,batch=128] ~four[version=v7,batch=256] ~four[version=v7,batch=512] ~four_together[version=v7,batch=32] ~four_together[version=v7,batch=64] ~four_together[version=v7,batch=128] ~four_table ~solo_table
        ");
    let report = e.steps.iter().find(|s| s.name == "report").expect("a report");
    let sees: Vec<&str> = report.sees.iter().map(|id| e.steps[id.index()].name.as_str()).collect();
    assert_eq!(sees, ["four_together", "four", "four_table", "together", "solo", "solo_table"]);
}

#[test]
fn edges() {
    let e = expand(&steps(
        r#"
  a: {matrix: {v: [1, 2], w: [x, y]}, run: x, outputs: [o]}
  same: {matrix: {w: [x, y], v: [1, 2]}, run: "${{ steps.a.out }}"}
  some: {matrix: {v: [1, 2]}, run: "${{ steps.a | length }}"}
  all: {run: "${{ steps.a | length }}"}
  ordered: {run: x, needs: [a]}
  both: {matrix: {v: [1], w: [x]}, run: "${{ steps.a.out }}", needs: [a]}
  other: {matrix: {z: [1]}, run: x, needs: [same]}
  before: {run: "${{ steps.last.outcome }}"}
  last: {run: x}
"#,
    ));
    insta::assert_snapshot!(lines(&e), @r"
        a[v=1,w=x] 0g 1c
        a[v=1,w=y] 0g 1c
        a[v=2,w=x] 0g 1c
        a[v=2,w=y] 0g 1c
        same[w=x,v=1] 0g 1c <a[v=1,w=x]
        same[w=x,v=2] 0g 1c <a[v=2,w=x]
        same[w=y,v=1] 0g 1c <a[v=1,w=y]
        same[w=y,v=2] 0g 1c <a[v=2,w=y]
        some[v=1] 0g 1c ~a[v=1,w=x] ~a[v=1,w=y]
        some[v=2] 0g 1c ~a[v=2,w=x] ~a[v=2,w=y]
        all 0g 1c ~a[v=1,w=x] ~a[v=1,w=y] ~a[v=2,w=x] ~a[v=2,w=y]
        ordered 0g 1c <a[v=1,w=x] <a[v=1,w=y] <a[v=2,w=x] <a[v=2,w=y]
        both[v=1,w=x] 0g 1c <a[v=1,w=x]
        other[z=1] 0g 1c <same[w=x,v=1] <same[w=x,v=2] <same[w=y,v=1] <same[w=y,v=2]
        last 0g 1c
        before 0g 1c <last
        ");
}

#[test]
fn repetitions() {
    let e = expand(&steps(
        r#"
  train: {matrix: {b: [1, 2]}, repeat: "${{ b }}", seed: 10, run: x, outputs: [o]}
  eval: {like: train, run: "${{ steps.train.out }}"}
  once: {matrix: {b: [2]}, run: "${{ steps.train | length }}"}
  pair: {matrix: {b: [1, 2]}, repeat: 2, run: x, corun: {group: all}}
"#,
    ));
    insta::assert_snapshot!(lines(&e), @r#"
    train[b=1,repetition=0] 0g 1c
    train[b=2,repetition=0] 0g 1c
    train[b=2,repetition=1] 0g 1c
    eval[b=1,repetition=0] 0g 1c <train[b=1,repetition=0]
    eval[b=2,repetition=0] 0g 1c <train[b=2,repetition=0]
    eval[b=2,repetition=1] 0g 1c <train[b=2,repetition=1]
    once[b=2] 0g 1c ~train[b=2,repetition=0] ~train[b=2,repetition=1]
    pair[b=1,repetition=0] 0g 1c all#0/Own measured
    pair[b=1,repetition=1] 0g 1c all#1/Own measured
    pair[b=2,repetition=0] 0g 1c all#0/Own measured
    pair[b=2,repetition=1] 0g 1c all#1/Own measured
    "#);
    let seeds: Vec<u64> = e.instances.iter().map(|i| i.seed).collect();
    assert_eq!(seeds[..3], [10, 10, 11]);
    let groups: Vec<_> = e.groups.iter().map(|g| (g.name.as_str(), g.members.len())).collect();
    assert_eq!(groups, [("all#0", 2), ("all#1", 2)]);
}

#[test]
fn labels() {
    let e = expand(&steps(
        r#"
  a:
    matrix:
      run: [{batch: 16, lr: 0.1}, {batch: 32, lr: 1.0e-5}]
  b: {matrix: {s: [plain, "a b", "1", 1, "true", true, null, "a,b=c]", "x\ty", 批, "/p/q.txt", ""]}, run: x}
  c: {matrix: {l: [[1, 2], [3]]}, run: x}
  long: {matrix: {s: [aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg]}, run: x}
"#
        .replace("lr: 1.0e-5}]", "lr: 1.0e-5}]\n    run: train ${{ run.batch }} ${{ run.lr }}")
        .as_str(),
    ));
    let labels: Vec<String> = e.instances.iter().map(|i| i.label.to_string()).collect();
    insta::assert_snapshot!(labels.join("\n"), @r#"
    a[run.batch=16,run.lr=0.1]
    a[run.batch=32,run.lr=0.00001]
    b[s=plain]
    b[s="a b"]
    b[s="1"]
    b[s=1]
    b[s="true"]
    b[s=true]
    b[s=null]
    b[s="a,b=c]"]
    b[s="x\ty"]
    b[s=批]
    b[s=/p/q.txt]
    b[s=""]
    c[l="[1,2]"]
    c[l="[3]"]
    long[s=aaaaaaaaaabbbbbbbbbbcccccccccc…f7bc21737a52]
    "#);
    assert_eq!(e.instances[0].axes.keys().collect::<Vec<_>>(), ["run.batch", "run.lr"]);
}

#[test]
fn requests() {
    let e = expand_on(
        &steps(
            r#"
  none: {run: x}
  one: {run: x, gpus: 1}
  most: {matrix: {n: [1, 2, 4]}, run: x, gpus: "${{ n }}", record: [does_not_fit]}
  said: {run: x, gpus: 1, cpus: 3, gpu_memory: 4GiB, memory: 1.5GB, timeout: 2h 30m, retries: 2, priority: -1}
  gpu: {run: x, gpus: 1, exclusive: gpu}
  not: {run: x, exclusive: false, measured: true}
  group: {matrix: {n: [1, 2]}, run: x, gpus: 2, corun: {group: all}, exclusive: false, record: [does_not_fit]}
"#,
        ),
        &Machine { cpus: 15, ..machine(2) },
        None,
        &[],
    )
    .expect("a workflow");
    insta::assert_snapshot!(lines(&e), @r#"
    none 0g 1c
    one 1g 7c
    most[n=1] 1g 7c
    most[n=2] 2g 15c
    most[n=4] 4g 15c {"kind":"lacks","lack":{"kind":"gpus","needs":4,"has":2,"trouble":null}}
    said 1g 3c
    gpu 1g 7c alone measured
    not 0g 1c measured
    group[n=1] 2g 15c all/Own measured {"kind":"lacks","lack":{"kind":"group_gpus","members":2,"needs":4,"has":2}}
    group[n=2] 2g 15c all/Own measured {"kind":"lacks","lack":{"kind":"group_gpus","members":2,"needs":4,"has":2}}
    "#);
    let said = e.instances.iter().find(|i| &*i.label == "said").expect("said");
    assert_eq!((said.request.gpu_memory, said.request.memory), (Some(4 << 30), Some(1_500_000_000)));
    assert_eq!(said.timeout.map(|t| t.as_secs_f64()), Some(9000.0));
    let exclusive: Vec<Exclusive> = e.instances.iter().filter(|i| i.measured).map(|i| i.exclusive).collect();
    assert_eq!(exclusive, [Exclusive::Gpu, Exclusive::No, Exclusive::No, Exclusive::No]);
    assert_eq!(e.instances[2].record[..], [Outcome::DoesNotFit]);
}

#[test]
fn what_can_never_run_is_refused_to_who_wants_it() {
    let text = steps(
        r"
  prep: {run: x, outputs: [d]}
  train: {matrix: {lr: [1, 2]}, run: 'x ${{ steps.prep.out }}', gpus: 3}
  test: {run: 'x ${{ steps.train | length }}'}
  pair: {matrix: {n: [1, 2]}, run: x, gpus: 2, corun: {group: all, gpus: own}}
",
    );
    let e = expand(&text);
    let wanted = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        e.targets(&names).map(|ids| ids.len()).map_err(|wrong| shown(&text, &wrong))
    };
    assert_eq!(wanted(&["prep"]), Ok(1));
    let train = wanted(&["train"]).expect_err("too many GPUs");
    assert!(train.starts_with("7:65: `train[lr=1]` can never run here: Gpus { needs: 3, has: 2"), "{train}");
    assert_eq!(train.lines().count(), 1, "its instances lack the same");
    assert_eq!(wanted(&["prep", "test"]), Err(train.clone()), "it needs them");
    let group = wanted(&["pair[n=1]"]).expect_err("too many GPUs together");
    assert!(group.starts_with("9:48: `pair[n=1]` can never run here: GroupGpus"), "{group}");
    assert_eq!(wanted(&[]), Err(format!("{train}\n{group}")));
}

#[test]
fn parameters() {
    let text = "flow: 1
params: {a: 1, l: [1, 2], m: {x: 1, y: {z: 2}}, p: null}
profiles:
  small: {when: machine.gpus == 0, gpus: 0, params: {a: 2, l: [3], m: {y: {w: 3}}}}
  other: {params: {a: 9}}
steps:
  s: {run: 'x ${{ [l, m, p] }}', gpus: 1}
";
    let params = |gpus, profile, set: &[&str]| {
        let e = expand_on(text, &machine(gpus), profile, set).unwrap_or_else(|wrong| panic!("{}", shown(text, &wrong)));
        let profile = e.profile.map(|(name, why)| format!("{name}: {}", serde_json::to_string(&why).expect("JSON")));
        (profile, serde_json::to_string(&e.params).expect("JSON"), e.instances[0].request.gpus)
    };
    assert_eq!(params(1, None, &[]), (None, r#"{"a":1,"l":[1,2],"m":{"x":1,"y":{"z":2}},"p":null}"#.into(), 1));
    assert_eq!(
        params(0, None, &["m={x: 5}", "l=[]"]),
        (
            Some(r#"small: {"kind":"holds","expression":"machine.gpus == 0"}"#.into()),
            r#"{"a":2,"l":[],"m":{"x":5,"y":{"w":3,"z":2}},"p":null}"#.into(),
            0
        )
    );
    assert_eq!(
        params(1, Some("other"), &["p=../pets", "m={x: ./y}", "l=[pets]"]),
        (
            Some(r#"other: {"kind":"requested"}"#.into()),
            r#"{"a":9,"l":["pets"],"m":{"x":"/lab/shell/y","y":{"z":2}},"p":"/lab/pets"}"#.into(),
            1
        )
    );
}

#[test]
fn what_comes_after_the_step_that_it_is_like_is_compared_with_it() {
    let e = expand(&steps(
        r#"
  alone: {matrix: {v: [1, 2]}, run: x, exclusive: true}
  packed: {like: alone, needs: [alone], exclusive: false, measured: false}
  other: {like: alone, run: y}
  packed_table: {uses: flow/table, with: {from: packed}}
  other_table: {uses: flow/table, with: {from: other}}
"#,
    ));
    let lines = lines(&e);
    let tables: Vec<&str> = lines.lines().filter(|line| line.contains("_table")).collect();
    insta::assert_snapshot!(tables.join("\n"), @"
    packed_table 0g 1c ~alone[v=1] ~alone[v=2] ~packed[v=1] ~packed[v=2]
    other_table 0g 1c ~other[v=1] ~other[v=2]
    ");
}

#[test]
fn copies() {
    let e = expand(&steps(
        r#"
  a: {matrix: {v: [1]}, run: x, exclusive: true, outputs: [o], record: [timed_out]}
  b: {like: a, corun: {group: all}}
  c: {like: b, exclusive: gpu, matrix: {w: [1, 2]}}
  d: {like: c, uses: images/source}
  e: {like: d, run: y}
"#,
    ));
    insta::assert_snapshot!(lines(&e), @r#"
    a[v=1] 0g 1c alone measured
    b[v=1] 0g 1c all/Own measured
    c[w=1] 0g 1c alone measured
    c[w=2] 0g 1c alone measured
    d[w=1] 0g 1c alone measured
    d[w=2] 0g 1c alone measured
    e[w=1] 0g 1c alone measured
    e[w=2] 0g 1c alone measured
    "#);
    let of = |label: &str| e.instances.iter().find(|i| &*i.label == label).expect("an instance");
    assert_eq!(of("d[w=1]").outputs[0].path, "out/photos");
    assert!(of("e[w=1]").outputs.is_empty());
    assert_eq!(of("c[w=2]").record[..], [Outcome::TimedOut]);
}

#[test]
fn what_has_no_instances_is_said() {
    let e = expand(&steps(
        r#"
  a: {matrix: {v: "${{ nothing }}"}, run: x, outputs: [o]}
  b: {run: "x ${{ steps.a.out }}"}
  c: {run: "x ${{ steps.a | length }}"}
  d: {run: x, when: "sizes | length > 5", outputs: [o]}
  e: {run: "x ${{ steps.d.out }}"}
"#,
    ));
    insta::assert_snapshot!(lines(&e), @r#"
    b 0g 1c {"kind":"no_instances","step":"a","because":{"kind":"empty_axis","axis":"v"}}
    c 0g 1c
    d 0g 1c {"kind":"condition_false","expression":"sizes | length > 5"}
    e 0g 1c <d
    "#);
    let empty = Cause::EmptyAxis { axis: "v".into() };
    assert_eq!(e.remarks, [Remark::NoInstances { step: "a".into(), because: empty.clone() }]);
    assert_eq!(e.steps[0].absent.as_deref(), Some(&empty));
    assert_eq!(e.steps[3].absent.as_deref(), Some(&is_false("sizes | length > 5")));
}

#[test]
fn targets() {
    let e = expand(&steps(
        r#"
  a: {matrix: {v: [1, 2]}, run: x, outputs: [o]}
  b: {matrix: {v: [1, 2]}, run: "${{ steps.a.out }}"}
  c: {matrix: {v: [1, 2]}, run: "${{ steps.a.out }}", corun: {group: all}}
"#,
    ));
    let reached = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let ids = e.targets(&names).map_err(|wrong| shown("", &wrong))?;
        Ok::<_, String>(ids.iter().map(|id| e.instances[id.index()].label.to_string()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(reached(&["b[v=2]"]), Ok("a[v=2] b[v=2]".into()));
    assert_eq!(reached(&["c[v=1]"]), Ok("a[v=1] a[v=2] c[v=1] c[v=2]".into()));
    assert_eq!(reached(&["c"]), reached(&["c[]"]), "what is not said is free");
    assert_eq!(reached(&[]).map(|all| all.split(' ').count()), Ok(6));
    insta::assert_snapshot!(reached(&["b[v=3]", "d", "aa"]).expect_err("unknown"), @r#"
    -: `b` has no instance `b[v=3]`; `v` is `1`, `2` here; give a run's `--set` again
    -: there is no step `d`; there are `a`, `b`, `c`
    -: there is no step `aa`; there are `a`, `b`, `c`
    "#);
}

#[test]
fn anchors_and_merge_keys() {
    let text = "flow: 1
base: &base {run: x, gpus: 1}
steps:
  a: {<<: *base, gpus: 2}
  b: *base
";
    let wrong = expand_on(text, &machine(2), None, &[]).expect_err("`base` is no key");
    assert_eq!(shown(text, &wrong).lines().count(), 1, "{}", shown(text, &wrong));
    let e = expand(&steps(
        "  a: &a {run: x, gpus: 1, env: &env {A: 1}}\n  b: {<<: *a, gpus: 2}\n  c: {run: y, env: {<<: *env, B: 2}}\n",
    ));
    insta::assert_snapshot!(lines(&e), @r#"
    a 1g 4c
    b 2g 8c
    c 0g 1c
    "#);
}

#[test]
fn what_is_taken_over_brings_what_it_takes_over_itself_and_leaves_the_order() {
    let e = expand(&steps(
        "  one: &one {run: x, cpus: 2, matrix: &m {b: [1, 2]}}\n  two: &two {<<: *one, gpus: 1}\n  three:\n    <<: *two\n    matrix: {<<: *m, z: [1], y: [2], a: [3]}\n",
    ));
    insta::assert_snapshot!(lines(&e), @r#"
    one[b=1] 0g 2c
    one[b=2] 0g 2c
    two[b=1] 1g 2c
    two[b=2] 1g 2c
    three[z=1,y=2,a=3,b=1] 1g 2c
    three[z=1,y=2,a=3,b=2] 1g 2c
    "#);
}

#[test]
fn outputs_that_a_command_names_and_does_not_get() {
    let e = expand(&steps(
        r#"
  a: {run: x, outputs: [data/o]}
  two: {run: x, outputs: [d/one, d/two.txt]}
  plain: {run: python3 t.py --in=./data/o, needs: [a]}
  below: {run: cat data/o/f d/two.txt, needs: [a, two]}
  mapped: {run: cat data/o, needs: [a], inputs: {data/o: "${{ steps.a.out }}"}}
  own: {run: cat data/o, needs: [a], inputs: [data/o]}
  writes: {run: cp x data/o, needs: [a], outputs: [data/o]}
  other: {run: cat data/other, needs: [a]}
"#,
    ));
    let found: Vec<String> =
        e.unmapped().iter().map(|u| format!("{} {} {} {}", u.step, u.of, u.path, u.output)).collect();
    assert_eq!(found, ["plain a data/o out", "below a data/o out", "below two d/two.txt outputs.two"]);
}

#[test]
fn what_only_comes_after_a_step_does_not_follow_it() {
    let e = expand(&steps(
        r#"
  a: {run: x, outputs: [o]}
  plot: {run: x, needs: [a]}
  reads: {run: "${{ steps.a.out }}", needs: [a], outputs: {one: o, two: p}}
  further: {run: "${{ steps.reads.outputs.one }}", needs: [a]}
  again: {like: a, needs: [a]}
  both: {run: x, needs: [reads, plot]}
"#,
    ));
    let label = |id: InstanceId| &*e.instances[id.index()].label;
    let unfollowed = |kept: &[&str], ran: &[&str]| -> Vec<String> {
        let found = e.unfollowed(|id| kept.contains(&label(id)), |id| ran.contains(&label(id)));
        found.into_iter().map(|one| format!("{} {} {:?}", one.step, one.ran, one.output)).collect()
    };
    let others = ["plot", "reads", "further", "again", "both"];
    assert_eq!(unfollowed(&others, &["a"]), [r#"plot a Some("out")"#]);
    assert_eq!(unfollowed(&others, &["reads", "plot"]), [r#"both reads Some("outputs.one")"#, "both plot None"]);
    assert_eq!(unfollowed(&["reads"], &["a"]), Vec::<String>::new());
    assert_eq!(unfollowed(&["plot"], &["reads"]), Vec::<String>::new());
}

#[test]
fn what_a_killed_run_left_stays_where_it_runs_and_steps_are_told_as_written() {
    use flow_core::{Batch, Place};
    let text = "flow: 1\nname: w\nparams: {e: 5}\nsteps:\n  a: {matrix: {n: [1, 2]}, run: 'echo ${{ n }} ${{e}}', \
        timeout: 2h, when: e > 1, env: {S: 1}, metrics: {stdout: 'x {x}'}}\n  b: {like: a, on: local}\n";
    let source = flow_core::Source { path: "w.yaml".into(), text: text.into() };
    let left = [("a[n=2]".to_owned(), Place::Slurm), ("b[n=1]".to_owned(), Place::Slurm)].into();
    let local = [("a[n=1]".to_owned(), Place::Local)].into();
    let expand = |on, orphan_places| {
        let batch = Batch { on, node: None, orphan_places: Some(orphan_places) };
        let request = flow_core::ExpandRequest {
            catalogue: &flow_core::Catalogue::default(),
            machine: &machine(0),
            profile: None,
            set: &[],
            files: &[],
            folder: "/lab",
            shell_folder: "/lab",
            batch,
        };
        flow_core::parse(&source).and_then(|file| file.expand(&request)).expect("a workflow")
    };
    let there = |expansion: &Expansion| -> String {
        expansion.instances.iter().map(|i| if i.slurm.is_some() { 's' } else { 'l' }).collect()
    };
    assert_eq!(there(&expand(None, &left)), "lssl");
    assert_eq!(there(&expand(Some(Place::Local), &left)), "lssl");
    assert_eq!(there(&expand(Some(Place::Slurm), &local)), "lsll", "`on: local` in the file stays");
    let written = serde_json::to_string(&expand(None, &local).written(flow_core::StepId(1))).expect("JSON");
    insta::assert_snapshot!(written, @r#"{"env":{"S":1},"matrix":{"n":[1,2]},"metrics":{"stdout":"x {x}"},"on":"local","run":"echo ${{ n }} ${{ e }}","timeout":"2h","when":"e > 1"}"#);
}

#[test]
fn variables_of_the_shell_have_its_values() {
    let text =
        "flow: 1\nname: t\nsteps:\n  a: {run: x, env: [SCALE, UNSET]}\n  b: {like: a, env: {B: 1}}\n  c: {like: a}\n";
    let workflow = flow_core::parse(&flow_core::Source { path: "t.yaml".into(), text: text.into() }).unwrap();
    assert_eq!(workflow.shell_variables(), ["SCALE", "UNSET"].map(str::to_owned).into());
    let with = |value: &str| {
        let workflow = workflow.with_variables(|name| (name == "SCALE").then(|| value.to_owned()));
        let expansion = expand_workflow(&workflow, &machine(0), None, &[]).unwrap();
        let nothing = BTreeMap::<InstanceId, flow_core::StepResult>::new();
        let env = |id| expansion.resolve(InstanceId(id), &nothing, flow_core::Render::Paths).unwrap().env;
        let lines = |id| env(id).into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        [0, 1, 2].map(lines)
    };
    let expected: [Vec<String>; 3] = [vec!["SCALE=${{ 1 }}".into()], vec!["B=1".into()], vec!["SCALE=${{ 1 }}".into()]];
    assert_eq!(with("${{ 1 }}"), expected);
}
