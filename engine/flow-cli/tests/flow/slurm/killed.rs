//! flow is killed at random moments, again and again.

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::Lab;
use crate::counted::{once, sweep};

/// So many times; and so many steps, so that some are left for the last run.
const KILLS: u32 = 20;
const STEPS: u32 = 24;

#[test]
fn flow_killed_at_twenty_random_moments_does_every_step_once() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = std::env::var("FLOW_TEST_SEED").map_or(u64::from(now) | 1, |seed| seed.parse().unwrap());
    let mut state = seed;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let lab = Lab::new(2, 2, &sweep(STEPS, 2, "gpus: 1"));
    let mut moments = Vec::new();
    for _ in 0..KILLS {
        let mut flow = lab.space.start(["run", "w.yaml"]);
        // Now at its beginning, now in the middle of what it does.
        let most = if random(2) == 0 { 300 } else { 2_000 };
        let after = random(most);
        moments.push(after);
        thread::sleep(Duration::from_millis(after));
        flow.kill();
    }
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    let context = format!("FLOW_TEST_SEED={seed}, killed after {moments:?} ms\n{text}");
    assert_eq!((lab.lines("began"), lab.lines("did")), (once(STEPS), once(STEPS)), "{context}");
    assert_eq!(lab.queue(), "", "{context}");
    let left = flow_testkit::files_below(&lab.space.path(".flow/runs"));
    let left: Vec<_> = left.iter().filter(|path| path.to_string_lossy().contains("/jobs/")).collect();
    assert!(left.is_empty(), "{left:?}\n{context}");
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).stdout();
    assert!(text.contains(&format!("nothing to do: {STEPS} results cached")), "{text}\n{context}");
}
