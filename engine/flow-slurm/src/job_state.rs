//! The meaning of a job's state, reason and exit code. Used only if the attempt itself left no record of its end.

use crate::rows::Row;

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits; Slurm's reason tells for what.
    Waiting,
    /// It will never run and must be cancelled.
    NeverRuns {
        /// A node could not start it, and Slurm holds it from then on.
        launch_failed: bool,
    },
    Running,
    /// It has its node and is suspended: its measurements are worthless.
    Suspended,
    Ended(JobResult),
    /// An unknown state. It is treated as no answer.
    Unknown,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobResult {
    Completed,
    /// Its script ended with this code.
    Failed(u8),
    /// A signal ended its script. If Slurm has no cgroups, this includes too much memory; the job's log shows it.
    Signal(u8),
    TimeLimit,
    Memory,
    NodeLost,
    Cancelled,
    /// It never began: its folder was not writable, or its node did not boot.
    Launch,
    Preempted,
    /// It was refused with a number of its own.
    Impossible,
}

/// Slurm's own number for a script that could not begin.
const COULD_NOT_BEGIN: u8 = 53;

/// The state of a row's job.
pub fn job_state(row: &Row) -> JobState {
    match row.state.as_str() {
        "PENDING" => waiting(&row.reason),
        "REQUEUED" | "REQUEUE_FED" | "RESV_DEL_HOLD" | "POWER_UP_NODE" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => {
            JobState::Waiting
        }
        "RUNNING" | "COMPLETING" | "CONFIGURING" | "RESIZING" | "SIGNALING" | "STAGE_OUT" | "EXPEDITING" => {
            JobState::Running
        }
        "SUSPENDED" | "STOPPED" => JobState::Suspended,
        "COMPLETED" => JobState::Ended(JobResult::Completed),
        "FAILED" => JobState::Ended(failed(row)),
        "TIMEOUT" | "DEADLINE" => JobState::Ended(JobResult::TimeLimit),
        "OUT_OF_MEMORY" => JobState::Ended(JobResult::Memory),
        "NODE_FAIL" => JobState::Ended(JobResult::NodeLost),
        "BOOT_FAIL" | "LAUNCH_FAILED" => JobState::Ended(JobResult::Launch),
        "PREEMPTED" => JobState::Ended(JobResult::Preempted),
        "CANCELLED" | "REVOKED" => JobState::Ended(JobResult::Cancelled),
        _ => JobState::Unknown,
    }
}

fn waiting(reason: &str) -> JobState {
    match reason {
        // A job that it depends on failed; the partition has no such node, or allows less time or fewer nodes; account or
        // quality of service forbid it.
        "DependencyNeverSatisfied"
        | "PartitionConfig"
        | "PartitionNodeLimit"
        | "PartitionTimeLimit"
        | "BadConstraints"
        | "InvalidAccount"
        | "InvalidQOS"
        | "AccountNotAllowed"
        | "QOSNotAllowed" => JobState::NeverRuns { launch_failed: false },
        // "launch failed requeued held", with underscores since 23.02.
        _ if reason.starts_with("launch") && reason.ends_with("held") => JobState::NeverRuns { launch_failed: true },
        // A limit on each job.
        _ if reason.contains("PerJob") || reason.starts_with("QOSMin") => JobState::NeverRuns { launch_failed: false },
        _ => JobState::Waiting,
    }
}

/// Advice for a waiting job whose cause does not go away by itself.
pub fn advice(row: &Row) -> Option<String> {
    const PHRASES: &[(&str, &str)] = &[
        ("JobHeldAdmin", "an administrator holds it and must release it"),
        ("JobHeldUser", "a user holds it: `scontrol release JOB` releases it"),
        ("requeued", "it is held: `scontrol release JOB` releases it"),
        ("PartitionDown", PARTITION),
        ("PartitionInactive", PARTITION),
        ("ReqNodeNotAvail", NODES),
        // With blanks or underscores, by release.
        ("Nodes", NODES),
        ("NodeDown", NODES),
        ("Reservation", "it waits for its reservation: `scontrol show reservation` shows when that begins"),
        ("Minutes", "your account has used up its time: its manager can add more"),
    ];
    const PARTITION: &str = "its partition starts no jobs until an administrator opens it; `sinfo` shows others, for \
        `slurm: {partition: …}`";
    const NODES: &str = "no suitable node accepts jobs now: `sinfo -R` shows why; another partition may have one";
    if !matches!(&*row.state, "PENDING" | "REQUEUE_HOLD" | "SPECIAL_EXIT") {
        return None;
    }
    let said = PHRASES.iter().find(|(words, _)| row.reason.contains(words));
    said.map(|(_, advice)| advice.replace("JOB", &row.id.to_string()))
}

