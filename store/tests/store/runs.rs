//! Journals and status files: whole lines or none, whoever reads them and whenever.

use std::{fs, io::Write, ops::ControlFlow};

use flow_core::{InstanceId, JournalLine, Outcome, RunEvent, RunId};
use flow_runs::{EndRequest, Follow, RunDir, Status, StoreDir, StoreError, UnreadableParts};

use crate::common::{me, open_for_run, scratch};

fn settled(n: u32) -> JournalLine {
    let event = RunEvent::Settled { instance: InstanceId(n), outcome: Outcome::Skipped, cause: None };
    JournalLine { at: 1_000 + u64::from(n), event }
}

fn read(run: &RunDir) -> Result<(Vec<JournalLine>, UnreadableParts), StoreError> {
    let mut lines = vec![];
    let unread = run.read_journal(|line| lines.push(line))?;
    Ok((lines, unread))
}

fn append_raw(run: &RunDir, bytes: &[u8]) {
    fs::File::options().append(true).open(run.journal()).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_torn_or_unknown_line_costs_itself_only() {
    let dir = scratch();
    let run = StoreDir::create(dir.path()).unwrap().run(&RunId("20260208-1".into()));
    let journal = run.create().unwrap();
    journal.append(&[settled(0), settled(1)]).unwrap();
    append_raw(&run, b"{\"at\":1,\"event\":\"of_a_later_flow\"}\n\xff\xfe\n");
    journal.append(&[settled(2)]).unwrap();
    append_raw(&run, b"{\"at\":1,\"ev");
    let lines = vec![settled(0), settled(1), settled(2)];
    assert_eq!(read(&run).unwrap(), (lines, UnreadableParts { lines: 2, torn: true }));
    assert!(run.create().is_err(), "a run's folder is made once");
}

#[test]
fn a_journal_of_a_newer_flow_is_refused() {
    let dir = scratch();
    let run = StoreDir::create(dir.path()).unwrap().run(&RunId("20260208-1".into()));
    run.create().unwrap();
    let start = r#"{"at":1,"event":"run_started","format":99,"run":"20260208-1","flow":"9.0.0","file":"a.yaml","workflow":"a",
        "params":{},"policy":"fit","machine":{"gpus":[],"cpus":2,"cpu_model":"","memory":1},"instances":0,"pid":1}"#;
    append_raw(&run, (start.replace('\n', "") + "\n").as_bytes());
    assert!(matches!(read(&run), Err(StoreError::Newer { found: 99, .. })));
    assert!(matches!(Follow::new(run.journal()).poll(), Err(StoreError::Newer { .. })));
}

#[test]
fn a_follower_sees_each_line_once_and_whole() {
    let dir = scratch();
    let run = StoreDir::create(dir.path()).unwrap().run(&RunId("20260208-1".into()));
    let mut follow = Follow::new(run.journal());
    assert_eq!(follow.poll().unwrap(), [], "before there is a journal");
    let journal = run.create().unwrap();
    journal.append(&[settled(0)]).unwrap();
    assert_eq!(follow.poll().unwrap(), [settled(0)]);
    let line = serde_json::to_string(&settled(1)).unwrap() + "\n";
    let (half, rest) = line.split_at(20);
    append_raw(&run, half.as_bytes());
    assert_eq!(follow.poll().unwrap(), []);
    append_raw(&run, rest.as_bytes());
    journal.append(&[settled(2)]).unwrap();
    assert_eq!(follow.poll().unwrap(), [settled(1), settled(2)]);
    assert_eq!(follow.poll().unwrap(), []);
}

#[test]
fn runs_are_listed_by_time_with_their_status() {
    let dir = scratch();
    let store = StoreDir::create(dir.path()).unwrap();
    for id in ["20260209-080000-aaaa", "20260208-153012-3f2a"] {
        store.run(&RunId(id.into())).create().unwrap();
    }
    let runs = store.runs().unwrap();
    assert_eq!(
        runs.iter().map(|run| run.0.as_str()).collect::<Vec<_>>(),
        ["20260208-153012-3f2a", "20260209-080000-aaaa"]
    );
    let run = store.run(&runs[0]);
    assert_eq!(run.status().unwrap(), None);
    let status = Status {
        run: runs[0].clone(),
        workflow: "feb08".into(),
        file: "workflows/feb08.yaml".into(),
        pid: 7,
        started_at: 1,
        updated_at: 2,
        ended: Some(0),
        instances: 3,
        counts: [("cached".into(), 3)].into(),
        running: vec![],
        waiting: vec![],
    };
    run.write_status(&status).unwrap();
    assert_eq!(run.status().unwrap(), Some(status));
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 2, "nothing half written is left");
    assert_eq!(StoreDir::existing(&dir.path().join("nothing")).unwrap().map(|_| ()), None);
}

#[test]
fn a_run_is_told_to_end_by_a_file_that_it_takes() {
    let dir = scratch();
    let store = StoreDir::create(dir.path()).unwrap();
    let run = store.run(&RunId("20260208-1".into()));
    run.create().unwrap();
    assert_eq!((run.should_end(), run.take_end()), (false, None));
    run.request_end(EndRequest::Soon).unwrap();
    run.request_end(EndRequest::Soon).unwrap();
    assert!(run.should_end());
    assert_eq!((run.take_end(), run.take_end()), (Some(EndRequest::Soon), None));
    run.request_end(EndRequest::Soon).unwrap();
    run.request_end(EndRequest::Now).unwrap();
    assert_eq!((run.take_end(), run.should_end()), (Some(EndRequest::Now), false));
    let by_hand = std::os::unix::fs::chown(run.path(), Some(0), None).is_ok();
    if by_hand {
        let file = run.path().join("cancel");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
        assert_eq!(run.take_end(), None, "somebody else's word");
        run.request_end(EndRequest::Soon).unwrap();
        assert_eq!(run.take_end(), Some(EndRequest::Soon), "which keeps nobody's own from being heard");
    } else {
        println!("not root: that others are not obeyed is not tested");
    }
    let gone = store.run(&RunId("20260208-2".into()));
    assert!(gone.request_end(EndRequest::Soon).is_err());
}

#[test]
fn a_run_that_never_began_leaves_nothing() {
    let dir = scratch();
    let name = |id: &'static str| move |_: &[RunId]| RunId(id.into());
    let opened = |id| open_for_run(dir.path(), &me("flow run a.yaml"), name(id), |_| ControlFlow::Break(()));
    let (store, run) = opened("20260208-1").unwrap();
    let folder = store.dir().run(&run);
    assert!(folder.path().is_dir(), "it can be told to end");
    folder.request_end(EndRequest::Now).unwrap();
    drop(store);
    let (store, run) = opened("20260208-2").unwrap();
    assert_eq!(store.dir().runs().unwrap(), [run]);
}
