//! Published traces against their published results: two public simulators and an independent one agree on them.

use flow_core::Time;
use flow_core::sched::{Limits, policy};
use flow_sim::{Cluster, Simulation, Summary, trace, waiting_over_time};

fn jobs(text: &str) -> Result<Vec<trace::Job>, Vec<trace::TraceError>> {
    Ok(trace::read(text, &trace::Columns::default())?.jobs)
}

const TIRESIAS: &str = include_str!("data/tiresias_60.csv");
const PHILLY: &str = include_str!("data/philly_2869ce_992.csv");

fn run(text: &str, cluster: &str, policy: Box<dyn policy::Policy>) -> Summary {
    let cluster = Cluster::parse(cluster).unwrap();
    let tasks = trace::tasks(&jobs(text).unwrap());
    let name = policy.name();
    let simulation = Simulation::new(tasks.clone(), cluster.capacity(), policy, Limits::simulated()).unwrap();
    let small = tasks.len() < 100;
    let schedule = simulation
        .run(|scheduler, _| {
            if small {
                scheduler.check().unwrap()
            }
        })
        .unwrap();
    Summary::of(name, &tasks, &schedule, cluster.total())
}

/// Policy, makespan, mean time in system, mean waiting, p50, p99.
type Answer = (&'static str, [f64; 5]);

fn agree(text: &str, cluster: &str, answers: &[Answer]) {
    let mut wrong = String::new();
    for (name, expected) in answers {
        let is = run(text, cluster, policy::named(name).unwrap());
        let values = [
            is.makespan_s,
            is.mean_time_in_system_s,
            is.mean_waiting_s,
            is.p50_time_in_system_s,
            is.p99_time_in_system_s,
        ];
        // What is published ends after three digits.
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(500.0);
        if !values.iter().zip(expected).all(close) {
            wrong += &format!("{name} gives {values:?}, expected {expected:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn tiresias() {
    agree(
        TIRESIAS,
        "1x8",
        &[
            ("fifo", [5_747.0, 1_556.483, 1_378.067, 1_421.0, 3_997.0]),
            ("fit", [4_806.0, 715.267, 536.850, 152.0, 3_424.0]),
            ("sjf", [5_847.0, 1_043.467, 865.050, 303.0, 4_376.0]),
            ("srtf", [4_901.0, 519.867, 341.450, 143.0, 3_430.0]),
            ("srsf", [4_962.0, 563.383, 384.967, 152.0, 4_294.0]),
        ],
    );
}

#[test]
fn philly() {
    agree(
        PHILLY,
        "8x8",
        &[
            ("fifo", [8_171_961.0, 991_167.015, 944_302.161, 1_143_209.0, 1_696_723.0]),
            ("fit", [8_171_961.0, 480_104.773, 433_239.919, 376_580.0, 3_746_037.0]),
            ("easy", [8_171_961.0, 421_204.056, 374_339.203, 257_266.0, 1_386_450.0]),
            ("sjf", [8_171_961.0, 262_106.859, 215_242.005, 41_720.0, 4_999_189.0]),
            ("srtf", [8_171_961.0, 180_116.346, 133_251.492, 3_628.0, 4_280_559.0]),
            ("srsf", [8_171_961.0, 172_683.743, 125_818.889, 3_628.0, 3_580_618.0]),
            ("las", [8_171_961.0, 327_259.428, 280_394.575, 11_625.0, 4_939_313.0]),
        ],
    );
}

/// V trades the order of arrival for short service. Mean and p99 in thousands of seconds, of an independent simulator.
#[test]
fn lyapunov_lies_between_arrival_and_shortest_service() {
    for (v, mean, p99) in [(0.0, 421, 1386), (1.0, 265, 2549), (10.0, 233, 4563)] {
        let is = run(PHILLY, "8x8", Box::new(policy::Lyapunov { v }));
        let thousands = |s: f64| (s / 1e3).round() as i64;
        let values = (thousands(is.mean_time_in_system_s), thousands(is.p99_time_in_system_s));
        assert_eq!(values, (mean, p99), "V = {v}");
    }
}

#[test]
fn the_same_trace_gives_the_same_events() {
    let tasks = trace::tasks(&jobs(TIRESIAS).unwrap());
    for (name, make) in policy::POLICIES.iter().filter(|(name, _)| !name.ends_with("-single")) {
        let capacity = Cluster { nodes: 1, gpus: 8 }.capacity();
        let log =
            || Simulation::new(tasks.clone(), capacity.clone(), make(), Limits::simulated()).unwrap().run(|_, _| {});
        assert_eq!(log(), log(), "{name}");
    }
}

/// What waits over time adds up to how long each waited.
#[test]
fn who_waits_over_time_is_who_waited() {
    let tasks = trace::tasks(&jobs(TIRESIAS).unwrap());
    for name in ["fifo", "easy", "srtf"] {
        let policy = policy::named(name).unwrap();
        let capacity = Cluster { nodes: 1, gpus: 8 }.capacity();
        let schedule =
            Simulation::new(tasks.clone(), capacity, policy, Limits::simulated()).unwrap().run(|_, _| {}).unwrap();
        let waiting = waiting_over_time(&tasks, &schedule);
        let all: f64 = waiting.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0)).sum();
        let mean = Summary::of(name, &tasks, &schedule, 8).mean_waiting_s;
        assert!((all / tasks.len() as f64 - mean).abs() < 1e-6, "{name}: {all} s of all, {mean} s each");
        assert_eq!(waiting.last().map(|(_, many)| *many), Some(0.0), "{name}");
    }
}

#[test]
fn a_bad_trace_is_told_line_by_line() {
    let told = |text: &str| {
        let errors = jobs(text).unwrap_err();
        errors.iter().map(|e| format!("{}: {e}\n   {}\n", e.line, e.help)).collect::<String>()
    };
    assert_eq!(
        told("job,submit_s,num_gpu,duration_s\n1,2,3,4\n"),
        "1: there is no column `job_id`\n   \
         the first line names job, submit_s, num_gpu, duration_s; a trace has job_id,submit_s,num_gpus,duration_s\n"
    );
    let rows = "job_id,submit_s,num_gpus,duration_s,priority\na,-1,1,5,\nb,0,1,,0\nc,x,2.5,1e99,high\nd,0,1\n";
    assert_eq!(
        told(rows),
        "2: submit_s is `-1`, before the trace began\n   shift all times so that the first is 0\n\
         3: duration_s is empty, and a job without it cannot be simulated\n   fill it in, or leave the job out\n\
         4: submit_s is `x`, not a number of seconds\n   write seconds, as 90 or 90.5\n\
         4: num_gpus is `2.5`, not a count of GPUs\n   write 0, 1, 2, …\n\
         4: duration_s is `1e99`, longer than can be simulated\n   write seconds, as 90 or 90.5\n\
         4: priority is `high`, not a whole number\n   write 0 or 3\n\
         5: 3 cells where the first line names 5 columns\n   write one cell per column; an empty cell is unknown\n"
    );
    let lines = |text: &str| jobs(text).unwrap_err().iter().map(|e| e.line).collect::<Vec<_>>();
    assert_eq!(lines(&rows.replace('\n', "\r\n")), [2, 3, 4, 4, 4, 4, 5]);
    assert_eq!(lines(&rows.replace("\nb,", "\n# b\r\n\nb,")), [2, 5, 6, 6, 6, 6, 7], "comments and empty lines count");
    assert_eq!(
        told("job_id,submit_s,num_gpus,duration_s\n"),
        "1: the trace has no jobs\n   write column names, then one job per line\n"
    );
    let jobs = jobs("job_id,submit_s,num_gpus,duration_s\na,0,1,5\nb,0,16,5\n").unwrap();
    let wide = trace::too_wide(&jobs, 8, None);
    assert_eq!((wide.len(), wide[0].line, &*wide[0].to_string()), (1, 3, "job b asks for 16 GPUs, and there are 8"));
    assert_eq!(trace::too_wide(&jobs, 64, Some("sjf-single"))[0].help, "use `sjf`, or leave such jobs out");
}

/// Jobs as `id submitted+duration gpus`, and what is told of others.
fn read(text: &str, columns: &str) -> String {
    let columns = if columns.is_empty() { trace::Columns::default() } else { trace::Columns::parse(columns).unwrap() };
    match trace::read(text, &columns) {
        Ok(trace) => {
            let seconds = |from: Time, to: Time| (to - from).as_secs_f64();
            let job = |job: &trace::Job| {
                format!("{} {}+{} {}", job.id, seconds(Time(0), job.submitted), job.duration.as_secs_f64(), job.gpus)
            };
            let jobs: Vec<String> = trace.jobs.iter().map(job).collect();
            format!("{}; {} left out, {} rounded", jobs.join(", "), trace.left_out, trace.rounded)
        }
        Err(errors) => errors.iter().map(|e| format!("{}: {e}; {}\n", e.line, e.help)).collect(),
    }
}

#[test]
fn public_traces_are_read_as_they_are_published() {
    let swf = "; Version: 2.2\n; MaxProcs: 128\n\n 1 0 10 100 4 -1 -1 4 3600 -1 1 5 2 -1 1 0 -1 -1\n\
               2 7 -1 50 -1 -1 -1 8 3600 -1 0 5 2 -1 1 0 -1 -1\n3 9 5 -1 -1 -1 -1 4 60 -1 5 5 2 -1 1 0 -1 -1\n\
               4 20 5 30 2 -1 -1 2 60 -1 1 5 2 -1 1 0 -1 -1\n4 20 5 10 2 -1 -1 2 60 -1 2 5 2 -1 1 0 -1 -1\n";
    let tiresias = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n";
    let helios = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
                  7,u1,vc1,8,32,1,COMPLETED,2020-04-01 00:12:11,2020-04-01 00:12:20,2020-04-01 00:13:20,60,9\n\
                  8,u1,vc1,0,4,1,FAILED,2020-04-01 00:12:01,2020-04-01 00:12:01,2020-04-01 00:12:04,3,0\n";
    let pai = "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user\n5,3,4,6,1.0,V100,90,u\n";
    let philly = "jobid,vc,user,submitted_time,num_gpu,run_time\napplication_1,v,u,2017-10-09 07:07:51,4,5.5\n";
    let all = [swf, tiresias, helios, pai, philly].map(|text| read(text, "")).join("\n");
    assert_eq!(
        all,
        "1 0+100 4, 2 7+50 8, 4 20+30 2; 1 left out, 0 rounded\n\
         0 0+164 1; 0 left out, 0 rounded\n\
         8 0+3 0, 7 10+60 8; 0 left out, 0 rounded\n\
         5 4+90 3; 0 left out, 0 rounded\n\
         application_1 0+5.5 4; 0 left out, 0 rounded"
    );
    // The published file is the one whose schedule is known.
    let rows = TIRESIAS.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        format!("{},{},{},{},{},{},30\n", cells[0], cells[2], cells[1], cells[7], cells[6], cells[3])
    });
    let published = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n".to_owned();
    let published = rows.fold(published, |text, row| text + &row);
    assert_eq!(jobs(&published), jobs(TIRESIAS));
}

