//! GPUs through the stand-in for NVIDIA's library: where steps go, what is measured, foreign processes, other flows.

use std::process::{Child, Command};

use flow_core::reason::Fault;
use flow_testkit::{TestSpace, until};
use serde_json::Value;

use crate::space;

pub(crate) const FOUR: &str = "\
driver 580.95.05
gpu NVIDIA TITAN Xp; memory=12196MiB; used=100MiB; reserved=96MiB; load=37; memory_load=12; power=120; pcie=3x16
gpu NVIDIA TITAN Xp; memory=12196MiB; used=0; load=95; memory_load=60; power=250; energy=no
gpu NVIDIA TITAN Xp; memory=12196MiB; used=0
gpu NVIDIA TITAN Xp; memory=12196MiB; used=0
";

/// Says on the GPUs that it gets that it holds memory there, and stays.
pub(crate) const HOLD: &str = r#"#!/bin/sh
# hold.sh MIB SECONDS
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
    echo "process $gpu pid=$$ memory=${1}MiB sm=30" >> "$FAKE_NVML"
done
echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"
sleep "$2"
"#;

/// The same until a file, whose path is its second argument, exists.
pub(crate) fn hold_until() -> String {
    HOLD.replace("sleep \"$2\"", "until [ -e \"$2\" ]; do sleep 0.05; done")
}

/// Somebody else's process, which ends with the test.
pub(crate) struct ForeignProcess(Child);

impl ForeignProcess {
    pub(crate) fn new() -> ForeignProcess {
        ForeignProcess(Command::new("sleep").arg("600").spawn().unwrap())
    }

    pub(crate) fn on(&self, gpu: usize, mib: u32) -> String {
        format!("process {gpu} pid={} memory={mib}MiB sm=20", self.0.id())
    }
}

impl Drop for ForeignProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The result of an instance in the newest run.
pub(crate) fn result(space: &TestSpace, label: &str) -> Value {
    let journal = space.journal();
    let recorded = journal.iter().rev().find(|line| line["event"] == "recorded" && line["result"]["label"] == label);
    recorded.unwrap_or_else(|| panic!("{label} has no result"))["result"].clone()
}

fn hw(space: &TestSpace) -> Value {
    serde_json::from_slice(space.flow(["hw", "--json"]).expect(0).raw()).unwrap()
}

#[test]
fn hw_shows_what_the_driver_tells() {
    let mut space = space();
    let gpus = space.gpus(FOUR);
    let said = space.flow(["hw"]).expect(0).stdout();
    let lines: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("GPU ")).collect();
    let shown: Vec<String> =
        lines.iter().map(|line| line.split("GPU-").next().unwrap().trim_end().to_owned()).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    GPU  model            memory    free      GPU load  memory-controller load  power  PCIe now  PCIe     UUID
    0    NVIDIA TITAN Xp  11.9 GiB  11.7 GiB  37%       12%                     120 W  3.0 x16   3.0 x16
    1    NVIDIA TITAN Xp  11.9 GiB  11.9 GiB  95%       60%                     250 W  3.0 x16   3.0 x16
    2    NVIDIA TITAN Xp  11.9 GiB  11.9 GiB  0%        0%                      60 W   3.0 x16   3.0 x16
    3    NVIDIA TITAN Xp  11.9 GiB  11.9 GiB  0%        0%                      60 W   3.0 x16   3.0 x16
    ");
    let told = hw(&space);
    assert_eq!((told["gpus"].as_array().unwrap().len(), &told["driver"]), (4, &Value::from("580.95.05")));

    // Older drivers, GPUs that tell less, a GPU that fell off the bus, one that is divided.
    gpus.set(&FOUR.replacen("used=0", "used=0; lost", 1).replacen("used=0\n", "used=0; mig\n", 1));
    gpus.add("missing nvmlDeviceGetMemoryInfo_v2\nmissing nvmlDeviceGetComputeRunningProcesses_v3\nmissing nvmlDeviceGetUtilizationRates");
    let foreign_process = ForeignProcess::new();
    gpus.add(&foreign_process.on(0, 50));
    let told = hw(&space);
    assert_eq!(told["devices"].as_array().unwrap().len(), 2, "{told}");
    let first = &told["devices"][0];
    assert_eq!(first["now"]["memory"]["used"], 246 << 20, "the older call counts what the driver keeps: {first}");
    assert_eq!(
        (&first["now"]["processes"][0]["memory"], &first["now"]["load"]),
        (&Value::from(50 << 20), &Value::Null)
    );
    let troubles: Vec<Fault> = serde_json::from_value(told["gpu_troubles"].clone()).unwrap();
    let troubles: Vec<String> = troubles.iter().map(Fault::to_string).collect();
    insta::assert_snapshot!(troubles.join("\n"), @"
    GPU 1 is lost, having fallen off the bus; flow continues without it until the machine is restarted
    GPU 2 (NVIDIA TITAN Xp) is divided by MIG, but flow uses only whole GPUs; `nvidia-smi -i 2 -mig 0` makes it whole
    ");
}

