//! A training that diverges, as a plugin in Python tells it: `json.dumps` writes NaN and Infinity, which no JSON holds. People read
//! NaN wherever they would read the number, and everything else goes on.

use serde_json::Value;

use crate::space;

const MANIFEST: &str = "
plugin: 1
name: net
version: 0.1.0
content: [plugin.yaml, net.py]
start: [python3, ./net.py]
steps:
  train:
    with:
      type: object
      additionalProperties: false
      properties: {lr: {type: number}, epochs: {type: integer, default: 4}}
  count:
    with: {type: object, properties: {of: {type: array}}}
";

/// Descends a parabola: beyond a learning rate of 1 it climbs instead.
const NET: &str = r#"
import json, os, time

attempt = os.environ["FLOW_ATTEMPT"]
request = json.load(open(f"{attempt}/request.json"))


def tell(kind, **fields):
    with open(f"{attempt}/messages.jsonl", "a") as file:
        file.write(json.dumps({"at": time.time(), "type": kind, **fields}) + "\n")


tell("hello", protocol=1, plugin="net", version="0.1.0")
if request["step"] == "count":
    for trained in request["with"]["of"]:
        assert "train_loss" in trained["metrics"], trained
        tell("metric", name=f"rate_{trained['axes']['lr']}".replace(".", "_"), value=trained["metrics"]["train_loss"])
else:
    x = 1.0
    for epoch in range(1, request["with"]["epochs"] + 1):
        began = time.time()
        time.sleep(0.05)
        for _ in range(100):
            x -= request["with"]["lr"] * 2 * x
        loss = x * x
        tell("metric", name="train_loss", value=loss, epoch=epoch)
        tell("metric", name="top1", value=1 - 0 * loss, unit="ratio", epoch=epoch)
        tell("metric", name="samples_per_s", value=100 + 0 * loss, epoch=epoch, summary="mean")
        tell("epoch", epoch=epoch, started_at=began, ended_at=time.time())
tell("outcome", outcome="ok")
"#;

const WORKFLOW: &str = r#"
flow: 1
name: rates
params: {rates: [0.1, 0.2, 10]}
steps:
  train:
    matrix: {lr: "${{ rates }}"}
    uses: net/train
    with: {lr: "${{ lr }}"}
    exclusive: true
  together:
    like: train
    corun: {group: all, gpus: own}
  count:
    uses: net/count
    with: {of: "${{ steps.train }}"}
  table:
    uses: flow/table
    with: {from: train, rows: lr, columns: [train_loss, growth(train_loss), top1, ratio(top1), samples_per_s, speedup(samples_per_s)]}
  report:
    uses: flow/report
    with: {languages: [en, zh], sections: [{table: table, corun: together}]}
"#;

#[test]
fn a_loss_that_diverges_reads_nan_wherever_a_number_would_stand() {
    let space = space();
    space.write("plugins/net/plugin.yaml", MANIFEST).write("plugins/net/net.py", NET).write("rates.yaml", WORKFLOW);
    let said = space.flow(["run", "-v", "rates.yaml"]).expect(0).text();
    assert!(said.contains("train_loss NaN"), "{said}");
    assert!(!said.contains("of the protocol") && !said.contains("NaN %"), "{said}");
    let notes: Vec<&str> = said.lines().filter(|line| line.contains("note") && line.contains("train[lr=10]")).collect();
    assert!(notes.iter().any(|line| line.contains("`train_loss` is NaN from epoch 2 on")), "{notes:?}");

    let shown = space.flow(["show", "train[lr=10]"]).expect(0).stdout();
    assert!(shown.lines().any(|line| line.trim_end().ends_with("NaN") && line.contains("top1")), "{shown}");
    let kept = space.flow(["show", "train[lr=10]", "--json"]).expect(0);
    let kept: Value = serde_json::from_slice(kept.raw()).unwrap();
    assert_eq!(kept["metrics"]["train_loss"]["value"], Value::Null);
    let counted = space.flow(["show", "count", "--json"]).expect(0);
    let counted: Value = serde_json::from_slice(counted.raw()).unwrap();
    assert_eq!(counted["metrics"]["rate_10"]["value"], Value::Null, "as another step reads it: {counted}");

    let table = space.flow(["show", "table"]).expect(0).stdout();
    let row = |lr: &str| {
        let of = table.lines().find(|line| line.starts_with('|') && line.split('|').nth(1).map(str::trim) == Some(lr));
        of.unwrap_or_else(|| panic!("{table}")).to_owned()
    };
    assert!(row("10").matches("NaN").count() >= 3, "{table}");
    assert!(!row("0.2").contains("NaN"), "{table}");
    let report = space.flow(["show", "report", "--lang", "zh"]).expect(0).stdout();
    assert!(report.contains("NaN") && !report.contains("inf"), "{report}");

    // Nothing of it is lost between the journal, the database and the next run.
    let again = space.flow(["run", "rates.yaml"]).expect(0).stdout();
    assert!(again.contains("nothing to do"), "{again}");
    let doctor = space.flow(["doctor"]).expect(0).text();
    assert!(!doctor.contains("damaged"), "{doctor}");
    let wider = space.flow(["run", "-v", "rates.yaml", "--set", "rates=[0.1, 0.2, 10, 20]"]).expect(0).text();
    assert!(wider.contains("train_loss NaN"), "{wider}");
}
