//! GPUs of several types in one partition: each result is of its type, and no number is of two.

use flow_testkit::slurm::Cluster;
use serde_json::json;

use super::Lab;

const SWEEP: &str = "
  train:
    matrix: {gpu: [h100, a100], batch: [16, 32]}
    slurm: {gpu_type: \"${{ gpu }}\"}
    gpus: 1
    measured: true
    run: 'for n in 1 2; do sleep 0.3; echo Epoch $n loss 0.${{ batch }}; done; echo $SLURMD_NODENAME > out.txt'
    outputs: [out.txt]
    metrics: {stdout: 'Epoch {epoch} loss {loss}'}
  by_type: {uses: flow/table, with: {from: train, rows: batch, split: gpu, columns: [epoch_time, gpu_model]}}
  of_both: {uses: flow/table, with: {from: train, rows: batch, over: gpu, columns: [epoch_time, loss]}}
  report: {uses: flow/report, with: {sections: [{table: by_type}, {table: of_both}]}}
publish: [{from: report, to: REPORT.md}]
";

#[test]
#[ignore = "needs Slurm"]
fn the_type_of_gpu_is_an_axis_and_no_mean_is_over_it() {
    let lab = Lab::on(Cluster::start_mixed(3, 2, "h100 a100"), SWEEP);
    insta::assert_snapshot!(lab.space.flow(["hw", "--on", "slurm"]).expect(0).stdout(), @"
    partition       nodes  taking jobs  each has                   free GPUs  free CPUs  free on one node         time limit
    main (default)  2      2            2 × h100, 8 CPUs, 3.9 GiB  4 of 4     16 of 16   2 GPUs, 8 CPUs, 3.9 GiB  none
    main (default)  1      1            2 × a100, 8 CPUs, 3.9 GiB  2 of 2     8 of 8     2 GPUs, 8 CPUs, 3.9 GiB  none

    jobs in main: 0 running, 0 waiting
    ");
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    let results = lab.results();
    for gpu in ["h100", "a100"] {
        for batch in [16, 32] {
            let result = &results[&format!("train[gpu={gpu},batch={batch}]")];
            assert_eq!(result["circumstances"]["gpu_models"], json!([gpu]), "{text}");
            assert_eq!(result.get("disturbances"), None, "{result}");
            // The nodes have the types in turn.
            let node = result["circumstances"]["facts"]["node"].as_str().unwrap();
            assert_eq!(node == "node2", gpu == "a100", "{result}");
        }
    }
    let fingerprints: std::collections::BTreeSet<String> =
        results.values().map(|result| result["fingerprint"].to_string()).collect();
    assert_eq!(fingerprints.len(), results.len());
    let report = lab.space.read("REPORT.md");
    assert!(report.contains("not comparable"), "no mean is over two types: {report}");
    assert!(report.contains("different conditions") && report.contains("GPU model: h100 and a100"), "{report}");
    assert!(lab.space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
    // What is measured says which type it is to have.
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("    slurm: {gpu_type: \"${{ gpu }}\"}\n", ""));
    let text = lab.space.flow(["plan", "w.yaml"]).expect(2).text();
    let why = "it is measured, and Slurm's partition `main` has GPUs of several types: a100, h100";
    assert!(text.contains(why), "{text}");
}