#[test]
fn visibility_and_the_flag_restrict_what_flow_may_use() {
    let mut space = space();
    space.gpus(FOUR);
    let may = |space: &TestSpace, args: &[&str]| -> Vec<u64> {
        let told: Value = serde_json::from_slice(space.flow(args).expect(0).raw()).unwrap();
        told["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].as_u64().unwrap()).collect()
    };
    assert_eq!(may(&space, &["hw", "--json", "--gpus", "0,3"]), [0, 3]);
    space.env("CUDA_VISIBLE_DEVICES", "1,2");
    assert_eq!(may(&space, &["hw", "--json"]), [1, 2]);
    space.write("a.yaml", "flow: 1\nname: a\nsteps:\n  a: {run: 'true', gpus: 1, matrix: {n: [1, 2]}}\n");
    space.flow(["run", "a.yaml", "--gpus", "2"]).expect(0);
    for label in ["a[n=1]", "a[n=2]"] {
        assert!(result(&space, label)["circumstances"]["gpus"][0].as_str().unwrap().ends_with("-2"));
    }
}

/// Why attempts of the newest run were followed by others.
pub(crate) fn again(space: &TestSpace) -> Vec<Value> {
    space.journal().iter().filter(|line| line["event"] == "again").map(|line| line["because"].clone()).collect()
}

/// Notices of the newest run, what differs from run to run replaced.
pub(crate) fn notices(space: &TestSpace) -> Vec<String> {
    let journal = space.journal();
    let texts = journal.iter().filter(|line| line["event"] == "notice").filter_map(|line| line["text"].as_str());
    // Other tests use the CPU at the same time.
    let texts = texts.filter(|text| !text.starts_with("other programs used"));
    texts.map(|text| flow_testkit::normal(text, &space.path(""))).collect()
}

#[test]
fn each_attempt_has_its_gpus_and_is_measured_there() {
    let mut space = space();
    space.gpus(FOUR);
    space.script("hold.sh", HOLD).write(
        "gpus.yaml",
        "\
flow: 1
name: gpus
steps:
  one: {matrix: {n: [1, 2]}, run: ./hold.sh 1000 1.5, inputs: [hold.sh], gpus: 1}
  two: {run: ./hold.sh 500 0.5, inputs: [hold.sh], gpus: 2, needs: [one]}
  none: {run: 'echo \"[$CUDA_VISIBLE_DEVICES]\" > said', outputs: [said]}
",
    );
    space.flow(["run", "gpus.yaml"]).expect(0);
    let [a, b] = ["one[n=1]", "one[n=2]"].map(|label| result(&space, label));
    let gpu = |result: &Value| result["circumstances"]["gpus"][0].as_str().unwrap().to_owned();
    assert!(gpu(&a) != gpu(&b) && gpu(&a).starts_with("GPU-"), "{a}\n{b}");
    // The GPUs are taken in order of room: 2 and 3 are empty, 1 as well, 0 has least.
    assert_eq!([gpu(&a), gpu(&b)].map(|uuid| uuid.rsplit('-').next().unwrap().to_owned()), ["1", "2"]);
    let used = &a["usage"]["gpus"][0];
    assert_eq!((&used["memory_peak"], &used["unverified"]), (&Value::from(1000 << 20), &Value::from(false)), "{used}");
    assert_eq!(
        (&used["load_peak"], &used["load_above_90"], &used["memory_load_peak"]),
        (&0.95.into(), &1.0.into(), &0.6.into())
    );
    assert!((used["load_mean"].as_f64().unwrap() - 0.95).abs() < 1e-9, "{used}");
    assert_eq!(used["pcie"], serde_json::json!([3, 16]));
    // No counter on this GPU: power over time.
    let (energy, wall) = (a["usage"]["energy_j"].as_f64().unwrap(), a["usage"]["wall_s"].as_f64().unwrap());
    assert!((energy / (250.0 * wall) - 1.0).abs() < 0.2, "{energy} J in {wall} s at 250 W");
    assert!(b["usage"]["energy_j"].as_f64().unwrap() > 30.0, "{}", b["usage"]);
    let cost = a["usage"]["sampler_cpu"].as_f64().unwrap();
    assert!(cost > 0.0 && cost < 0.1, "{cost} of a core");
    let both = result(&space, "two");
    assert_eq!(both["usage"]["gpus"].as_array().unwrap().len(), 2);
    assert!(
        both["circumstances"].get("foreign_processes").is_none() && a["circumstances"].get("gpu_shared").is_none(),
        "{a}"
    );
    let [none] = ["none"].map(|label| result(&space, label));
    assert!(none["usage"].get("gpus").is_none());
    let said = flow_testkit::files_below(&space.path(".flow/objects"));
    assert!(
        said.iter().any(|file| std::fs::read(file).is_ok_and(|text| text == b"[]\n")),
        "no GPU is visible without one"
    );
}

#[test]
fn two_flows_respect_each_other() {
    let (mut first, mut second) = (space(), space());
    let gpus = first.gpus("gpu NVIDIA H200; memory=143771MiB\n");
    second.gpus("").set("");
    second.env("FAKE_NVML", &first.path("gpus.txt").to_string_lossy());
    second.beside(&first);
    for (space, seconds) in [(&first, 2), (&second, 0)] {
        space.script("hold.sh", HOLD).write(
            "a.yaml",
            &format!("flow: 1\nname: a\nsteps:\n  a: {{run: ./hold.sh 100 {seconds}, inputs: [hold.sh], gpus: 1}}\n"),
        );
    }
    let mut one = first.start(["run", "a.yaml"]);
    until("the first is on the GPU", || gpus.text().contains("memory=100MiB"));
    let lock = flow_testkit::files_below(first.locks())
        .into_iter()
        .find(|file| file.to_string_lossy().contains("/flow-GPU-"))
        .unwrap();
    std::fs::remove_file(&lock).unwrap();
    until("its lock is there again", || lock.exists());
    let mut two = second.start(["run", "a.yaml"]);
    until("the second is told", || two.output().contains("is held by another flow (process"));
    assert!(one.is_alive(), "{}", two.output());
    until("it says what it waits for", || second.flow(["status"]).text().contains("another flow (process PID of"));
    assert!(one.wait().success() && two.wait().success(), "{}", two.output());
    let [one, two] = [&first, &second].map(|space| result(space, "a"));
    assert!(one["ended_at"].as_u64() <= two["started_at"].as_u64(), "one after the other");
    assert!(two["circumstances"].get("foreign_processes").is_none(), "{two}");
}

#[test]
fn a_gpu_goes_to_the_run_that_waits_longest() {
    let (mut first, mut second) = (space(), space());
    let gpus = first.gpus("gpu NVIDIA H200; memory=143771MiB\n");
    second.gpus("").set("");
    second.env("FAKE_NVML", &first.path("gpus.txt").to_string_lossy());
    second.beside(&first);
    let sweep = |n: &str, end: &str| {
        format!(
            "flow: 1\nname: a\nsteps:\n  a: {{matrix: {{n: [{n}]}}, run: \"./hold.sh 100 {end} # ${{{{ n }}}}\", \
             inputs: [hold.sh], gpus: 1}}\n"
        )
    };
    let go = first.path("go").display().to_string();
    first.script("hold.sh", &hold_until()).write("a.yaml", &sweep("1, 2, 3", &go));
    second.script("hold.sh", HOLD).write("a.yaml", &sweep("1", "0.1"));
    let mut one = first.start(["run", "a.yaml"]);
    until("the first is on the GPU", || gpus.text().contains("memory=100MiB"));
    let mut two = second.start(["run", "a.yaml"]);
    until("the second has its place", || second.flow(["queue"]).text().contains("1 GPU  "));
    until("it is said for whom it is kept", || first.flow(["status"]).text().contains("GPU 0 is reserved for run "));
    first.write("go", "");
    assert!(two.wait().success() && one.wait().success(), "{}\n{}", two.output(), one.output());
    let ended = |space: &TestSpace, label: &str| result(space, label)["ended_at"].as_u64().unwrap();
    let served = ended(&second, "a[n=1]");
    let before = (1..=3).filter(|n| ended(&first, &format!("a[n={n}]")) < served).count();
    assert!(before <= 2, "{before} steps of the first were before it");
}

#[test]
fn a_full_gpu_is_waited_for_and_said() {
    let mut space = space();
    let gpus = space.gpus("gpu NVIDIA TITAN Xp; memory=12196MiB\n");
    let foreign_process = ForeignProcess::new();
    gpus.add(&foreign_process.on(0, 12000));
    space.script("hold.sh", HOLD).write(
        "full.yaml",
        "\
flow: 1
name: full
steps:
  train: {run: ./hold.sh 10 0.2, inputs: [hold.sh], gpus: 1, gpu_memory: 4GiB}
",
    );
    let mut flow = space.start(["run", "full.yaml"]);
    until("it says what it waits for", || space.flow(["status"]).text().contains("4.0 GiB needed"));
    let said = space.flow(["status"]).text();
    let waits = said.lines().find(|line| line.contains("needed")).unwrap_or_default().trim();
    let waits = waits.replace(&foreign_process.0.id().to_string(), "PID");
    insta::assert_snapshot!(waits, @"waiting train: a GPU with room for it; GPU 0: 4.0 GiB needed, 0.2 GiB free, the foreign process PID (sleep) holds 11.7 GiB");
    drop(foreign_process);
    assert!(flow.wait().success(), "{}", flow.output());
    assert!(result(&space, "train")["circumstances"].get("foreign_processes").is_none());
}

#[test]
fn where_the_driver_tells_no_processes_the_gpu_is_compared_with_before() {
    let mut space = space();
    space.gpus("gpu NVIDIA GRID; memory=24GiB; used=300MiB\nmissing nvmlDeviceGetComputeRunningProcesses_v3\nmissing nvmlDeviceGetComputeRunningProcesses_v2\n");
    space.script("hold.sh", HOLD).write(
        "a.yaml",
        "\
flow: 1
name: a
steps:
  train: {run: ./hold.sh 700 1, inputs: [hold.sh], gpus: 1}
  table: {uses: flow/table, with: {from: train, columns: [gpu_memory, gpu_load, energy]}}
",
    );
    space.flow(["run", "a.yaml"]).expect(0);
    let used = result(&space, "train")["usage"]["gpus"][0].clone();
    assert_eq!((&used["memory_peak"], &used["unverified"]), (&Value::from(700 << 20), &Value::from(true)), "{used}");
}

#[test]
fn what_stands_in_the_way_of_gpus_is_said() {
    let mut said = Vec::new();
    let mut look = |what: &str, space: &TestSpace| {
        let text = space.flow(["hw"]).expect(0).stdout();
        said.push(what.to_owned());
        said.extend(
            text.lines().filter(|line| line.starts_with("GPUs") || line.starts_with("trouble")).map(str::to_owned),
        );
        space.write("a.yaml", "flow: 1\nname: a\nsteps:\n  a: {run: 'true', gpus: 1}\n");
        let text = space.flow(["run", "a.yaml"]).text();
        said.extend(text.lines().find(|line| line.contains("needs 1 GPU")).map(|line| line.trim().to_owned()));
    };
    let mut space = space();
    look("no driver", &space);
    space.gpus("init 9\n");
    look("the driver is not loaded", &space);
    space.env("FLOW_NVML_LIB", "/nowhere/libnvidia-ml.so.1");
    look("no such library", &space);
    insta::assert_snapshot!(said.join("\n"), @"
    no driver
    GPUs    none: there is no NVIDIA driver (libnvidia-ml.so.1) on this machine
    error: `a` can never run here: it needs 1 GPU, this machine has no GPU
    the driver is not loaded
    trouble  NVIDIA's library is installed, but its driver is not loaded; on the host, `nvidia-smi` shows why; a container needs `--gpus all`
    GPUs     none that flow may use
    error: `a` can never run here: it needs 1 GPU, this machine has no GPU (NVIDIA's library is installed, but its driver is not loaded; on the host, `nvidia-smi` shows why; a container needs `--gpus all`)
    no such library
    trouble  FLOW_NVML_LIB `/nowhere/libnvidia-ml.so.1` cannot be loaded: /nowhere/libnvidia-ml.so.1: cannot open shared object file: No such file or directory
    GPUs     none that flow may use
    error: `a` can never run here: it needs 1 GPU, this machine has no GPU (FLOW_NVML_LIB `/nowhere/libnvidia-ml.so.1` cannot be loaded: /nowhere/libnvidia-ml.so.1: cannot open shared object file: No such file or directory)
    ");
}

#[test]
fn a_part_of_a_workflow_runs_where_the_rest_never_could() {
    let space = space();
    let train = "{matrix: {lr: [1, 2]}, run: 'cat ${{ steps.prep.out }}', gpus: 1000}";
    let steps =
        format!("  prep: {{run: 'echo 1 > d', outputs: [d]}}\n  train: {train}\n  test: {{run: ls, needs: [train]}}\n");
    space.write("w.yaml", &format!("flow: 1\nname: w\nsteps:\n{steps}"));
    for part in [&["run", "w.yaml", "prep"][..], &["plan", "w.yaml", "prep"], &["why", "-w", "w.yaml", "prep"]] {
        space.flow(part).expect(0);
    }
    assert_eq!(space.ran(), ["prep"]);
    let refused = [&["run", "w.yaml"][..], &["run", "w.yaml", "test"], &["run", "w.yaml", "-n"], &["plan", "w.yaml"]];
    for all in refused {
        let said = space.flow(all).expect(2).text();
        let told =
            said.contains("`train[lr=1]` can never run here: it needs 1000 GPUs") && said.contains("w.yaml:5:67");
        assert!(told, "{said}");
    }
    let said = space.flow(["check", "w.yaml"]).expect(0).stdout();
    assert!(said.contains("`train[lr=1]` cannot run on this machine: it needs 1000 GPUs"), "{said}");
}
