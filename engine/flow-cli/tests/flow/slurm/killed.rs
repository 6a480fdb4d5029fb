//! flow is killed, at random moments, again and again; and what becomes of arrays that it has left.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flow_testkit::until;
use nix::sys::signal::Signal;

use super::{HEAD, Lab};
use crate::counted::{COUNT_ONCE_ON, once, sweep};

/// So many times; and so many steps, so that some are left for the last run.
const KILLS: u32 = 8;
const STEPS: u32 = 16;

#[test]
#[ignore = "needs Slurm"]
fn flow_killed_at_random_moments_does_every_step_once() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = std::env::var("FLOW_TEST_SEED").map_or(u64::from(now) | 1, |seed| seed.parse().unwrap());
    let mut state = seed;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let lab = Lab::new(2, 2, &sweep(STEPS, 1, "gpus: 1"));
    let mut moments = Vec::new();
    for _ in 0..KILLS {
        let mut flow = lab.space.start(["run", "w.yaml"]);
        // Now at its beginning, now in the middle of what it does.
        let most = if random(2) == 0 { 300 } else { 1_000 };
        let after = random(most);
        moments.push(after);
        thread::sleep(Duration::from_millis(after));
        flow.kill();
    }
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    let context = format!("FLOW_TEST_SEED={seed}, killed after {moments:?} ms\n{text}");
    assert_eq!((lab.lines("began"), lab.lines("did")), (once(STEPS), once(STEPS)), "{context}");
    assert_eq!(lab.queue(), "", "{context}");
    assert_eq!(written_down(&lab), Vec::<PathBuf>::new(), "{context}");
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).stdout();
    assert!(text.contains(&format!("nothing to do: {STEPS} results cached")), "{text}\n{context}");
}

/// What is written down of jobs in the folders of all runs.
fn written_down(lab: &Lab) -> Vec<PathBuf> {
    let files = flow_testkit::files_below(&lab.space.path(".flow/runs"));
    files.into_iter().filter(|path| path.to_string_lossy().contains("/jobs/")).collect()
}

#[test]
#[ignore = "needs Slurm"]
fn tasks_that_wait_and_that_an_edit_makes_useless_are_ended_and_no_others_of_their_array() {
    let lab = Lab::new(1, 1, &sweep(6, 2, "gpus: 1"));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("one runs and five wait", || lab.queue().lines().count() == 6 && !lab.lines("began").is_empty());
    flow.kill();
    let status = lab.space.flow(["status"]).expect(0).stdout();
    assert!(status.contains(" still in Slurm (") && status.contains("  count[n=5]: job "), "{status}");
    lab.space.write("w.yaml", &format!("{HEAD}{}", sweep(3, 2, "gpus: 1")));
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0).text();
    let ended = "3 jobs of run RUN continue, which this plan does not need; `flow run` cancels them";
    assert!(planned.contains(ended), "{planned}");
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(text.contains("done: 3 collected") && !text.contains("tried again"), "{text}");
    let begins = |verb: &str, n: u32| text.contains(&format!("{verb}         count[n={n}] "));
    assert!(begins("queued", 1) && begins("queued", 2) && !begins("queued", 0), "{text}");
    assert_eq!((lab.lines("began"), lab.lines("did")), (once(3), once(3)), "{text}");
    lab.expect_no_job();
}

/// The same workspace, and a run of it that was killed while so many jobs wait in its cluster's queue, whose nodes take none.
fn left_waiting(lab: &Lab, jobs: usize) {
    lab.scontrol(["update", "nodename=node1", "state=drain", "reason=test"]);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("all wait", || lab.queue().lines().count() == jobs);
    flow.kill();
}

#[test]
#[ignore = "needs Slurm"]
fn a_run_that_is_told_to_end_leaves_no_job_of_a_killed_one() {
    let lab = Lab::new(1, 0, &sweep(40, 60, ""));
    for after in [0, 20] {
        left_waiting(&lab, 40);
        let mut flow = lab.space.start(["run", "w.yaml"]);
        until("it has taken one up", || flow.output().contains("is not submitted again"));
        thread::sleep(Duration::from_millis(after));
        flow.signal(Signal::SIGINT);
        assert_eq!(flow.wait().code(), Some(130), "{after} ms: {}", flow.output());
        let left = lab.queue();
        assert_eq!(left, "", "{after} ms: {}", flow.output());
    }
}

