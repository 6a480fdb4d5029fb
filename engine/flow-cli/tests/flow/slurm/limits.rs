//! Time limits of jobs. Slurm knows minutes and looks every half a minute: so the end of a job that runs is moved, or a job is
//! warned by hand as Slurm would.

use std::{collections::BTreeSet, thread, time::Duration};

use super::Lab;
use crate::at_once;
use flow_testkit::{slurm::Cluster, until};

/// Six epochs, the state after each of which is kept; after the third the first job waits for its time limit. All but `ended` keep it
/// when the warning comes, and all but `other` print again what was before.
const TRAIN: &str = r#"
keep() { echo $n > $FLOW_CHECKPOINT/new; mv $FLOW_CHECKPOINT/new $FLOW_CHECKPOINT/n; }
[ $1 = ended ] || trap 'keep; echo $1 >> $HOME/warned; exit 1' USR1
n=$(cat $FLOW_CHECKPOINT/n 2>/dev/null || echo 0)
[ $1 = other ] || for e in $(seq $n); do echo "Epoch $e loss 0.$((9 - e))"; done
echo $1 $n >> $HOME/began
while [ $n -lt 6 ]; do
  sleep 0.2
  [ $n = 3 ] && [ $(grep -c $1 $HOME/began) = 1 ] && continue
  n=$((n + 1)); echo "Epoch $n loss 0.$((9 - n))"
  [ $1 = ended ] && keep
done
echo $n > out.txt
"#;

#[test]
#[ignore = "needs Slurm"]
fn what_runs_into_its_time_limit_goes_on_or_has_a_result() {
    // They wait for one look of Slurm's together.
    at_once(
        [
            what_keeps_checkpoints_goes_on_after_its_time_limit,
            a_time_limit_of_slurm_that_was_a_result_is_one_until_it_is_longer,
        ],
        |test: fn()| test(),
    );
}

