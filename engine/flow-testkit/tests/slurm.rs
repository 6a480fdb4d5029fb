//! The throw-away Slurm does what one of a lab does, and what flow asks of it and reads from it is what it understands and says.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use flow_slurm::{
    JobId, JobResult, JobState, QUEUE, RefusalKind, Row, job_state, parse_queue, parse_submitted, refused,
    result_in_log, sbatch, script,
};
use flow_testkit::{slurm::Cluster, until};

/// A `flow` that does in the attempt's folder what the file `do` there says.
const FLOW: &str = "#!/bin/sh\n[ \"$1\" = __node ] && [ \"$2\" = \"$(pwd -P)\" ] || exit 64\n. ./do\n";

/// A folder for an attempt below the cluster's, with its script.
fn job(cluster: &Cluster, name: &str, what: &str) -> flow_slurm::Job {
    let folder = cluster.folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    let flow = cluster.folder().join("flow");
    write_program(&flow, FLOW);
    fs::write(folder.join("do"), what).unwrap();
    let path = folder.to_str().unwrap().to_owned();
    write_program(&folder.join("slurm.sh"), &script(flow.to_str().unwrap(), &path));
    flow_slurm::Job {
        key: format!("flow-{name}"),
        script: format!("{path}/slurm.sh"),
        folder: path,
        cpus: 1,
        ..flow_slurm::Job::default()
    }
}

fn write_program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn submit(cluster: &Cluster, job: &flow_slurm::Job) -> JobId {
    let args = sbatch(job);
    parse_submitted(&cluster.run("sbatch", args.iter().map(String::as_str))).unwrap()
}

fn queue(cluster: &Cluster) -> BTreeMap<JobId, Row> {
    let rows = parse_queue(&cluster.run("squeue", QUEUE.iter().copied())).unwrap();
    rows.into_iter().map(|row| (row.id, row)).collect()
}

#[track_caller]
fn becomes(cluster: &Cluster, id: JobId, expected: JobState) {
    let mut last = None;
    until(&format!("job {id} is {expected:?}"), || {
        last = queue(cluster).remove(&id);
        let now = last.as_ref().map(job_state);
        // Whatever ends ends once.
        assert!(!matches!(now, Some(JobState::Ended(_))) || now == Some(expected), "{last:?}");
        now == Some(expected)
    });
}

fn log(cluster: &Cluster, name: &str) -> String {
    fs::read_to_string(cluster.folder().join(name).join("slurm.log")).unwrap_or_default()
}

#[test]
#[ignore = "needs Slurm"]
fn each_case_is_told_apart() {
    let cluster = Cluster::start(2, 2);
    let strange =
        job(&cluster, "it's 100% \"fine\" $HOME", "pwd -P\necho $CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK\n");
    let strange = flow_slurm::Job {
        gpus: 2,
        gpu_type: Some("fake".to_owned()),
        cpus: 3,
        comment: "a|b\nc".to_owned(),
        memory: Some(200 << 20),
        time: Some(Duration::from_secs(90)),
        partition: Some("main".to_owned()),
        key: "flow-strange".to_owned(),
        ..strange
    };
    let fine = submit(&cluster, &strange);
    let failed = submit(&cluster, &job(&cluster, "failed", "exit 3\n"));
    let killed = submit(&cluster, &job(&cluster, "killed", "kill -9 $$\n"));
    let mut gone = job(&cluster, "gone", "");
    gone.folder += "/absent";
    let gone = submit(&cluster, &gone);
    let memory = job(&cluster, "memory", "(head -c 200m /dev/zero; sleep 1000) | tail -c 200m\n");
    let memory = submit(&cluster, &flow_slurm::Job { memory: Some(20 << 20), ..memory });
    let never = flow_slurm::Job { cpus: 99, ..job(&cluster, "never", "") };
    let never = cluster.command("sbatch").args(sbatch(&never)).output().unwrap();
    let held = flow_slurm::Job { options: vec!["--hold".to_owned()], ..job(&cluster, "held", "") };
    let held = submit(&cluster, &held);
    let cancelled = submit(&cluster, &job(&cluster, "cancelled", "exec sleep 1000\n"));
    let lost =
        flow_slurm::Job { options: vec!["--nodelist=node2".to_owned()], ..job(&cluster, "lost", "exec sleep 1000\n") };
    let lost = submit(&cluster, &lost);
    let foreign = cluster.run("sbatch", ["--parsable", "--job-name=a|b|c", "--comment=x\ny", "--hold", "--wrap=true"]);

    becomes(&cluster, cancelled, JobState::Running);
    cluster.run("scancel", ["--name=flow-cancelled"]);
    becomes(&cluster, lost, JobState::Running);
    cluster.run("scontrol", ["update", "nodename=node2", "state=down", "reason=test"]);
    becomes(&cluster, fine, JobState::Ended(JobResult::Completed));
    let folder = &strange.folder;
    let said = fs::read_to_string(format!("{folder}/slurm.log")).unwrap();
    assert_eq!(said, format!("{folder}\n0,1 3\n"));
    becomes(&cluster, failed, JobState::Ended(JobResult::Failed(3)));
    becomes(&cluster, killed, JobState::Ended(JobResult::Signal(9)));
    // From 24.05 on the folder of a job's output is made, and with it where the job works.
    let made = cluster.folder().join("gone/absent/slurm.log").exists();
    becomes(&cluster, gone, JobState::Ended(if made { JobResult::Completed } else { JobResult::Launch }));
    becomes(&cluster, memory, JobState::Ended(JobResult::Signal(9)));
    assert_eq!(result_in_log(&log(&cluster, "memory")), Some(JobResult::Memory));
    // Old releases take what no node can give, and let it wait.
    match never.status.success() {
        true => {
            let id = parse_submitted(&String::from_utf8_lossy(&never.stdout)).unwrap();
            becomes(&cluster, id, JobState::NeverRuns { launch_failed: false });
        }
        false => {
            let told = refused(&String::from_utf8_lossy(&never.stderr), never.status.code());
            assert_eq!(told.why, RefusalKind::Refused, "{told:?}");
        }
    }
    becomes(&cluster, held, JobState::Waiting);
    becomes(&cluster, cancelled, JobState::Ended(JobResult::Cancelled));
    becomes(&cluster, lost, JobState::Ended(JobResult::NodeLost));
    assert_eq!(result_in_log(&log(&cluster, "lost")), Some(JobResult::NodeLost));
    let foreign = JobId { job: foreign.trim().parse().unwrap(), task: None };
    assert!(!queue(&cluster).contains_key(&foreign));
}
