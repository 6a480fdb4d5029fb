//! The sampler against real processes, and what a look costs.

use std::time::Duration;

use flow_core::AttemptId;
use flow_supervisor::{
    attempt::Folder,
    keeper::{Event, Keeper, Request, Start},
    sampler::{Sampler, whole},
};

/// Burns CPU and writes in the main process, in a child that ends and is reaped, and in a daemon that is not.
const BURN: &str = "
import os, sys, time
def write(name, mib):
    with open(name, 'wb') as file:
        file.write(os.urandom(mib << 20)); file.flush(); os.fsync(file.fileno())
def burn(s):
    end = time.process_time() + s
    while time.process_time() < end: pass
if os.fork() == 0:
    burn(0.4); write('child', 8); os._exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        write('daemon', 4); burn(60)
    os._exit(0)
held = bytearray(os.urandom(1 << 20) * 64)
burn(1.2)
os.wait(); os.wait()
";

#[test]
fn a_whole_tree_is_seen_daemons_included() {
    // In the target folder: what a file system in memory takes is not written to storage.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut keeper =
            Keeper::spawn(env!("CARGO_BIN_EXE_flow-supervisor-test-engine").as_ref(), &dir.path().join("keeper.json"))
                .unwrap();
        let sampler = Sampler::start(keeper.pid(), None).unwrap();
        let folder = Folder::create(dir.path().join("1")).unwrap();
        keeper.send(&Request::Start(Start {
            attempt: AttemptId(7),
            argv: vec!["python3".into(), "-c".into(), BURN.into()],
            env: vec![("PATH".into(), std::env::var("PATH").unwrap())],
            cwd: folder.work(),
            folder: folder.path().to_owned(),
            secrets: Vec::new(),
        }));
        let exit = loop {
            match tokio::time::timeout(Duration::from_secs(60), keeper.next_event()).await.unwrap().unwrap() {
                Event::Started { attempt, pid } => sampler.track(attempt, pid),
                Event::Exited { exit, .. } => break exit,
                Event::SpawnFailed { reason, .. } => panic!("{reason}"),
            }
        };
        let (samples, cost) = sampler.untrack(AttemptId(7));
        assert!(cost < 0.1, "{cost} of a core");
        assert_eq!(exit.swept, 1);
        let window = (exit.started_at, exit.ended_at);
        let sampled = samples.usage(whole(&exit), &[window], 2);
        let known = samples.usage(whole(&exit), &[], 2);
        eprintln!("sampled {sampled:?}\nknown {known:?}\nhost {:?}", samples.load(&[]));
        assert!(known.cpu_s > Some(1.6), "the daemon's time is in the record: {known:?}");
        assert!(known.samples >= 2);
        let (seen, whole) = (sampled.cpu_cores.unwrap(), known.cpu_cores.unwrap());
        assert!((seen / whole - 1.0).abs() < 0.35, "{seen} {whole}");
        assert!(known.rss_peak >= Some(64 << 20), "{known:?}");
        // Written and synced by a child, and by a daemon that nobody waited for, in the last moment.
        assert!(known.disk_written >= Some(12 << 20), "{known:?}");
        let load = samples.load(&[]);
        assert!([load.foreign_cpu, load.cpu_saturated].iter().all(|share| (0.0..=1.0).contains(&share.unwrap())));
        let series = samples.series(exit.started_at, 2);
        assert_eq!(series["cpu"].len(), known.samples as usize);
    });
}