#[test]
#[ignore = "needs Slurm"]
fn a_run_of_one_step_that_is_told_to_end_leaves_the_jobs_of_others() {
    let other = sweep(3, 60, "").replace("count:", "other:");
    let lab = Lab::new(1, 0, &[sweep(3, 60, ""), other].concat());
    left_waiting(&lab, 6);
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("poll: 1s", "poll: 1s, jobs: 1"));
    let mut flow = lab.space.start(["run", "w.yaml", "count"]);
    until("it has taken one up", || flow.output().contains("is not submitted again"));
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(flow.output().contains("2 jobs that an earlier run left"), "{}", flow.output());
    assert_eq!(lab.queue().lines().count(), 3, "{}", flow.output());
}

#[test]
#[ignore = "needs Slurm"]
fn what_another_run_of_the_store_may_follow_is_not_ended() {
    let lab = Lab::new(1, 0, &sweep(4, 60, ""));
    left_waiting(&lab, 4);
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("poll: 1s", "poll: 1s, jobs: 1"));
    lab.space.write("other.yaml", "flow: 1\nname: other\nsteps: {a: {run: sleep 60}}\n");
    let mut other = lab.space.start(["run", "other.yaml"]);
    until("it runs", || other.output().contains("started"));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it has taken one up", || flow.output().contains("is not submitted again"));
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(flow.output().contains("another run of this store may follow them: 3"), "{}", flow.output());
    assert_eq!(lab.queue().lines().count(), 3, "{}", flow.output());
    other.kill();
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("what was ended is asked for again", || lab.queue().lines().count() == 4);
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn the_log_of_a_job_that_a_killed_run_has_left_is_followed_to_its_end() {
    let run = "echo first; touch $HOME/began; sleep 2; echo second; sleep 0.5; printf last";
    let lab = Lab::new(1, 0, &format!("\n  a: {{run: '{run}'}}\n"));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it runs", || lab.space.path("began").exists());
    flow.kill();
    let show = || lab.space.flow(["show", "a"]).expect(0).stdout();
    assert!(show().contains("flow was killed, and its job may continue in Slurm"), "{}", show());
    assert_eq!(lab.space.flow(["logs", "a", "-f"]).expect(0).stdout(), "first\nsecond\nlast\n");
    assert!(show().contains("it has ended since, and the next run collects its result"), "{}", show());
    lab.space.flow(["run", "w.yaml"]).expect(0);
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn a_training_with_other_metrics_goes_on_but_not_beside_a_job_that_was_left() {
    let steps = |summary: &str| {
        let metrics = format!("{{stdout: 'epoch {{epoch}} acc {{acc}}', summary: {{acc: {summary}}}}}");
        format!("\n  train: {{run: sh train.sh, inputs: [train.sh], metrics: {metrics}}}\n")
    };
    let lab = Lab::new(1, 0, &steps("max"));
    let train = "n=$(($(cat $FLOW_CHECKPOINT/n 2>/dev/null || echo 0) + 1)); echo \"epoch $n acc $n\"
        echo $n > $FLOW_CHECKPOINT/n; echo $n >> $HOME/began; until [ -e $HOME/end ]; do sleep 0.1; done";
    lab.space.write("train.sh", train);
    let began = |summary: &str, of: u32| {
        lab.space.write("w.yaml", &format!("{HEAD}{}", steps(summary)));
        let flow = lab.space.start(["run", "w.yaml"]);
        until("it has begun", || lab.lines("began").values().sum::<u32>() == of);
        flow
    };
    let mut flow = began("max", 1);
    flow.signal(Signal::SIGINT);
    flow.wait();
    began("min", 2).kill();
    let mut flow = began("max", 3);
    lab.space.write("end", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    let began = lab.lines("began").into_iter().collect::<Vec<_>>();
    assert_eq!(began, [("1".to_owned(), 2), ("2".to_owned(), 1)], "the last one begins apart: {}", flow.output());
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn what_a_killed_run_left_is_followed_whatever_on_says_now() {
    let anywhere = |steps: &str| HEAD.replace("on: slurm\n", "") + steps;
    let steps = sweep(2, 0, "");
    let mut lab = Lab::new(1, 0, &steps);
    for (first, next, place) in [
        (&["--on", "slurm"][..], &[][..], "as a job of Slurm since run"),
        (&["--on", "slurm"], &["--on", "local"], "as a job of Slurm since run"),
        (&["--detach"], &["--on", "slurm"], "since run"),
    ] {
        lab = lab.anew(&steps);
        lab.space.write("w.yaml", &anywhere(&steps)).write("count.sh", COUNT_ONCE_ON);
        let began = || lab.lines("began") == once(2);
        if first == ["--detach"] {
            lab.space.flow(["run", "w.yaml", "--detach", "-j", "2"]).expect(0);
            until("both run", began);
            let status = lab.space.flow(["status", "--json"]).expect(0).stdout();
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
            crate::detached::kill_it(pid);
        } else {
            let mut flow = lab.space.start([&["run", "w.yaml"], first].concat());
            until("both run", began);
            flow.kill();
            let runs = lab.space.flow(["runs"]).expect(0).stdout();
            assert!(runs.contains("--on slurm"), "{runs}");
        }
        let planned = lab.space.flow([&["plan", "w.yaml"], next].concat()).expect(0).stdout();
        assert!(planned.contains(&format!("count × 2  {place}")) && planned.contains("2 running\n"), "{planned}");
        lab.space.write("on", "");
        let text = lab.space.flow([&["run", "w.yaml"], next].concat()).expect(0).text();
        assert_eq!((lab.lines("began"), lab.lines("did")), (once(2), once(2)), "{text}");
        lab.expect_no_job();
        if first != ["--detach"] && next.is_empty() {
            let runs = fs::read_dir(lab.space.path(".flow/runs")).unwrap().flatten();
            let mut runs: Vec<String> = runs.map(|run| run.file_name().into_string().unwrap()).collect();
            runs.sort();
            let differ = lab.space.flow(["diff", &runs[0], &runs[1]]).expect(0).stdout();
            assert!(!differ.contains("default"), "both ran on Slurm: {differ}");
        }
    }
}

#[test]
#[ignore = "needs Slurm"]
fn jobs_of_a_killed_run_that_was_forced_are_collected_by_the_next_run_forced_or_not() {
    let steps = sweep(2, 0, "");
    let twice = |lab: &Lab, file: &str| lab.lines(file).values().copied().collect::<Vec<_>>() == [2, 2];
    let mut lab = Lab::new(1, 0, &steps);
    for (next, have_ended) in [(&[][..], false), (&["-f"], true)] {
        lab = lab.anew(&steps);
        lab.space.write("count.sh", COUNT_ONCE_ON).write("on", "").flow(["run", "w.yaml"]).expect(0);
        fs::remove_file(lab.space.path("on")).unwrap();
        let mut flow = lab.space.start(["run", "w.yaml", "-f", "count"]);
        until("both run again", || twice(&lab, "began"));
        flow.kill();
        if have_ended {
            lab.space.write("on", "");
            until("both have ended", || twice(&lab, "did"));
            lab.expect_no_job();
        }
        let runs = lab.space.flow(["runs"]).expect(0).stdout();
        assert!(runs.contains("-f count"), "{runs}");
        let planned = lab.space.flow([&["run", "w.yaml", "-n"], next].concat()).expect(0).stdout();
        let (listed, counted) = match have_ended {
            true => ("count × 2  since run", "2 ended since\n"),
            false => ("count × 2  as a job of Slurm since run", "2 running\n"),
        };
        assert!(planned.contains(listed) && planned.contains(counted), "{planned}");
        lab.space.write("on", "");
        let text = lab.space.flow([&["run", "w.yaml"], next].concat()).expect(0).text();
        assert!(twice(&lab, "began") && twice(&lab, "did"), "{text}");
        assert_eq!((lab.results().len(), written_down(&lab)), (2, Vec::new()), "the new results count: {text}");
        let inputs = &lab.results()["count[n=1]"]["kept"]["inputs"];
        assert!(inputs["count.sh"]["digest"].is_string(), "as of a run that was not killed: {inputs}");
        lab.expect_no_job();
        let text = lab.space.flow(["run", "w.yaml"]).expect(0).stdout();
        assert!(text.contains("nothing to do: 2 results cached"), "{text}");
    }
}
