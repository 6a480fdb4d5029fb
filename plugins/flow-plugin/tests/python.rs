//! The example of a plugin in Python keeps to the protocol, as the Rust side reads it.

use std::path::Path;
use std::process::Command;

use flow_plugin::harness::Harness;
use flow_plugin::protocol::Message;

fn darts() -> Command {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    Command::new(examples.join("python-plugin/plugins/darts/darts.py"))
}

#[test]
fn the_python_example_speaks_the_protocol() {
    let run = |seed| {
        let harness = Harness::new("estimate").with("darts", 1000).with("rounds", 3).seed(seed);
        let report = harness.output("out", "out/pi.txt").run(&mut darts());
        report.expect_ok();
        let epochs = report.messages.iter().filter(|message| matches!(message, Message::Epoch { .. })).count();
        assert_eq!(epochs, 3);
        report.series("pi")
    };
    assert!((run(0)[2] - std::f64::consts::PI).abs() < 0.2);
    assert_eq!(run(0), run(0));
    assert_ne!(run(0), run(1));
}

#[test]
fn an_exception_in_python_is_a_failure_with_its_words_in_the_log() {
    let report = Harness::new("estimate").with("dart", 1).output("out", "out/pi.txt").run(&mut darts());
    assert_eq!(report.expect_failed(), "ended without an outcome");
    assert!(report.log.contains("unexpected keyword argument 'dart'"), "{}", report.log);
}
