//! Slurm as flow shows it: a real one, none, and one that does not answer.

use flow_testkit::slurm::{CONTROLLER, Cluster, FOUR_SECONDS};
use serde_json::{Value, json};

use crate::{reference::page, space};

#[test]
#[ignore = "needs Slurm"]
fn a_cluster_is_shown_with_what_is_free() {
    let cluster = Cluster::start(3, 2);
    let mut space = space();
    space.on(&cluster);
    cluster.run("sbatch", ["--gres=gpu:1", "--cpus-per-task=3", "--output=/dev/null", "--wrap=sleep 1000"]);
    cluster.run("sbatch", ["--hold", "--array=0-4", "--output=/dev/null", "--wrap=true"]);
    cluster.run("scontrol", ["update", "nodename=node3", "state=drain", "reason=test"]);
    flow_testkit::until("the job runs", || cluster.run("squeue", ["--noheader", "--states=R"]).contains("wrap"));
    let shown = space.flow(["hw", "--on", "slurm"]).expect(0);
    insta::assert_snapshot!(shown.stdout(), @"
    partition       nodes  taking jobs  each has                   free GPUs  free CPUs  free on one node         time limit
    main (default)  3      2            2 × fake, 8 CPUs, 3.9 GiB  3 of 4     13 of 16   2 GPUs, 8 CPUs, 3.9 GiB  none

    drained: node3
    jobs in main: 1 (1 yours) running, 5 (5 yours) waiting
    ");

    // What people set for themselves changes nothing.
    for name in ["SQUEUE_PARTITION", "SINFO_PARTITION", "SQUEUE_STATES", "SINFO_FORMAT"] {
        space.env(name, "nosuch");
    }
    let json = space.flow(["hw", "--on", "slurm", "--json"]).expect(0);
    let json: Value = serde_json::from_slice(json.raw()).unwrap();
    let node = json!({
        "partition": "main", "is_default": true, "name": "node1", "state": "mixed", "partition_state": "up", "cpus": 8, "cpus_free": 5,
        "memory": 4194304000_u64, "memory_free": 3879731200_u64, "gpus": [{"model": "fake", "count": 2, "used": 1}],
    });
    assert_eq!(json["nodes"][0], node);
    let load = json!({"main": {"running": 1, "waiting": 5, "yours_running": 1, "yours_waiting": 5}});
    assert_eq!(json["jobs"], load);

    cluster.run("scontrol", ["update", "partitionname=main", "state=down"]);
    insta::assert_snapshot!(space.flow(["hw", "--on", "slurm"]).expect(0).stdout(), @"
    partition       nodes  taking jobs  each has                   free GPUs  free CPUs  free on one node  time limit
    main (default)  3      0            2 × fake, 8 CPUs, 3.9 GiB  0 of 0     0 of 0     —                 none

    drained: node3
    partition main is down: its jobs wait until an administrator opens it again
    jobs in main: 1 (1 yours) running, 5 (5 yours) waiting
    ");
}

#[test]
#[ignore = "needs Slurm"]
fn a_simulation_takes_limits_from_the_cluster() {
    let conf = "MaxArraySize=50\nPartitionName=spare Nodes=ALL State=UP";
    let cluster = Cluster::start_with(1, 4, &format!("{conf}\n{FOUR_SECONDS}"));
    let mut space = space();
    space.on(&cluster);
    space.write("jobs.csv", "job_id,submit_s,num_gpus,duration_s\nlong,0,4,3600\nurgent,600,4,60\n");
    let args = ["simulate", "--trace", "jobs.csv", "--gpus", "1x4", "--policy", "fifo", "--slurm", "cluster,delay_s=1"];
    let said = space.flow(args).expect(0).stdout();
    assert!(said.contains("array=50,") && said.contains("delay_s=1,"), "{said}");

    space.write(
        "w.yaml",
        "flow: 1\nname: w\non: slurm\nsteps:\n  a: {run: 'true', gpus: 4, slurm: {partition: spare}}\n",
    );
    let args = ["simulate", "-w", "w.yaml", "--gpus", "4 x H100, 80000 MiB", "--slurm", "cluster"];
    assert!(space.flow(args).expect(0).stdout().contains("array=50,"));

    cluster.stop(CONTROLLER);
    let said = space.flow(["simulate", "--trace", "jobs.csv", "--gpus", "1x4", "--slurm", "cluster"]).expect(1).text();
    assert!(said.contains("Slurm does not answer"), "{said}");
}

#[test]
#[ignore = "needs Slurm"]
fn a_cluster_that_cannot_be_asked_is_said() {
    let mut space = space();
    let cluster = Cluster::start_with(1, 0, FOUR_SECONDS);
    space.on(&cluster);
    cluster.stop(CONTROLLER);
    let silent = space.flow(["hw", "--on", "slurm"]).expect(1);
    // Slurm's words while something else has the controller's port.
    let said = silent
        .text()
        .replace("Zero Bytes were transmitted or received", "Unable to contact slurm controller (connect failure)");
    insta::assert_snapshot!(said, @"
    error: Slurm does not answer: slurm_load_partitions: Unable to contact slurm controller (connect failure)
    hint: `scontrol ping` shows whether its controller is up; SLURM_CONF names another configuration
    ");
    space.env("PATH", "/nonexistent");
    insta::assert_snapshot!(space.flow(["hw", "--on", "slurm"]).expect(1).text(), @"
    error: there is no Slurm here: `sinfo` is not on the PATH
    hint: run flow on a machine with Slurm's commands, usually the cluster's login node; `--on local` uses this machine instead; docs/slurm.md starts a local Slurm to try it
    ");
}

#[test]
#[ignore = "needs Slurm"]
fn what_the_page_has_people_type_runs() {
    let cluster = Cluster::start(2, 2);
    let page = page("slurm");
    let blocks: Vec<&str> = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    // The cluster is there, and so is the folder.
    let typed = |block: &str| {
        let lines = block.lines().filter(|line| !line.contains("slurm.sh") && !line.starts_with("mkdir"));
        let space = space();
        let flow = std::path::Path::new(env!("CARGO_BIN_EXE_flow")).parent().unwrap().to_str().unwrap();
        let path = format!("{flow}:{}", std::env::var("PATH").unwrap());
        let mut shell = cluster.command("bash");
        shell.args(["-euc", &lines.collect::<Vec<_>>().join("\n")]).current_dir(space.path(""));
        let output =
            shell.env("PATH", path).env("HOME", space.path("")).env("XDG_CACHE_HOME", space.cache()).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let sweep = typed(blocks.iter().find(|block| block.contains("cat > sweep.yaml")).unwrap());
    for part in ["done           train × 4", "nothing to do: 5 results cached", "Epoch 3: loss 0.4"] {
        assert!(sweep.contains(part), "{part}: {sweep}");
    }
    let simulated = typed(blocks.iter().find(|block| block.contains("flow simulate")).unwrap());
    assert!(simulated.contains("flow's limit of jobs in the queue was reached (queue)"), "{simulated}");
}