#[test]
fn columns_are_mapped_and_separated_by_semicolons_and_tabs_too() {
    let own = "\u{feff}job_id;submit_s;num_gpus;duration_s\r\na;0;1;10\r\n";
    assert_eq!(read(own, ""), "a 0+10 1; 0 left out, 0 rounded");
    let tabs = "name\tarrival\tgpus\tlength\trank\na\t0\t1.5\t10\t3\n";
    let mapped = "job_id=name,submit_s=arrival,num_gpus=gpus,duration_s=length,priority=rank";
    assert_eq!(read(tabs, mapped), "a 0+10 2; 0 left out, 1 rounded");
    let wrong =
        ["submit_s", "submit=arrival", "priority=a,priority=b"].map(|text| trace::Columns::parse(text).unwrap_err());
    assert_eq!(
        wrong.join("\n"),
        "`submit_s` is not NAME=COLUMN, as in submit_s=submit_time\n\
         flow reads no column `submit` of a trace; did you mean `submit_s`?\n\
         `priority` is given twice"
    );
}

#[test]
fn every_mistake_of_a_trace_is_told_at_once() {
    let cases = [
        ("Job ID,Submit,GPUs,Duration (s)\na,0,1,10\n", ""),
        ("x,y\na,0\n", ""),
        ("job_id,submit_s,num_gpus,duration_s\na,0,1,10\na,5,1,nan\nb,inf,-1,10\n", ""),
        ("job_id,submit_s,num_gpus,duration_s,num_gpus\na,0,1,10,2\n", ""),
        ("job_id,submit_s,num_gpus,took\na,0,1,10\n", "duration_s=tok"),
        (
            "1 0 10 100 4 -1 -1 4 3600 -1 1 5 2 -1 1 0 -1 -1\n1 x 10 100 4 -1 -1 4 3600 -1 1 5 2 -1 1 0 -1 -1\n1 2 3\n",
            "",
        ),
        ("; SWF\n", "submit_s=start"),
        ("job_id,num_gpu,submit_time,duration\na,1,2020-04-01 00:00:00,5\nb,1,7,5\nc,nan,2020-13-01 00:00:00,\n", ""),
        ("[{\"jobid\": \"application_1\"}]\n", ""),
        ("\n", ""),
    ];
    let told: Vec<String> = cases.map(|(text, columns)| read(text, columns)).to_vec();
    assert_eq!(
        told.join("--\n"),
        "1: there is no column `job_id`; rename `Job ID` to `job_id`, or write --columns 'job_id=Job ID'\n\
         1: there is no column `submit_s`; rename `Submit` to `submit_s`, or write --columns submit_s=Submit\n\
         1: there is no column `num_gpus`; the first line names Job ID, Submit, GPUs, Duration (s); a trace has \
         job_id,submit_s,num_gpus,duration_s\n\
         1: there is no column `duration_s`; rename `Duration (s)` to `duration_s`, or write --columns 'duration_s=Duration (s)'\n\
         --\n\
         1: there is no column `job_id`; the first line names x, y; a trace has job_id,submit_s,num_gpus,duration_s\n\
         1: there is no column `submit_s`; the first line names x, y; a trace has job_id,submit_s,num_gpus,duration_s\n\
         1: there is no column `num_gpus`; the first line names x, y; a trace has job_id,submit_s,num_gpus,duration_s\n\
         1: there is no column `duration_s`; the first line names x, y; a trace has job_id,submit_s,num_gpus,duration_s\n\
         --\n\
         3: job a is already on line 2; give each job an id of its own\n\
         3: duration_s is `nan`, not a number of seconds; write seconds, as 90 or 90.5\n\
         4: submit_s is `inf`, longer than can be simulated; write seconds, as 90 or 90.5\n\
         4: num_gpus is `-1`, not a count of GPUs; write 0, 1, 2, …\n\
         --\n\
         1: there are two columns `num_gpus`; rename one of them\n\
         --\n\
         1: there is no column `tok`; write --columns duration_s=took\n\
         --\n\
         2: the submit time (field 2) is `x`, not a number of seconds; write a number, or -1 for unknown values\n\
         2: job 1 is already on line 1; give each job an id of its own\n\
         3: 3 fields; a job in the Standard Workload Format has 18; write -1 for unknown values\n\
         --\n\
         1: there is no column `start`; columns of the Standard Workload Format have no names: leave --columns out\n\
         --\n\
         3: submit_time is `7`, not a number of seconds; write seconds, as 90 or 90.5\n\
         4: submit_time is `2020-13-01 00:00:00`, not a number of seconds; write seconds, as 90 or 90.5\n\
         4: num_gpu is `nan`, not a count of GPUs; write 0, 0.5, 1, 2, …\n\
         4: duration is empty, and a job without it cannot be simulated; fill it in, or leave the job out\n\
         --\n\
         1: it cannot be read: it is JSON; write a table with column names, then one job per line\n\
         --\n\
         1: the trace has no jobs; write column names, then one job per line\n"
    );
}