fn what_keeps_checkpoints_goes_on_after_its_time_limit() {
    let lab = Lab::new(
        1,
        0,
        "
  own:
    matrix: {how: [warned, ended]}
    run: sh train.sh ${{ how }}
    inputs: [train.sh]
    outputs: [out.txt]
    slurm: {time: \"${{ '5m' if how == 'warned' else '2m' }}\"}
    metrics: {stdout: 'Epoch {epoch} loss {loss}'}
  the_partitions:
    run: sh train.sh other
    inputs: [train.sh]
    outputs: [out.txt]
    metrics: {stdout: 'Epoch {epoch} loss {loss}', summary: {loss: max}}
",
    );
    lab.scontrol(["update", "PartitionName=main", "MaxTime=5"]);
    lab.space.write("train.sh", TRAIN);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("all run", || lab.lines("began").len() == 3);
    thread::sleep(Duration::from_secs(2));
    // Slurm looks in half a minute at the latest: two are warned then, and of the third the time is up.
    for job in lab.jobs() {
        let limit = lab.cluster.run("squeue", ["--noheader", "--job", &job, "--format=%l"]);
        let end = if limit.trim() == "5:00" { "EndTime=now+40" } else { "EndTime=now+1" };
        lab.scontrol(["update", &format!("jobid={job}"), end]);
    }
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    let said = flow.output();
    assert_eq!(
        said.matches("reached its time limit in Slurm; it continues in another job, from its checkpoint").count(),
        3,
        "{said}"
    );
    // The signal came, once, and all went on after the third epoch.
    assert_eq!(
        lab.lines("warned").into_iter().collect::<Vec<_>>(),
        [("other".to_owned(), 1), ("warned".to_owned(), 1)],
        "{said}"
    );
    let began = lab.lines("began").into_keys().collect::<Vec<_>>();
    assert_eq!(began, ["ended 0", "ended 3", "other 0", "other 3", "warned 0", "warned 3"], "{said}");
    for (label, result) in lab.results() {
        assert_eq!((result["outcome"].as_str(), result["cause"].as_str()), (Some("ok"), None), "{label} {result}");
        let usage = &result["usage"];
        let loss = if label == "the_partitions" { 0.8 } else { 0.3 };
        assert_eq!(result["metrics"]["loss"]["value"], loss, "of both jobs: {result}");
        let (all, before) = (usage["wall_s"].as_f64().unwrap(), usage["earlier"]["wall_s"].as_f64().unwrap());
        assert_eq!(usage["earlier"]["jobs"], 1, "{result}");
        assert!(usage["earlier"]["cpu_s"].as_f64().unwrap() > 0.0, "{usage}");
        assert!(before > 2.0 && all > before + 0.5 && all < before + 10.0, "of both jobs: {usage}");
        let shown = lab.space.flow(["show", &label]).expect(0).stdout();
        assert!(shown.contains(", in 2 attempts: one was interrupted"), "{shown}");
    }
    lab.expect_no_job();
    assert_eq!(std::fs::read_dir(lab.space.path(".flow/checkpoints")).unwrap().count(), 0);
    assert!(lab.space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
}

#[test]
#[ignore = "needs Slurm"]
fn what_gets_no_further_has_timed_out_and_says_why() {
    // No two ask for the same, which would be one array.
    let lab = Lab::new(
        2,
        0,
        "
  stuck: {run: sh warned.sh 'echo 1 > $FLOW_CHECKPOINT/n', inputs: [warned.sh]}
  nothing: {cpus: 2, run: sh warned.sh true, inputs: [warned.sh]}
  anew: {cpus: 3, run: sh warned.sh 'ls $FLOW_CHECKPOINT >> $HOME/found; echo $SLURM_JOB_ID > $FLOW_CHECKPOINT/n', inputs: [warned.sh], resume: false}
  deaf: {cpus: 4, run: 'trap \"echo asked >> $HOME/asked; exit 1\" TERM; echo $SLURM_JOB_ID >> $HOME/began; while :; do sleep 0.1; done'}
",
    );
    let script = "trap \"$1; exit 1\" USR1\necho $SLURM_JOB_ID >> $HOME/began\nwhile :; do sleep 0.1; done\n";
    lab.space.write("warned.sh", script);
    for run in 0..2 {
        let mut flow = lab.space.start(["run", "w.yaml", "-k"]);
        let mut warned = BTreeSet::new();
        until("the run has ended", || {
            thread::sleep(Duration::from_millis(300));
            let jobs = lab.jobs();
            for job in lab.lines("began").into_keys().filter(|job| jobs.contains(job)) {
                let told = || lab.cluster.command("scancel").args(["--signal=USR1", "--batch", &job]).status();
                if !warned.contains(&job) && told().is_ok_and(|status| status.success()) {
                    warned.insert(job);
                }
            }
            !flow.is_alive()
        });
        let said = flow.output();
        assert_eq!(flow.wait().code(), Some(1), "{said}");
        // Where something was left by an earlier run, nothing new is left by the next.
        assert_eq!(warned.len(), if run == 0 { 5 } else { 4 }, "{said}");
        for why in
            ["it wrote no new checkpoint", "it left no checkpoint in `FLOW_CHECKPOINT`", "the step has `resume: false`"]
        {
            assert!(said.contains(why), "{why}: {said}");
        }
        assert!(said.contains("4 timed out"), "{said}");
    }
    assert_eq!(lab.lines("asked").len(), 1, "what does not listen to the warning is asked to end");
    assert!(lab.lines("found").is_empty(), "it began anew");
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn no_job_asks_for_more_time_than_its_partition_gives() {
    let conf = "PartitionName=short Nodes=ALL MaxTime=2 State=UP";
    let workflow = "
  within: {run: 'echo $SLURM_JOB_ID > out.txt', timeout: 2m, slurm: {partition: short}}
  beyond: {run: 'true', timeout: 1d, slurm: {partition: short}}
  wrong: {run: 'true', slurm: {partition: short, time: 5m}}
  unseen: {run: 'echo unseen', slurm: {partition: short, time: 5m, options: [--qos=any]}}
";
    let mut lab = Lab::on(Cluster::start_with(1, 0, conf), workflow);
    let said = lab.space.flow(["plan", "w.yaml"]).expect(2).text();
    assert!(said.contains("`wrong`: Slurm's partition `short` gives a job at most 2m, not 5m"), "{said}");
    assert!(said.contains("1 error"), "{said}");
    let text = lab.space.flow(["run", "w.yaml", "within", "beyond"]).expect(0).text();
    assert!(text.contains("2 ran"), "{text}");
    // What a plan cannot know is told when Slurm says it.
    let text = lab.space.flow(["run", "w.yaml", "unseen"]).expect(1).text();
    assert!(
        text.contains("unseen: job ") && text.contains("would wait in Slurm forever (PartitionTimeLimit)"),
        "{text}"
    );
    // What people name for all their jobs is the partition, and no other word of theirs reaches `sbatch`.
    lab.space.write(
        "usual.yaml",
        "flow: 1\nname: usual\non: slurm\nsteps:\n  at: {run: 'squeue -j $SLURM_JOB_ID -ho \"%P %l\"', timeout: 1d}\n",
    );
    lab.space.env("SBATCH_PARTITION", "short").env("SBATCH_GRES", "gpu:9").env("SBATCH_TIMELIMIT", "1");
    lab.space.flow(["run", "usual.yaml"]).expect(0);
    assert_eq!(lab.space.flow(["logs", "at"]).expect(0).stdout().trim(), "short 2:00");
    lab.space.env("SBATCH_PARTITION", "nowhere");
    let said = lab.space.flow(["plan", "usual.yaml"]).expect(2).text();
    assert!(said.contains("Slurm has no partition `nowhere`"), "{said}");
    lab.expect_no_job();
}

fn a_time_limit_of_slurm_that_was_a_result_is_one_until_it_is_longer() {
    let lab = Lab::new(1, 0, "\n  late: {run: sleep 130, slurm: {time: 1m}, record: [timed_out]}\n");
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it runs", || lab.queue().contains("RUNNING"));
    lab.scontrol(["update", &format!("jobid={}", lab.jobs()[0]), "EndTime=now+1"]);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert!(lab.space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
    let limit = |text: &str| lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("slurm: {time: 1m}, ", text));
    limit("");
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(planned.contains("it timed out after 1m; there is no limit now"), "{planned}");
    lab.scontrol(["update", "PartitionName=main", "MaxTime=1"]);
    assert!(
        lab.space.flow(["plan", "w.yaml"]).expect(0).stdout().contains("1 cached"),
        "its partition gives it no more"
    );
}