fn failed(row: &Row) -> JobResult {
    match (row.exit.code, row.exit.signal) {
        _ if row.reason == "BadConstraints" => JobResult::Impossible,
        (_, COULD_NOT_BEGIN) => JobResult::Launch,
        (_, signal @ 1..) => JobResult::Signal(signal),
        (code @ 1.., 0) => JobResult::Failed(code),
        (0, 0) if row.reason == "OutOfMemory" => JobResult::Memory,
        (0, 0) => JobResult::Launch,
    }
}

/// The cause that Slurm wrote into the log of a job that it ended, if it is more precise than the state.
pub fn result_in_log(log: &str) -> Option<JobResult> {
    const PHRASES: &[(&str, JobResult)] = &[
        ("exceeded memory limit", JobResult::Memory),
        ("Exceeded job memory limit", JobResult::Memory),
        ("oom-kill event", JobResult::Memory),
        ("oom_kill event", JobResult::Memory),
        ("DUE TO TIME LIMIT", JobResult::TimeLimit),
        ("DUE TO NODE FAILURE", JobResult::NodeLost),
        ("DUE TO PREEMPTION", JobResult::Preempted),
    ];
    // Of memory it is told beside other things, and is the cause of them.
    let lines = || log.lines().filter(|line| line.starts_with("slurmstepd") && line.contains(": error:"));
    PHRASES.iter().find(|(words, _)| lines().any(|line| line.contains(words))).map(|&(_, end)| end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_queue;

    fn of(line: &str) -> JobState {
        job_state(&parse_queue(&format!("1|flow-a|{line}\n")).unwrap()[0])
    }

    #[test]
    fn what_22_05_said_of_each_case() {
        // STATE|EXIT|NODES|REASON as Slurm 22.05.8 printed them for jobs that met just this.
        let table: &[(&str, JobState)] = &[
            ("COMPLETED|0|node1|None", JobState::Ended(JobResult::Completed)),
            ("FAILED|768|node1|NonZeroExitCode", JobState::Ended(JobResult::Failed(3))),
            ("FAILED|32512|node1|NonZeroExitCode", JobState::Ended(JobResult::Failed(127))),
            ("FAILED|9|node1|JobLaunchFailure", JobState::Ended(JobResult::Signal(9))),
            ("FAILED|4021|node1|JobLaunchFailure", JobState::Ended(JobResult::Launch)),
            ("FAILED|1||BadConstraints", JobState::Ended(JobResult::Impossible)),
            ("FAILED|10752|node1|NonZeroExitCode", JobState::Ended(JobResult::Failed(42))),
            ("TIMEOUT|15|node1|TimeLimit", JobState::Ended(JobResult::TimeLimit)),
            ("NODE_FAIL|15|node2|NodeDown", JobState::Ended(JobResult::NodeLost)),
            ("CANCELLED|15|node1|None", JobState::Ended(JobResult::Cancelled)),
            ("CANCELLED|1792|node2|None", JobState::Ended(JobResult::Cancelled)),
            ("CANCELLED|0||DependencyNeverSatisfied", JobState::Ended(JobResult::Cancelled)),
            ("CANCELLED|0||JobHeldUser", JobState::Ended(JobResult::Cancelled)),
            ("RUNNING|0|node3|None", JobState::Running),
            ("PENDING|0||Resources", JobState::Waiting),
            ("PENDING|0||JobArrayTaskLimit", JobState::Waiting),
            ("PENDING|0||BeginTime", JobState::Waiting),
            ("PENDING|0||ReqNodeNotAvail, UnavailableNodes:node3", JobState::Waiting),
            ("PENDING|0||JobHeldUser", JobState::Waiting),
            ("PENDING|0||DependencyNeverSatisfied", JobState::NeverRuns { launch_failed: false }),
            ("PENDING|0||PartitionConfig", JobState::NeverRuns { launch_failed: false }),
            ("PENDING|0||PartitionTimeLimit", JobState::NeverRuns { launch_failed: false }),
            ("PENDING|0||launch failed requeued held", JobState::NeverRuns { launch_failed: true }),
        ];
        for (line, expected) in table {
            assert_eq!(of(line), *expected, "{line}");
        }
    }

    #[test]
    fn what_a_quality_of_service_does_to_jobs() {
        // As Slurm 22.05.8 printed them, with an accounting database: a job that made room for one of a higher quality, the same where it
        // ended by itself in its grace time, and one that wants more time than its quality gives.
        let table: &[(&str, JobState)] = &[
            ("PREEMPTED|15|node1|None", JobState::Ended(JobResult::Preempted)),
            ("PREEMPTED|256|node1|None", JobState::Ended(JobResult::Preempted)),
            ("PENDING|0||QOSMaxWallDurationPerJobLimit", JobState::NeverRuns { launch_failed: false }),
        ];
        for (line, expected) in table {
            assert_eq!(of(line), *expected, "{line}");
        }
        let accounted = crate::parse_accounting("1|flow-low|PREEMPTED|0:0|node1\n").unwrap();
        assert_eq!(job_state(&accounted[0]), JobState::Ended(JobResult::Preempted));
    }

    #[test]
    fn what_24_11_says_otherwise() {
        // As Slurm 24.11.5 printed them.
        let table: &[(&str, JobState)] = &[
            ("FAILED|0:9|node1|RaisedSignal:9(Killed)", JobState::Ended(JobResult::Signal(9))),
            ("FAILED|3:0|node1|NonZeroExitCode", JobState::Ended(JobResult::Failed(3))),
            ("FAILED|0:1||BadConstraints", JobState::Ended(JobResult::Impossible)),
            ("FAILED|127:0|node2|NonZeroExitCode", JobState::Ended(JobResult::Failed(127))),
            ("NODE_FAIL|0:1|node2|NodeDown", JobState::Ended(JobResult::NodeLost)),
            ("PREEMPTED|0:15|node1|None", JobState::Ended(JobResult::Preempted)),
            ("TIMEOUT|0:15|node2|TimeLimit", JobState::Ended(JobResult::TimeLimit)),
            ("CANCELLED|0:15|node1|None", JobState::Ended(JobResult::Cancelled)),
            ("PENDING|0:0||DependencyNeverSatisfied", JobState::NeverRuns { launch_failed: false }),
            ("PENDING|0:0||PartitionTimeLimit", JobState::NeverRuns { launch_failed: false }),
            ("PENDING|0:0||JobHeldUser", JobState::Waiting),
            ("PENDING|0:0||launch failed requeued held", JobState::NeverRuns { launch_failed: true }),
        ];
        for (line, expected) in table {
            assert_eq!(of(line), *expected, "{line}");
        }
        // Not produced here: a release before 24.05 makes no folder for the output.
        assert_eq!(of("FAILED|0:53|node1|JobLaunchFailure"), JobState::Ended(JobResult::Launch));
    }

    #[test]
    fn a_job_that_its_node_s_prolog_kept_from_beginning() {
        // As Slurm 22.05.8 and 24.11.5 printed them, of jobs that are not to be requeued; a job that runs, or waits, is cancelled otherwise.
        let of = |line: &str| parse_queue(&format!("1|flow-a|{line}\n")).unwrap()[0].may_not_have_begun();
        for line in ["CANCELLED|0|node1|None", "CANCELLED|0:0|node1|None"] {
            assert!(of(line), "{line}");
        }
        for line in
            ["CANCELLED|15|node1|None", "CANCELLED|0:15|node1|None", "CANCELLED|0||None", "COMPLETED|0|node1|None"]
        {
            assert!(!of(line), "{line}");
        }
    }

    #[test]
    fn what_only_larger_clusters_say() {
        // Not produced here: cgroups, accounts and nodes that boot. Words of squeue's manual.
        let table: &[(&str, JobState)] = &[
            ("OUT_OF_MEMORY|0:125|node1|OutOfMemory", JobState::Ended(JobResult::Memory)),
            ("BOOT_FAIL|0:0|node1|None", JobState::Ended(JobResult::Launch)),
            ("DEADLINE|0:0||DeadLine", JobState::Ended(JobResult::TimeLimit)),
            ("CONFIGURING|0|node1|None", JobState::Running),
            ("COMPLETING|0|node1|None", JobState::Running),
            ("SUSPENDED|0|node1|None", JobState::Suspended),
            ("REQUEUE_HOLD|0|node1|x", JobState::Waiting),
            ("PENDING|0||launch_failed_requeued_held", JobState::NeverRuns { launch_failed: true }),
            ("PENDING|0||job_requeued_in_held_state", JobState::Waiting),
            ("PENDING|0||AssocMaxJobsLimit", JobState::Waiting),
            ("PENDING|0||InvalidQOS", JobState::NeverRuns { launch_failed: false }),
            ("PENDING|0||SomethingNew", JobState::Waiting),
            ("SOMETHING_NEW|0|node1|None", JobState::Unknown),
        ];
        for (line, expected) in table {
            assert_eq!(of(line), *expected, "{line}");
        }
    }

    #[test]
    fn what_does_not_go_away_by_itself_comes_with_what_to_do() {
        // As Slurm 22.05.8 printed them.
        let of = |line: &str| advice(&parse_queue(&format!("7|flow-a|{line}\n")).unwrap()[0]);
        let table = [
            ("PENDING|0||Resources", ""),
            ("PENDING|0||Priority", ""),
            ("RUNNING|0|node1|None", ""),
            ("PENDING|0||JobHeldUser", "`scontrol release 7`"),
            ("PENDING|0||PartitionDown", "its partition starts no jobs"),
            (
                "PENDING|0||Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
                "`sinfo -R`",
            ),
            ("PENDING|0||ReqNodeNotAvail, UnavailableNodes:node3", "`sinfo -R`"),
        ];
        for (line, expected) in table {
            let said = of(line);
            assert_eq!(said.is_some(), !expected.is_empty(), "{line}: {said:?}");
            assert!(said.unwrap_or_default().contains(expected), "{line}");
        }
    }

    #[test]
    fn the_log_tells_what_the_state_does_not() {
        // As slurmstepd 22.05.8 wrote them.
        let memory = "\
            slurmstepd-node1: error: StepId=20.batch exceeded memory limit (215388160 > 20971520), being killed\n\
            slurmstepd-node1: error: *** JOB 20 ON node1 CANCELLED AT 2026-11-22T20:14:10 ***\n\
            slurmstepd-node1: error: Exceeded job memory limit\n";
        assert_eq!(result_in_log(memory), Some(JobResult::Memory));
        let time =
            "slurmstepd-node1: error: *** JOB 18 ON node1 CANCELLED AT 2026-11-22T20:15:19 DUE TO TIME LIMIT ***\n";
        assert_eq!(result_in_log(time), Some(JobResult::TimeLimit));
        let node = "slurmstepd-node2: error: *** JOB 41 ON node2 CANCELLED AT 2026-11-22T20:17:15 DUE TO NODE FAILURE, \
            SEE SLURMCTLD LOG FOR DETAILS ***\n";
        assert_eq!(result_in_log(node), Some(JobResult::NodeLost));
        let cancelled = "slurmstepd-node1: error: *** JOB 22 ON node1 CANCELLED AT 2026-11-22T20:14:13 ***\n";
        assert_eq!(result_in_log(cancelled), None);
        // As slurmstepd 24.11.5 wrote it.
        let preempted =
            "slurmstepd-node1: error: *** JOB 6 ON node1 CANCELLED AT 2026-11-25T14:13:38 DUE TO PREEMPTION ***\n";
        assert_eq!(result_in_log(preempted), Some(JobResult::Preempted));
        // The manual of 24.11 has this; a program that says the same is not believed.
        let cgroup = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been \
            OOM Killed.\n";
        assert_eq!(result_in_log(cgroup), Some(JobResult::Memory));
        assert_eq!(result_in_log("error: exceeded memory limit\n"), None);
    }
}
